"""Networks of the DroQ critics (paper Section 5.1), for NumPy and JAX: the values of one network.

A hidden layer is linear → dropout → layer norm → ReLU. The output is tanh of a linear unit. `xp` is the array module:
`jax.numpy` in compiled programs, `numpy` in tests. All arrays are float32.
Shapes: m rows, i inputs, h units per hidden layer.
"""

from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Layer",
    "Network",
    "draw_network",
    "flatten",
    "forward",
    "unflatten",
]

NORM_FLOOR = 1e-6
"""Added to the variance in the layer norm."""


class Layer(NamedTuple):
    """A hidden layer. The arrays are NumPy or JAX arrays."""

    weight: Any
    """(i, h)"""
    bias: Any
    """(h,)"""
    gain: Any
    """(h,): scale of the layer norm."""
    shift: Any
    """(h,): offset of the layer norm."""


class Network(NamedTuple):
    """One action-value function Q(x), x = (s, a) scaled. Gradients with respect to the weights have the same type."""

    hidden: tuple[Layer, ...]
    weight: Any
    """(h,): weights of the output unit."""
    bias: Any
    """(): bias of the output unit."""


def forward(network: Network, inputs: Any, masks: Any, xp: ModuleType, squash: bool = True) -> Any:
    """Q (m,) at (m, i) inputs. `masks` are (m, h) dropout factors, one per hidden layer, or None for predictions."""
    outputs = inputs
    for place, layer in enumerate(network.hidden):
        linear = outputs @ layer.weight + layer.bias
        if masks is not None:
            linear = linear * masks[place]
        mean = linear.mean(axis=1, keepdims=True)
        # E[z²] − E[z]² needs one pass less than the centred form. The means are small, so cancellation does not matter.
        variance = xp.maximum((linear * linear).mean(axis=1, keepdims=True) - mean * mean, 0.0)
        normed = (linear - mean) * (1.0 / xp.sqrt(variance + NORM_FLOOR))
        outputs = xp.maximum(normed * layer.gain + layer.shift, 0.0)
    output = outputs @ network.weight + network.bias
    return xp.tanh(output) if squash else output


def draw_network(inputs: int, width: int, depth: int, rng: np.random.Generator) -> Network:
    """Draw Xavier-uniform weights, with zero biases and layer norms of gain 1 and shift 0."""

    def uniform(fan_in: int, fan_out: int) -> NDArray[np.float32]:
        bound = np.sqrt(6.0 / (fan_in + fan_out))
        return rng.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32)

    zeros, ones = np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)
    sizes = [inputs, *[width] * depth]
    hidden = tuple(Layer(uniform(i, o), zeros, ones, zeros) for i, o in pairwise(sizes))
    return Network(hidden, uniform(width, 1)[:, 0], np.zeros((), dtype=np.float32))


def flatten(network: Network) -> NDArray[np.float32]:
    """Copy all weights into one vector."""
    parts = [part for layer in network.hidden for part in layer] + [network.weight, network.bias]
    return np.concatenate([np.asarray(part, dtype=np.float32).reshape(-1) for part in parts])


def unflatten(vector: NDArray[np.float32], inputs: int, width: int, depth: int) -> Network:
    """Return the network whose weights are views of `vector`, in the order of `flatten`."""
    layers, start = [], 0
    for size in [inputs, *[width] * (depth - 1)]:
        cuts = np.cumsum([start, size * width, width, width, width])
        weight, bias, gain, shift = (vector[low:high] for low, high in pairwise(cuts))
        layers.append(Layer(weight.reshape(size, width), bias, gain, shift))
        start = int(cuts[-1])
    return Network(tuple(layers), vector[start : start + width], vector[start + width :].reshape(()))
