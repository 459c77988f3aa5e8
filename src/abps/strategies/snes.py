"""Separable natural evolution strategies (Schaul, Glasmachers & Schmidhuber 2011).

A Gaussian with one standard deviation per parameter follows the natural gradient of the expected utility. Of the
modern evolution strategies it learns least about the shape of the function, d numbers instead of d², and therefore
fastest: the learning rate of its spreads falls as ln d / √d, that of a full covariance matrix (xNES) as ln d / d^1.5.
Shapes: d parameters, m points.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.strategies.base import Strategy, default_population, weights_by_rank

__all__ = ["Snes", "SnesMemory", "utilities"]


def utilities(count: int) -> Array:
    """The utility of each rank, the best first, (m,): max(0, ln(m/2 + 1) − ln rank), scaled to sum 1, less 1/m."""
    raw = np.maximum(0.0, np.log(count / 2.0 + 1.0) - np.log(np.arange(1, count + 1)))
    return raw / raw.sum() - 1.0 / count


@dataclass
class SnesMemory:
    """The Gaussian: its mean μ and standard deviations σ, both (d,)."""

    mean: Array
    stds: Array


@dataclass(frozen=True)
class Snes(Strategy):
    """SNES (Schaul et al. 2011): a Gaussian with one standard deviation per parameter, moved by natural gradients."""

    population: int = setting(0, "candidates per generation; 0: 4 + 3 ln d", common=True)
    std: float = setting(0.5, "first standard deviation of every parameter", common=True)
    step: float = setting(1.0, "η_μ: learning rate of the mean", common=True)
    std_rate: float = setting(0.0, "η_σ: learning rate of the standard deviations; 0: (3 + ln d) / (5 √d)")

    def __post_init__(self) -> None:
        require(self.population == 0 or self.population >= 2, "population must be 0 or at least 2")
        require(self.std > 0 and self.step > 0, "std and step must be positive")
        require(self.std_rate >= 0, "std_rate must not be negative")

    def start(self, mean: Array, rng: np.random.Generator) -> SnesMemory:
        return SnesMemory(mean, np.full_like(mean, self.std))

    def ask(self, memory: SnesMemory, rng: np.random.Generator) -> Array:
        return memory.mean + memory.stds * self._normals(memory, rng)

    def tell(self, memory: SnesMemory, points: Array, values: Array, rng: np.random.Generator) -> SnesMemory:
        normals, size = self._normals(memory, rng), len(memory.mean)
        weights = weights_by_rank(utilities(len(values)), values)
        rate = self.std_rate or (3.0 + np.log(size)) / (5.0 * np.sqrt(size))
        return SnesMemory(
            memory.mean + self.step * memory.stds * (weights @ normals),
            memory.stds * np.exp(0.5 * rate * (weights @ (normals**2 - 1.0))),
        )

    def current(self, memory: SnesMemory) -> Array:
        return memory.mean

    def _normals(self, memory: SnesMemory, rng: np.random.Generator) -> Array:
        size = len(memory.mean)
        return rng.standard_normal((self.population or default_population(size), size))
