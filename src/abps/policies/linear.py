"""Linear policies: a function of W s̃ (+ b), one row of W per action, s̃ the normalised observation.

Shapes as in `base`; d = a·s, or a·(s + 1) with a bias, which is then the last column.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ShapeError
from abps.normaliser import Normaliser
from abps.policies.base import Controller, PolicyClass
from abps.policies.path import ParameterPath
from abps.settings import setting
from abps.tasks.spec import TaskSpec

__all__ = ["ClippedLinear", "LinearTanh"]


@dataclass(frozen=True)
class _Linear(PolicyClass):
    """What both classes share: a = f(W s̃ + b); abstract."""

    bias: bool = setting(False, "add a constant b to every action's W s̃")

    @abstractmethod
    def _slopes(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        """∂π_j/∂(w_j·s̃) (m, a)."""

    def initial(self, spec: TaskSpec) -> Array:
        return np.zeros(spec.action_dim * _columns(spec, self.bias))

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        slopes, augmented = self._slopes(spec, parameters, inputs), _augmented(inputs, self.bias)
        pulled = np.swapaxes(cotangents * slopes, -1, -2) @ augmented
        return pulled.reshape(*pulled.shape[:-2], slopes.shape[1] * augmented.shape[1])

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        """One block per action: Σ_m w_m (slope_j/half_j)² s̃ s̃ᵀ / a."""
        slopes, augmented = self._slopes(spec, parameters, inputs), _augmented(inputs, self.bias)
        squares = weights[:, None] * np.square(slopes / spec.action_half) / spec.action_dim
        return np.stack([(augmented * column[:, None]).T @ augmented for column in squares.T])

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        matrix = _matrix(spec, parameters, self.bias)
        return {"weights": matrix[:, :-1], "bias": matrix[:, -1]} if self.bias else {"weights": matrix}

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        weights = np.asarray(arrays["weights"], dtype=np.float64)
        if weights.shape != (spec.action_dim, spec.observation_dim):
            raise ShapeError(f"weights have shape {weights.shape}, expected {(spec.action_dim, spec.observation_dim)}")
        if not self.bias:
            return weights.reshape(-1)
        constant = np.asarray(arrays["bias"], dtype=np.float64)
        if constant.shape != (spec.action_dim,):
            raise ShapeError(f"bias has shape {constant.shape}, expected {(spec.action_dim,)}")
        return np.concatenate([weights, constant[:, None]], axis=1).reshape(-1)


@dataclass(frozen=True)
class LinearTanh(_Linear):
    """a = centre + half · tanh(W s̃ + b), zero parameters at the start; without bias it is the paper's policy."""

    squash: ClassVar[str] = "tanh"

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        return spec.action_centre + spec.action_half * np.tanh(_latent(spec, parameters, inputs, self.bias))

    def _slopes(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        return spec.action_half * (1.0 - np.square(np.tanh(_latent(spec, parameters, inputs, self.bias))))

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        gains, offset = _gains(spec, parameters, normaliser, self.bias)
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
        latent = _moving_latent(spec, path, normaliser, self.bias)
        centre, half, tanh = spec.action_centre, spec.action_half, np.tanh
        return lambda observation: centre + half * tanh(latent(observation))


@dataclass(frozen=True)
class ClippedLinear(_Linear):
    """a = centre + W s̃ + b, clipped to the bounds: linear inside them.

    With symmetric bounds the centre is zero and a = W s̃ exactly, the linear policies of `tasks/lqr.py`; with a constant
    observation of one, the parameters are the action itself, seen from the middle of its box (`tasks/synthetic.py`).
    """

    squash: ClassVar[str] = "clip"

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        return np.clip(self._unclipped(spec, parameters, inputs), spec.action_low, spec.action_high)

    def _slopes(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        wanted = self._unclipped(spec, parameters, inputs)
        return ((wanted > spec.action_low) & (wanted < spec.action_high)).astype(np.float64)

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        gains, shift = _gains(spec, parameters, normaliser, self.bias)
        offset = spec.action_centre + shift
        low, high, maximum, minimum = np.array(spec.action_low), np.array(spec.action_high), np.maximum, np.minimum

        def act(observation: NDArray[np.floating]) -> Array:
            return minimum(maximum(gains @ observation + offset, low), high)

        return act

    def path_controller(self, spec: TaskSpec, path: ParameterPath, normaliser: Normaliser) -> Controller:
        """See `FastControl`."""
        latent = _moving_latent(spec, path, normaliser, self.bias)
        low, high, centre = np.array(spec.action_low), np.array(spec.action_high), spec.action_centre
        return lambda observation: np.clip(centre + latent(observation), low, high)

    def _unclipped(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        """The actions (m, a), or of n policies (n, m, a), before the bounds cut them off."""
        return spec.action_centre + _latent(spec, parameters, inputs, self.bias)


def _columns(spec: TaskSpec, bias: bool) -> int:
    return spec.observation_dim + int(bias)


def _matrix(spec: TaskSpec, parameters: Array, bias: bool) -> Array:
    """[W | b], the parameters as an (a, s) or (a, s + 1) matrix, or of n policies (n, a, …)."""
    shape = (spec.action_dim, _columns(spec, bias))
    if parameters.ndim not in (1, 2) or parameters.shape[-1] != shape[0] * shape[1]:
        raise ShapeError(
            f"parameters have shape {parameters.shape}; this policy has {shape[0] * shape[1]} "
            f"({shape[0]} actions × {spec.observation_dim} observations{' and a bias' if bias else ''})"
        )
    return parameters.reshape(*parameters.shape[:-1], *shape)


def _augmented(inputs: Array, bias: bool) -> Array:
    """The inputs (m, s), with a column of ones where there is a bias."""
    return np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1) if bias else inputs


def _latent(spec: TaskSpec, parameters: Array, inputs: Array, bias: bool) -> Array:
    """W s̃ + b (m, a), or of n policies (n, m, a)."""
    return _augmented(inputs, bias) @ np.swapaxes(_matrix(spec, parameters, bias), -1, -2)


def _gains(spec: TaskSpec, parameters: Array, normaliser: Normaliser, bias: bool) -> tuple[Array, Array]:
    """W s̃ + b as gains (a, s) on the raw observation and an offset (a,)."""
    matrix = _matrix(spec, parameters, bias)
    gains = matrix[:, : spec.observation_dim] / normaliser.std
    offset = -gains @ normaliser.mean
    return gains, offset + matrix[:, -1] if bias else offset


def _moving_latent(spec: TaskSpec, path: ParameterPath, normaliser: Normaliser, bias: bool) -> Controller:
    """W(t) s̃ + b(t) for one observation after the other, t counted from 0; linear in the parameters, as the path is."""
    pairs = [_gains(spec, knot, normaliser, bias) for knot in path.knots]
    gains, offsets = np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])
    step = 0

    def latent(observation: NDArray[np.floating]) -> Array:
        nonlocal step
        first, second, share = path.place(step)
        step += 1
        before = gains[first] @ observation + offsets[first]
        return before + share * (gains[second] @ observation + offsets[second] - before)

    return latent
