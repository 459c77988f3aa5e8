"""The short answer of a comparison: one line per search and task, for the terminal and for Markdown."""

import math
from collections.abc import Sequence

from rich.table import Table

from abps.study.groups import Row
from abps.study.statistics import Estimate

__all__ = ["markdown_table", "summary_table"]

COLUMNS = (
    ("task", "left"),
    ("search", "left"),
    ("seeds", "right"),
    ("episodes", "right"),
    ("steps", "right"),
    ("current centre: mean [95 %]", "right"),
    ("maximum so far: mean [95 %]", "right"),
    ("IQM [95 %]", "right"),
    ("minutes", "right"),
)

LABEL_WIDTH = 20
"""Characters that a label has at least in a narrow terminal; the rest goes into further lines, and nothing is cut."""


def summary_table(rows: Sequence[Row]) -> Table:
    """The rows as a table for the terminal."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name, justify in COLUMNS:
        least = min(LABEL_WIDTH, max((len(row.label) for row in rows), default=0)) if name == "search" else None
        table.add_column(name, justify=justify, overflow="fold", min_width=least)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*_texts(row))
    return table


def markdown_table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = [name for name, _ in COLUMNS]
    rule = ["---" if justify == "left" else "---:" for _, justify in COLUMNS]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *(_texts(row) for row in rows)))


def _texts(row: Row) -> list[str]:
    mean, middle = row.scores["mean"], row.scores["iqm"]
    return [
        row.task,
        row.label,
        f"{row.runs}" + (f" (+{row.left_out} left out)" if row.left_out else ""),
        _number(row.episodes),
        _number(row.steps),
        _estimate(mean.get("centre_return"), row.runs),
        _estimate(mean.get("max_return"), row.runs),
        _estimate(middle.get("max_return"), row.runs),
        "–" if math.isnan(row.minutes) else f"{row.minutes:.1f}",
    ]


def _estimate(estimate: Estimate | None, runs: int) -> str:
    if estimate is None:
        return "–"
    if runs < 2:
        return _number(estimate.value)  # One run has no interval, whatever a bootstrap of it says.
    return f"{_number(estimate.value)} [{_number(estimate.low)}, {_number(estimate.high)}]"


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"
