"""Compatible features: Q(s, a) = V(s) + A(s, a) with A linear in what a change of the policy's parameters does to the action.

Only the slope of Q in the action at a = π_θ(s) enters the gradient of J (Silver et al. 2014, Theorem 3), and only through ∂π_θ/∂θ. So the advantage gets
exactly those features, u_j · π'_j(s) · s̃_i with u = (a − π_θ(s)) / half / spread, one per parameter of a linear policy, and the value gets random ReLU features
of the state alone. At (s', π_θ(s')) the advantage's features vanish, which makes the least-squares system well behaved. Both parts have their own
ridge. Against random features of (s, a) together, whose gradients differ wildly from draw to draw, these hardly vary (benchmarks/critics).

Shapes: m rows, s observation size, a action size, F random features, g members.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.critics.base import Array, Centre, InputScale
from abps.critics.features import Block, ReluFeatures
from abps.data.replay import Transitions
from abps.tasks.spec import TaskSpec

__all__ = ["CompatibleFeatures", "CompatibleInputs"]

SPREAD_FLOOR = 1e-3
"""Smallest spread of u: where the data hardly leave the centre's actions, differences are not blown up without bound."""


@dataclass(frozen=True, eq=False)
class CompatibleInputs:
    """Maps (s, a) to the rows [standardised s | s̃ / rms | u | π' / half]; frozen at a centre."""

    scale: InputScale
    centre: Centre
    rms: Array
    """(s,): root mean square of the policy's normalised observations s̃."""
    spread: Array
    """(a,): std of (a − π_θ(s)) / half in the data."""
    clip: float
    """u is clipped at ± this."""

    @classmethod
    def measure(
        cls, spec: TaskSpec, centre: Centre, data: Transitions, clip: float, action_clip: float
    ) -> "CompatibleInputs":
        """Freeze the statistics of the data under a centre."""
        scale = InputScale.measure(spec, data.states, clip)
        rms = np.sqrt(np.square(centre.normaliser.apply(data.states)).mean(axis=0))
        spread = ((data.actions - centre.actions(data.states)) / scale.action_half).std(axis=0)
        return cls(scale, centre, np.where(rms > 0, rms, 1.0), np.maximum(spread, SPREAD_FLOOR), action_clip)

    @property
    def action_unit(self) -> Array:
        """(a,): the change of action that changes u by one."""
        return self.scale.action_half * self.spread

    def __call__(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float32]:
        """(m, s), (m, a) → (m, 2s + 2a)."""
        s, a = self.rms.size, self.spread.size
        centre, policies = self.centre, self.centre.policy_class
        inputs = np.empty((states.shape[0], 2 * s + 2 * a), dtype=np.float32)
        inputs[:, :s] = self.scale.inputs(states, actions, np.float32)[:, :s]
        inputs[:, s : 2 * s] = centre.normaliser.apply(states) / self.rms
        moved = (actions - centre.actions(states)) / self.action_unit
        inputs[:, 2 * s : 2 * s + a] = np.clip(moved, -self.clip, self.clip)
        inputs[:, 2 * s + a :] = policies.slopes(centre.parameters, states, centre.normaliser) / self.scale.action_half
        return inputs

    def state(self) -> dict[str, Any]:
        """The statistics as arrays; the centre is saved beside them."""
        return {**self.scale.state(), "rms": self.rms, "spread": self.spread}

    @classmethod
    def from_state(
        cls, spec: TaskSpec, centre: Centre, state: dict[str, Any], clip: float, action_clip: float
    ) -> "CompatibleInputs":
        """Rebuild what `state` returned."""
        scale = InputScale.from_state(spec, state, clip)
        return cls(scale, centre, np.array(state["rms"]), np.array(state["spread"]), action_clip)


class CompatibleFeatures:
    """[ReLU features of the standardised state | u_j · π'_j · s̃_i], for rows made by `CompatibleInputs`."""

    dtype = np.float32

    def __init__(self, value: ReluFeatures, observation_dim: int, action_dim: int, value_ridge: float) -> None:
        self.value, self.s, self.a = value, observation_dim, action_dim
        self.size = value.size + observation_dim * action_dim
        self.blocks = (Block(slice(0, value.size), value_ridge), Block(slice(value.size, self.size), None))

    def __call__(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        features = np.empty((inputs.shape[0], self.size), dtype=np.float32)
        features[:, : self.value.size] = self.value(inputs[:, : self.s])
        states, moved, slopes = self._parts(inputs)
        part = (moved * slopes)[:, :, None] * states[:, None, :]
        features[:, self.value.size :] = part.reshape(inputs.shape[0], -1)
        return features

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[np.float32]:
        """∂Q/∂u (g, m, a); linear in u, so it is the same for every action within the clip."""
        states, _, slopes = self._parts(inputs)
        gains = np.asarray(weights, dtype=np.float32)[self.value.size :].reshape(self.a, self.s, -1)
        return np.einsum("mi,jig,mj->gmj", states, gains, slopes, optimize=True)

    def state(self) -> dict[str, Any]:
        return self.value.state()

    def _parts(self, inputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        s, a = self.s, self.a
        return inputs[:, s : 2 * s], inputs[:, 2 * s : 2 * s + a], inputs[:, 2 * s + a :]
