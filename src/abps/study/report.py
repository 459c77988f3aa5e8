"""The report: one HTML file with its data, styles and script inside, that works without a network.

`payload` turns runs into plain JSON (statistics are computed here, in tested numpy, not in the browser); `render` puts
it into the page. Nothing from a run reaches the page as markup: text goes through JSON with "<" escaped, the script
only makes text nodes, and a content security policy allows the file's own script by its hash and nothing else.
"""

import base64
import hashlib
import html
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.study.gallery import ordered_phases, phases
from abps.study.groups import (
    AXES,
    QUANTITIES,
    Group,
    band,
    group_runs,
    improvements,
    label_order,
    points,
    summarise,
)
from abps.study.notices import warnings
from abps.study.records import Run, flatten
from abps.study.statistics import STATISTICS, Estimate
from abps.study.style import assign

__all__ = ["payload", "render", "write_report"]

GRID_POINTS = 81
RUN_POINTS = 120
DIGITS = 5
MAX_PAIRS = 12
"""Labels up to which every pair is compared."""

IDENTITY = ("seed", "task", "task.name", "task.id", "search", "search.name")
"""What names a run is in every table anyway and is no difference in settings."""

DIAGNOSTICS: tuple[dict[str, Any], ...] = (
    {
        "title": "Scores of the critics",
        "columns": [["r2_validation", "validation R̃², critic"], ["r2_test", "test R̂²"]],
        "unit": "clipped to [−1, 1]",
        "clip": [-1, 1],
    },
    {"title": "Weights of the critics", "columns": [["weights", "critic"]], "unit": "weight"},
    {"title": "σ_β", "columns": [["sigma_beta", "σ_β"]], "unit": ""},
    {
        "title": "Lengthscales",
        "columns": [["lengthscale_low", "lowest"], ["lengthscale_median", "median"], ["lengthscale_high", "highest"]],
        "unit": "ℓ, logarithmic",
        "log": True,
    },
    {"title": "P(ascent)", "columns": [["probability_ascent", "P(ascent)"]], "unit": "probability"},
    {
        "title": "Step size",
        "columns": [["step_length", "in parameters"], ["step_actions", "in actions"]],
        "unit": "logarithmic",
        "log": True,
    },
    {"title": "Norm of μ", "columns": [["mu_norm", "‖μ‖"]], "unit": "logarithmic", "log": True},
    {
        "title": "Signal and noise",
        "columns": [["signal", "σ_f"], ["noise", "σ_n"]],
        "unit": "logarithmic",
        "log": True,
    },
    {
        "title": "Log marginal likelihood",
        "columns": [["log_likelihood", "of the window"], ["log_likelihood_constant", "with a constant mean instead"]],
        "unit": "nats",
    },
    {"title": "Cosine of ∇m̂ and μ", "columns": [["mean_gradient_cosine", "cosine"]], "unit": ""},
    {"title": "Norm of ∇m̂", "columns": [["mean_gradient_norm", "‖∇m̂‖"]], "unit": "logarithmic", "log": True},
    {
        "title": "Returns",
        "columns": [
            ["eval_return", "centre, evaluated"],
            ["centre_return", "centre, training"],
            ["max_return", "maximum so far"],
        ],
        "unit": "undiscounted",
    },
)


def write_report(
    runs: Sequence[Run], path: Path, *, title: str = "", thresholds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Write the report and return its payload.

    Args:
        runs: what to report on.
        path: the HTML file.
        title: heading of the page; the tasks and searches by default.
        thresholds: task → return that counts as success.
    """
    content = payload(runs, thresholds=thresholds)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A folder's name may be no valid text at all; that must not cost the report.
    path.write_bytes(render(content, title=title).encode("utf-8", "replace"))
    return content


def payload(runs: Sequence[Run], *, thresholds: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Everything the page shows, as JSON types; numbers have five digits, curves are thinned out."""
    groups = group_runs(runs)
    tasks = list(dict.fromkeys(group.task for group in groups))
    labels = sorted({group.label for group in groups}, key=label_order)
    grids = {task: {axis: _grid([g for g in groups if g.task == task], axis) for axis in AXES} for task in tasks}
    parts = [phases(group) for group in groups]
    pairs = QUANTITIES if len(labels) <= MAX_PAIRS else {}
    return {
        "axes": AXES,
        "tasks": tasks,
        "labels": labels,
        "searches": sorted({group.search for group in groups}, key=label_order),
        "style": assign(labels),
        "grids": {task: {axis: _numbers(grid) for axis, grid in axes.items()} for task, axes in grids.items()},
        "groups": [_group(group, grids[group.task], part) for group, part in zip(groups, parts, strict=True)],
        "phases": ordered_phases(parts),
        "runs": [_run(run, group) for group in groups for run in (*group.runs, *group.left_out)],
        "rows": _rows(groups, thresholds),
        "improvements": {quantity: _improvements(groups, quantity) for quantity in pairs},
        "diagnostics": DIAGNOSTICS,
        "settings": _settings(groups),
        "versions": _versions(runs),
        "warnings": [{"level": item.level, "text": item.text} for item in warnings(runs, groups)],
    }


def render(content: Mapping[str, Any], *, title: str = "") -> str:
    """The page as text, complete and self-contained."""
    style = _asset("report.css")
    script = '"use strict";\n(() => {\n' + _asset("charts.js") + _asset("report.js") + "})();\n"
    tasks, labels, count = content["tasks"], content["labels"], len(content["runs"])
    title = title or f"{_listing(content['searches'])} on {_listing(tasks)}"
    subtitle = f"{_plural(count, 'run')}: {_plural(len(tasks), 'task')} × {_plural(len(labels), 'search', 'searches')}"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    values = {
        "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
        "title": html.escape(title),
        "subtitle": html.escape(subtitle),
        "footer": html.escape(f"Made by abps {_version()} on {made}. This file is complete: it loads nothing."),
        "style": style,
        "script": script,
        "data": _json(content),
    }
    # One pass: what is inserted is not searched for further names.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _asset("report.html"))


def _group(group: Group, grids: Mapping[str, NDArray[np.float64]], parts: Mapping[str, float]) -> dict[str, Any]:
    bands: dict[str, Any] = {}
    for axis, grid in grids.items():
        for quantity in QUANTITIES:
            for statistic in STATISTICS:
                curve = band(group, quantity, axis, statistic=statistic, grid=grid, repetitions=300)
                if curve is not None:
                    lines = [curve.value, curve.low, curve.high] if curve.runs > 1 else [curve.value]
                    bands.setdefault(axis, {}).setdefault(quantity, {})[statistic] = [_numbers(y) for y in lines]
    return {
        "task": group.task,
        "label": group.label,
        "bands": bands,
        "phases": {name: _number(value) for name, value in parts.items()},
    }


def _run(run: Run, group: Group) -> dict[str, Any]:
    keep = _thinned(len(run.metrics))
    steps = {axis: _x(run, axis)[keep] for axis in AXES}
    last = {axis: _last(values) for axis, values in steps.items()}
    return {
        "name": run.name,
        "path": str(run.path),
        "task": run.task,
        "label": group.label,
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason.splitlines()[0][:300] if run.reason else "",
        "counted": run in group.runs,
        "failed_episodes": run.failed_episodes,
        "x": {axis: _numbers(values) for axis, values in steps.items()},
        "y": {q: _numbers(run.column(*names)[keep]) for q, names in QUANTITIES.items()},
        "last": {**last, "max_return": _last(points(run, "max_return", "episodes")[1])},
        "diagnostics": _diagnostics(run, keep),
    }


def _diagnostics(run: Run, keep: NDArray[np.int64]) -> dict[str, list[list[float | None]]]:
    found = {}
    for name in (column for panel in DIAGNOSTICS for column, _ in panel["columns"]):
        table = run.table(name)
        lines = [table[:, index] for index in range(table.shape[1])] if table.size else [run.column(name)]
        if any(np.isfinite(line).any() for line in lines):
            found[name] = [_numbers(line[keep]) for line in lines]
    return found


def _rows(groups: Sequence[Group], thresholds: Mapping[str, float] | None) -> list[dict[str, Any]]:
    rows = []
    for row in summarise(groups, thresholds):
        scores = {name: {q: _estimate(e) for q, e in part.items()} for name, part in row.scores.items()}
        numbers = {name: _number(getattr(row, name)) for name in ("episodes", "steps", "minutes", "threshold")}
        reached = [row.reached.count, row.reached.runs, _number(row.reached.median)]
        identity = {"task": row.task, "label": row.label, "runs": row.runs, "left_out": row.left_out}
        rows.append({**identity, **numbers, "scores": scores, "reached": reached})
    return rows


def _improvements(groups: Sequence[Group], quantity: str) -> list[dict[str, Any]]:
    return [
        {"ours": i.ours, "theirs": i.theirs, "tasks": i.tasks, "runs": i.runs, "estimate": _estimate(i.estimate)}
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
                seen.setdefault(name, {})[_text(value)] = None
    return {name: " | ".join(values) for name, values in seen.items()}


def _versions(runs: Sequence[Run]) -> dict[str, Any]:
    names = sorted({name for run in runs for name in flatten(run.versions)})
    same, different = [], []
    for name in names:
        counts = Counter(_text(flatten(run.versions).get(name, "unknown")) for run in runs)
        if len(counts) == 1:
            same.append([name, next(iter(counts))])
        else:
            different.append({"name": name, "values": sorted(counts.items())})
    return {"same": same, "different": different}


def _grid(groups: Sequence[Group], axis: str) -> NDArray[np.float64]:
    ends = [values for group in groups for run in group.runs if (values := _finite_max(_x(run, axis))) is not None]
    end = max(ends, default=1.0) or 1.0
    grid = np.linspace(0.0, end, GRID_POINTS)
    # Nobody wants to read a value at episode 359.6.
    return np.append(np.round(grid[:-1]), end) if axis != "minutes" and end >= GRID_POINTS else grid


def _x(run: Run, axis: str) -> NDArray[np.float64]:
    return run.column("seconds") / 60.0 if axis == "minutes" else run.column(axis)


def _finite_max(values: NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else None


def _last(values: NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return _number(finite[-1]) if finite.size else None


def _thinned(size: int) -> NDArray[np.int64]:
    """Indices of at most `RUN_POINTS` iterations, the first and the last among them."""
    return (
        np.unique(np.linspace(0, size - 1, min(size, RUN_POINTS)).round().astype(np.int64))
        if size
        else np.zeros(0, np.int64)
    )


def _number(value: float) -> float | int | None:
    """Five significant digits; None for what is not finite, which JSON cannot say."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _numbers(values: NDArray[np.float64]) -> list[float | int | None]:
    return [_number(float(value)) for value in values]


def _estimate(estimate: Estimate) -> list[float | int | None]:
    return [_number(estimate.value), _number(estimate.low), _number(estimate.high)]


def _text(value: Any) -> str:
    return value[:500] if isinstance(value, str) else json.dumps(value, default=str)[:500]


def _json(content: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment there."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def _asset(name: str) -> str:
    return resources.files("abps.study").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _version() -> str:
    try:
        return metadata.version("abps")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _listing(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
