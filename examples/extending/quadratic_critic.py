"""A critic: one action-value function that is quadratic in state and action, by least squares (LSTD).

    Q(s, a) = φ(s, a)·w,    Σ φ (φ − γφ')ᵀ w = Σ φ r,    φ' = φ(s', π_θ(s'))

It is exact for linear-quadratic tasks. Shapes: m states, f features.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import Critics, CriticsPart, FitReport
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.normaliser import Normaliser
from abps.policies.policy import Policy, PolicySpace
from abps.settings import require, setting

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class QuadraticCritic(CriticsPart):
    """One quadratic action-value function."""

    replay: int = setting(10_000, "transitions that it learns from")
    ridge: float = setting(1e-6, "added to the diagonal of the normal equations, as a share of its mean")

    def __post_init__(self) -> None:
        require(self.replay >= 1, "replay must be at least 1")
        require(self.ridge > 0, "ridge must be positive")

    def make(self, space: PolicySpace, objective: Objective, seed: int) -> "LeastSquares":
        return LeastSquares(self, space, objective)


@dataclass
class LeastSquaresMemory:
    """Everything that is needed to go on."""

    weights: Array
    """w (f,)"""
    seen: int = 0
    """Transitions of the replay that were learned from."""
    reward_scale: float = 1.0
    centre: Array | None = None
    """θ, whose action values these are."""
    normaliser: Normaliser | None = None


class LeastSquares(Critics):
    """An ensemble of one."""

    members = 1

    def __init__(self, config: QuadraticCritic, space: PolicySpace, objective: Objective) -> None:
        self.config, self.space, self.objective = config, space, objective
        size = 1 + space.spec.observation_dim + space.spec.action_dim
        self.memory = LeastSquaresMemory(np.zeros(size * (size + 1) // 2))

    def start_centre(self, centre: Policy, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        self.memory.seen, self.memory.reward_scale = 0, reward_scale
        self.memory.centre, self.memory.normaliser = centre.parameters, centre.normaliser
        return self.update(replay)

    def update(self, replay: Replay) -> FitReport:
        memory, data = self.memory, replay.newest(self.config.replay)
        assert memory.centre is not None  # `start_centre` comes first.
        assert memory.normaliser is not None
        following = self.space.actions(memory.centre, data.next_states, memory.normaliser)
        now, later = _features(data.states, data.actions), _features(data.next_states, following)
        rewards = (data.rewards - self.objective.shift) / memory.reward_scale
        going_on = self.objective.gamma * ~data.terminated[:, None]
        matrix = now.T @ (now - going_on * later)
        matrix += self.config.ridge * np.abs(np.diag(matrix)).mean() * np.eye(len(matrix))
        memory.weights = np.linalg.solve(matrix, now.T @ rewards)
        fresh, memory.seen = replay.total - memory.seen, replay.total
        return FitReport(transitions=fresh, steps=0, diverged=())

    def q(self, states: Floats, actions: Floats) -> Array:
        return (_features(states, actions) @ self.memory.weights)[None]

    def action_gradients(self, states: Floats, actions: Floats) -> Array:
        """∂Q/∂a of xᵀMx with x = (1, s, a): the last rows of (M + Mᵀ)x."""
        inputs = _inputs(states, actions)
        matrix = np.zeros((inputs.shape[1], inputs.shape[1]))
        matrix[np.triu_indices(len(matrix))] = self.memory.weights
        return (inputs @ (matrix + matrix.T))[None, :, 1 + states.shape[1] :]


def _inputs(states: Floats, actions: Floats) -> Array:
    return np.concatenate([np.ones((len(states), 1)), states, actions], axis=1, dtype=np.float64)


def _features(states: Floats, actions: Floats) -> Array:
    """All products of two of (1, s, a): (m, f)."""
    inputs = _inputs(states, actions)
    first, second = np.triu_indices(inputs.shape[1])
    return inputs[:, first] * inputs[:, second]
