"""The paper's step of ABS: δ·Σ⁻¹μ, once per outer iteration (Algorithm 2, last line)."""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.steps.base import Move, StepInput, StepRule

__all__ = ["ScaledDirection", "capped"]


@dataclass(frozen=True)
class ScaledDirection(StepRule):
    """δ·Σ⁻¹μ, not normalised; critics' weights that are integrated out count as known at their posterior mean."""

    factor: float = setting(0.0025, "δ: the step is δ·Σ⁻¹μ", common=True)
    cap: bool = setting(True, "rescale the step when mean |step| exceeds the upper lengthscale bound")

    def __post_init__(self) -> None:
        require(self.factor > 0, "factor must be positive")

    def __call__(self, given: StepInput) -> Move:
        model, theta = given.model, given.model.neighbourhood.theta
        posterior = model.posterior
        if given.weights is not None:
            posterior = model.posterior_given_weights(model.weights(given.weights))
        step = self.factor * posterior.direction
        if not np.all(np.isfinite(step)):
            return Move(theta, {"step_capped": None})
        taken = capped(step, model.gp.lengthscale_high) if self.cap else step
        return Move(theta + taken, {"step_capped": bool(taken is not step)})


def capped(step: Array, limit: float) -> Array:
    """Shrink a step whose mean absolute entry exceeds `limit` to that size."""
    size = float(np.abs(step).mean())
    return step * (limit / size) if size > limit else step
