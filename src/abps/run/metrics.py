"""metrics.jsonl: one line per outer iteration; every field is described in docs/metrics.md."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import RunError
from abps.run.files import append_synced

__all__ = ["MetricsFile", "plain", "without_times"]


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
                for _ in range(lines):
                    line = file.readline()
                    self.records.append(json.loads(line))
                    self._end += len(line)
        except (OSError, ValueError) as error:
            raise RunError(
                f"{self._path} should hold {lines} whole lines, but line {len(self.records) + 1} is damaged"
            ) from error

    def append(self, record: dict[str, Any]) -> None:
        """Write one line and sync it."""
        record = plain(record)
        content = (json.dumps(record, allow_nan=False) + "\n").encode()
        append_synced(self._path, content, self._end)
        self._end += len(content)
        self.records.append(record)
