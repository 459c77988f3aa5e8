"""Confidence-region Bayesian optimisation: look only where the process knows enough (Fröhlich et al. 2021, "cautious").

The acquisition μ + βσ is maximised under σ(x) ≤ γσ_f: the next point is one that the measured ones say something of, so
that the search spreads from where it starts and never jumps. The first points lie around the middle of the cube (the
initial policy), at the distance √(−ln(1 − γ²)) lengthscales at which one noiseless point of a squared exponential
leaves σ = γσ_f.

Starts are found inside the region by bisection along random directions from measured points; the constraint is kept by
a logarithmic barrier, whose iterates are strictly inside. Where noise is so large that no measured point satisfies it,
the signal variance is raised by a fifth until one does. Shapes: d parameters, m starts, n measured points.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.model.gp import GP
from abps.model.kernel import Hyper
from abps.model.lbfgs import minimise_starts
from abps.model.regression import Regression
from abps.optimisers.base import Batch, Learned, Measured, Optimiser, newest_and_best
from abps.optimisers.surrogate import Scaled, box_gp, fitted, regression
from abps.settings import replace, require, setting

__all__ = ["ConfidenceMemory", "ConfidenceRegion", "constrained_maximum", "inside"]

INFLATION = 1.2
"""Factor of σ_f² while no measured point is inside the region."""
STARTS, POLISHED = 64, 6
"""Starts that are screened, and of these polished."""
ANCHORS = 8
"""Measured points, the best inside, from which starts are looked for."""
BISECTIONS = 12
BARRIERS = (1e-1, 1e-2, 1e-3)
"""Weights of the barrier, in signal standard deviations, each from the last optimum."""
ITERATIONS = 30
MARGIN = 0.999
"""A measured point is inside where σ < MARGIN·γ·σ_f: starts must be strictly inside."""


@dataclass
class ConfidenceMemory:
    """What the optimiser remembers."""

    hyper: Hyper | None = None
    """None: the first points are still being measured."""


def inside(model: Regression, points: Array, gamma: float) -> Array:
    """1 − (σ/γσ_f)² (m,) at points (m, d): positive inside the confidence region."""
    return 1.0 - (model.at(points).std / (gamma * model.hyper.signal)) ** 2


def constrained_maximum(model: Regression, starts: Array, beta: float, gamma: float) -> Array:
    """The best (d,) of the maxima of μ + βσ under σ ≤ γσ_f, from starts (m, d) strictly inside."""
    signal, d = model.hyper.signal, starts.shape[1]
    points = starts

    def losses(points: Array, barrier: float) -> tuple[Array, Array]:
        (mean, std), slopes = model.with_slopes(points)
        ratio = std / (gamma * signal)
        slack = np.where(ratio < 1.0, 1.0 - ratio**2, np.nan)
        loss = -(mean + beta * std) / signal - barrier * np.log(slack)
        outwards = (barrier * 2.0 * ratio / slack / (gamma * signal))[:, None] * slopes.std
        return loss, -(slopes.mean + beta * slopes.std) / signal + outwards

    for barrier in BARRIERS:
        points = minimise_starts(
            lambda points, barrier=barrier: losses(points, barrier),
            points,
            np.zeros(d),
            np.ones(d),
            iterations=ITERATIONS,
            progress=1e-6,
        ).points
    found = model.at(points)
    return points[int(np.argmax(np.where(found.std <= gamma * signal, found.mean + beta * found.std, -np.inf)))]


@dataclass(frozen=True)
class ConfidenceRegion(Optimiser):
    """Upper confidence bound under σ(x) ≤ γσ_f (Fröhlich et al. 2021)."""

    gp: GP = setting(box_gp(0.05, 0.5), "Gaussian process over the unit cube, of standardised values")
    gamma: float = setting(0.6, "γ: largest posterior std of a proposed point, in prior stds", common=True)
    beta: float = setting(2.0, "β: weight of the std in the upper confidence bound", common=True)
    first_points: int | None = setting(None, "points around the middle before the first fit; none: √d, rounded up")
    window: int = setting(150, "points that are kept: the best, and the newest others")

    def __post_init__(self) -> None:
        require(0 < self.gamma < 1, "gamma must be between 0 and 1")
        require(self.beta >= 0, "beta must not be negative")
        require(self.first_points is None or self.first_points >= 1, "first_points must be at least 1")
        require(self.window >= 4, "window must be at least 4")

    def start(self, d: int) -> ConfidenceMemory:
        return ConfidenceMemory()

    def propose(self, memory: ConfidenceMemory, measured: Measured, rng: np.random.Generator) -> Batch:
        if memory.hyper is None:
            return Batch.of(self._design(measured, rng))
        model = self.model(memory.hyper, measured)
        point = constrained_maximum(model, self._starts(model, measured, rng), self.beta, self.gamma)
        return Batch.of(point[None])

    def learn(self, memory: ConfidenceMemory, measured: Measured, fresh: int, rng: np.random.Generator) -> Learned:
        keep = newest_and_best(measured, self.window)
        own = measured.where(keep)
        hyper = memory.hyper
        if len(own) > self._count(own.points.shape[1]):
            hyper = fitted(self.gp, Scaled(own), rng, hyper)
        best = own.points[int(own.values.argmax())]
        metrics = dict[str, float]()
        if hyper is not None:
            model = self.model(hyper, own)
            best = own.points[int(model.at(own.points).mean.argmax())]
            metrics["signal_raised"] = model.hyper.signal / hyper.signal
        return Learned(ConfidenceMemory(hyper), best, keep, metrics)

    def model(self, hyper: Hyper, measured: Measured) -> Regression:
        """The process, its signal raised until a measured point is inside the region."""
        scaled = Scaled(measured)
        while True:
            model = regression(self.gp, scaled, hyper)
            if (inside(model, measured.points, MARGIN * self.gamma) > 0).any():
                return model
            hyper = replace(hyper, signal=hyper.signal * np.sqrt(INFLATION))

    def _count(self, d: int) -> int:
        return int(np.ceil(np.sqrt(d))) if self.first_points is None else self.first_points

    def _design(self, measured: Measured, rng: np.random.Generator) -> Array:
        """The middle of the cube and points at the radius around it; only points around it where it is measured."""
        d = measured.points.shape[1]
        missing = max(self._count(d) + 1 - len(measured), 1)
        middle = np.full(d, 0.5)
        scale = np.sqrt(self.gp.lengthscale_low * self.gp.lengthscale_high)
        directions = rng.standard_normal((missing, d))
        moves = directions / np.linalg.norm(directions, axis=1)[:, None] * scale * np.sqrt(-np.log1p(-(self.gamma**2)))
        if not len(measured):
            moves[0] = 0.0
        return np.clip(middle + moves, 0.0, 1.0)

    def _starts(self, model: Regression, measured: Measured, rng: np.random.Generator) -> Array:
        """Points strictly inside the region, the best by the upper confidence bound."""
        gamma = MARGIN * self.gamma
        points = np.clip(measured.points, 0.0, 1.0)
        allowed = points[inside(model, points, gamma) > 0]
        bound = model.at(allowed)
        anchors = allowed[np.argsort(-(bound.mean + self.beta * bound.std), kind="stable")[:ANCHORS]]
        anchors = anchors[np.arange(STARTS) % len(anchors)]
        directions = rng.standard_normal(anchors.shape) / model.inverse_scale
        reach = np.clip(anchors + directions / np.linalg.norm(directions * model.inverse_scale, axis=1)[:, None], 0, 1)
        low, high = np.zeros(STARTS), np.ones(STARTS)
        for _ in range(BISECTIONS):  # Along every segment: the farthest share that is still inside.
            middle = 0.5 * (low + high)
            good = inside(model, anchors + middle[:, None] * (reach - anchors), gamma) > 0
            low, high = np.where(good, middle, low), np.where(good, high, middle)
        starts = anchors + (low * rng.uniform(size=STARTS))[:, None] * (reach - anchors)
        starts = np.concatenate([anchors[:1], starts[inside(model, starts, gamma) > 0]])
        value = model.at(starts)
        return starts[np.argsort(-(value.mean + self.beta * value.std), kind="stable")[:POLISHED]]
