"""The projected L-BFGS of many starts against SciPy's, its bounds, its bad lanes and its race."""

import numpy as np
import pytest
from scipy.optimize import minimize

from abps.acquisition import ExpectedAscent, TraceReduction
from abps.model import Hyper, condition
from abps.model.lbfgs import minimise_starts


def rosenbrock(x):
    """Losses and gradients of every row."""
    bend = x[:, 1:] - x[:, :-1] ** 2
    gradient = np.zeros_like(x)
    gradient[:, :-1] = -400 * x[:, :-1] * bend - 2 * (1 - x[:, :-1])
    gradient[:, 1:] += 200 * bend
    return (100 * bend**2 + (1 - x[:, :-1]) ** 2).sum(1), gradient


def scipy_minimum(objective, start, lower, upper):
    def single(x):
        losses, gradients = objective(x[None])
        return float(losses[0]), gradients[0]

    options = {"maxiter": 500, "ftol": 1e-10, "gtol": 1e-8}
    return minimize(single, start, jac=True, method="L-BFGS-B", bounds=np.stack([lower, upper], 1), options=options).fun


def criterion_problem(rng, make):
    """The loss that the maximiser of an acquisition polishes, and its box."""
    d, n = int(rng.integers(1, 30)), int(rng.integers(3, 25))
    theta = rng.normal(size=d)
    points = theta + 0.025 * rng.normal(size=(n, d))
    hyper = Hyper(np.exp(rng.uniform(np.log(0.0025), np.log(0.05), d)), 0.5, 0.05)
    criterion, posterior = make(), condition(points, np.tanh(rng.normal(size=n)), theta, hyper)
    starts = theta + 0.025 * rng.normal(size=(32, d))
    values = criterion.values(posterior, starts)
    unit, starts = float(np.ptp(values)), starts[np.argsort(-values)[:8]]

    def objective(scaled):
        values, gradients = criterion.values_and_gradients(posterior, scaled * hyper.effective)
        return -values / unit, -gradients * hyper.effective / unit

    return objective, starts / hyper.effective, (theta - 0.1) / hyper.effective, (theta + 0.1) / hyper.effective


@pytest.mark.parametrize("make", [ExpectedAscent, TraceReduction])
def test_not_worse_than_scipy_on_criteria(make):
    """The best of eight starts is at most 1e-6 (relative) below SciPy's from the same in 95 % of random problems."""
    rng = np.random.default_rng(0)
    gaps, cut_short = [], []
    for _ in range(40):
        objective, starts, lower, upper = criterion_problem(rng, make)
        found = minimise_starts(objective, starts, lower, upper, iterations=100)
        assert (found.points >= lower).all()
        assert (found.points <= upper).all()
        np.testing.assert_allclose(found.losses, objective(found.points)[0], rtol=1e-9)
        best = min(scipy_minimum(objective, start, lower, upper) for start in starts)
        gaps.append((found.losses.min() - best) / abs(best))
        cut_short.append(
            (minimise_starts(objective, starts, lower, upper, iterations=2).losses.min() - best) / abs(best)
        )
    assert np.mean(np.array(gaps) <= 1e-6) >= 0.95
    assert np.mean(np.array(cut_short) <= 1e-6) < 0.95  # two iterations would not do


@pytest.mark.parametrize("high", [0.5, 2.0])
def test_narrow_valley_inside_and_at_bounds(high):
    rng = np.random.default_rng(1)
    lower, upper = np.full(6, -1.5), np.full(6, high)
    starts = rng.uniform(-1, 0.5, (5, 6))
    found = minimise_starts(rosenbrock, starts, lower, upper, iterations=1000)
    expected = min(scipy_minimum(rosenbrock, start, lower, upper) for start in starts)
    assert found.losses.min() <= expected + 1e-6
    assert (found.points.max(1) <= high).all()
    if high > 1:
        np.testing.assert_allclose(found.points[np.argmin(found.losses)], 1.0, atol=1e-3)
    again = minimise_starts(rosenbrock, starts, lower, upper, iterations=1000)
    np.testing.assert_array_equal(again.points, found.points)


def test_a_start_on_its_own_gets_where_it_gets_among_others():
    starts = np.random.default_rng(2).uniform(-1, 1, (4, 3))
    lower, upper = np.full(3, -2.0), np.full(3, 2.0)
    together = minimise_starts(rosenbrock, starts, lower, upper, iterations=500)
    for start, loss in zip(starts, together.losses, strict=True):
        alone = minimise_starts(rosenbrock, start[None], lower, upper, iterations=500)
        assert alone.losses[0] == pytest.approx(loss, abs=1e-6)


def test_bad_starts_are_reported_and_bad_steps_shortened():
    def walled(x):
        losses, gradients = (x**2).sum(1), 2 * x
        wall = x[:, 0] < -0.1
        return np.where(wall, np.nan, losses), np.where(wall[:, None], np.nan, gradients * [10.0, 1.0])

    starts = np.array([[1.0, 1.0], [-0.5, 0.0]])
    found = minimise_starts(walled, starts, np.full(2, -2.0), np.full(2, 2.0), iterations=200)
    assert found.bad.tolist() == [False, True]
    assert found.losses[0] < 1e-4
    np.testing.assert_array_equal(found.points[1], starts[1])


def test_race_saves_evaluations_and_keeps_the_best():
    def wells(x):
        """A deep well at +2, a shallow and wide one at −2."""
        deep, wide = 3 * np.exp(-((x - 2) ** 2).sum(1)), np.exp(-((x + 2) ** 2).sum(1) / 4)
        return -deep - wide, 2 * (x - 2) * deep[:, None] + (x + 2) / 2 * wide[:, None]

    starts = np.random.default_rng(3).uniform(-3, 3, (12, 2))
    lower, upper = np.full(2, -4.0), np.full(2, 4.0)
    full = minimise_starts(wells, starts, lower, upper, iterations=200)
    race = minimise_starts(wells, starts, lower, upper, iterations=200, check_every=3, catch_up_legs=1.0, merge=0.05)
    assert race.losses.min() == pytest.approx(full.losses.min(), abs=1e-8)
    assert race.evaluations < full.evaluations
    assert full.losses.max() > full.losses.min() + 1  # the race had something to lose
    assert full.ended.all()
    assert race.ended.any()
    assert not (race.ended & race.merged).any()
    # Who competes with the deep minimum from the beginning gives up on the way to it, or falls behind.
    best = np.argmin(full.losses)
    known = full.points[[best]], full.losses[[best]]
    again = minimise_starts(
        wells, starts, lower, upper, iterations=200, check_every=3, catch_up_legs=1.0, merge=0.05, known=known
    )
    assert again.merged.any()
    assert again.points.shape == starts.shape
    assert again.evaluations <= race.evaluations


def test_more_pairs_need_fewer_rounds():
    rng = np.random.default_rng(5)
    scales = np.exp(rng.uniform(0, 8, 60))
    start = rng.normal(size=(1, 60))
    used = [
        minimise_starts(
            lambda x: (0.5 * (scales * x**2).sum(1), scales * x),
            start, np.full(60, -9.0), np.full(60, 9.0), iterations=2000, pairs=pairs,
        )
        for pairs in (2, 10, 30)
    ]  # fmt: skip
    assert all(found.losses[0] < 1e-6 for found in used)
    assert used[2].evaluations < used[1].evaluations < used[0].evaluations


def test_flat_and_degenerate_boxes():
    flat = minimise_starts(
        lambda x: (np.zeros(len(x)), np.zeros_like(x)), np.ones((2, 3)), -np.ones(3), np.ones(3), iterations=5
    )
    assert flat.evaluations == 2
    point = minimise_starts(rosenbrock, np.zeros((1, 3)), np.full(3, 0.3), np.full(3, 0.3), iterations=5)
    np.testing.assert_array_equal(point.points, np.full((1, 3), 0.3))
