"""ABS: Augmented Bayesian Search (the paper's Algorithms 1 and 2).

MPD's criterion under the advantage mean function, and one step δ·Σ⁻¹μ per outer iteration: the mean function belongs to its centre,
so there is no walk as in MPD.
"""

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.descent_probability import DescentProbability
from abps.config import AbsConfig
from abps.search.advantage import AdvantageSearch
from abps.search.local import Move

__all__ = ["Abs", "capped"]

Array = NDArray[np.float64]

SHRINKAGES, TOLERANCE = 20, 0.01
"""Saturated actions follow the parameters less than in proportion, so a step is shrunk again until it fits well enough."""


def capped(step: Array, limit: float) -> Array:
    """Shrink a step whose mean absolute entry exceeds `limit` to that size."""
    size = float(np.abs(step).mean())
    return step * (limit / size) if size > limit else step


class Abs(AdvantageSearch[AbsConfig]):
    """Probes that are expected to raise the probability of ascent most; one step along Σ⁻¹μ."""

    name = "abs"

    def _choose_probe(self, rng: np.random.Generator) -> Array:
        return self._maximise(DescentProbability(self.posterior), rng)

    def _move(self) -> Move:
        step = self.config.step * self.settled_posterior().direction  # Algorithm 2, last line
        if not np.all(np.isfinite(step)):
            return Move(self.centre, {"step_capped": None})
        taken = capped(step, self.config.gp.lengthscale_high) if self.config.step_cap else step
        if self.config.curvature:
            taken = self._worthwhile(taken)
        if self.config.action_cap:
            taken = self._trusted(taken)
        return Move(self.centre + taken, {"step_capped": bool(taken is not step)})

    def _worthwhile(self, step: Array) -> Array:
        """Shorten a step to where the slope's gain less the curvature's loss is largest: f·μᵀs − f²·c·(change of actions)²."""
        gain, loss = float(self.posterior.mu @ step), self.curvature() * self.action_change(self.centre + step) ** 2
        return step * (gain / (2.0 * loss)) if gain < 2.0 * loss else step

    def _trusted(self, step: Array) -> Array:
        """Shrink a step that changes the actions by more than `action_cap`.

        The mean function is true to second order in the change of the actions (Section 3.1), whatever that change is in parameters.
        """
        limit = self.config.action_cap
        for _ in range(SHRINKAGES):
            change = self.action_change(self.centre + step)
            if change <= limit * (1 + TOLERANCE):
                break
            step = step * (limit / change)
        return step
