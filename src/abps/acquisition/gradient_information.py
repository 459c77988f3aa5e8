"""GIBO's criterion: how much one more measurement would shrink the trace of Σ, tr Σ − tr Σ' = ‖a‖²/s².

a is the posterior covariance of ∇J(θ) (raw coordinates) with the candidate's return, s² the variance of that return; `lookahead` gives a = Σb
and s² = w + q as sums of positive terms. It does not depend on the measured returns, only on where they were measured.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.descent_probability import _Pairs
from abps.acquisition.lookahead import Cotangents, Lookahead, column, dot
from abps.gp.linalg import cholesky
from abps.gp.posterior import GradientPosterior

__all__ = ["GradientInformation"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GradientInformation:
    """The criterion for one posterior. Candidates are rows; a candidate that rounding made unusable has the value NaN."""

    posterior: GradientPosterior
    episodes: int = 1
    """Measurements that would be averaged at a candidate."""

    def values(self, candidates: Array) -> Array:
        """Drop of tr Σ for one candidate (d,), or for every row of (m, d) as if it were measured alone, (m,)."""
        ahead = Lookahead(self.posterior, candidates, self.episodes)
        return self._parts(ahead)[0]

    def values_and_gradients(self, candidates: Array) -> tuple[Array, Array]:
        """Drop of tr Σ and its gradient: a number and (d,) for one candidate (d,), (m,) and (m, d) for (m, d)."""
        ahead = Lookahead(self.posterior, candidates, self.episodes)
        value, variance, weighted = self._parts(ahead)
        fall = -value / variance
        cotangents = ahead.independent(np.zeros_like(fall), fall, fall)
        self._add_covariance(ahead, cotangents, column(2.0 / variance) * weighted)
        return value, ahead.pullback(cotangents)

    def joint(self, candidates: Array) -> float:
        """Drop of tr Σ when the rows of (m, d) are measured together."""
        return self.joint_and_gradient(candidates)[0]

    def joint_and_gradient(self, candidates: Array) -> tuple[float, Array]:
        """Drop of tr Σ when the rows of (m, d) are measured together, and its gradient (m, d)."""
        ahead = Lookahead(self.posterior, candidates, self.episodes)
        joint = _Pairs(ahead)
        covariance, weighted = self._covariance(ahead)
        inverse = cholesky(joint.residual + joint.explained).inverse()
        gram = weighted @ covariance.T
        fall = -inverse @ gram @ inverse
        cotangents = joint.cotangents(np.zeros(len(fall)), fall, fall)
        self._add_covariance(ahead, cotangents, 2.0 * inverse @ weighted)
        return float((inverse * gram).sum()), ahead.pullback(cotangents)

    def _covariance(self, ahead: Lookahead) -> tuple[Array, Array]:
        """H·a (m, d) and (σ_f/L)²·H·a (m, d)."""
        posterior = self.posterior
        covariance = posterior.join(posterior.expand(ahead.reduced), column(ahead.decay) * ahead.outside)
        return covariance, covariance * posterior.gradient_variance

    def _parts(self, ahead: Lookahead) -> tuple[Array, Array, Array]:
        covariance, weighted = self._covariance(ahead)
        variance = np.where(ahead.healthy, ahead.residual + ahead.explained, np.nan)
        return dot(covariance, weighted) / variance, variance, weighted

    def _add_covariance(self, ahead: Lookahead, cotangents: Cotangents, bar: Array) -> None:
        """Add the cotangent of H·a, (m, d): a is Σb inside the span and e_z·t outside."""
        posterior = self.posterior
        inside, outside = posterior.split(bar)
        cotangents.inside = cotangents.inside + posterior.expand(inside) / posterior.precision
        cotangents.decay = cotangents.decay + dot(outside, ahead.outside)
        cotangents.outside = cotangents.outside + column(ahead.decay) * outside
