"""What the tests of strategies share: a loop over generations on a plain function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from abps.arrays import Array
from abps.seeding import generator
from abps.strategies.base import Strategy


def maximise(
    strategy: Strategy,
    function: Callable[[Array], Array],
    start: Array,
    generations: int,
    *,
    seed: int = 0,
) -> tuple[Any, list[Array], list[Array]]:
    """The last memory, and the points and values of every generation."""
    memory, asked, told = strategy.start(start, generator(seed, "start")), [], []
    for number in range(generations):
        points = strategy.ask(memory, generator(seed, "generation", number))
        values = function(points)
        memory = strategy.tell(memory, points, values, generator(seed, "generation", number))
        asked.append(points)
        told.append(values)
    return memory, asked, told


@pytest.fixture(scope="session")
def climb() -> Callable[..., tuple[Any, list[Array], list[Array]]]:
    return maximise


@pytest.fixture(scope="session")
def hill() -> Callable[[Array], Array]:
    """An elongated quadratic with its maximum, zero, at (1, 1, …)."""

    def function(points: Array) -> Array:
        return -np.sum(np.geomspace(1.0, 30.0, points.shape[1]) * np.square(points - 1.0), axis=1)

    return function
