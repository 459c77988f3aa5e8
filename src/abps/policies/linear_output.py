"""What policies share that are linear in their parameters before a squashing: a = squash(W φ(s̃)).

The features φ of the inputs have no parameters; W has one row per action. The metric has one block per action.
Shapes as in `base`; p features, d = a·p.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.policies.base import PolicyClass
from abps.policies.layers import SQUASHES, Layer
from abps.tasks.spec import TaskSpec

__all__ = ["LinearOutput", "check_drawn", "checked_array", "output_layer", "row_blocks", "with_ones"]


class LinearOutput(PolicyClass):
    """a = squash(W φ(s̃)), W zero at the start; abstract."""

    squash: ClassVar[str] = "tanh"
    """A name of `SQUASHES`."""

    @abstractmethod
    def basis_size(self, spec: TaskSpec) -> int:
        """p"""

    @abstractmethod
    def basis(self, spec: TaskSpec, inputs: Array) -> Array:
        """φ(s̃) of every input: (m, s) → (m, p)."""

    def initial(self, spec: TaskSpec) -> Array:
        return np.zeros(spec.action_dim * self.basis_size(spec))

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        matrix = self.matrix(spec, parameters)
        latent = self.basis(spec, inputs) @ np.swapaxes(matrix, -1, -2)
        return SQUASHES[self.squash].actions(spec, latent)

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        slopes, features = self._slopes_and_features(spec, parameters, inputs)
        pulled = np.swapaxes(cotangents * slopes, -1, -2) @ features
        return pulled.reshape(*pulled.shape[:-2], slopes.shape[1] * features.shape[1])

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        """One block per action."""
        slopes, features = self._slopes_and_features(spec, parameters, inputs)
        return row_blocks(spec, slopes, features, weights)

    def matrix(self, spec: TaskSpec, parameters: Array) -> Array:
        """W: the parameters as an (a, p) matrix, or of n policies (n, a, p)."""
        shape = (spec.action_dim, self.basis_size(spec))
        if parameters.ndim not in (1, 2) or parameters.shape[-1] != shape[0] * shape[1]:
            raise ShapeError(
                f"parameters have shape {parameters.shape}; this policy has {shape[0] * shape[1]} "
                f"({shape[0]} actions × {shape[1]} features, of {spec.observation_dim} observations)"
            )
        return parameters.reshape(*parameters.shape[:-1], *shape)

    def _slopes_and_features(self, spec: TaskSpec, parameters: Array, inputs: Array) -> tuple[Array, Array]:
        """∂π_j/∂(w_j·φ) (m, a) and φ (m, p)."""
        features = self.basis(spec, inputs)
        latent = features @ self.matrix(spec, parameters).T
        return SQUASHES[self.squash].slopes(spec, latent), features


def row_blocks(spec: TaskSpec, slopes: Array, features: Array, weights: Array) -> Array:
    """The metric of a layer of outputs, one block per action: Σ_m w_m (slope_j/half_j)² φ φᵀ / a."""
    squares = weights[:, None] * np.square(slopes / spec.action_half) / spec.action_dim
    return np.stack([(features * column[:, None]).T @ features for column in squares.T])


def with_ones(columns: Array, bias: bool) -> Array:
    """Columns (m, p), with a column of ones where there is a bias."""
    return np.concatenate([columns, np.ones((len(columns), 1))], axis=1) if bias else columns


def output_layer(matrix: Array, bias: bool) -> Layer:
    """W (a, p) as the last layer of a policy; with a bias, its last column."""
    return Layer(matrix[:, :-1], matrix[:, -1]) if bias else Layer(matrix, np.zeros(len(matrix)))


def checked_array(arrays: dict[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """One named array of a policy file in float64.

    Raises:
        ShapeError: it is missing, or has another shape.
    """
    if name not in arrays:
        raise ShapeError(f"the array {name!r} is missing")
    array = np.asarray(arrays[name], dtype=np.float64)
    if array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}, expected {shape}")
    return array


def check_drawn(arrays: dict[str, Array], drawn: dict[str, Array]) -> None:
    """Refuse a policy file whose random numbers are not those that its seed gives here.

    Raises:
        ShapeError: an array is missing, or has another shape.
        ConfigError: its numbers are others.
    """
    for name, expected in drawn.items():
        found = checked_array(arrays, name, expected.shape)
        if not np.allclose(found, expected, rtol=1e-12, atol=1e-12):
            raise ConfigError(
                f"{name} are not those that the policy's seed gives here; use the version of numpy that wrote the file"
            )
