"""A small network of tanh units as a policy.

    h₀ = s̃,    h_l = tanh(W_l h_{l−1} + b_l),    a = centre + half · tanh(W_L h_{L−1} + b_L)

At the start the hidden layers are random, drawn from `seed`, and the output layer is zero: the first action is the
centre, and the output layer has a slope from which everything else starts to matter. With `output_only` the hidden
layers stay as drawn: what is searched is then linear on random tanh features. Shapes as in `base`; o outputs and i
inputs of a layer. Parameters are layer after layer, and in a layer unit after unit: its weights, then its bias.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ShapeError
from abps.policies.base import PolicyClass
from abps.policies.layers import SQUASHES, Layer, Layers, forward
from abps.policies.linear_output import check_drawn, checked_array, row_blocks, with_ones
from abps.seeding import generator
from abps.settings import require, setting
from abps.tasks.spec import TaskSpec

__all__ = ["Mlp"]

T = TypeVar("T")

NUMBERS = 2_000_000
"""Numbers of a Jacobian that are held at once, at most."""
HIDDEN = 10.0
"""Hidden parameters count so much more beforehand than a first-order length says. Their effect is a product with the
output layer, which moves at the same time: with 1, random moves that should change the actions of a network of 16 units
on three inputs by 0.12 changed them by 0.29 (benchmarks/learning/nonlinear.md)."""


@dataclass(frozen=True)
class Mlp(PolicyClass):
    """A network of tanh units: hidden layers random at the start, output layer zero."""

    hidden: tuple[int, ...] = setting((16,), "units of every hidden layer", common=True)
    gain: float = setting(1.0, "standard deviation of a hidden unit's sum at the start, weights and bias apart")
    output_only: bool = setting(
        False, "search the output layer only: fewer parameters, and the hidden layers stay as they were drawn"
    )
    standardise: bool = setting(
        True, "where observations are raw: subtract the mean of the first episodes and divide by their spread"
    )
    seed: int = setting(0, "names the random weights of the hidden layers")

    squash: ClassVar[str] = "tanh"

    def __post_init__(self) -> None:
        require(bool(self.hidden) and min(self.hidden) >= 1, "hidden must be one or several sizes of at least 1")
        require(self.gain > 0 and self.seed >= 0, "need gain > 0 and seed >= 0")

    def initial(self, spec: TaskSpec) -> Array:
        return self._start(spec, np.zeros((spec.action_dim, self.hidden[-1])))

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        return SQUASHES[self.squash].actions(spec, forward(self._layers(spec, parameters), inputs)[-1])

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        backward = self._backward(spec, parameters, inputs, cotangents)
        return _joined([(np.swapaxes(deltas, -1, -2) @ before, deltas.sum(axis=-2)) for deltas, before in backward])

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        """One block: JᵀJ with a row of J per state and action; of an output layer alone, one block per action."""
        if self.output_only:
            outputs = forward(self._layers(spec, parameters), inputs)
            slopes = SQUASHES[self.squash].slopes(spec, outputs[-1])
            return row_blocks(spec, slopes, with_ones(outputs[-2], True), weights)
        total = np.zeros((parameters.size, parameters.size))
        for rows in self._jacobians(spec, parameters, inputs, weights):
            total += rows.T @ rows
        return total[None]

    def prior_metric(self, spec: TaskSpec, inputs: Array, weights: Array) -> Array:
        """See `PriorMetric`: the diagonal of the metric of a network with random hidden *and* output layers."""
        rng = generator(self.seed, "policy", "mlp-prior", spec.observation_dim, *self.hidden)
        signs = rng.choice([-1.0, 1.0], (spec.action_dim, self.hidden[-1]))
        typical = self._start(spec, signs / np.sqrt(self.hidden[-1]))
        jacobians = self._jacobians(spec, typical, inputs, weights)
        diagonal = sum((np.square(rows).sum(axis=0) for rows in jacobians), np.zeros(typical.size))
        diagonal[: -spec.action_dim * (self.hidden[-1] + 1)] *= HIDDEN
        blocks = spec.action_dim if self.output_only else 1
        return np.stack([np.diag(part) for part in np.split(diagonal, blocks)])

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        *hidden, output = self._layers(spec, parameters)
        arrays = {"output_weights": output.weights, "output_bias": output.bias}
        for number, layer in enumerate(hidden, 1):
            arrays |= {f"hidden_{number}_weights": layer.weights, f"hidden_{number}_bias": layer.bias}
        return arrays

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        start = self.to_arrays(spec, self.initial(spec))
        found = {name: checked_array(arrays, name, expected.shape) for name, expected in start.items()}
        if self.output_only:
            check_drawn(found, {name: value for name, value in start.items() if name.startswith("hidden")})
        names = [f"hidden_{number}" for number in range(1, len(self.hidden) + 1)] + ["output"]
        return _joined([(found[f"{n}_weights"], found[f"{n}_bias"]) for n in self._searched(names)])

    def layers(self, spec: TaskSpec, parameters: Array) -> Layers:
        """See `Layered`."""
        return Layers(tuple(self._layers(spec, parameters)), self.squash)

    def _start(self, spec: TaskSpec, output: Array) -> Array:
        """Parameters (d,) with the hidden layers as drawn, and an output layer without bias."""
        last = Layer(output, np.zeros(spec.action_dim))
        return _joined([(layer.weights, layer.bias) for layer in self._searched([*_drawn(self, spec), last])])

    def _searched(self, layers: Sequence[T]) -> Sequence[T]:
        """Of something per layer, what belongs to the layers that have parameters."""
        return layers[-1:] if self.output_only else layers

    def _layers(self, spec: TaskSpec, parameters: Array) -> list[Layer]:
        """The layers of one policy, or of n policies with n in front of every shape."""
        sizes = [spec.observation_dim, *self.hidden, spec.action_dim]
        shapes = self._searched(list(zip(sizes[1:], sizes[:-1], strict=True)))
        ends = np.cumsum([o * (i + 1) for o, i in shapes])
        if parameters.ndim not in (1, 2) or parameters.shape[-1] != ends[-1]:
            raise ShapeError(
                f"parameters have shape {parameters.shape}; this policy has {ends[-1]} "
                f"(layers of {', '.join(map(str, sizes))})"
            )
        parts, several = np.split(parameters, ends[:-1], axis=-1), parameters.shape[:-1]
        units = [part.reshape(*several, o, i + 1) for part, (o, i) in zip(parts, shapes, strict=True)]
        found = [Layer(unit[..., :-1], unit[..., -1], "tanh") for unit in units]
        found[-1] = found[-1]._replace(function="identity")
        return [*_drawn(self, spec), *found] if self.output_only else found

    def _backward(
        self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]
    ) -> list[tuple[Array, Array]]:
        """Of every searched layer the cotangents of its sums (…, m, o), and what went into it (m, i)."""
        layers = self._layers(spec, parameters)
        outputs = forward(layers, inputs)
        deltas = cotangents * SQUASHES[self.squash].slopes(spec, outputs[-1])
        found = [(deltas, [inputs, *outputs][-2])]
        for number in reversed(range(len(layers) - 1)):
            deltas = (deltas @ layers[number + 1].weights) * (1.0 - np.square(outputs[number]))
            found.append((deltas, [inputs, *outputs][number]))
        return list(self._searched(found[::-1]))

    def _jacobians(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Iterator[Array]:
        """Rows (…, d) of J with JᵀJ the metric, a few states at a time."""
        count, a = parameters.size, spec.action_dim
        size = max(1, NUMBERS // (count * a))
        for start in range(0, len(inputs), size):
            part = slice(start, start + size)
            scales = np.sqrt(weights[part] / a)[:, None] / spec.action_half  # (m, a)
            backward = self._backward(spec, parameters, inputs[part], np.eye(a)[:, None, :] * scales)
            yield _joined([(d[..., None] * before[:, None, :], d) for d, before in backward]).reshape(-1, count)


def _joined(pairs: Sequence[tuple[Array, Array]]) -> Array:
    """Weights (…, o, i) and biases (…, o) of layers as parameters (…, d)."""
    several = pairs[0][1].shape[:-1]
    units = [np.concatenate([weights, bias[..., None]], axis=-1) for weights, bias in pairs]
    return np.concatenate([unit.reshape(*several, -1) for unit in units], axis=-1)


@lru_cache(maxsize=16)
def _drawn(policy_class: Mlp, spec: TaskSpec) -> tuple[Layer, ...]:
    """The hidden layers of the initial policy."""
    rng = generator(policy_class.seed, "policy", "mlp", spec.observation_dim, *policy_class.hidden)
    layers, size = [], spec.observation_dim
    for units in policy_class.hidden:
        weights = policy_class.gain * rng.standard_normal((units, size)) / np.sqrt(size)
        layers.append(Layer(weights, policy_class.gain * rng.standard_normal(units), "tanh"))
        size = units
    return tuple(layers)
