"""Closed-form critics that the study compares with the library's: critics of the deviation from the centre's action.

`DeviationCritics` writes Q(s, a) = V(s) + A(s, u) with u = a − π_θ(s), divided by its spread in the data and clipped: V has random ReLU features
of the state alone, A has the products of u with (1, s). The action part is then no random draw; it vanishes at (s', π_θ(s')), so it is a regression
of the TD error on u; and each part has a ridge of its own, relative to its own mean squared feature.

Shapes: m rows, s and a observation and action sizes, F features of the state, g members that share features.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.config import CriticsConfig
from abps.critics.base import Array, Centre, FitReport
from abps.critics.closed_form import ClosedFormCritics, _Group, _Prepared
from abps.critics.features import ReluFeatures, draw_features
from abps.data.replay import Replay
from abps.policies import PolicyClass
from abps.seeding import generator
from abps.tasks.spec import TaskSpec

__all__ = ["DeviationCritics"]


class DeviationFeatures:
    """φ(s, u) = (ReLU features of s, u_1·(1, s), …, u_a·(1, s))."""

    dtype = np.float32

    def __init__(self, states: ReluFeatures, state_dim: int, action_dim: int) -> None:
        self.states, self.state_dim, self.action_dim = states, state_dim, action_dim
        self.size = states.size + action_dim * (state_dim + 1)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        states, moves = inputs[:, : self.state_dim], inputs[:, self.state_dim :]
        features = np.empty((len(inputs), self.size), dtype=np.float32)
        features[:, : self.states.size] = self.states(states)
        products = features[:, self.states.size :].reshape(len(inputs), self.action_dim, self.state_dim + 1)
        products[:, :, 0] = moves
        np.multiply(moves[:, :, None], states[:, None, :], out=products[:, :, 1:])
        return features

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[Any]:
        del first  # Always the gradient in u.
        ones = np.concatenate([np.ones((len(inputs), 1)), inputs[:, : self.state_dim]], axis=1)
        slopes = weights[self.states.size :].reshape(self.action_dim, self.state_dim + 1, -1)
        return np.einsum("mi,jig->gmj", ones, slopes)

    def state(self) -> dict[str, Any]:
        return self.states.state()


class _DeviationGroup(_Group):
    """A group whose two parts have ridges of their own."""

    features: DeviationFeatures
    moves_ridge: float = 10.0
    """Ridge of the action part in multiples of the state part's."""

    def clear(self) -> None:
        super().clear()
        self.moves_trace = 0.0

    def add(self, data: _Prepared) -> None:
        super().add(data)
        size = self.features.state_dim
        squares = np.square(data.inputs[:, size:]).sum(axis=1) * (1.0 + np.square(data.inputs[:, :size]).sum(axis=1))
        self.moves_trace += float(squares.sum(dtype=np.float64))

    def _regularised(self, ridge: float) -> Array:
        matrix, first = self.system.copy(), self.features.states.size
        penalty = np.full(len(matrix), ridge * (self.trace - self.moves_trace) / first)
        penalty[first:] = self.moves_ridge * ridge * self.moves_trace / (len(matrix) - first)
        matrix.flat[:: len(matrix) + 1] += penalty
        return matrix


class DeviationCritics(ClosedFormCritics):
    """Q = V(s) + A(s, u) in closed form."""

    def __init__(
        self,
        config: CriticsConfig,
        spec: TaskSpec,
        policy_class: PolicyClass,
        seed: int,
        moves_ridge: float = 10.0,
        moves_clip: float = 3.0,
    ) -> None:
        super().__init__(config, spec, policy_class, seed)
        self._moves_ridge, self._moves_clip = moves_ridge, moves_clip
        self._spread = np.ones(spec.action_dim)
        self._groups = [self._replaced(number, group) for number, group in enumerate(self._groups)]

    def _replaced(self, number: int, group: _Group) -> _Group:
        config, spec = self.config, self.spec
        rng = generator(self._seed, "critics", "features", number, 0)
        states = draw_features(
            "relu", spec.observation_dim, config.features, config.feature_bias, config.layer_norm, rng
        )
        assert isinstance(states, ReluFeatures)
        features = DeviationFeatures(states, spec.observation_dim, spec.action_dim)
        replacement = _DeviationGroup(features, group.ridges, draws=1)
        replacement.moves_ridge = self._moves_ridge
        return replacement

    def start_centre(self, centre: Centre, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        data = self._recent(replay)
        half = (np.array(self.spec.action_high) - np.array(self.spec.action_low)) / 2
        self._spread = np.maximum(((data.actions - centre.actions(data.states)) / half).std(axis=0), 1e-6)
        return super().start_centre(centre, replay, reward_scale, worst)

    def _scaled(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[Any]:
        inputs, scale, centre = super()._scaled(states, actions), self._ready(), self._centre
        assert centre is not None
        moves = (actions - centre.actions(states)) / (scale.action_half * self._spread)
        inputs[:, self.spec.observation_dim :] = np.clip(moves, -self._moves_clip, self._moves_clip)
        return inputs

    def action_gradients(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        return super().action_gradients(states, actions) / self._spread
