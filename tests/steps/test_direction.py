"""ABS's step by hand: δ·Σ⁻¹μ and its cap."""

import numpy as np
import pytest
from lqr_lab import SMALL_LSTD, dense_posterior, exact_prior, iterations, lqr

from abps.errors import ConfigError
from abps.model import GP
from abps.model.aggregation import Marginal
from abps.model.prior import AdvantagePrior
from abps.steps.base import StepInput
from abps.steps.direction import ScaledDirection, capped


def given(prior, task, gp=None):
    """What the rule looks at after two outer iterations, and the prior mean."""
    measured = iterations(task)
    learner = measured.learned(prior, iteration=1)
    near = measured.neighbourhood()
    model = (gp or GP()).fit(near, learner.mean(near), np.random.default_rng(0))
    return StepInput(model, learner.weights)


@pytest.fixture(scope="module")
def plain():
    return given(AdvantagePrior(critics=SMALL_LSTD), lqr(2, 2))


def test_the_step_is_delta_times_the_most_probable_direction(plain):
    model, theta = plain.model, plain.model.neighbourhood.theta
    mu, sigma = dense_posterior(model.neighbourhood, model.hyper, theta, model.prior)
    expected = 1e-5 * np.linalg.solve(sigma, mu)
    move = ScaledDirection(1e-5)(plain)
    assert np.allclose(move.centre - theta, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert move.metrics["step_capped"] is False
    flat = 1e-5 * np.linalg.solve(sigma, mu - model.prior.gradient)
    assert not np.allclose(flat, expected, rtol=1e-3)  # The control: without ∇m̂ it would be another step.


def test_a_long_step_is_shrunk_to_the_upper_lengthscale_bound():
    gp = GP(lengthscale_low=0.01, lengthscale_high=0.04)
    situation = given(AdvantagePrior(critics=SMALL_LSTD), lqr(2, 2), gp)
    free, tied = (ScaledDirection(1e3, cap)(situation) for cap in (False, True))
    long, short = (move.centre - situation.model.neighbourhood.theta for move in (free, tied))
    assert np.abs(long).mean() > 0.04
    assert np.abs(short).mean() == pytest.approx(0.04)
    assert np.allclose(short / np.linalg.norm(short), long / np.linalg.norm(long))
    assert tied.metrics["step_capped"] is True
    assert free.metrics["step_capped"] is False


def test_capped():
    step = np.array([1.0, -3.0])
    assert capped(step, 2.0) is step
    assert np.allclose(capped(step, 1.0), [0.5, -1.5])
    assert np.array_equal(capped(np.zeros(2), 1.0), np.zeros(2))


def test_a_step_that_is_not_finite_is_not_taken(plain):
    assert np.abs(plain.model.posterior.direction).max() > 2.0
    with np.errstate(over="ignore"):
        move = ScaledDirection(1.7e308)(plain)
    assert np.array_equal(move.centre, plain.model.neighbourhood.theta)
    assert move.metrics["step_capped"] is None


def test_integrated_weights_count_as_known_at_their_posterior_mean():
    """The step is δ·Σ⁻¹μ with the covariance of fixed weights, not with the larger one of unknown weights."""
    task = lqr(horizon=200)
    situation = given(exact_prior(task, errors=(0.3, 0.0, -0.6), aggregation=Marginal(total=0.0)), task)
    model = situation.model
    fixed = model.posterior_given_weights(model.posterior.weights.mean)
    expected = np.linalg.solve(fixed.multiply(np.eye(2)), fixed.mu)
    step = ScaledDirection()(situation).centre - model.neighbourhood.theta
    assert np.allclose(step / np.linalg.norm(step), expected / np.linalg.norm(expected), rtol=1e-6)
    free = ScaledDirection()(StepInput(model)).centre - model.neighbourhood.theta
    assert not np.allclose(step / np.linalg.norm(step), free / np.linalg.norm(free), rtol=1e-4)  # The control.


def test_a_factor_must_be_positive():
    with pytest.raises(ConfigError, match="factor must be positive"):
        ScaledDirection(0.0)
