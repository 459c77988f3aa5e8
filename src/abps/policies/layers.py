"""A policy as layers: affine maps with a function after each, then a squashing into the action bounds.

    x₀ = (observation − mean) / std,    x_l = f_l(W_l x_{l−1} + b_l),    a = squash(W_L x_{L−1} + b_L)

What every policy class of the package can be written as; exporters and the control loop of a robot use nothing else. A
linear policy has one layer. Shapes: o outputs and i inputs of a layer, k knots, s observation size, a action size.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.normaliser import Normaliser
from abps.policies.path import ParameterPath
from abps.tasks.spec import TaskSpec

__all__ = ["FUNCTIONS", "SQUASHES", "Layer", "Layers", "Squash", "controller", "forward", "layer_arrays"]
__all__ += ["path_controller", "stacked"]

FUNCTIONS: dict[str, Any] = {
    "identity": None,
    "tanh": np.tanh,
    "sin": np.sin,
    "exp": np.exp,
    "square": np.square,
}
"""What a layer may do with its outputs, by name; numpy's functions, which can work in place."""


class Layer(NamedTuple):
    """One affine map and the function of its outputs."""

    weights: Array
    """(o, i)"""
    bias: Array
    """(o,)"""
    function: str = "identity"
    """A name of `FUNCTIONS`."""
    plain: int = 0
    """So many of the last outputs are left as they are."""


class Squash(NamedTuple):
    """How the last layer's outputs (…, a) become actions inside their bounds."""

    actions: Callable[[TaskSpec, Array], Array]
    slopes: Callable[[TaskSpec, Array], Array]
    """∂action/∂output, (…, a)."""


def _clip_slopes(spec: TaskSpec, latent: Array) -> Array:
    wanted = spec.action_centre + latent
    return ((wanted > spec.action_low) & (wanted < spec.action_high)).astype(np.float64)


SQUASHES = {
    "tanh": Squash(
        lambda spec, latent: spec.action_centre + spec.action_half * np.tanh(latent),
        lambda spec, latent: spec.action_half * (1.0 - np.square(np.tanh(latent))),
    ),
    "clip": Squash(
        lambda spec, latent: np.clip(spec.action_centre + latent, spec.action_low, spec.action_high), _clip_slopes
    ),
}


class Layers(NamedTuple):
    """A policy as its layers; the last one has no function but the squashing."""

    layers: tuple[Layer, ...]
    squash: str
    """A name of `SQUASHES`."""


def forward(layers: Sequence[Layer], inputs: Array) -> list[Array]:
    """The outputs of every layer for many inputs: (m, i) → (m, o) each, or (n, m, o) with weights of n policies."""
    outputs: list[Array] = []
    for layer in layers:
        inputs = inputs @ np.swapaxes(layer.weights, -1, -2) + layer.bias[..., None, :]
        function, active = _function(layer)
        if function is not None:
            head = inputs[..., :active]
            function(head, head)
        outputs.append(inputs)
    return outputs


def controller(layers: Layers, spec: TaskSpec, normaliser: Normaliser) -> Callable[[NDArray[np.floating]], Array]:
    """A function from one raw observation (s,) to one action (a,)."""
    mean, std, act = normaliser.mean, normaliser.std, SQUASHES[layers.squash].actions
    steps = [(layer.weights.dot, layer.bias, *_function(layer)) for layer in layers.layers]

    def control(observation: NDArray[np.floating]) -> Array:
        values = (observation - mean) / std
        for times, bias, function, active in steps:
            values = times(values)
            values += bias
            if function is not None:
                head = values[:active]
                function(head, head)
        return act(spec, values)

    return control


def path_controller(
    knots: Sequence[Layers], path: ParameterPath, spec: TaskSpec, normaliser: Normaliser
) -> Callable[[NDArray[np.floating]], Array]:
    """The same for parameters that move along a path, from the layers of its knots; it counts its calls."""
    mean, std, act = normaliser.mean, normaliser.std, SQUASHES[knots[0].squash].actions
    stacks = [(*stacked([item.layers[k] for item in knots]), *_function(layer)) for k, layer in enumerate(knots[0][0])]
    step = 0

    def control(observation: NDArray[np.floating]) -> Array:
        nonlocal step
        first, second, share = path.place(step)
        step += 1
        values = (observation - mean) / std
        for weights, bias, function, active in stacks:
            values = _between(weights, first, second, share, 2).dot(values) + _between(bias, first, second, share, 1)
            if function is not None:
                head = values[:active]
                function(head, head)
        return act(spec, values)

    return control


def stacked(layers: Sequence[Layer]) -> tuple[Array, Array]:
    """Weights and biases of one layer at k knots: (k, o, i) and (k, o), or (o, i) and (o,) where none moves."""
    weights, bias = (np.stack([layer[part] for layer in layers]) for part in (0, 1))
    still = np.array_equal(weights, np.broadcast_to(weights[:1], weights.shape))
    if still and np.array_equal(bias, np.broadcast_to(bias[:1], bias.shape)):
        return weights[0], bias[0]
    return weights, bias


def layer_arrays(knots: Sequence[Layers]) -> dict[str, Any]:
    """The layers of a policy as named plain arrays for a robot that knows numpy only; of all knots where they move."""
    arrays: dict[str, Any] = {"layer_count": np.array(len(knots[0].layers)), "layer_squash": np.array(knots[0].squash)}
    for number, layer in enumerate(knots[0].layers):
        weights, bias = stacked([item.layers[number] for item in knots])
        parts = {"weights": weights, "bias": bias, "function": np.array(layer.function), "plain": np.array(layer.plain)}
        arrays |= {f"layer_{number}_{name}": value for name, value in parts.items()}
    return arrays


def _function(layer: Layer) -> tuple[Any, int]:
    return FUNCTIONS[layer.function], layer.bias.shape[-1] - layer.plain


def _between(values: Array, first: int, second: int, share: float, rank: int) -> Array:
    """What lies between two knots of an array that moves; one that rests has no axis of knots."""
    return values if values.ndim == rank else (1.0 - share) * values[first] + share * values[second]
