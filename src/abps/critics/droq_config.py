"""Settings of the paper's networks; apart from their code, so that showing them does not import jax."""

from dataclasses import dataclass
from typing import Literal

from abps.critics.base import Critics, CriticsPart
from abps.data.objective import Objective
from abps.policies.policy import PolicySpace
from abps.settings import require, setting

__all__ = ["Droq"]


@dataclass(frozen=True)
class Droq(CriticsPart):
    """DroQ pairs, trained by temporal differences (the paper)."""

    members: int = setting(5, "n: critics in the ensemble")
    replay: int = setting(1_000_000, "capacity of the replay ring in transitions")
    width: int = setting(256, "units per hidden layer")
    depth: int = setting(2, "hidden layers")
    dropout: float = setting(0.01, "dropout rate in the TD loss")
    dropout_target: bool = setting(True, "dropout in the target networks of the TD loss too, as in DroQ")
    learning_rate: float = setting(3e-4, "Adam's step size")
    batch: int = setting(256, "transitions per gradient step and critic")
    polyak: float = setting(0.005, "τ of the target networks")
    polyak_every: int = setting(2, "gradient steps between two target updates")
    steps_first: int = setting(1000, "gradient steps the very first time")
    steps_probe: int = setting(5000, "gradient steps after a probe")
    steps_centre: int = setting(10_000, "gradient steps after a new centre")
    target: Literal["min", "mean"] = setting("min", "min (the paper) or mean of the pair in the TD target")
    output: Literal["tanh", "linear"] = setting("tanh", "output unit: tanh (the published networks) or linear")
    clip: float = setting(5.0, "standardised observations are clipped at ± this; 0: never")

    def __post_init__(self) -> None:
        for name in ("members", "replay", "width", "depth", "batch", "polyak_every"):
            require(getattr(self, name) >= 1, f"critics.{name} must be at least 1")
        require(0 <= self.dropout < 1, "critics.dropout must be in [0, 1)")
        require(self.learning_rate > 0 and 0 < self.polyak <= 1, "critics.learning_rate and polyak must be positive")
        require(self.clip >= 0, "critics.clip must not be negative")

    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Critics:
        from abps.critics.droq import DroqCritics  # Only this kind needs jax, which takes seconds to import.

        return DroqCritics(self, space, objective, seed)
