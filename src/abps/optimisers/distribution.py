"""A Gaussian search distribution that follows the optimum under KL and entropy bounds (Akrour et al. 2017).

The search distribution q = N(m, C) says where the optimum is believed to be. Every stage draws candidates from q and
functions from the process there; how often a candidate is the best of a drawn function is the likelihood of its being
the optimum. Candidates weighted by it stand for q·p(x = x*); t is the Gaussian with their moments. The new distribution
is the closest to t that stays close to q and does not narrow too fast:

    min KL(q'‖t)   with   KL(q'‖q) ≤ ε   and   H(q) − H(q') ≤ β,      q' ∝ (t·q^η)^(1/(1 + η + ω)).

The next point is the best candidate of one drawn function. The paper fits a quadratic to log p, which has d²/2
coefficients; moments with the old covariance as a prior of d pseudo-observations serve hundreds of parameters.

Shapes: d parameters, m candidates, n measured points.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from abps.arrays import Array
from abps.model.gp import GP
from abps.model.kernel import Hyper
from abps.model.linalg import cholesky
from abps.optimisers.base import Batch, Learned, Measured, Optimiser, newest_and_best
from abps.optimisers.surrogate import Scaled, box_gp, fitted, regression
from abps.settings import require, setting

__all__ = ["DistributionMemory", "SearchDistribution", "bounded_update", "optimum_moments"]

BISECTIONS = 60
WIDEST = 1e8
"""Multipliers η beyond this leave q as it is."""


@dataclass
class DistributionMemory:
    """What the optimiser remembers: q = N(mean, covariance) in the unit cube."""

    mean: Array
    """m (d,)"""
    covariance: Array
    """C (d, d)"""
    hyper: Hyper | None = None
    """None: the first points are still being measured."""


def bounded_update(
    mean: Array, covariance: Array, target_mean: Array, target_covariance: Array, divergence: float, entropy: float
) -> tuple[Array, Array]:
    """Mean and covariance of the Gaussian closest to the target, KL(q'‖t), under the two bounds.

    With q whitened to N(0, I) and t's precision diagonal, λ, everything is a sum over d coordinates: q' has the
    precision p = (λ + η)/(1 + η + ω) and the mean λb/(λ + η). For every η the entropy bound gives ω in closed form, and
    the divergence from q falls with η (the dual is concave), so that bisection finds the smallest η that is allowed.

    Args:
        mean: m of q (d,).
        covariance: C of q (d, d).
        target_mean: mean of t (d,).
        target_covariance: covariance of t (d, d).
        divergence: ε, the largest KL(q'‖q).
        entropy: β, the largest H(q) − H(q').
    """
    d = len(mean)
    # C V = C_t V λ with VᵀC_tV = I: the rows of λ^(−½)Vᵀ whiten q, and t has the precisions λ along them.
    precision, vectors = eigh(covariance, target_covariance)
    offset = (vectors.T @ (target_mean - mean)) / np.sqrt(precision)
    from_white = covariance @ vectors / np.sqrt(precision)

    def at(multiplier: float) -> tuple[Array, Array, float]:
        total = max(np.exp((np.log(precision + multiplier).sum() - 2.0 * entropy) / d), 1.0 + multiplier)
        new = (precision + multiplier) / total
        centre = precision * offset / (precision + multiplier)
        return centre, new, 0.5 * float((1.0 / new + centre**2 - 1.0 + np.log(new)).sum())

    centre, new, distance = at(0.0)
    if distance > divergence:
        low, high = np.log(1e-8), np.log(WIDEST)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if at(float(np.exp(middle)))[2] > divergence else (low, middle)
        centre, new, _ = at(float(np.exp(high)))
    root = from_white / np.sqrt(new)
    return mean + from_white @ centre, root @ root.T


def optimum_moments(points: Array, draws: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean (d,) and covariance (d, d) of the optimum over points (m, d), by drawn functions (s, m).

    The old covariance counts as d pseudo-observations; draws that agree on a point count as one.
    """
    d = points.shape[1]
    weights = np.bincount(draws.argmax(axis=1), minlength=len(points)) / len(draws)
    mean = weights @ points
    centred = points - mean
    size = 1.0 / float(weights @ weights)
    return mean, (d * covariance + size * (centred.T * weights) @ centred) / (d + size)


@dataclass(frozen=True)
class SearchDistribution(Optimiser):
    """A Gaussian search distribution under KL and entropy bounds (Akrour et al. 2017)."""

    gp: GP = setting(box_gp(0.005, 2.0), "Gaussian process over the unit cube, of standardised values")
    spread: float = setting(
        0.2, "standard deviation of the first search distribution, in sides of the box", common=True
    )
    divergence: float = setting(0.5, "ε: largest KL divergence of a new search distribution from the last", common=True)
    entropy: float = setting(0.03, "β/d: largest loss of entropy per stage and parameter, in nats")
    batch: int = setting(1, "points proposed at once")
    first_points: int | None = setting(None, "points drawn before the first fit; none: d + 1, at most 10")
    candidates: int = setting(500, "points drawn from the search distribution")
    functions: int = setting(200, "functions drawn from the process to find where the optimum is")
    window: int = setting(150, "points that are kept: the best, and the newest others")

    def __post_init__(self) -> None:
        for name in ("spread", "divergence", "entropy"):
            require(getattr(self, name) > 0, f"{name} must be positive")
        for name in ("batch", "candidates", "functions"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1")
        require(self.first_points is None or self.first_points >= 2, "first_points must be at least 2")
        require(self.window >= 4, "window must be at least 4")

    def start(self, d: int) -> DistributionMemory:
        return DistributionMemory(np.full(d, 0.5), self.spread**2 * np.eye(d))

    def propose(self, memory: DistributionMemory, measured: Measured, rng: np.random.Generator) -> Batch:
        if memory.hyper is None:
            return Batch.of(self._drawn(memory, max(self._count(measured) - len(measured), 1), rng))
        points = self._drawn(memory, self.candidates, rng)
        draws = regression(self.gp, Scaled(measured), memory.hyper).sample(points, rng, self.batch)
        return Batch.of(points[np.unique(draws.argmax(axis=1))])

    def learn(self, memory: DistributionMemory, measured: Measured, fresh: int, rng: np.random.Generator) -> Learned:
        keep = newest_and_best(measured, self.window)
        own = measured.where(keep)
        mean, covariance, hyper = memory.mean, memory.covariance, memory.hyper
        if len(own) >= self._count(own):
            scaled = Scaled(own)
            hyper = fitted(self.gp, scaled, rng, hyper)
            points = self._drawn(memory, self.candidates, rng)
            draws = regression(self.gp, scaled, hyper).sample(points, rng, self.functions)
            target = optimum_moments(points, draws, covariance)
            mean, covariance = bounded_update(mean, covariance, *target, self.divergence, self.entropy * len(mean))
            mean = np.clip(mean, 0.0, 1.0)
        metrics = {"search_std": float(np.exp(0.5 * np.linalg.slogdet(covariance)[1] / len(mean)))}
        return Learned(DistributionMemory(mean, covariance, hyper), mean, keep, metrics)

    def _count(self, measured: Measured) -> int:
        return min(measured.points.shape[1] + 1, 10) if self.first_points is None else self.first_points

    def _drawn(self, memory: DistributionMemory, count: int, rng: np.random.Generator) -> Array:
        """Points (count, d) of q, moved into the cube."""
        lower = cholesky(memory.covariance).lower
        return np.clip(memory.mean + rng.standard_normal((count, len(memory.mean))) @ lower.T, 0.0, 1.0)
