"""MPD's walk, by hand: where it starts, how long a step is, and when it stops."""

import numpy as np
import pytest
from lqr_lab import dense_posterior
from scipy.stats import norm

from abps.errors import ConfigError
from abps.model import Hyper
from abps.settings import replace
from abps.steps.base import StepInput
from abps.steps.walk import Walk


def by_hand(model, *, probability, max_steps, length):
    """The walk as the paper's appendix tells it."""
    near, hyper = model.neighbourhood, model.hyper
    theta, steps = near.theta, 0
    while steps < max_steps:
        mu, sigma = dense_posterior(near, hyper, theta)
        direction = np.linalg.solve(sigma, mu)
        theta, steps = theta + length * direction / np.linalg.norm(direction), steps + 1
        mu, sigma = dense_posterior(near, hyper, theta)
        if norm.cdf(np.sqrt(mu @ np.linalg.solve(sigma, mu))) <= probability:
            break
    return theta, steps


def test_the_walk_is_the_papers(model):
    move = Walk(probability=0.9)(StepInput(model))
    theta, steps = by_hand(model, probability=0.9, max_steps=1000, length=0.01)
    assert move.metrics["small_steps"] == steps
    assert 1 < steps < 1000
    start = model.neighbourhood.theta
    assert np.allclose(move.centre, theta, rtol=0, atol=1e-5 * np.linalg.norm(theta - start))
    assert move.metrics["probability_ascent_end"] <= 0.9
    wrong, _ = by_hand(model, probability=0.9, max_steps=1000, length=0.011)
    assert not np.allclose(move.centre, wrong, rtol=0, atol=1e-5)  # The comparison would notice.


def test_a_fine_walk_ends_at_the_step_where_the_probability_falls_below_its_bound(model):
    """Small steps pass through all probabilities: with a bound a tenth lower the walk would be longer."""
    steps = {p: by_hand(model, probability=p, max_steps=1000, length=0.001)[1] for p in (0.9, 0.81)}
    assert 1 < steps[0.9] < steps[0.81] < 1000
    for probability, expected in steps.items():
        move = Walk(length=0.001, probability=probability)(StepInput(model))
        assert move.metrics["small_steps"] == expected


def test_the_walk_stops_when_ascent_is_no_longer_probable(model):
    lengths = {p: Walk(probability=p)(StepInput(model)).metrics["small_steps"] for p in (0.65, 0.9, 0.999999)}
    assert lengths[0.65] >= lengths[0.9] >= lengths[0.999999]
    assert lengths[0.65] > lengths[0.999999]


def test_at_least_one_and_at_most_max_steps(model):
    """A probability that nothing reaches still gives one step; a walk that would go on is cut off."""
    hyper = Hyper(model.hyper.lengthscales, model.hyper.signal, 10 * model.hyper.signal)
    noisy = model.gp.model(model.neighbourhood, model.prior, hyper)  # Ascent is hardly more probable than not.
    assert noisy.posterior.max_probability < 0.999
    assert Walk(probability=1 - 1e-16)(StepInput(noisy)).metrics["small_steps"] == 1
    move = Walk(probability=0.501, max_steps=3)(StepInput(model))
    assert move.metrics["small_steps"] == 3
    assert np.linalg.norm(move.centre - model.neighbourhood.theta) <= 0.03 + 1e-12


def test_a_flat_posterior_stays(model):
    near = model.neighbourhood
    flat = replace(near, entries=tuple(replace(point, returns=0.0 * point.returns) for point in near.entries))
    hyper = Hyper(model.hyper.lengthscales, model.hyper.signal, model.hyper.noise)
    move = Walk()(StepInput(model.gp.model(flat, model.prior, hyper)))
    assert np.array_equal(move.centre, near.theta)
    assert move.metrics["small_steps"] == 0
    assert Walk()(StepInput(model)).metrics["small_steps"] > 0  # The control.


@pytest.mark.parametrize("wrong", [{"length": 0.0}, {"probability": 1.0}, {"probability": 0.0}, {"max_steps": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Walk(**wrong)
