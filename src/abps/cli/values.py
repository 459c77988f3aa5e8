"""The values of options, read by tyro from a dataclass that mirrors the settings."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from abps.cli.tree import Node, Option, family_of, flag_of, hints_of, kind_name
from abps.errors import ConfigError
from abps.keywords import split_list

__all__ = ["read_values"]


def read_values(
    nodes: Sequence[Node],
    given: Iterable[tuple[str, str | None]],
    known: Mapping[str, Option],
    positionals: Sequence[str],
) -> Any:
    """Let tyro read the values.

    Args:
        nodes: the settings.
        given: options that are known to exist, with their values.
        known: every flag with its option.
        positionals: the arguments without a flag.

    Returns:
        An object whose fields `group_0`, `group_1`, … mirror the nodes.

    Raises:
        ConfigError: a value of the wrong type.
    """
    import tyro

    arguments = [(f"group_{number}", *_mirror(node)) for number, node in enumerate(nodes)]
    root = dataclasses.make_dataclass(
        "Arguments",
        [(name, Annotated[cls, tyro.conf.arg(name="", help=name)], default) for name, cls, default in arguments],
        frozen=True,
    )
    argv = [flag if value is None else f"{flag}={value}" for flag, value in _joined(given, known)]
    try:
        return tyro.cli(root, args=[*positionals, *argv], prog="abps", console_outputs=False)
    except SystemExit as error:
        raise ConfigError(f"cannot read the arguments {' '.join(argv)}") from error


def _joined(given: Iterable[tuple[str, str | None]], known: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """Every option once: the last one counts, and lists that are given in pieces are joined."""
    last: dict[str, tuple[str, str | None]] = {}
    for flag, value in given:
        option = known[flag]
        if option.path in last and value is not None and typing.get_origin(option.hint) is tuple:
            value = f"{last[option.path][1]},{value}"
        last[option.path] = (flag, value)
    yield from last.values()


def _mirror(node: Node) -> tuple[type, Any]:
    """A dataclass for tyro with the same fields as the settings, and its instance with their values."""
    import tyro

    hints = hints_of(type(node.source))
    mirrored: list[tuple[str, Any, Any]] = []
    for item in fields(node.source):
        if item.name in node.skip:
            continue
        path, child, family = node.path + item.name, node.children.get(item.name), family_of(hints[item.name])
        if family:  # Its value was used when the tree was made.
            kind = Annotated[str, tyro.conf.arg(name=item.name, help="kind")]
            mirrored.append((f"kind_of_{item.name}", kind, kind_name(child)))
        if child is not None:
            cls, default = _mirror(child)
            mirrored.append((item.name, Annotated[cls, tyro.conf.arg(help=item.name)], default))
        elif not family:
            hint = _annotated(hints[item.name], path, item.metadata, may_be_empty=item.default not in ((), None))
            mirrored.append((item.name, hint, getattr(node.source, item.name)))
    mirror = dataclasses.make_dataclass(type(node.source).__name__, mirrored, frozen=True)
    return mirror, mirror()


def _annotated(hint: Any, path: str, metadata: Mapping[str, Any], *, may_be_empty: bool) -> Any:
    import tyro

    # Without a help text tyro would look for one in the source code, which takes longer than all the rest.
    documented = tyro.conf.arg(help=metadata.get("help") or path)
    if metadata.get("metavar"):
        return Annotated[str, tyro.conf.Positional, documented]
    if hint is bool:
        return Annotated[bool, documented]
    reader = tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="VALUE",
        instance_from_str=lambda words: _read(words[0], hint, flag_of(path), may_be_empty=may_be_empty),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )
    return Annotated[hint, reader, documented]


def _read(text: str, hint: Any, flag: str, *, may_be_empty: bool) -> Any:
    """A value of a field's type from text; lists are separated by commas.

    A list that is empty without the option must not be given an empty one: `--constraint "$LIMIT"` with a variable that
    is not set would be a run without the limit.

    Raises:
        ConfigError: it is none.
    """
    arms = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if text.lower() == "none" and types.NoneType in arms:
        return None
    hint = next(arm for arm in arms if arm is not types.NoneType)
    inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
    if inner is not None and not may_be_empty and not split_list(text):
        raise ConfigError(f"{flag} must be {_expected(hint)}, got {text!r}; leave the option out for none")
    try:
        if inner is not None:
            return tuple(_one(part, inner) for part in split_list(text))
        return _one(text, hint)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{flag} must be {_expected(hint)}, got {text!r}{_nearest_choice(text, hint)}") from error
    except TypeError as error:
        raise ConfigError(f"{flag} has a type that the command line cannot read: {hint}") from error


def _one(text: str, hint: Any) -> Any:
    return hint(text) if hint in (int, float, str, Path) else msgspec.convert(text, hint, strict=False)


def _expected(hint: Any) -> str:
    """What a value of a type looks like, in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        one = _expected(inner[0])
        return f"{one[2:]}s separated by commas" if one.startswith("a ") else f"{one}, or several separated by commas"
    words = {int: "a whole number", float: "a number", str: "a text"}
    return words.get(hint) or f"a {getattr(hint, '__name__', hint)}"


def _nearest_choice(text: str, hint: Any) -> str:
    if typing.get_origin(hint) is tuple:
        return _nearest_choice(text, typing.get_args(hint)[0])
    if typing.get_origin(hint) is not typing.Literal:
        return ""
    close = difflib.get_close_matches(text, [str(choice) for choice in typing.get_args(hint)], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
