"""Environments made with keyword arguments and wrappers: `wrappers.py` and `environments.py`."""

import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from abps.errors import ConfigError, TaskError
from abps.rollouts.episode import run_episode
from abps.search.registry import make_search
from abps.tasks.gym import make_task

VECTOR = spaces.Box(-np.inf, np.inf, (2,))


class Echo(gymnasium.Env[Any, Any]):
    """Rewards the first number of the action, and remembers the last one."""

    def __init__(self, action: Any = None, observation: Any = VECTOR, gain: float = 1.0) -> None:
        self.action_space = spaces.Box(-np.inf, np.inf, (1,)) if action is None else action
        self.observation_space, self.gain, self.last = observation, gain, None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.last = action
        return self.observation_space.sample(), self.gain * float(np.ravel(action)[0]), False, False, {}


class Negated(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> float:
        return -float(reward)


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = ModuleType("users_envs")
    made.Echo, made.Negated, made.number, made.wrong = Echo, Negated, 3, lambda env: 4
    monkeypatch.setitem(sys.modules, "users_envs", made)


def test_bounded_actions_and_keyword_arguments() -> None:
    task = make_task("users_envs:Echo", env_kwargs={"gain": 2.0}, wrapper="BoundAction(low=-3,high=2)", horizon=4)
    assert (task.spec.action_low, task.spec.action_high) == ((-3.0,), (2.0,))
    env = task.make_env()
    env.reset(seed=0)
    assert env.step(np.array([5.0]))[1] == 4.0  # Clipped to 2, twice.
    assert make_task(task.config).spec == task.spec  # What a resumed run and a worker do.


def test_wrappers_are_applied_in_order_the_first_innermost() -> None:
    task = make_task("users_envs:Echo", wrapper=["BoundAction(low=-1,high=1)", Negated], horizon=4)
    assert isinstance(task.make_env(), Negated)
    assert task.config.wrapper[1].endswith(":Negated")
    with pytest.raises(TaskError, match="a wrapper is module:Name or a class of a module"):
        make_task("users_envs:Echo", wrapper=lambda env: env)


def test_dict_observations_are_flattened_on_request() -> None:
    space = spaces.Dict({"x": VECTOR, "n": spaces.Discrete(3)})
    task = make_task(Echo(spaces.Box(-1.0, 1.0, (1,)), space), wrapper="FlattenObservation", horizon=5)
    assert task.spec.observation_dim == 5
    policy = make_search("ars", task.spec).ask().policy
    assert run_episode(task.make_env(), policy, 0).observations.shape == (6, 5)


def test_discrete_actions_are_chosen_by_their_scores() -> None:
    task = make_task(Echo(spaces.Discrete(3, start=5)), wrapper="ArgmaxAction", horizon=4)
    env = task.make_env()
    env.reset(seed=0)
    assert [env.step(np.array(scores))[1] for scores in ([0.1, 0.9, 0.3], [0.0, 0.0, 0.0])] == [6.0, 5.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wrapper": "Flatten"}, "there is no wrapper 'Flatten'.*FlattenObservation"),
        ({"wrapper": "Flaten"}, "(did you mean|known:) '?FlattenObservation'?$"),
        ({"wrapper": "RescaleActon"}, "did you mean 'RescaleAction'"),
        ({"wrapper": "vector"}, "there is no wrapper 'vector'"),
        ({"wrapper": "nowhere:Name"}, "cannot import 'nowhere:Name'"),
        ({"wrapper": "users_envs:wrong"}, "returned int, not a gymnasium.Env"),
        ({"wrapper": "users_envs:number"}, "failed: TypeError"),
        ({"wrapper": "BoundAction(lower=1)"}, "failed: TypeError.*lower"),
        ({"wrapper": "ArgmaxAction"}, "ArgmaxAction is for Discrete actions"),
        ({"env_kwargs": {"gains": 1}}, "factory 'users_envs:Echo' failed: TypeError.*gains"),
    ],
)
def test_what_cannot_be_made_says_why(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        make_task("users_envs:Echo", **changes)
    assert "\n" not in str(caught.value)


def test_wrong_settings_of_a_task_are_one_sentence() -> None:
    for changes, message in (
        ({"gama": 1}, "unknown setting task.gama; did you mean 'gamma'"),
        ({"gamma": "x"}, "task.gamma must be of type float"),
        ({"env_kwargs": 3}, "task.env_kwargs must be a list"),
        ({"env_kwargs": ["gain"]}, "env_kwargs must be key=value"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_task("users_envs:Echo", **changes)
    with pytest.raises(TaskError, match="this one is made already"):
        make_task(Echo(), env_kwargs={"gain": 1.0})
    with pytest.raises(TaskError, match="keeps its environment"):
        make_task(make_task("Pendulum-v1"), wrapper="ClipReward")


def test_a_wrong_keyword_of_a_registered_environment_is_named() -> None:
    with pytest.raises(TaskError, match=r"'Pendulum-v1' cannot be made with mass: TypeError.*mass"):
        make_task("Pendulum-v1", env_kwargs={"mass": 1})
    assert make_task("Pendulum-v1", env_kwargs={"g": 1.0}).make_env().unwrapped.g == 1.0  # type: ignore[attr-defined]
