"""Searches at the edge of floating point: a sample of the problems that benchmarks/kill/extreme_problems.py has 200
of."""

import dataclasses

import extremes
import killing
import numpy as np
import pytest

from abps.policies.observations import RunningNormaliser

SAMPLE = range(5)


@pytest.mark.parametrize("seed", SAMPLE)
@pytest.mark.parametrize("search", killing.searches())
def test_extreme_problem_runs_to_the_end(search, seed):
    metrics = extremes.solve(search, extremes.problem(seed), iterations=2)
    assert metrics["iteration"] == 1


@pytest.mark.parametrize("kind", ["constant", "zero"])
@pytest.mark.parametrize("search", killing.searches())
def test_flat_returns_without_noise_and_with_coinciding_parameters(search, kind):
    """Nothing can be learned here; the search must say so by staying finite."""
    task = extremes.problem(0)
    spec = dataclasses.replace(task.spec, reward_scale=None)
    config = {**task.config, "observations": RunningNormaliser()}
    flat = dataclasses.replace(
        task,
        kind=kind,
        scale=1e8,
        offset=0.0,
        noise=0.0,
        failing=0.0,
        spec=spec,
        design_std=1e-300,
        config=config,
    )
    assert extremes.solve(search, flat, iterations=2)["iteration"] == 1


def test_check_notices_a_search_that_loses_its_mind(monkeypatch):
    """Negative control: a centre that is not finite is caught."""
    from abps.search.ars import Ars

    monkeypatch.setattr(Ars, "_directions", lambda self: np.full((self.config.directions, self.policies.size), np.nan))
    with pytest.raises(ArithmeticError, match="asks for"):
        extremes.solve("ars", extremes.problem(0))


def test_check_notices_a_metric_that_is_not_finite(monkeypatch):
    """Negative control: metrics are looked at as the search gives them, before a file would turn NaN into null."""
    from abps.search.ars import Ars

    learn = Ars._learn
    monkeypatch.setattr(Ars, "_learn", lambda self, stage: {**learn(self, stage), "step_length": float("nan")})
    with pytest.raises(ArithmeticError, match="reports step_length"):
        extremes.solve("ars", extremes.problem(0))
