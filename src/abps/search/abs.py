"""ABS: Augmented Bayesian Search (the paper's Algorithms 1 and 2).

MPD's criterion under the advantage mean function, and one step δ·Σ⁻¹μ per outer iteration: the mean function belongs to its centre,
so there is no walk as in MPD.
"""

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.descent_probability import DescentProbability
from abps.config import AbsConfig
from abps.gp.mean import advantage_features
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
        curvature = self.curvature()
        if not np.all(np.isfinite(step)):
            return Move(self.centre, {"step_capped": None, "curvature": curvature})
        taken = capped(step, self.config.gp.lengthscale_high) if self.config.step_cap else step
        taken = self._worthwhile(taken, curvature)
        if self.config.action_cap:
            taken = self._trusted(taken)
        return Move(self.centre + taken, {"step_capped": bool(taken is not step), "curvature": curvature})

    # ---- curvature: m̂ errs by the square of the change of the actions (Section 3.1), and around a good policy that is a loss

    def curvature(self) -> float:
        """c ≥ 0: what m̂ promises too much in the window, per squared change of the actions; 0 where the setting is off."""
        if not self.config.curvature:
            return 0.0
        points = self.points
        features = advantage_features(self.critics, self._policy_centre, self._centre_visits, points)
        return self._fitted_curvature(self.action_changes(points), self._promised(features))

    def _fitted_curvature(self, changes: Array, promised: Array) -> float:
        """Least squares of promised − returns on changes², through the origin, over the window's points in its order: (n,), (n,) → c."""
        squares = changes**2
        size = float(squares @ squares)
        return max(0.0, float(squares @ (promised - self.returns)) / size) if size > 0.0 else 0.0

    def _loss(self, points: Array, promised: Array) -> Array:
        if not self.config.curvature:
            return super()._loss(points, promised)
        changes = self.action_changes(points)
        return self._fitted_curvature(changes, promised) * changes**2

    def _worthwhile(self, step: Array, curvature: float) -> Array:
        """Shorten a step to where the slope's gain less the curvature's loss is largest: f·μᵀs − f²·c·(change of the actions)²."""
        if curvature == 0.0:
            return step
        gain = max(0.0, float(self.posterior.mu @ step))  # Not negative but for rounding.
        loss = curvature * self.action_change(self.centre + step) ** 2
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
