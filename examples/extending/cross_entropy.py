"""A strategy of populations: the cross-entropy method."""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.strategies.base import Strategy


@dataclass
class Gaussian:
    """What the strategy remembers: mean and standard deviation of every parameter, both (d,)."""

    mean: Array
    stds: Array


@dataclass(frozen=True)
class CrossEntropy(Strategy):
    """A Gaussian is fitted to the best of every generation."""

    population: int = setting(12, "candidates per generation", common=True)
    best: int = setting(4, "of which so many are kept", common=True)
    std: float = setting(0.5, "first standard deviation of every parameter")
    floor: float = setting(0.02, "standard deviations never fall below this")

    def __post_init__(self) -> None:
        require(2 <= self.best <= self.population, "need 2 <= best <= population")
        require(self.std > 0 and self.floor > 0, "std and floor must be positive")

    def start(self, mean: Array, rng: np.random.Generator) -> Gaussian:
        return Gaussian(mean, np.full_like(mean, self.std))

    def ask(self, memory: Gaussian, rng: np.random.Generator) -> Array:
        return memory.mean + memory.stds * rng.standard_normal((self.population, len(memory.mean)))

    def tell(self, memory: Gaussian, points: Array, values: Array, rng: np.random.Generator) -> Gaussian:
        kept = points[np.argsort(-values)[: self.best]]
        return Gaussian(kept.mean(axis=0), np.maximum(kept.std(axis=0), self.floor))

    def current(self, memory: Gaussian) -> Array:
        return memory.mean
