"""Augmented Random Search (Mania, Guy & Recht 2018), the paper's evolutionary baseline.

V1: raw observations; V2: normalised ones. The "-t" variants use the `top` directions only. The ABS paper's variant
compares discounted returns of tanh policies; the original compares undiscounted ones of clipped linear policies.

Shapes: d parameters, N directions.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.policies.base import PolicyClass
from abps.policies.linear import ClippedLinear
from abps.policies.observations import Observations, RunningNormaliser
from abps.search.base import Answer, Metrics, Proposal, Search, SearchConfig
from abps.search.budget import BudgetConfig
from abps.seeding import generator
from abps.settings import check_types, require, setting
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

__all__ = ["Ars", "ArsConfig", "ars_step"]


def ars_step(directions: Array, plus: Array, minus: Array, step: float, top: int) -> Array:
    """Return the move of one ARS iteration: α / (b σ_R) · Σ_k (r(+)_k − r(−)_k) δ_k over the b best directions.

    Args:
        directions: δ, (N, d).
        plus: returns of θ + νδ, (N,).
        minus: returns of θ − νδ, (N,).
        step: α.
        top: b.

    Returns:
        The move, (d,); zero when all used returns are equal.
    """
    used = np.argsort(-np.maximum(plus, minus), kind="stable")[:top]
    spread = np.concatenate([plus[used], minus[used]]).std()
    if spread == 0.0:
        return np.zeros(directions.shape[1])
    return step / (len(used) * spread) * ((plus[used] - minus[used]) @ directions[used])


@dataclass(frozen=True)
class ArsConfig(SearchConfig):
    """Augmented Random Search (Mania et al. 2018): V1, V1-t, V2, V2-t.

    Example:
        >>> import abps
        >>> abps.ArsConfig(directions=4, top=2).make(abps.make_task("pendulum").spec, seed=0).ask().role
        'direction'
    """

    policy: PolicyClass = setting(ClippedLinear(), "class of policies")
    observations: Observations = setting(RunningNormaliser(), "what policies see: raw (V1) or normalised (V2)")
    reward_shift: float = setting(0.0, "subtracted from every reward (the survival bonus)")
    step: float = setting(0.02, "α: step size", common=True)
    noise: float = setting(0.02, "ν: std of the exploration directions", common=True)
    directions: int = setting(8, "N: directions per iteration, two episodes each", common=True)
    top: int = setting(4, "b: directions used in the step (top = directions: the plain variant)", common=True)
    discounted: bool = setting(False, "compare discounted returns, as the ABS paper's ARS does")

    def __post_init__(self) -> None:
        check_types(self)
        require(self.step > 0 and self.noise > 0, "step and noise must be positive")
        require(
            1 <= self.top <= self.directions,
            f"need 1 <= top <= directions, got top {self.top} of {self.directions} directions",
        )

    def make(self, spec: TaskSpec, *, seed: int = 0, budget: BudgetConfig | None = None, name: str = "") -> "Ars":
        return Ars(spec, self, seed=seed, budget=budget, name=name)


class Ars(Search[ArsConfig]):
    """One stage per outer iteration: every direction tried forwards and backwards."""

    def _directions(self) -> Array:
        rng = generator(self.seed, "ars", self.iteration)
        return rng.standard_normal((self.config.directions, self.policies.size))

    def _propose(self) -> list[Proposal]:
        moves = self.config.noise * self._directions()
        return [Proposal(self.centre + sign * move, "direction") for move in moves for sign in (1.0, -1.0)]

    def _learn(self, stage: list[Answer]) -> Metrics:
        values = np.array([self._value(answer) for answer in stage]).reshape(-1, 2)
        worked = np.all(np.isfinite(values), axis=1)
        step = np.zeros(self.policies.size)
        if np.any(worked):
            kept = values[worked]
            step = ars_step(self._directions()[worked], kept[:, 0], kept[:, 1], self.config.step, self.config.top)
            self.progress.centre = self.centre + step
        self._merge_observations(stage)
        returns = [trajectory.total() for answer in stage for trajectory in answer.trajectories]
        return {
            "direction_return_mean": float(np.mean(returns)) if returns else None,
            "direction_return_max": float(np.max(returns)) if returns else None,
            "directions_failed": int(np.sum(~worked)),
            "step_length": float(np.linalg.norm(step)),
        }

    def _value(self, answer: Answer) -> float:
        """The return that directions are compared by; NaN for a failed episode."""
        outcome = answer.outcomes[0]
        if not isinstance(outcome, Trajectory):
            return float("nan")
        return self.objective.total(outcome) if self.config.discounted else outcome.total(1.0, self.objective.shift)
