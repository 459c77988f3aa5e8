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


# ---- curvature ---------------------------------------------------------------------------------------------------------


def test_the_curvature_is_what_the_mean_function_promises_too_much(lab, monkeypatch):
    """Returns that fall short of m̂ by exactly c·(change of the actions)² give c back; an excess gives zero, and so does `off`."""
    search = ready(lab, lab.lqr(2, 2))
    plain, changes = search._prior(search.points), search.action_changes(search.points)
    assert search.curvature() == 0.0
    search.config = replace(search.config, curvature=True)
    for true, expected in ((7.0, 7.0), (0.0, 0.0), (-7.0, 0.0)):
        monkeypatch.setattr(type(search), "returns", plain.at_points - true * changes**2)
        assert search.curvature() == pytest.approx(expected, abs=1e-9)
        prior = search._prior(search.points)
        assert np.allclose(prior.at_points, plain.at_points - expected * changes**2, atol=1e-12)
        assert np.array_equal(prior.gradient, plain.gradient)  # A loss of second order: no slope at θ.


def test_changes_of_actions_are_root_mean_squares_over_discounted_visits(lab):
    search = ready(lab, lab.lqr(2, 2))
    visits, moved = search._centre_visits, search.points[-1]
    squares, total = 0.0, 0.0
    for state, weight in zip(visits.states, visits.weights, strict=True):
        before, after = (search.policies.actions(x, state[None], search.normaliser)[0] for x in (search.centre, moved))
        squares += weight * np.mean(((after - before) / 2.0) ** 2)  # Half of the range ±2 is 2.
        total += weight
    assert search.action_change(moved) == pytest.approx(np.sqrt(squares / total), rel=1e-6)
    assert search.action_change(search.centre) == 0.0


@pytest.mark.parametrize("curvature", [0.0, 1e-6, 1e3])
def test_a_step_ends_where_gain_less_loss_is_largest(lab, monkeypatch, curvature):
    """Compared with all shorter steps; a little curvature shortens nothing."""
    search = ready(lab, lab.lqr(2, 2), step=1e-4)
    free = search._move().centre - search.centre
    search.config = replace(search.config, curvature=True)
    monkeypatch.setattr(search, "curvature", lambda: curvature)
    taken = search._move().centre - search.centre
    fraction = np.linalg.norm(taken) / np.linalg.norm(free)
    assert np.allclose(taken, fraction * free)

    def profit(f: float) -> float:
        return f * float(search.posterior.mu @ free) - curvature * (f * search.action_change(search.centre + free)) ** 2

    best = max(np.linspace(0.0, 1.0, 1001), key=profit)
    assert fraction == pytest.approx(best, abs=2e-3)
    assert (fraction < 1.0) == (curvature == 1e3)


def test_a_step_is_never_longer_than_it_was_nor_turned_round(lab, monkeypatch):
    """Where everything cancels, the sign of the gain is rounding."""
    search = ready(lab, lab.lqr(2, 2), step=1e-4)
    step = search._move().centre - search.centre
    monkeypatch.setattr(search.posterior, "mu", -search.posterior.mu)
    for curvature in (0.0, 1e-9, 1.0):
        taken = search._worthwhile(step, curvature)
        assert np.linalg.norm(taken) <= np.linalg.norm(step)
        assert taken @ step >= 0.0


@pytest.mark.parametrize("curvature", [True, False])
def test_settled_weights_change_the_covariance_only(lab, curvature):
    search = ready(lab, lab.lqr(2, 2), aggregation="evidence", evidence_prior=1.0, curvature=curvature)
    posterior, settled = search.posterior, search.settled_posterior()
    assert np.allclose(settled.mu, posterior.mu, rtol=1e-6, atol=1e-6 * np.abs(posterior.mu).max())
    assert settled.trace() < posterior.trace()
    search.config = replace(search.config, curvature=not curvature)  # The control: another mean function has another μ.
    assert (search.curvature() > 0) != curvature
    assert not np.allclose(search.settled_posterior().mu, posterior.mu, rtol=1e-3)


def test_around_the_optimum_curvature_explains_the_window(lab):
    """At the best gain of an LQR all probes are worse than the centre, and a mean function of slopes cannot say so."""
    task = lab.lqr(2, 1, horizon=200)
    system = task.make_env().system
    evidence = {}
    for curvature in (True, False):
        search = lab.search("abs", task, curvature=curvature, design_std=0.05, window=12)
        search.centre = system.optimal_gain().ravel()
        lab.run(search, task, 2)
        evidence[curvature] = search._fitted.evidence
        assert (search.curvature() > 0.0) is curvature
    assert evidence[True] > evidence[False]
