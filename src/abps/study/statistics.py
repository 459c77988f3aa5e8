"""Statistics of a comparison: numpy only, no plotting, no files.

Shapes: r runs (seeds) of one task, t tasks, g grid points, b bootstrap repetitions. Scores of several tasks are a
sequence of vectors (r_t,), because tasks may have different numbers of runs. A *statistic* reduces one axis, the last
by default.

The bootstrap is stratified: runs are drawn with replacement inside each task, tasks are kept. With few runs its
percentile intervals are too narrow (three runs have ten distinct resamples); reports say so instead of hiding it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abps.arrays import Array
from abps.errors import ShapeError

__all__ = [
    "STATISTICS",
    "Estimate",
    "Reached",
    "area_under_curve",
    "bootstrap",
    "bootstrap_curve",
    "bootstrap_improvement",
    "first_reached",
    "interquartile_mean",
    "mean",
    "median",
    "on_grid",
    "probability_of_improvement",
    "reached",
]

Statistic = Callable[..., Array]

REPETITIONS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Reached:
    """How many runs reached a threshold, and the median x at which they did (inf: fewer than half did)."""

    count: int
    runs: int
    median: float


def mean(values: ArrayLike, axis: int = -1) -> Array:
    """Arithmetic mean along `axis`."""
    return np.mean(np.asarray(values, dtype=np.float64), axis=axis)


def median(values: ArrayLike, axis: int = -1) -> Array:
    """Median along `axis`."""
    return np.median(np.asarray(values, dtype=np.float64), axis=axis)


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Array:
    """Mean of the middle half along `axis`: ⌊r/4⌋ values are dropped at either end (with r < 4, none)."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    size = ordered.shape[axis]
    cut = size // 4
    return np.mean(np.take(ordered, np.arange(cut, size - cut), axis=axis), axis=axis)


STATISTICS: dict[str, Statistic] = {"mean": mean, "iqm": interquartile_mean, "median": median}


def probability_of_improvement(ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike]) -> float:
    """Chance that a run of ours beats a run of theirs on a random task; ties count half.

    Args:
        ours: one vector of scores per task; larger is better.
        theirs: the same tasks in the same order.
    """
    if len(ours) != len(theirs) or not ours:
        raise ShapeError(f"need scores of the same tasks for both sides, got {len(ours)} and {len(theirs)} tasks")
    per_task = []
    for left, right in zip(ours, theirs, strict=True):
        difference = _vector(left)[:, None] - _vector(right)[None, :]
        per_task.append(np.mean((difference > 0) + 0.5 * (difference == 0)))
    return float(np.mean(per_task))


def bootstrap(
    scores: Sequence[ArrayLike],
    statistic: Callable[..., object],
    rng: np.random.Generator,
    *,
    repetitions: int = REPETITIONS,
    level: float = LEVEL,
) -> Estimate:
    """Percentile interval of a statistic over all runs of all tasks, runs resampled inside each task.

    Args:
        scores: one vector of scores per task.
        statistic: reduces the last axis of (…, Σ r_t).
        rng: where the resamples come from.
        repetitions: b, the number of resamples.
        level: coverage of the interval.
    """
    vectors = [_vector(task) for task in scores]
    pooled = np.concatenate(vectors)
    resampled = np.concatenate([v[_draw(rng, v.size, repetitions)] for v in vectors], axis=1)
    low, high = _percentiles(np.asarray(statistic(resampled, axis=-1), dtype=np.float64), level)
    return Estimate(float(np.asarray(statistic(pooled, axis=-1))), float(low), float(high))


def bootstrap_improvement(
    ours: Sequence[ArrayLike],
    theirs: Sequence[ArrayLike],
    rng: np.random.Generator,
    *,
    repetitions: int = REPETITIONS,
    level: float = LEVEL,
) -> Estimate:
    """`probability_of_improvement` with its interval: both sides are resampled inside each task."""
    value = probability_of_improvement(ours, theirs)
    total = np.zeros(repetitions)
    for left, right in zip(ours, theirs, strict=True):
        x, y = _vector(left), _vector(right)
        difference = x[_draw(rng, x.size, repetitions)][:, :, None] - y[_draw(rng, y.size, repetitions)][:, None, :]
        total += np.mean((difference > 0) + 0.5 * (difference == 0), axis=(1, 2))
    low, high = _percentiles(total / len(ours), level)
    return Estimate(value, float(low), float(high))


def bootstrap_curve(
    curves: ArrayLike,
    statistic: Statistic,
    rng: np.random.Generator,
    *,
    repetitions: int = 400,
    level: float = LEVEL,
) -> tuple[Array, Array, Array]:
    """Point-wise statistic of r curves on a common grid, (r, g), with its interval: three vectors (g,).

    Whole runs are resampled, so the band keeps what neighbouring points have in common. A grid point at which any run
    has no value stays NaN: a mean over fewer runs than before would jump for no reason in the data.
    """
    values = np.asarray(curves, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] == 0:
        raise ShapeError(f"curves must have shape (runs, grid) with at least one run, got {values.shape}")
    resampled = np.asarray(statistic(values[_draw(rng, values.shape[0], repetitions)], axis=1))
    low, high = _percentiles(resampled, level)
    centre = np.asarray(statistic(values, axis=0), dtype=np.float64)
    return centre, low, high


def on_grid(x: ArrayLike, y: ArrayLike, grid: ArrayLike, *, carry: bool = True) -> Array:
    """Read a step-wise curve at grid points: the value is the last one known at that x.

    Args:
        x: (i,) non-decreasing; when an x repeats, the last value counts.
        y: (i,); points where x or y is NaN are left out.
        grid: (g,).
        carry: keep the last value beyond the end of the curve; otherwise NaN there.

    Returns:
        (g,); NaN before the first point.
    """
    xs, ys = _vector(x), _vector(y)
    if xs.shape != ys.shape:
        raise ShapeError(f"x and y must have the same length, got {xs.shape} and {ys.shape}")
    keep = np.isfinite(xs) & np.isfinite(ys)
    xs, ys, points = xs[keep], ys[keep], _vector(grid)
    if xs.size == 0:
        return np.full(points.shape, np.nan)
    if np.any(np.diff(xs) < 0):
        raise ShapeError("x must not decrease along a curve; is metrics.jsonl a mixture of two runs?")
    index = np.searchsorted(xs, points, side="right") - 1
    values = np.where(index >= 0, ys[np.maximum(index, 0)], np.nan)
    return values if carry else np.where(points <= xs[-1], values, np.nan)


def first_reached(x: ArrayLike, y: ArrayLike, threshold: float) -> float:
    """The first x at which y is at least `threshold`; inf when it never is (the run is censored)."""
    xs, ys = _vector(x), _vector(y)
    hit = np.flatnonzero(np.isfinite(xs) & (np.nan_to_num(ys, nan=-np.inf) >= threshold))
    return float(xs[hit[0]]) if hit.size else float("inf")


def reached(firsts: ArrayLike) -> Reached:
    """Summarise `first_reached` over runs; the median treats a run that never got there as infinitely late."""
    values = _vector(firsts)
    if values.size == 0:
        return Reached(0, 0, float("inf"))
    return Reached(int(np.isfinite(values).sum()), values.size, float(np.median(values)))


def area_under_curve(x: ArrayLike, y: ArrayLike, end: float) -> float:
    """Average height of a step-wise curve over [0, end]; its first value counts from 0 on, its last until `end`."""
    xs, ys = _vector(x), _vector(y)
    keep = np.isfinite(xs) & np.isfinite(ys)
    xs, ys = xs[keep], ys[keep]
    if xs.size == 0 or not end > 0:
        return float("nan")
    edges = np.clip(np.concatenate([[0.0], xs[1:], [np.inf]]), 0.0, end)
    return float(np.diff(edges) @ ys / end)


def _vector(values: object) -> Array:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ShapeError(f"expected a vector, got shape {vector.shape}")
    return vector


def _draw(rng: np.random.Generator, size: int, repetitions: int) -> NDArray[np.int64]:
    if size == 0:
        raise ShapeError("cannot resample a task without runs")
    return rng.integers(0, size, size=(repetitions, size))


def _percentiles(values: Array, level: float) -> tuple[Array, Array]:
    if not 0.0 < level < 1.0:
        raise ShapeError(f"level must be in (0, 1), got {level}")
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail], axis=0)
    return low, high
