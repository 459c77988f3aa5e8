"""metrics.jsonl: one line per outer iteration, with a checksum of itself; docs/metrics.md describes every field."""

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import RunError
from abps.run.files import append_synced, checked_json, parse_checked_json

__all__ = ["MetricsFile", "plain", "without_times"]

MAX_LINE_BYTES = 16 * 1024 * 1024


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    """Return a metrics or journal record without its times, the only fields two equal runs may differ in."""
    return {name: value for name, value in record.items() if not name.startswith("seconds") and name != "check"}


class MetricsFile:
    """Append-only metrics of a run; `keep` cuts it back to what a checkpoint knows of."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "metrics.jsonl"
        self._end = 0
        self.records: list[dict[str, Any]] = []

    def keep(self, lines: int) -> None:
        """Read the first `lines` lines; whatever follows will be written again.

        Raises:
            RunError: fewer whole lines are there.
        """
        self._end, self.records = 0, []
        if lines == 0:
            return
        try:
            with self._path.open("rb") as file:
                for number in range(1, lines + 1):
                    line = file.readline(MAX_LINE_BYTES)
                    record = parse_checked_json(line)
                    if record is None:
                        raise RunError(f"line {number} of {self._path} is damaged or missing")
                    self.records.append(record)
                    self._end += len(line)
        except OSError as error:
            raise RunError(f"cannot read {self._path}: {error.strerror or error}") from error

    def cut(self) -> None:
        """Remove the lines that `keep` did not keep."""
        with suppress(FileNotFoundError):
            os.truncate(self._path, self._end)

    def append(self, record: dict[str, Any]) -> None:
        """Write one line and sync it.

        Raises:
            RunError: the disk refuses; the file is as before.
        """
        record = plain(record)
        content = checked_json(record)
        append_synced(self._path, content, self._end)
        self._end += len(content)
        self.records.append(record)
