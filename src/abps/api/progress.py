"""What a person sees while a run trains: one line with counts, returns, the critics' score and the time left."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from abps.run.run import Run
from abps.search.base import Metrics
from abps.trajectory import Failed, Outcome
from abps.words import count

__all__ = ["ProgressBar"]


class ProgressBar:
    """An observer that draws a progress bar on standard error."""

    def __init__(self) -> None:
        # On a narrow screen the bar shrinks; no number is cut. The name has a line of its own, above.
        self._progress = Progress(
            BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=24)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("episodes", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[news]}", table_column=Column(no_wrap=True)),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._bar: Any = None
        self._failed = 0

    def begin(self, run: Run) -> None:
        settings = run.settings
        total = settings.budget.episodes or None
        name = f"{settings.search} on {settings.task.name}"
        self._progress.console.print(name, style="bold", markup=False, highlight=False)
        self._bar = self._progress.add_task(name, total=total, completed=run.search.episodes, news="")
        for warning in run.warnings:
            self._progress.console.print(warning, style="yellow", markup=False)
        if run.search.episodes:
            self._progress.console.print(f"going on after {count(run.search.episodes, 'episode')}")
        self._progress.start()

    def episode(self, run: Run, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._failed += 1
            self._progress.console.print(
                f"episode {len(run.journal) - 1} failed: {outcome.reason}", style="yellow", markup=False
            )
        self._progress.update(self._bar, completed=len(run.journal))

    def iteration(self, run: Run, metrics: Metrics) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, news=news(metrics))

    def end(self, run: Run, reasons: dict[str, str]) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._progress.stop()


def news(metrics: Metrics) -> str:
    """The few numbers that tell how learning goes."""
    parts = []
    centre = metrics.get("eval_return")
    if centre is None:
        centre = metrics.get("centre_return")
    if centre is not None:
        parts.append(f"current {centre:.4g}")
    if metrics.get("max_return") is not None:
        parts.append(f"best {metrics['max_return']:.4g}")
    scores = [score for score in metrics.get("r2_validation") or [] if score is not None]
    if scores:
        parts.append(f"R̃² {max(scores):.2f}")
    return "  ".join(parts)
