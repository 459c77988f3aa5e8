"""Networks of the DroQ critics, written once for NumPy and JAX: values and input gradients of one network.

A hidden layer is linear → dropout → layer norm → ReLU, the output is tanh of a linear unit. `xp` is the array module: `numpy` for predictions, `jax.numpy` inside
the compiled training loop. Shapes: m rows, i inputs, h units per hidden layer. Everything is float32.
"""

from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cache",
    "Layer",
    "Network",
    "draw_network",
    "flatten",
    "forward",
    "input_gradients",
    "unflatten",
]

NORM_FLOOR = 1e-6
"""Added to the variance in the layer norm."""


class Layer(NamedTuple):
    """A hidden layer; the arrays are NumPy's or JAX's."""

    weight: Any
    """(i, h)"""
    bias: Any
    """(h,)"""
    gain: Any
    """(h,): scale of the layer norm."""
    shift: Any
    """(h,): offset of the layer norm."""


class Network(NamedTuple):
    """One action-value function Q(x), x = (s, a) scaled; also the shape of its gradients."""

    hidden: tuple[Layer, ...]
    weight: Any
    """(h,): of the output unit."""
    bias: Any
    """()"""


class Cache(NamedTuple):
    """What the backward pass needs of the forward one."""

    activations: tuple[Any, ...]
    """Inputs and the hidden layers' outputs: (m, i), (m, h), …"""
    normed: tuple[Any, ...]
    """Hidden layers after standardisation: (m, h), …"""
    inverse_deviations: tuple[Any, ...]
    """(m, 1), …"""
    values: Any
    """Q (m,)"""


def forward(network: Network, inputs: Any, masks: Any, xp: ModuleType) -> Cache:
    """Q of (m, i) inputs; `masks` are (m, h) dropout factors, one per hidden layer, or None for predictions."""
    activations, normed, inverse_deviations = [inputs], [], []
    for place, layer in enumerate(network.hidden):
        linear = activations[-1] @ layer.weight + layer.bias
        if masks is not None:
            linear = linear * masks[place]
        mean = linear.mean(axis=1, keepdims=True)
        # E[z²] − E[z]² needs one pass less than the centred form; means are small here, so it loses no digits that matter.
        variance = xp.maximum((linear * linear).mean(axis=1, keepdims=True) - mean * mean, 0.0)
        inverse = 1.0 / xp.sqrt(variance + NORM_FLOOR)
        normed.append((linear - mean) * inverse)
        inverse_deviations.append(inverse)
        activations.append(xp.maximum(normed[-1] * layer.gain + layer.shift, 0.0))
    values = xp.tanh(activations[-1] @ network.weight + network.bias)
    return Cache(tuple(activations), tuple(normed), tuple(inverse_deviations), values)


def input_gradients(network: Network, cache: Cache, xp: ModuleType) -> Any:
    """∂Q/∂x of every row, without dropout: (m, i)."""
    cotangent = (1.0 - cache.values * cache.values)[:, None] * network.weight
    for place in range(len(network.hidden) - 1, -1, -1):
        _, linear = through_norm(network.hidden[place], cache, place, cotangent, xp)
        cotangent = linear @ network.hidden[place].weight.T
    return cotangent


def through_norm(layer: Layer, cache: Cache, place: int, cotangent: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Pull a cotangent (m, h) of a hidden layer's output back through ReLU, then through the layer norm."""
    normed, inverse = cache.normed[place], cache.inverse_deviations[place]
    active = xp.where(cache.activations[place + 1] > 0, cotangent, xp.zeros_like(cotangent))
    share = layer.gain / np.float32(layer.gain.shape[0])
    along = ((active * normed) @ share)[:, None]
    return active, (active * layer.gain - (active @ share)[:, None] - normed * along) * inverse


def draw_network(inputs: int, width: int, depth: int, rng: np.random.Generator) -> Network:
    """Xavier-uniform weights, zero biases, neutral layer norms."""

    def uniform(fan_in: int, fan_out: int) -> NDArray[np.float32]:
        bound = np.sqrt(6.0 / (fan_in + fan_out))
        return rng.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32)

    zeros, ones = np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)
    sizes = [inputs, *[width] * depth]
    hidden = tuple(Layer(uniform(i, o), zeros, ones, zeros) for i, o in pairwise(sizes))
    return Network(hidden, uniform(width, 1)[:, 0], np.zeros((), dtype=np.float32))


def flatten(network: Network) -> NDArray[np.float32]:
    """All weights as one vector."""
    parts = [part for layer in network.hidden for part in layer] + [network.weight, network.bias]
    return np.concatenate([np.asarray(part, dtype=np.float32).reshape(-1) for part in parts])


def unflatten(vector: NDArray[np.float32], inputs: int, width: int, depth: int) -> Network:
    """The network whose weights are views of `vector`, in the order of `flatten`."""
    layers, start = [], 0
    for size in [inputs, *[width] * (depth - 1)]:
        cuts = np.cumsum([start, size * width, width, width, width])
        weight, bias, gain, shift = (vector[low:high] for low, high in pairwise(cuts))
        layers.append(Layer(weight.reshape(size, width), bias, gain, shift))
        start = int(cuts[-1])
    return Network(tuple(layers), vector[start : start + width], vector[start + width :].reshape(()))
