"""Environments as tasks: every way to name one, and one clear sentence for everything that is not supported."""

import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from abps.errors import TaskError
from abps.tasks.catalogue import PAPER_TASKS
from abps.tasks.config import TaskConfig
from abps.tasks.gym import DEFAULT_HORIZON, make_task

VECTOR = spaces.Box(-np.inf, np.inf, (3,))
BOUNDED = spaces.Box(-2.0, np.array([1.0, 2.0], np.float32), (2,), np.float32)


class Bare(gymnasium.Env[Any, Any]):
    """An environment with any spaces, unknown to Gymnasium's registry."""

    def __init__(self, observation: spaces.Space[Any] = VECTOR, action: spaces.Space[Any] = BOUNDED) -> None:
        self.observation_space, self.action_space = observation, action


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A user's module with factories, good and bad."""
    made = ModuleType("users_robot")
    made.good = Bare  # type: ignore[attr-defined]
    made.no_env = lambda: 3  # type: ignore[attr-defined]
    made.broken = lambda: 1 / 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "users_robot", made)
    return made


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("pendulum", (4, 1)),
        ("swimmer", (8, 2)),
        ("hopper", (11, 3)),
        ("cheetah", (17, 6)),
        ("walker", (17, 6)),
        ("ant", (27, 8)),
    ],
)
def test_the_papers_tasks_have_its_sizes(name: str, sizes: tuple[int, int]) -> None:
    spec = make_task(name).spec
    assert (spec.observation_dim, spec.action_dim) == sizes
    assert (spec.horizon, spec.gamma, spec.reward_scale) == (
        1000,
        PAPER_TASKS[name].gamma,
        PAPER_TASKS[name].reward_scale,
    )


def test_version_five_on_request() -> None:
    assert make_task("ant-v5").spec.observation_dim == 105
    assert make_task("pendulum").spec.action_high == (3.0,)


def test_a_gymnasium_id_and_changes() -> None:
    task = make_task("Pendulum-v1", gamma=0.5, horizon=7, reward_scale=2.0)
    assert (task.spec.observation_dim, task.spec.horizon, task.spec.gamma) == (3, 7, 0.5)
    assert task.spec.reward_scale == 2.0
    assert make_task("Pendulum-v1").spec.horizon == 200  # The environment's own limit.


def test_a_horizon_truncates_the_environment_too() -> None:
    env = make_task("Pendulum-v1", horizon=3).make_env()
    env.reset(seed=0)
    ends = [env.step(np.zeros(1))[3] for _ in range(3)]
    assert ends == [False, False, True]


def test_a_factory(module: ModuleType) -> None:
    task = make_task("users_robot:good")
    assert (task.spec.action_low, task.spec.action_high) == ((-2.0, -2.0), (1.0, 2.0))
    assert task.spec.horizon == DEFAULT_HORIZON
    assert task.make_env() is not task.make_env()
    assert not task.shared


def test_an_environment_object_is_used_as_it_is() -> None:
    env = Bare()
    task = make_task(env, name="mine")
    assert task.shared
    assert task.make_env() is env
    assert task.spec.name == "mine"


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (VECTOR, spaces.Discrete(4), r"action space Discrete\(4\); abps supports vector.*--wrapper 'ArgmaxAction'"),
        (spaces.Discrete(4), BOUNDED, r"observation space Discrete\(4\); abps supports"),
        (spaces.Dict({"x": VECTOR}), BOUNDED, "observation space Dict.*--wrapper 'FlattenObservation'"),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), BOUNDED, r"observation space Box\(0, 255, \(8, 8, 3\)"),
        (VECTOR, spaces.Box(-np.inf, np.inf, (2,)), "unbounded actions .*--wrapper 'BoundAction"),
        (VECTOR, spaces.Box(-1.0, 1.0, (2, 2)), r"action space Box\(-1.0, 1.0, \(2, 2\)"),
    ],
)
def test_unsupported_spaces_are_named(observation: Any, action: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        make_task(Bare(observation, action))
    assert "\n" not in str(caught.value)
    assert "finite bounds" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoSuchEnv-v0", "Gymnasium cannot make 'NoSuchEnv-v0'.*abps tasks"),
        ("pendulun", "there is no task 'pendulun'; did you mean 'pendulum'"),
        ("statistics", "'statistics' is a module; name what is in it, e.g. 'statistics:MyEnv'"),
        ("hopper-v9", "Gymnasium cannot make 'hopper-v9'"),
        ("no_such_module:make", "cannot import module 'no_such_module'"),
        ("users_robot:missing", "has no factory 'missing', and registers no Gymnasium id of that name$"),
        ("users_robot:brokn", "has no factory 'brokn'.*; did you mean 'users_robot:broken'"),
        ("users_robot:no_env", "returned int, not a gymnasium.Env"),
        ("users_robot:broken", "factory 'users_robot:broken' failed: ZeroDivisionError"),
        (":make", "cannot import module ''"),
    ],
)
def test_what_cannot_be_made_says_why(module: ModuleType, name: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        make_task(name)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise gymnasium.error.DependencyNotInstalled("box2d is not installed")

    monkeypatch.setattr(gymnasium, "make", refuse)
    with pytest.raises(TaskError, match="needs a package that is not installed: box2d"):
        make_task(TaskConfig(id="LunarLander-v3", name="lander"))
