"""The journal: one line per finished episode, synced before the next starts; and the trajectories, appended beside it.

`episodes.bin` holds the trajectories back to back (observations float32 (T+1, s), actions float32 (T, a), rewards float64
(T,)); `journal.jsonl` says where each lies, with checksums. The trajectory is synced first, so a line in the journal always
has its data. A half-written tail of either file, left by a crash, is cut off; damage further up is an error that names the line.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import RunError
from abps.run.files import append_synced, checked_json, parse_checked_json
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory

__all__ = ["Journal", "decode_trajectory", "encode_trajectory"]


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """Return the trajectory's arrays back to back, little-endian."""
    return b"".join(
        (
            trajectory.observations.astype("<f4", copy=False).tobytes(),
            trajectory.actions.astype("<f4", copy=False).tobytes(),
            trajectory.rewards.astype("<f8", copy=False).tobytes(),
        )
    )


def encoded_size(steps: int, spec: TaskSpec) -> int:
    """Bytes of an encoded trajectory of so many steps."""
    return 4 * (steps + 1) * spec.observation_dim + 4 * steps * spec.action_dim + 8 * steps


def decode_trajectory(data: bytes, steps: int, spec: TaskSpec, *, terminated: bool, truncated: bool) -> Trajectory:
    """Return the trajectory that `encode_trajectory` wrote.

    Raises:
        RunError: the number of bytes does not fit.
        ShapeError: the numbers are not those of an episode.
    """
    if steps < 1 or len(data) != encoded_size(steps, spec):
        raise RunError(f"{len(data)} bytes are not a trajectory of {steps} steps of task {spec.name!r}")
    first = 4 * (steps + 1) * spec.observation_dim
    second = first + 4 * steps * spec.action_dim
    return Trajectory.build(
        np.frombuffer(data[:first], "<f4").reshape(steps + 1, spec.observation_dim),
        np.frombuffer(data[first:second], "<f4").reshape(steps, spec.action_dim),
        np.frombuffer(data[second:], "<f8"),
        terminated=terminated,
        truncated=truncated,
    )


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
    seconds: float


class Journal:
    """Append-only record of a run's training episodes."""

    def __init__(self, directory: Path, spec: TaskSpec) -> None:
        self._lines_path, self._data_path, self._spec = directory / "journal.jsonl", directory / "episodes.bin", spec
        self._lines_end = self._data_end = 0
        self._marks: list[_Mark] = []
        self._read()

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def seconds(self) -> float:
        """Time spent in the recorded episodes."""
        return sum(mark.seconds for mark in self._marks)

    def append(self, outcome: Outcome, record: dict[str, Any], seconds: float) -> None:
        """Record an episode: its trajectory first, then its line, each synced.

        Args:
            outcome: what came of it.
            record: further fields of the line (`query`, `role`, `iteration`, `seed`, `return`, …).
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
            append_synced(self._data_path, data, self._data_end)
        mark = _Mark(
            self._data_end, len(data), zlib.crc32(data), steps, terminated, truncated, failed, record["query"], seconds
        )
        line = {
            "episode": len(self._marks),
            **record,
            "steps": steps,
            "terminated": terminated,
            "truncated": truncated,
            "failed": failed,
            "offset": mark.offset,
            "bytes": mark.size,
            "crc": mark.crc,
            "seconds": round(seconds, 6),
        }
        content = checked_json(line)
        append_synced(self._lines_path, content, self._lines_end)
        self._marks.append(mark)
        self._lines_end += len(content)
        self._data_end += len(data)

    def query_of(self, episode: int) -> int:
        """The id of the query that the episode belongs to."""
        return self._marks[episode].query

    def outcome(self, episode: int) -> Outcome:
        """Read an episode back.

        Raises:
            RunError: its data are damaged.
        """
        mark = self._marks[episode]
        if mark.failed is not None:
            return Failed(mark.failed)
        with self._data_path.open("rb") as file:
            file.seek(mark.offset)
            data = file.read(mark.size)
        if len(data) != mark.size or zlib.crc32(data) != mark.crc:
            raise RunError(
                f"episode {episode} in {self._data_path} is damaged (its checksum does not fit the journal's)"
            )
        return decode_trajectory(data, mark.steps, self._spec, terminated=mark.terminated, truncated=mark.truncated)

    def newest(self, transitions: int, before: int) -> Iterator[Trajectory]:
        """Yield, oldest first, the trajectories before episode `before` that hold its last `transitions` transitions."""
        first, missing = before, transitions
        while first > 0 and missing > 0:
            first -= 1
            missing -= self._marks[first].steps
        for episode in range(first, before):
            outcome = self.outcome(episode)
            if isinstance(outcome, Trajectory):
                yield outcome

    def _read(self) -> None:
        """Index the journal, cutting off what a crash left half-written."""
        if not self._lines_path.exists():
            return
        size = self._data_path.stat().st_size if self._data_path.exists() else 0
        damaged: int | None = None
        with self._lines_path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if damaged is not None:
                    raise RunError(f"{self._lines_path} is damaged at line {damaged}, and later lines follow it")
                mark = self._mark(line)
                if mark is None or mark.offset + mark.size > size:
                    damaged = number
                    continue
                self._marks.append(mark)
                self._lines_end += len(line)
                self._data_end = mark.offset + mark.size

    def repair(self) -> None:
        """Cut the files to what is indexed; called by the process that owns the run."""
        for path, end in ((self._lines_path, self._lines_end), (self._data_path, self._data_end)):
            if path.exists() and path.stat().st_size > end:
                os.truncate(path, end)

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
                float(record["seconds"]),
            )
        except (KeyError, TypeError, ValueError):
            return None
        expected = 0 if failed is not None else encoded_size(mark.steps, self._spec)
        consistent = record.get("episode") == len(self._marks) and mark.offset == self._data_end
        return mark if consistent and mark.size == expected else None
