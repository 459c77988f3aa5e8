"""Making environments: from Gymnasium ids, `module:factory`, `module:EnvId`, classes, callables and objects.

Every way that making one can go wrong becomes one sentence.
"""

import difflib
import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium

from abps.errors import ConfigError, TaskError
from abps.keywords import read_keywords
from abps.registry import import_object
from abps.tasks.catalogue import PAPER_TASKS
from abps.tasks.config import TaskConfig
from abps.tasks.wrappers import AnyEnv, wrapped

__all__ = ["OBJECT", "call_factory", "env_name", "importable", "make_env"]

OBJECT = "<object>"
"""Begins the id of a task whose environment only the present Python program can make."""


def make_env(config: TaskConfig, **extra: Any) -> AnyEnv:
    """Make the environment that the settings describe, wrappers and all.

    Args:
        config: the task.
        extra: further keyword arguments (`render_mode`); a factory is only given those that it takes.

    Raises:
        TaskError: it cannot be made.
    """
    if config.id.startswith(OBJECT):
        raise TaskError(
            f"the environment of this run, {config.id.removeprefix(OBJECT).lstrip(':')!r}, was an object of a Python "
            "program, which alone can make it: go on there (`abps.train(env, out=...)`, `abps.load(path, task=env)`), "
            "or name it by module:factory from the beginning"
        )
    arguments = {**read_keywords(config.env_kwargs), **extra}
    return wrapped(_bare_env(config, arguments, extra), config.wrapper)


def env_name(env: AnyEnv) -> str:
    """What an environment is called: its Gymnasium id, or its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def importable(value: Any) -> str:
    """`module:Name` under which another process finds a class or function; "" when it cannot."""
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    if not module or not name or module == "__main__" or "<" in name:
        return ""
    try:
        return f"{module}:{name}" if import_object(f"{module}:{name}") is value else ""
    except ConfigError:
        return ""


def call_factory(factory: Callable[..., Any], name: str, arguments: dict[str, Any]) -> AnyEnv:
    """The environment that a class or function makes.

    Raises:
        TaskError: it fails, or makes something else.
    """
    try:
        env = factory(**arguments)
    except Exception as error:  # Whatever a stranger's code does.
        raise TaskError(f"factory {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(env, gymnasium.Env):
        raise TaskError(f"factory {name!r} returned {type(env).__name__}, not a gymnasium.Env")
    return env


def _bare_env(config: TaskConfig, arguments: dict[str, Any], extra: dict[str, Any]) -> AnyEnv:
    if ":" not in config.id:
        return _registered(config.id, config.horizon, arguments)
    module_name, _, name = config.id.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # Whatever a stranger's module does at import.
        raise TaskError(f"cannot import module {module_name!r} of task {config.id!r}: {error}") from error
    factory = getattr(module, name, None)
    if factory is None and name in gymnasium.registry:  # Gymnasium's own way: the module registers the id.
        return _registered(name, config.horizon, arguments)
    if factory is None:
        known = [item for item, value in vars(module).items() if callable(value) and not item.startswith("_")]
        close = difflib.get_close_matches(name, known, n=1)
        advice = f"; did you mean '{module_name}:{close[0]}'?" if close else ""
        raise TaskError(
            f"module {module_name!r} has no factory {name!r}, and registers no Gymnasium id of that name{advice}"
        )
    if not callable(factory):
        raise TaskError(f"{config.id!r} is a {type(factory).__name__}, not a function or class that makes environments")
    return call_factory(factory, config.id, _taken(factory, arguments, extra))


def _taken(factory: Callable[..., Any], arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those of `extra` that the factory does not know."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return arguments
    if any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name not in extra or name in parameters}


def _registered(name: str, horizon: int, arguments: dict[str, Any]) -> AnyEnv:
    limit = {"max_episode_steps": horizon} if horizon else {}
    try:
        with warnings.catch_warnings():
            # The paper's tasks are the -v4 ones on purpose.
            warnings.filterwarnings("ignore", message=".*out of date.*", category=DeprecationWarning)
            return gymnasium.make(name, disable_env_checker=True, **limit, **arguments)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise TaskError(f"task {name!r} needs a package that is not installed: {error}") from error
    except gymnasium.error.Error as error:
        close = [] if "-" in name else difflib.get_close_matches(name, PAPER_TASKS, n=1)
        if close:  # Gymnasium's own advice would be another task: Pendulum for pendulun.
            raise TaskError(f"there is no task {name!r}; did you mean {close[0]!r}? `abps tasks` lists them") from error
        if name.isidentifier() and importlib.util.find_spec(name) is not None:
            raise TaskError(f"{name!r} is a module; name what is in it, e.g. '{name}:MyEnv'") from error
        raise TaskError(
            f"Gymnasium cannot make {name!r}: {error} (abps knows the short names listed by `abps tasks`, "
            "any registered Gymnasium id, and module:factory)"
        ) from error
    except Exception as error:  # Whatever an environment does when it is made, e.g. with wrong keyword arguments.
        given = f" with {', '.join(arguments)}" if arguments else ""
        raise TaskError(f"{name!r} cannot be made{given}: {type(error).__name__}: {error}") from error
