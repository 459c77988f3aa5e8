"""Saving and restoring what parts remember: one walker over dataclasses of arrays and scalars.

`save` turns a dataclass into nested dictionaries, lists, arrays and scalars, which a checkpoint can hold. `restore`
builds it again from the type hints: keys of dictionaries are texts, and of alternatives (`A | B`) at most one is a
dataclass. A field whose class is only known at run time (the memory of a step rule chosen by name) is restored like the
value that a freshly made object holds there.
"""

import types
import typing
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["NoMemory", "restore", "save"]

T = TypeVar("T")


@dataclass
class NoMemory:
    """The memory of something that remembers nothing."""


def save(value: Any) -> Any:
    """Return `value` as nested dicts and lists of arrays and scalars; arrays are copied."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: save(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, np.ndarray):
        return cast("NDArray[Any]", value).copy()
    if isinstance(value, np.generic):
        return cast("np.generic[Any]", value).item()
    if isinstance(value, list | tuple):
        return [save(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: save(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def restore(like: T, data: Any) -> T:
    """Build an object of the class of `like` from what `save` returned; `like` itself is not changed."""
    return _object(type(like), data, like)


def _object(cls: type, data: Any, like: Any) -> Any:
    hints = typing.get_type_hints(cls)
    own = {item.name: getattr(like, item.name, None) for item in fields(cls)}
    if set(data) != set(own):
        raise ValueError(f"{cls.__name__} has the fields {', '.join(own)}; saved were {', '.join(data)}")
    return cls(**{name: _value(hints[name], data[name], example) for name, example in own.items()})


def _value(hint: Any, data: Any, like: Any) -> Any:
    if data is None:
        return None
    if is_dataclass(like) and not isinstance(like, type):
        return _object(type(like), data, like)
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        arms = tuple(arm for arm in arms if arm is not types.NoneType)
        return _value(arms[0] if len(arms) == 1 else Any, data, None)
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint, data, None)
    if origin is list:
        return [_value(arms[0], item, None) for item in data]
    if origin is tuple:
        each = arms[:1] * len(data) if arms[-1] is Ellipsis else arms
        return tuple(_value(arm, item, None) for arm, item in zip(each, data, strict=True))
    if origin is dict:
        return {key: _value(arms[1], item, None) for key, item in data.items()}
    if isinstance(data, np.ndarray):
        return cast("NDArray[Any]", data).copy()
    return cast("Any", hint)(data) if hint in (int, float, bool, str, tuple) else data
