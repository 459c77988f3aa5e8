"""The kernel and its derivatives against finite differences, and the remainder kernel against high precision."""

import dense_gp as dense
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel import covariance, derivative_at, gradient_prior, gram, mixed_second_derivative

from abps import state
from abps.errors import ConfigError, ShapeError
from abps.model import Hyper, Kernel
from abps.model.kernel import (
    FastKernel,
    Matern52,
    SquaredExponential,
    one_minus_weight,
    remainder,
    scaled,
    variance_left,
)
from abps.model.linalg import squared_distances

KERNELS = [SquaredExponential(), Matern52()]


class PlainExponential(Kernel):
    """The squared exponential without its fast formulas: what the generic path makes of a bare profile."""

    def profile(self, squared):
        return SquaredExponential().profile(squared)


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


def whitened_remainder(left, right, kernel=KERNELS[0]):
    half_left, half_right = 0.5 * (left**2).sum(1), 0.5 * (right**2).sum(1)
    return remainder(kernel, left @ right.T, half_left[:, None], half_right, lambda: squared_distances(left, right))


@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 1.0, 3.0, 30.0, 1e3, 1e8])
def test_remainder_keeps_its_digits(size):
    """e·e'·(exp(p) − 1 − p), to within rounding of |p| relative to its own size: the error that expm1 leaves."""
    rng = np.random.default_rng(1)
    t = rng.normal(size=(4, 3)) * size
    value, slope, _ = whitened_remainder(t, t)
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
    value, slope, _ = whitened_remainder(t, t)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    rounding = 1e-15 * min(np.abs(t @ t.T).max(), 1.0)  # what expm1(p) − p may be off by
    assert np.linalg.eigvalsh(value)[0] >= -6 * rounding - 1e-14 * value.max()


def test_hyper_validates_and_round_trips():
    hyper = Hyper(np.array([0.1, 0.2]), 1.0, 0.1, mean=0.3, feature_scale=0.5, scale_by_dimension=False)
    again = state.restore(hyper, state.save(hyper))
    assert again.lengthscales.tobytes() == hyper.lengthscales.tobytes()
    assert state.save(again).keys() == state.save(hyper).keys()
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


# ---- the contract, for every kernel --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_profiles_are_normalised_and_their_derivatives_right(kernel):
    at_zero = kernel.profile(np.zeros(1))
    assert (at_zero.value[0], at_zero.weight[0]) == (1.0, 1.0)
    squared, h = np.array([1e-3, 0.02, 0.5, 1.0, 3.0, 20.0]), 1e-6
    found, up, down = (kernel.profile(squared + shift) for shift in (0.0, h * squared, -h * squared))
    np.testing.assert_allclose(found.weight, -2 * (up.value - down.value) / (2 * h * squared), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.weight_slope, (up.weight - down.weight) / (2 * h * squared), rtol=1e-6, atol=1e-9)
    assert np.abs(found.weight + (up.value - down.value) / (2 * h * squared)).max() > 0.1  # κ' alone would not pass
    times = scaled(kernel, squared, 2 * np.log(3.0))
    for one, other in zip(times, found, strict=True):
        np.testing.assert_allclose(one, 9.0 * other, rtol=1e-14)
    np.testing.assert_allclose(one_minus_weight(kernel, squared), 1.0 - found.weight, rtol=1e-10)


def test_matern_is_the_textbooks():
    """(1 + √5 r/ℓ + 5r²/3ℓ²)·exp(−√5 r/ℓ) with ℓ = √(5/3), and scikit-learn's."""
    from sklearn.gaussian_process.kernels import Matern

    points = np.random.default_rng(0).normal(size=(6, 3))
    found = Matern52().profile(squared_distances(points)).value
    np.testing.assert_allclose(found, Matern(np.sqrt(5 / 3), nu=2.5)(points), rtol=1e-12)
    assert np.abs(found - Matern(1.0, nu=2.5)(points)).max() > 1e-2
    problem = dense.Problem(points, np.zeros(6), points[0], np.ones(3), 1.0, 0.1, *[np.zeros(6)] * 5, matern=True)
    np.testing.assert_allclose(found, dense.kernel(problem, points, points), rtol=1e-12)


@pytest.mark.parametrize("matern", [False, True])
def test_the_twins_derivatives_by_finite_differences(matern, setting):
    _, hyper, points, theta = setting
    problem = dense.Problem(points, np.zeros(5), theta, hyper.effective, 1.3, 0.2, *[np.zeros(5)] * 5, matern=matern)
    h, steps = 1e-4, np.eye(4) * 1e-4
    value = lambda a, b: dense.kernel(problem, a[None], b[None])[0, 0]  # noqa: E731
    first = [[(value(theta + s, x) - value(theta - s, x)) / (2 * h) for x in points] for s in steps]
    np.testing.assert_allclose(dense.kernel_gradient(problem, theta, points), first, atol=1e-7)
    mixed = [
        [
            sum(one * two * value(theta + one * s, theta + two * r) for one in (1, -1) for two in (1, -1)) / (4 * h * h)
            for r in steps
        ]
        for s in steps
    ]
    # Matérn's fifth derivative jumps at zero distance: the difference errs by the first power of the step.
    np.testing.assert_allclose(dense.gradient_prior(problem), mixed, atol=1e-3 if matern else 1e-6)
    assert np.abs(dense.gradient_prior(problem) * 1.01 - mixed).max() > 1e-3


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_remainder_is_what_value_and_gradient_at_the_centre_leave(kernel):
    """By conditioning J(t), J(t') on J(0) and ∇J(0), whose covariance is the identity; and its gradient in t."""
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    problem = dense.Problem(
        left, np.zeros(5), np.zeros(3), np.ones(3), 1.0, 0.1, *[np.zeros(5)] * 5, matern=isinstance(kernel, Matern52)
    )
    known = lambda t: np.vstack(  # noqa: E731
        [dense.kernel(problem, np.zeros((1, 3)), t), dense.kernel_gradient(problem, np.zeros(3), t)]
    )
    expected = dense.kernel(problem, left, right) - known(left).T @ known(right)
    found = whitened_remainder(left, right, kernel)
    np.testing.assert_allclose(found.value, expected, atol=1e-14)
    assert np.abs(found.value - dense.kernel(problem, left, right)).max() > 0.1
    gradient = found.along[..., None] * right + found.radial[..., None] * left[:, None]
    h = 1e-5
    for i, step in enumerate(h * np.eye(3)):
        up, down = (whitened_remainder(left + s, right, kernel).value for s in (step, -step))
        np.testing.assert_allclose(gradient[..., i], (up - down) / (2 * h), atol=1e-9)
    own, slope = variance_left(kernel, (left**2).sum(1))
    np.testing.assert_allclose(own, np.diag(whitened_remainder(left, left, kernel).value), atol=1e-14)
    u = (left**2).sum(1)
    numeric = (variance_left(kernel, u + h)[0] - variance_left(kernel, u - h)[0]) / (2 * h)
    np.testing.assert_allclose(slope, numeric, atol=1e-9)
    assert np.abs(gradient - found.along[..., None] * right).max() > 1e-2  # without its radial part it is another one


@pytest.mark.parametrize("size", [0.05, 0.5, 2.0, 6.0])
def test_the_generic_path_gives_the_squared_exponentials_exact_remainders(size):
    """To rounding of one, which is what differences of covariances lose; the exact formulas keep all digits."""
    exact, plain = SquaredExponential(), PlainExponential()
    assert isinstance(exact, FastKernel)
    assert not isinstance(plain, FastKernel)
    rng = np.random.default_rng(3)
    left, right = size * rng.normal(size=(6, 4)), size * rng.normal(size=(5, 4))
    for one, other in zip(whitened_remainder(left, right, exact), whitened_remainder(left, right, plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14 * (1 + size**2))
    u = (left**2).sum(1)
    for one, other in zip(variance_left(exact, u), variance_left(plain, u), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14 * (1 + size**2))
    np.testing.assert_allclose(one_minus_weight(exact, u), one_minus_weight(plain, u), rtol=0, atol=1e-15)
    np.testing.assert_allclose(scaled(exact, u, 0.7).value, scaled(plain, u, 0.7).value, rtol=1e-13)
    broken = whitened_remainder(left, right, Matern52()).value
    assert np.abs(broken - whitened_remainder(left, right, exact).value).max() > 1e-9
    tiny = np.array([1e-12])
    assert abs(variance_left(exact, tiny)[0][0] / (0.5 * 1e-24) - 1) < 1e-3  # u²/2 − …
    assert abs(variance_left(plain, tiny)[0][0] / (0.5 * 1e-24) - 1) > 1  # all cancellation


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(-8, 8))
def test_matern_remainder_is_finite_and_positive_definite_up_to_rounding(seed, exponent):
    t = np.random.default_rng(seed).normal(size=(6, 4)) * 10.0**exponent
    found = whitened_remainder(t, t, Matern52())
    assert all(np.isfinite(part).all() for part in found)
    assert np.linalg.eigvalsh(found.value)[0] >= -1e-14
