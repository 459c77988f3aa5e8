"""MPD: the most probable direction of ascent, with a constant mean (Nguyen et al. 2022; paper Section 2.2 and Appendix A).

The move is a walk: small steps of fixed length along Σ⁻¹μ, the posterior taken anew at every place, while ascent stays probable.
"""

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.descent_probability import DescentProbability
from abps.config import MpdConfig
from abps.search.local import LocalSearch, Move, Prior, constant_prior

__all__ = ["Mpd"]

Array = NDArray[np.float64]


class Mpd(LocalSearch[MpdConfig]):
    """Probes that are expected to raise the probability of ascent most; a walk while that probability is high."""

    name = "mpd"

    def _prior(self, points: Array) -> Prior:
        return constant_prior(points, self.config.mean_bound)

    def _choose_probe(self, rng: np.random.Generator) -> Array:
        return self._maximise(DescentProbability(self.posterior), rng)

    def _move(self) -> Move:
        points = self.points
        prior = self._prior(points)
        theta, posterior, steps = self.centre, self.posterior, 0
        while steps < self.config.max_steps:
            length = float(np.linalg.norm(posterior.direction))
            if length == 0.0 or not np.isfinite(length):
                break  # A flat posterior has no direction: stay.
            theta = theta + self.config.step * posterior.direction / length
            steps += 1
            posterior = self._condition(theta, points, prior)
            if posterior.max_probability <= self.config.probability:
                break
        return Move(theta, {"small_steps": steps, "probability_ascent_end": posterior.max_probability})
