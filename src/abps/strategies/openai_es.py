"""The evolution strategy of Salimans et al. (2017), known as OpenAI-ES: a finite-difference gradient and Adam.

Perturbations come in pairs ±ε, values count by their centred ranks, and a weight decay pulls the mean to zero. The
spread of the perturbations never changes. Shapes: d parameters, m = 2n points.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.strategies.base import Strategy, default_population, weights_by_rank

__all__ = ["OpenAiEs", "OpenAiEsMemory"]

EPSILON = 1e-8
"""Adam's ε."""


@dataclass
class OpenAiEsMemory:
    """The mean, and Adam's moments of its gradient, all (d,)."""

    mean: Array
    first_moment: Array
    second_moment: Array
    steps: int = 0


@dataclass(frozen=True)
class OpenAiEs(Strategy):
    """OpenAI-ES (Salimans et al. 2017): mirrored Gaussian perturbations, centred ranks, Adam, weight decay."""

    population: int = setting(0, "candidates per generation, even; 0: 4 + 3 ln d", common=True)
    std: float = setting(0.2, "σ: standard deviation of a perturbation", common=True)
    step: float = setting(0.1, "α: Adam's step size", common=True)
    momentum: float = setting(0.9, "β₁: decay of Adam's mean of gradients")
    scaling: float = setting(0.999, "β₂: decay of Adam's mean of squared gradients")
    weight_decay: float = setting(0.005, "pulls the mean to zero: subtracted times the mean from the gradient")

    def __post_init__(self) -> None:
        require(self.population >= 0 and self.population % 2 == 0, f"population must be even, got {self.population}")
        require(self.std > 0 and self.step > 0, "std and step must be positive")
        require(0 <= self.momentum < 1 and 0 <= self.scaling < 1, "momentum and scaling must be in [0, 1)")
        require(self.weight_decay >= 0, "weight_decay must not be negative")

    def start(self, mean: Array, rng: np.random.Generator) -> OpenAiEsMemory:
        return OpenAiEsMemory(mean, np.zeros_like(mean), np.zeros_like(mean))

    def ask(self, memory: OpenAiEsMemory, rng: np.random.Generator) -> Array:
        return memory.mean + self.std * self._perturbations(memory, rng)

    def tell(self, memory: OpenAiEsMemory, points: Array, values: Array, rng: np.random.Generator) -> OpenAiEsMemory:
        ranks = weights_by_rank(np.linspace(0.5, -0.5, len(values)), values)
        gradient = ranks @ self._perturbations(memory, rng) / len(values)
        gradient -= self.weight_decay * memory.mean
        steps = memory.steps + 1
        first = self.momentum * memory.first_moment + (1.0 - self.momentum) * gradient
        second = self.scaling * memory.second_moment + (1.0 - self.scaling) * gradient**2
        direction = first / (1.0 - self.momentum**steps) / (np.sqrt(second / (1.0 - self.scaling**steps)) + EPSILON)
        return OpenAiEsMemory(memory.mean + self.step * direction, first, second, steps)

    def current(self, memory: OpenAiEsMemory) -> Array:
        return memory.mean

    def _perturbations(self, memory: OpenAiEsMemory, rng: np.random.Generator) -> Array:
        """ε and −ε in turn, (m, d)."""
        size = len(memory.mean)
        pairs = (self.population or default_population(size) + 1) // 2
        return np.repeat(rng.standard_normal((pairs, size)), 2, axis=0) * np.tile([[1.0], [-1.0]], (pairs, 1))
