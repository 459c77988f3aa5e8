"""The posterior at many points of a box: against a dense inverse, finite differences and samples."""

import numpy as np
import pytest

from abps.errors import ShapeError
from abps.model.kernel import Hyper, Kernel, Matern52, SquaredExponential
from abps.model.posterior import condition
from abps.model.regression import Regression, factored

N, D = 7, 3
RNG = np.random.default_rng(0)
POINTS, VALUES = RNG.uniform(size=(N, D)), RNG.standard_normal(N)
HYPER = Hyper(np.array([0.3, 0.5, 0.9]), 1.3, 0.2, 0.4, scale_by_dimension=False)
KERNELS = [Matern52(), SquaredExponential()]


def dense(kernel: Kernel, at: np.ndarray, hyper: Hyper = HYPER) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance by an inverse."""

    def cov(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        differences = (a[:, None] - b) / hyper.effective
        return hyper.signal**2 * kernel.profile(np.square(differences).sum(axis=-1)).value

    inverse = np.linalg.inv(cov(POINTS, POINTS) + hyper.noise**2 * np.eye(N))
    cross = cov(at, POINTS)
    return hyper.mean + cross @ inverse @ (VALUES - hyper.mean), cov(at, at) - cross @ inverse @ cross.T


@pytest.mark.parametrize("kernel", KERNELS, ids=["matern", "se"])
def test_mean_std_and_covariance_are_those_of_a_dense_inverse(kernel: Kernel) -> None:
    at = RNG.uniform(-0.5, 1.5, size=(11, D))
    model = Regression(POINTS, VALUES, HYPER, kernel)
    mean, covariance = dense(kernel, at)
    found = model.at(at)
    assert np.allclose(found.mean, mean, rtol=1e-10)
    assert np.allclose(found.std, np.sqrt(np.diag(covariance)), rtol=1e-9)
    assert np.allclose(model.joint(at)[0], mean, rtol=1e-10)
    assert np.allclose(model.joint(at)[1], covariance, atol=1e-12)


def test_the_dense_inverse_would_notice_another_noise() -> None:
    at = RNG.uniform(size=(4, D))
    other = Hyper(HYPER.lengthscales, 1.3, 0.3, 0.4, scale_by_dimension=False)
    assert not np.allclose(Regression(POINTS, VALUES, other, Matern52()).at(at).mean, dense(Matern52(), at)[0])


def test_it_is_the_posterior_that_local_searches_use() -> None:
    at = RNG.uniform(size=(5, D))
    mean, covariance = condition(POINTS, VALUES, POINTS[0], HYPER, kernel=Matern52()).joint(at)
    found = Regression(POINTS, VALUES, HYPER, Matern52()).joint(at)
    assert np.allclose(found[0], mean, rtol=1e-8)
    assert np.allclose(found[1], covariance, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=["matern", "se"])
def test_slopes_are_finite_differences(kernel: Kernel) -> None:
    at, step = RNG.uniform(size=(6, D)), 1e-6
    model = Regression(POINTS, VALUES, HYPER, kernel)
    marginals, slopes = model.with_slopes(at)
    assert np.array_equal(marginals.mean, model.at(at).mean)
    for i in range(D):
        move = step * np.eye(D)[i]
        up, down = model.at(at + move), model.at(at - move)
        assert np.allclose(slopes.mean[:, i], (up.mean - down.mean) / (2 * step), rtol=1e-5, atol=1e-7)
        assert np.allclose(slopes.std[:, i], (up.std - down.std) / (2 * step), rtol=1e-5, atol=1e-7)


def test_samples_have_the_posteriors_moments() -> None:
    at = RNG.uniform(size=(4, D))
    model, count = Regression(POINTS, VALUES, HYPER, Matern52()), 40_000
    draws = model.sample(at, np.random.default_rng(1), count)
    mean, covariance = model.joint(at)
    errors = np.sqrt(np.diag(covariance) / count)
    assert (np.abs(draws.mean(axis=0) - mean) < 4.5 * errors).all()
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / count)
    assert (np.abs(np.cov(draws.T) - covariance) < 4.5 * spread + 1e-5).all()
    assert not (np.abs(draws.mean(axis=0) - (mean + 0.1)) < 4.5 * errors).any()  # It would notice a tenth.


def test_the_share_of_samples_that_a_point_wins_is_its_probability() -> None:
    """Two points: P(f(a) > f(b)) is a normal distribution's, in closed form."""
    from scipy.special import ndtr

    at, count = np.array([[0.2, 0.2, 0.2], [0.8, 0.5, 0.1]]), 40_000
    model = Regression(POINTS, VALUES, HYPER, Matern52())
    mean, c = model.joint(at)
    expected = float(ndtr((mean[0] - mean[1]) / np.sqrt(c[0, 0] + c[1, 1] - 2 * c[0, 1])))
    won = float((model.sample(at, np.random.default_rng(2), count).argmax(axis=1) == 0).mean())
    assert abs(won - expected) < 4.5 * np.sqrt(expected * (1 - expected) / count)


def test_a_far_point_is_the_prior_and_a_noiseless_one_is_known() -> None:
    quiet = Hyper(HYPER.lengthscales, 1.3, 1e-6, 0.4, scale_by_dimension=False)
    model = Regression(POINTS, VALUES, quiet, Matern52())
    far = model.at(np.full((1, D), 50.0))
    assert np.allclose([far.mean[0], far.std[0]], [0.4, 1.3])
    known = model.at(POINTS)
    assert np.allclose(known.mean, VALUES, atol=1e-8)
    assert (known.std < 1e-4).all()


def test_repeated_points_without_noise_raise_the_noise() -> None:
    points = np.concatenate([POINTS, POINTS])
    silent = Hyper(HYPER.lengthscales, 1.0, 1e-12, scale_by_dimension=False)
    model = Regression(points, np.concatenate([VALUES, VALUES + 0.1]), silent, Matern52())
    assert np.isfinite(model.at(points).mean).all()
    assert factored(np.eye(3), HYPER)[1] is HYPER  # But not where there is no need.


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="do not fit; expected"):
        Regression(POINTS, VALUES[:-1], HYPER, Matern52())
