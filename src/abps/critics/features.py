"""Feature maps of the closed-form critics: random ReLU layers and quadratic forms.

Shapes: m rows, i = s + a inputs, F features, g members that share the features. A feature map is fixed; only the
weights w (F, g) on top of it are learned, so that Q = φ(x)·w is linear in what is fitted.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "Features", "QuadraticFeatures", "ReluFeatures", "draw_relu"]

NORM_FLOOR = 1e-6
"""Added to the variance in the layer norm."""


class Block(NamedTuple):
    """Features that are penalised together, relative to their mean square."""

    place: slice
    ridge: float | None
    """Its own ridge strength; None: that of the ensemble's member."""


class Features(Protocol):
    """A fixed map from inputs to features."""

    dtype: type
    """The precision in which features are computed."""
    size: int
    """F"""
    blocks: tuple[Block, ...]
    """All features, in blocks."""

    def __call__(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """(m, i) → (m, F)."""
        ...

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[Any]:
        """∂(φ(x)·w)/∂x for the inputs from `first` on: (m, i), (F, g) → (g, m, i − first)."""
        ...

    @property
    def random_numbers(self) -> NDArray[np.float32]:
        """The map's random numbers, from which it can be made again; empty if it has none."""
        ...


class ReluFeatures:
    """φ(x) = max(0, W x + b) with random W and b, optionally layer-normed before the ReLU."""

    dtype = np.float32

    def __init__(self, matrix: NDArray[np.float32], layer_norm: bool) -> None:
        self.matrix = np.ascontiguousarray(matrix, dtype=np.float32)
        """(i + 1, F); the last row is the bias."""
        self.layer_norm = layer_norm
        self.size = self.matrix.shape[1]
        self.blocks = (Block(slice(0, self.size), None),)
        self._zeros = np.zeros(self.size, dtype=np.float32)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        hidden = self._hidden(inputs)
        if self.layer_norm:
            hidden, _ = _normed(hidden)
        return np.maximum(hidden, self._zeros, out=hidden)  # Three times as fast as with the scalar 0.

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[np.float32]:
        hidden, deviation = self._hidden(inputs), None
        if self.layer_norm:
            hidden, deviation = _normed(hidden)
        active = hidden > 0
        out = self.matrix[first:-1].T
        pulled = [active * column for column in np.asarray(weights, dtype=np.float32).T]
        if deviation is not None:
            pulled = [_normed_pullback(part, hidden, deviation) for part in pulled]
        return np.stack([part @ out for part in pulled])

    @property
    def random_numbers(self) -> NDArray[np.float32]:
        return self.matrix

    def _hidden(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        hidden = np.asarray(inputs, dtype=np.float32) @ self.matrix[:-1]
        hidden += self.matrix[-1]
        return hidden


class QuadraticFeatures:
    """φ(x) = all monomials of x up to degree two, in float64: exact for linear-quadratic tasks."""

    dtype = np.float64

    def __init__(self, inputs: int) -> None:
        self.rows, self.columns = np.triu_indices(inputs)
        self.inputs = inputs
        self.size = 1 + inputs + self.rows.size
        self.blocks = (Block(slice(0, self.size), None),)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[np.float64]:
        ones = np.ones((inputs.shape[0], 1))
        return np.concatenate([ones, inputs, inputs[:, self.rows] * inputs[:, self.columns]], axis=1)

    def gradients(self, inputs: NDArray[Any], weights: NDArray[Any], first: int) -> NDArray[np.float64]:
        slopes = np.empty((weights.shape[1], inputs.shape[0], self.inputs - first))
        for g, column in enumerate(weights.T):
            form = np.zeros((self.inputs, self.inputs))
            form[self.rows, self.columns] = column[1 + self.inputs :]
            slopes[g] = column[1 + first : 1 + self.inputs] + inputs @ (form + form.T)[:, first:]
        return slopes

    @property
    def random_numbers(self) -> NDArray[np.float32]:
        return np.zeros((0, 0), dtype=np.float32)


def draw_relu(inputs: int, size: int, bias: float, layer_norm: bool, rng: np.random.Generator) -> ReluFeatures:
    """Return a random layer; rows of W have unit expected length, biases have std `bias`."""
    matrix = rng.standard_normal((inputs + 1, size))
    matrix[:-1] /= np.sqrt(inputs)
    matrix[-1] *= bias
    return ReluFeatures(matrix.astype(np.float32), layer_norm)


def _normed(hidden: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the rows of `hidden` with mean 0 and variance 1, and their deviations (m, 1); overwrites its argument."""
    hidden -= hidden.mean(axis=1, keepdims=True)
    variance = np.einsum("mf,mf->m", hidden, hidden)[:, None] / np.float32(hidden.shape[1])
    deviation = np.sqrt(variance + np.float32(NORM_FLOOR))
    hidden /= deviation
    return hidden, deviation


def _normed_pullback(
    cotangent: NDArray[np.float32], normed: NDArray[np.float32], deviation: NDArray[np.float32]
) -> NDArray[np.float32]:
    along = np.einsum("mf,mf->m", cotangent, normed)[:, None] / np.float32(normed.shape[1])
    return (cotangent - cotangent.mean(axis=1, keepdims=True) - normed * along) / deviation
