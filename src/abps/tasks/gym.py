"""Gymnasium environments as tasks: made by name, id or factory or given as they are, and checked before anything runs.

Supported: observations that are one vector of real numbers, actions that are one vector with finite bounds. For others
the sentence names the wrapper that helps.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from abps.errors import TaskError
from abps.keywords import keywords_texts, read_keywords
from abps.settings import with_changes
from abps.tasks.catalogue import task_config
from abps.tasks.config import TaskConfig
from abps.tasks.constraints import Constraint, cost_reader, read_constraints
from abps.tasks.environments import OBJECT, call_factory, env_name, importable, make_env
from abps.tasks.spec import TaskSpec
from abps.tasks.wrappers import AnyEnv, wrapped

__all__ = ["DEFAULT_HORIZON", "Task", "TaskLike", "make_task"]

DEFAULT_HORIZON = 1000
"""Longest episode when neither the settings nor the environment say one."""

SUPPORTED = "abps supports vector observations (1-D Box) and bounded continuous actions (1-D Box with finite bounds)"


@dataclass(frozen=True, eq=False)
class Task:
    """A checked environment: its spec for the search, and a way to make fresh copies for rollouts.

    Example:
        >>> import abps
        >>> task = abps.make_task("swimmer")
        >>> task.make_env().action_space.shape, task.shared
        ((2,), False)
    """

    config: TaskConfig
    spec: TaskSpec
    make_env: Callable[[], AnyEnv]
    shared: bool = False
    """True when `make_env` hands out one and the same object, which no second process can use."""

    @property
    def portable(self) -> bool:
        """Whether another process can make the environment from the settings alone."""
        return not self.config.id.startswith(OBJECT)


TaskLike = str | TaskConfig | Task | AnyEnv | Callable[..., AnyEnv]
"""What a task can be made of: see `make_task`."""


def make_task(source: TaskLike, **changes: Any) -> Task:
    """Make and check a task.

    Args:
        source: a short name, a Gymnasium id, `module:factory` or Gymnasium's `module:EnvId` (see
            `catalogue.task_config`), settings, an environment object, an environment class, or a function that makes
            one.
        changes: settings of the task to override, e.g. `gamma=1.0`; `env_kwargs={"gravity": 9.81}`,
            `wrapper="FlattenObservation"`.

    Raises:
        TaskError: the environment cannot be made, or its spaces are not supported.
        ConfigError: there is no such setting, or its value is none.

    Example:
        >>> import abps
        >>> spec = abps.make_task("hopper", gamma=0.98).spec
        >>> spec.observation_dim, spec.action_dim, spec.gamma
        (11, 3, 0.98)
        >>> abps.make_task("CartPole-v1", wrapper="ArgmaxAction").spec.action_dim
        2
    """
    if isinstance(source, Task):
        return _again(source, changes)
    if isinstance(source, str | TaskConfig):
        config = _with(task_config(source) if isinstance(source, str) else source, changes)
        return _checked(config, lambda: make_env(config))
    if isinstance(source, gymnasium.Env):
        return _of_object(source, changes)
    if callable(source):
        return _of_factory(source, changes)
    raise TaskError(
        f"a task is a name, a Gymnasium id, module:factory, an environment (gymnasium.Env), its class or a function "
        f"that makes one; got {type(source).__module__}.{type(source).__name__}"
    )


def _with(config: TaskConfig, changes: Mapping[str, Any]) -> TaskConfig:
    """Settings with changes; those of the environment may be given as Python values."""
    plain = dict(changes)
    if isinstance(plain.get("env_kwargs"), Mapping):
        plain["env_kwargs"] = keywords_texts(plain["env_kwargs"])
    if "constraint" in plain:
        given = plain["constraint"]
        listed = given if isinstance(given, list | tuple) else [given]
        plain["constraint"] = [str(item) if isinstance(item, Constraint) else item for item in listed]
    if "wrapper" in plain:
        given = plain["wrapper"]
        listed = given if isinstance(given, list | tuple) else [given]
        plain["wrapper"] = [_wrapper_name(item) for item in listed]
    return with_changes(config, plain, where="task.") if plain else config


def _wrapper_name(wrapper: Any) -> str:
    name = wrapper if isinstance(wrapper, str) else importable(wrapper)
    if not name:
        raise TaskError(
            f"a wrapper is module:Name or a class of a module, got {wrapper!r}; or give a function that returns the "
            "wrapped environment as the task"
        )
    return name


def _checked(config: TaskConfig, factory: Callable[[], AnyEnv]) -> Task:
    """The task of an environment that can be made again and again."""
    env = factory()
    try:
        spec = _check(env, config)
    finally:
        with contextlib.suppress(Exception):  # An environment that cannot close may still run.
            env.close()
    return Task(config, spec, factory)


def _of_object(env: AnyEnv, changes: Mapping[str, Any]) -> Task:
    name = env_name(env)
    config = _with(TaskConfig(id=f"{OBJECT}:{name}", name=name), changes)
    if config.env_kwargs:
        raise TaskError("env_kwargs are for environments that abps makes; this one is made already")
    whole = wrapped(env, config.wrapper)
    return Task(config, _check(whole, config), lambda: whole, shared=True)


def _of_factory(factory: Callable[..., AnyEnv], changes: Mapping[str, Any]) -> Task:
    """A class or function: named by its module where other processes can import it, else kept as it is."""
    place, shown = importable(factory), getattr(factory, "__qualname__", repr(factory))
    name = getattr(factory, "__name__", "")
    name = name if name.isidentifier() else "environment"  # A lambda has none.
    config = _with(TaskConfig(id=place or f"{OBJECT}:{shown}", name=name), changes)

    def make() -> AnyEnv:
        made = call_factory(factory, shown, read_keywords(config.env_kwargs))
        return wrapped(made, config.wrapper)

    return _checked(config, make)


def _again(task: Task, changes: Mapping[str, Any]) -> Task:
    """A task with other settings; its environment is made as before."""
    if not changes:
        return task
    if {"id", "env_kwargs", "wrapper"} & set(changes):
        raise TaskError("a task that is made keeps its environment; make a new one with these settings")
    config, env = _with(task.config, changes), task.make_env()
    return Task(config, _check(env, config), task.make_env, task.shared)


def _check(env: AnyEnv, config: TaskConfig) -> TaskSpec:
    """Return the spec of a supported environment.

    Raises:
        TaskError: names the offending space, what is supported, and the wrapper that helps.
    """
    observation, action = env.observation_space, env.action_space
    if not isinstance(observation, spaces.Box) or len(observation.shape) != 1:
        raise TaskError(
            f"task {config.name!r} has the observation space {observation}; {SUPPORTED}; {_flatten(observation)}"
        )
    if not isinstance(action, spaces.Box) or len(action.shape) != 1:
        raise TaskError(f"task {config.name!r} has the action space {action}; {SUPPORTED}; {_continuous(action)}")
    if not (np.all(np.isfinite(action.low)) and np.all(np.isfinite(action.high))):
        raise TaskError(
            f"task {config.name!r} has unbounded actions {action}; {SUPPORTED}; give them the bounds of your actuators "
            f"with {_wrapper('BoundAction(low=-1,high=1)')} (RescaleAction cannot: it needs finite bounds itself)"
        )
    limit = env.spec.max_episode_steps if env.spec is not None else None
    _check_costs(env, config)
    return TaskSpec(
        name=config.name,
        observation_dim=observation.shape[0],
        action_dim=action.shape[0],
        action_low=tuple(float(x) for x in action.low),
        action_high=tuple(float(x) for x in action.high),
        gamma=config.gamma,
        horizon=config.horizon or limit or DEFAULT_HORIZON,
        reward_scale=config.reward_scale,
        limits=config.limits,
        constraints=read_constraints(config.constraint),
    )


def _check_costs(env: AnyEnv, config: TaskConfig) -> None:
    """Try one step of a task with constraints: an environment that reports no costs is found out before anything runs.

    Raises:
        TaskError: a cost is missing, or no number.
        ConfigError: a function that gives costs cannot be imported.
    """
    reader = cost_reader(read_constraints(config.constraint))
    if reader is None:
        return
    space = env.action_space
    action = (np.asarray(getattr(space, "low", 0.0)) + np.asarray(getattr(space, "high", 0.0))) / 2.0
    try:
        env.reset(seed=0)
        observation, reward, _, _, info = env.step(action)
    except Exception:  # An environment that fails now may work later; its episodes will tell.
        return
    reader(observation, action, float(reward), info)


def _flatten(space: spaces.Space[Any]) -> str:
    if space.is_np_flattenable:
        return f"make one vector of it with {_wrapper('FlattenObservation')}"
    return "write a gymnasium.ObservationWrapper that makes one vector of numbers of it"


def _continuous(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Discrete):
        return f"let every choice have a score, and the highest be taken, with {_wrapper('ArgmaxAction')}"
    return "write a gymnasium.ActionWrapper that takes one vector with finite bounds"


def _wrapper(name: str) -> str:
    return f"--wrapper '{name}' (in Python wrapper=\"{name}\")"
