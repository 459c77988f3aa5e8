"""The particle swarm against a plain loop, and its best place under noise."""

from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError
from abps.seeding import generator
from abps.strategies.particle_swarm import ParticleSwarm


def test_the_textbooks_swarm_against_a_plain_loop(climb: Any, hill: Any) -> None:
    """Shi & Eberhart (1998), Equations (1) and (2), with fresh random numbers for every coordinate."""
    strategy = ParticleSwarm(population=5, confirm=False)
    memory, asked, told = climb(strategy, hill, np.zeros(2), 12)
    x, v = asked[0].copy(), np.zeros((5, 2))
    own, own_value, swarm = x.copy(), told[0].copy(), x[0]
    for number in range(12):
        assert np.allclose(asked[number], x, rtol=1e-12)
        for i in range(5):
            if told[number][i] > own_value[i]:
                own[i], own_value[i] = x[i], told[number][i]
        swarm = own[int(np.argmax(own_value))].copy()
        rng = generator(0, "generation", number)
        first, second = rng.random((5, 2)), rng.random((5, 2))
        for i in range(5):
            for j in range(2):
                v[i, j] = 0.7 * v[i, j] + 1.5 * first[i, j] * (own[i, j] - x[i, j])
                v[i, j] += 1.5 * second[i, j] * (swarm[j] - x[i, j])
                x[i, j] += v[i, j]
    assert np.allclose(strategy.current(memory), swarm)


def test_the_first_positions_lie_around_the_mean_and_do_not_move_yet() -> None:
    strategy = ParticleSwarm(population=2000, std=0.3)
    memory = strategy.start(np.array([1.0, -2.0]), generator(0))
    assert np.allclose(memory.positions.mean(axis=0), [1.0, -2.0], atol=0.03)
    assert np.allclose(memory.positions.std(axis=0), 0.3, atol=0.03)
    assert np.array_equal(strategy.ask(memory, generator(1)), memory.positions)
    assert np.array_equal(strategy.current(memory), [1.0, -2.0])


def test_the_best_place_is_evaluated_again_and_its_value_is_the_mean() -> None:
    strategy = ParticleSwarm(population=3)
    memory = strategy.start(np.zeros(2), generator(0))
    first = memory.positions
    memory = strategy.tell(memory, first, np.array([1.0, 9.0, 2.0]), generator(1))
    assert np.array_equal(strategy.current(memory), np.zeros(2)), "one lucky episode is not enough"
    points = strategy.ask(memory, generator(2))
    assert np.array_equal(points[-1], first[1])
    memory = strategy.tell(memory, points, np.array([0.0, 0.0, 0.0, 4.0]), generator(2))
    assert (memory.best_values[1], memory.best_counts[1]) == (6.5, 2.0)
    assert np.array_equal(strategy.current(memory), first[1])
    points = strategy.ask(memory, generator(3))
    memory = strategy.tell(memory, points, np.array([0.0, 0.0, 0.0, -12.5]), generator(3))
    assert memory.best_values[1] == pytest.approx((9.0 + 4.0 - 12.5) / 3.0)
    assert memory.found_value == pytest.approx(0.5 / 3.0)
    points = strategy.ask(memory, generator(4))
    assert np.array_equal(points[-1], first[2]), "the next best place leads now"


def test_a_lucky_place_does_not_stay_the_best(climb: Any) -> None:
    """Pure noise around a slope: with a second look the place found is worse than the luckiest value says."""
    noise = generator(7, "noise")

    def noisy(points: np.ndarray) -> np.ndarray:
        return -np.sum(np.square(points), axis=1) + 3.0 * noise.standard_normal(len(points))

    optimism = {}
    for confirm in (True, False):
        found = [climb(ParticleSwarm(confirm=confirm), noisy, np.ones(3), 15, seed=seed)[0] for seed in range(8)]
        optimism[confirm] = np.mean([item.found_value + np.sum(np.square(item.found)) for item in found])
    assert optimism[True] < 0.6 * optimism[False]


def test_wrong_settings_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"population": -1}, {"std": 0.0}, {"inertia": 1.0}, {"own_pull": -1.0}]
    for settings in wrong:
        with pytest.raises(ConfigError):
            ParticleSwarm(**settings)
