"""MPD's move: a walk of small steps along Σ⁻¹μ while ascent stays probable (Nguyen et al. 2022; paper Appendix A)."""

from dataclasses import dataclass

import numpy as np

from abps.settings import require, setting
from abps.steps.base import Move, StepInput, StepRule

__all__ = ["Walk"]


@dataclass(frozen=True)
class Walk(StepRule):
    """Steps of fixed length along Σ⁻¹μ, the posterior taken anew at every place."""

    length: float = setting(0.01, "δ: length of one small step along Σ⁻¹μ / ‖Σ⁻¹μ‖", common=True)
    probability: float = setting(0.65, "steps are repeated while P(ascent) exceeds this")
    max_steps: int = setting(1000, "at most so many small steps in one move")

    def __post_init__(self) -> None:
        require(self.length > 0, "length must be positive")
        require(0 < self.probability < 1, "probability must be in (0, 1)")
        require(self.max_steps >= 1, "max_steps must be at least 1")

    def __call__(self, given: StepInput) -> Move:
        model = given.model
        theta, posterior, steps = model.neighbourhood.theta, model.posterior, 0
        while steps < self.max_steps:
            norm = float(np.linalg.norm(posterior.direction))
            if norm == 0.0 or not np.isfinite(norm):
                break  # A flat posterior has no direction: stay.
            theta = theta + self.length * posterior.direction / norm
            steps += 1
            posterior = model.at(theta)
            if posterior.max_probability <= self.probability:
                break
        return Move(theta, {"small_steps": steps, "probability_ascent_end": posterior.max_probability})
