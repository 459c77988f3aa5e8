"""Weighted samples of visited states: exact averages, and subsamples whose sums are unbiased."""

import numpy as np
import pytest

from abps.data.visits import Visits, systematic_sample
from abps.errors import ShapeError
from abps.state import restore, save
from abps.trajectory import Trajectory, discounts


def episode(rng, steps: int) -> Trajectory:
    observations, actions = rng.standard_normal((steps + 1, 4)), rng.standard_normal((steps, 2))
    return Trajectory.build(observations, actions, np.zeros(steps), terminated=False, truncated=True)


def test_visits_average_episodes_of_different_length():
    rng = np.random.default_rng(0)
    episodes = [episode(rng, 5), episode(rng, 9)]
    visits = Visits.collect(episodes, 0.5)
    np.testing.assert_array_equal(visits.states, np.concatenate([item.observations[:-1] for item in episodes]))
    np.testing.assert_array_equal(visits.actions, np.concatenate([item.actions for item in episodes]))
    np.testing.assert_allclose(visits.weights, np.concatenate([0.5 ** np.arange(5), 0.5 ** np.arange(9)]) / 2)
    again = restore(visits, save(visits))
    for name in ("states", "actions", "weights"):
        assert getattr(again, name).dtype == getattr(visits, name).dtype
        np.testing.assert_array_equal(getattr(again, name), getattr(visits, name))
    with pytest.raises(ShapeError, match="at least one episode"):
        Visits.collect([], 0.5)
    with pytest.raises(ShapeError, match="generator"):
        Visits.collect(episodes, 0.5, limit=3)


def test_subsample_is_unbiased_and_better_than_independent_draws():
    weights = np.tile(discounts(0.99, 1000), 3) / 3
    clock = np.tile(np.arange(1000), 3)
    values = np.sin(clock / 40.0) + np.repeat([0.0, 1.0, -0.5], 1000)
    truth = float(weights @ values)
    systematic, independent = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        places, new = systematic_sample(weights, 256, rng)
        assert places.size == np.unique(places).size == 256
        assert new.sum() == pytest.approx(weights.sum())
        systematic.append(new @ values[places])
        draws = rng.choice(weights.size, 256, p=weights / weights.sum())
        independent.append(values[draws].mean() * weights.sum())
    scatter = np.std(systematic)
    assert abs(np.mean(systematic) - truth) < 4 * scatter / np.sqrt(200)
    assert scatter < 0.1 * np.std(independent)
    assert scatter < 0.005 * weights.sum()  # The stated error of 256 of 3000 states: below half a per cent of Σ γᵗ.


def test_subsample_keeps_heavy_states_with_their_own_weight():
    weights = discounts(0.9, 500)
    places, new = systematic_sample(weights, 20, np.random.default_rng(0))
    assert places[:5].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(new[:5], weights[:5])
    biased = new.copy()
    biased[-1] *= 2  # Negative control: the sum of weights notices a wrong one.
    assert new.sum() == pytest.approx(weights.sum())
    assert biased.sum() != pytest.approx(weights.sum())
