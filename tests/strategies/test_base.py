"""What holds for every strategy of the registry, and the weights by rank."""

from typing import Any

import numpy as np
import pytest

from abps.registry import KINDS, find
from abps.seeding import generator
from abps.strategies.base import default_population, weights_by_rank
from abps.testing import check_strategy

EVERY = pytest.mark.parametrize("kind", list(KINDS["strategy"]))


@EVERY
@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_it_keeps_the_contract(kind: str, dimension: int) -> None:
    check_strategy(find("strategy", kind)(), dimension)


@EVERY
def test_it_finds_the_maximum_of_a_plain_function(kind: str, climb: Any, hill: Any) -> None:
    """From a value of −44; a step that goes the wrong way would make it lower."""
    strategy = find("strategy", kind)()
    memory, _, _ = climb(strategy, hill, np.zeros(4), 120)
    assert hill(np.zeros((1, 4)))[0] < -40.0
    assert hill(strategy.current(memory)[None])[0] > -0.5
    downhill, _, _ = climb(strategy, lambda points: -hill(points), np.zeros(4), 20)
    assert hill(strategy.current(downhill)[None])[0] < -100.0  # The control.


@EVERY
def test_only_the_order_of_the_values_counts(kind: str, climb: Any, hill: Any) -> None:
    """The same points for f and for f³, which has the same order."""
    strategy = find("strategy", kind)()
    one, other = (climb(strategy, f, np.zeros(3), 6)[1] for f in (hill, lambda points: hill(points) ** 3))
    same = [np.array_equal(a, b) for a, b in zip(one, other, strict=True)]
    assert all(same)


def global_state() -> bytes:
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1].tobytes()


@EVERY
def test_the_seed_decides_and_numpys_global_state_does_not(kind: str, climb: Any, hill: Any) -> None:
    strategy = find("strategy", kind)()
    np.random.seed(1)  # noqa: NPY002
    state = global_state()
    first = climb(strategy, hill, np.zeros(3), 3, seed=1)[1][-1]
    assert global_state() == state
    np.random.seed(2)  # noqa: NPY002
    assert np.array_equal(first, climb(strategy, hill, np.zeros(3), 3, seed=1)[1][-1])
    assert not np.array_equal(first, climb(strategy, hill, np.zeros(3), 3, seed=2)[1][-1])


@EVERY
def test_a_flat_generation_is_survived(kind: str, climb: Any) -> None:
    strategy = find("strategy", kind)()
    memory, asked, _ = climb(strategy, lambda points: np.zeros(len(points)), np.zeros(3), 20)
    assert np.all(np.isfinite(asked[-1]))
    assert np.all(np.isfinite(strategy.current(memory)))


@pytest.mark.parametrize("dimension", [1, 5, 100])
def test_the_default_population_is_pycmas(dimension: int) -> None:
    cma = pytest.importorskip("cma")
    assert default_population(dimension) == cma.CMAEvolutionStrategy(np.zeros(dimension), 1, {"verbose": -9}).popsize


def test_weights_by_rank_by_hand() -> None:
    weights = np.array([5.0, 3.0, 1.0, 0.0])
    assert np.array_equal(weights_by_rank(weights, np.array([2.0, 9.0, -1.0, 3.0])), [1.0, 5.0, 0.0, 3.0])
    # The two best are equal and share 5 and 3.
    assert np.array_equal(weights_by_rank(weights, np.array([9.0, 9.0, -1.0, 3.0])), [4.0, 4.0, 0.0, 1.0])
    assert np.array_equal(weights_by_rank(weights, np.full(4, 7.0)), np.full(4, 2.25))


def test_weights_by_rank_against_a_naive_twin() -> None:
    rng = generator(0, "ranks")
    for _ in range(20):
        values = rng.integers(0, 4, 9).astype(float)
        weights = np.sort(rng.standard_normal(9))[::-1]
        order = sorted(range(9), key=lambda i: -values[i])
        expected = [np.mean([weights[order.index(j)] for j in range(9) if values[j] == values[i]]) for i in range(9)]
        assert np.allclose(weights_by_rank(weights, values), expected)
