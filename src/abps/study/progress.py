"""How far runs are, read from their files while others write them; cheap enough for hundreds of runs every second."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abps.errors import AbpsError
from abps.run.directory import MAX_CONFIG_BYTES, parse_yaml
from abps.run.files import read_bounded
from abps.study.cells import is_locked
from abps.study.records import finite_number, is_imported, reason_text

__all__ = ["Follower", "Snapshot", "read_jsonl_from"]

RECENT = 5
"""Outer iterations over which the present rate is measured."""


@dataclass(frozen=True)
class Snapshot:
    """One run at one moment; None where nothing is known yet."""

    path: Path
    task: str
    search: str
    seed: int | None
    state: str
    """running, done, failed, stopped; waiting: for an episode of a robot, or for its turn in a study."""
    reason: str
    episodes: int
    budget: int
    """Episodes it will use; 0: no limit of that kind."""
    centre: float | None
    """Undiscounted return of the current policy: the newest evaluation; of the centre's episodes if there is none."""
    best: float | None
    score: float | None
    """R̃² of the best critic."""
    ascent: float | None
    """P(ascent) of the last step."""
    rate: float | None
    """Episodes per minute, over the last few outer iterations."""
    seconds: float
    """Wall time of all its sessions, as of the last outer iteration."""

    @property
    def left(self) -> float | None:
        """Seconds until the budget is used, at the present rate."""
        if not self.budget or not self.rate or self.state != "running":
            return None
        return 60.0 * max(0, self.budget - self.episodes) / self.rate


class Follower:
    """Follows one run; each `read` only reads what was added since the last one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal_at = self._metrics_at = 0
        self._episodes = 0
        self._rows: list[dict[str, Any]] = []
        """The newest metrics, enough to measure a rate."""
        self._evaluated: float | None = None
        """The newest evaluation of the current policy."""
        self._config: dict[str, Any] = {}
        self._config_time = 0

    @property
    def config(self) -> dict[str, Any]:
        """What `config.yaml` said when it was last read; empty: nothing readable."""
        return self._config

    def read(self) -> Snapshot:
        """Look at the run as it is now."""
        self._read_config()
        self._read_journal()
        self._read_metrics()
        state, reason = _state(self.path)
        if state == "stopped" and isinstance(self._config.get("hardware"), dict):
            state = "waiting"  # For somebody to run an episode; a robot's run is never "running" by itself.
        last = self._rows[-1] if self._rows else {}
        task, search = self._config.get("task"), self._config.get("search")
        names = self.path.resolve().parts
        label = search.get("name", "?") if isinstance(search, dict) else names[-2]
        imported = is_imported(self._config)
        variant = "(imported)" if imported else self._config.get("variant")
        return Snapshot(
            path=self.path,
            task=str(task.get("name", "?")) if isinstance(task, dict) else names[-3],
            search=f"{label} {variant}" if variant else str(label),
            seed=_whole(self._config.get("seed")),
            state=state,
            reason=reason,
            episodes=_whole(last.get("episodes")) or 0 if imported else self._episodes,
            budget=self._budget(),
            centre=finite_number(last.get("centre_return")) if self._evaluated is None else self._evaluated,
            best=finite_number(last.get("max_return")),
            score=_largest(last.get("r2_validation")),
            ascent=finite_number(last.get("probability_ascent")),
            rate=self._rate(),
            seconds=finite_number(last.get("seconds")) or 0.0,
        )

    def _budget(self) -> int:
        budget = self._config.get("budget")
        return _whole(budget.get("episodes")) or 0 if isinstance(budget, dict) else 0

    def _rate(self) -> float | None:
        recent = self._rows[-RECENT - 1 :]
        if not recent:
            return None
        first = recent[0] if len(recent) > 1 else {"episodes": 0, "seconds": 0.0}
        episodes = (finite_number(recent[-1].get("episodes")) or 0) - (finite_number(first.get("episodes")) or 0)
        seconds = (finite_number(recent[-1].get("seconds")) or 0) - (finite_number(first.get("seconds")) or 0)
        return 60.0 * episodes / seconds if seconds > 0 and episodes > 0 else None

    def _read_config(self) -> None:
        try:
            changed = (self.path / "config.yaml").stat().st_mtime_ns
            if changed != self._config_time:
                self._config_time = changed
                document = parse_yaml(read_bounded(self.path / "config.yaml", MAX_CONFIG_BYTES))
                self._config = document if isinstance(document, dict) else {}
        except (OSError, AbpsError):
            pass  # Nothing there yet, or damaged: the folders' names serve.

    def _read_journal(self) -> None:
        data, end, started_over = _added(self.path / "journal.jsonl", self._journal_at)
        self._episodes = data.count(b"\n") + (0 if started_over else self._episodes)
        self._journal_at = end

    def _read_metrics(self) -> None:
        rows, end, started_over = read_jsonl_from(self.path / "metrics.jsonl", self._metrics_at)
        if started_over:
            self._rows, self._evaluated = [], None
        found = [value for row in rows if (value := finite_number(row.get("eval_return"))) is not None]
        self._evaluated = found[-1] if found else self._evaluated
        self._rows = [*self._rows, *rows][-RECENT - 1 :]
        self._metrics_at = end


def read_jsonl_from(path: Path, start: int) -> tuple[list[dict[str, Any]], int, bool]:
    """Read the whole lines after byte `start`.

    Returns:
        The objects, the byte after the last whole line, and whether the file was cut and is read from its beginning.
    """
    data, end, started_over = _added(path, start)
    rows = []
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows, end, started_over


def _added(path: Path, start: int) -> tuple[bytes, int, bool]:
    """Whole lines beyond `start`; a file that became shorter (a run that was resumed) is read anew."""
    try:
        with path.open("rb") as file:
            started_over = file.seek(0, os.SEEK_END) < start
            file.seek(0 if started_over else start)
            data = file.read()
    except OSError:
        return b"", 0, start > 0
    whole = data[: data.rfind(b"\n") + 1]
    return whole, (0 if started_over else start) + len(whole), started_over


def _state(path: Path) -> tuple[str, str]:
    if is_locked(path):
        return "running", ""
    for name, state in (("FAILED", "failed"), ("DONE", "done")):
        if (path / name).exists():
            try:
                lines = reason_text(path / name).splitlines()
            except OSError:
                lines = []
            return state, lines[0] if lines else ""
    return "stopped", ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _largest(value: Any) -> float | None:
    values = value if isinstance(value, list) else [value]
    numbers = [number for part in values if (number := finite_number(part)) is not None]
    return max(numbers, default=None)
