"""The search distribution: its bounded update against a numerical optimiser, and where it says the optimum is."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from abps.optimisers.base import maximise
from abps.optimisers.distribution import SearchDistribution, bounded_update, optimum_moments


def divergence(mean: Any, cov: Any, other_mean: Any, other_cov: Any) -> float:
    """KL(N(mean, cov)‖N(other)), by its definition."""
    inverse, gap = np.linalg.inv(other_cov), mean - other_mean
    return 0.5 * float(
        np.trace(inverse @ cov) + gap @ inverse @ gap - len(mean)
        + np.linalg.slogdet(other_cov)[1] - np.linalg.slogdet(cov)[1]
    )  # fmt: skip


def entropy_loss(cov: Any, new: Any) -> float:
    return 0.5 * float(np.linalg.slogdet(cov)[1] - np.linalg.slogdet(new)[1])


def gaussians(d: int, seed: int, narrow: float) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    one, two = rng.standard_normal((d, d)), rng.standard_normal((d, d))
    return rng.standard_normal(d), one @ one.T + np.eye(d), rng.standard_normal(d), narrow * (two @ two.T + np.eye(d))


def numerical(problem: Any, epsilon: float, beta: float) -> float:
    """KL(q'‖t) of the best q', over means and Cholesky factors, by a general constrained optimiser."""
    mean, cov, target_mean, target_cov = problem
    d = len(mean)
    places = np.tril_indices(d)

    def unpack(x: Any) -> tuple[Any, Any]:
        lower = np.zeros((d, d))
        lower[places] = x[d:]
        return x[:d], lower @ lower.T

    bounds = [
        {"type": "ineq", "fun": lambda x: epsilon - divergence(*unpack(x), mean, cov)},
        {"type": "ineq", "fun": lambda x: beta - entropy_loss(cov, unpack(x)[1])},
    ]
    start = np.concatenate([mean, np.linalg.cholesky(cov)[places]])
    found = minimize(
        lambda x: divergence(*unpack(x), target_mean, target_cov), start, constraints=bounds, method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-12},
    )  # fmt: skip
    return float(found.fun)


CASES = [
    pytest.param(0.3, 0.1, 0.05, id="both bounds"),
    pytest.param(0.3, 5.0, 0.05, id="entropy only"),
    pytest.param(3.0, 0.1, 5.0, id="divergence only"),
    pytest.param(1.0, 50.0, 50.0, id="none"),
]


@pytest.mark.parametrize(("narrow", "epsilon", "beta"), CASES)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_update_is_the_numerical_optimum(d: int, narrow: float, epsilon: float, beta: float) -> None:
    problem = gaussians(d, d, narrow)
    mean, cov, target_mean, target_cov = problem
    new = bounded_update(*problem, epsilon, beta)
    assert divergence(*new, mean, cov) <= epsilon + 1e-8
    assert entropy_loss(cov, new[1]) <= beta + 1e-8
    best = numerical(problem, epsilon, beta)
    assert np.isclose(divergence(*new, target_mean, target_cov), best, rtol=1e-3, atol=1e-5)


def test_the_oracle_would_notice_other_bounds() -> None:
    problem = gaussians(2, 2, 0.3)
    loose = bounded_update(*problem, 0.2, 0.05)
    assert divergence(*loose, *problem[:2]) > 0.1 + 1e-3
    assert divergence(*loose, *problem[2:]) < numerical(problem, 0.1, 0.05) - 1e-3


def test_without_bounds_it_is_the_target_and_with_tight_ones_nothing_moves() -> None:
    problem = gaussians(4, 0, 0.5)
    mean, cov = bounded_update(*problem, 1e6, 1e6)
    assert np.allclose(mean, problem[2])
    assert np.allclose(cov, problem[3])
    mean, cov = bounded_update(*problem, 1e-10, 1e-10)
    assert np.allclose(mean, problem[0], atol=1e-4)
    assert np.allclose(cov, problem[1], atol=1e-3)


def test_moments_of_the_optimum_by_hand() -> None:
    points = np.array([[0.0], [1.0], [3.0]])
    draws = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [5.0, 0.0, 1.0], [9.0, 0.0, 1.0]])
    # Points win 3, 1 and 0 of 4: mean ¼, variance 3/16, 1/Σw² = 1.6 draws beside one pseudo-observation of variance 4.
    mean, cov = optimum_moments(points, draws, np.array([[4.0]]))
    assert np.isclose(mean[0], 0.25)
    assert np.isclose(cov[0, 0], (4.0 + 1.6 * 3 / 16) / 2.6)


def test_it_narrows_around_the_optimum_no_faster_than_allowed() -> None:
    optimiser = SearchDistribution(candidates=150, functions=60)
    _, learned = maximise(optimiser, lambda x: -np.square(x - 0.6).sum(axis=1), 3, 40)
    memories = [item.memory for item in learned]
    for before, after in itertools.pairwise(memories):
        assert entropy_loss(before.covariance, after.covariance) <= 3 * optimiser.entropy + 1e-8
    assert learned[-1].metrics["search_std"] < 0.1
    assert np.abs(memories[-1].mean - 0.6).max() < 0.05
