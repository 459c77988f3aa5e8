"""Evidence and its gradient, bounds, fallbacks, warm starts."""

import dense_gp as dense
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from abps.config import GpConfig
from abps.errors import ShapeError
from abps.gp import Hyper, fit, noise_estimate
from abps.gp.fit import Evidence


def random_evidence(rng, d, n, k=0, mean_bound=None, counts=True):
    points = 0.03 * rng.normal(size=(n, d)) + rng.normal(size=d)
    returns = 0.5 + np.tanh((points - points[0]) @ rng.normal(size=d) * 20 / np.sqrt(d)) + 0.1 * rng.normal(size=n)
    evidence = Evidence(
        points,
        returns,
        mean_bound=mean_bound,
        counts=rng.integers(1, 4, n).astype(float) if counts else None,
        feature_values=rng.normal(size=(n, k)) if k else None,
    )
    parameters = np.log(np.r_[rng.uniform(0.003, 0.04, d), 0.8, 0.15, [0.4] * (k > 0)])
    return evidence, parameters, points, returns


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("mean_bound", [None, 0.1, 10.0])
def test_gradient_by_finite_differences(k, mean_bound):
    rng = np.random.default_rng(0)
    for d, n in ((1, 1), (1, 6), (7, 15), (30, 20)):
        evidence, parameters, _, _ = random_evidence(rng, d, n, k, mean_bound)
        value, gradient = evidence.value_and_gradient(parameters)
        assert value == pytest.approx(evidence.value(parameters), rel=1e-12)
        steps = 1e-5 * np.eye(len(parameters))
        difference = np.array([(evidence.value(parameters + s) - evidence.value(parameters - s)) / 2e-5 for s in steps])
        scale = max(np.abs(difference).max(), 1.0)
        assert np.abs(gradient - difference).max() <= 1e-7 * scale
        assert (
            np.abs(gradient - 1.01 * difference).max() > 1e-7 * scale or n == 1
        )  # a gradient 1 % off would be noticed


def test_value_against_twin_and_scikit_learn():
    rng = np.random.default_rng(1)
    for d, n, k in ((3, 10, 0), (12, 25, 3), (1, 1, 0)):
        evidence, parameters, points, returns = random_evidence(rng, d, n, k)
        hyper = evidence.hyper(parameters)
        features = np.zeros((n, 0)) if evidence.features is None else evidence.features * hyper.feature_scale
        problem = dense.Problem(
            points, returns, points[0], hyper.effective, hyper.signal, hyper.noise,
            np.zeros(n), np.zeros(d), 1.0 / evidence.inverse_counts, features, np.zeros((d, features.shape[1])),
        )  # fmt: skip
        assert evidence.value(parameters) == pytest.approx(dense.log_evidence(problem), rel=1e-9)
        assert evidence.value(parameters) != pytest.approx(dense.log_evidence(problem._replace(noise=0.16)), rel=1e-4)
    evidence, parameters, points, returns = random_evidence(rng, 4, 12, counts=False)
    hyper = evidence.hyper(parameters)
    library = GaussianProcessRegressor(
        ConstantKernel(hyper.signal**2) * RBF(hyper.effective), alpha=hyper.noise**2, optimizer=None
    ).fit(points, returns)
    value, gradient = library.log_marginal_likelihood(library.kernel_.theta, eval_gradient=True)
    found, slopes = evidence.value_and_gradient(parameters)
    assert found == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(slopes[:4], gradient[1:], rtol=1e-7, atol=1e-8)
    assert slopes[4] == pytest.approx(2 * gradient[0], rel=1e-7)  # their parameter is log σ_f²


def test_constant_mean_is_the_best_one_within_its_bound():
    rng = np.random.default_rng(2)
    for bound in (0.05, 5.0):
        evidence, parameters, points, returns = random_evidence(rng, 3, 12, mean_bound=bound, counts=False)
        mean = evidence.hyper(parameters).mean
        assert abs(mean) <= bound
        grid = np.clip(mean + np.linspace(-0.2, 0.2, 41), -bound, bound)
        values = [Evidence(points, returns - m).value(parameters) for m in grid]
        assert evidence.value(parameters) >= max(values) - 1e-10
        assert evidence.value(parameters) == pytest.approx(
            Evidence(points, returns - mean).value(parameters), rel=1e-12
        )


def test_fit_respects_bounds_and_finds_an_optimum():
    rng = np.random.default_rng(3)
    _, _, points, returns = random_evidence(rng, 5, 30)
    config = GpConfig()
    found = fit(points, returns, config, np.random.default_rng(0), noise=0.1, mean_bound=1.0)
    hyper = found.hyper
    assert (hyper.lengthscales >= config.lengthscale_low * (1 - 1e-12)).all()
    assert (hyper.lengthscales <= config.lengthscale_high * (1 + 1e-12)).all()
    assert np.std(returns) / 3 - 1e-12 <= hyper.signal <= 3 * np.std(returns) + 1e-12
    assert 0.1 / 3 - 1e-12 <= hyper.noise <= 0.3 + 1e-12
    assert abs(hyper.mean) <= 1
    assert found.fallback == ""
    assert found.jitter == 0.0
    evidence = Evidence(points, returns, mean_bound=1.0)
    parameters = np.log([*hyper.lengthscales, hyper.signal, hyper.noise])
    assert evidence.value(parameters) == pytest.approx(found.evidence, rel=1e-10)
    lower = np.log([*[config.lengthscale_low] * 5, np.std(returns) / 3, 0.1 / 3])
    upper = np.log([*[config.lengthscale_high] * 5, np.std(returns) * 3, 0.3])
    gradient = evidence.value_and_gradient(parameters)[1]
    projected = np.clip(parameters + gradient, lower, upper) - parameters
    assert np.abs(projected).max() < 2e-2
    again = fit(points, returns, config, np.random.default_rng(0), noise=0.1, mean_bound=1.0)
    np.testing.assert_array_equal(again.hyper.lengthscales, hyper.lengthscales)


def test_warm_start_is_never_worse():
    rng = np.random.default_rng(4)
    for _ in range(5):
        _, _, points, returns = random_evidence(rng, 12, 25)
        config = GpConfig(starts=4, polished=1)
        good = fit(points, returns, GpConfig(), rng, noise=0.1)
        warm = fit(points, returns, config, rng, noise=0.1, previous=good.hyper)
        assert warm.evidence >= good.evidence - 1e-9


def test_hops_find_better_optima_and_never_lose_one():
    rng = np.random.default_rng(8)
    gains = []
    for index in range(6):
        points = 0.025 * rng.normal(size=(30, 60))
        slopes = rng.normal(size=60) * (rng.uniform(size=60) < 0.3)
        returns = np.sin(points @ slopes * 15) + 0.02 * rng.normal(size=30)
        still, moving = (
            fit(points, returns, GpConfig(hops=hops), np.random.default_rng(index), noise=0.02, mean_bound=1.0)
            for hops in (0, 4)
        )
        assert still.winner != "hop"
        gains.append(moving.evidence - still.evidence)
    assert min(gains) > -0.05  # the same starts: at worst the same optimum, polished from a little elsewhere
    assert max(gains) > 0.05


def test_windows_that_say_nothing_have_a_defined_answer():
    config = GpConfig()
    rng = np.random.default_rng(5)
    single = fit(np.zeros((1, 3)), [0.7], config, rng, noise=0.1, mean_bound=1.0)
    assert single.fallback == "single point"
    assert single.hyper.mean == pytest.approx(0.7)
    equal = fit(rng.normal(size=(6, 3)), np.full(6, 0.2), config, rng, noise=1e-4, mean_bound=0.1)
    assert equal.fallback == "equal returns"
    assert equal.hyper.mean == 0.1
    middle = np.sqrt(config.lengthscale_low * config.lengthscale_high)
    np.testing.assert_allclose(equal.hyper.lengthscales, middle)
    previous = Hyper(np.full(3, 0.01), 1.0, 0.1)
    kept = fit(rng.normal(size=(6, 3)), np.full(6, 0.2), config, rng, noise=1e-4, previous=previous)
    np.testing.assert_allclose(kept.hyper.lengthscales, 0.01)
    assert np.isfinite(kept.evidence)


def test_useless_features_shrink_and_good_ones_grow():
    rng = np.random.default_rng(6)
    points = 0.03 * rng.normal(size=(50, 4))
    values = points @ rng.normal(size=(4, 2)) * 10
    noise = 0.02 * rng.normal(size=50)
    config = GpConfig()
    good = fit(points, values @ [1.0, 0.5] + noise, config, rng, noise=0.02, feature_values=values)
    useless = fit(points, noise, config, rng, noise=0.02, feature_values=rng.normal(size=(50, 2)))
    assert good.hyper.feature_scale > 0.2
    assert useless.hyper.feature_scale < 0.05
    plain = fit(points, noise, config, rng, noise=0.02)
    assert useless.evidence > plain.evidence - 0.05  # the evidence lets useless critics cost nothing


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
    config = GpConfig(lengthscale_low=0.05 * spread, lengthscale_high=spread, starts=4, polished=2)
    found = fit(
        spread * rng.normal(size=(n, d)),
        size * rng.normal(size=n),
        config,
        rng,
        noise=size * 10.0**noise,
        mean_bound=size,
    )
    assert np.isfinite(found.evidence)
    assert np.isfinite(found.hyper.lengthscales).all()


def test_mistakes_are_named():
    rng = np.random.default_rng(7)
    with pytest.raises(ShapeError, match="do not fit"):
        fit(np.zeros((2, 3)), np.zeros(3), GpConfig(), rng, noise=0.1)
    with pytest.raises(ShapeError, match="finite"):
        fit(np.zeros((2, 3)), [0.0, np.inf], GpConfig(), rng, noise=0.1)
    with pytest.raises(ShapeError, match="positive"):
        fit(np.zeros((2, 3)), [0.0, 1.0], GpConfig(), rng, noise=0.0)
