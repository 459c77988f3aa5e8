"""Wrappers around environments, named in settings: `FlattenObservation`, `module:Name`, `module:Name(key=value)`.

A name without a module is one of the two here or one of `gymnasium.wrappers`.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from abps.errors import AbpsError, TaskError
from abps.keywords import call_parts
from abps.registry import import_object, nearest

__all__ = ["ArgmaxAction", "BoundAction", "wrapped"]

AnyEnv = gymnasium.Env[Any, Any]


class BoundAction(gymnasium.ActionWrapper[Any, Any, Any]):
    """Gives unbounded actions the bounds that your actuators have: `BoundAction(low=-2, high=2)`.

    Actions are handed on as they are; what lies beyond the bounds is clipped.
    """

    def __init__(self, env: AnyEnv, low: Any = -1.0, high: Any = 1.0) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, spaces.Box):
            raise TaskError(f"BoundAction is for actions that are a Box, got {space}")
        shape = space.shape
        lower, upper = (np.broadcast_to(np.asarray(bound, dtype=space.dtype), shape) for bound in (low, high))
        self.action_space = spaces.Box(np.maximum(lower, space.low), np.minimum(upper, space.high), dtype=np.float32)

    def action(self, action: Any) -> Any:
        """The action within the bounds."""
        box = self.action_space
        assert isinstance(box, spaces.Box)  # noqa: S101 - made above
        return np.clip(action, box.low, box.high)


class ArgmaxAction(gymnasium.ActionWrapper[Any, Any, Any]):
    """Makes discrete actions searchable: a score between −1 and 1 for every choice, and the highest one is taken."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, spaces.Discrete):
            raise TaskError(f"ArgmaxAction is for Discrete actions, got {space}")
        self._first = int(space.start)
        self.action_space = spaces.Box(-1.0, 1.0, (int(space.n),), np.float32)

    def action(self, action: Any) -> int:
        """The choice with the highest score; the first of equals."""
        return self._first + int(np.argmax(action))


OWN = {"ArgmaxAction": ArgmaxAction, "BoundAction": BoundAction}


def wrapped(env: AnyEnv, names: Sequence[str]) -> AnyEnv:
    """The environment inside the named wrappers, the first one innermost.

    Raises:
        TaskError: there is no such wrapper, or it refuses the environment.
    """
    for text in names:
        try:
            name, arguments = call_parts(text)
            env = _wrapper(name)(env, **arguments)
        except AbpsError as error:
            raise TaskError(f"the wrapper {text!r} cannot be used: {error}") from error
        except Exception as error:  # Whatever a wrapper does.
            raise TaskError(f"the wrapper {text!r} failed: {type(error).__name__}: {error}") from error
        if not isinstance(env, gymnasium.Env):
            raise TaskError(f"the wrapper {text!r} returned {type(env).__name__}, not a gymnasium.Env")
    return env


def _wrapper(name: str) -> Any:
    if ":" in name:
        return import_object(name)
    if name in OWN:
        return OWN[name]
    module: Any = importlib.import_module("gymnasium.wrappers")
    known = [*OWN, *(other for other in module.__all__ if other[0].isupper())]  # `vector` is a module.
    if name not in known:
        wanted = name.lower()
        alike = [other for other in known if wanted in other.lower() or other.lower().startswith(wanted[:4])]
        raise TaskError(f"there is no wrapper {name!r} here or in gymnasium.wrappers{nearest(name, alike or known)}")
    return getattr(module, name)
