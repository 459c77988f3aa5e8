"""Running work as a table in the terminal: what `abps watch` shows, and `abps compare` while it works.

Functions take snapshots and return something rich can print; nothing is read here but the clock.
"""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from abps.study.progress import Snapshot

__all__ = ["duration", "overview", "runs_table", "study_time_left"]

STYLES = {
    "running": "cyan",
    "elsewhere": "cyan",
    "done": "green",
    "failed": "bold red",
    "stopped": "yellow",
    "waiting": "dim",
}
URGENCY = ("failed", "running", "elsewhere", "stopped", "waiting", "done")
BAR = 10


def overview(snapshots: Sequence[Snapshot], height: int | None = None, note: str = "") -> RenderableType:
    """The table and a line that counts; when the screen is too low, what is finished is left out first.

    Args:
        snapshots: the runs.
        height: lines of the screen; None: no limit.
        note: a phrase for the counting line.
    """
    counts = Counter(item.state for item in snapshots)
    line = Text()
    for state in (state for state in URGENCY[::-1] if counts.get(state)):
        line.append(f"{counts[state]} {state}  ", style=STYLES[state])
    left = study_time_left(snapshots)
    if left is not None:
        line.append(f"about {duration(left)} left  ")
    line.append(note, style="dim")
    return Group(runs_table(snapshots, None if height is None else max(3, height - 7)), line)


def runs_table(snapshots: Sequence[Snapshot], rows: int | None = None) -> Table:
    """One line per run."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    names = (
        "task",
        "search",
        "seed",
        "state",
        "episodes",
        "centre",
        "best",
        "R̃²",
        "P(ascent)",
        "ep/min",
        "time",
        "left",
    )
    for name in names:
        justify = "left" if name in ("task", "search", "state", "episodes") else "right"
        table.add_column(name, justify=justify, overflow="ellipsis", no_wrap=True)
    shown = list(snapshots)
    if rows is not None and len(shown) > rows:
        kept = sorted(range(len(shown)), key=lambda index: (URGENCY.index(shown[index].state), index))[: rows - 1]
        shown = [shown[index] for index in sorted(kept)]
    for item in shown:
        table.add_row(*_cells(item))
        if item.state == "failed" and item.reason:
            table.add_row("", Text(item.reason, style="red", overflow="ellipsis"))
    if len(shown) < len(snapshots):
        table.add_row(Text(f"… and {len(snapshots) - len(shown)} more", style="dim"))
    return table


def study_time_left(snapshots: Sequence[Snapshot]) -> float | None:
    """Seconds until everything unfinished is done, if as many runs go on side by side as now; None when unknown.

    A run that has not begun is taken to be as fast as others of its search and task, or of its task, or of any.
    """
    active = sum(1 for item in snapshots if item.state in ("running", "elsewhere"))
    work: list[float] = []
    for item in snapshots:
        if item.state not in ("running", "elsewhere", "waiting"):
            continue
        rate = item.rate or _likely_rate(item, snapshots)
        if not item.budget or rate is None:
            return None
        work.append(60.0 * max(0, item.budget - item.episodes) / rate)
    return max(sum(work) / active, max(work)) if active and work else None


def _likely_rate(item: Snapshot, snapshots: Sequence[Snapshot]) -> float | None:
    known = [other for other in snapshots if other.rate]
    for alike in (
        [other for other in known if (other.task, other.search) == (item.task, item.search)],
        [other for other in known if other.task == item.task],
        known,
    ):
        if alike:
            return sum(other.rate or 0.0 for other in alike) / len(alike)
    return None


def duration(seconds: float) -> str:
    """`42 s`, `7 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _cells(item: Snapshot) -> list[RenderableType]:
    done = f"{item.episodes}/{item.budget}" if item.budget else str(item.episodes)
    return [
        item.task,
        item.search,
        "–" if item.seed is None else str(item.seed),
        Text(item.state, style=STYLES[item.state]),
        Text.assemble((_bar(item), STYLES[item.state]), f" {done}"),
        _shown(item.centre, ".4g"),
        _shown(item.best, ".4g"),
        _shown(item.score, ".2f"),
        _shown(item.ascent, ".2f"),
        _shown(item.rate, ".3g") if item.state in ("running", "elsewhere") else "–",
        duration(item.seconds) if item.seconds else "–",
        "–" if item.left is None else duration(item.left),
    ]


def _bar(item: Snapshot) -> str:
    filled = round(BAR * min(1.0, item.episodes / item.budget)) if item.budget else 0
    return "━" * filled + "╌" * (BAR - filled)


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"
