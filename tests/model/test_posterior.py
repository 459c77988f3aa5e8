"""The factored posterior against the dense twin, scikit-learn, high precision, and its own limits."""

from typing import Any, cast

import dense_gp as dense
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from abps.errors import NumericsError, ShapeError
from abps.model import Features, Hyper, condition
from abps.model.kernel import Matern52, SquaredExponential

EPS = np.finfo(float).eps


def close(found, reference, tolerance=1e-8):
    reference = np.asarray(reference)
    return np.max(np.abs(np.asarray(found) - reference)) <= tolerance * max(np.max(np.abs(reference)), 1e-300)


def covariance(posterior):
    """Σ (d, d)."""
    return posterior.multiply(np.eye(len(posterior.theta)))


def posterior_of(case):
    return condition(*case[0], **case[1])


def test_matches_dense_twin_on_random_problems():
    """d up to 300, n up to 100, condition up to 1e7; thousands more in benchmarks/micro/gp_accuracy.py."""
    rng = np.random.default_rng(5)
    done = 0
    while done < 120:
        case = dense.draw(rng)
        if dense.condition_number(case[2]) > 1e7:
            continue
        done += 1
        posterior = posterior_of(case)
        mu, sigma = dense.gradient_posterior(case[2])
        prior = np.diag(case[2].signal ** 2 / case[2].effective ** 2) + case[2].slopes @ case[2].slopes.T
        assert posterior.jitter == 0.0
        assert close(posterior.mu, mu)
        # The twin subtracts from the prior, so its own digits are relative to the prior.
        assert np.max(np.abs(covariance(posterior) - sigma)) <= 1e-8 * np.max(np.abs(prior))
        np.testing.assert_allclose(posterior.trace(), np.trace(covariance(posterior)), rtol=1e-10)
        mean, variance = posterior.joint(case[3][None])
        slope = (case[3] - case[2].theta) @ case[2].mean_gradient  # The prior mean, to first order around θ.
        twin_mean, twin_variance = dense.value_posterior(case[2], case[3][None])
        assert abs(mean[0] - slope - twin_mean[0]) <= 1e-8 * max(abs(twin_mean[0]), case[2].signal, abs(slope))
        prior_variance = case[2].signal ** 2 + (dense.linear_features(case[2], case[3][None]) ** 2).sum()
        assert abs(variance - twin_variance).max() <= 1e-8 * prior_variance


def test_twin_notices_a_wrong_kernel():
    """Negative control: another √d factor, a dropped mean, or a wrong count fail the comparison above."""
    case = dense.draw(np.random.default_rng(6), d=5, n=12)
    mu, _ = dense.gradient_posterior(case[2])
    (points, returns, theta, hyper), arguments = case[0], case[1]
    assert close(condition(points, returns, theta, hyper, **arguments).mu, mu)
    unscaled = Hyper(hyper.lengthscales, hyper.signal, hyper.noise, 0.0, hyper.feature_scale, False)
    assert not close(condition(points, returns, theta, unscaled, **arguments).mu, mu)
    for missing in ("mean_at_points", "mean_gradient", "counts"):
        broken = {**arguments, missing: None}
        assert not close(condition(points, returns, theta, hyper, **broken).mu, mu)


def test_operations_agree_with_the_dense_covariance():
    rng = np.random.default_rng(7)
    for d, n in ((1, 1), (1, 9), (6, 3), (3, 20), (40, 12)):
        posterior = posterior_of(dense.draw(rng, d=d, n=n))
        sigma, v = covariance(posterior), rng.normal(size=(4, d))
        close_to = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9 * np.abs(b).max())  # noqa: E731
        close_to(sigma, sigma.T)
        close_to(posterior.multiply(v), v @ sigma)
        close_to(posterior.multiply(posterior.solve(v)), v)
        close_to(posterior.quadratic(v), np.einsum("ij,jk,ik->i", v, sigma, v))
        close_to(posterior.direction, posterior.solve(posterior.mu))
        assert posterior.ascent_score == pytest.approx(posterior.mu @ posterior.direction, rel=1e-9)
        expected = ndtr(v @ posterior.mu / np.sqrt(posterior.quadratic(v)))
        close_to(posterior.probability_of_ascent(v), expected)
        close_to(np.exp(posterior.log_probability_of_ascent(v)), expected)
        assert posterior.probability_of_ascent(posterior.direction) == pytest.approx(
            posterior.max_probability, rel=1e-9
        )
        assert np.all(posterior.probability_of_ascent(v) <= posterior.max_probability + 1e-12)
        assert isinstance(posterior.probability_of_ascent(v[0]), float)
    assert posterior.probability_of_ascent(np.zeros(40)) == 0.5


def test_agrees_with_scikit_learn():
    """Values directly; the gradient by finite differences of scikit-learn's predictions."""
    rng = np.random.default_rng(10)
    for _ in range(5):
        d, n = int(rng.integers(1, 7)), int(rng.integers(2, 15))
        hyper = Hyper(rng.uniform(0.5, 1.5, d), 1.4, 0.2)
        points, returns, theta = rng.normal(size=(n, d)), rng.normal(size=n), 0.3 * rng.normal(size=d)
        counts = rng.integers(1, 4, n).astype(float)
        options: dict[str, Any] = {"alpha": 0.04 / counts, "optimizer": None}
        library = GaussianProcessRegressor(
            ConstantKernel(1.4**2, "fixed") * RBF(cast("Any", hyper.effective), "fixed"), **options
        ).fit(points, returns)
        posterior = condition(points, returns, theta, hyper, counts=counts)
        where = rng.normal(size=(4, d))
        mean, joint = library.predict(where, return_cov=True)
        found_mean, found_covariance = posterior.joint(where)
        np.testing.assert_allclose(found_mean, mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found_covariance, joint, rtol=1e-8, atol=1e-10)
        h = 1e-4
        stencil = np.vstack([theta + s * e for e in np.eye(d) for s in (h, -h)])
        mean, joint = library.predict(stencil, return_cov=True)
        difference = np.kron(np.eye(d), [1.0, -1.0]) / (2 * h)
        np.testing.assert_allclose(posterior.mu, difference @ mean, atol=1e-6)
        np.testing.assert_allclose(covariance(posterior), difference @ joint @ difference.T, atol=1e-5)
        assert np.abs(posterior.mu - difference @ library.predict(stencil + 0.2)).max() > 1e-3  # elsewhere it differs


def test_ill_conditioned_problems_against_high_precision():
    """Near-duplicates, noise down to 1e-6 of the signal, lengthscales at their bounds: error ≤ 20 × condition × eps."""
    rng = np.random.default_rng(11)
    hard = 0
    for _ in range(8):
        case = dense.draw(rng, d=int(rng.integers(1, 8)), n=int(rng.integers(5, 10)), hard=True)
        condition_number = dense.condition_number(case[2])
        hard += condition_number > 1e7
        posterior, truth = posterior_of(case), dense.precise(case[2], case[3])
        found = {
            "mu": posterior.mu,
            "sigma": covariance(posterior),
            "direction": posterior.direction,
            "c0": posterior.ascent_score,
        }
        for name, value in found.items():
            assert close(value, truth[name], 20 * condition_number * EPS + 1e-13), (name, condition_number)
        for name, error in dense.errors(found, {name: truth[name] * (1 + 1e-2) for name in found}).items():
            assert error > 20 * condition_number * EPS or condition_number > 1e11, name  # it would notice
    assert hard >= 2


def test_features_without_prior_uncertainty_are_the_plain_process():
    rng = np.random.default_rng(12)
    points, returns, theta = rng.normal(size=(7, 3)), rng.normal(size=7), np.zeros(3)
    features = Features(rng.normal(size=(7, 2)), rng.normal(size=(3, 2)))
    plain = condition(points, returns, theta, Hyper(np.ones(3), 1.0, 0.1))
    for scale, tolerance in ((0.0, 1e-14), (1e-7, 1e-11)):
        other = condition(points, returns, theta, Hyper(np.ones(3), 1.0, 0.1, feature_scale=scale), features=features)
        assert close(other.mu, plain.mu, tolerance)
        assert close(covariance(other), covariance(plain), tolerance)
        assert np.abs(other.weights.mean).max() < 1e-10
    grown = condition(points, returns, theta, Hyper(np.ones(3), 1.0, 0.1, feature_scale=1.0), features=features)
    assert not close(grown.mu, plain.mu, 1e-3)


def test_feature_weights_are_found_when_the_features_explain_the_data():
    rng = np.random.default_rng(13)
    theta, slopes = np.zeros(6), rng.normal(size=(6, 2))
    points = 0.3 * rng.normal(size=(40, 6))
    truth = np.array([0.8, -0.5])
    returns = points @ slopes @ truth + 0.01 * rng.normal(size=40)
    hyper = Hyper(np.ones(6), 0.05, 0.01, feature_scale=1.0)
    for prior in (0.0, 0.5):
        posterior = condition(points, returns, theta, hyper, features=Features(points @ slopes, slopes, prior))
        assert np.abs(posterior.weights.mean - truth).max() < 5 * np.sqrt(np.diag(posterior.weights.covariance)).max()
        assert np.abs(posterior.weights.mean - truth).max() < 0.1
        np.testing.assert_allclose(posterior.mu, slopes @ truth, atol=0.1)
    with pytest.raises(ShapeError, match="features"):
        _ = condition(points, returns, theta, hyper).weights


def test_far_noise_returns_the_prior_and_noiseless_data_pin_the_gradient():
    rng = np.random.default_rng(14)
    points, returns, theta = rng.normal(size=(5, 2)), rng.normal(size=5), np.zeros(2)
    loud = condition(points, returns, theta, Hyper(np.ones(2), 1.0, 1e6), mean_gradient=[1.0, 2.0])
    np.testing.assert_allclose(loud.mu, [1.0, 2.0], atol=1e-9)
    np.testing.assert_allclose(covariance(loud), np.eye(2) / 2, atol=1e-9)
    h = 1e-3
    cross = np.vstack([h * np.eye(2), -h * np.eye(2)])
    pinned = condition(cross, cross @ [3.0, -1.0], theta, Hyper(np.ones(2), 10.0, 1e-5))
    np.testing.assert_allclose(pinned.mu, [3.0, -1.0], atol=1e-2)
    assert pinned.trace() < 1e-3


def test_repeats_equal_their_average_with_counts():
    rng = np.random.default_rng(15)
    points, returns = rng.normal(size=(4, 3)), rng.normal(size=4)
    hyper = Hyper(np.ones(3), 1.0, 0.3)
    extra = rng.normal(size=2)
    many = condition(np.vstack([points, points[:1], points[:1]]), [*returns, *extra], np.zeros(3), hyper)
    averaged = np.array([np.mean([returns[0], *extra]), *returns[1:]])
    few = condition(points, averaged, np.zeros(3), hyper, counts=[3.0, 1, 1, 1])
    assert close(many.mu, few.mu, 1e-11)
    assert close(covariance(many), covariance(few), 1e-11)


def test_noiseless_duplicates_need_jitter_and_report_it():
    points = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]])
    posterior = condition(points, [1.0, 1.0, 2.0], np.zeros(2), Hyper(np.ones(2), 1.0, 0.0))
    assert posterior.jitter > 0
    assert posterior.jitter_bound == np.inf
    assert np.isfinite(posterior.mu).all()
    quiet = condition(points, [1.0, 1.0, 2.0], np.zeros(2), Hyper(np.ones(2), 1.0, 1e-6))
    assert quiet.jitter == 0.0 == quiet.jitter_bound


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10**6), st.floats(-8, 8), st.floats(-8, 8), st.floats(-6, 2), st.sampled_from([0, 2]), st.booleans()
)
def test_no_nan_over_sixteen_orders_of_magnitude(seed, point_scale, value_scale, noise, k, matern):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    spread, size = 10.0**point_scale, 10.0**value_scale
    points = spread * rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3)
    hyper = Hyper(spread * rng.uniform(0.1, 3, d), size, size * 10.0**noise, feature_scale=float(k))
    features = Features(size * rng.normal(size=(n, k)), size / spread * rng.normal(size=(d, k))) if k else None
    kernel = Matern52() if matern else SquaredExponential()
    posterior = condition(points, size * rng.normal(size=n), points[0], hyper, features=features, kernel=kernel)
    v = rng.normal(size=d)
    for value in (
        posterior.mu,
        covariance(posterior),
        posterior.solve(v),
        posterior.quadratic(v),
        posterior.trace(),
        posterior.direction,
    ):
        assert np.isfinite(value).all()
    assert posterior.quadratic(v) >= 0
    assert 0.5 <= posterior.max_probability <= 1
    assert np.isfinite(posterior.log_probability_of_ascent(v))
    mean, joint = posterior.joint(points + spread)
    assert np.isfinite(mean).all()
    assert np.linalg.eigvalsh(joint)[0] >= -1e-12 * max(np.abs(joint).max(), size**2)
    assert np.linalg.eigvalsh(covariance(posterior))[0] >= -1e-12 * np.abs(covariance(posterior)).max()


def matern_case(rng, d, n, k):
    """A problem on which the twin keeps its digits."""
    hyper = Hyper(rng.uniform(0.5, 2, d), rng.uniform(0.5, 2), rng.uniform(0.05, 0.3), feature_scale=0.7 if k else 0.0)
    points, theta, returns = rng.normal(size=(n, d)), 0.3 * rng.normal(size=d), rng.normal(size=n)
    points[0] = theta
    values, slopes = rng.normal(size=(n, k)), 0.3 * rng.normal(size=(d, k))
    mean, slope, counts = 0.1 * rng.normal(size=n), 0.2 * rng.normal(size=d), rng.integers(1, 4, n).astype(float)
    arguments = {
        "mean_at_points": mean,
        "mean_gradient": slope,
        "counts": counts,
        "features": Features(values, slopes) if k else None,
        "kernel": Matern52(),
    }
    problem = dense.Problem(
        points, returns, theta, hyper.effective, hyper.signal, hyper.noise, mean, slope, counts,
        0.7 * values, 0.7 * slopes, matern=True,
    )  # fmt: skip
    return (points, returns, theta, hyper), arguments, problem, theta + 0.5 * rng.normal(size=(4, d))


def test_matern_matches_the_dense_twin():
    """J and ∇J; the twin subtracts a difference of Gram matrices from the prior."""
    rng = np.random.default_rng(19)
    for d, n, k in ((1, 1, 0), (1, 7, 2), (4, 3, 0), (9, 4, 2), (3, 12, 3), (12, 20, 0), (40, 25, 0), (40, 25, 2)):
        case = matern_case(rng, d, n, k)
        posterior, problem = posterior_of(case), case[2]
        mu, sigma = dense.gradient_posterior(problem)
        assert posterior.jitter == 0.0
        assert close(posterior.mu, mu)
        assert close(covariance(posterior), sigma)
        assert close(posterior.solve(posterior.mu), np.linalg.solve(sigma, mu))
        assert posterior.ascent_score == pytest.approx(mu @ np.linalg.solve(sigma, mu), rel=1e-8)
        assert posterior.trace() == pytest.approx(np.trace(sigma), rel=1e-8)
        mean, joint = posterior.joint(case[3])
        slope = (case[3] - problem.theta) @ problem.mean_gradient  # The prior mean, to first order around θ.
        twin_mean, twin_covariance = dense.value_posterior(problem, case[3])
        np.testing.assert_allclose(mean, slope + twin_mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(joint, twin_covariance, rtol=1e-8, atol=1e-10)
        other = problem._replace(matern=False)  # Negative control: the squared exponential is another process.
        if n > 1:
            assert not close(posterior.mu, dense.gradient_posterior(other)[0], 1e-4)
            assert not close(covariance(posterior), dense.gradient_posterior(other)[1], 1e-4)


def test_matern_agrees_with_scikit_learn():
    """The gradient by finite differences of scikit-learn's predictions."""
    rng = np.random.default_rng(20)
    d, n, h = 3, 10, 1e-4
    hyper = Hyper(rng.uniform(0.5, 1.5, d), 1.4, 0.2)
    points, returns, theta = rng.normal(size=(n, d)), rng.normal(size=n), 0.3 * rng.normal(size=d)
    kernel = ConstantKernel(1.4**2, "fixed") * Matern(hyper.effective * np.sqrt(5 / 3), "fixed", nu=2.5)
    options: dict[str, Any] = {"alpha": 0.04, "optimizer": None}
    library = GaussianProcessRegressor(kernel, **options).fit(points, returns)
    posterior = condition(points, returns, theta, hyper, kernel=Matern52())
    mean, joint = library.predict(points + 0.3, return_cov=True)
    found_mean, found_covariance = posterior.joint(points + 0.3)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found_covariance, joint, rtol=1e-8, atol=1e-10)
    stencil = np.vstack([theta + s * e for e in np.eye(d) for s in (h, -h)])
    mean, joint = library.predict(stencil, return_cov=True)
    difference = np.kron(np.eye(d), [1.0, -1.0]) / (2 * h)
    np.testing.assert_allclose(posterior.mu, difference @ mean, atol=1e-6)
    # Matérn's fifth derivative jumps at zero distance: the difference errs by the first power of the step.
    np.testing.assert_allclose(covariance(posterior), difference @ joint @ difference.T, atol=1e-3)
    assert np.abs(covariance(posterior) - gradient_covariance(posterior)).max() > 1e-2


def gradient_covariance(posterior):
    """The prior's, which the data must have shrunk."""
    return np.diag((posterior.hyper.signal / posterior.hyper.effective) ** 2)


def test_the_joint_prediction_has_the_prior_mean_and_the_slope_of_the_gradient():
    """Around θ the mean is m(θ) + constant + slope, and its slope at θ is μ, whatever the features' prior is."""
    rng = np.random.default_rng(21)
    points, returns, theta = rng.normal(size=(7, 3)), rng.normal(size=7), 0.2 * rng.normal(size=3)
    hyper = Hyper(np.ones(3), 1.0, 0.1, mean=0.4, feature_scale=0.7)
    features = Features(rng.normal(size=(7, 2)), rng.normal(size=(3, 2)), 0.3)
    posterior = condition(
        points, returns, theta, hyper, mean_at_points=np.ones(7), mean_at_theta=1.0,
        mean_gradient=[0.1, -0.2, 0.3], features=features,
    )  # fmt: skip
    h = 1e-5
    ups, downs = (posterior.joint(theta + sign * h * np.eye(3))[0] for sign in (1, -1))
    np.testing.assert_allclose((ups - downs) / (2 * h), posterior.mu, rtol=1e-7, atol=1e-8)
    far = condition(points, returns, theta, Hyper(np.ones(3), 1.0, 1e6, mean=0.4), mean_at_theta=1.0)
    np.testing.assert_allclose(far.joint(theta[None])[0], 1.4, atol=1e-6)


def test_order_of_points_does_not_matter():
    case = dense.draw(np.random.default_rng(17), d=4, n=11)
    (points, returns, theta, hyper), arguments = case[0], dict(case[1])
    order = np.random.default_rng(18).permutation(11)
    shuffled = {key: arguments[key][order] for key in ("mean_at_points", "counts")}
    features = arguments["features"]
    if features is not None:
        shuffled["features"] = features._replace(values=features.values[order])
    other = condition(points[order], returns[order], theta, hyper, mean_gradient=arguments["mean_gradient"], **shuffled)
    assert close(other.mu, posterior_of(case).mu, 1e-9)


def test_mistakes_are_named():
    hyper = Hyper(np.ones(2), 1.0, 0.1)
    with pytest.raises(ShapeError, match="lengthscales"):
        condition(np.zeros((2, 3)), np.zeros(2), np.zeros(3), hyper)
    with pytest.raises(ShapeError, match="returns has shape"):
        condition(np.zeros((2, 2)), np.zeros(3), np.zeros(2), hyper)
    with pytest.raises(ShapeError, match="not finite"):
        condition(np.zeros((1, 2)), [np.nan], np.zeros(2), hyper)
    with pytest.raises(ShapeError, match="counts"):
        condition(np.zeros((1, 2)), [0.0], np.zeros(2), hyper, counts=[0.0])
    with pytest.raises(ShapeError, match="at least one"):
        condition(np.zeros((0, 2)), np.zeros(0), np.zeros(2), hyper)
    with pytest.raises(ShapeError, match="vectors"):
        condition(np.zeros((1, 2)), [0.0], np.zeros(2), hyper).solve(np.ones(3))
    with pytest.raises((NumericsError, ShapeError)), np.errstate(all="ignore"):
        condition(np.full((1, 2), 1e300), [0.0], np.full(2, -1e300), Hyper(np.full(2, 1e-300), 1.0, 0.1))
