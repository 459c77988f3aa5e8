"""Log-normal hyper-priors and the noise of windows without repeated episodes (`fit.py`, `gp.py`)."""

from typing import Any

import numpy as np
import pytest

from abps.data.window import Point
from abps.model import GP, Neighbourhood, PriorMean
from abps.model.fit import SHARED, Bounds, MarginalLikelihood, OwnLengthscales, SharedLengthscale, fit
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec

D = 3
BOUNDS = Bounds((0.1, 2.0), lengthscale_prior=(0.4, 0.8), noise_prior=0.7)
FLAT = Bounds((0.1, 2.0))


def window(n: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = 0.5 * rng.normal(size=(n, D))
    return points, np.sin(2.0 * points[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("lengthscales", [OwnLengthscales, SharedLengthscale])
def test_the_gradient_with_priors_is_that_of_finite_differences(lengthscales: Any, features: bool) -> None:
    points, returns = window()
    values = np.random.default_rng(1).normal(size=(len(points), 2)) if features else None
    likelihood = MarginalLikelihood(lengthscales(points, False), returns, mean_bound=1.0, feature_values=values)
    rng, h = np.random.default_rng(2), 1e-6
    prior = (rng.normal(size=likelihood.size), rng.uniform(0.5, 3.0, likelihood.size))
    plain = MarginalLikelihood(lengthscales(points, False), returns, mean_bound=1.0, feature_values=values)
    likelihood.prior = prior
    for _ in range(5):
        at = rng.normal(-0.5, 0.5, likelihood.size)
        value, gradient = likelihood.value_and_gradient(at)
        numeric = [
            (likelihood.value(at + step) - likelihood.value(at - step)) / (2 * h)
            for step in h * np.eye(likelihood.size)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)
        assert value == pytest.approx(plain.value(at) - 0.5 * prior[1] @ (at - prior[0]) ** 2)
        assert np.abs(plain.value_and_gradient(at)[1] - numeric).max() > 1e-3  # Forgetting the prior is noticed.


def fitted(bounds: Bounds, n: int, noise: float = 0.3, seed: int = 0) -> Any:
    points, returns = window(n, seed)
    return fit(
        points, returns, bounds, np.random.default_rng(0), noise=noise, shared_lengthscale=True,
        scale_by_dimension=False, mean_bound=10.0, effort=SHARED,
    ).hyper  # fmt: skip


def test_few_points_say_little_and_many_overrule_the_prior() -> None:
    """The lengthscale of three points is near the prior's median; of a hundred, where the likelihood has it."""
    median = 0.4
    few = [abs(np.log(fitted(BOUNDS, 3, seed=k).lengthscales[0] / median)) for k in range(8)]
    flat = [abs(np.log(fitted(FLAT, 3, seed=k).lengthscales[0] / median)) for k in range(8)]
    assert np.mean(few) < 0.5 * np.mean(flat)
    many, free = fitted(BOUNDS, 100), fitted(FLAT, 100)
    assert many.lengthscales[0] == pytest.approx(free.lengthscales[0], rel=0.15)
    assert many.noise == pytest.approx(free.noise, rel=0.05)


def test_a_narrower_prior_holds_the_noise_nearer_to_its_estimate() -> None:
    wrong = 0.1  # The data have 0.3.
    found = [
        fitted(Bounds((0.1, 2.0), noise_factor=10.0, noise_prior=std), 30, wrong).noise for std in (0.05, 0.3, 3.0)
    ]
    assert found[0] < found[1] < found[2]
    assert found[0] == pytest.approx(wrong, rel=0.1)
    assert found[2] > 2.0 * wrong


# ---- noise: spread -------------------------------------------------------


def neighbourhood(returns: list[np.ndarray], seed: int = 0) -> Neighbourhood:
    rng = np.random.default_rng(seed)
    space, empty = PolicySpace(LinearTanh(), TaskSpec("toy", D, 1, (-1.0,), (1.0,))), Normaliser.empty(D)
    places = 0.3 * rng.normal(size=(len(returns), D))
    entries = [
        Point(place, empty, np.asarray(told, dtype=float), "probe", 0)
        for place, told in zip(places, returns, strict=True)
    ]
    return Neighbourhood(space.policy(places[0], empty), tuple(entries))


def model(near: Neighbourhood, **changes: Any) -> Any:
    gp = GP(
        lengthscale_low=0.13, lengthscale_high=1.2, shared_lengthscale=True, scale_by_dimension=False,
        **{"noise": "spread", "hyper_priors": True, **changes},
    )  # fmt: skip
    n = len(near.entries)
    prior = PriorMean(np.zeros(n), 0.0, np.zeros(D), mean_bound=np.inf)
    return gp.fit(near, prior, np.random.default_rng(0))


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_the_noise_is_never_below_what_repeated_episodes_show(spread: float) -> None:
    """Three episodes per point, in windows whose means differ little or much."""
    rng = np.random.default_rng(3)
    returns = [mean + spread * rng.normal(size=3) for mean in rng.normal(size=10)]
    near = neighbourhood(returns)
    shown = np.mean([np.std(item) for item in returns])
    assert model(near).hyper.noise >= shown * (1 - 1e-9)
    assert model(near, noise_factor=1.0).hyper.noise >= shown * (1 - 1e-9)


def test_one_episode_per_point_is_enough() -> None:
    """Then the spread of the window says how large noise may be: in units of the returns, whatever these are."""
    rng = np.random.default_rng(4)
    returns = rng.normal(size=12)
    noises = [model(neighbourhood([np.array([unit * value]) for value in returns])).hyper.noise for unit in (1.0, 1e3)]
    assert noises[1] == pytest.approx(1e3 * noises[0], rel=0.02)
    assert 0.1 * returns.std() < noises[0] < 1.3 * returns.std()
    repeats = model(neighbourhood([np.array([value]) for value in returns]), noise="repeats", hyper_priors=False)
    assert repeats.hyper.noise < 1e-3  # The floor times a factor: one episode per point shows no spread.


@pytest.mark.parametrize("count", [1, 2, 3])
def test_hardly_any_points(count: int) -> None:
    """One point, or equal returns: nothing to fit, and still a process."""
    for values in (np.zeros(count), np.ones(count), np.arange(count, dtype=float)):
        found = model(neighbourhood([np.array([value]) for value in values]))
        assert found.hyper.noise > 0
        mean, better = found.better(0.1 * np.ones((2, D)))
        assert np.isfinite(mean).all()
        assert ((better >= 0) & (better <= 1)).all()
