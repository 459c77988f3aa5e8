"""GIBO: gradient information with Bayesian optimisation (Müller, von Rohr & Trimpe 2021), with a constant mean.

Probes shrink the trace of the gradient's posterior covariance; the step follows μ, normalised, in units of the lengthscales.
"""

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.gradient_information import GradientInformation
from abps.config import GiboConfig
from abps.search.local import LocalSearch, Move, Prior, constant_prior

__all__ = ["Gibo"]

Array = NDArray[np.float64]


class Gibo(LocalSearch[GiboConfig]):
    """Probes that shrink tr Σ most; one step along the lengthscale-weighted, normalised mean gradient."""

    name = "gibo"

    def _prior(self, points: Array) -> Prior:
        return constant_prior(points, self.config.mean_bound)

    def _choose_probe(self, rng: np.random.Generator) -> Array:
        return self._maximise(GradientInformation(self.posterior), rng)

    def _move(self) -> Move:
        gradient = self.posterior.mu
        length = float(np.linalg.norm(gradient))
        if length == 0.0 or not np.isfinite(length):
            return Move(self.centre, {})
        if self.config.normalise_gradient:
            gradient = gradient / length
        return Move(self.centre + self.config.step * self.posterior.hyper.effective * gradient, {})
