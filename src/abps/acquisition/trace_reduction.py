"""GIBO's criterion: how much one more measurement would shrink the trace of Σ, tr Σ − tr Σ' = ‖a‖²/s².

a is the posterior covariance of ∇J(θ) (raw coordinates) with the candidate's return, s² the variance of that return;
`lookahead` gives a = Σb and s² = w + q as sums of positive terms. It does not depend on the measured returns, only on
where they were measured.
"""

from dataclasses import dataclass

import numpy as np

from abps.acquisition.base import Criterion
from abps.acquisition.lookahead import Cotangents, Lookahead, column, dot
from abps.arrays import Array
from abps.model.posterior import GradientPosterior

__all__ = ["TraceReduction"]


@dataclass(frozen=True)
class TraceReduction(Criterion):
    """Probe where the uncertainty of the gradient, tr Σ, shrinks most (GIBO)."""

    def values(self, posterior: GradientPosterior, candidates: Array) -> Array:
        return _parts(Lookahead(posterior, candidates))[0]

    def values_and_gradients(self, posterior: GradientPosterior, candidates: Array) -> tuple[Array, Array]:
        ahead = Lookahead(posterior, candidates)
        value, variance, weighted = _parts(ahead)
        fall = -value / variance
        cotangents = ahead.independent(np.zeros_like(fall), fall, fall)
        _add_covariance(ahead, cotangents, column(2.0 / variance) * weighted)
        return value, ahead.pullback(cotangents)


def _parts(ahead: Lookahead) -> tuple[Array, Array, Array]:
    """The drop of tr Σ, s², and (σ_f/L)²·H·a (m, d)."""
    posterior = ahead.posterior
    covariance = posterior.join(posterior.expand(ahead.reduced), column(ahead.weight) * ahead.outside)
    weighted = covariance * posterior.gradient_variance
    variance = np.where(ahead.healthy, ahead.residual + ahead.explained, np.nan)
    return dot(covariance, weighted) / variance, variance, weighted


def _add_covariance(ahead: Lookahead, cotangents: Cotangents, bar: Array) -> None:
    """Add the cotangent of H·a, (m, d): a is Σb inside the span and w_z·t outside."""
    posterior = ahead.posterior
    inside, outside = posterior.split(bar)
    cotangents.inside = cotangents.inside + posterior.expand(inside) / posterior.precision
    cotangents.weight = cotangents.weight + dot(outside, ahead.outside)
    cotangents.outside = cotangents.outside + column(ahead.weight) * outside
