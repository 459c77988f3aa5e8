"""Constraints of a task: as text, as settings, and where a step's costs come from."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abps
from abps.errors import ConfigError, TaskError
from abps.tasks.constraints import Constraint, cost_reader, read_constraints


class Costly(gymnasium.Env):
    """A mass that reports what `reported` says of its position."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    reported: ClassVar[Any] = staticmethod(lambda state: {"cost": abs(state[0])})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.normal(size=2), 0
        return self.state.copy(), {}

    def step(self, action):
        self.state = self.state + 0.1 * np.array([self.state[1], float(action[0])])
        self.time += 1
        return self.state.copy(), -abs(self.state[0]), False, self.time >= 10, type(self).reported(self.state)


def speed(observation, action, reward, info):
    return abs(observation[1])


def wrong(observation, action, reward, info):
    return "fast"


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0.5, 1.0, exclude_min=True, exclude_max=True),
    st.sampled_from(["max", "sum"]),
)
def test_text_and_constraint_are_the_same(limit, probability, reduce):
    constraint = Constraint("wall_2", limit, probability, reduce, "info_key")
    assert Constraint.parse(str(constraint)) == constraint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wall", "needs a limit"),
        ("wall<=nan", "limit must be a finite number"),
        ("wall<=far", "limit must be a number"),
        ("wall<=1(probability=0.3)", "above 0.5"),
        ("wall<=1(probability=1)", "below 1"),
        ("wall<=1(probability=high)", "probability must be"),
        ("wall<=1(reduce=mean)", "one of max, sum"),
        ("wall<=1(chance=0.9)", "no setting 'chance'"),
        ("the wall<=1", "letters, digits"),
    ],
)
def test_a_wrong_constraint_is_one_sentence(text, said):
    with pytest.raises(ConfigError, match=said) as error:
        abps.TaskConfig(constraint=(text,))
    assert "\n" not in str(error.value)


def test_two_constraints_need_two_names():
    with pytest.raises(ConfigError, match="two constraints are called 'wall'"):
        read_constraints(["wall<=1", "wall<=2"])


def test_the_cost_of_an_episode_is_its_largest_or_its_sum():
    costs = np.array([1.0, 4.0, 2.0])
    assert Constraint("a", 1.0).episode_cost(costs) == 4.0
    assert Constraint("a", 1.0, reduce="sum").episode_cost(costs) == 7.0
    for reduce in ("max", "sum"):
        constraint = Constraint("a", 1.0, reduce=reduce)
        assert constraint.episode_cost(constraint.of_episode(5.0, 3)) == 5.0


def test_an_episode_has_the_costs_of_its_steps():
    texts = ("position<=1", f"speed<=2(source={__name__}:speed)")
    task = abps.make_task(Costly(), constraint=texts, horizon=6)
    policy = abps.make_search("mpd", task.spec).ask().policy
    episode = abps.run_episode(task.make_env(), policy, seed=3)
    np.testing.assert_allclose(episode.costs, np.abs(episode.observations[1:]), rtol=1e-6)
    plain = abps.make_task(Costly(), horizon=6)
    without = abps.run_episode(plain.make_env(), abps.make_search("mpd", plain.spec).ask().policy, seed=3)
    assert without.costs.shape == (6, 0)


def test_costs_by_name(monkeypatch):
    monkeypatch.setattr(Costly, "reported", staticmethod(lambda state: {"cost": {"left": 1.0, "right": 2.0}}))
    task = abps.make_task(Costly(), constraint=[Constraint("right", 3.0), Constraint("left", 3.0)], horizon=6)
    episode = abps.run_episode(task.make_env(), abps.make_search("mpd", task.spec).ask().policy, seed=3)
    assert episode.costs.tolist() == [[2.0, 1.0]] * 6
    with pytest.raises(TaskError, match=r"has no 'middle'; it has left, right"):
        abps.make_task(Costly(), constraint="middle<=1")


@pytest.mark.parametrize(
    ("reported", "constraint", "said"),
    [
        ({}, "wall<=1", r"info has no 'cost' \(it has nothing\)"),
        ({"energy": 1.0}, "wall<=1", r"it has energy"),
        ({"cost": None}, "wall<=1", "one number per step"),
        ({}, f"wall<=1(source={__name__}:wrong)", "one number per step"),
    ],
)
def test_a_task_without_its_cost_is_refused_before_anything_runs(monkeypatch, reported, constraint, said):
    monkeypatch.setattr(Costly, "reported", staticmethod(lambda state: reported))
    with pytest.raises(TaskError, match=said) as error:
        abps.make_task(Costly(), constraint=constraint)
    assert "\n" not in str(error.value)


def test_a_source_that_cannot_be_imported():
    with pytest.raises(ConfigError, match="no module 'nowhere'"):
        cost_reader([Constraint("a", 1.0, source="nowhere:cost")])
    with pytest.raises(ConfigError, match="not a function"):
        cost_reader([Constraint("a", 1.0, source="math:pi")])
    assert cost_reader([]) is None


def test_a_cost_that_is_not_finite_is_a_failed_episode():
    task = abps.make_task(Costly(), constraint="position<=1", horizon=6)
    env = task.make_env()
    step = env.step
    env.step = lambda action: (*step(action)[:4], {"cost": float("nan")})
    outcome = abps.attempt_episode(env, abps.make_search("mpd", task.spec).ask().policy, seed=3)
    assert isinstance(outcome, abps.Failed)
    assert "costs contain a number that is not finite" in outcome.reason
