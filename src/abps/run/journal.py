"""The journal: one line per finished episode, synced before the next starts; and the trajectories, appended beside it.

`episodes.bin` holds the trajectories back to back (observations float32 (T+1, s), actions float32 (T, a), rewards
float64 (T,), costs float64 (T, c) where the task has c constraints); `journal.jsonl` says where each lies, with
checksums. Both are written, trajectory first, and then synced at the same time: one wait per episode. So a kill leaves
at most a half-written line or a trajectory without a line; a power loss during the wait can also leave the last line
without its data. Opening therefore compares the last episode with its checksum. What a crash can leave is cut off by
`repair`, and a last episode that does not fit its line is copied to `discarded/` first; anything else that does not fit
was done to the files afterwards, and is an error that names the place and touches nothing.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import RunError, ShapeError
from abps.run.files import Piece, append_synced, append_together, checked_json, parse_checked_json, replace_atomically
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory

__all__ = ["Journal", "decode_trajectory", "encode_trajectory", "encoded_size"]

MAX_LINE_BYTES = 1024 * 1024
"""Longer than any line that `append` writes: reasons of failures are cut to a few hundred characters."""


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """Return the trajectory's arrays back to back, little-endian."""
    return b"".join(
        (
            trajectory.observations.astype("<f4", copy=False).tobytes(),
            trajectory.actions.astype("<f4", copy=False).tobytes(),
            trajectory.rewards.astype("<f8", copy=False).tobytes(),
            trajectory.costs.astype("<f8", copy=False).tobytes(),
        )
    )


def encoded_size(steps: int, spec: TaskSpec) -> int:
    """Bytes of an encoded trajectory of so many steps."""
    doubles = 1 + len(spec.constraints)
    return 4 * (steps + 1) * spec.observation_dim + 4 * steps * spec.action_dim + 8 * steps * doubles


def decode_trajectory(data: bytes, steps: int, spec: TaskSpec, *, terminated: bool, truncated: bool) -> Trajectory:
    """Return the trajectory that `encode_trajectory` wrote.

    Raises:
        RunError: the number of bytes does not fit, or the numbers are not those of an episode.
    """
    if steps < 1 or len(data) != encoded_size(steps, spec):
        raise RunError(f"{len(data)} bytes are not a trajectory of {steps} steps of task {spec.name!r}")
    first = 4 * (steps + 1) * spec.observation_dim
    second = first + 4 * steps * spec.action_dim
    third = second + 8 * steps
    try:
        return Trajectory.build(
            np.frombuffer(data[:first], "<f4").reshape(steps + 1, spec.observation_dim),
            np.frombuffer(data[first:second], "<f4").reshape(steps, spec.action_dim),
            np.frombuffer(data[second:third], "<f8"),
            terminated=terminated,
            truncated=truncated,
            costs=np.frombuffer(data[third:], "<f8").reshape(steps, len(spec.constraints)),
        )
    except ShapeError as error:
        raise RunError(f"a recorded trajectory of task {spec.name!r} is damaged: {error}") from error


@dataclass(frozen=True)
class _Mark:
    """Where an episode's data lie; the rest of its line is read again when it is needed."""

    offset: int
    size: int
    crc: int
    steps: int
    terminated: bool
    truncated: bool
    failed: str | None
    query: int
    parameters: tuple[int, float]
    """Checksum and length of the policy's parameters."""
    seconds: float

    def fits(self, data: bytes) -> bool:
        """Whether these are the episode's data."""
        return len(data) == self.size and zlib.crc32(data) == self.crc


class Journal:
    """Append-only record of a run's training episodes."""

    def __init__(self, directory: Path, spec: TaskSpec) -> None:
        """Index what is recorded; nothing is changed. A last episode that a power loss tore is not counted.

        Raises:
            RunError: the files were damaged, by something other than a crash.
        """
        self._lines_path, self._data_path, self._spec = directory / "journal.jsonl", directory / "episodes.bin", spec
        self._lines_end = self._data_end = 0
        self._marks: list[_Mark] = []
        self._line_starts: list[int] = []
        self._torn = b""
        """Line and bytes of a last episode whose data do not fit its line."""
        try:
            self._read()
        except OSError as error:
            raise RunError(f"cannot read the journal in {directory}: {error.strerror or error}") from error

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def seconds(self) -> float:
        """Time spent in the recorded episodes."""
        return sum(mark.seconds for mark in self._marks)

    @property
    def failures_in_a_row(self) -> int:
        """How many of the newest episodes failed without one that worked."""
        count = 0
        while count < len(self._marks) and self._marks[-1 - count].failed is not None:
            count += 1
        return count

    def fingerprint(self, episodes: int) -> str:
        """A hash of everything the first `episodes` episodes told the search; binds a checkpoint to its journal."""
        digest = hashlib.sha256()
        for mark in self._marks[:episodes]:
            told = (mark.query, mark.steps, mark.crc, mark.terminated, mark.truncated, mark.failed)
            digest.update(repr(told).encode())
        return digest.hexdigest()

    def append(self, outcome: Outcome, record: dict[str, Any], seconds: float) -> None:
        """Record an episode: write its trajectory, then its line, and sync both.

        Args:
            outcome: what came of it.
            record: further fields of the line (`query`, `parameters_crc` and `parameters_norm` are needed; `role`,
                `iteration`, `seed`, `return`, …).
            seconds: how long it took.

        Raises:
            RunError: the disk refuses; the journal is as before.
        """
        data, steps, failed = b"", 0, None
        terminated = truncated = False
        if isinstance(outcome, Failed):
            failed = outcome.reason
        else:
            data, steps = encode_trajectory(outcome), len(outcome)
            terminated, truncated = outcome.terminated, outcome.truncated
        line = {
            "episode": len(self._marks),
            **record,
            "steps": steps,
            "terminated": terminated,
            "truncated": truncated,
            "failed": failed,
            "offset": self._data_end,
            "bytes": len(data),
            "crc": zlib.crc32(data),
            "seconds": round(seconds, 6),
        }
        content = checked_json(line)
        pieces = [Piece(self._data_path, data, self._data_end)] if data else []
        append_together(*pieces, Piece(self._lines_path, content, self._lines_end))
        self._index(content)

    def query_of(self, episode: int) -> int:
        """The id of the query that the episode belongs to."""
        return self._marks[episode].query

    def parameters_of(self, episode: int) -> tuple[int, float]:
        """Checksum and length of the parameters that the episode ran with."""
        return self._marks[episode].parameters

    def twin_of(self, trajectory: Trajectory) -> int | None:
        """The newest recorded episode with the same bytes, which a real system never produces twice; else None."""
        data = encode_trajectory(trajectory)
        wanted = (zlib.crc32(data), len(data))
        return next(
            (k for k in reversed(range(len(self))) if (self._marks[k].crc, self._marks[k].size) == wanted), None
        )

    def outcome(self, episode: int) -> Outcome:
        """Read an episode back.

        Raises:
            RunError: its data are damaged.
        """
        mark = self._marks[episode]
        if mark.failed is not None:
            return Failed(mark.failed)
        data = self._data_of(mark)
        if not mark.fits(data):
            raise RunError(
                f"episode {episode} in {self._data_path} is damaged (its checksum does not fit the journal's); "
                "restore the file from a copy"
            )
        return decode_trajectory(data, mark.steps, self._spec, terminated=mark.terminated, truncated=mark.truncated)

    def newest(self, transitions: int, before: int) -> Iterator[Trajectory]:
        """The trajectories before episode `before` that hold its last `transitions` transitions, oldest first."""
        first, missing = before, transitions
        while first > 0 and missing > 0:
            first -= 1
            missing -= self._marks[first].steps
        for episode in range(first, before):
            outcome = self.outcome(episode)
            if isinstance(outcome, Trajectory):
                yield outcome

    def drop_last(self) -> None:
        """Forget the newest episode.

        Raises:
            RunError: the disk refuses.
        """
        append_synced(self._lines_path, b"", self._line_starts[-1])
        self._lines_end, self._data_end = self._line_starts.pop(), self._marks.pop().offset

    def refuse_damage(self, known: int) -> None:
        """Raise when the last episode's data are damaged although it is among the `known` ones of a checkpoint.

        Raises:
            RunError: it was synced before the checkpoint was written, so this is no crash's doing.
        """
        if self._torn and known > len(self):
            raise RunError(
                f"episode {len(self)} in {self._data_path} is damaged (its checksum does not fit the "
                "journal's), and not by a "
                "crash: a checkpoint knows it. Restore the file from a copy, or delete the folder "
                "checkpoint to run it again"
            )

    def repair(self) -> list[str]:
        """Cut off what a crash left half-written; called by the process that owns the run.

        Returns:
            What the user should know: a torn last episode, and where a copy of it is.

        Raises:
            RunError: the disk refuses.
        """
        warnings = [self._set_aside()] if self._torn else []
        try:
            for path, end in ((self._lines_path, self._lines_end), (self._data_path, self._data_end)):
                if path.exists() and path.stat().st_size > end:
                    os.truncate(path, end)
        except OSError as error:
            raise RunError(
                f"cannot repair the journal in {self._lines_path.parent}: {error.strerror or error}"
            ) from error
        self._torn = b""
        return warnings

    def _set_aside(self) -> str:
        """Copy the torn episode to `discarded/`, under a name of its own; return a sentence about it."""
        folder, number = self._lines_path.parent / "discarded", 1
        try:
            folder.mkdir(exist_ok=True)
            while (path := folder / f"{len(self):08d}-{number}.torn").exists():
                number += 1
        except OSError as error:
            raise RunError(f"cannot make {folder}: {error.strerror or error}") from error
        replace_atomically(path, self._torn)
        return (
            f"the data of the last recorded episode, {len(self)}, do not fit its line in the journal, "
            "as after a power loss; "
            f"it is run again, and what was there is kept in {path}"
        )

    def _read(self) -> None:
        """Index the lines up to one that is not whole, which must be the last; compare the last with its data."""
        size = self._data_path.stat().st_size if self._data_path.exists() else 0
        line = last = b""
        if self._lines_path.exists():
            with self._lines_path.open("rb") as file:
                while line := file.readline(MAX_LINE_BYTES):
                    if _is_half_written(line):
                        self._refuse_unless_last(file.read(1) == b"")
                        break
                    self._index(line)
                    last = line
        if size - self._data_end > encoded_size(self._spec.horizon, self._spec):
            raise RunError(
                f"{self._data_path} holds {size - self._data_end} bytes of episodes that {self._lines_path} "
                f"({len(self)} lines) does not know of; restore the journal from a copy"
            )
        if last and not line:  # A half-written line after it means that it was synced.
            self._take_out_torn(last)
        for episode, mark in enumerate(self._marks):
            if mark.offset + mark.size > size:
                raise RunError(
                    f"{self._data_path} has {size} bytes, too few for episode {episode} of the journal; "
                    "restore the file from a copy"
                )

    def _take_out_torn(self, line: bytes) -> None:
        """Forget the last episode when its data do not fit its line, as after a power loss; others must be whole."""
        data = self._data_of(self._marks[-1])
        if self._marks[-1].fits(data):
            return
        self._data_end, self._lines_end = self._marks.pop().offset, self._line_starts.pop()
        for episode in range(len(self)):
            self.outcome(episode)  # A crash spares what was synced: this is an error if it is damaged, too.
        self._torn = line + data

    def _data_of(self, mark: _Mark) -> bytes:
        """The bytes where an episode's data should be; fewer, when the file ends early."""
        if mark.size == 0:
            return b""
        try:
            with self._data_path.open("rb") as file:
                file.seek(mark.offset)
                return file.read(mark.size)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise RunError(f"cannot read {self._data_path}: {error.strerror or error}") from error

    def _refuse_unless_last(self, last: bool) -> None:
        if not last:
            raise RunError(
                f"{self._lines_path} is damaged at line {len(self) + 1}, and further lines follow it; restore it from "
                "a copy (a crash cannot do this: it leaves at most a half-written last line)"
            )

    def _index(self, line: bytes) -> None:
        mark = self._mark(line)
        if mark is None:
            raise RunError(
                f"{self._lines_path} is damaged at line {len(self) + 1} (its checksum or its numbers do not fit); "
                "restore it from a copy, or cut it before this line to run the episodes from there again"
            )
        self._marks.append(mark)
        self._line_starts.append(self._lines_end)
        self._lines_end += len(line)
        self._data_end = mark.offset + mark.size

    def _mark(self, line: bytes) -> _Mark | None:
        """Return the mark of a journal line, or None when the line is not whole and consistent."""
        record = parse_checked_json(line)
        if record is None:
            return None
        try:
            failed = record["failed"]
            mark = _Mark(
                int(record["offset"]),
                int(record["bytes"]),
                int(record["crc"]),
                int(record["steps"]),
                bool(record["terminated"]),
                bool(record["truncated"]),
                None if failed is None else str(failed),
                int(record["query"]),
                (int(record["parameters_crc"]), float(record["parameters_norm"])),
                float(record["seconds"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        expected = 0 if failed is not None else encoded_size(mark.steps, self._spec)
        consistent = record.get("episode") == len(self._marks) and mark.offset == self._data_end
        possible = mark.steps == 0 if failed is not None else 1 <= mark.steps <= self._spec.horizon
        return mark if consistent and possible and mark.size == expected else None


def _is_half_written(line: bytes) -> bool:
    """Whether a crash explains the line: its end is missing, or a power loss left pages of zeros in it."""
    return not line.endswith(b"\n") or b"\0" in line
