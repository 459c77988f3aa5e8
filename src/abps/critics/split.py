"""Split critics: Q(s, a) = V(s) + A(s, a), the advantage a quadratic in the departure from the centre's action.

Only the slope of Q in the action at a = π_θ(s) enters the gradient of J (Silver et al. 2014), so the advantage needs no
more than that slope as a function of the state: A = Σ_j u_j·(b_j + w_j·s) + Σ_ij c_ij u_i u_j with u = (a − π_θ(s)) /
half / spread. The products change no slope at the centre's action; they take up the advantage's curvature, which would
otherwise be taken for slope wherever the data lie to one side of it. The value gets random ReLU features of the state
alone. At (s', π_θ(s')) the advantage's features vanish, which makes the least-squares system well behaved. All three
parts have their own ridge. Random features of (s, a) together give gradients that differ wildly from draw to draw;
these hardly vary (benchmarks/critics/RESULTS.md).

Shapes: m rows, s observation size, a action size, F random features, g members.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import InputScale
from abps.critics.features import Block, ReluFeatures
from abps.data.replay import Transitions
from abps.policies.policy import Policy
from abps.tasks.spec import TaskSpec

__all__ = ["SplitFeatures", "SplitInputs"]

SPREAD_FLOOR = 1e-3
"""Smallest spread of u: where the data hardly leave the centre's actions, differences are not blown up without bound.
"""


@dataclass(frozen=True, eq=False)
class SplitInputs:
    """Maps (s, a) to the rows [standardised s | u]; frozen at a centre."""

    scale: InputScale
    centre: Policy
    spread: Array
    """(a,): std of (a − π_θ(s)) / half in the data."""
    clip: float
    """u is clipped at ± this."""

    @classmethod
    def measure(
        cls, spec: TaskSpec, centre: Policy, data: Transitions, clip: float, action_clip: float
    ) -> "SplitInputs":
        """Freeze the statistics of the data under a centre."""
        scale = InputScale.measure(spec, data.states, clip)
        spread = ((data.actions - centre.actions(data.states)) / scale.action_half).std(axis=0)
        return cls(scale, centre, np.maximum(spread, SPREAD_FLOOR), action_clip)

    @property
    def mean(self) -> Array:
        """(s,) of the states."""
        return self.scale.mean

    @property
    def std(self) -> Array:
        """(s,) of the states."""
        return self.scale.std

    @property
    def action_unit(self) -> Array:
        """(a,): the change of action that changes u by one."""
        return self.scale.action_half * self.spread

    def __call__(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float32]:
        """(m, s), (m, a) → (m, s + a)."""
        inputs = self.scale.inputs(states, actions, np.float32)
        inputs[:, states.shape[1] :] = self.departures(actions, self.centre.actions(states))
        return inputs

    def at_centre(self, states: NDArray[np.floating]) -> NDArray[np.float32]:
        """(m, s) → (m, s + a): the rows of the centre's own actions, where u = 0."""
        inputs = self.scale.inputs(states, np.zeros((states.shape[0], self.spread.size)), np.float32)
        inputs[:, states.shape[1] :] = 0.0
        return inputs

    def departures(self, actions: NDArray[np.floating], at_centre: Array) -> Array:
        """u (…, m, a) of (…, m, a) actions at m states whose centre's actions are given."""
        return np.clip((actions - at_centre) / self.action_unit, -self.clip, self.clip)


class SplitFeatures:
    """[ReLU features of s | u_j·(1, s) for every action j | u_i·u_j for i ≤ j], for rows made by `SplitInputs`."""

    dtype = np.float32

    def __init__(
        self, value: ReluFeatures, observation_dim: int, action_dim: int, value_ridge: float, quadratic_ridge: float
    ) -> None:
        """A quadratic ridge of 0 leaves the products out."""
        self.value, self.s, self.a = value, observation_dim, action_dim
        self.rows, self.columns = np.triu_indices(action_dim if quadratic_ridge > 0 else 0)
        self.linear = slice(value.size, value.size + action_dim * (observation_dim + 1))
        self.products = slice(self.linear.stop, self.linear.stop + self.rows.size)
        self.size = self.products.stop
        blocks = (
            Block(slice(0, value.size), value_ridge),
            Block(self.linear, None),
            Block(self.products, quadratic_ridge),
        )
        self.blocks = tuple(block for block in blocks if block.place.start < block.place.stop)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        features = np.empty((inputs.shape[0], self.size), dtype=np.float32)
        features[:, : self.value.size] = self.value(inputs[:, : self.s])
        departure = inputs[:, self.s :]
        part = departure[:, :, None] * self._with_one(inputs)[:, None, :]
        features[:, self.linear] = part.reshape(inputs.shape[0], -1)
        features[:, self.products] = self.departure_products(departure)
        return features

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[np.float32]:
        """∂Q/∂u (g, m, a) for actions within the clip."""
        forms = np.zeros((weights.shape[1], self.a, self.a), dtype=np.float32)
        forms[:, self.rows, self.columns] = weights[self.products].T
        curved: NDArray[np.float32] = inputs[:, self.s :] @ (forms + forms.transpose(0, 2, 1))
        return self.slopes(inputs, weights) + curved

    def slopes(self, inputs: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float32]:
        """∂Q/∂u at the centre's actions (g, m, a); looks at the states only."""
        gains = np.asarray(weights, dtype=np.float32)[self.linear].reshape(self.a, self.s + 1, -1)
        members = gains.shape[2]
        flat = gains.transpose(1, 2, 0).reshape(self.s + 1, members * self.a)
        slopes: NDArray[np.float32] = self._with_one(inputs) @ flat
        return slopes.reshape(-1, members, self.a).transpose(1, 0, 2)

    def departure_products(self, departures: NDArray[Any]) -> NDArray[Any]:
        """u_i·u_j for i ≤ j, of (…, a) departures."""
        return departures[..., self.rows] * departures[..., self.columns]

    @property
    def random_numbers(self) -> NDArray[np.float32]:
        return self.value.random_numbers

    def _with_one(self, inputs: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([np.ones_like(inputs[:, :1]), inputs[:, : self.s]], axis=1)
