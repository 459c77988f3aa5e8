"""MPD's walk, by hand: where it starts, how long a step is, and when it stops."""

import numpy as np
import pytest
from scipy.stats import norm

from abps.search.local import constant_prior


@pytest.fixture
def ready(lab):
    """A search whose iteration is over but for the step, on an LQR with four parameters."""
    task = lab.lqr(2, 2)

    def make(**changes):
        search = lab.search("mpd", task, **changes)
        lab.run(search, task, 5)
        return search

    return make


def dense_posterior(search, theta):
    """μ and Σ from textbook formulas at the fitted hyper-parameters."""
    hyper, points = search.hyper, search.points
    scale = hyper.effective
    kernel = hyper.signal**2 * np.exp(-0.5 * (((points[:, None] - points) / scale) ** 2).sum(-1))
    kernel += hyper.noise**2 * np.eye(len(points))
    slope = hyper.signal**2 * np.exp(-0.5 * (((points - theta) / scale) ** 2).sum(-1))
    cross = (((points - theta) / scale**2) * slope[:, None]).T
    mu = cross @ np.linalg.solve(kernel, search.returns - hyper.mean)
    return mu, np.diag((hyper.signal / scale) ** 2) - cross @ np.linalg.solve(kernel, cross.T)


def walk(search, *, probability, max_steps, step):
    """The walk as the paper's appendix tells it."""
    theta, steps = search.centre, 0
    while steps < max_steps:
        mu, sigma = dense_posterior(search, theta)
        direction = np.linalg.solve(sigma, mu)
        theta, steps = theta + step * direction / np.linalg.norm(direction), steps + 1
        mu, sigma = dense_posterior(search, theta)
        if norm.cdf(np.sqrt(mu @ np.linalg.solve(sigma, mu))) <= probability:
            break
    return theta, steps


def test_the_walk_is_the_papers(ready):
    search = ready(probability=0.9)
    move = search._move()
    theta, steps = walk(search, probability=0.9, max_steps=1000, step=0.01)
    assert move.metrics["small_steps"] == steps
    assert 1 < steps < 1000
    assert np.allclose(move.centre, theta, rtol=0, atol=1e-5 * np.linalg.norm(theta - search.centre))
    assert move.metrics["probability_ascent_end"] <= 0.9
    wrong, _ = walk(search, probability=0.9, max_steps=1000, step=0.011)
    assert not np.allclose(move.centre, wrong, rtol=0, atol=1e-5)  # The comparison would notice.


def test_the_walk_stops_when_ascent_is_no_longer_probable(ready):
    lengths = {p: ready(probability=p)._move().metrics["small_steps"] for p in (0.65, 0.9, 0.999999)}
    assert lengths[0.65] >= lengths[0.9] >= lengths[0.999999]
    assert lengths[0.65] > lengths[0.999999]


def test_at_least_one_and_at_most_max_steps(ready):
    """A probability that nothing reaches still gives one step; a walk that would go on is cut off."""
    sure = ready(probability=1 - 1e-16)
    sure.hyper = type(sure.hyper)(sure.hyper.lengthscales, sure.hyper.signal, 10 * sure.hyper.signal)
    sure._posterior = None  # Drowned in noise: ascent is hardly more probable than not.
    assert sure.posterior.max_probability < 0.999
    assert sure._move().metrics["small_steps"] == 1
    cut = ready(probability=0.501, max_steps=3)
    move = cut._move()
    assert move.metrics["small_steps"] == 3
    assert np.linalg.norm(move.centre - cut.centre) <= 0.03 + 1e-12


def test_a_flat_posterior_stays(ready, monkeypatch):
    search = ready()
    monkeypatch.setattr(type(search), "returns", property(lambda self: np.zeros(len(self.window))))
    search.hyper = type(search.hyper)(search.hyper.lengthscales, search.hyper.signal, search.hyper.noise)
    search._posterior = None
    move = search._move()
    assert np.array_equal(move.centre, search.centre)
    assert move.metrics["small_steps"] == 0


def test_the_constant_mean_is_fitted_within_its_bound(lab):
    task = lab.lqr(reward_scale=0.01)  # Scaled returns near −30.
    search = lab.search("mpd", task)
    lab.iterate(search, task)
    assert search.hyper.mean == -1.0
    task = lab.lqr(reward_scale=1.0)
    search = lab.search("mpd", task)
    lab.iterate(search, task)
    assert search.returns.min() <= search.hyper.mean < 0
    prior = constant_prior(np.zeros((3, 2)), 1.0)
    assert (prior.at_theta, prior.mean_bound) == (0.0, 1.0)
    assert not prior.gradient.any()
