"""OpenAI-ES against a computation by hand and a plain loop."""

import math
from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError
from abps.seeding import generator
from abps.strategies.openai_es import OpenAiEs


def test_perturbations_come_in_pairs_around_the_mean() -> None:
    strategy = OpenAiEs(population=6, std=0.3)
    memory = strategy.start(np.array([1.0, -2.0]), generator(0))
    points = strategy.ask(memory, generator(1))
    assert points.shape == (6, 2)
    assert np.allclose(points[::2] + points[1::2], 2.0 * memory.mean)
    assert np.allclose(points[::2] - memory.mean, 0.3 * generator(1).standard_normal((3, 2)))
    assert len(OpenAiEs().ask(OpenAiEs().start(np.zeros(8), generator(0)), generator(1))) == 10  # 4 + ⌊3 ln 8⌋


def test_two_steps_against_a_plain_loop() -> None:
    """Salimans et al. (2017), Algorithm 1 with mirrored sampling and centred ranks; Kingma & Ba (2015), Algorithm 1."""
    strategy = OpenAiEs(population=4, std=0.5, step=0.1, weight_decay=0.03)
    memory = strategy.start(np.array([0.2, -0.4, 0.6]), generator(0))
    mean, first, second = [0.2, -0.4, 0.6], [0.0] * 3, [0.0] * 3
    for number, values in enumerate(([3.0, 1.0, -2.0, 7.0], [0.0, 5.0, 5.5, -1.0])):
        noise = generator(5, number).standard_normal((2, 3))
        signed = [noise[0], -noise[0], noise[1], -noise[1]]
        ranks = [sorted(values).index(value) / 3.0 - 0.5 for value in values]
        for i in range(3):
            slope = sum(rank * epsilon[i] for rank, epsilon in zip(ranks, signed, strict=True)) / 4.0 - 0.03 * mean[i]
            first[i] = 0.9 * first[i] + 0.1 * slope
            second[i] = 0.999 * second[i] + 0.001 * slope**2
            corrected = first[i] / (1.0 - 0.9 ** (number + 1))
            mean[i] += 0.1 * corrected / (math.sqrt(second[i] / (1.0 - 0.999 ** (number + 1))) + 1e-8)
        points = strategy.ask(memory, generator(5, number))
        memory = strategy.tell(memory, points, np.array(values), generator(5, number))
        assert np.allclose(memory.mean, mean, rtol=1e-12)
    assert np.array_equal(strategy.current(memory), memory.mean)


def test_equal_values_leave_the_mean_but_for_the_decay() -> None:
    strategy = OpenAiEs(population=4, weight_decay=0.0)
    memory = strategy.start(np.ones(2), generator(0))
    points = strategy.ask(memory, generator(1))
    assert np.array_equal(strategy.tell(memory, points, np.full(4, 3.0), generator(1)).mean, np.ones(2))
    decaying = OpenAiEs(population=4, weight_decay=0.1)
    assert np.all(decaying.tell(memory, points, np.full(4, 3.0), generator(1)).mean < 1.0)


def test_wrong_settings_are_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"population": 5},
        {"std": 0.0},
        {"step": -1.0},
        {"momentum": 1.0},
        {"weight_decay": -0.1},
    ]
    for settings in wrong:
        with pytest.raises(ConfigError):
            OpenAiEs(**settings)
