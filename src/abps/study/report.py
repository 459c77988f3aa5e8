"""The report: runs as plain JSON, and one HTML file around it that works without a network.

Statistics are computed here, in tested numpy, not in the browser. `abps watch --web` shows the same page with the same
JSON, made again whenever something new is on disk (`study/live.py`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.errors import RunError
from abps.study.diagnostics import PANELS
from abps.study.gallery import ordered_phases, phases
from abps.study.groups import (
    AXES,
    QUANTITIES,
    Group,
    Recall,
    Row,
    at_once,
    axis_values,
    band,
    group_end,
    group_runs,
    improvements,
    label_order,
    summarise,
)
from abps.study.headline import run_headline, study_headlines
from abps.study.jsontypes import as_text, estimate, number, numbers
from abps.study.notices import warnings
from abps.study.page import render
from abps.study.records import Run, flatten
from abps.study.run_view import points_per_run, run_details, run_id, run_summary
from abps.study.statistics import REPETITIONS, STATISTICS
from abps.study.style import assign

__all__ = ["FULL", "Detail", "payload", "write_report"]

GRID_POINTS = 81
MAX_PAIRS = 12
"""Labels up to which every pair is compared."""

IDENTITY = ("seed", "task", "task.name", "task.id", "search", "search.name")
"""What names a run is in every table anyway and is no difference in settings."""

FILM_BYTES, FILM_BYTES_OF_MANY = 4_000_000, 400_000
"""What films may add to the page of one run, and to the page of several together."""


@dataclass(frozen=True)
class Detail:
    """How much is computed; a page that is made again every few seconds does with less."""

    quantities: tuple[str, ...] = tuple(QUANTITIES)
    band_repetitions: int = 300
    row_repetitions: int = REPETITIONS
    pairs: bool = True
    """Whether every pair of searches is compared."""
    details: bool = True
    """Whether the page has the details of every run, or asks for those of one."""
    under_way: bool = False
    """Whether runs that are not finished are what one expects."""


FULL = Detail()


def write_report(
    runs: Sequence[Run], path: Path, *, title: str = "", thresholds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Write the report and return its payload.

    Args:
        runs: what to report on.
        path: the HTML file.
        title: heading of the page; the tasks and searches by default.
        thresholds: task → return that counts as success.

    Raises:
        RunError: the file cannot be written.
    """
    content = payload(runs, thresholds=thresholds)
    path = Path(path)
    # A folder's name may be no valid text at all; that must not cost the report.
    page = render(content, title=title).encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(page)
    except OSError as error:
        raise RunError(f"cannot write the report to {path}: {error.strerror or error}") from error
    return content


def payload(
    runs: Sequence[Run],
    *,
    thresholds: Mapping[str, float] | None = None,
    detail: Detail = FULL,
    recall: Recall = at_once,
) -> dict[str, Any]:
    """Everything the page shows, as JSON types; numbers have five digits, curves are thinned out.

    Args:
        runs: the runs.
        thresholds: task → return that counts as success.
        detail: how much is computed.
        recall: keeps what was computed for runs that have not changed.
    """
    groups = group_runs(runs)
    tasks = list(dict.fromkeys(group.task for group in groups))
    labels = sorted({group.label for group in groups}, key=label_order)
    grids = {task: {axis: _grid([g for g in groups if g.task == task], axis) for axis in AXES} for task in tasks}
    parts = [recall(("phases", group.runs), lambda group=group: phases(group)) for group in groups]
    rows = summarise(groups, thresholds, repetitions=detail.row_repetitions, recall=recall)
    pairs = detail.quantities if detail.pairs and len(labels) <= MAX_PAIRS else ()
    most = points_per_run(len(runs))
    shown = [(run, group) for group in groups for run in (*group.runs, *group.left_out)]
    return {
        "live": False,
        "axes": AXES,
        "quantities": detail.quantities,
        "tasks": tasks,
        "labels": labels,
        "searches": sorted({group.search for group in groups}, key=label_order),
        "style": assign(labels),
        "headlines": _headlines(runs, rows, thresholds),
        "grids": {task: {axis: numbers(grid) for axis, grid in axes.items()} for task, axes in grids.items()},
        "groups": [
            _group(group, part, _bands(group, grids, detail, recall)) for group, part in zip(groups, parts, strict=True)
        ],
        "phases": ordered_phases(parts),
        "runs": [
            recall(("run", run, group.label, run in group.runs, most), lambda r=run, g=group: run_summary(r, g, most))
            for run, group in shown
        ],
        "details": _details(runs, most, thresholds) if detail.details else {},
        "rows": [_row(row) for row in rows],
        "improvements": {quantity: _improvements(groups, quantity) for quantity in pairs},
        "panels": PANELS,
        "settings": _settings(groups),
        "versions": _versions(runs),
        "warnings": [asdict(notice) for notice in warnings(runs, groups, under_way=detail.under_way)],
    }


def _headlines(runs: Sequence[Run], rows: Sequence[Row], thresholds: Mapping[str, float] | None) -> list[str]:
    if len(runs) == 1:
        return [run_headline(runs[0], (thresholds or {}).get(runs[0].task))]
    return study_headlines(rows)


def _details(runs: Sequence[Run], most: int, thresholds: Mapping[str, float] | None) -> dict[str, Any]:
    left = FILM_BYTES if len(runs) == 1 else FILM_BYTES_OF_MANY
    found = {}
    for run in runs:
        details = run_details(run, most, left, (thresholds or {}).get(run.task))
        left -= len(details["film"]["data"]) if details["film"] else 0
        found[run_id(run)] = details
    return found


def _group(group: Group, parts: Mapping[str, float], bands: Mapping[str, Any]) -> dict[str, Any]:
    seconds = {name: number(value) for name, value in parts.items()}
    return {"task": group.task, "label": group.label, "runs": len(group.runs), "bands": bands, "phases": seconds}


def _bands(group: Group, grids: Mapping[str, Mapping[str, Any]], detail: Detail, recall: Recall) -> dict[str, Any]:
    """The group's curves with intervals; a group of one run has none, its own curve says it all."""
    if len(group.runs) < 2:
        return {}
    bands: dict[str, Any] = {}
    for axis, grid in grids[group.task].items():
        for quantity in detail.quantities:
            for statistic in STATISTICS:
                key = ("band", group.runs, group.complete, axis, quantity, statistic, float(grid[-1]))
                lines = recall(key, lambda a=axis, q=quantity, s=statistic, g=grid: _band(group, q, a, s, g, detail))
                if lines is not None:
                    bands.setdefault(axis, {}).setdefault(quantity, {})[statistic] = lines
    return bands


def _band(
    group: Group, quantity: str, axis: str, statistic: str, grid: NDArray[np.float64], detail: Detail
) -> list[list[float | int | None]] | None:
    curve = band(group, quantity, axis, statistic=statistic, grid=grid, repetitions=detail.band_repetitions)
    if curve is None:
        return None
    return [numbers(y) for y in ([curve.value, curve.low, curve.high] if curve.runs > 1 else [curve.value])]


def _row(row: Row) -> dict[str, Any]:
    scores = {name: {q: estimate(e) for q, e in part.items()} for name, part in row.scores.items()}
    values = {name: number(getattr(row, name)) for name in ("episodes", "steps", "minutes", "threshold")}
    reached = [row.reached.count, row.reached.runs, number(row.reached.median)]
    identity = {"task": row.task, "label": row.label, "runs": row.runs, "left_out": row.left_out}
    return {**identity, **values, "scores": scores, "reached": reached}


def _improvements(groups: Sequence[Group], quantity: str) -> list[dict[str, Any]]:
    return [
        {"ours": i.ours, "theirs": i.theirs, "tasks": i.tasks, "runs": i.runs, "estimate": estimate(i.estimate)}
        for i in improvements(groups, quantity)
    ]


def _settings(groups: Sequence[Group]) -> dict[str, Any]:
    """Settings that are equal wherever they exist, and those that differ with one cell per group."""
    columns = [_group_settings(group) for group in groups]
    names = sorted({name for column in columns for name in column})
    same, different = [], []
    for name in names:
        cells = [column.get(name) for column in columns]
        values = {cell for cell in cells if cell is not None}
        if len(values) == 1:
            same.append([name, values.pop()])
        else:
            different.append({"name": name, "cells": cells})
    return {"same": same, "different": different}


def _group_settings(group: Group) -> dict[str, str]:
    seen: dict[str, dict[str, None]] = {}
    for run in (*group.runs, *group.left_out):
        for name, value in flatten(run.config).items():
            if name not in IDENTITY:
                seen.setdefault(name, {})[as_text(value)] = None
    return {name: " | ".join(values) for name, values in seen.items()}


def _versions(runs: Sequence[Run]) -> dict[str, Any]:
    flat = [flatten(run.versions) for run in runs]
    same, different = [], []
    for name in sorted({name for versions in flat for name in versions}):
        counts = Counter(as_text(versions.get(name, "unknown")) for versions in flat)
        if len(counts) == 1:
            same.append([name, next(iter(counts))])
        else:
            different.append({"name": name, "values": sorted(counts.items())})
    return {"same": same, "different": different}


def _grid(groups: Sequence[Group], axis: str) -> NDArray[np.float64]:
    columns = [axis_values(run, axis) for group in groups for run in group.runs]
    lasts = [float(np.nanmax(values)) for values in columns if np.isfinite(values).any()]
    ends = [end for group in groups if math.isfinite(end := group_end(group, axis))]
    end = max((*lasts, *ends), default=1.0) or 1.0
    grid = np.linspace(0.0, end, GRID_POINTS)
    # Nobody wants to read a value at episode 359.6.
    return np.append(np.round(grid[:-1]), end) if axis != "minutes" and end >= GRID_POINTS else grid
