"""Settings as command-line options: every field of a config becomes `--name`, nested ones `--group.name`."""

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from abps.config import replace
from abps.errors import ConfigError

__all__ = ["add_settings", "read_settings"]

T = TypeVar("T")


def add_settings(parser: argparse.ArgumentParser, title: str, config: Any, skip: tuple[str, ...] = ()) -> None:
    """Add an option for every field of `config` (its values are the defaults shown), nested groups included."""
    group = parser.add_argument_group(title)
    hints = typing.get_type_hints(type(config))
    nested: list[tuple[str, Any]] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in skip:
            continue
        if dataclasses.is_dataclass(value):
            nested.append((field.name, value))
        else:
            _add_option(group, field, value, hints[field.name], prefix="")
    for name, value in nested:
        inner = typing.get_type_hints(type(value))
        group = parser.add_argument_group(f"{title}: {name}")
        for field in dataclasses.fields(value):
            _add_option(group, field, getattr(value, field.name), inner[field.name], prefix=f"{name}.")


def read_settings(arguments: argparse.Namespace, config: T) -> T:
    """Return `config` with the options that were given on the command line.

    Raises:
        ConfigError: a value is out of its range.
    """
    given = vars(arguments)
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            inner = {item.name: given.get(f"set:{field.name}.{item.name}") for item in dataclasses.fields(value)}
            inner = {name: item for name, item in inner.items() if item is not None}
            if inner:
                changes[field.name] = replace(value, **_without_nones(inner))
        elif given.get(f"set:{field.name}") is not None:
            changes[field.name] = given[f"set:{field.name}"]
    return replace(config, **_without_nones(changes)) if changes else config


class _NoneValue:
    """What `none` on the command line becomes until the config is built."""


def _without_nones(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, _NoneValue) else value for name, value in changes.items()}


def _add_option(group: Any, field: "dataclasses.Field[Any]", value: Any, hint: Any, prefix: str) -> None:
    flag = f"--{prefix}{field.name}".replace("_", "-")
    options: dict[str, Any] = {"dest": f"set:{prefix}{field.name}", "default": None}
    help_text = f"{field.metadata.get('help', '')} (default: {_show(value)})".replace("%", "%%")
    if hint is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, help=help_text, **options)
        return
    choices = field.metadata.get("choices") or None
    metavar = None if choices else field.name.rpartition("_")[2].upper()
    group.add_argument(flag, type=_parser_of(hint), choices=choices, metavar=metavar, help=help_text, **options)


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_show(part) for part in value)
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


def _parser_of(hint: Any) -> Callable[[str], Any]:
    """Return the function that reads a value of the field's type from text."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _parser_of(next(arm for arm in typing.get_args(hint) if arm is not types.NoneType))

        def number_or_none(text: str) -> Any:
            return _NoneValue() if text == "none" else inner(text)

        return number_or_none
    if origin is tuple:
        part = _parser_of(typing.get_args(hint)[0])

        def numbers(text: str) -> Any:
            return tuple(part(item) for item in text.split(","))

        return numbers
    if hint in (int, float, str):
        return hint
    raise ConfigError(f"a setting of type {hint} has no command-line form")
