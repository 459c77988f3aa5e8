"""Augmented Random Search (Mania, Guy & Recht 2018), the paper's evolutionary baseline.

V1: no normaliser; V2: with it (`spec.normalise`). The "-t" variants use the `top` directions only. The ABS paper's variant
compares discounted returns of tanh policies; the original compares undiscounted ones of clipped linear policies (`direct`).

Shapes: d parameters, N directions.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.config import ArsConfig
from abps.search.base import Answer, Metrics, Proposal, Search
from abps.seeding import generator
from abps.trajectory import Trajectory

__all__ = ["Ars", "ars_step"]

Array = NDArray[np.float64]


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


class Ars(Search[ArsConfig]):
    """One stage per outer iteration: every direction tried forwards and backwards."""

    name = "ars"

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
            self.centre = self.centre + step
        if self.spec.normalise:
            for answer in stage:
                for trajectory in answer.trajectories:
                    self.normaliser = self.normaliser.add(trajectory.observations[:-1])
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
        return self.objective(outcome) if self.config.discounted else outcome.total(1.0, self.spec.reward_shift)

    def _state(self, replay: bool) -> dict[str, Any]:
        return {}  # Directions are drawn anew from the seed and the iteration's number.

    def _load(self, state: dict[str, Any], trajectories: Iterable[Trajectory]) -> None:
        pass
