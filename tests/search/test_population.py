"""Searches by populations: what becomes of episodes, failures and observations, and known optima."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from abps.arrays import Array
from abps.errors import ConfigError
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.observations import RawObservations, RunningNormaliser
from abps.registry import KINDS
from abps.search.population import PopulationConfig
from abps.search.registry import SEARCHES, make_search, search_config
from abps.settings import replace, setting
from abps.strategies.base import Strategy
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory

SPEC = TaskSpec("toy", 2, 1, (-1.0,), (1.0,), gamma=0.5, horizon=2)
POPULATIONS = ("cma", "es", "snes", "pso")


@dataclass
class Heard:
    values: Array
    draws: Array
    best: Array


@dataclass(frozen=True)
class Listener(Strategy):
    """Asks for fixed points, and remembers what it was told."""

    count: int = setting(3, "points")

    def start(self, mean: Array, rng: np.random.Generator) -> Heard:
        return Heard(np.zeros(0), np.zeros(0), mean)

    def ask(self, memory: Heard, rng: np.random.Generator) -> Array:
        return rng.random() + np.arange(2.0 * self.count).reshape(self.count, 2)

    def tell(self, memory: Heard, points: Array, values: Array, rng: np.random.Generator) -> Heard:
        draw = points[0, 0] - rng.random()  # Zero: the numbers are those that the points were made with.
        return Heard(values, np.append(memory.draws, draw), points[int(np.argmax(values))])

    def current(self, memory: Heard) -> Array:
        return memory.best


CONFIG = PopulationConfig(strategy=Listener())


def episode(rewards: tuple[float, float], scale: float = 1.0) -> Trajectory:
    observations = scale * np.array([[1.0, 2.0], [3.0, 4.0], [50.0, 60.0]])
    return Trajectory.build(observations, np.zeros((2, 1)), rewards, terminated=False, truncated=True)


def tell_all(search: Any, outcomes: list[list[Outcome]]) -> Any:
    metrics = None
    for query, answer in zip(search.open_queries(), outcomes, strict=True):
        metrics = search.tell(query, answer)
    return metrics


def test_a_generation_is_one_stage_and_its_returns_are_told() -> None:
    search = CONFIG.make(SPEC, seed=3)
    queries = search.open_queries()
    assert [query.role for query in queries] == ["candidate"] * 3
    metrics = tell_all(search, [[episode((1.0, 1.0))], [episode((4.0, 5.0))], [episode((0.0, 0.0))]])
    assert np.array_equal(search.memory.values, [2.0, 9.0, 0.0])
    assert np.array_equal(search.memory.draws, [0.0])
    assert np.array_equal(search.incumbent.parameters, queries[1].parameters)
    known = {name: metrics[name] for name in ("candidates", "candidates_failed", "candidate_return_max")}
    assert known == {"candidates": 3, "candidates_failed": 0, "candidate_return_max": 9.0}
    assert metrics["candidate_return_mean"] == pytest.approx(11.0 / 3.0)
    assert metrics["spread"] == pytest.approx(np.sqrt(8.0 / 3.0))  # −2, 0 and 2 about the mean, in both parameters.
    assert metrics["step_length"] == pytest.approx(np.linalg.norm(queries[1].parameters))


def test_every_generation_has_numbers_of_its_own() -> None:
    search = CONFIG.make(SPEC, seed=3)
    first = search.ask().parameters
    tell_all(search, [[episode((1.0, 1.0))]] * 3)
    assert not np.array_equal(search.ask().parameters, first)
    assert np.array_equal(CONFIG.make(SPEC, seed=3).ask().parameters, first)


def test_several_episodes_count_by_their_mean() -> None:
    search = replace(CONFIG, repeats=2).make(SPEC)
    tell_all(search, [[episode((1.0, 0.0)), episode((4.0, 0.0))]] * 3)
    assert np.array_equal(search.memory.values, [2.5] * 3)


@pytest.mark.parametrize(
    ("changes", "value"),
    [({}, 5.0), ({"reward_shift": 1.0}, 3.0), ({"discount": None}, 3.0), ({"discount": 0.25}, 2.0)],
)
def test_the_shift_and_the_discount_decide_what_is_compared(changes: dict[str, Any], value: float) -> None:
    search = replace(CONFIG, **changes).make(SPEC)
    tell_all(search, [[episode((1.0, 4.0))]] * 3)
    assert np.allclose(search.memory.values, value)


def test_a_failed_candidate_has_the_lowest_value_of_its_generation() -> None:
    search = CONFIG.make(SPEC)
    metrics = tell_all(search, [[Failed("fell off the table")], [episode((4.0, 0.0))], [episode((-2.0, 0.0))]])
    assert np.array_equal(search.memory.values, [-2.0, 4.0, -2.0])
    assert (metrics["candidates_failed"], metrics["failures"]) == (1, 1)


def test_a_generation_of_failures_is_not_told_and_another_one_is_drawn() -> None:
    search = CONFIG.make(SPEC)
    first = search.ask().parameters
    metrics = tell_all(search, [[Failed("no power")]] * 3)
    assert len(search.memory.values) == 0
    assert metrics["candidate_return_mean"] is None
    assert metrics["step_length"] == 0.0
    assert not np.array_equal(search.ask().parameters, first)


def test_statistics_of_observations_change_between_generations() -> None:
    search = replace(CONFIG, observations=RunningNormaliser()).make(SPEC)
    assert search.normaliser.count == 0
    tell_all(search, [[episode((1.0, 0.0))]] * 3)
    assert search.normaliser.count == 6
    assert np.allclose(search.normaliser.mean, [2.0, 3.0])
    raw = CONFIG.make(SPEC)
    tell_all(raw, [[episode((1.0, 0.0))]] * 3)
    assert raw.normaliser.count == Normaliser.empty(2).count


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"switch observations\.remap off"):
        PopulationConfig(observations=RunningNormaliser(remap=True))
    with pytest.raises(ConfigError, match="repeats must be at least 1"):
        PopulationConfig(repeats=0)
    with pytest.raises(ConfigError, match="discount must be in"):
        PopulationConfig(discount=1.5)


def test_the_recipes_are_one_search_with_every_strategy_of_the_package() -> None:
    configs: dict[str, Any] = {
        name: search_config(name, "hopper", preset) for name in POPULATIONS for preset in ("cpu", "paper")
    }
    kinds = {f"{type(c.strategy).__module__}:{type(c.strategy).__name__}" for c in configs.values()}
    assert kinds == set(KINDS["strategy"].values())
    for config in configs.values():
        assert (config.policy, config.observations, config.discount) == (LinearTanh(), RawObservations(), 1.0)
    assert set(POPULATIONS) < set(SEARCHES)


# ---- known optima ----------------------------------------


@pytest.mark.parametrize("name", POPULATIONS)
def test_it_finds_the_optimum_of_a_linear_quadratic_task(name: str, lab: Any) -> None:
    """Against the best gain by the Riccati equation; the start, doing nothing, is the control."""
    task = lab.lqr(2, 1, horizon=60)
    system = task.make_env().unwrapped.system
    best, start = (system.finite_return(gain, 60) for gain in (system.optimal_gain(), np.zeros((1, 2))))
    config: Any = replace(search_config(name), policy=ClippedLinear(), discount=None)
    search = make_search(name, task.spec, config, seed=0)
    lab.iterate(search, task, 40)
    found = system.finite_return(search.incumbent.parameters.reshape(1, 2), 60)
    assert best - found < 0.05 * (best - start)


@pytest.mark.parametrize("name", POPULATIONS)
def test_it_finds_the_optimum_of_a_noisy_function(name: str, lab: Any) -> None:
    """A function drawn from a Gaussian process, one hill near the middle of the cube, which is the start."""
    task = lab.synthetic(3, seed=4)
    function = task.make_env().unwrapped.function
    config: Any = replace(search_config(name), policy=ClippedLinear())
    spread = "sigma" if name == "cma" else "std"
    config = replace(config, strategy=replace(config.strategy, **{spread: 0.2}))
    search = make_search(name, task.spec, config, seed=1)
    lab.iterate(search, task, 40)
    assert function.relative_error(np.full(3, 0.5)) > 1.0  # The control.
    assert function.relative_error(np.clip(0.5 + search.incumbent.parameters, 0.0, 1.0)) < 0.05
