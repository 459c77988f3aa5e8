"""Linear policies: a function of W s̃ (+ b), one row of W per action, s̃ the normalised observation.

Shapes as in `base`; d = a·s, or a·(s + 1) with a bias, which is then the last column.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.normaliser import Normaliser
from abps.policies.base import Controller
from abps.policies.layers import Layers
from abps.policies.linear_output import LinearOutput, checked_array, output_layer, with_ones
from abps.policies.path import ParameterPath
from abps.settings import setting
from abps.tasks.spec import TaskSpec

__all__ = ["ClippedLinear", "LinearTanh"]


@dataclass(frozen=True)
class _Linear(LinearOutput):
    """What both classes share: φ(s̃) = s̃, or (s̃, 1) with a bias; abstract."""

    bias: bool = setting(False, "add a constant b to every action's W s̃")

    acts_linearly: ClassVar[bool] = True

    def basis_size(self, spec: TaskSpec) -> int:
        return spec.observation_dim + int(self.bias)

    def basis(self, spec: TaskSpec, inputs: Array) -> Array:
        return with_ones(inputs, self.bias)

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        matrix = self.matrix(spec, parameters)
        return {"weights": matrix[:, :-1], "bias": matrix[:, -1]} if self.bias else {"weights": matrix}

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        weights = checked_array(arrays, "weights", (spec.action_dim, spec.observation_dim))
        if not self.bias:
            return weights.reshape(-1)
        constant = checked_array(arrays, "bias", (spec.action_dim,))
        return np.concatenate([weights, constant[:, None]], axis=1).reshape(-1)

    def layers(self, spec: TaskSpec, parameters: Array) -> Layers:
        """See `Layered`: one layer."""
        return Layers((output_layer(self.matrix(spec, parameters), self.bias),), self.squash)

    def _gains(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> tuple[Array, Array]:
        """W s̃ + b as gains (a, s) on the raw observation and an offset (a,)."""
        matrix = self.matrix(spec, parameters)
        gains = matrix[:, : spec.observation_dim] / normaliser.std
        offset = -gains @ normaliser.mean
        return gains, offset + matrix[:, -1] if self.bias else offset

    def _moving_latent(self, spec: TaskSpec, path: ParameterPath, normaliser: Normaliser) -> Controller:
        """W(t) s̃ + b(t) for one observation after the other, t counted from 0; linear in the parameters, as the path
        is."""
        pairs = [self._gains(spec, knot, normaliser) for knot in path.knots]
        gains, offsets = np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])
        step = 0

        def latent(observation: NDArray[np.floating]) -> Array:
            nonlocal step
            first, second, share = path.place(step)
            step += 1
            before = gains[first] @ observation + offsets[first]
            return before + share * (gains[second] @ observation + offsets[second] - before)

        return latent


@dataclass(frozen=True)
class LinearTanh(_Linear):
    """a = centre + half · tanh(W s̃ + b), zero parameters at the start; without bias it is the paper's policy."""

    squash: ClassVar[str] = "tanh"

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        gains, offset = self._gains(spec, parameters, normaliser)
        # The array's own method is quicker than np.dot, which first asks every argument whether it overrides it.
        centre, half, times, tanh = spec.action_centre, spec.action_half, gains.dot, np.tanh

        def act(observation: NDArray[np.floating]) -> Array:
            action = times(observation)  # In place from here on: these are the hottest lines of a rollout.
            action += offset
            tanh(action, action)
            action *= half
            action += centre
            return action

        return act

    def path_controller(self, spec: TaskSpec, path: ParameterPath, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        latent = self._moving_latent(spec, path, normaliser)
        centre, half, tanh = spec.action_centre, spec.action_half, np.tanh
        return lambda observation: centre + half * tanh(latent(observation))


@dataclass(frozen=True)
class ClippedLinear(_Linear):
    """a = centre + W s̃ + b, clipped to the bounds: linear inside them.

    With symmetric bounds the centre is zero and a = W s̃ exactly, the linear policies of `tasks/lqr.py`; with a constant
    observation of one, the parameters are the action itself, seen from the middle of its box (`tasks/synthetic.py`).
    """

    squash: ClassVar[str] = "clip"

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        gains, shift = self._gains(spec, parameters, normaliser)
        offset = spec.action_centre + shift
        low, high, maximum, minimum = np.array(spec.action_low), np.array(spec.action_high), np.maximum, np.minimum

        def act(observation: NDArray[np.floating]) -> Array:
            return minimum(maximum(gains @ observation + offset, low), high)

        return act

    def path_controller(self, spec: TaskSpec, path: ParameterPath, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        latent = self._moving_latent(spec, path, normaliser)
        low, high, centre = np.array(spec.action_low), np.array(spec.action_high), spec.action_centre
        return lambda observation: np.clip(centre + latent(observation), low, high)
