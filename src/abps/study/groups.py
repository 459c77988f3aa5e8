"""From runs to comparisons: which runs belong together, where curves end, what a table row says.

A *group* is the runs of one search (with one set of settings) on one task. Runs that failed or are under way do not
enter a group's statistics when it has finished runs: a mean over whoever got that far would change for no reason in
the data. They stay visible, and `notices.warnings` names them.

Shapes: g grid points.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.seeding import generator
from abps.study import statistics
from abps.study.records import Run, flatten
from abps.study.statistics import Estimate, Reached

__all__ = [
    "AXES",
    "QUANTITIES",
    "Band",
    "Group",
    "Recall",
    "Row",
    "at_once",
    "axis_values",
    "band",
    "group_end",
    "group_runs",
    "improvements",
    "label_order",
    "metric_of",
    "points",
    "summarise",
    "task_order",
    "thresholds",
]


AXES = {"episodes": "training episodes", "steps": "training environment steps", "minutes": "minutes of wall time"}

QUANTITIES: dict[str, tuple[str, ...]] = {
    "max_discounted": ("max_discounted",),
    "max_return": ("max_return",),
    "centre_discounted": ("eval_discounted", "centre_discounted"),
    "centre_return": ("eval_return", "centre_return"),
}
"""What can be plotted, and the metrics it is read from: the first that a run has at all. Evaluations come before the
centre's training episodes, and one curve is never made of both."""

TASK_ORDER = ("pendulum", "swimmer", "hopper", "cheetah", "walker", "ant")
SEARCH_ORDER = ("abs", "mpd", "ars", "gibo", "ddpgn")
THRESHOLD_FRACTION = 0.8


Recall = Callable[[Hashable, Callable[[], Any]], Any]
"""Gives what was computed under a key before, or computes it."""


def at_once(key: Hashable, make: Callable[[], Any]) -> Any:
    """A `Recall` that remembers nothing."""
    return make()


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one search on one task; `runs` enter statistics, `left_out` are only shown."""

    task: str
    label: str
    search: str
    runs: tuple[Run, ...]
    left_out: tuple[Run, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the statistics are of finished runs."""
        return all(run.status == "done" for run in self.runs)


@dataclass(frozen=True, eq=False)
class Band:
    """One statistic over a group's runs along x, with its interval; all (g,)."""

    x: Array
    value: Array
    low: Array
    high: Array
    runs: int


@dataclass(frozen=True)
class Row:
    """One line of the summary table: a group where all groups of its task have been, in episodes or on another axis."""

    task: str
    label: str
    runs: int
    left_out: int
    episodes: float
    steps: float
    minutes: float
    """The axis that is compared on has the value that all groups reached; the two others, their median over runs there.
    """
    scores: Mapping[str, Mapping[str, Estimate]]
    """statistic → quantity → estimate; also "auc_return" and "auc_discounted" of the maximum so far."""
    threshold: float
    reached: Reached
    """Episodes (or what the axis counts) until the maximum so far (undiscounted) reaches the threshold."""


@dataclass(frozen=True)
class Improvement:
    """P(a run of `ours` beats one of `theirs`), averaged over the tasks both were run on."""

    ours: str
    theirs: str
    tasks: int
    runs: int
    """The fewest runs that either side has on a task: with one or two, the interval says nothing."""
    estimate: Estimate


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Sort runs into groups; a seed that appears twice in one group counts once, with its longest run."""
    labels = _labels(runs)
    cells: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run, label in zip(runs, labels, strict=True):
        cells[run.task, label, run.search].append(run)
    groups = [_group(*key, members) for key, members in cells.items()]
    return sorted(groups, key=lambda group: (task_order(group.task), label_order(group.label)))


def metric_of(run: Run, quantity: str) -> str:
    """The metric that a run's curve of a quantity is read from.

    Raises:
        ConfigError: unknown quantity.
    """
    if quantity not in QUANTITIES:
        raise ConfigError(f"unknown quantity {quantity!r}; known: {', '.join(QUANTITIES)}")
    names = QUANTITIES[quantity]
    return next((name for name in names if np.isfinite(run.column(name)).any()), names[-1])


def points(run: Run, quantity: str, axis: str) -> tuple[Array, Array]:
    """The curve of one run: x and y, (i,) each, without the iterations that have no value.

    Raises:
        ConfigError: unknown quantity or axis.
    """
    y, x = run.column(metric_of(run, quantity)), axis_values(run, axis)
    keep = np.isfinite(x) & np.isfinite(y)
    # A resumed run may have written an iteration twice; time may start anew. Curves only ever go forward.
    return np.maximum.accumulate(x[keep]) if keep.any() else x[keep], y[keep]


def band(
    group: Group,
    quantity: str,
    axis: str,
    *,
    statistic: str = "mean",
    grid: Array | None = None,
    repetitions: int = 400,
) -> Band | None:
    """The group's curve with its bootstrap interval; None when no run has the quantity."""
    curves = [(x, y) for x, y in (points(run, quantity, axis) for run in group.runs) if x.size]
    if not curves:
        return None
    end = group_end(group, axis)
    if grid is None:
        grid = np.linspace(0.0, end, 101)
    inside = np.where(grid <= end * (1 + 1e-9), grid, np.nan)
    values = np.stack([statistics.on_grid(x, y, grid) for x, y in curves])
    values[:, np.isnan(inside)] = np.nan
    rng = generator(0, "bootstrap", group.task, group.label, quantity, axis)
    centre, low, high = statistics.bootstrap_curve(
        values, _statistic(statistic), rng, repetitions=repetitions if len(curves) > 1 else 1
    )
    return Band(grid, centre, low, high, len(curves))


def common_end(groups: Iterable[Group], axis: str = "episodes") -> float:
    """The x that every group of a task reached: comparisons are made there. NaN when nothing was measured."""
    ends = [end for group in groups if math.isfinite(end := group_end(group, axis))]
    return min(ends) if ends else math.nan


def thresholds(
    groups: Sequence[Group], given: Mapping[str, float] | None = None, axis: str = "episodes"
) -> dict[str, float]:
    """A return per task that counts as success: given, or 80 % of the way from the start to the best group's end."""
    found: dict[str, float] = {}
    for task, members in _by_task(groups).items():
        end = common_end(members, axis)
        starts, finals = [], []
        for group in members:
            curves = [c for c in (points(run, "max_return", axis) for run in group.runs) if c[0].size]
            if curves:
                starts.append(np.mean([y[0] for _, y in curves]))
                finals.append(np.mean([statistics.on_grid(x, y, [end])[0] for x, y in curves]))
        low, high = (min(starts), np.nanmax(finals)) if starts and np.isfinite(finals).any() else (math.nan, math.nan)
        found[task] = float(low + THRESHOLD_FRACTION * (high - low))
    return {**found, **{task: value for task, value in (given or {}).items() if task in found}}


def summarise(
    groups: Sequence[Group],
    given: Mapping[str, float] | None = None,
    *,
    axis: str = "episodes",
    repetitions: int = statistics.REPETITIONS,
    recall: Recall = at_once,
) -> list[Row]:
    """One row per group, compared at the episode count (or steps, or minutes) that all groups of the task reached.

    Args:
        groups: what is compared.
        given: task → return that counts as success.
        axis: what is counted, a key of `AXES`.
        repetitions: of the bootstrap.
        recall: keeps rows of groups that have not changed.
    """
    limits = thresholds(groups, given, axis)
    rows = []
    for task, members in _by_task(groups).items():
        end = common_end(members, axis)
        for group in members:
            key = ("row", axis, group.runs, len(group.left_out), end, limits[task])
            rows.append(recall(key, lambda g=group, e=end, t=task: _row(g, axis, e, limits[t], repetitions)))
    return rows


def improvements(groups: Sequence[Group], quantity: str = "max_return", axis: str = "episodes") -> list[Improvement]:
    """Every pair of searches that share a task, each pair in both directions."""
    finals: dict[str, dict[str, Array]] = defaultdict(dict)
    for task, members in _by_task(groups).items():
        end = common_end(members, axis)
        for group in members:
            values = _finals(group, quantity, axis, end)
            if values.size:
                finals[group.label][task] = values
    result = []
    for ours in finals:
        for theirs in finals:
            shared = [task for task in finals[ours] if task in finals[theirs]]
            if ours == theirs or not shared:
                continue
            left, right = ([finals[name][task] for task in shared] for name in (ours, theirs))
            rng = generator(0, "improvement", *sorted((ours, theirs)), quantity)
            estimate = statistics.bootstrap_improvement(left, right, rng)
            fewest = min(values.size for values in (*left, *right))
            result.append(Improvement(ours, theirs, len(shared), fewest, estimate))
    return result


def task_order(task: str) -> tuple[int, str]:
    """Sort key: the paper's tasks in its order, then the others by name."""
    lowered = task.lower()
    return next((rank for rank, part in enumerate(TASK_ORDER) if part in lowered), len(TASK_ORDER)), lowered


def label_order(label: str) -> tuple[int, str]:
    """Sort key: the paper's searches first, then the others by name."""
    base = label.split(" ")[0]
    return (SEARCH_ORDER.index(base) if base in SEARCH_ORDER else len(SEARCH_ORDER)), label


def axis_values(run: Run, axis: str) -> Array:
    """The x of every outer iteration, (i,).

    Raises:
        ConfigError: unknown axis.
    """
    if axis == "minutes":
        return run.column("seconds") / 60.0
    if axis not in AXES:
        raise ConfigError(f"unknown axis {axis!r}; known: {', '.join(AXES)}")
    return run.column(axis)


def group_end(group: Group, axis: str) -> float:
    """How far a group is: finished runs as far as the longest, others as far as the shortest. NaN: nothing is measured.

    A finished run has used its whole budget. Its last episodes may belong to an outer iteration that they did not
    complete; its current policy is then still that of the iteration before, so the curve goes on at that height.
    """
    lasts = [max(float(x[-1]), _used(run, axis)) for run in group.runs if (x := _finite(axis_values(run, axis))).size]
    return math.nan if not lasts else max(lasts) if group.complete else min(lasts)


def _used(run: Run, axis: str) -> float:
    """Episodes or steps that a finished run has used in all; 0 where that is not known."""
    counted = {"episodes": run.episodes_run, "steps": run.steps_run}
    return float(counted.get(axis, 0)) if run.status == "done" and not run.imported else 0.0


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _statistic(name: str) -> statistics.Statistic:
    if name not in statistics.STATISTICS:
        raise ConfigError(f"unknown statistic {name!r}; known: {', '.join(statistics.STATISTICS)}")
    return statistics.STATISTICS[name]


def _labels(runs: Sequence[Run]) -> list[str]:
    """The search's name, followed by the settings that differ between runs of this search on one task."""
    values: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for key, value in _distinguishing(run).items():
            values[run.search, run.task][key].add(repr(value))
    varied: dict[str, list[str]] = defaultdict(list)
    for (search, _), settings in values.items():
        varied[search] += [key for key, seen in settings.items() if len(seen) > 1 and key not in varied[search]]
    return [_label(run, varied[run.search]) for run in runs]


def _label(run: Run, varied: Sequence[str]) -> str:
    if run.imported:
        return f"{run.search} (imported)"
    settings = _distinguishing(run)
    if not varied or not settings:
        return run.search
    values = {key: _plain(settings.get(key)) for key in varied}
    named = ", ".join(f"{key}={value}" for key, value in values.items() if value)
    return f"{run.search} ({named})" if named else run.search


def _distinguishing(run: Run) -> dict[str, object]:
    """What sets runs apart: the search's settings, and the task's (a study may vary γ), but not its name."""
    task = run.config.get("task")
    flat = flatten(task) if isinstance(task, Mapping) else {}
    return {**run.settings, **{f"task.{key}": value for key, value in flat.items() if key not in ("id", "name")}}


def _plain(value: object) -> str:
    """A setting's value in a label; an empty list (no constraint, no wrapper) is an empty text."""
    if isinstance(value, list):
        return ", ".join(map(str, cast(list[object], value)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _group(task: str, label: str, search: str, members: Sequence[Run]) -> Group:
    by_seed: dict[int, Run] = {}
    for run in sorted(members, key=lambda run: (run.status == "done", len(run.metrics))):
        by_seed[run.seed] = run
    ordered = [by_seed[seed] for seed in sorted(by_seed)]
    measured = [run for run in ordered if run.metrics]
    done = [run for run in measured if run.status == "done"]
    counted = done or [run for run in measured if run.status == "unfinished"] or measured
    return Group(task, label, search, tuple(counted), tuple(run for run in members if run not in counted))


def _by_task(groups: Sequence[Group]) -> dict[str, list[Group]]:
    tasks: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        tasks[group.task].append(group)
    return tasks


def _finals(group: Group, quantity: str, axis: str, end: float) -> Array:
    values = [statistics.on_grid(*points(run, quantity, axis), [end])[0] for run in group.runs]
    return np.array([value for value in values if np.isfinite(value)])


def _row(group: Group, axis: str, end: float, threshold: float, repetitions: int) -> Row:
    samples = {quantity: _finals(group, quantity, axis, end) for quantity in QUANTITIES}
    for kind in ("return", "discounted"):
        areas = [statistics.area_under_curve(*points(run, f"max_{kind}", axis), end=end) for run in group.runs]
        samples[f"auc_{kind}"] = np.array([area for area in areas if np.isfinite(area)])
    firsts = []
    for run in group.runs:
        x, y = points(run, "max_return", axis)
        first = statistics.first_reached(x, y, threshold)
        firsts.append(first if first <= end else math.inf)
    return Row(
        task=group.task,
        label=group.label,
        runs=len(group.runs),
        left_out=len(group.left_out),
        **{name: end if name == axis else _at_end(group, name, axis, end) for name in AXES},
        scores={name: _estimates(group, samples, name, repetitions) for name in statistics.STATISTICS},
        threshold=threshold,
        reached=statistics.reached(firsts),
    )


def _estimates(group: Group, samples: Mapping[str, Array], statistic: str, repetitions: int) -> dict[str, Estimate]:
    estimates = {}
    for quantity, values in samples.items():
        if values.size == 1:
            estimates[quantity] = Estimate(*[float(values[0])] * 3)
        elif values.size:
            rng = generator(0, "summary", group.task, group.label, quantity)
            estimates[quantity] = statistics.bootstrap([values], _statistic(statistic), rng, repetitions=repetitions)
    return estimates


def _at_end(group: Group, other: str, axis: str, end: float) -> float:
    """Median over runs of one axis where another one is at `end`."""
    values = []
    for run in group.runs:
        x, y = axis_values(run, axis), axis_values(run, other)
        if _used(run, axis) and _used(run, other):  # The episodes of an outer iteration that was not completed.
            x, y = np.append(x, _used(run, axis)), np.append(y, _used(run, other))
        known = np.isfinite(x)
        values.append(statistics.on_grid(np.maximum.accumulate(x[known]), y[known], [end])[0])
    finite = [value for value in values if np.isfinite(value)]
    return float(np.median(finite)) if finite else math.nan
