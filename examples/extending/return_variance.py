"""A criterion: probe where the return is least known."""

from dataclasses import dataclass

import numpy as np

from abps.acquisition.base import Criterion
from abps.acquisition.lookahead import Lookahead
from abps.arrays import Array
from abps.model.posterior import GradientPosterior


@dataclass(frozen=True)
class ReturnVariance(Criterion):
    """The variance of a return that is measured at the candidate, noise included."""

    def values(self, posterior: GradientPosterior, candidates: Array) -> Array:
        ahead = Lookahead(posterior, candidates)
        return posterior.hyper.signal**2 * (ahead.explained + ahead.residual)

    def values_and_gradients(self, posterior: GradientPosterior, candidates: Array) -> tuple[Array, Array]:
        ahead = Lookahead(posterior, candidates)
        variance = posterior.hyper.signal**2
        ones = np.full_like(ahead.explained, variance)
        cotangents = ahead.independent(np.zeros_like(ones), ones, ones)  # Derivatives in u, q and w of `Lookahead`.
        return variance * (ahead.explained + ahead.residual), ahead.pullback(cotangents)
