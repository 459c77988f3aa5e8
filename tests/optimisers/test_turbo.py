"""TuRBO: regions, counters, candidates and competing samples, each by hand."""

import numpy as np

from abps.model.kernel import Hyper
from abps.optimisers.base import Measured, maximise
from abps.optimisers.turbo import Region, Turbo, TurboMemory, candidates_around, region_bounds

HYPER = Hyper(np.full(2, 0.5), 1.0, 0.1, scale_by_dimension=False)


def measured(values: list[float], label: int = 0) -> Measured:
    points = np.random.default_rng(len(values)).uniform(size=(len(values), 2))
    return Measured(points, np.array(values), np.full(len(values), label, dtype=np.int64))


def after(region: Region, values: list[float], fresh: int = 1) -> Region:
    optimiser = Turbo(first_points=3)
    data = measured(values)
    learned = optimiser.learn(TurboMemory([region]), data, fresh, np.random.default_rng(0))
    return learned.memory.regions[0]


def test_sides_follow_the_lengthscales_and_keep_the_volume() -> None:
    lower, upper = region_bounds(np.full(3, 0.5), 0.2, np.array([1.0, 2.0, 4.0]))
    assert np.allclose(upper - lower, 0.2 * np.array([0.5, 1.0, 2.0]))  # The geometric mean of 1, 2, 4 is 2.
    assert np.isclose(np.prod(upper - lower), 0.2**3)
    lower, upper = region_bounds(np.array([0.0, 1.0]), 0.5, np.ones(2))
    assert np.allclose([lower, upper], [[0.0, 0.75], [0.25, 1.0]])  # Cut at the cube.


def test_candidates_change_about_twenty_coordinates_and_at_least_one() -> None:
    centre, rng = np.full(100, 0.5), np.random.default_rng(0)
    points = candidates_around(centre, centre - 0.1, centre + 0.1, 512, rng)
    changed = (points != centre).sum(axis=1)
    assert changed.min() >= 1
    assert abs(changed.mean() - 20.0) < 1.0
    assert np.abs(points - centre).max() <= 0.1
    few = candidates_around(np.full(3, 0.5), np.zeros(3), np.ones(3), 64, rng)
    assert ((few != 0.5).sum(axis=1) == 3).all()  # Below twenty all change.


def test_successes_double_and_failures_halve() -> None:
    region = Region(0, 0.4, 2, 0, HYPER)
    assert after(region, [1.0, 2.0, 3.0, 3.1]).length == 0.8
    grown = after(Region(0, 0.4, 1, 3, HYPER), [1.0, 2.0, 3.0, 3.1])
    assert (grown.length, grown.successes, grown.failures) == (0.4, 2, 0)
    missed = after(Region(0, 0.4, 2, 2, HYPER), [1.0, 2.0, 3.0, 2.0])
    assert (missed.length, missed.successes, missed.failures) == (0.4, 0, 3)
    shrunk = after(Region(0, 0.4, 0, 3, HYPER), [1.0, 2.0, 3.0, 2.0])  # max(4, d) = 4
    assert (shrunk.length, shrunk.failures) == (0.2, 0)
    assert after(Region(0, 1.6, 2, 0, HYPER), [1.0, 2.0, 3.0, 3.1]).length == 1.6  # No longer than the longest.


def test_a_tiny_improvement_is_a_failure() -> None:
    assert after(Region(0, 0.4, 0, 0, HYPER), [1.0, 2.0, 3.0, 3.002]).failures == 1
    assert after(Region(0, 0.4, 0, 0, HYPER), [1.0, 2.0, 3.0, 3.004]).successes == 1
    # Of negative values too: a thousandth of |best|.
    assert after(Region(0, 0.4, 0, 0, HYPER), [-5.0, -4.0, -3.0, -2.9]).successes == 1


def test_a_region_too_small_starts_anew_and_its_best_is_remembered() -> None:
    optimiser = Turbo(first_points=3)
    data = measured([1.0, 5.0, 3.0, 2.0])
    old = TurboMemory([Region(0, 0.5**7, 0, 3, HYPER)])
    learned = optimiser.learn(old, data, 1, np.random.default_rng(0))
    memory = learned.memory
    assert (memory.regions[0].label, memory.regions[0].length, memory.regions[0].hyper) == (1, 0.8, None)
    assert memory.restarts == 1
    assert not learned.keep.any()
    assert np.array_equal(memory.best, data.points[1])
    # The new region is worse: the old best is still believed to be the best.
    again = optimiser.learn(memory, measured([0.1, 0.2, 0.3], 1), 3, np.random.default_rng(0))
    assert np.array_equal(again.best, data.points[1])
    assert np.array_equal(optimiser.learn(memory, measured([9.0, 0.2, 0.3], 1), 3, np.random.default_rng(0)).best,
                          measured([9.0, 0.2, 0.3], 1).points[0])  # fmt: skip


def test_a_new_region_asks_for_its_first_points_and_for_those_that_failed() -> None:
    optimiser = Turbo(first_points=6, regions=2)
    batch = optimiser.propose(optimiser.start(2), Measured.nothing(2), np.random.default_rng(0))
    assert batch.groups.tolist() == [0] * 6 + [1] * 6
    some = Measured.nothing(2).added(batch, np.where(np.arange(12) < 10, 1.0, np.nan))
    memory = optimiser.learn(optimiser.start(2), some, 10, np.random.default_rng(0)).memory
    assert optimiser.propose(memory, some, np.random.default_rng(0)).groups.tolist() == [1, 1]


def test_samples_of_several_regions_compete_in_the_function_s_units() -> None:
    """One region sits on values around 100, the other around 0: the first gets every point."""
    optimiser = Turbo(first_points=4, regions=2, batch=3)
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(8, 2))
    values = np.where(np.arange(8) < 4, 100.0, 0.0) + rng.standard_normal(8)
    data = Measured(points, values, np.repeat([0, 1], 4))
    memory = optimiser.learn(optimiser.start(2), data, 8, rng).memory
    batch = optimiser.propose(memory, data, np.random.default_rng(1))
    assert batch.groups.tolist() == [0, 0, 0]
    assert len(np.unique(batch.points, axis=0)) == 3  # None is taken twice.
    turned = Measured(points, -values, data.groups)
    memory = optimiser.learn(optimiser.start(2), turned, 8, rng).memory
    assert optimiser.propose(memory, turned, np.random.default_rng(1)).groups.tolist() == [1, 1, 1]


def test_several_regions_find_the_better_of_two_hills() -> None:
    def hills(x: np.ndarray) -> np.ndarray:
        low = np.exp(-np.square(x - 0.2).sum(axis=1) / 0.02)
        return low + 2.0 * np.exp(-np.square(x - 0.8).sum(axis=1) / 0.02)

    told, _ = maximise(Turbo(regions=2, first_points=8, candidates=200), hills, 2, 60)
    assert told.values.max() > 1.9
    assert set(told.groups) >= {0, 1}
