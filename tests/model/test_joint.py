"""The joint posterior of J at many points, and which of them are better than the centre (`posterior.py`, `gp.py`)."""

from typing import Any

import numpy as np
import pytest

from abps.data.window import Point
from abps.model import GP, Features, Hyper, Model, Neighbourhood, PriorMean, condition
from abps.model.kernel import Matern52
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec

N, D, M = 15, 4, 6
HYPER = Hyper(np.full(D, 0.4), 0.8, 0.3, 0.2, 1.0, False)
WEIGHTS = np.array([0.7, 0.0, 0.0])


class Case:
    """Points with three features: a slope, and two known parts of the noise whose slope at θ is zero."""

    def __init__(self, seed: int = 0, *, features: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.points, self.returns = 0.3 * rng.normal(size=(N, D)), rng.normal(size=N)
        self.theta, self.asked = 0.1 * rng.normal(size=D), 0.3 * rng.normal(size=(M, D))
        slope = np.zeros((D, 3))
        slope[:, 0] = rng.normal(size=D)
        values = np.column_stack(
            [(self.points - self.theta) @ slope[:, 0], rng.normal(size=N), rng.integers(0, 2, N).astype(float)]
        )
        self.features = Features(values, slope, WEIGHTS) if features else None

    def joint(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        return condition(self.points, self.returns, self.theta, HYPER, features=self.features, **options).joint(
            self.asked
        )

    def twin(self, counts: np.ndarray | None = None, kernel: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Dense textbook formulas, with the features' weights as one more Gaussian part of the kernel."""
        kernel = kernel or squared_exponential
        noise = 0.3**2 / (np.ones(N) if counts is None else counts)
        values = np.zeros((N, 0)) if self.features is None else self.features.values
        slope = np.zeros((D, 0)) if self.features is None else self.features.gradient
        weights = WEIGHTS[: values.shape[1]]
        gram = kernel(self.points, self.points) + np.diag(noise) + values @ values.T
        asked = (self.asked - self.theta) @ slope
        cross = kernel(self.asked, self.points) + asked @ values.T
        prior = kernel(self.asked, self.asked) + asked @ asked.T
        residual = self.returns - 0.2 - values @ weights
        mean = 0.2 + asked @ weights + cross @ np.linalg.solve(gram, residual)
        return mean, prior - cross @ np.linalg.solve(gram, cross.T)


def test_features_known_at_the_asked_points_count_as_they_are() -> None:
    """Features that are no planes: their values replace the first order, in mean and covariance alike."""
    case, rng = Case(), np.random.default_rng(3)
    bent = (case.asked - case.theta) @ case.features.gradient + rng.normal(size=(M, 3))  # type: ignore[union-attr]
    posterior = condition(case.points, case.returns, case.theta, HYPER, features=case.features)
    mean, covariance = posterior.joint(case.asked, bent)
    values = case.features.values  # type: ignore[union-attr]
    gram = squared_exponential(case.points, case.points) + 0.09 * np.eye(N) + values @ values.T
    cross = squared_exponential(case.asked, case.points) + bent @ values.T
    residual = case.returns - 0.2 - values @ WEIGHTS
    np.testing.assert_allclose(mean, 0.2 + bent @ WEIGHTS + cross @ np.linalg.solve(gram, residual), rtol=1e-9)
    prior = squared_exponential(case.asked, case.asked) + bent @ bent.T
    np.testing.assert_allclose(covariance, prior - cross @ np.linalg.solve(gram, cross.T), atol=1e-9)
    assert np.abs(mean - posterior.joint(case.asked)[0]).max() > 0.1  # To first order it would be another answer.


def squared_exponential(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return 0.64 * np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / 0.16)


def matern(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    root = np.sqrt(5.0 * ((a[:, None] - b[None]) ** 2).sum(-1) / (0.16 * 5.0 / 3.0))
    return 0.64 * (1.0 + root + root**2 / 3.0) * np.exp(-root)


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_joint_posterior_is_the_dense_one(seed: int, features: bool) -> None:
    case = Case(seed, features=features)
    mean, covariance = case.joint()
    expected, expected_covariance = case.twin()
    np.testing.assert_allclose(mean, expected, atol=1e-9)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-9)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-9


def test_with_counts_and_another_kernel() -> None:
    case, counts = Case(7), np.arange(1.0, N + 1)
    for found, expected in zip(case.joint(counts=counts), case.twin(counts), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    for found, expected in zip(case.joint(kernel=Matern52()), case.twin(kernel=matern), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.abs(case.joint(counts=counts)[0] - case.twin()[0]).max() > 1e-3
    assert np.abs(case.joint(kernel=Matern52())[0] - case.twin()[0]).max() > 1e-3


def test_forgotten_features_would_be_noticed() -> None:
    case, without = Case(8), Case(8, features=False)
    assert np.abs(case.joint()[0] - without.twin()[0]).max() > 0.01
    assert np.abs(case.joint()[1] - without.twin()[1]).max() > 0.01


# ---- better than the centre ----------------------------------------------


def model_of(case: Case) -> Model:
    space = PolicySpace(LinearTanh(), TaskSpec("toy", D, 1, (-1.0,), (1.0,)))
    empty = Normaliser.empty(D)
    entries = [
        Point(place, empty, np.array([value]), "probe", 0)
        for place, value in zip(case.points, case.returns, strict=True)
    ]
    near = Neighbourhood(space.policy(case.theta, empty), tuple(entries))
    prior = PriorMean(np.zeros(N), 0.0, np.zeros(D), case.features, mean_bound=np.inf, feature_scale=(1.0, 1.0))
    return GP(shared_lengthscale=True, scale_by_dimension=False).model(near, prior, HYPER)


@pytest.mark.parametrize("features", [False, True])
def test_probabilities_of_being_better_are_those_of_samples(features: bool) -> None:
    case = Case(9, features=features)
    mean, better = model_of(case).better(case.asked)
    case.asked = np.vstack([case.asked, case.theta])
    expected, covariance = case.twin()
    np.testing.assert_allclose(mean, expected[:-1], atol=1e-9)
    draws = np.random.default_rng(0).multivariate_normal(expected, covariance, size=200_000)
    counted = (draws[:, :-1] > draws[:, -1:]).mean(axis=0)
    np.testing.assert_allclose(better, counted, atol=0.005)
    assert better.max() - better.min() > 0.2
    independent = draws[:, :-1] > draws[::-1, -1:]
    assert np.abs(independent.mean(axis=0) - better).max() > 0.01, "the correlation with the centre matters"


def test_the_centre_is_not_better_than_itself() -> None:
    case = Case(10)
    _, better = model_of(case).better(np.vstack([case.theta, case.theta + 1e-9]))
    np.testing.assert_allclose(better, 0.5, atol=1e-3)
