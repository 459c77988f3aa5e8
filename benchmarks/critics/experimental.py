"""What the study found better than the library's compatible features: u_j·(1, s) in place of u_j·π'_j·s̃_i.

Q(s, a) = V(s) + A(s, u), u = a − π_θ(s) divided by its spread in the data and clipped. V has random ReLU features of the state; A has the products of u
with a constant and the *standardised, clipped* state that V sees too. Nothing of the policy's derivative is needed, so any policy class will do.

Shapes: m rows, s and a observation and action sizes, F random features, g members that share features.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.critics.base import Array, Centre, InputScale
from abps.critics.closed_form import ClosedFormCritics
from abps.critics.features import Block, ReluFeatures
from abps.data.replay import Transitions

__all__ = ["DeviationCritics"]

SPREAD_FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class DeviationInputs:
    """Maps (s, a) to the rows [standardised s | u]; frozen at a centre."""

    scale: InputScale
    centre: Centre
    spread: Array
    """(a,): std of (a − π_θ(s)) / half in the data."""
    clip: float

    @property
    def action_unit(self) -> Array:
        return self.scale.action_half * self.spread

    def __call__(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float32]:
        inputs = self.scale.inputs(states, actions, np.float32)
        moved = (actions - self.centre.actions(states)) / self.action_unit
        inputs[:, states.shape[1] :] = np.clip(moved, -self.clip, self.clip)
        return inputs


class DeviationFeatures:
    """φ(s, u) = [ReLU features of s | u_1·(1, s) | … | u_a·(1, s)]."""

    dtype = np.float32

    def __init__(self, value: ReluFeatures, observation_dim: int, action_dim: int, value_ridge: float) -> None:
        self.value, self.s, self.a = value, observation_dim, action_dim
        self.size = value.size + action_dim * (observation_dim + 1)
        self.blocks = (Block(slice(0, value.size), value_ridge), Block(slice(value.size, self.size), None))

    def __call__(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        states, moved = inputs[:, : self.s], inputs[:, self.s :]
        features = np.empty((len(inputs), self.size), dtype=np.float32)
        features[:, : self.value.size] = self.value(states)
        products = features[:, self.value.size :].reshape(len(inputs), self.a, self.s + 1)
        products[:, :, 0] = moved
        np.multiply(moved[:, :, None], states[:, None, :], out=products[:, :, 1:])
        features[:, self.value.size :] = products.reshape(len(inputs), -1)
        return features

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[Any]:
        del first  # Always the gradient in u; it does not depend on u.
        extended = np.concatenate([np.ones((len(inputs), 1)), inputs[:, : self.s]], axis=1)
        slopes = weights[self.value.size :].reshape(self.a, self.s + 1, -1)
        return np.einsum("mi,jig->gmj", extended, slopes, optimize=True)

    def state(self) -> dict[str, Any]:
        return self.value.state()


class DeviationCritics(ClosedFormCritics):
    """The library's critics with these features; made with `feature_kind="compatible"`."""

    def _measured(self, centre: Centre, data: Transitions) -> Any:
        scale = InputScale.measure(self.spec, data.states, self.config.clip)
        spread = ((data.actions - centre.actions(data.states)) / scale.action_half).std(axis=0)
        return DeviationInputs(scale, centre, np.maximum(spread, SPREAD_FLOOR), self.config.action_clip)

    def _features(self, relu: ReluFeatures) -> Any:
        return DeviationFeatures(relu, self.spec.observation_dim, self.spec.action_dim, self.config.value_ridge)
