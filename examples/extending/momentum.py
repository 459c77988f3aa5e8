"""A step rule with a memory: steps along μ, smoothed over outer iterations."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.steps.base import Move, StepInput, StepRule


@dataclass
class MomentumMemory:
    """What the rule remembers from one move to the next."""

    velocity: Array | None = None
    """(d,), in parameters; None before the first move."""


@dataclass(frozen=True)
class Momentum(StepRule):
    """A running mean of normalised gradients."""

    length: float = setting(0.1, "length of a step when all gradients agree", common=True)
    decay: float = setting(0.5, "share of the last velocity that is kept")

    memory_type: ClassVar[type] = MomentumMemory

    def __post_init__(self) -> None:
        require(self.length > 0, "length must be positive")
        require(0 <= self.decay < 1, "decay must be in [0, 1)")

    def __call__(self, given: StepInput) -> Move:
        model, memory = given.model, given.memory
        gradient = model.posterior.mu
        step = self.length * (1.0 - self.decay) * gradient / max(float(np.linalg.norm(gradient)), 1e-300)
        # The chart changes with the centre, so the velocity is kept in parameters.
        chart = model.neighbourhood.coordinates
        velocity = chart.to_parameters(chart.centre + step) - chart.to_parameters(chart.centre)
        if memory.velocity is not None:
            velocity = velocity + self.decay * memory.velocity
        centre = chart.to_chart(chart.to_parameters(chart.centre) + velocity)
        return Move(centre, {"speed": float(np.linalg.norm(velocity))}, MomentumMemory(velocity))
