"""Running work as a table in the terminal: what `abps watch` shows, and `abps compare` while it works.

Functions take snapshots and return something rich can print; nothing is read here but the clock.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from abps.study.progress import Snapshot
from abps.words import duration

__all__ = ["failures", "overview", "runs_table", "study_time_left"]

STYLES = {
    "running": "cyan",
    "elsewhere": "cyan",
    "done": "green",
    "failed": "bold red",
    "stopped": "yellow",
    "waiting": "dim",
}
COLUMNS = {
    "task": 0,
    "search": 0,
    "seed": 0,
    "state": 0,
    "episodes": 0,
    "current": 0,
    "best": 80,
    "R̃²": 120,
    "P(ascent)": 110,
    "ep/min": 100,
    "time": 95,
    "left": 70,
}
"""Columns of the table → the width of a screen from which on they are shown."""

MOST_FAILURES = 4
"""Failed runs whose reason is told on a screen of limited height."""

NAMES = ("task", "search")
"""Columns that give way where the others need the room."""

LEAST_NAME = 8

URGENCY = ("failed", "running", "elsewhere", "stopped", "waiting", "done")
BAR = 10


def overview(
    snapshots: Sequence[Snapshot], height: int | None = None, note: str = "", width: int | None = None
) -> Group:
    """The table, why runs failed, and a line that counts; on a low screen what is finished is left out first.

    Args:
        snapshots: the runs.
        height: lines of the screen; None: no limit.
        note: a phrase for the counting line.
        width: columns of the screen; None: no limit.
    """
    counts = Counter(item.state for item in snapshots)
    line = Text(" ")
    for state in (state for state in URGENCY[::-1] if counts.get(state)):
        line.append(f"{counts[state]} {state}  ", style=STYLES[state])
    left = study_time_left(snapshots)
    if left is not None:
        line.append(f"about {duration(left)} left  ")
    line.append(note, style="dim")
    reasons = failures(snapshots, None if height is None else MOST_FAILURES)
    table = runs_table(snapshots, None if height is None else max(3, height - 7 - len(reasons)), width)
    return Group(table, *reasons, line)


def runs_table(snapshots: Sequence[Snapshot], rows: int | None = None, width: int | None = None) -> Table:
    """One line per run.

    Args:
        snapshots: the runs.
        rows: lines at most; what is finished is left out first.
        width: columns of the screen; on a narrow one the columns that matter least are left out.
    """
    shown = list(snapshots)
    if rows is not None and len(shown) > rows:
        kept = sorted(range(len(shown)), key=lambda index: (URGENCY.index(shown[index].state), index))[: rows - 1]
        shown = [shown[index] for index in sorted(kept)]
    titles, lines = _titles(width), [_cells(item) for item in shown]
    if width is not None and sum(_widths(titles, lines).values()) > width:  # The numbers say it without the bar.
        lines = [{**line, "episodes": Text(line["episodes"].plain.split()[-1])} for line in lines]
    names, table = _name_widths(_widths(titles, lines), width), Table(box=None, padding=(0, 1), header_style="bold")
    for name in titles:
        justify = "left" if name in (*NAMES, "state", "episodes") else "right"
        whole = name in NAMES and rows is None  # Where height is no matter, a long name has several lines.
        table.add_column(
            name, justify=justify, overflow="fold" if whole else "ellipsis", no_wrap=not whole, width=names.get(name)
        )
    for line in lines:
        table.add_row(*(line[name] for name in titles))
    if len(shown) < len(snapshots):
        table.add_row(Text(f"… {len(snapshots) - len(shown)} more", style="dim"))
    return table


def _widths(titles: Sequence[str], lines: Sequence[Mapping[str, Text]]) -> dict[str, int]:
    """What every column needs, with the space around it."""
    return {name: 2 + max(map(cell_len, [name, *(line[name].plain for line in lines)])) for name in titles}


def _name_widths(needed: Mapping[str, int], width: int | None) -> dict[str, int]:
    """Widths of the columns of names, when not all columns fit: numbers and states are not cut off."""
    if width is None or sum(needed.values()) <= width:
        return {}
    room = width - sum(need for name, need in needed.items() if name not in NAMES) - 2 * len(NAMES)
    search = min(needed["search"] - 2, max(LEAST_NAME, room // 2))
    return {"task": min(needed["task"] - 2, max(LEAST_NAME, room - search)), "search": search}


def failures(snapshots: Sequence[Snapshot], most: int | None = None) -> list[Text]:
    """Why runs failed, one line each, over the whole width: a long reason must not squeeze the table."""
    failed = [item for item in snapshots if item.state == "failed" and item.reason]
    shown = failed if most is None or len(failed) <= most else failed[: max(0, most - 1)]
    lines = []
    for item in shown:
        name = f"{item.task}/{item.search}/seed-{'?' if item.seed is None else item.seed}"
        text = Text(no_wrap=most is not None, overflow="ellipsis" if most is not None else "fold")
        lines.append(text.append(f" {name} failed: ", style="bold red").append(item.reason, style="red"))
    if len(shown) < len(failed):
        lines.append(Text(f" … and {len(failed) - len(shown)} more failed", style="red"))
    return lines


def _titles(width: int | None) -> list[str]:
    """Columns that fit: all on a wide screen, fewer on a narrow one."""
    return [name for name, least in COLUMNS.items() if width is None or width >= least]


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


def _cells(item: Snapshot) -> dict[str, Text]:
    done = f"{item.episodes}/{item.budget}" if item.budget else str(item.episodes)
    active = item.state in ("running", "elsewhere")
    cells = {
        "task": item.task,
        "search": item.search,
        "seed": "–" if item.seed is None else str(item.seed),
        "state": Text(item.state, style=STYLES[item.state]),
        "episodes": Text.assemble((_bar(item), STYLES[item.state]), f" {done}"),
        "current": _shown(item.centre, ".4g"),
        "best": _shown(item.best, ".4g"),
        "R̃²": _shown(item.score, ".2f"),
        "P(ascent)": _shown(item.ascent, ".2f"),
        "ep/min": _shown(item.rate, ".3g") if active else "–",
        "time": duration(item.seconds) if item.seconds else "–",
        "left": "–" if item.left is None else duration(item.left),
    }
    return {name: cell if isinstance(cell, Text) else Text(cell) for name, cell in cells.items()}


def _bar(item: Snapshot) -> str:
    filled = round(BAR * min(1.0, item.episodes / item.budget)) if item.budget else 0
    return "━" * filled + "╌" * (BAR - filled)


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"
