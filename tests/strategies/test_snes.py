"""SNES against a plain loop, and its natural gradient against a numerical one."""

import math
from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError
from abps.seeding import generator
from abps.strategies.snes import Snes, SnesMemory, utilities


def test_utilities_by_hand() -> None:
    # m = 4: ln 3 − ln 1, ln 3 − ln 2, 0 and max(0, ln 3 − ln 4) = 0.
    raw = [math.log(3.0), math.log(1.5), 0.0, 0.0]
    assert np.allclose(utilities(4), np.array(raw) / sum(raw) - 0.25)
    assert utilities(9).sum() == pytest.approx(0.0, abs=1e-15)
    assert np.all(np.diff(utilities(9)) <= 0.0)


def test_two_steps_against_a_plain_loop() -> None:
    """Wierstra et al. (2014), Algorithm 6."""
    strategy = Snes(population=4, std=0.5)
    memory = strategy.start(np.array([0.2, -0.4, 0.6]), generator(0))
    mean, stds, weights = [0.2, -0.4, 0.6], [0.5] * 3, utilities(4)
    rate = (3.0 + math.log(3.0)) / (5.0 * math.sqrt(3.0))
    for number, values in enumerate(([3.0, 1.0, -2.0, 7.0], [0.0, 5.0, 5.5, -1.0])):
        normals = generator(5, number).standard_normal((4, 3))
        order = sorted(range(4), key=lambda k: -values[k])
        points = strategy.ask(memory, generator(5, number))
        assert np.allclose(points, np.array(mean) + np.array(stds) * normals)
        for i in range(3):
            slope = sum(weights[rank] * normals[k][i] for rank, k in enumerate(order))
            curve = sum(weights[rank] * (normals[k][i] ** 2 - 1.0) for rank, k in enumerate(order))
            mean[i] += stds[i] * slope
            stds[i] *= math.exp(0.5 * rate * curve)
        memory = strategy.tell(memory, points, np.array(values), generator(5, number))
        assert np.allclose(memory.mean, mean, rtol=1e-12)
        assert np.allclose(memory.stds, stds, rtol=1e-12)


def test_spreads_adapt_to_each_parameter(climb: Any, hill: Any) -> None:
    """On a hill 30 times as steep along the last parameter, that one's spread ends smallest."""
    memory, _, _ = climb(Snes(), hill, np.zeros(4), 60)
    assert memory.stds[-1] < 0.6 * memory.stds[0]


def test_equal_values_change_nothing() -> None:
    strategy, memory = Snes(population=6), SnesMemory(np.ones(2), np.array([0.1, 0.7]))
    points = strategy.ask(memory, generator(1))
    after = strategy.tell(memory, points, np.full(6, 3.0), generator(1))
    assert np.allclose(after.mean, memory.mean, atol=1e-15)
    assert np.allclose(after.stds, memory.stds, rtol=1e-15)


def test_wrong_settings_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"population": 1}, {"std": 0.0}, {"step": 0.0}, {"std_rate": -1.0}]
    for settings in wrong:
        with pytest.raises(ConfigError):
            Snes(**settings)
