"""The kernel and its derivatives against finite differences, and the remainder kernel against high precision."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.errors import ConfigError, ShapeError
from abps.gp import Hyper
from abps.gp.kernel import (
    covariance,
    derivative_at,
    derivative_in,
    gradient_prior,
    gram,
    mixed_second_derivative,
    remainder,
)
from abps.gp.linalg import squared_distances


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    return rng, Hyper(rng.uniform(0.5, 2, 4), 1.3, 0.2), rng.normal(size=(5, 4)), rng.normal(size=4)


def test_kernel_value_and_dimension_factor(setting):
    _, hyper, points, theta = setting
    by_hand = 1.3**2 * np.exp(-0.5 * sum(((points[0] - theta) / (hyper.lengthscales * 2.0)) ** 2))
    assert covariance(points[:1], theta[None], hyper)[0, 0] == pytest.approx(by_hand, rel=1e-14)
    plain = Hyper(hyper.lengthscales * 2.0, 1.3, 0.2, scale_by_dimension=False)
    np.testing.assert_array_equal(plain.effective, hyper.effective)


def test_gram_divides_noise_by_counts(setting):
    _, hyper, points, _ = setting
    counts = np.array([1.0, 2, 3, 4, 5])
    difference = gram(points, hyper, counts) - covariance(points, points, hyper)
    np.testing.assert_allclose(difference, np.diag(0.04 / counts), atol=1e-15)


def test_first_derivatives(setting):
    _, hyper, points, theta = setting
    h = 1e-6
    steps = np.eye(4) * h
    found = derivative_at(theta, points, hyper)
    difference = [
        (covariance((theta + s)[None], points, hyper) - covariance((theta - s)[None], points, hyper))[0] / (2 * h)
        for s in steps
    ]
    np.testing.assert_allclose(found, difference, atol=1e-9)
    np.testing.assert_allclose(derivative_in(theta[None], points, hyper)[0].T, found, atol=1e-14)
    assert np.abs(found + np.array(difference)).max() > 0.1  # the sign matters


def test_second_derivatives(setting):
    _, hyper, points, theta = setting
    h = 1e-6
    difference = np.array(
        [
            (derivative_at(theta, (points[0] + s)[None], hyper) - derivative_at(theta, (points[0] - s)[None], hyper))[
                :, 0
            ]
            / (2 * h)
            for s in np.eye(4) * h
        ]
    ).T
    np.testing.assert_allclose(mixed_second_derivative(theta, points[0], hyper), difference, atol=1e-9)
    np.testing.assert_allclose(mixed_second_derivative(theta, theta, hyper), np.diag(gradient_prior(hyper)), atol=1e-15)


def whitened_remainder(left, right):
    half_left, half_right = 0.5 * (left**2).sum(1), 0.5 * (right**2).sum(1)
    return remainder(left @ right.T, half_left[:, None], half_right, lambda: squared_distances(left, right))


@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 1.0, 3.0, 30.0, 1e3, 1e8])
def test_remainder_keeps_its_digits(size):
    """e·e'·(exp(p) − 1 − p), to within rounding of |p| relative to its own size: the error that expm1 leaves."""
    rng = np.random.default_rng(1)
    t = rng.normal(size=(4, 3)) * size
    value, slope = whitened_remainder(t, t)
    assert np.isfinite(value).all()
    with mpmath.workdps(80):
        for i in range(4):
            for j in range(4):
                a, b = [mpmath.mpf(v) for v in t[i]], [mpmath.mpf(v) for v in t[j]]
                p = sum(x * y for x, y in zip(a, b, strict=True))
                e = mpmath.exp(-(sum(x * x for x in a) + sum(y * y for y in b)) / 2)
                scale = float(e * min(abs(p), 1)) + float(e * (mpmath.exp(p) - 1 - p))
                halves = float((sum(x * x for x in a) + sum(y * y for y in b)) / 2)
                tolerance = 2e-16 * scale * (4 + halves * (0 if i == j and size > 2 else 4))
                assert abs(value[i, j] - float(e * (mpmath.exp(p) - 1 - p))) <= tolerance + 1e-300
                assert abs(slope[i, j] - float(e * (mpmath.exp(p) - 1))) <= tolerance + 1e-300


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(-8, 8))
def test_remainder_is_positive_definite_and_finite(seed, exponent):
    t = np.random.default_rng(seed).normal(size=(6, 4)) * 10.0**exponent
    value, slope = whitened_remainder(t, t)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    rounding = 1e-15 * min(np.abs(t @ t.T).max(), 1.0)  # what expm1(p) − p may be off by
    assert np.linalg.eigvalsh(value)[0] >= -6 * rounding - 1e-14 * value.max()


def test_hyper_validates_and_round_trips():
    hyper = Hyper(np.array([0.1, 0.2]), 1.0, 0.1, mean=0.3, feature_scale=0.5, scale_by_dimension=False)
    again = Hyper.from_state(hyper.state())
    np.testing.assert_array_equal(again.lengthscales, hyper.lengthscales)
    assert again.state().keys() == hyper.state().keys()
    assert (again.signal, again.noise, again.mean, again.feature_scale, again.scale_by_dimension) == (
        1.0,
        0.1,
        0.3,
        0.5,
        False,
    )
    with pytest.raises(ConfigError, match="positive"):
        Hyper(np.array([0.1, -0.2]), 1.0, 0.1)
    with pytest.raises(ConfigError, match="signal"):
        Hyper(np.array([0.1]), 0.0, 0.1)
    with pytest.raises(ShapeError, match="lengthscales"):
        Hyper(np.zeros((0,)), 1.0, 0.1)
