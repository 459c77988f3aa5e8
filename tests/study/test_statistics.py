"""The statistics against scipy and naive loops; each oracle must notice a broken version."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from abps.errors import ShapeError
from abps.study import statistics
from abps.study.statistics import (
    area_under_curve,
    bootstrap,
    bootstrap_curve,
    bootstrap_improvement,
    first_reached,
    interquartile_mean,
    on_grid,
    probability_of_improvement,
    reached,
)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 20])
def test_interquartile_mean_is_scipys_trimmed_mean(size: int) -> None:
    values = np.random.default_rng(size).normal(size=(3, size)) ** 3
    np.testing.assert_allclose(interquartile_mean(values), scipy.stats.trim_mean(values, 0.25, axis=-1))
    np.testing.assert_allclose(interquartile_mean(values.T, axis=0), scipy.stats.trim_mean(values, 0.25, axis=-1))
    if size >= 4:  # Negative control: the plain mean is another number.
        assert not np.allclose(values.mean(-1), scipy.stats.trim_mean(values, 0.25, axis=-1))


def test_probability_of_improvement_is_mann_whitney() -> None:
    rng = np.random.default_rng(0)
    ours = [rng.integers(0, 6, 7).astype(float), rng.integers(0, 6, 4).astype(float)]
    theirs = [rng.integers(1, 5, 5).astype(float), rng.integers(2, 5, 6).astype(float)]
    u = [scipy.stats.mannwhitneyu(a, b).statistic / (a.size * b.size) for a, b in zip(ours, theirs, strict=True)]
    assert probability_of_improvement(ours, theirs) == pytest.approx(np.mean(u))
    assert probability_of_improvement(theirs, ours) == pytest.approx(1 - np.mean(u))
    strict = np.mean([np.mean(a[:, None] > b) for a, b in zip(ours, theirs, strict=True)])
    assert strict != pytest.approx(np.mean(u)), "the data must have ties, or a version that ignores them would pass"


def test_bootstrap_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).lognormal(size=12)
    ours = bootstrap([values], statistics.mean, np.random.default_rng(2), repetitions=20_000)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.value == pytest.approx(values.mean())
    assert abs(ours.low - theirs.low) < 0.03 * width
    assert abs(ours.high - theirs.high) < 0.03 * width
    narrower = bootstrap([values], statistics.mean, np.random.default_rng(2), repetitions=20_000, level=0.9)
    assert abs(narrower.low - theirs.low) > 0.03 * width, "the oracle must tell 90 % from 95 %"


def test_bootstrap_is_stratified() -> None:
    """Two tasks of very different scale: keeping tasks gives a narrow interval, pooling them a wide one."""
    rng = np.random.default_rng(4)
    scores = [rng.normal(0, 1, 6), rng.normal(1000, 1, 6)]
    ours = bootstrap(scores, statistics.mean, np.random.default_rng(5))
    naive = []
    loop = np.random.default_rng(6)
    for _ in range(4000):
        naive.append(np.mean([loop.choice(task, task.size) for task in scores]))
    low, high = np.percentile(naive, [2.5, 97.5])
    assert ours.low == pytest.approx(low, abs=0.1)
    assert ours.high == pytest.approx(high, abs=0.1)
    pooled = bootstrap([np.concatenate(scores)], statistics.mean, np.random.default_rng(5))
    assert pooled.high - pooled.low > 100 * (ours.high - ours.low)


def test_bootstrap_is_seeded_and_covers() -> None:
    values = np.random.default_rng(7).normal(size=9)
    same = [bootstrap([values], interquartile_mean, np.random.default_rng(8)) for _ in range(2)]
    assert same[0] == same[1]
    assert bootstrap([values], interquartile_mean, np.random.default_rng(9)) != same[0]
    inside = 0
    for trial in range(200):
        rng = np.random.default_rng([10, trial])
        estimate = bootstrap([rng.normal(size=20)], statistics.mean, rng, repetitions=300)
        inside += estimate.low <= 0 <= estimate.high
    assert 0.87 < inside / 200 < 0.99


def test_improvement_interval_matches_a_loop() -> None:
    rng = np.random.default_rng(11)
    ours, theirs = [rng.normal(0.5, 1, 6), rng.normal(0, 1, 5)], [rng.normal(0, 1, 4), rng.normal(0, 1, 7)]
    estimate = bootstrap_improvement(ours, theirs, np.random.default_rng(12))
    loop, naive = np.random.default_rng(13), []
    for _ in range(2000):
        left = [loop.choice(task, task.size) for task in ours]
        right = [loop.choice(task, task.size) for task in theirs]
        naive.append(probability_of_improvement(left, right))
    low, high = np.percentile(naive, [2.5, 97.5])
    assert estimate.value == probability_of_improvement(ours, theirs)
    assert estimate.low == pytest.approx(low, abs=0.04)
    assert estimate.high == pytest.approx(high, abs=0.04)


def _naive_on_grid(x: np.ndarray, y: np.ndarray, grid: np.ndarray) -> list[float]:
    values = []
    for point in grid:
        value = np.nan
        for a, b in zip(x, y, strict=True):
            if a <= point and np.isfinite(b):
                value = b
        values.append(value)
    return values


@given(st.lists(st.tuples(st.integers(0, 30), st.one_of(st.just(float("nan")), st.floats(-5, 5))), max_size=12))
def test_on_grid_is_the_naive_loop(points: list[tuple[int, float]]) -> None:
    points.sort(key=lambda point: point[0])
    x = np.array([a for a, _ in points], dtype=float)
    y = np.array([b for _, b in points], dtype=float)
    grid = np.arange(-1, 33, 0.5)
    np.testing.assert_array_equal(on_grid(x, y, grid), _naive_on_grid(x, y, grid))


def test_on_grid_ends_and_errors() -> None:
    np.testing.assert_array_equal(on_grid([1, 3], [10, 20], [0, 1, 2, 3, 4], carry=False), [np.nan, 10, 10, 20, np.nan])
    linear = np.interp([2.0], [1, 3], [10, 20])
    assert linear[0] != on_grid([1, 3], [10, 20], [2.0])[0], "a curve of maxima is a staircase, not a slope"
    assert np.isnan(on_grid([], [], [1.0])).all()
    with pytest.raises(ShapeError, match="must not decrease"):
        on_grid([3, 1], [1, 2], [0])
    with pytest.raises(ShapeError, match="same length"):
        on_grid([3, 1], [1], [0])


def test_area_is_the_integral_of_the_staircase() -> None:
    rng = np.random.default_rng(14)
    x, y = np.sort(rng.uniform(0, 100, 9)), rng.normal(size=9)
    fine = np.linspace(0, 80, 800_001)
    heights = on_grid(np.concatenate([[0], x[1:]]), y, fine)
    assert area_under_curve(x, y, 80.0) == pytest.approx(heights.mean(), abs=1e-4)
    assert np.trapezoid(y, x) / 80 != pytest.approx(heights.mean(), abs=1e-2)
    assert np.isnan(area_under_curve([], [], 10.0))


def test_thresholds_are_censored() -> None:
    assert first_reached([10, 20, 30], [1, 5, 9], 5) == 20
    assert first_reached([10, 20, 30], [1, np.nan, 9], 5) == 30
    assert first_reached([10, 20], [1, 2], 5) == np.inf
    assert reached([10, np.inf, 30]) == statistics.Reached(2, 3, 30.0)
    assert reached([10, np.inf, np.inf]).median == np.inf
    ignoring = np.median([10.0])
    assert reached([10, np.inf, np.inf]).median != ignoring, "leaving out runs that never got there flatters a search"


def test_curve_band_contains_and_narrows() -> None:
    rng = np.random.default_rng(15)
    curves = rng.normal(size=(40, 7)) + np.arange(7)
    curves[3, 0] = np.nan
    value, low, high = bootstrap_curve(curves, statistics.mean, np.random.default_rng(16))
    assert np.isnan([value[0], low[0], high[0]]).all()
    assert np.all(low[1:] < value[1:])
    assert np.all(value[1:] < high[1:])
    few = bootstrap_curve(curves[4:9], statistics.mean, np.random.default_rng(16))
    assert np.all((few[2] - few[1])[1:] > (high - low)[1:])
    point = scipy.stats.bootstrap((curves[:, 2],), np.mean, method="percentile", rng=np.random.default_rng(17))
    assert low[2] == pytest.approx(point.confidence_interval.low, abs=0.06)
    assert high[2] == pytest.approx(point.confidence_interval.high, abs=0.06)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="same tasks"):
        probability_of_improvement([[1.0]], [])
    with pytest.raises(ShapeError, match="without runs"):
        bootstrap([[]], statistics.mean, np.random.default_rng(0))
    with pytest.raises(ShapeError, match="level"):
        bootstrap([[1.0, 2.0]], statistics.mean, np.random.default_rng(0), level=95)
    with pytest.raises(ShapeError, match="vector"):
        reached([[1.0]])
