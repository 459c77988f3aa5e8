"""How probes are chosen: inside the box, away from failures, where the criterion is largest, or at random."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abps.acquisition import Criterion, ExpectedAscent, GaussianProbes, MaximiseCriterion, TraceReduction
from abps.errors import ConfigError
from abps.model import Hyper, condition

THETA = np.array([1.0, -2.0, 0.5])


def posterior_of(seed=0):
    rng = np.random.default_rng(seed)
    points = THETA + 0.05 * rng.normal(size=(8, 3))
    return condition(points, rng.normal(size=8), THETA, Hyper(np.full(3, 0.03), 1.0, 0.1))


@dataclass(frozen=True)
class Nowhere(Criterion):
    """A criterion without a finite value."""

    def values(self, posterior, candidates):
        return np.full(candidates.shape[:-1], np.nan)

    def values_and_gradients(self, posterior, candidates):
        return self.values(posterior, candidates), np.full(candidates.shape, np.nan)


@given(seed=st.integers(0, 1000), radius=st.sampled_from([0.01, 0.1, 1.0]))
def test_probes_stay_in_the_box_and_the_seed_decides(seed, radius):
    probing, posterior = MaximiseCriterion(radius=radius), posterior_of(seed)
    first, second = (probing.choose(posterior, [], np.random.default_rng(seed)) for _ in range(2))
    assert np.abs(first.point - THETA).max() <= radius * (1 + 1e-12)
    np.testing.assert_array_equal(first.point, second.point)


@pytest.mark.parametrize("criterion", [ExpectedAscent(), TraceReduction()])
def test_the_probe_is_better_than_random_points_of_the_box(criterion):
    posterior = posterior_of()
    chosen = MaximiseCriterion(criterion).choose(posterior, [], np.random.default_rng(0))
    assert not chosen.fallback
    everywhere = THETA + np.random.default_rng(1).uniform(-0.1, 0.1, (2000, 3))
    best = criterion.values(posterior, chosen.point)
    assert best >= criterion.values(posterior, everywhere).max()
    other = {ExpectedAscent(): TraceReduction(), TraceReduction(): ExpectedAscent()}[criterion]
    assert best > criterion.values(
        posterior, MaximiseCriterion(other).choose(posterior, [], np.random.default_rng(0)).point
    )


def test_failed_points_are_kept_away_from():
    posterior = posterior_of()
    free = MaximiseCriterion().choose(posterior, [], np.random.default_rng(0)).point
    lengths = posterior.hyper.effective
    distance = lambda point: np.linalg.norm((point - free) / lengths)  # noqa: E731
    kept = MaximiseCriterion(avoid_radius=0.5).choose(posterior, [free, THETA], np.random.default_rng(0)).point
    assert distance(kept) >= 0.5
    off = MaximiseCriterion(avoid_radius=0.0).choose(posterior, [free, THETA], np.random.default_rng(0)).point
    assert distance(off) == 0.0


def test_a_criterion_without_values_is_a_fallback():
    probe = MaximiseCriterion(Nowhere()).choose(posterior_of(), [], np.random.default_rng(0))
    assert probe.fallback
    assert np.abs(probe.point - THETA).max() <= 0.1


def test_more_and_wider_starts_change_what_is_screened():
    posterior, rng = posterior_of(3), np.random.default_rng
    chosen = [
        MaximiseCriterion(starts=starts, start_std=std).choose(posterior, [], rng(0)).point
        for starts, std in ((1, 0.001), (64, 0.1))
    ]
    assert ExpectedAscent().values(posterior, chosen[1]) >= ExpectedAscent().values(posterior, chosen[0])
    assert not np.array_equal(chosen[0], chosen[1])


def test_gaussian_probes_ask_no_model():
    posterior, other = posterior_of(0), posterior_of(1)
    draws = np.array([GaussianProbes(0.2).choose(posterior, [], np.random.default_rng(k)).point for k in range(2000)])
    assert np.abs(draws.mean(0) - THETA).max() < 5 * 0.2 / np.sqrt(2000)
    np.testing.assert_allclose(draws.std(0), 0.2, rtol=0.1)
    np.testing.assert_array_equal(draws[0], GaussianProbes(0.2).choose(other, [], np.random.default_rng(0)).point)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaximiseCriterion(radius=0.0), "radius must be positive"),
        (lambda: MaximiseCriterion(start_std=0.0), "start_std must be positive"),
        (lambda: MaximiseCriterion(starts=0), "starts must be at least 1"),
        (lambda: MaximiseCriterion(avoid_radius=-1.0), "avoid_radius must not be negative"),
        (lambda: GaussianProbes(0.0), "std must be positive"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
