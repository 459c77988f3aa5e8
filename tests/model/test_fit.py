"""The marginal likelihood and its gradient, bounds, fallbacks, warm starts."""

from typing import Any, cast

import dense_gp as dense
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from abps.errors import ShapeError
from abps.model import Hyper
from abps.model.fit import (
    THOROUGH,
    WARM,
    Bounds,
    Effort,
    MarginalLikelihood,
    OwnLengthscales,
    SharedLengthscale,
    fit,
    noise_estimate,
)
from abps.model.kernel import Kernel, Matern52, SquaredExponential

BOUNDS = Bounds((0.0025, 0.05))
SQUARED_EXPONENTIAL = SquaredExponential()
Lengthscales = type[OwnLengthscales] | type[SharedLengthscale]
LENGTHSCALES: dict[str, Lengthscales] = {"own": OwnLengthscales, "shared": SharedLengthscale}


def likelihood_of(points, returns, lengthscales: Lengthscales = OwnLengthscales, **options):
    return MarginalLikelihood(lengthscales(points, True), returns, **options)


def random_likelihood(
    rng, d, n, k=0, mean_bound=None, counts=True, lengthscales: Lengthscales = OwnLengthscales,
    kernel: Kernel = SQUARED_EXPONENTIAL,
):  # fmt: skip
    points = 0.03 * rng.normal(size=(n, d)) + rng.normal(size=d)
    returns = 0.5 + np.tanh((points - points[0]) @ rng.normal(size=d) * 20 / np.sqrt(d)) + 0.1 * rng.normal(size=n)
    likelihood = likelihood_of(
        points,
        returns,
        lengthscales,
        kernel=kernel,
        mean_bound=mean_bound,
        counts=rng.integers(1, 4, n).astype(float) if counts else None,
        feature_values=rng.normal(size=(n, k)) if k else None,
    )
    parameters = np.log(np.r_[rng.uniform(0.003, 0.04, likelihood.count), 0.8, 0.15, [0.4] * (k > 0)])
    return likelihood, parameters, points, returns


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("mean_bound", [None, 0.1, 10.0])
@pytest.mark.parametrize("lengthscales", LENGTHSCALES)
@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern52()], ids=["se", "matern"])
def test_gradient_by_finite_differences(k, mean_bound, lengthscales, kernel):
    rng = np.random.default_rng(0)
    for d, n in ((1, 1), (1, 6), (7, 15), (30, 20)):
        likelihood, parameters, _, _ = random_likelihood(
            rng, d, n, k, mean_bound, lengthscales=LENGTHSCALES[lengthscales], kernel=kernel
        )
        value, gradient = likelihood.value_and_gradient(parameters)
        assert value == pytest.approx(likelihood.value(parameters), rel=1e-12)
        steps = 1e-5 * np.eye(len(parameters))
        ups, downs = (np.array([likelihood.value(parameters + sign * s) for s in steps]) for sign in (1, -1))
        difference = (ups - downs) / 2e-5
        scale = max(np.abs(difference).max(), 1.0)
        assert np.abs(gradient - difference).max() <= 1e-7 * scale
        assert (
            np.abs(gradient - 1.01 * difference).max() > 1e-7 * scale or n == 1
        )  # a gradient 1 % off would be noticed


def test_a_shared_lengthscale_is_that_of_equal_ones():
    rng = np.random.default_rng(9)
    points, returns = 0.03 * rng.normal(size=(12, 6)), rng.normal(size=12)
    own, shared = (likelihood_of(points, returns, kind, mean_bound=1.0) for kind in LENGTHSCALES.values())
    assert (own.size, shared.size) == (8, 3)
    several, one = np.log([*[0.02] * 6, 0.8, 0.15]), np.log([0.02, 0.8, 0.15])
    assert shared.value(one) == pytest.approx(own.value(several), rel=1e-11)
    np.testing.assert_allclose(shared.hyper(one).lengthscales, own.hyper(several).lengthscales)
    gradients = own.value_and_gradient(several)[1], shared.value_and_gradient(one)[1]
    np.testing.assert_allclose(gradients[1], [gradients[0][:6].sum(), *gradients[0][6:]], rtol=1e-8, atol=1e-10)
    several[0] += 0.3  # Negative control: unequal ones are another process.
    assert abs(shared.value(one) - own.value(several)) > 1e-3


@pytest.mark.parametrize("scale_by_dimension", [True, False])
@pytest.mark.parametrize("kind", LENGTHSCALES)
def test_squared_distances_and_their_gradient(kind, scale_by_dimension):
    rng = np.random.default_rng(10)
    points, outer = rng.normal(size=(7, 4)), rng.normal(size=(7, 7))
    outer = outer + outer.T
    lengthscales = LENGTHSCALES[kind](points, scale_by_dimension)
    logarithms = np.log(rng.uniform(0.5, 2.0, lengthscales.count))
    effective = lengthscales.expanded(logarithms) * (2.0 if scale_by_dimension else 1.0)
    naive = (((points[:, None] - points) / effective) ** 2).sum(-1)
    np.testing.assert_allclose(lengthscales.squared(logarithms), naive, rtol=1e-12, atol=1e-13)
    weighted = lambda place: -0.25 * float((outer * lengthscales.squared(place)).sum())  # noqa: E731
    steps = 1e-5 * np.eye(lengthscales.count)
    difference = [(weighted(logarithms + s) - weighted(logarithms - s)) / 2e-5 for s in steps]
    found = lengthscales.gradient(outer, logarithms)
    np.testing.assert_allclose(found, difference, rtol=1e-7)
    assert np.abs(0.5 * found - difference).max() > 1e-2
    hyper = Hyper(lengthscales.expanded(logarithms), 1.0, 0.1)
    np.testing.assert_allclose(lengthscales.reduced(hyper), logarithms, rtol=1e-12)


def test_hyper_priors_are_gaussians_of_the_logarithms():
    rng = np.random.default_rng(12)
    flat, parameters, points, returns = random_likelihood(rng, 4, 12, 2, 1.0, counts=False)
    mean, precision = rng.normal(size=7), rng.uniform(0.5, 2.0, 7)
    believing = likelihood_of(points, returns, mean_bound=1.0, feature_values=flat.features, prior=(mean, precision))
    off = 0.5 * sum(p * (x - m) ** 2 for p, x, m in zip(precision, parameters, mean, strict=True))
    assert believing.value(parameters) == pytest.approx(flat.value(parameters) - off, rel=1e-12)
    steps = 1e-5 * np.eye(7)
    difference = [(believing.value(parameters + s) - believing.value(parameters - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(believing.value_and_gradient(parameters)[1], difference, rtol=1e-6, atol=1e-6)
    assert not np.allclose(flat.value_and_gradient(parameters)[1], difference, rtol=1e-3)


def test_hyper_priors_pull_what_the_data_leave_open():
    rng = np.random.default_rng(13)
    points, returns = 0.03 * rng.normal(size=(4, 6)), rng.normal(size=4)
    tight = BOUNDS._replace(lengthscale_prior=(0.01, 0.05), noise_prior=0.05)
    free, held = (fit(points, returns, bounds, np.random.default_rng(0), noise=0.1) for bounds in (BOUNDS, tight))
    assert np.abs(np.log(held.hyper.lengthscales / 0.01)).max() < 0.2
    assert abs(np.log(held.hyper.noise / 0.1)) < 0.2
    assert np.abs(np.log(free.hyper.lengthscales / 0.01)).max() > 0.2


def test_fit_of_a_shared_lengthscale_finds_the_best_of_a_grid():
    rng = np.random.default_rng(11)
    points = 0.03 * rng.normal(size=(30, 5))
    returns = np.sin(points @ rng.normal(size=5) * 15) + 0.02 * rng.normal(size=30)
    found = fit(points, returns, BOUNDS, rng, noise=0.02, shared_lengthscale=True)
    assert np.ptp(found.hyper.lengthscales) == 0.0
    likelihood = likelihood_of(points, returns, SharedLengthscale)
    grid = np.log(np.geomspace(*BOUNDS.lengthscale, 60))
    rest = np.log([found.hyper.signal, found.hyper.noise])
    assert found.log_likelihood >= max(likelihood.value(np.array([place, *rest])) for place in grid) - 1e-6
    free = fit(points, returns, BOUNDS, rng, noise=0.02)
    assert np.ptp(free.hyper.lengthscales) > 0.0
    assert free.log_likelihood > found.log_likelihood


def test_value_against_twin_and_scikit_learn():
    rng = np.random.default_rng(1)
    for d, n, k, matern in (
        (3, 10, 0, False),
        (12, 25, 3, False),
        (1, 1, 0, False),
        (3, 10, 0, True),
        (8, 20, 2, True),
    ):
        kernel = Matern52() if matern else SquaredExponential()
        likelihood, parameters, points, returns = random_likelihood(rng, d, n, k, kernel=kernel)
        hyper = likelihood.hyper(parameters)
        features = np.zeros((n, 0)) if likelihood.features is None else likelihood.features * hyper.feature_scale
        problem = dense.Problem(
            points, returns, points[0], hyper.effective, hyper.signal, hyper.noise,
            np.zeros(n), np.zeros(d), 1.0 / likelihood.inverse_counts, features, np.zeros((d, features.shape[1])),
            matern,
        )  # fmt: skip
        assert likelihood.value(parameters) == pytest.approx(dense.log_likelihood(problem), rel=1e-9)
        assert likelihood.value(parameters) != pytest.approx(
            dense.log_likelihood(problem._replace(noise=0.16)), rel=1e-4
        )
        other = problem._replace(matern=not matern)
        assert n == 1 or likelihood.value(parameters) != pytest.approx(dense.log_likelihood(other), rel=1e-6)
    likelihood, parameters, points, returns = random_likelihood(rng, 4, 12, counts=False)
    hyper = likelihood.hyper(parameters)
    options: dict[str, Any] = {"alpha": hyper.noise**2, "optimizer": None}
    library: Any = GaussianProcessRegressor(
        ConstantKernel(hyper.signal**2) * RBF(cast("Any", hyper.effective)), **options
    ).fit(points, returns)
    value, gradient = library.log_marginal_likelihood(library.kernel_.theta, eval_gradient=True)
    found, slopes = likelihood.value_and_gradient(parameters)
    assert found == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(slopes[:4], gradient[1:], rtol=1e-7, atol=1e-8)
    assert slopes[4] == pytest.approx(2 * gradient[0], rel=1e-7)  # their parameter is log σ_f²


def test_constant_mean_is_the_best_one_within_its_bound():
    rng = np.random.default_rng(2)
    for bound in (0.05, 5.0):
        likelihood, parameters, points, returns = random_likelihood(rng, 3, 12, mean_bound=bound, counts=False)
        mean = likelihood.hyper(parameters).mean
        assert abs(mean) <= bound
        grid = np.clip(mean + np.linspace(-0.2, 0.2, 41), -bound, bound)
        values = [likelihood_of(points, returns - m).value(parameters) for m in grid]
        assert likelihood.value(parameters) >= max(values) - 1e-10
        assert likelihood.value(parameters) == pytest.approx(
            likelihood_of(points, returns - mean).value(parameters), rel=1e-12
        )


def test_fit_respects_bounds_and_finds_an_optimum():
    rng = np.random.default_rng(3)
    _, _, points, returns = random_likelihood(rng, 5, 30)
    found = fit(points, returns, BOUNDS, np.random.default_rng(0), noise=0.1, mean_bound=1.0)
    hyper = found.hyper
    assert (hyper.lengthscales >= BOUNDS.lengthscale[0] * (1 - 1e-12)).all()
    assert (hyper.lengthscales <= BOUNDS.lengthscale[1] * (1 + 1e-12)).all()
    assert np.std(returns) / 3 - 1e-12 <= hyper.signal <= 3 * np.std(returns) + 1e-12
    assert 0.1 / 3 - 1e-12 <= hyper.noise <= 0.3 + 1e-12
    assert abs(hyper.mean) <= 1
    assert found.fallback == ""
    assert found.jitter == 0.0
    likelihood = likelihood_of(points, returns, mean_bound=1.0)
    parameters = np.log([*hyper.lengthscales, hyper.signal, hyper.noise])
    assert likelihood.value(parameters) == pytest.approx(found.log_likelihood, rel=1e-10)
    lower = np.log([*[BOUNDS.lengthscale[0]] * 5, float(np.std(returns)) / 3, 0.1 / 3])
    upper = np.log([*[BOUNDS.lengthscale[1]] * 5, float(np.std(returns)) * 3, 0.3])
    gradient = likelihood.value_and_gradient(parameters)[1]
    projected = np.clip(parameters + gradient, lower, upper) - parameters
    assert np.abs(projected).max() < 2e-2
    again = fit(points, returns, BOUNDS, np.random.default_rng(0), noise=0.1, mean_bound=1.0)
    np.testing.assert_array_equal(again.hyper.lengthscales, hyper.lengthscales)


def test_warm_start_is_never_worse():
    rng = np.random.default_rng(4)
    for _ in range(5):
        _, _, points, returns = random_likelihood(rng, 12, 25)
        good = fit(points, returns, BOUNDS, rng, noise=0.1)
        for effort in (Effort(starts=4, polished=1), WARM):
            warm = fit(points, returns, BOUNDS, rng, noise=0.1, previous=good.hyper, effort=effort)
            assert warm.log_likelihood >= good.log_likelihood - 1e-9
            assert effort is not WARM or warm.winner == "warm"


def test_rounds_around_the_best_find_better_optima_and_never_lose_one():
    rng = np.random.default_rng(8)
    gains = []
    for index in range(6):
        points = 0.025 * rng.normal(size=(30, 60))
        slopes = rng.normal(size=60) * (rng.uniform(size=60) < 0.3)
        returns = np.sin(points @ slopes * 15) + 0.02 * rng.normal(size=30)
        still, moving = (
            fit(
                points,
                returns,
                BOUNDS,
                np.random.default_rng(index),
                noise=0.02,
                mean_bound=1.0,
                effort=THOROUGH._replace(rounds=rounds),
            )
            for rounds in (0, 4)
        )
        assert still.winner != "around"
        gains.append(moving.log_likelihood - still.log_likelihood)
    assert min(gains) > -0.05  # the same starts: at worst the same optimum, polished from a little elsewhere
    assert max(gains) > 0.05


def test_windows_that_say_nothing_have_a_defined_answer():
    rng = np.random.default_rng(5)
    single = fit(np.zeros((1, 3)), [0.7], BOUNDS, rng, noise=0.1, mean_bound=1.0)
    assert single.fallback == "single point"
    assert single.hyper.mean == pytest.approx(0.7)
    equal = fit(rng.normal(size=(6, 3)), np.full(6, 0.2), BOUNDS, rng, noise=1e-4, mean_bound=0.1)
    assert equal.fallback == "equal returns"
    assert equal.hyper.mean == 0.1
    middle = np.sqrt(BOUNDS.lengthscale[0] * BOUNDS.lengthscale[1])
    np.testing.assert_allclose(equal.hyper.lengthscales, middle)
    previous = Hyper(np.full(3, 0.01), 1.0, 0.1)
    kept = fit(rng.normal(size=(6, 3)), np.full(6, 0.2), BOUNDS, rng, noise=1e-4, previous=previous)
    np.testing.assert_allclose(kept.hyper.lengthscales, 0.01)
    assert np.isfinite(kept.log_likelihood)


def test_useless_features_shrink_and_good_ones_grow():
    rng = np.random.default_rng(6)
    points = 0.03 * rng.normal(size=(50, 4))
    values = points @ rng.normal(size=(4, 2)) * 10
    noise = 0.02 * rng.normal(size=50)
    good = fit(points, values @ [1.0, 0.5] + noise, BOUNDS, rng, noise=0.02, feature_values=values)
    useless = fit(points, noise, BOUNDS, rng, noise=0.02, feature_values=rng.normal(size=(50, 2)))
    assert good.hyper.feature_scale > 0.2
    assert useless.hyper.feature_scale < 0.05
    plain = fit(points, noise, BOUNDS, rng, noise=0.02)
    assert useless.log_likelihood > plain.log_likelihood - 0.05  # the likelihood lets useless critics cost nothing


def test_noise_estimate():
    assert noise_estimate([[1.0, 3.0], [2.0, 2.0], [5.0]], 1e-4) == pytest.approx(1.0)
    assert noise_estimate([[2.0, 2.0], [0.1 + 0.2, 0.3]], 1e-4) == 1e-4
    assert noise_estimate([], 1e-3) == 1e-3


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(-8, 8), st.floats(-8, 8), st.floats(-6, 1))
def test_no_nan_over_sixteen_orders_of_magnitude(seed, point_scale, value_scale, noise):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    spread, size = 10.0**point_scale, 10.0**value_scale
    found = fit(
        spread * rng.normal(size=(n, d)),
        size * rng.normal(size=n),
        Bounds((0.05 * spread, spread)),
        rng,
        effort=Effort(starts=4, polished=2),
        noise=size * 10.0**noise,
        mean_bound=size,
    )
    assert np.isfinite(found.log_likelihood)
    assert np.isfinite(found.hyper.lengthscales).all()


def test_mistakes_are_named():
    rng = np.random.default_rng(7)
    with pytest.raises(ShapeError, match="do not fit"):
        fit(np.zeros((2, 3)), np.zeros(3), BOUNDS, rng, noise=0.1)
    with pytest.raises(ShapeError, match="finite"):
        fit(np.zeros((2, 3)), [0.0, np.inf], BOUNDS, rng, noise=0.1)
    with pytest.raises(ShapeError, match="positive"):
        fit(np.zeros((2, 3)), [0.0, 1.0], BOUNDS, rng, noise=0.0)
