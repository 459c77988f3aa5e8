"""Whole proposals against naive twins that share no line with the package: confidence.py, distribution.py, trees.py."""

from typing import Any

import box_twins as twins
import numpy as np
import pytest

from abps.model.kernel import Hyper
from abps.optimisers.base import Measured
from abps.optimisers.confidence import ConfidenceMemory, ConfidenceRegion
from abps.optimisers.distribution import DistributionMemory, SearchDistribution, optimum_moments
from abps.optimisers.surrogate import Scaled, regression
from abps.optimisers.trees import ZOOMS, RandomTrees, TreesMemory, random_forest
from abps.settings import replace


def problem(d: int, n: int, seed: int, spread: float = 0.12) -> tuple[Measured, Hyper]:
    """Values of a hill that lies outside of where they were measured, one of them far below the others."""
    rng = np.random.default_rng(seed)
    points = np.clip(0.45 + spread * rng.standard_normal((n, d)), 0, 1)
    values = -np.square(points - 0.8).sum(axis=1) + 0.05 * rng.standard_normal(n)
    values[0] -= 20.0
    hyper = Hyper(rng.uniform(0.2, 0.4, d), 1.3, 0.15, 0.4, scale_by_dimension=False)
    return Measured(points, values, np.zeros(n, dtype=np.int64)), hyper


@pytest.mark.parametrize(("d", "count", "seed", "binds"), [(1, 401, 0, True), (1, 401, 3, False), (2, 41, 1, True)])
def test_confidence_region_proposes_the_best_point_of_the_twin_s_region(
    d: int, count: int, seed: int, binds: bool
) -> None:
    data, hyper = problem(d, 6, seed)
    optimiser = ConfidenceRegion()
    process = twins.DenseProcess(data.points, data.values, hyper)
    point = optimiser.propose(ConfidenceMemory(hyper), data, np.random.default_rng(seed)).points[0]
    mine = twins.confident_bound(process, point, optimiser.beta, optimiser.gamma * (1 + 1e-9))
    assert mine > twins.best_confident_bound(process, d, optimiser.beta, optimiser.gamma, count) - 2e-3
    # Where the constraint binds, a twin with a narrower region would not accept the point.
    assert (twins.confident_bound(process, point, optimiser.beta, 0.95 * optimiser.gamma) == -np.inf) == binds


@pytest.mark.parametrize(("d", "edges", "seed"), [(2, 1.0, 0), (3, 0.4, 1), (3, 1.0, 2)])
def test_random_trees_propose_what_trying_all_finds(d: int, edges: float, seed: int) -> None:
    data, hyper = problem(d, 7, seed, spread=0.3)
    optimiser = RandomTrees(grid=4, edges=edges)
    forest = random_forest(d, max(int(edges * d), 1), np.random.default_rng(seed))
    alone = [(vertex,) for vertex in range(d) if all(vertex not in edge for edge in forest)]
    process = twins.DenseProcess(data.points, data.values, hyper, [*forest, *alone])
    weight = optimiser.exploration * np.log(2 * 7)
    proposed = optimiser.propose(TreesMemory(hyper, 7), data, np.random.default_rng(seed)).points[0]
    np.testing.assert_allclose(proposed, twins.best_of_zoomed_grids(process, d, weight, 4, ZOOMS), atol=1e-12)
    # Another weight of the spread is another point: the twin notices.
    bolder = replace(optimiser, exploration=20.0)
    other = bolder.propose(TreesMemory(hyper, 7), data, np.random.default_rng(seed)).points[0]
    assert not np.allclose(other, proposed)


def test_the_search_distribution_s_shares_are_those_of_drawn_functions() -> None:
    """The moments of the optimum over the same candidates, with functions drawn in another way."""
    data, hyper = problem(2, 6, 0)
    candidates = np.clip(np.random.default_rng(1).normal([0.5, 0.6], 0.2, (25, 2)), 0, 1)
    model = regression(SearchDistribution().gp, Scaled(data), hyper)
    covariance, count = 0.04 * np.eye(2), 8000
    mean, spread = optimum_moments(candidates, model.sample(candidates, np.random.default_rng(2), count), covariance)
    shares = twins.optimum_shares(
        twins.DenseProcess(data.points, data.values, hyper), candidates, count, np.random.default_rng(3)
    )
    centre = sum(share * point for share, point in zip(shares, candidates, strict=True))
    around = sum(
        share * np.outer(point - centre, point - centre) for share, point in zip(shares, candidates, strict=True)
    )
    size = 1 / sum(share**2 for share in shares)
    error = 4 * np.sqrt(2 * np.diag(around) / count)  # Four standard errors of a difference of two means.
    assert (np.abs(mean - centre) < error).all()
    np.testing.assert_allclose(spread, (2 * covariance + size * around) / (2 + size), rtol=0.1, atol=1e-3)
    wrong = twins.DenseProcess(data.points, -data.values, hyper)
    turned = twins.optimum_shares(wrong, candidates, 500, np.random.default_rng(3)) @ candidates
    assert (np.abs(turned - mean) > 4 * error).any()


def test_the_search_distribution_proposes_the_best_candidate_of_a_drawn_function() -> None:
    """How often each candidate is proposed is how often it is the best of the twin's functions."""
    data, hyper = problem(1, 5, 2)
    optimiser: Any = SearchDistribution(candidates=4, batch=1)
    process = twins.DenseProcess(data.points, data.values, hyper)
    memory = DistributionMemory(np.array([0.5]), np.array([[0.04]]), hyper)
    hits, expected, rounds = 0, 0.0, 250
    for number in range(rounds):
        # The same numbers give the same candidates, which are drawn first.
        candidates = optimiser._drawn(memory, 4, np.random.default_rng(number))
        chosen = optimiser.propose(memory, data, np.random.default_rng(number)).points[0]
        shares = twins.optimum_shares(process, candidates, 60, np.random.default_rng(number + 1000))
        first = int(np.argmax(candidates[:, 0]))
        hits, expected = hits + bool(chosen[0] == candidates[first, 0]), expected + shares[first]
    assert abs(hits - expected) < 4 * np.sqrt(0.25 * rounds)
    assert rounds * 0.1 < expected < rounds * 0.9
