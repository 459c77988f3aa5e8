"""What a person sees while a study runs: a live table on a terminal, one line per event elsewhere."""

import sys
import time
from dataclasses import replace
from typing import Protocol

from rich.console import Console
from rich.live import Live

from abps.study.cells import is_locked
from abps.study.progress import Follower, Snapshot
from abps.study.schedule import CellState, Schedule
from abps.study.watch import overview
from abps.words import count, duration

__all__ = ["LineView", "LiveView", "View", "make_view"]

REFRESH = 1.0


class View(Protocol):
    """Told of everything that happens in a study."""

    def begin(self, schedule: Schedule) -> None: ...

    def change(self, item: CellState) -> None: ...

    def tick(self, schedule: Schedule) -> None: ...

    def close(self) -> None: ...


class SilentView:
    """Shows nothing."""

    def begin(self, schedule: Schedule) -> None: ...

    def change(self, item: CellState) -> None: ...

    def tick(self, schedule: Schedule) -> None: ...

    def close(self) -> None: ...


class LineView:
    """One line per event, for log files."""

    def __init__(self) -> None:
        self._queued: dict[str, CellState] = {}
        self._began: dict[str, float] = {}
        self._looked = 0.0

    def begin(self, schedule: Schedule) -> None:
        done = schedule.count("done")
        self._print(f"{count(len(schedule.states), 'cell')}, {done} done already; {schedule.executor.describe()}")

    def change(self, item: CellState) -> None:
        if item.state == "running":  # A cluster may only have queued it: `tick` sees when it begins.
            self._queued[item.cell.name] = item
            return
        self._queued.pop(item.cell.name, None)
        began = self._began.pop(item.cell.name, None)
        took = "" if began is None else f" after {duration(time.monotonic() - began)}"
        self._print(f"{item.cell.name}: {item.state}{took}" + (f" ({item.message})" if item.message else ""))

    def tick(self, schedule: Schedule) -> None:
        if time.monotonic() - self._looked < REFRESH:
            return
        self._looked = time.monotonic()
        for name, item in list(self._queued.items()):
            if is_locked(item.cell.path):
                del self._queued[name]
                self._began[name] = self._looked
                self._print(f"{name}: running")

    def close(self) -> None: ...

    def _print(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class LiveView:
    """A table that is drawn anew every second, on standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._followers: dict[str, Follower] = {}
        self._drawn = 0.0
        self._note = ""

    def begin(self, schedule: Schedule) -> None:
        self._note = schedule.executor.describe()
        self._live.start()

    def change(self, item: CellState) -> None:
        if item.state == "failed" or (item.state == "waiting" and item.message):
            colour = "red" if item.state == "failed" else "yellow"
            self._console.print(
                f"{item.cell.name}: {item.state}: {item.message}", style=colour, markup=False, highlight=False
            )

    def tick(self, schedule: Schedule) -> None:
        if time.monotonic() - self._drawn >= REFRESH:
            self._drawn = time.monotonic()
            snapshots = [self._snapshot(item) for item in schedule.states]
            self._live.update(overview(snapshots, self._console.height, self._note, self._console.width), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def _snapshot(self, item: CellState) -> Snapshot:
        cell, settings = item.cell, item.cell.settings
        seen = self._followers.setdefault(cell.name, Follower(cell.path)).read()
        # What a cluster has queued holds no lock yet, nor does a process that is just starting.
        state = "waiting" if item.state == "running" and seen.state != "running" else item.state
        return replace(
            seen,
            task=settings.task.name,
            search=f"{settings.search} {settings.variant}".strip(),
            seed=settings.seed,
            state=state,
            reason="",
            budget=settings.budget.episodes,
        )


def make_view(*, quiet: bool) -> View:
    """The view that fits standard error."""
    if quiet:
        return SilentView()
    console = Console(stderr=True)
    return LiveView(console) if console.is_terminal else LineView()
