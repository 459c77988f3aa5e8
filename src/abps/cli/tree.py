"""Settings as a tree: classes and their values, taken apart, so that parts can be exchanged and values changed at once.

`abps.cli.options` turns the tree into options, `abps.cli.values` reads their values.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

from abps.errors import ConfigError
from abps.registry import find, kind_of
from abps.settings import Part

__all__ = ["Group", "Node", "Option", "family_of", "flag_of", "grow", "hints_of", "kind_name", "positional"]


class Group(NamedTuple):
    """Settings that stand together in the help."""

    title: str
    config: Any
    """A dataclass; its values are the defaults."""
    skip: tuple[str, ...] = ()
    """Fields that are no options."""
    show_defaults: bool = True
    """Whether the help names the values; those of a run that is yet unknown are not its defaults."""


class Option(NamedTuple):
    """One setting as an option."""

    path: str
    """Dotted name: `plan.probes`."""
    hint: Any
    default: Any
    help: str
    common: bool
    family: str
    """Of parts, when the option chooses one of them by kind."""
    metavar: str
    """Of an argument without a flag; "" for options."""
    heading: bool = False
    """Whether it only names a group of settings, and is no option."""

    @property
    def flag(self) -> str:
        return flag_of(self.path)

    @property
    def is_switch(self) -> bool:
        """Whether it is a pair of flags without a value."""
        return self.hint is bool

    @property
    def off_flag(self) -> str:
        """The flag that switches it off."""
        group, dot, name = self.path.rpartition(".")
        return flag_of(f"{group}{dot}no_{name}")


def positional(metavar: str, help: str) -> Any:
    """A field of a command's own arguments that is given without a flag."""
    return field(default="", metadata={"help": help, "metavar": metavar})


def flag_of(path: str) -> str:
    """`plan.design_std` → `--plan.design-std`."""
    return "--" + path.replace("_", "-")


@dataclass
class Node:
    """Settings taken apart: a class and its values, where a group or part is a node again.

    Values are only put together again when all are known, because some are only valid together.
    """

    source: Any
    path: str
    """Dotted name with a final dot; "" at the top."""
    skip: tuple[str, ...] = ()
    children: dict[str, "Node"] = field(default_factory=dict)

    def options(self) -> Iterator[Option]:
        """Own options, then those of every part, after the option that chooses it."""
        hints = hints_of(type(self.source))
        nested: list[Option] = []
        for item in fields(self.source):
            if item.name in self.skip:
                continue
            family, value = family_of(hints[item.name]), getattr(self.source, item.name)
            child = self.children.get(item.name)
            option = Option(
                self.path + item.name,
                str if family else hints[item.name],
                kind_name(child) if family else value,
                item.metadata.get("help", ""),
                item.metadata.get("common", False),
                family,
                item.metadata.get("metavar", ""),
            )
            if family or child is not None:
                nested.append(option)
            else:
                yield option
        for option in nested:
            yield option if option.family else option._replace(heading=True)
            child = self.children.get(option.path.removeprefix(self.path))
            if child is not None:
                yield from child.options()

    def build(self, parsed: Any) -> Any:
        """Settings from what tyro read."""
        changes: dict[str, Any] = {}
        hints = hints_of(type(self.source))
        for item in fields(self.source):
            if item.name in self.skip:
                continue
            old, child = getattr(self.source, item.name), self.children.get(item.name)
            if child is not None:
                new = child.build(getattr(parsed, item.name, None))
            else:
                new = None if family_of(hints[item.name]) else getattr(parsed, item.name)
            if new is not old:
                changes[item.name] = new
        if not changes:
            return self.source
        try:
            return dataclasses.replace(self.source, **changes)
        except ConfigError as error:
            raise ConfigError(f"{self.path.rstrip('.')}: {error}" if self.path else str(error)) from error


def grow(node: Node, chosen: Mapping[str, str]) -> Node:
    """Take groups and parts apart, with the kinds that were chosen."""
    hints = hints_of(type(node.source))
    for item in fields(node.source):
        if item.name in node.skip:
            continue
        path, value, family = node.path + item.name, getattr(node.source, item.name), family_of(hints[item.name])
        if family and flag_of(path) in chosen:
            value = _chosen(family, chosen[flag_of(path)], value, hints[item.name])
        if is_dataclass(value):
            node.children[item.name] = grow(Node(value, f"{path}."), chosen)
    return node


def _chosen(family: str, kind: str, value: Any, hint: Any) -> Any:
    """A part of a kind: the one that is there when it is of this kind, else one with its own defaults."""
    if kind == "none" and types.NoneType in typing.get_args(hint):
        return None
    part = find(family, kind)
    if type(value) is part:
        return value
    try:
        return part()
    except TypeError as error:
        raise ConfigError(f"{kind!r} cannot be made with its defaults: {error}") from error


def kind_name(node: Node | None) -> str:
    return "none" if node is None else kind_of(type(node.source))


def hints_of(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise ConfigError(f"the types of {cls.__module__}:{cls.__name__} cannot be read: {error}") from error


def family_of(hint: Any) -> str:
    """The family of parts that a field takes, or ""."""
    arms = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return next((arm.family for arm in arms if isinstance(arm, type) and issubclass(arm, Part)), "")
