"""ABS's step by hand: δ·Σ⁻¹μ and its cap."""

import numpy as np
import pytest

from abps.config import GpConfig, replace
from abps.search.abs import capped


def ready(lab, task, **changes):
    search = lab.search("abs", task, **changes)
    lab.run(search, task, 5)
    return search


def test_the_step_is_delta_times_the_most_probable_direction(lab):
    task = lab.lqr(2, 2)
    search = ready(lab, task, step=1e-5)
    hyper, points, theta = search.hyper, search.points, search.centre
    prior = search._prior(points)
    scale = hyper.effective
    kernel = hyper.signal**2 * np.exp(-0.5 * (((points[:, None] - points) / scale) ** 2).sum(-1))
    inverse = np.linalg.inv(kernel + hyper.noise**2 * np.eye(len(points)))
    decay = hyper.signal**2 * np.exp(-0.5 * (((points - theta) / scale) ** 2).sum(-1))
    cross = (((points - theta) / scale**2) * decay[:, None]).T
    mu = prior.gradient + cross @ inverse @ (search.returns - prior.at_points)
    sigma = np.diag((hyper.signal / scale) ** 2) - cross @ inverse @ cross.T
    expected = 1e-5 * np.linalg.solve(sigma, mu)
    move = search._move()
    assert np.allclose(move.centre - theta, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert move.metrics["step_capped"] is False
    flat = 1e-5 * np.linalg.solve(sigma, mu - prior.gradient)
    assert not np.allclose(flat, expected, rtol=1e-3)  # The control: without ∇m̂ it would be another step.


def test_a_long_step_is_shrunk_to_the_upper_lengthscale_bound(lab):
    task = lab.lqr(2, 2)
    gp = GpConfig(starts=3, polished=1, iterations=15, lengthscale_low=0.01, lengthscale_high=0.04)
    free, tied = (ready(lab, task, step=1e-4, gp=gp) for _ in range(2))
    free.config = replace(free.config, step=1e3, step_cap=False)
    tied.config = replace(tied.config, step=1e3)
    long, short = (search._move().centre - search.centre for search in (free, tied))
    assert np.abs(long).mean() > 0.04
    assert np.abs(short).mean() == pytest.approx(0.04)
    assert np.allclose(short / np.linalg.norm(short), long / np.linalg.norm(long))
    assert tied._move().metrics["step_capped"] is True
    assert free._move().metrics["step_capped"] is False


def test_a_step_is_shrunk_to_the_change_of_actions_that_is_trusted(lab):
    task = lab.lqr(2, 2)
    free, tied, loose = (ready(lab, task, step=1e-4) for _ in range(3))
    free.config = replace(free.config, step=1.0, step_cap=False)
    tied.config = replace(free.config, action_cap=0.05)
    loose.config = replace(free.config, action_cap=1e6)
    long, short = free._move(), tied._move()
    assert free.action_change(long.centre) > 0.06
    assert 0.0499 < tied.action_change(short.centre) <= 0.0506
    moved = [move.centre - free.centre for move in (long, short)]
    assert np.allclose(*(move / np.linalg.norm(move) for move in moved))
    assert short.metrics["step_capped"] is True
    assert np.array_equal(loose._move().centre, long.centre)
    assert loose._move().metrics["step_capped"] is False


def test_capped():
    step = np.array([1.0, -3.0])
    assert capped(step, 2.0) is step
    assert np.allclose(capped(step, 1.0), [0.5, -1.5])
    assert np.array_equal(capped(np.zeros(2), 1.0), np.zeros(2))


def test_a_step_that_is_not_finite_is_not_taken(lab, monkeypatch):
    task = lab.lqr()
    search = ready(lab, task)
    monkeypatch.setattr(search.posterior, "direction", np.array([np.nan, 1.0]))
    assert np.array_equal(search._move().centre, search.centre)
