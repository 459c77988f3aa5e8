"""Policies that are linear on random features of the inputs: a = centre + half · tanh(W φ(s̃)).

    fourier:  φ_k = √(2/D) sin(ω_k·s̃ + β_k),    ω_k ~ N(0, 1)/(ℓ_k √s),  β_k uniform        (Rahimi & Recht 2007)
    radial:   φ_k = √(2/D) exp(−|s̃ − c_k|² / (2 s ℓ_k²)),    c_k ~ N(0, 1)

with lengthscales ℓ_k drawn evenly in the logarithm between `shortest` and `longest`, followed by the inputs s̃
themselves (`linear`) and a one (`bias`). The √s makes a lengthscale mean the same for few and for many sensors. The
features are drawn once, from `seed`, and are no parameters: what is learned is W, zero at the start. Shapes as in
`linear_output`; D random features.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from abps.arrays import Array
from abps.policies.layers import Layer, Layers, forward
from abps.policies.linear_output import LinearOutput, check_drawn, checked_array, output_layer, with_ones
from abps.seeding import generator
from abps.settings import require, setting
from abps.tasks.spec import TaskSpec

__all__ = ["Fourier", "Radial"]


@dataclass(frozen=True)
class _RandomFeatures(LinearOutput):
    """What both classes share; abstract."""

    features: int = setting(64, "D: random features", common=True)
    shortest: float = setting(0.5, "shortest lengthscale of a feature, in spreads of the inputs", common=True)
    longest: float = setting(4.0, "longest lengthscale of a feature, in spreads of the inputs", common=True)
    linear: bool = setting(True, "the inputs themselves are features, too")
    bias: bool = setting(True, "a constant is a feature, too")
    standardise: bool = setting(
        True, "where observations are raw: subtract the mean of the first episodes and divide by their spread"
    )
    seed: int = setting(0, "names the random features")

    def __post_init__(self) -> None:
        require(self.features >= 1 and self.seed >= 0, "need features >= 1 and seed >= 0")
        require(0 < self.shortest <= self.longest, "need 0 < shortest <= longest")

    @abstractmethod
    def _drawn(self, spec: TaskSpec) -> dict[str, Array]:
        """The random numbers, by name."""

    @abstractmethod
    def _hidden(self, spec: TaskSpec) -> tuple[Layer, ...]:
        """Layers from the inputs (s,) to the random features less their amplitude (D,), and the inputs if `linear`."""

    def basis_size(self, spec: TaskSpec) -> int:
        return self.features + self.linear * spec.observation_dim + self.bias

    def basis(self, spec: TaskSpec, inputs: Array) -> Array:
        columns = forward(_hidden_layers(self, spec), inputs)[-1]
        columns[:, : self.features] *= self._amplitude
        return with_ones(columns, self.bias)

    def prior_metric(self, spec: TaskSpec, inputs: Array, weights: Array) -> Array:
        """See `PriorMetric`: the metric of the initial policy, as if the random features were independent.

        Neighbouring features are nearly equal on all inputs; without this, the difference of their weights would have
        hardly any length, and could grow until the policy is wild wherever it has not been yet.
        """
        blocks = self.metric(spec, self.initial(spec), inputs, weights)
        diagonal = np.einsum("bii->bi", blocks).copy()
        blocks[:, : self.features, :] = 0.0
        blocks[:, :, : self.features] = 0.0
        np.einsum("bii->bi", blocks)[:] = diagonal
        return blocks

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        return {"output": self.matrix(spec, parameters), **self._drawn(spec)}

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        check_drawn(arrays, self._drawn(spec))
        return checked_array(arrays, "output", (spec.action_dim, self.basis_size(spec))).reshape(-1)

    def layers(self, spec: TaskSpec, parameters: Array) -> Layers:
        """See `Layered`."""
        matrix = self.matrix(spec, parameters).copy()
        matrix[:, : self.features] *= self._amplitude
        return Layers((*_hidden_layers(self, spec), output_layer(matrix, self.bias)), self.squash)

    @property
    def _amplitude(self) -> float:
        return float(np.sqrt(2.0 / self.features))

    def _random(self, spec: TaskSpec, name: str) -> tuple[np.random.Generator, Array]:
        """The stream of random numbers of a name, and the lengthscales (D,) as its first draw."""
        rng = generator(self.seed, "policy", name, spec.observation_dim, self.features)
        return rng, np.exp(rng.uniform(np.log(self.shortest), np.log(self.longest), self.features))

    def _passed(self, spec: TaskSpec) -> Array:
        """Rows that pass the inputs on: (s, s), or none."""
        return np.eye(spec.observation_dim)[: spec.observation_dim * self.linear]


@dataclass(frozen=True)
class Fourier(_RandomFeatures):
    """Linear on random waves of the inputs, then tanh."""

    def _drawn(self, spec: TaskSpec) -> dict[str, Array]:
        rng, lengths = self._random(spec, "fourier")
        size = spec.observation_dim
        frequencies = rng.standard_normal((self.features, size)) / (lengths[:, None] * np.sqrt(size))
        return {"frequencies": frequencies, "phases": rng.uniform(0.0, 2.0 * np.pi, self.features)}

    def _hidden(self, spec: TaskSpec) -> tuple[Layer, ...]:
        drawn, passed = self._drawn(spec), self._passed(spec)
        weights = np.concatenate([drawn["frequencies"], passed])
        bias = np.concatenate([drawn["phases"], np.zeros(len(passed))])
        return (Layer(weights, bias, "sin", plain=len(passed)),)


@dataclass(frozen=True)
class Radial(_RandomFeatures):
    """Linear on bumps around random places of the inputs, then tanh."""

    def _drawn(self, spec: TaskSpec) -> dict[str, Array]:
        rng, widths = self._random(spec, "radial")
        return {"centres": rng.standard_normal((self.features, spec.observation_dim)), "widths": widths}

    def _hidden(self, spec: TaskSpec) -> tuple[Layer, ...]:
        """−|s̃ − c|² is affine in the squares of the inputs and the inputs."""
        drawn, passed, size = self._drawn(spec), self._passed(spec), spec.observation_dim
        centres, half = drawn["centres"], 0.5 / (size * np.square(drawn["widths"]))[:, None]
        to_bumps = np.concatenate([np.tile(-half, (1, size)), 2.0 * half * centres], axis=1)
        to_inputs = np.concatenate([np.zeros_like(passed), passed], axis=1)
        bias = np.concatenate([-half[:, 0] * np.square(centres).sum(axis=1), np.zeros(len(passed))])
        squares = Layer(np.tile(np.eye(size), (2, 1)), np.zeros(2 * size), "square", plain=size)
        return squares, Layer(np.concatenate([to_bumps, to_inputs]), bias, "exp", plain=len(passed))


@lru_cache(maxsize=16)
def _hidden_layers(policy_class: _RandomFeatures, spec: TaskSpec) -> tuple[Layer, ...]:
    """The layers that never change, drawn once."""
    layers = policy_class._hidden(spec)  # pyright: ignore[reportPrivateUsage] - a cache of the class's own
    for layer in layers:
        layer.weights.flags.writeable = layer.bias.flags.writeable = False
    return layers
