"""Linear policies: a function of W s̃, one row of W per action, s̃ the normalised observation.

Shapes as in `base`; d = a·s.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ShapeError
from abps.normaliser import Normaliser
from abps.policies.base import Controller, PolicyClass
from abps.tasks.spec import TaskSpec

__all__ = ["ClippedLinear", "LinearTanh"]


@dataclass(frozen=True)
class LinearTanh(PolicyClass):
    """a = centre + half · tanh(W s̃), no bias, zero parameters at the start (the paper's policy)."""

    squash: ClassVar[str] = "tanh"

    def initial(self, spec: TaskSpec) -> Array:
        return np.zeros(spec.action_dim * spec.observation_dim)

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        weights = np.swapaxes(_matrix(spec, parameters), -1, -2)
        return spec.action_centre + spec.action_half * np.tanh(inputs @ weights)

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        return _pulled(self._slopes(spec, parameters, inputs), inputs, cotangents)

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        return _blocks(spec, self._slopes(spec, parameters, inputs), inputs, weights)

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        return {"weights": _matrix(spec, parameters)}

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        return _flat(spec, arrays)

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        gains = _matrix(spec, parameters) / normaliser.std
        offset = -gains @ normaliser.mean
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

    def _slopes(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        """∂π_j/∂(w_j·s̃) (m, a)."""
        return spec.action_half * (1.0 - np.square(np.tanh(inputs @ _matrix(spec, parameters).T)))


@dataclass(frozen=True)
class ClippedLinear(PolicyClass):
    """a = centre + W s̃, clipped to the bounds: linear inside them.

    With symmetric bounds the centre is zero and a = W s̃ exactly, the linear policies of `tasks/lqr.py`; with a constant
    observation of one, the parameters are the action itself, seen from the middle of its box (`tasks/synthetic.py`).
    """

    squash: ClassVar[str] = "clip"

    def initial(self, spec: TaskSpec) -> Array:
        return np.zeros(spec.action_dim * spec.observation_dim)

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        return np.clip(_unclipped(spec, parameters, inputs), spec.action_low, spec.action_high)

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        return _pulled(self._slopes(spec, parameters, inputs), inputs, cotangents)

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        return _blocks(spec, self._slopes(spec, parameters, inputs), inputs, weights)

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        return {"weights": _matrix(spec, parameters)}

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        return _flat(spec, arrays)

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        gains = _matrix(spec, parameters) / normaliser.std
        offset = spec.action_centre - gains @ normaliser.mean
        low, high, maximum, minimum = np.array(spec.action_low), np.array(spec.action_high), np.maximum, np.minimum

        def act(observation: NDArray[np.floating]) -> Array:
            return minimum(maximum(gains @ observation + offset, low), high)

        return act

    def _slopes(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        """∂π_j/∂(w_j·s̃) (m, a): one inside the bounds, zero at them."""
        wanted = _unclipped(spec, parameters, inputs)
        return ((wanted > spec.action_low) & (wanted < spec.action_high)).astype(np.float64)


def _matrix(spec: TaskSpec, parameters: Array) -> Array:
    """W, the parameters as an (a, s) matrix, or of n policies (n, a, s)."""
    shape = (spec.action_dim, spec.observation_dim)
    if parameters.ndim not in (1, 2) or parameters.shape[-1] != shape[0] * shape[1]:
        raise ShapeError(
            f"parameters have shape {parameters.shape}; this policy has {shape[0] * shape[1]} "
            f"({shape[0]} actions × {shape[1]} observations)"
        )
    return parameters.reshape(*parameters.shape[:-1], *shape)


def _flat(spec: TaskSpec, arrays: dict[str, Array]) -> Array:
    weights = np.asarray(arrays["weights"], dtype=np.float64)
    if weights.shape != (spec.action_dim, spec.observation_dim):
        raise ShapeError(f"weights have shape {weights.shape}, expected {(spec.action_dim, spec.observation_dim)}")
    return weights.reshape(-1)


def _unclipped(spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
    """The actions (m, a), or of n policies (n, m, a), before the bounds cut them off."""
    return spec.action_centre + inputs @ np.swapaxes(_matrix(spec, parameters), -1, -2)


def _pulled(slopes: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
    pulled = np.swapaxes(cotangents * slopes, -1, -2) @ inputs
    return pulled.reshape(*pulled.shape[:-2], slopes.shape[1] * inputs.shape[1])


def _blocks(spec: TaskSpec, slopes: Array, inputs: Array, weights: Array) -> Array:
    """One s×s block per action: Σ_m w_m (slope_j/half_j)² s̃ s̃ᵀ / a."""
    squares = weights[:, None] * np.square(slopes / spec.action_half) / spec.action_dim
    return np.stack([(inputs * column[:, None]).T @ inputs for column in squares.T])
