"""TuRBO: Thompson sampling in trust regions that grow and shrink (Eriksson et al. 2019).

A region is a box around its best point, with side lengths L·ℓ_i/(Πℓ)^(1/d): longer where the function varies slowly. It
doubles after some successes in a row (a batch with a better value), halves after some failures in a row, and is given
up for a new one, far from everything measured before, when it is too small. Candidates are Sobol points of the region
in a random choice of coordinates, the others stay those of the best point; every draw of the posterior proposes its
best candidate. With several regions (TuRBO-m) their draws compete in the function's own units.

Shapes: d parameters, m candidates, n measured points.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.model.gp import GP
from abps.model.kernel import Hyper
from abps.optimisers.base import Batch, Learned, Measured, Optimiser, newest_and_best
from abps.optimisers.surrogate import Scaled, box_gp, fitted, regression
from abps.seeding import sobol
from abps.settings import require, setting

__all__ = ["Region", "Turbo", "TurboMemory", "candidates_around", "region_bounds"]

FIRST_POINTS = 30
"""First points of a region, at most, where the setting does not say: 2d in the paper, with budgets of thousands."""
IMPROVEMENT = 1e-3
"""A success is better than the best by this share of it."""
PERTURBED = 20.0
"""Coordinates that a candidate changes, on average."""
FEWEST_FAILURES = 4


@dataclass
class Region:
    """One trust region."""

    label: int
    """The group of its points; a region that starts anew gets a new one."""
    length: float
    """L: geometric mean of its sides, in sides of the cube."""
    successes: int = 0
    failures: int = 0
    hyper: Hyper | None = None
    """None: its first points are still being measured."""


@dataclass
class TurboMemory:
    """What TuRBO remembers."""

    regions: list[Region]
    restarts: int = 0
    best: Array | None = None
    """(d,): the best point of regions that were given up."""
    best_value: float = -np.inf


def region_bounds(centre: Array, length: float, lengthscales: Array) -> tuple[Array, Array]:
    """Lower and upper bounds (d,) of a trust region, cut at the cube."""
    weights = lengthscales / np.exp(np.log(lengthscales).mean())
    half = 0.5 * length * weights
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def candidates_around(centre: Array, lower: Array, upper: Array, count: int, rng: np.random.Generator) -> Array:
    """Points (count, d) that share with the centre all coordinates but about `PERTURBED`, and at least one."""
    d = len(centre)
    points = lower + (upper - lower) * sobol(rng, d, count)
    changed = rng.random((count, d)) < min(PERTURBED / d, 1.0)
    changed[np.arange(count), rng.integers(d, size=count)] |= ~changed.any(axis=1)
    return np.where(changed, points, centre)


@dataclass(frozen=True)
class Turbo(Optimiser):
    """Trust-region Bayesian optimisation (Eriksson et al. 2019); several regions: TuRBO-m."""

    gp: GP = setting(box_gp(0.005, 2.0), "Gaussian process over the unit cube, of standardised values")
    regions: int = setting(1, "m: trust regions whose samples compete", common=True)
    batch: int = setting(1, "q: points proposed at once", common=True)
    first_points: int | None = setting(None, "points a region starts with; none: 2d, at most 30")
    first_length: float = setting(0.8, "L: side of a new region, as a share of the box")
    shortest: float = setting(0.5**7, "a region below this length is given up for a new one")
    longest: float = setting(1.6, "L grows no further than this")
    successes: int = setting(3, "batches with a better value in a row after which a region doubles")
    failures: int | None = setting(
        None, "points without a better value in a row after which it halves; none: max(4, d)"
    )
    candidates: int = setting(1000, "points that a sample is maximised over; at most 100d")
    window: int = setting(150, "points that a region keeps: the best, and the newest others")

    def __post_init__(self) -> None:
        for name in ("regions", "batch", "successes", "candidates"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1")
        require(self.first_points is None or self.first_points >= 2, "first_points must be at least 2")
        require(self.failures is None or self.failures >= 1, "failures must be at least 1")
        require(0 < self.shortest < self.first_length <= self.longest, "need 0 < shortest < first_length <= longest")
        require(self.window >= 4, "window must be at least 4")

    def start(self, d: int) -> TurboMemory:
        return TurboMemory([Region(label, self.first_length) for label in range(self.regions)])

    def propose(self, memory: TurboMemory, measured: Measured, rng: np.random.Generator) -> Batch:
        d = measured.points.shape[1]
        young = [region for region in memory.regions if region.hyper is None]
        if young:
            missing = [self._design(d) - int((measured.groups == region.label).sum()) for region in young]
            labels = np.repeat([region.label for region in young], np.maximum(missing, 1)).astype(np.int64)
            return Batch(sobol(rng, d, len(labels)), labels)
        points, draws, labels = list[Array](), list[Array](), list[int]()
        for region in memory.regions:
            if region.hyper is not None:
                own = measured.where(measured.groups == region.label)
                candidates, values = self._sampled(region.length, region.hyper, own, rng)
                points, draws = [*points, candidates], [*draws, values]
                labels += [region.label] * len(candidates)
        return _winners(np.concatenate(points), np.concatenate(draws, axis=1), np.array(labels, dtype=np.int64))

    def learn(self, memory: TurboMemory, measured: Measured, fresh: int, rng: np.random.Generator) -> Learned:
        d = measured.points.shape[1]
        keep, tops, restarts = np.zeros(len(measured), dtype=bool), list[tuple[float, Array]](), memory.restarts
        regions = list[Region]()
        label = max(region.label for region in memory.regions)
        for old in memory.regions:
            rows = np.flatnonzero(measured.groups == old.label)
            region = self._counted(old, measured.where(rows), int((rows >= len(measured) - fresh).sum()))
            rows = rows[newest_and_best(measured.where(rows), self.window)] if len(rows) else rows
            own = measured.where(rows)
            if len(rows) >= self._design(d):
                region.hyper = fitted(self.gp, Scaled(own), rng, region.hyper)
                tops.append(self._top(region.hyper, own))
            elif len(rows):
                tops.append((float(own.values.max()), own.points[int(own.values.argmax())]))
            if region.length < self.shortest:
                restarts, label = restarts + 1, label + 1
                region = Region(label, self.first_length)
            else:
                keep[rows] = True
            regions.append(region)
        value, best = max(tops, key=lambda top: top[0])
        if memory.best is not None and memory.best_value > value:
            value, best = memory.best_value, memory.best
        archive = (best, value) if restarts > memory.restarts else (memory.best, memory.best_value)
        lengths = [region.length for region in regions]
        metrics = {"region_length": float(max(lengths)), "region_restarts": restarts}
        return Learned(TurboMemory(regions, restarts, *archive), best, keep, metrics)

    def _design(self, d: int) -> int:
        return min(2 * d, FIRST_POINTS) if self.first_points is None else self.first_points

    def _counted(self, region: Region, own: Measured, fresh: int) -> Region:
        """The region after a batch: its counters, and its length."""
        length, hyper = region.length, region.hyper
        if hyper is None or fresh == 0:
            return Region(region.label, length, region.successes, region.failures, hyper)
        before, new = own.values[:-fresh].max(), own.values[-fresh:].max()
        better = new > before + IMPROVEMENT * abs(before)
        successes, failures = (region.successes + 1, 0) if better else (0, region.failures + fresh)
        if successes >= self.successes:
            successes, length = 0, min(2.0 * length, self.longest)
        elif failures >= (max(FEWEST_FAILURES, own.points.shape[1]) if self.failures is None else self.failures):
            failures, length = 0, 0.5 * length
        return Region(region.label, length, successes, failures, hyper)

    def _top(self, hyper: Hyper, own: Measured) -> tuple[float, Array]:
        """The largest posterior mean of the region's points, in the function's units, and where it is."""
        scaled = Scaled(own)
        means = regression(self.gp, scaled, hyper).at(scaled.points).mean
        place = int(means.argmax())
        return float(scaled.values(means)[place]), own.points[place]

    def _sampled(self, length: float, hyper: Hyper, own: Measured, rng: np.random.Generator) -> tuple[Array, Array]:
        """Candidates (m, d) and draws of the function there (batch, m), in its own units."""
        scaled = Scaled(own)
        model = regression(self.gp, scaled, hyper)
        centre = np.clip(own.points[int(model.at(own.points).mean.argmax())], 0.0, 1.0)
        lower, upper = region_bounds(centre, length, hyper.effective)
        points = candidates_around(centre, lower, upper, min(100 * len(centre), self.candidates), rng)
        return points, scaled.values(model.sample(points, rng, self.batch))


def _winners(points: Array, draws: Array, labels: NDArray[np.int64]) -> Batch:
    """For every draw (one per row) the candidate where it is largest; none is taken twice."""
    chosen, draws = list[int](), draws.copy()
    for draw in draws:
        draw[chosen] = -np.inf
        chosen.append(int(draw.argmax()))
    return Batch(points[chosen], labels[chosen])
