"""The bounded maximiser: optimum, bounds, determinism, bad starts, forbidden balls, fallbacks."""

import importlib
from typing import Any

import numpy as np
import pytest

from abps.acquisition import Criterion, ExpectedAscent, TraceReduction, maximise
from abps.errors import ConfigError, ShapeError
from abps.model import Hyper, condition


class Bowl(Criterion):
    """−|z − peak|², with NaN where `bad` says so."""

    def __init__(self, peak, bad=None):
        self.peak, self.bad = np.asarray(peak, dtype=float), bad or (lambda z: np.zeros(z.shape[:-1], dtype=bool))

    def values(self, posterior: Any, candidates):
        return np.where(self.bad(candidates), np.nan, -((candidates - self.peak) ** 2).sum(-1))

    def values_and_gradients(self, posterior, candidates):
        return self.values(posterior, candidates), -2 * (candidates - self.peak)


LOW, HIGH = -np.ones(3), np.ones(3)
UNIT = Hyper(np.ones(3), 2.0, 0.3, scale_by_dimension=False)
"""Effective lengthscales of one."""


def starts(seed=0, count=16):
    return np.random.default_rng(seed).uniform(-1, 1, (count, 3))


def posterior_of(hyper=UNIT):
    return condition(starts(2, 8), np.arange(8.0), np.zeros(3), hyper)


def run(criterion, points=None, posterior=None, **options):
    points = starts() if points is None else points
    return maximise(criterion, posterior or posterior_of(), points, LOW, HIGH, np.random.default_rng(1), **options)


@pytest.fixture
def polish(monkeypatch):
    """Sets how many starts are polished."""
    return lambda count: monkeypatch.setattr(importlib.import_module("abps.acquisition.maximise"), "POLISHED", count)


def test_finds_the_peak_inside_and_on_the_boundary():
    inside = run(Bowl([0.1, 0.2, -0.3]))
    np.testing.assert_allclose(inside.point, [0.1, 0.2, -0.3], atol=1e-6)
    assert inside.improved
    assert inside.fallback == ""
    edge = run(Bowl([5.0, 0.2, -7.0]))
    np.testing.assert_allclose(edge.point, [1.0, 0.2, -1.0], atol=1e-6)
    assert (edge.point <= HIGH).all()
    assert (edge.point >= LOW).all()


@pytest.mark.parametrize("criterion", [ExpectedAscent(), TraceReduction()])
def test_same_generator_same_answer_and_start_named(criterion, polish):
    for hyper in (Hyper(np.ones(3), 2.0, 0.3), UNIT):
        posterior = posterior_of(hyper)
        polish(8)
        first, second = run(criterion, posterior=posterior), run(criterion, posterior=posterior)
        np.testing.assert_array_equal(first.point, second.point)
        assert first == second._replace(point=first.point)
        values = criterion.values(posterior, starts())
        assert first.start in np.argsort(-values)[:8]
        assert first.value >= values.max()
        assert first.value == pytest.approx(criterion.values(posterior, first.point), rel=1e-12)
        polish(16)
        everyone = run(criterion, posterior=posterior)
        assert everyone.value >= first.value - 1e-9


def test_scale_of_the_criterion_does_not_matter():
    class Scaled(Bowl):
        def values(self, posterior, candidates):
            return 1e-9 * super().values(posterior, candidates) + 3.0e-7

        def values_and_gradients(self, posterior, candidates):
            return self.values(posterior, candidates), 1e-9 * super().values_and_gradients(posterior, candidates)[1]

    np.testing.assert_allclose(run(Scaled([0.1, 0.2, -0.3])).point, [0.1, 0.2, -0.3], atol=1e-4)


def test_bad_starts_are_dropped():
    points = starts()
    worse = run(Bowl([0.1, 0.2, -0.3], bad=lambda z: z[..., 0] > 0.5), points)
    np.testing.assert_allclose(worse.point, [0.1, 0.2, -0.3], atol=1e-6)
    assert worse.dropped >= (points[:, 0] > 0.5).sum()


def test_starts_that_all_go_bad_fall_back_to_the_best_screened():
    class Brittle(Bowl):
        def values_and_gradients(self, posterior, candidates):
            return np.full(len(candidates), np.nan), np.full(candidates.shape, np.nan)

    found = run(Brittle(np.zeros(3)))
    values = Bowl(np.zeros(3)).values(None, starts())
    assert (found.fallback, found.improved, found.start) == ("screened", False, int(np.argmax(values)))
    assert found.dropped == 8
    np.testing.assert_array_equal(found.point, starts()[np.argmax(values)])


def test_nothing_finite_gives_a_random_point_of_the_box():
    found = run(Bowl(np.zeros(3), bad=lambda z: np.ones(z.shape[:-1], dtype=bool)))
    assert (found.fallback, found.start) == ("random", -1)
    assert (np.abs(found.point) <= 1).all()
    assert np.isnan(found.value)


def test_failed_points_are_not_proposed_again(polish):
    peak = np.array([0.1, 0.2, -0.3])
    free = run(Bowl(peak))
    avoiding = run(Bowl(peak), avoid=peak[None], avoid_radius=0.4)
    assert np.linalg.norm(avoiding.point - peak) >= 0.4
    assert np.linalg.norm(free.point - peak) < 0.4
    assert avoiding.fallback == "screened"
    outside = starts()[np.linalg.norm(starts() - peak, axis=1) >= 0.4]
    assert avoiding.value == pytest.approx(Bowl(peak).values(None, outside).max())
    crowded = run(Bowl(peak), avoid=np.zeros((1, 3)), avoid_radius=10.0)
    assert crowded.fallback == "crowded"
    wide = posterior_of(Hyper(np.full(3, 2.0), 2.0, 0.3, scale_by_dimension=False))
    far = run(Bowl(peak), posterior=wide, avoid=peak[None], avoid_radius=0.4)
    assert np.linalg.norm(far.point - peak) >= 0.8  # The radius is in effective lengthscales.
    polish(1)
    squeezed = run(Bowl(peak), np.zeros((1, 3)), avoid=np.zeros((1, 3)), avoid_radius=0.5)
    assert np.linalg.norm(squeezed.point) >= 0.5


def test_starts_outside_are_moved_in(polish):
    polish(1)
    found = run(Bowl([0.0, 0.0, 0.0]), np.full((1, 3), 9.0))
    np.testing.assert_allclose(found.point, 0.0, atol=1e-6)


def test_mistakes_are_named():
    with pytest.raises(ShapeError, match="do not fit"):
        run(Bowl(np.zeros(3)), np.zeros((2, 4)))
    with pytest.raises(ConfigError, match="lower <= upper"):
        maximise(Bowl(np.zeros(3)), posterior_of(), starts(), HIGH, LOW, np.random.default_rng(0))
