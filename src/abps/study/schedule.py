"""What runs next: skips what is done, resumes what is broken, waits for what others run, counts what failed.

The schedule is the same for every executor. It believes run directories, not its own memory: a cell is done when its
directory says so, whoever did it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from abps.errors import ConfigError
from abps.study.cells import Found, find
from abps.study.executors.base import Executor, Outcome
from abps.study.grid import Cell
from abps.tasks.spec import TaskSpec

__all__ = ["CellState", "Schedule", "check_conflicts", "check_searches"]

PAUSE = 0.25
LOOK_EVERY = 2.0
"""Seconds between two looks at the cells that other processes run."""


@dataclass
class CellState:
    """Where a cell stands in this study."""

    cell: Cell
    state: str
    """waiting, running, elsewhere (another process runs it), done, failed."""
    message: str = ""
    skipped: bool = False
    """It was finished before this study began."""
    deaths: int = 0


@dataclass
class Schedule:
    """Runs cells to their end with an executor."""

    cells: Sequence[Cell]
    executor: Executor
    retries: int = 1
    """Times a cell whose process died is started again."""
    on_change: Callable[[CellState], None] = lambda state: None
    on_tick: Callable[["Schedule"], None] = lambda schedule: None
    deadline: float | None = None
    """`time.monotonic()` after which everything is stopped; the rest stays waiting."""
    states: list[CellState] = field(init=False)

    def __post_init__(self) -> None:
        found = [find(cell.path, cell.settings) for cell in self.cells]
        check_conflicts(self.cells, found)
        known = {"done": "done", "running": "elsewhere"}
        self.states = [
            CellState(cell, known.get(there.state, "waiting"), skipped=there.state == "done")
            for cell, there in zip(self.cells, found, strict=True)
        ]
        self._looked = time.monotonic()

    def count(self, *states: str) -> int:
        """How many cells are in one of the states."""
        return sum(1 for item in self.states if item.state in states)

    def run(self) -> None:
        """Return when every cell is done or failed, or the deadline has passed; on Ctrl-C, when all is stopped."""
        try:
            while self.count("waiting", "running", "elsewhere"):
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    break
                for outcome in self.executor.poll():
                    self._take(outcome)
                self._look_elsewhere()
                self._fill()
                self.on_tick(self)
                time.sleep(PAUSE)
        finally:
            self.executor.stop()
            for item in self.states:
                if item.state == "running":
                    item.state = "waiting"
        self.on_tick(self)

    def _fill(self) -> None:
        room = self.executor.room()
        for item in self.states:
            if room < 1:
                return
            if item.state != "waiting":
                continue
            there = find(item.cell.path, item.cell.settings)
            if there.state in ("done", "running", "conflict"):
                self._set(item, {"done": "done", "running": "elsewhere"}.get(there.state, "failed"), there.detail)
                continue
            self.executor.start(item.cell)
            self._set(item, "running")
            room -= 1

    def _take(self, outcome: Outcome) -> None:
        item = next(item for item in self.states if item.cell.path == outcome.cell.path)
        if outcome.result == "done":
            there = find(item.cell.path, item.cell.settings)
            finished = there.state == "done"
            self._set(item, "done" if finished else "failed", there.detail if finished else f"it ended {there.state}")
        elif outcome.result == "busy":
            self._set(item, "elsewhere", outcome.message)
        elif outcome.result == "died" and item.deaths < self.retries:
            item.deaths += 1
            self._set(item, "waiting", f"{outcome.message}; it is started again")
        elif outcome.result == "interrupted":
            # Somebody stopped this one process by hand; starting it again would be against their will.
            self._set(item, "failed", "it was stopped from outside")
        else:
            self._set(item, "failed", outcome.message)

    def _look_elsewhere(self) -> None:
        """Others' cells: done when they are done, ours when they are given up."""
        if time.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = time.monotonic()
        for item in self.states:
            if item.state == "elsewhere" and (there := find(item.cell.path, item.cell.settings)).state != "running":
                self._set(item, "done" if there.state == "done" else "waiting", there.detail)

    def _set(self, item: CellState, state: str, message: str = "") -> None:
        item.state, item.message = state, message
        self.on_change(item)


def check_conflicts(cells: Sequence[Cell], found: Sequence[Found]) -> None:
    """Refuse to mix: a directory that holds a run with other settings is not touched.

    Raises:
        ConfigError: names the runs and the settings.
    """
    conflicts = [(cell, there.detail) for cell, there in zip(cells, found, strict=True) if there.state == "conflict"]
    if not conflicts:
        return
    listed = "\n".join(f"  {cell.path}: {detail}" for cell, detail in conflicts[:5])
    more = f"\n  and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""
    raise ConfigError(
        f"{len(conflicts)} of the grid's runs exist with other settings:\n{listed}{more}\n"
        "Nothing was started. Take another folder (--runs), make the setting an axis (--axis "
        "name=value) so that it gets "
        "a place of its own, or move the old runs away."
    )


def check_searches(cells: Sequence[Cell], found: Sequence[Found], specs: Mapping[str, TaskSpec]) -> None:
    """Make the search of every cell that is not done once: what it lacks should be known now, not after an hour.

    Args:
        cells: all of them.
        found: what there is of each.
        specs: by the name of the task.

    Raises:
        ConfigError: a search cannot work here, e.g. because a package is missing.
    """
    wanted = [cell.settings for cell, there in zip(cells, found, strict=True) if there.state != "done"]
    for settings in {(repr(item.search_config), item.task.name): item for item in wanted}.values():
        settings.search_config.make(specs[settings.task.name])
