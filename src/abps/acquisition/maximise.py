"""Maximise a criterion inside a box: screen many starts by value, polish the best with a bounded L-BFGS (Appendix A).

Shapes: m starts, d parameters. Screening is one vectorised call; polishing advances all chosen starts together
(`model.lbfgs`), in whitened coordinates (differences divided by the effective lengthscales), where the criterion is
well scaled, with true bounds. Everything is a function of the arguments: the same generator gives the same maximum.

A start whose value or gradient is NaN or infinite is dropped, a step to such a place shortened. Candidates within
`avoid_radius` of a failed point are passed over for the next best. What happens when nothing is left is defined, and
reported in `Maximum.fallback`:

- `""`: a polished start won;
- `"screened"`: every polished start went bad or into a forbidden ball; the best screened start is returned as it is;
- `"random"`: no start was usable; the best (or, without finite values, the first) of random points of the box outside
  the balls;
- `"crowded"`: the box lies within the forbidden balls; the random point farthest from them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.base import Criterion
from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.model.lbfgs import minimise_starts
from abps.model.posterior import GradientPosterior

__all__ = ["Maximum", "maximise"]

POLISHED = 8
"""How many of the best starts are polished."""
ITERATIONS = 100
"""L-BFGS iterations of one polished start, at most."""

_RANDOM_POINTS = 256
"""Random points of the box that are looked at when no start was usable."""


class Maximum(NamedTuple):
    """Where a criterion is largest, and how that was found."""

    point: Array
    """(d,) inside the box."""
    value: float
    """The criterion there; NaN only when no point had a finite value."""
    start: int
    """Index of the start it came from, −1 for a random point."""
    improved: bool
    """Whether it is better than every screened start."""
    fallback: str
    """How it was chosen when no polished start could be: see the module's docstring."""
    evaluations: int
    """Criterion evaluations, the screening included."""
    dropped: int
    """Starts that went bad."""


def maximise(
    criterion: Criterion,
    posterior: GradientPosterior,
    starts: Array,
    lower: Array,
    upper: Array,
    rng: np.random.Generator,
    *,
    avoid: Array | None = None,
    avoid_radius: float = 0.0,
) -> Maximum:
    """Maximise `criterion` over the box [lower, upper].

    Args:
        criterion: what to maximise.
        posterior: what it is a function of; its effective lengthscales are the unit of polishing and of `avoid_radius`.
        starts: (m, d); moved into the box.
        lower: (d,) lower bounds.
        upper: (d,) upper bounds.
        rng: used only when no start is usable.
        avoid: (f, d) failed points that must not be proposed again.
        avoid_radius: how far away from them a proposal must be, as a Euclidean distance in effective lengthscales.
    """
    starts = np.asarray(starts, dtype=np.float64)
    if starts.ndim != 2 or starts.shape[1:] != lower.shape or lower.shape != upper.shape:
        raise ShapeError(f"starts {starts.shape}, lower {lower.shape} and upper {upper.shape} do not fit together")
    if not (lower <= upper).all():
        raise ConfigError("need lower <= upper in every coordinate")
    scale = posterior.hyper.effective
    starts = np.clip(starts, lower, upper)
    values = _quiet(criterion, posterior, starts)
    usable = np.isfinite(values)
    free = _outside(starts, avoid, avoid_radius, scale)
    order = np.argsort(-np.where(usable, values, -np.inf), kind="stable")
    order = order[usable[order]]
    evaluations, dropped = len(starts), int((~usable).sum())
    best: Maximum | None = None
    top = float(values[order[0]]) if len(order) else np.nan
    unit = _unit(values[order])
    chosen = order[:POLISHED]
    points, reached, bad, used = _polish(criterion, posterior, starts[chosen], lower, upper, scale, top, unit)
    evaluations += used
    dropped += int(bad.sum())
    allowed = _outside(points, avoid, avoid_radius, scale) & ~bad
    if allowed.any():
        place = int(np.argmax(np.where(allowed, reached, -np.inf)))
        value = float(reached[place])
        best = Maximum(points[place], value, int(chosen[place]), value > top, "", 0, 0)
    screened = [index for index in order if free[index]]
    if screened and (best is None or values[screened[0]] > best.value):
        index = screened[0]
        best = Maximum(starts[index], float(values[index]), int(index), False, "screened", 0, 0)
    if best is None:
        best = _random(criterion, posterior, lower, upper, scale, rng, avoid, avoid_radius)
        evaluations += _RANDOM_POINTS
    return best._replace(evaluations=evaluations, dropped=dropped)


def _quiet(criterion: Criterion, posterior: GradientPosterior, candidates: Array) -> Array:
    """Values without floating-point warnings; what is not finite is dealt with by the caller."""
    with np.errstate(all="ignore"):
        return np.asarray(criterion.values(posterior, candidates), dtype=np.float64)


def _unit(values: Array) -> float:
    """The spread of the screened values, by which the objective is divided so that L-BFGS's tolerances mean the same at
    any scale."""
    if not len(values):
        return 1.0
    spread = float(values.max() - values.min())
    return max(spread, 1e-8 * float(np.abs(values).max()), float(np.finfo(float).tiny) * 1e16)


def _polish(
    criterion: Criterion,
    posterior: GradientPosterior,
    starts: Array,
    lower: Array,
    upper: Array,
    scale: Array,
    top: float,
    unit: float,
) -> tuple[Array, Array, NDArray[np.bool_], int]:
    """L-BFGS from every start (m, d) at once: points, values, which went bad, evaluations."""
    if not len(starts):
        return starts, np.zeros(0), np.zeros(0, dtype=bool), 0
    steps = -scale / unit

    def objective(scaled: Array) -> tuple[Array, Array]:
        inside = np.minimum(np.maximum(scaled * scale, lower), upper)
        values, gradients = criterion.values_and_gradients(posterior, inside)
        return (top - values) / unit, gradients * steps

    found = minimise_starts(objective, starts / scale, lower / scale, upper / scale, iterations=ITERATIONS)
    points = np.clip(found.points * scale, lower, upper)
    values = _quiet(criterion, posterior, points)
    return points, values, found.bad | ~np.isfinite(values), found.evaluations + len(points)


def _distances(points: Array, avoid: Array, scale: Array) -> Array:
    """Distance of every point (m, d) to the nearest failed one (f, d), in effective lengthscales, (m,)."""
    nearest = np.full(len(points), np.inf)
    for failed in avoid:
        nearest = np.minimum(nearest, np.sqrt((((points - failed) / scale) ** 2).sum(1)))
    return nearest


def _outside(points: Array, avoid: Array | None, radius: float, scale: Array) -> NDArray[np.bool_]:
    if avoid is None or not len(avoid) or radius <= 0:
        return np.ones(len(points), dtype=bool)
    return _distances(points, avoid, scale) >= radius


def _random(
    criterion: Criterion,
    posterior: GradientPosterior,
    lower: Array,
    upper: Array,
    scale: Array,
    rng: np.random.Generator,
    avoid: Array | None,
    radius: float,
) -> Maximum:
    points = rng.uniform(lower, upper, (_RANDOM_POINTS, len(lower)))
    free = _outside(points, avoid, radius, scale)
    values = _quiet(criterion, posterior, points)
    if not free.any() and avoid is not None:
        index = int(np.argmax(_distances(points, avoid, scale)))
        return Maximum(points[index], float(values[index]), -1, False, "crowded", 0, 0)
    ranked = np.where(free & np.isfinite(values), values, -np.inf)
    index = int(np.argmax(ranked)) if np.isfinite(ranked).any() else int(np.argmax(free))
    return Maximum(points[index], float(values[index]), -1, False, "random", 0, 0)
