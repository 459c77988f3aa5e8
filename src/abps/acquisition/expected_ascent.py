"""MPD's criterion: the expected ascent score after one more measurement (paper Section 2.2).

α(z) = E_y[μ'ᵀΣ'⁻¹μ'] = c₀ + (u² + q)/w, in the notation of `lookahead`; its maximiser is the probe after which the most
probable ascent direction is expected to be most probable.
"""

from dataclasses import dataclass

import numpy as np

from abps.acquisition.base import Criterion
from abps.acquisition.lookahead import Lookahead
from abps.arrays import Array
from abps.model.posterior import GradientPosterior

__all__ = ["ExpectedAscent"]


@dataclass(frozen=True)
class ExpectedAscent(Criterion):
    """Probe where the ascent score μᵀΣ⁻¹μ is expected to be largest afterwards (MPD, ABS)."""

    def values(self, posterior: GradientPosterior, candidates: Array) -> Array:
        ahead = Lookahead(posterior, candidates)
        return posterior.ascent_score + (ahead.slope**2 + ahead.explained) * _inverse(ahead)

    def values_and_gradients(self, posterior: GradientPosterior, candidates: Array) -> tuple[Array, Array]:
        ahead = Lookahead(posterior, candidates)
        inverse = _inverse(ahead)
        gain = (ahead.slope**2 + ahead.explained) * inverse
        cotangents = ahead.independent(2.0 * ahead.slope * inverse, inverse, -gain * inverse)
        return posterior.ascent_score + gain, ahead.pullback(cotangents)


def _inverse(ahead: Lookahead) -> Array:
    """1/w, NaN where rounding left no positive w: such a candidate is reported, not clipped."""
    return 1.0 / np.where(ahead.healthy, ahead.residual, np.nan)
