"""Criteria against the dense twin that really updates Σ, against high precision, and by finite differences.

Covers `expected_ascent`, `trace_reduction` and `lookahead`.
"""

import dense_gp as dense
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.acquisition import ExpectedAscent, TraceReduction
from abps.acquisition.lookahead import Lookahead
from abps.model import Features, Hyper, condition
from abps.model.kernel import Matern52, SquaredExponential

EPS = np.finfo(float).eps
CRITERIA = {
    "mpd": (ExpectedAscent(), dense.expected_ascent),
    "gibo": (TraceReduction(), dense.trace_reduction),
}
KERNELS = {"se": SquaredExponential(), "matern": Matern52()}


def moderate(rng, d=None, n=None, k=None, kernel="se"):
    """A problem on which the dense twin keeps its digits, so that a comparison at 1e-8 is fair."""
    d = int(rng.integers(1, 40)) if d is None else d
    n = int(rng.integers(1, 30)) if n is None else n
    k = int(rng.integers(0, 4)) if k is None else k
    hyper = Hyper(rng.uniform(0.5, 2, d), rng.uniform(0.5, 2), rng.uniform(0.05, 0.3), feature_scale=0.7 if k else 0.0)
    points, theta, returns = rng.normal(size=(n, d)), 0.3 * rng.normal(size=d), rng.normal(size=n)
    values, slopes = rng.normal(size=(n, k)), 0.3 * rng.normal(size=(d, k))
    mean, slope, counts = 0.1 * rng.normal(size=n), 0.2 * rng.normal(size=d), rng.integers(1, 4, n).astype(float)
    posterior = condition(
        points, returns, theta, hyper,
        mean_at_points=mean, mean_gradient=slope, counts=counts, features=Features(values, slopes) if k else None,
        kernel=KERNELS[kernel],
    )  # fmt: skip
    problem = dense.Problem(
        points,
        returns,
        theta,
        hyper.effective,
        hyper.signal,
        hyper.noise,
        mean,
        slope,
        counts,
        0.7 * values,
        0.7 * slopes,
        kernel == "matern",
    )
    return posterior, problem, theta + 0.5 * rng.normal(size=(4, d))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CRITERIA)
def test_values_against_the_twin(name, kernel):
    rng = np.random.default_rng(0)
    criterion, twin = CRITERIA[name]
    for _ in range(60):
        posterior, problem, candidates = moderate(rng, kernel=kernel)
        expected = np.array([twin(problem, z[None]) for z in candidates])
        np.testing.assert_allclose(criterion.values(posterior, candidates), expected, rtol=1e-8)
        np.testing.assert_allclose([criterion.values(posterior, z) for z in candidates], expected, rtol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CRITERIA)
def test_twin_notices_errors(name, kernel):
    """Negative control: a wrong noise, a forgotten feature, a moved candidate and another kernel all fail."""
    criterion, twin = CRITERIA[name]
    posterior, problem, candidates = moderate(np.random.default_rng(1), 5, 8, 2, kernel)
    value = criterion.values(posterior, candidates[0])
    assert value == pytest.approx(twin(problem, candidates[:1]), rel=1e-8)
    for broken in (problem._replace(noise=problem.noise * 1.01), problem._replace(slopes=0.99 * problem.slopes)):
        assert value != pytest.approx(twin(broken, candidates[:1]), rel=1e-6)
    assert value != pytest.approx(twin(problem, candidates[:1] + 1e-3), rel=1e-6)
    assert value != pytest.approx(twin(problem._replace(matern=not problem.matern), candidates[:1]), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CRITERIA)
def test_gradients_by_finite_differences(name, kernel):
    rng = np.random.default_rng(2)
    h = 1e-5
    for d, n, k in ((1, 1, 0), (1, 7, 2), (4, 3, 0), (9, 4, 2), (3, 12, 3), (12, 20, 0)):
        posterior, _, candidates = moderate(rng, d, n, k, kernel)
        criterion = CRITERIA[name][0]
        values, gradients = criterion.values_and_gradients(posterior, candidates)
        np.testing.assert_allclose(values, criterion.values(posterior, candidates), rtol=1e-12)
        steps = h * np.eye(d)
        difference = np.stack(
            [criterion.values(posterior, candidates + s) - criterion.values(posterior, candidates - s) for s in steps],
            1,
        ) / (2 * h)
        scale = np.abs(difference).max()
        assert np.abs(gradients - difference).max() <= 1e-7 * scale
        assert np.abs(0.999 * gradients - difference).max() > 1e-7 * scale
        single = criterion.values_and_gradients(posterior, candidates[0])
        np.testing.assert_allclose(single[1], gradients[0], rtol=1e-9, atol=1e-11 * scale)
        assert np.ndim(single[0]) == 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CRITERIA)
def test_gradients_far_from_the_centre(name, kernel):
    """Where ½|t|² is large the remainder kernel takes its other branch; the gradient must follow."""
    rng = np.random.default_rng(3)
    posterior, _, _ = moderate(rng, 3, 12, 0)
    points = posterior.theta + 4 * posterior.scale * rng.normal(size=(6, 3))
    far = condition(
        np.vstack([points, posterior.points]),
        rng.normal(size=18),
        posterior.theta,
        posterior.hyper,
        kernel=KERNELS[kernel],
    )
    criterion = CRITERIA[name][0]
    candidates = np.vstack([points[:3] + 0.3, far.theta + 2 * far.scale * rng.normal(size=(3, 3))])
    _, gradients = criterion.values_and_gradients(far, candidates)
    h = 1e-5
    difference = np.stack(
        [criterion.values(far, candidates + s) - criterion.values(far, candidates - s) for s in h * np.eye(3)], 1
    ) / (2 * h)
    assert np.abs(gradients - difference).max() <= 1e-6 * np.abs(difference).max()
    assert (far.half_squares > 8).any()


def test_ill_conditioned_criteria_against_high_precision():
    rng = np.random.default_rng(4)
    for _ in range(6):
        case = dense.draw(rng, d=int(rng.integers(1, 7)), n=int(rng.integers(5, 10)), hard=True)
        number = dense.condition_number(case[2])
        posterior, truth = condition(*case[0], **case[1]), dense.precise(case[2], case[3])
        for name, (criterion, _) in CRITERIA.items():
            assert abs(criterion.values(posterior, case[3]) / truth[name] - 1) <= 50 * number * EPS + 1e-12, name


def test_expected_criterion_by_simulation():
    """MPD's closed form is E_y[μ'ᵀΣ'⁻¹μ']: draw y, condition on it, average."""
    rng = np.random.default_rng(5)
    posterior, _, candidates = moderate(rng, 3, 6, 0)
    z = candidates[:1]
    mean, variance = posterior.joint(z)
    mean = mean - (z - posterior.theta) @ posterior.mean_gradient  # What is left once the prior mean is taken off.
    draws, after = [], posterior
    for _ in range(1500):
        y = mean[0] + np.sqrt(variance[0, 0] + posterior.hyper.noise**2) * rng.standard_normal()
        after = condition(
            np.vstack([posterior.points, z]), [*posterior.residual, y], posterior.theta, posterior.hyper,
            mean_gradient=posterior.mean_gradient, counts=[*posterior.counts, 1.0],
        )  # fmt: skip
        draws.append(after.ascent_score)
    error = np.std(draws) / np.sqrt(len(draws))
    value = ExpectedAscent().values(posterior, z[0])
    assert abs(np.mean(draws) - value) < 5 * error
    assert abs(posterior.ascent_score - value) > 5 * error  # without look-ahead it would not pass
    assert TraceReduction().values(posterior, z[0]) == pytest.approx(posterior.trace() - after.trace(), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(-8, 8),
    st.floats(-8, 8),
    st.floats(-6, 1),
    st.floats(-4, 3),
    st.sampled_from(sorted(KERNELS)),
)
def test_no_nan_and_a_positive_guard(seed, point_scale, value_scale, noise, distance, kernel):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    spread, size = 10.0**point_scale, 10.0**value_scale
    points = spread * rng.normal(size=(n, d))
    hyper = Hyper(spread * rng.uniform(0.3, 3, d), size, size * 10.0**noise)
    posterior = condition(points, size * rng.normal(size=n), points[0], hyper, kernel=KERNELS[kernel])
    candidates = np.vstack(
        [points[0] + spread * 10.0**distance * rng.normal(size=(3, d)), points]
    )  # measured points too
    ahead = Lookahead(posterior, candidates)
    assert ahead.healthy.all()
    assert (ahead.residual >= 0.5 * posterior.unit_noise).all()
    assert (ahead.explained >= 0).all()
    for criterion, _ in CRITERIA.values():
        values, gradients = criterion.values_and_gradients(posterior, candidates)
        assert np.isfinite(values).all()
        assert np.isfinite(gradients).all()
        assert (values >= 0).all()


def test_a_broken_guard_is_reported_not_clipped():
    """If rounding ever made w negative, the value is NaN, which the maximiser drops."""
    posterior, _, candidates = moderate(np.random.default_rng(7), 3, 5, 0)
    posterior.unit_noise = -10.0
    for criterion, _ in CRITERIA.values():
        assert np.isnan(criterion.values(posterior, candidates)).all()
