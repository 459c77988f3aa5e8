"""A policy class: a network with one hidden layer.

    h = tanh(W s̃ + b),    a = centre + half · tanh(V h)

Shapes: d parameters, n policies, m states, s observation size, a action size, k hidden units; d = k·s + k + a·k.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ShapeError
from abps.policies.base import PolicyClass
from abps.seeding import generator
from abps.settings import require, setting
from abps.tasks.spec import TaskSpec


class Layers(NamedTuple):
    """The parameters of one policy, or of n policies with n in front of every shape."""

    weights: Array
    """W (k, s)"""
    bias: Array
    """b (k,)"""
    output: Array
    """V (a, k)"""


@dataclass(frozen=True)
class TanhNetwork(PolicyClass):
    """A network with one hidden layer of tanh units."""

    units: int = setting(4, "hidden units", common=True)

    def __post_init__(self) -> None:
        require(self.units >= 1, "units must be at least 1")

    def initial(self, spec: TaskSpec) -> Array:
        """Random hidden units, but always the same ones; no output, so that the first action is the centre."""
        rng = generator(0, "tanh-network", self.units, spec.observation_dim)
        weights = rng.standard_normal((self.units, spec.observation_dim)) / np.sqrt(spec.observation_dim)
        arrays = {"weights": weights, "bias": np.zeros(self.units), "output": np.zeros((spec.action_dim, self.units))}
        return self.from_arrays(spec, arrays)

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        layers = self._layers(spec, parameters)
        hidden = np.tanh(inputs @ _transposed(layers.weights) + layers.bias[..., None, :])
        return spec.action_centre + spec.action_half * np.tanh(hidden @ _transposed(layers.output))

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        return np.einsum("...ma,mad->...d", cotangents, self._jacobian(spec, parameters, inputs))

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        scaled = self._jacobian(spec, parameters, inputs) / spec.action_half[:, None]
        return np.einsum("m,mai,maj->ij", weights, scaled, scaled)[None] / spec.action_dim  # One block.

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        return self._layers(spec, parameters)._asdict()

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        for name, shape in self._shapes(spec).items():
            if np.shape(arrays[name]) != shape:
                raise ShapeError(f"{name} has shape {np.shape(arrays[name])}, expected {shape}")
        return np.concatenate([np.ravel(arrays[name]) for name in self._shapes(spec)])

    def _shapes(self, spec: TaskSpec) -> dict[str, tuple[int, ...]]:
        units = self.units
        return {"weights": (units, spec.observation_dim), "bias": (units,), "output": (spec.action_dim, units)}

    def _layers(self, spec: TaskSpec, parameters: Array) -> Layers:
        shapes = list(self._shapes(spec).values())
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        if parameters.shape[-1] != ends[-1]:
            raise ShapeError(f"parameters have shape {parameters.shape}; this network has {ends[-1]}")
        parts = np.split(parameters, ends[:-1], axis=-1)
        several = parameters.shape[:-1]
        return Layers(*(part.reshape(*several, *shape) for part, shape in zip(parts, shapes, strict=True)))

    def _jacobian(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        """∂π/∂parameters (m, a, d)."""
        layers, m, a = self._layers(spec, parameters), len(inputs), spec.action_dim
        hidden = np.tanh(inputs @ layers.weights.T + layers.bias)  # (m, k)
        slopes = spec.action_half * (1.0 - np.tanh(hidden @ layers.output.T) ** 2)  # (m, a)
        to_bias = np.einsum("ma,ak,mk->mak", slopes, layers.output, 1.0 - hidden**2)
        to_weights = np.einsum("mak,ms->maks", to_bias, inputs)
        to_output = np.einsum("ma,ab,mk->mabk", slopes, np.eye(a), hidden)
        return np.concatenate([part.reshape(m, a, -1) for part in (to_weights, to_bias, to_output)], axis=-1)


def _transposed(matrices: Array) -> Array:
    return np.swapaxes(matrices, -1, -2)
