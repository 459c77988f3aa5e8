"""Steps of fixed length along a gradient: GIBO's, and the critics' own (the ablation `ddpgn`)."""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.steps.base import Move, StepInput, StepRule

__all__ = ["MeanGradient", "NormalisedGradient"]


@dataclass(frozen=True)
class NormalisedGradient(StepRule):
    """Along μ, normalised, in units of the lengthscales (Müller, von Rohr & Trimpe 2021)."""

    length: float = setting(1.0, "length of the step in lengthscales", common=True)
    normalise: bool = setting(True, "divide μ by its L2 norm before the step")

    def __post_init__(self) -> None:
        require(self.length > 0, "length must be positive")

    def __call__(self, given: StepInput) -> Move:
        model = given.model
        gradient = model.posterior.mu
        norm = _norm(gradient)
        if not norm:
            return Move(model.neighbourhood.theta)
        if self.normalise:
            gradient = gradient / norm
        return Move(model.neighbourhood.theta + self.length * model.posterior.hyper.effective * gradient)


@dataclass(frozen=True)
class MeanGradient(StepRule):
    """Along ∇m(θ), normalised: what the critics say, uncorrected by the returns."""

    length: float = setting(0.05, "length of the step along ∇m̂ / ‖∇m̂‖", common=True)

    def __post_init__(self) -> None:
        require(self.length > 0, "length must be positive")

    def __call__(self, given: StepInput) -> Move:
        theta, gradient = given.model.neighbourhood.theta, given.model.mean_gradient()
        norm = _norm(gradient)
        return Move(theta + self.length * gradient / norm) if norm else Move(theta)


def _norm(gradient: Array) -> float:
    """The L2 norm; 0 where there is no direction."""
    norm = float(np.linalg.norm(gradient))
    return norm if np.isfinite(norm) else 0.0
