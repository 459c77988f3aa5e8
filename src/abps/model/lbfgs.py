"""Projected L-BFGS for many starts at once: one vectorised evaluation advances every start by one trial step.

Shapes: m starts, d coordinates, h stored pairs. An optimiser of one start at a time spends more on its own bookkeeping
than the engine spends on a criterion, and the engine's cost per candidate falls when it is given many; hence all starts
move together, and share nothing but the calls.

Every start minimises within true bounds by the two-metric projection: coordinates at a bound whose gradient points out
of the box are held, the quasi-Newton direction is computed in the others from the pairs restricted to them (in the
compact form, so that one batched solve replaces the two loops), and the step is projected onto the box and shortened
until the value falls enough (Armijo along the projected path). A pair without positive curvature among the free
coordinates is left out. A start ends when its projected gradient or its progress is small; a start whose value or
gradient is not finite where it starts is bad, while a trial step to such a place is only shortened.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array

__all__ = ["Descent", "minimise_starts"]

_DECREASE = 1e-4
"""Fraction of the decrease predicted by the gradient that a step must reach."""
_CURVATURE = 1e-10
"""A pair enters only when sᵀy exceeds this fraction of yᵀy."""
_SHORTENINGS = 25
"""Times a step may be shortened before its start is taken to have converged."""


class Descent(NamedTuple):
    """Where the starts ended."""

    points: Array
    """(m, d), inside the box."""
    losses: Array
    """(m,)"""
    bad: NDArray[np.bool_]
    """(m,) starts whose start has no finite value or gradient."""
    ended: NDArray[np.bool_]
    """(m,) starts that went on to their end: neither bad, nor given up for being behind or merged."""
    merged: NDArray[np.bool_]
    """(m,) starts that gave up for being on the way to a better start's minimum."""
    evaluations: int
    """Evaluations of single candidates."""


class _Moving:
    """The starts under way, one row each in every array; `select` drops the rows of those that have ended."""

    def __init__(self, x: Array, loss: Array, gradient: Array, pairs: int) -> None:
        m, d = x.shape
        self.index = np.arange(m)
        self.x, self.loss, self.gradient = x, loss, gradient
        self.before = loss.copy()
        """Loss at the end of the last leg."""
        self.memory = np.zeros((m, 2 * pairs, d))
        """Steps, then changes of the gradient; zeros where there is no pair yet. A new pair replaces the oldest in its
        slot."""
        self.born = np.zeros((m, pairs), dtype=int)
        """In which iteration a slot was filled."""
        self.length = np.ones(m)
        self.shortened, self.iterations = np.zeros(m, dtype=int), np.zeros(m, dtype=int)

    def select(self, keep: NDArray[np.bool_]) -> None:
        for name, value in vars(self).items():
            setattr(self, name, value[keep])

    def accept(self, rows: NDArray[np.intp], x: Array, loss: Array, gradient: Array) -> None:
        """Move the starts `rows` to x (their rows of it), and remember the pair."""
        pairs = self.born.shape[1]
        slots = self.iterations[rows] % pairs
        self.memory[rows, slots] = x - self.x[rows]
        self.memory[rows, slots + pairs] = gradient - self.gradient[rows]
        self.x[rows], self.loss[rows], self.gradient[rows] = x, loss, gradient
        self.length[rows], self.shortened[rows] = 1.0, 0
        self.iterations[rows] += 1
        self.born[rows, slots] = self.iterations[rows]

    def direction(self, free: Array) -> Array:
        """−H·g restricted to the free coordinates, (m, d); `free` is 1.0 there and 0.0 elsewhere.

        Compact form of the inverse (Byrd, Nocedal and Schnabel, 1994): with R the part of SᵀY in which the step is not
        younger than the change, D its diagonal, H = γI + S R⁻ᵀ(D + γYᵀY)R⁻¹Sᵀ − γ(S R⁻ᵀYᵀ + Y R⁻¹Sᵀ). A pair without
        positive curvature has its row and column of R replaced by those of I.
        """
        slope, pairs = self.gradient * free, self.born.shape[1]
        diagonal = np.arange(pairs)
        gram = self.memory @ (self.memory[:, pairs:] * free[:, None, :]).transpose(0, 2, 1)
        products, squares = gram[:, :pairs], gram[:, pairs:]  # SᵀY and YᵀY over the free coordinates
        curvature, sizes = products[:, diagonal, diagonal], squares[:, diagonal, diagonal]
        valid = curvature > _CURVATURE * sizes
        ages = np.where(valid, self.born, 0)
        triangle = products * ((ages[:, :, None] <= ages[:, None, :]) & (ages[:, :, None] > 0))
        triangle[:, diagonal, diagonal] += ~valid
        # The newest valid pair sets the scale γ; without one, the first step has at most length 1.
        every, newest = np.arange(len(ages)), ages.argmax(1)
        short = 1.0 / np.maximum(1.0, np.sqrt(np.einsum("md,md->m", slope, slope)))
        ratio = curvature[every, newest] / np.where(valid, sizes, 1.0)[every, newest]
        scale = np.where(valid[every, newest], ratio, short)[:, None]
        along = (self.memory @ slope[:, :, None])[:, :, 0]  # Sᵀg, then Yᵀg
        try:
            first = np.linalg.solve(triangle, (valid * along[:, :pairs])[:, :, None])  # R⁻¹Sᵀg
            inner = curvature * first[:, :, 0] + scale * ((squares @ first)[:, :, 0] - along[:, pairs:])
            second = np.linalg.solve(triangle.transpose(0, 2, 1), (valid * inner)[:, :, None])
        except np.linalg.LinAlgError:  # The triangle has underflowed: a plain gradient step helps everywhere.
            return -short[:, None] * slope
        weights = np.concatenate([second[:, :, 0], -scale * first[:, :, 0]], axis=1)
        step = -(scale * slope + free * (weights[:, None, :] @ self.memory)[:, 0])
        uphill = ~(np.einsum("md,md->m", step, slope) < 0.0)  # Only rounding can do that.
        if uphill.any():
            step[uphill] = -short[uphill, None] * slope[uphill]
        return step


@np.errstate(all="ignore")  # What is not finite is looked for, and dealt with.
def minimise_starts(
    objective: Callable[[Array], tuple[Array, Array]],
    starts: Array,
    lower: Array,
    upper: Array,
    *,
    iterations: int,
    progress: float = 1e-10,
    flatness: float = 1e-8,
    pairs: int = 10,
    check_every: int = 0,
    catch_up_legs: float = 0.0,
    merge: float = 0.0,
    known: tuple[Array, Array] | None = None,
) -> Descent:
    """Minimise `objective` within [lower, upper] from every start.

    Args:
        objective: (m, d) → losses (m,), gradients (m, d), every row on its own.
        starts: (m, d); moved into the box.
        lower: (d,) lower bounds.
        upper: (d,) upper bounds.
        iterations: accepted steps of one start, at most.
        progress: a start ends when a step lowers the loss by less than this, relative to max(|loss|, 1).
        flatness: a start ends when no coordinate of its projected gradient is larger.
        pairs: steps and gradient changes that are remembered.
        check_every: after every so many rounds a start may give up, for one of the two reasons below; 0: none does.
        catch_up_legs: it does when so many more legs that lower its loss as the last one did would not reach the
            lowest.
        merge: it does when it is closer than this to a better one (largest coordinate, as a fraction of the box): both
            are on the way to one minimum.
        known: points (k, d) and losses (k,) of minima that are known already, with which the starts compete.
    """
    points = np.clip(starts, lower, upper)
    losses, gradients = objective(points)
    m, evaluations, rounds = len(points), len(points), 0
    bad = ~_finite(losses, gradients)
    moving = _Moving(points.copy(), np.array(losses), np.array(gradients), pairs)
    if known is not None:
        points, losses = np.concatenate([points, known[0]]), np.concatenate([losses, known[1]])
    losses = np.array(losses)
    ended, merged = ~bad, np.zeros(m, dtype=bool)
    running = ~bad & ~_flat(moving, lower, upper, flatness)
    while running.any():
        if not running.all():
            moving.select(running)
        running = _round(moving, objective, lower, upper, progress)
        rounds, evaluations = rounds + 1, evaluations + len(running)
        running &= (moving.iterations < iterations) & ~_flat(moving, lower, upper, flatness)
        points[moving.index], losses[moving.index] = moving.x, moving.loss
        if check_every and rounds % check_every == 0:
            behind = moving.loss - catch_up_legs * (moving.before - moving.loss) > np.nanmin(losses)
            follows = _merged(moving, points, losses, merge * (upper - lower))
            merged[moving.index[running & ~behind & follows]] = True
            ended[moving.index[running & (behind | follows)]] = False
            running &= ~(behind | follows)
            moving.before = moving.loss.copy()
    return Descent(points[:m], losses[:m], bad, ended, merged, evaluations)


def _round(
    moving: _Moving, objective: Callable[[Array], tuple[Array, Array]], lower: Array, upper: Array, progress: float
) -> NDArray[np.bool_]:
    """One trial step of every start; returns which starts still make progress."""
    held = (moving.x <= lower) & (moving.gradient > 0.0) | (moving.x >= upper) & (moving.gradient < 0.0)
    direction = moving.direction(np.where(held, 0.0, 1.0))
    trial = np.minimum(np.maximum(moving.x + moving.length[:, None] * direction, lower), upper)
    loss, gradient = objective(trial)
    predicted = np.einsum("md,md->m", moving.gradient, trial - moving.x)
    rise = loss - moving.loss
    good = (predicted < 0.0) & (rise <= _DECREASE * predicted) & _finite(loss, gradient)
    size = np.maximum(np.maximum(np.abs(moving.loss), np.abs(loss)), 1.0)
    on = ~(good & (-rise <= progress * size))
    if not good.all():
        # The minimum of the parabola through value, slope and new value; a tenth where that means nothing.
        cut = -0.5 * predicted / (rise - predicted)
        cut = np.where((predicted < 0.0) & np.isfinite(cut), np.clip(cut, 0.1, 0.5), 0.1)
        moving.length = np.where(good, moving.length, moving.length * cut)
        moving.shortened += ~good
        on &= moving.shortened <= _SHORTENINGS
    rows = np.flatnonzero(good)
    moving.accept(rows, trial[rows], loss[rows], gradient[rows])
    return on


def _finite(losses: Array, gradients: Array) -> NDArray[np.bool_]:
    return np.isfinite(losses + np.einsum("md,md->m", gradients, gradients))


def _flat(moving: _Moving, lower: Array, upper: Array, flatness: float) -> NDArray[np.bool_]:
    """Whether a gradient step would leave the start where it is, up to `flatness`."""
    moved = np.minimum(np.maximum(moving.x - moving.gradient, lower), upper) - moving.x
    return np.abs(moved).max(1) <= flatness


def _merged(moving: _Moving, points: Array, losses: Array, distance: Array) -> NDArray[np.bool_]:
    """Which starts are within `distance` (d,) of where a better start is or ended."""
    merged = np.zeros(len(moving.index), dtype=bool)
    for row, own in enumerate(moving.index):
        better = (losses < losses[own]) | ((losses == losses[own]) & (np.arange(len(losses)) < own))
        merged[row] = bool((np.abs(points[better] - points[own]) <= distance).all(1).any())
    return merged
