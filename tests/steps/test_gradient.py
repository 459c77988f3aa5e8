"""Steps along a gradient by hand: GIBO's, and the critics' own."""

import numpy as np
import pytest
from lqr_lab import constant_model, dense_posterior, exact_prior, iterations, lqr

from abps.errors import ConfigError
from abps.model import GP, Hyper
from abps.settings import replace
from abps.steps.base import StepInput
from abps.steps.gradient import MeanGradient, NormalisedGradient

# ---- GIBO ----------------------------------------


@pytest.mark.parametrize("normalise", [True, False])
def test_the_step_is_the_gradient_in_units_of_the_lengthscales(model, normalise):
    theta, scale = model.neighbourhood.theta, model.hyper.lengthscales * 2.0  # √d
    mu, _ = dense_posterior(model.neighbourhood, model.hyper, theta)
    expected = 0.7 * scale * (mu / np.linalg.norm(mu) if normalise else mu)
    taken = NormalisedGradient(0.7, normalise)(StepInput(model)).centre - theta
    assert np.allclose(taken, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    assert not np.allclose(taken, expected / np.linalg.norm(expected), rtol=1e-2)  # Not a unit step: the control.


def test_a_flat_posterior_stays(model):
    near, mean = model.neighbourhood, model.hyper.mean
    flat = replace(
        near, entries=tuple(replace(p, returns=np.full_like(p.returns, mean * near.scale)) for p in near.entries)
    )
    assert np.array_equal(flat.returns, np.full(len(flat.entries), mean))
    move = NormalisedGradient()(StepInput(model.gp.model(flat, model.prior, model.hyper)))
    assert np.array_equal(move.centre, near.theta)
    assert not np.array_equal(NormalisedGradient()(StepInput(model)).centre, near.theta)  # The control.


# ---- the critics' own gradient ----------------------------------------


@pytest.fixture(scope="module")
def with_critics():
    """A process whose prior mean is m̂, and the gradient ∇m̂ it was made of."""
    task = lqr(horizon=200)
    measured = iterations(task)
    learner = measured.learned(exact_prior(task, errors=(0.5, 0.0, -0.5)), iteration=1)
    near = measured.neighbourhood()
    model = GP().fit(near, learner.mean(near), np.random.default_rng(0))
    return model, learner.gradients(near) @ learner.weights


def test_the_step_follows_the_critics_and_has_the_given_length(with_critics):
    model, gradient = with_critics
    step = MeanGradient(0.07)(StepInput(model)).centre - model.neighbourhood.theta
    assert np.allclose(step, 0.07 * gradient / np.linalg.norm(gradient))
    mu = model.posterior.mu
    assert not np.allclose(step, 0.07 * mu / np.linalg.norm(mu), rtol=1e-3)


def test_no_gradient_no_step(model):
    """A constant mean has none."""
    assert np.array_equal(MeanGradient()(StepInput(model)).centre, model.neighbourhood.theta)


@pytest.mark.parametrize("rule", [NormalisedGradient, MeanGradient])
def test_a_length_must_be_positive(rule):
    with pytest.raises(ConfigError, match="length must be positive"):
        rule(0.0)


def test_the_step_has_the_given_length_whatever_the_lengthscales_are(near):
    model = constant_model(near)
    longer = Hyper(2.0 * model.hyper.lengthscales, model.hyper.signal, model.hyper.noise, model.hyper.mean)
    for hyper in (model.hyper, longer):
        step = NormalisedGradient()(StepInput(model.gp.model(near, model.prior, hyper))).centre - near.theta
        assert np.linalg.norm(step / hyper.effective) == pytest.approx(1.0)
