"""The help of commands whose options are settings: one screen of what people change, or everything, part by part."""

import shutil
import textwrap
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abps.cli.options import Words, options_of
from abps.cli.tree import Group, Option
from abps.registry import KINDS, find

__all__ = ["all_help", "short_help", "shown_value"]

WIDTH = 100
LABEL = 28
"""Columns of the options' names; a longer name has a line of its own."""

METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH"}

UNBREAKABLE = "\N{NO-BREAK SPACE}"


def short_help(usage: str, text: str, groups: Sequence[Group], words: Words, footer: str) -> str:
    """The command's own options, and the settings that are marked as common."""
    lines = [f"usage: {usage}", "", *_wrapped(text)]
    for number, (group, options) in enumerate(options_of(groups, words)):
        shown = [option for option in options if (number == 0 or option.common) and not option.heading]
        if shown:
            lines += ["", f"{group.title}:"]
            for option in shown:
                lines += _row(option, own=number == 0, default=group.show_defaults)
    return "\n".join([*lines, "", *_wrapped(footer)])


def all_help(usage: str, text: str, groups: Sequence[Group], words: Words, footer: str) -> str:
    """Every option; those of a part under the option that chooses it."""
    lines = [f"usage: {usage}", "", *_wrapped(text)]
    for number, (group, options) in enumerate(options_of(groups, words)):
        lines += ["", f"{group.title}:"]
        for option in options:
            if option.heading:
                lines += ["", f"  {option.flag}.*   {option.help}"]
                continue
            lines += _part(option) if option.family else _row(option, own=number == 0, default=group.show_defaults)
    return "\n".join([*lines, "", *_wrapped(footer)])


def shown_value(value: Any) -> str:
    """A value as one would type it."""
    if isinstance(value, tuple):
        return ",".join(shown_value(item) for item in value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


def _part(option: Option) -> list[str]:
    """The option that chooses a part, with its kinds."""
    kinds = ", ".join(f"[{kind}]" if kind == option.default else kind for kind in KINDS[option.family])
    if option.default != "none" and option.default not in KINDS[option.family]:
        kinds += f", [{option.default}]"
    lines = ["", f"  {option.flag} KIND   {option.help}: {kinds}, or module:Name"]
    if option.default != "none":
        summary = (find(option.family, option.default).__doc__ or "").strip().partition("\n")[0]
        lines += textwrap.wrap(summary, _width(), initial_indent="      ", subsequent_indent="      ")
    return [piece for line in lines for piece in (_hanging(line) if line else [""])]


def _hanging(line: str) -> list[str]:
    return textwrap.wrap(line, _width(), subsequent_indent=" " * 6, break_on_hyphens=False, drop_whitespace=True)


def _row(option: Option, *, own: bool, default: bool) -> list[str]:
    """One option: its name, its meaning, its default."""
    label = "  " + _label(option, own=own)
    unsaid = (
        not default
        or option.metavar
        or option.default in ((), "")
        or (own and (option.is_switch or option.default is None))
    )
    indent = " " * (LABEL + 2)
    text = f"{option.help}{'' if unsaid else _default(option)}".strip()
    meaning = [line.replace(UNBREAKABLE, " ") for line in _wrapped(text, _width() - len(indent))]
    if len(label) > LABEL:
        return [label, *(indent + line for line in meaning)]
    return [f"{label:<{LABEL}}  {meaning[0]}", *(indent + line for line in meaning[1:])]


def _default(option: Option) -> str:
    return f" (default:{UNBREAKABLE}{shown_value(option.default)})"


def _label(option: Option, *, own: bool) -> str:
    if option.metavar:
        return option.metavar
    if option.is_switch:
        return option.flag if own else f"{option.flag}, {option.off_flag}"
    return f"{option.flag} {_metavar(option.hint).removesuffix('|none' if own else '')}"


def _metavar(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return "|".join("none" if arm is types.NoneType else _metavar(arm) for arm in inner)
    if origin is typing.Literal:
        return "|".join(map(str, inner))
    if origin is tuple:
        return f"{_metavar(inner[0])},…"
    return METAVARS.get(hint, "VALUE")


def _width() -> int:
    return max(60, min(WIDTH, shutil.get_terminal_size((WIDTH, 40)).columns))


def _wrapped(text: str, width: int = 0) -> list[str]:
    width = width or _width()
    return [
        piece for line in text.split("\n") for piece in (textwrap.wrap(line, width, break_on_hyphens=False) or [""])
    ]
