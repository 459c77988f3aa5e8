"""The Gaussian process as a part, and a fitted one as a value: every setting does what it says."""

import dense_gp as dense
import numpy as np
import pytest
from scipy.special import ndtr

from abps.data.window import Point
from abps.errors import ConfigError, NumericsError
from abps.model import GP, Features, Hyper, Neighbourhood, PriorMean, condition
from abps.model import gp as gp_module
from abps.model.fit import SHARED, THOROUGH, WARM, fit
from abps.model.kernel import Matern52
from abps.normaliser import Normaliser
from abps.policies import PolicySpace
from abps.policies.linear import LinearTanh
from abps.settings import replace
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 4, 1, (-1.0,), (1.0,))
SPACE, PLAIN = PolicySpace(LinearTanh(), SPEC), Normaliser.empty(4)
HYPER = Hyper(np.full(4, 0.03), 0.8, 0.1, mean=0.2)


def near_of(seed=0, n=12, repeats=3, noise=0.05) -> Neighbourhood:
    """A centre with repeated returns, and probes around it, on a smooth function."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=4)
    slope = rng.normal(size=4)
    value = lambda x: np.tanh(12.0 * (x - theta) @ slope)  # noqa: E731
    entries = [Point(theta, PLAIN, value(theta) + noise * rng.normal(size=repeats), "centre", 0)]
    for move in 0.03 * rng.normal(size=(n - 1, 4)):
        entries.append(Point(theta + move, PLAIN, value(theta + move) + noise * rng.normal(size=1), "probe", 0))
    return Neighbourhood(SPACE.policy(theta, PLAIN), tuple(entries))


def constant(near, bound=None) -> PriorMean:
    return PriorMean(np.zeros(len(near.entries)), 0.0, np.zeros(4), mean_bound=bound)


def sloped(near, k=0) -> PriorMean:
    rng = np.random.default_rng(5)
    gradient = rng.normal(size=4)
    at_points = 0.3 + (near.points - near.theta) @ gradient
    if not k:
        return PriorMean(at_points, 0.3, gradient)
    slopes = 5.0 * rng.normal(size=(4, k))
    features = Features((near.points - near.theta) @ slopes, slopes, 0.25)
    return PriorMean(np.full(len(near.entries), 0.3), 0.3, np.zeros(4), features)


def twin(near, hyper, prior, *, matern=False, counts=None):
    """The dense posterior of ∇J at θ."""
    n = len(near.entries)
    features, slopes = np.zeros((n, 0)), np.zeros((4, 0))
    mean, gradient = prior.at_points + hyper.mean, prior.gradient
    if prior.features is not None:
        features, slopes = prior.features.values * hyper.feature_scale, prior.features.gradient * hyper.feature_scale
        mean = mean + prior.features.values.sum(1) * prior.features.prior
        gradient = gradient + prior.features.gradient.sum(1) * prior.features.prior
    problem = dense.Problem(
        near.points, near.returns, near.theta, hyper.effective, hyper.signal, hyper.noise, mean, gradient,
        np.ones(n) if counts is None else counts, features, slopes, matern,
    )  # fmt: skip
    return problem, *dense.gradient_posterior(problem)


def fitted(gp=None, near=None, prior=None, seed=0, **options):
    near = near_of() if near is None else near
    return (gp or GP()).fit(near, prior or constant(near, 1.0), np.random.default_rng(seed), **options)


# ---- the posterior of a model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("matern", [False, True])
@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("weigh", [False, True])
def test_the_posterior_is_that_of_the_dense_twin(matern, k, weigh):
    near = near_of()
    prior, hyper = sloped(near, k), replace(HYPER, feature_scale=0.3 if k else 0.0)
    gp = GP(kernel=Matern52(), weigh_repeats=weigh) if matern else GP(weigh_repeats=weigh)
    model = gp.model(near, prior, hyper)
    _, mu, sigma = twin(near, hyper, prior, matern=matern, counts=near.counts if weigh else None)
    np.testing.assert_allclose(model.posterior.mu, mu, rtol=1e-7, atol=1e-7 * np.abs(mu).max())
    np.testing.assert_allclose(model.posterior.multiply(np.eye(4)), sigma, rtol=1e-7, atol=1e-7 * np.abs(sigma).max())
    assert model.log_marginal_likelihood is None
    other = twin(near, hyper, prior, matern=matern, counts=None if weigh else near.counts)[1]
    assert np.abs(other - mu).max() > 1e-5 * np.abs(mu).max()  # The control: repeats count exactly when asked to.


def test_a_model_can_be_asked_elsewhere():
    near = near_of()
    model = GP().model(near, constant(near), HYPER)
    elsewhere = near.theta + 0.02
    problem = twin(near, HYPER, constant(near))[0]._replace(theta=elsewhere)
    mu, sigma = dense.gradient_posterior(problem)
    np.testing.assert_allclose(model.at(elsewhere).mu, mu, rtol=1e-7, atol=1e-7 * np.abs(mu).max())
    np.testing.assert_allclose(model.at(elsewhere).direction, np.linalg.solve(sigma, mu), rtol=1e-5, atol=1e-6)
    assert not np.allclose(model.at(elsewhere).mu, model.posterior.mu, rtol=1e-3)
    assert model.posterior is model.posterior


def test_integrated_weights_can_be_fixed():
    near = near_of()
    prior, hyper = sloped(near, 2), replace(HYPER, feature_scale=0.3)
    model = GP().model(near, prior, hyper)
    chosen = np.array([0.7, 0.1])
    mean = model.posterior.weights.mean
    assert prior.features is not None
    np.testing.assert_array_equal(model.weights(chosen), mean)
    np.testing.assert_allclose(model.mean_gradient(), prior.features.gradient @ mean)
    np.testing.assert_allclose(prior.slope(), prior.features.gradient @ [0.25, 0.25])
    fixed = model.posterior_given_weights(mean)
    known = prior._replace(
        at_points=prior.at_points + prior.features.values @ mean, gradient=prior.features.gradient @ mean, features=None
    )
    _, mu, sigma = twin(near, replace(hyper, feature_scale=0.0), known)
    np.testing.assert_allclose(fixed.mu, mu, rtol=1e-6, atol=1e-6 * np.abs(mu).max())
    np.testing.assert_allclose(fixed.multiply(np.eye(4)), sigma, rtol=1e-6, atol=1e-6 * np.abs(sigma).max())
    np.testing.assert_allclose(fixed.mu, model.posterior.mu, rtol=1e-6, atol=1e-6 * np.abs(mu).max())
    assert fixed.trace() < model.posterior.trace()
    without = GP().model(near, sloped(near), HYPER)
    assert without.weights(chosen) is chosen
    assert without.posterior_given_weights(chosen) is without.posterior
    np.testing.assert_array_equal(without.mean_gradient(), without.prior.gradient)
    np.testing.assert_array_equal(without.prior.slope(), without.prior.gradient)


def test_how_probably_points_are_better_than_the_centre():
    near = near_of()
    model = GP().model(near, constant(near), HYPER)
    points = near.theta + 0.02 * np.random.default_rng(3).normal(size=(5, 4))
    mean, probability = model.better(points)
    problem = twin(near, HYPER, constant(near))[0]
    offset, joint = dense.value_posterior(problem, np.vstack([points, near.theta]))
    np.testing.assert_allclose(mean, 0.2 + offset[:-1], rtol=1e-8)
    spread = [joint[k, k] + joint[5, 5] - 2 * joint[k, 5] for k in range(5)]
    np.testing.assert_allclose(probability, ndtr((offset[:-1] - offset[-1]) / np.sqrt(spread)), rtol=1e-6)
    independent = [joint[k, k] + joint[5, 5] for k in range(5)]
    wrong = ndtr((offset[:-1] - offset[-1]) / np.sqrt(independent))
    assert np.abs(wrong - probability).max() > 1e-3  # The control: their correlation matters.
    assert model.better(near.theta[None])[1][0] == pytest.approx(0.5)


def test_a_covariance_that_cannot_be_factored_gets_more_noise(monkeypatch):
    near = near_of()
    model, allowed = GP().model(near, constant(near), HYPER), []
    genuine = condition

    def brittle(points, returns, theta, hyper, **options):
        allowed.append(hyper.noise)
        if hyper.noise < 5.0:
            raise NumericsError("singular")
        return genuine(points, returns, theta, hyper, **options)

    monkeypatch.setattr(gp_module, "condition", brittle)
    np.testing.assert_allclose(model.posterior.hyper.noise, 10.0)
    np.testing.assert_allclose(allowed, [0.1, 1.0, 10.0])
    assert model.noise_raised == pytest.approx(100.0)
    hopeless = GP().model(near, constant(near), replace(HYPER, noise=1e-9))
    with pytest.raises(NumericsError, match="singular"):
        _ = hopeless.posterior
    monkeypatch.undo()
    assert GP().model(near, constant(near), HYPER).noise_raised == 1.0


# ---- fitting ---------------------------------------------------------------------------------------------------------


def test_a_fit_is_a_value_with_its_likelihood():
    model, again = fitted(), fitted()
    np.testing.assert_array_equal(model.hyper.lengthscales, again.hyper.lengthscales)
    problem = twin(model.neighbourhood, model.hyper, model.prior)[0]
    assert model.log_marginal_likelihood == pytest.approx(dense.log_likelihood(problem), rel=1e-8)
    assert model.fallback == ""
    assert (model.hyper.lengthscales >= 0.0025 * (1 - 1e-12)).all()
    assert (model.hyper.lengthscales <= 0.05 * (1 + 1e-12)).all()
    single = fitted(near=near_of(n=1))
    assert single.fallback == "single point"


def test_bounds_follow_the_settings():
    spread = np.std([point.returns for point in near_of().entries if len(point.returns) > 1])
    narrow = fitted(GP(lengthscale_low=0.01, lengthscale_high=0.011, signal_factor=1.0, noise_factor=1.0)).hyper
    assert (np.abs(np.log(narrow.lengthscales / 0.0105)) < 0.06).all()
    assert narrow.signal == pytest.approx(np.std(near_of().returns), rel=1e-9)
    assert narrow.noise == pytest.approx(spread, rel=1e-9)
    quiet = near_of(noise=0.0)
    assert fitted(GP(noise_floor=0.01, noise_factor=1.0), quiet).hyper.noise == pytest.approx(0.01)
    assert fitted(GP(scale_by_dimension=False)).hyper.scale_by_dimension is False


def test_the_noise_can_be_a_share_of_the_windows_spread():
    near = near_of(noise=0.001)
    repeats, spread = (fitted(GP(noise=kind, noise_factor=1.0), near).hyper.noise for kind in ("repeats", "spread"))
    assert spread == pytest.approx(gp_module.NOISE_SHARE * np.std(near.returns), rel=1e-9)
    assert repeats < 0.1 * spread
    loud = near_of(noise=5.0)
    both = [fitted(GP(noise=kind, noise_factor=1.0), loud).hyper.noise for kind in ("repeats", "spread")]
    assert both[1] >= both[0]


def test_a_shared_lengthscale_is_one_number():
    shared, own = (fitted(GP(shared_lengthscale=flag)) for flag in (True, False))
    assert np.ptp(shared.hyper.lengthscales) == 0.0 < np.ptp(own.hyper.lengthscales)
    assert own.log_marginal_likelihood is not None
    assert shared.log_marginal_likelihood is not None
    assert own.log_marginal_likelihood > shared.log_marginal_likelihood


def test_hyper_priors_draw_lengthscales_to_the_middle():
    near = near_of(n=3)
    free, held = (fitted(GP(hyper_priors=flag), near).hyper for flag in (False, True))
    middle = np.sqrt(0.0025 * 0.05)
    distance = lambda hyper: np.abs(np.log(hyper.lengthscales / middle)).mean()  # noqa: E731
    assert distance(held) < distance(free)


def test_the_effort_of_a_fit(monkeypatch):
    used = []
    genuine = fit
    monkeypatch.setattr(gp_module, "fit", lambda *a, **k: used.append(k["effort"]) or genuine(*a, **k))
    first = fitted()
    fitted(previous=first.hyper)
    fitted(previous=first.hyper, warm=True)
    fitted(warm=True)  # Without a last optimum there is nothing to polish.
    fitted(GP(refit="full"), previous=first.hyper, warm=True)
    fitted(GP(shared_lengthscale=True))
    assert used == [THOROUGH, THOROUGH, WARM, THOROUGH, THOROUGH, SHARED]


def test_a_warm_fit_is_not_worse_than_where_it_starts():
    first = fitted()
    warm = fitted(previous=first.hyper, warm=True)
    assert warm.log_marginal_likelihood is not None
    assert first.log_marginal_likelihood is not None
    assert warm.log_marginal_likelihood >= first.log_marginal_likelihood - 1e-9


def test_features_bring_their_scale():
    near = near_of(n=30)
    prior = sloped(near, 2)._replace(feature_scale=(0.2, 0.3))
    assert 0.2 * (1 - 1e-9) <= fitted(near=near, prior=prior).hyper.feature_scale <= 0.3 * (1 + 1e-9)
    assert fitted(near=near, prior=sloped(near)).hyper.feature_scale == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GP(lengthscale_low=0.2, lengthscale_high=0.1), "lengthscale_low <= lengthscale_high"),
        (lambda: GP(signal_factor=0.5), "must be at least 1"),
        (lambda: GP(noise_factor=0.5), "must be at least 1"),
        (lambda: GP(noise_floor=0.0), "noise_floor must be positive"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
