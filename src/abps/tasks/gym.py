"""Gymnasium environments as tasks: made by name, id, factory or given as an object, and checked before anything runs.

Supported: observations that are one vector of real numbers, actions that are one vector with finite bounds.
"""

import contextlib
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from abps.errors import TaskError
from abps.settings import replace
from abps.tasks.catalogue import task_config
from abps.tasks.config import TaskConfig
from abps.tasks.spec import TaskSpec

__all__ = ["DEFAULT_HORIZON", "Task", "make_task"]

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
    make_env: Callable[[], gymnasium.Env[Any, Any]]
    shared: bool = False
    """True when `make_env` hands out one and the same object, which no second process can use."""


def make_task(source: "str | TaskConfig | gymnasium.Env[Any, Any]", **changes: Any) -> Task:
    """Make and check a task.

    Args:
        source: a short name, a Gymnasium id or `module:factory` (see `catalogue.task_config`), settings, or an
            environment
            object.
        changes: settings to override, e.g. `gamma=1.0`.

    Raises:
        TaskError: the environment cannot be made, or its spaces are not supported.

    Example:
        >>> import abps
        >>> spec = abps.make_task("hopper", gamma=0.98).spec
        >>> spec.observation_dim, spec.action_dim, spec.gamma
        (11, 3, 0.98)
    """
    if isinstance(source, gymnasium.Env):
        config = replace(TaskConfig(id=_env_id(source), name=_env_id(source)), **changes)
        return Task(config, _check(source, config), lambda: source, shared=True)
    config = replace(task_config(source) if isinstance(source, str) else source, **changes)
    env = _make_env(config)
    try:
        spec = _check(env, config)
    finally:
        with contextlib.suppress(Exception):  # An environment that cannot close may still run.
            env.close()
    return Task(config, spec, lambda: _make_env(config))


def _env_id(env: "gymnasium.Env[Any, Any]") -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _make_env(config: TaskConfig) -> "gymnasium.Env[Any, Any]":
    """Make the environment behind `config.id`, turning every way it can go wrong into one sentence."""
    if ":" in config.id:
        return _from_factory(config.id)
    limit = {"max_episode_steps": config.horizon} if config.horizon else {}
    try:
        with warnings.catch_warnings():
            # The paper's tasks are the -v4 ones on purpose.
            warnings.filterwarnings("ignore", message=".*out of date.*", category=DeprecationWarning)
            return gymnasium.make(config.id, disable_env_checker=True, **limit)
    except gymnasium.error.DependencyNotInstalled as error:
        raise TaskError(f"task {config.id!r} needs a package that is not installed: {error}") from error
    except gymnasium.error.Error as error:
        raise TaskError(
            f"Gymnasium cannot make {config.id!r}: {error} (abps knows the short names listed by `abps tasks`, "
            "any registered Gymnasium id, and module:factory)"
        ) from error
    except ImportError as error:
        raise TaskError(f"task {config.id!r} needs a package that is not installed: {error}") from error


def _from_factory(path: str) -> "gymnasium.Env[Any, Any]":
    module_name, _, name = path.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), name)
    except AttributeError as error:
        raise TaskError(f"module {module_name!r} has no factory {name!r}") from error
    except Exception as error:  # Whatever a stranger's module does at import.
        raise TaskError(f"cannot import module {module_name!r} of task {path!r}: {error}") from error
    try:
        env = factory()
    except Exception as error:
        raise TaskError(f"factory {path!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(env, gymnasium.Env):
        raise TaskError(f"factory {path!r} returned {type(env).__name__}, not a gymnasium.Env")
    return env


def _check(env: "gymnasium.Env[Any, Any]", config: TaskConfig) -> TaskSpec:
    """Return the spec of a supported environment.

    Raises:
        TaskError: names the offending space and what is supported.
    """
    observation, action = env.observation_space, env.action_space
    if not isinstance(observation, spaces.Box) or len(observation.shape) != 1:
        raise TaskError(f"task {config.name!r} has the observation space {observation}; {SUPPORTED}")
    if not isinstance(action, spaces.Box) or len(action.shape) != 1:
        raise TaskError(f"task {config.name!r} has the action space {action}; {SUPPORTED}")
    if not (np.all(np.isfinite(action.low)) and np.all(np.isfinite(action.high))):
        raise TaskError(f"task {config.name!r} has unbounded actions {action}; {SUPPORTED}; wrap it with RescaleAction")
    limit = env.spec.max_episode_steps if env.spec is not None else None
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
    )
