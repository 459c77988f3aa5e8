"""The spool: episodes that are finished but not yet in the journal, one synced file each.

The journal lists episodes by number, so that it is the same for any number of workers. An episode that overtakes an
earlier one waits here for its turn, and so do the failed attempts of an episode that is being tried again: whatever
kills the process, nothing that was finished is run a second time. A file is one line of checked JSON and then the
trajectory's bytes.
"""

import contextlib
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import RunError
from abps.run.files import checked_json, parse_checked_json, read_bounded, replace_atomically
from abps.run.journal import MAX_LINE_BYTES, decode_trajectory, encode_trajectory, encoded_size
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory

__all__ = ["Finished", "Spool"]


class Finished(NamedTuple):
    """How an episode ended, how long it took, and why earlier attempts at it failed."""

    outcome: Outcome | None
    """None while the episode is still to be tried again."""
    seconds: float
    attempts: tuple[str, ...] = ()


class Spool:
    """A folder of a run with one file per episode."""

    def __init__(self, directory: Path, spec: TaskSpec, folder: str = "spool") -> None:
        self._directory, self._spec = directory / folder, spec

    def save(self, episode: int, query: int, finished: Finished) -> None:
        """Write what is known of an episode and sync it.

        Raises:
            RunError: the disk refuses.
        """
        self._write(self._path(episode), episode, query, finished)

    def keep(self, episode: int, query: int, finished: Finished) -> None:
        """`save` for good: under a name of its own, beside what was kept of that episode before.

        Raises:
            RunError: the disk refuses.
        """
        number = 1
        while (path := self._directory / f"{episode:08d}-{number}.episode").exists():
            number += 1
        self._write(path, episode, query, finished)

    def _write(self, path: Path, episode: int, query: int, finished: Finished) -> None:
        outcome = finished.outcome
        worked = isinstance(outcome, Trajectory)
        data = encode_trajectory(outcome) if worked else b""
        head = {
            "episode": episode,
            "query": query,
            "attempts": list(finished.attempts),
            "steps": len(outcome) if worked else 0,
            "terminated": worked and outcome.terminated,
            "truncated": worked and outcome.truncated,
            "failed": outcome.reason if isinstance(outcome, Failed) else None,
            "crc": zlib.crc32(data),
            "seconds": finished.seconds,
        }
        try:
            self._directory.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make {self._directory}: {error.strerror or error}") from error
        replace_atomically(path, checked_json(head) + data)

    def load(self, episode: int, query: int) -> Finished | None:
        """Return what is known of an episode of that query; None when there is nothing, or nothing whole."""
        path = self._path(episode)
        if not path.exists():
            return None
        with contextlib.suppress(RunError, KeyError, TypeError, ValueError):
            content = read_bounded(path, MAX_LINE_BYTES + encoded_size(self._spec.horizon, self._spec))
            line, _, data = content.partition(b"\n")
            head = parse_checked_json(line + b"\n")
            if head is not None and (head["episode"], head["query"], head["crc"]) == (episode, query, zlib.crc32(data)):
                return self._finished(head, data)
        return None

    def drop(self, episode: int) -> None:
        """Forget an episode that is in the journal now."""
        with contextlib.suppress(OSError):
            self._path(episode).unlink(missing_ok=True)

    def drop_before(self, episode: int) -> None:
        """Forget every episode that is in the journal; remove the folder when it is empty."""
        if not self._directory.is_dir():
            return
        for path in self._directory.iterdir():
            if path.suffix == ".tmp" or (path.stem.isdecimal() and int(path.stem) < episode):
                with contextlib.suppress(OSError):
                    path.unlink()
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def _path(self, episode: int) -> Path:
        return self._directory / f"{episode:08d}.episode"

    def _finished(self, head: dict[str, Any], data: bytes) -> Finished:
        attempts, seconds = tuple(str(reason) for reason in head["attempts"]), float(head["seconds"])
        if head["failed"] is not None:
            return Finished(Failed(str(head["failed"])), seconds, attempts)
        if not data:
            return Finished(None, seconds, attempts)
        trajectory = decode_trajectory(
            data, int(head["steps"]), self._spec, terminated=bool(head["terminated"]), truncated=bool(head["truncated"])
        )
        return Finished(trajectory, seconds, attempts)
