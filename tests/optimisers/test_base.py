"""What holds for every optimiser of the registry, on plain functions (covers base.py and surrogate.py)."""

from typing import Any

import numpy as np
import pytest

from abps.model.gp import GP
from abps.optimisers.base import Batch, Measured, maximise, newest_and_best
from abps.optimisers.confidence import ConfidenceRegion
from abps.optimisers.distribution import SearchDistribution
from abps.optimisers.surrogate import Scaled, box_gp, fitted, regression
from abps.optimisers.trees import RandomTrees
from abps.optimisers.turbo import Turbo
from abps.registry import KINDS, find
from abps.state import restore, save

OPTIMISERS = [
    Turbo(candidates=200),
    ConfidenceRegion(),
    SearchDistribution(candidates=100, functions=50),
    RandomTrees(),
]
EVERY = pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda part: type(part).__name__)


def bowl(points: np.ndarray) -> np.ndarray:
    """Its maximum, 0, is at 0.7, 0.6, …"""
    return -np.square(points - 0.7 + 0.1 * np.arange(points.shape[1])).sum(axis=1)


def test_all_of_the_registry_are_tried() -> None:
    assert {find("optimiser", kind) for kind in KINDS["optimiser"]} == {type(part) for part in OPTIMISERS}


@EVERY
def test_the_optimum_of_a_bowl_is_found(optimiser: Any) -> None:
    told, learned = maximise(optimiser, bowl, 3, 40)
    assert len(told) >= 40
    assert told.points.min() >= 0.0
    assert told.points.max() <= 1.0
    assert bowl(learned[-1].best[None])[0] > -0.01
    uniform = np.random.default_rng(0).uniform(size=(40, 3))  # Which forty uniform points do not.
    assert bowl(uniform).max() < -0.01


@EVERY
def test_one_parameter_is_enough(optimiser: Any) -> None:
    """A policy of one gain: no forest has an edge, and every design is as small as can be."""
    told, learned = maximise(optimiser, bowl, 1, 20)
    assert told.points.shape[1] == 1
    assert learned[-1].best == pytest.approx(0.7, abs=0.02)


@EVERY
def test_values_in_other_units_change_nothing(optimiser: Any) -> None:
    """Up to rounding, which the maximum of a drawn function may notice: the first points after the design."""
    one = maximise(optimiser, bowl, 3, 14)[0]
    two = maximise(optimiser, lambda points: 8.0 * bowl(points) - 2.0, 3, 14)[0]
    assert np.allclose(one.points, two.points, atol=1e-3)


@EVERY
def test_what_it_remembers_survives_saving_and_goes_on_bit_for_bit(optimiser: Any) -> None:
    told, learned = maximise(optimiser, bowl, 3, 20)
    last = learned[-1]
    restored = restore(optimiser.start(3), save(last.memory))
    kept = told.where(np.ones(len(told), dtype=bool))
    found = []
    for memory in (last.memory, restored):
        batch = optimiser.propose(memory, kept, np.random.default_rng(1))
        again = optimiser.learn(
            memory, kept.added(batch, bowl(batch.points)), len(batch.points), np.random.default_rng(2)
        )
        found.append((batch.points, again.best))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])


@EVERY
def test_failures_are_survived(optimiser: Any) -> None:
    def fails(points: np.ndarray) -> np.ndarray:
        return np.where(points[:, 0] > 0.45, np.nan, bowl(points))

    told, learned = maximise(optimiser, fails, 2, 20)
    assert np.isfinite(told.values).all()
    assert np.isfinite(learned[-1].best).all()


@EVERY
def test_a_constant_function_is_no_error(optimiser: Any) -> None:
    told, _ = maximise(optimiser, lambda points: np.full(len(points), 7.0), 2, 16)
    assert len(np.unique(told.points.round(9), axis=0)) > 8


@EVERY
def test_points_beyond_the_window_are_dropped_but_never_the_best(optimiser: Any) -> None:
    from abps.settings import replace

    small = replace(optimiser, window=12)
    told, learned = maximise(small, bowl, 2, 30)
    assert learned[-1].keep.sum() <= 12
    assert len(learned[-1].keep) <= 12 + 1
    best = int(told.values.argmax())
    assert best < len(told)


def test_the_best_stays_and_the_oldest_others_leave() -> None:
    measured = Measured(np.zeros((5, 1)), np.array([1.0, 9.0, 2.0, 3.0, 4.0]), np.zeros(5, dtype=np.int64))
    assert newest_and_best(measured, 3).tolist() == [False, True, False, True, True]
    assert newest_and_best(measured, 9).all()


def test_failed_rows_are_left_out() -> None:
    measured = Measured.nothing(2).added(Batch.of(np.ones((3, 2)), 4), np.array([1.0, np.nan, 2.0]))
    assert measured.values.tolist() == [1.0, 2.0]
    assert measured.groups.tolist() == [4, 4]


# ---- the process ----------------------------------------


def test_values_are_standardised_and_bad_ones_clipped() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, -1e9])
    scaled = Scaled(Measured(np.zeros((5, 1)), values, np.zeros(5, dtype=np.int64)))
    # Quartiles 1 and 3: nothing is lower than 1 − 3·2 = −5.
    assert np.allclose(scaled.values(scaled.returns), [1.0, 2.0, 3.0, 4.0, -5.0])
    assert np.isclose(scaled.returns.mean(), 0.0)
    assert np.isclose(scaled.returns.std(), 1.0)
    high = Scaled(Measured(np.zeros((5, 1)), -values, np.zeros(5, dtype=np.int64)))
    assert np.isclose(high.values(high.returns)[-1], 1e9)  # A good one never is.


def test_published_bounds_are_in_the_field_s_lengthscale() -> None:
    """κ at r = ℓ_published is (1 + √5 + 5/3)·exp(−√5), whatever our own unit."""
    gp = box_gp(0.005, 2.0)
    value = gp.kernel.profile(np.array((2.0 / gp.lengthscale_high) ** 2)).value
    assert np.isclose(value, (1 + np.sqrt(5) + 5 / 3) * np.exp(-np.sqrt(5)))
    assert np.isclose((gp.noise_floor * gp.noise_factor) ** 2, 0.2, rtol=1e-3)
    assert np.isclose(gp.signal_factor**2, 20.0, rtol=1e-3)


def test_a_fit_explains_a_smooth_function() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(30, 2))
    scaled = Scaled(Measured(points, bowl(points), np.zeros(30, dtype=np.int64)))
    gp: GP = box_gp(0.005, 2.0)
    model = regression(gp, scaled, fitted(gp, scaled, rng, None))
    at = rng.uniform(0.2, 0.8, size=(20, 2))
    assert np.abs(scaled.values(model.at(at).mean) - bowl(at)).max() < 0.05
