"""The contract of a strategy: ask for a population of points, tell their values, on plain arrays.

A strategy knows nothing of policies or episodes, so that it can be tried on any function. We maximise. It is a pure
function of its memory, of what it is told, and of a random generator; its memory is a dataclass that the search keeps
and saves. Shapes: d parameters, m points of a generation.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from abps.arrays import Array
from abps.settings import Part

__all__ = ["Strategy", "default_population", "weights_by_rank"]


class Strategy(Part, ABC):
    """Draws populations, and learns from their values.

    `ask` and `tell` of one generation are given generators that start from the same numbers, so that `tell` can draw
    again what `ask` drew instead of remembering it.
    """

    family: ClassVar[str] = "strategy"

    @abstractmethod
    def start(self, mean: Array, rng: np.random.Generator) -> Any:
        """The first memory: a dataclass of arrays and scalars, for a search around `mean` (d,)."""

    @abstractmethod
    def ask(self, memory: Any, rng: np.random.Generator) -> Array:
        """The points of the next generation, (m, d); the same memory and numbers give the same points."""

    @abstractmethod
    def tell(self, memory: Any, points: Array, values: Array, rng: np.random.Generator) -> Any:
        """The memory after a generation; the given one is left as it is.

        Args:
            memory: what the generation was asked with.
            points: (m, d), as `ask` gave them.
            values: (m,), finite, larger is better. A point that could not be evaluated has the lowest value of the
                generation; a generation of which nothing worked is never told.
            rng: the numbers that `ask` had.
        """

    @abstractmethod
    def current(self, memory: Any) -> Array:
        """The point (d,) that the strategy would be judged by now: not the luckiest one, but the one it believes in."""


def default_population(dimension: int) -> int:
    """4 + ⌊3 ln d⌋, the usual number of candidates of an evolution strategy."""
    return 4 + int(3.0 * np.log(dimension))


def weights_by_rank(weights: Array, values: Array) -> Array:
    """Give each value the weight of its rank; equal values share the mean of their weights.

    Args:
        weights: of the best, the second best, … (m,).
        values: (m,), larger is better.

    Returns:
        (m,); constant when all values are equal.
    """
    order = np.argsort(-values, kind="stable")
    _, group, sizes = np.unique(-values[order], return_inverse=True, return_counts=True)
    shared = np.bincount(group, weights=weights) / sizes
    found = np.empty_like(weights)
    found[order] = shared[group]
    return found
