"""Settings as command-line options: a field of a settings class becomes `--name`, one inside a part `--part.name`.

A part is chosen by naming its kind (`--step walk`, or `--step module:Name` from outside the package); the options are
then those of that kind. The words are checked against the table of options here, so that every mistake is one sentence;
tyro reads the values, from a dataclass that mirrors the settings.
"""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from abps.errors import ConfigError
from abps.registry import KINDS, find, kind_of
from abps.settings import Part

__all__ = ["Group", "Option", "Words", "flag_of", "named_value", "options_of", "parse", "positional", "split_words"]

HELP_FLAGS = ("-h", "--help", "--help-all")


FORMER = {"--normalise": "--observations running", "--no-normalise": "--observations raw"}
"""Options of abps 0.1.0 that no option of today resembles."""


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


class Words(NamedTuple):
    """A command's words, taken apart."""

    positionals: tuple[str, ...]
    given: tuple[tuple[str, str | None], ...]
    """Options in their order, with their values; a switch has none."""

    def last(self) -> dict[str, str]:
        """The value of every option that has one; the last one counts."""
        return {flag: value for flag, value in self.given if value is not None}


def positional(metavar: str, help: str) -> Any:
    """A field of a command's own arguments that is given without a flag."""
    return field(default="", metadata={"help": help, "metavar": metavar})


def flag_of(path: str) -> str:
    """`plan.design_std` → `--plan.design-std`."""
    return "--" + path.replace("_", "-")


def named_value(argv: Sequence[str], flag: str, default: str) -> str:
    """The value of an option, before the others are known."""
    values = [word.partition("=")[2] for word in argv if word.startswith(f"{flag}=")]
    values += [value for word, value in pairwise(argv) if word == flag and not _is_flag(value)]
    return values[-1] if values else default


def split_words(argv: Sequence[str], groups: Sequence[Group]) -> Words:
    """Take a command's words apart; options that are not known yet are kept for `parse` to complain about."""
    switches = {flag for option in _all_options(_nodes(groups, argv)) if option.is_switch for flag in _flags(option)}
    positionals: list[str] = []
    given: list[tuple[str, str | None]] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or _is_number(word):
            positionals.append(word)
            continue
        flag, equals, value = word.partition("=")
        flag = _canonical(flag)
        if equals:
            given.append((flag, value))
        elif flag in switches or flag in HELP_FLAGS or not rest or _is_flag(rest[0]):
            given.append((flag, None))
        else:
            given.append((flag, rest.pop(0)))
    return Words(tuple(positionals), tuple(given))


def options_of(groups: Sequence[Group], words: Words) -> list[tuple[Group, list[Option]]]:
    """The options of every group, with the parts that the words choose."""
    nodes = _nodes(groups, words.last())
    return [(group, list(node.options())) for group, node in zip(groups, nodes, strict=True)]


def parse(
    words: Words,
    groups: Sequence[Group],
    *,
    command: str,
    elsewhere: Callable[[], Mapping[str, Sequence[Any]]] = dict,
    hint: str = "",
) -> list[Any]:
    """Return every group's settings with what the words change.

    Args:
        words: what `split_words` made of the command line.
        groups: the command's own arguments first, then settings.
        command: for messages.
        elsewhere: settings that this command line does not have, by what they are settings of; for messages.
        hint: what to say about settings found there.

    Raises:
        ConfigError: an unknown option or kind, a missing or wrong value; the message says what to write instead.
    """
    nodes = _nodes(groups, words.last())
    known = _table(nodes)
    unknown = next((flag for flag, _ in words.given if flag not in known), None)
    if unknown is not None:
        raise ConfigError(_unknown(unknown, known, nodes, command, elsewhere(), hint))
    _check_words(words, known, nodes)
    parsed = _call_tyro(nodes, words, known, command)
    return [node.build(getattr(parsed, f"group_{number}")) for number, node in enumerate(nodes)]


# ---- the tree of settings -------------------------------------------------------------------------------------------


@dataclass
class _Node:
    """Settings taken apart: a class and its values, where a group or part is a node again.

    Values are only put together again when all are known, because some are only valid together.
    """

    source: Any
    path: str
    """Dotted name with a final dot; "" at the top."""
    skip: tuple[str, ...] = ()
    children: dict[str, "_Node"] = field(default_factory=dict)

    def options(self) -> Iterator[Option]:
        """Own options, then those of every part, after the option that chooses it."""
        hints = _hints(type(self.source))
        nested: list[Option] = []
        for item in fields(self.source):
            if item.name in self.skip:
                continue
            family, value = _family(hints[item.name]), getattr(self.source, item.name)
            child = self.children.get(item.name)
            option = Option(
                self.path + item.name,
                str if family else hints[item.name],
                _kind(child) if family else value,
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
        hints = _hints(type(self.source))
        for item in fields(self.source):
            if item.name in self.skip:
                continue
            old, child = getattr(self.source, item.name), self.children.get(item.name)
            if child is not None:
                new = child.build(getattr(parsed, item.name, None))
            else:
                new = None if _family(hints[item.name]) else getattr(parsed, item.name)
            if new is not old:
                changes[item.name] = new
        if not changes:
            return self.source
        try:
            return dataclasses.replace(self.source, **changes)
        except ConfigError as error:
            raise ConfigError(f"{self.path.rstrip('.')}: {error}" if self.path else str(error)) from error


def _nodes(groups: Sequence[Group], chosen: Mapping[str, str] | Sequence[str]) -> list[_Node]:
    if not isinstance(chosen, Mapping):
        chosen = _rough_values(chosen)
    return [_grown(_Node(group.config, "", group.skip), chosen) for group in groups]


def _rough_values(argv: Sequence[str]) -> dict[str, str]:
    """Whatever could be the value of an option, before it is known which options take one."""
    values = {_canonical(word): value for word, value in pairwise(argv) if _is_flag(word) and not _is_flag(value)}
    for word in argv:
        if _is_flag(word) and "=" in word:
            values[_canonical(word.partition("=")[0])] = word.partition("=")[2]
    return values


def _grown(node: _Node, chosen: Mapping[str, str]) -> _Node:
    """Take groups and parts apart, with the kinds that were chosen."""
    hints = _hints(type(node.source))
    for item in fields(node.source):
        if item.name in node.skip:
            continue
        path, value, family = node.path + item.name, getattr(node.source, item.name), _family(hints[item.name])
        if family and flag_of(path) in chosen:
            value = _chosen(family, chosen[flag_of(path)], value, hints[item.name])
        if is_dataclass(value):
            node.children[item.name] = _grown(_Node(value, f"{path}."), chosen)
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


def _kind(node: _Node | None) -> str:
    return "none" if node is None else kind_of(type(node.source))


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise ConfigError(f"the types of {cls.__module__}:{cls.__name__} cannot be read: {error}") from error


def _family(hint: Any) -> str:
    """The family of parts that a field takes, or ""."""
    arms = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return next((arm.family for arm in arms if isinstance(arm, type) and issubclass(arm, Part)), "")


# ---- checking the words ---------------------------------------------------------------------------------------------


def _all_options(nodes: Sequence[_Node]) -> Iterator[Option]:
    for node in nodes:
        yield from node.options()


def _flags(option: Option) -> tuple[str, ...]:
    if option.metavar or option.heading:
        return ()
    return (option.flag, option.off_flag) if option.is_switch else (option.flag,)


def _table(nodes: Sequence[_Node]) -> dict[str, Option]:
    """Every flag with its option.

    Raises:
        ConfigError: two settings have the same name.
    """
    table: dict[str, Option] = {}
    for option in _all_options(nodes):
        for flag in _flags(option):
            if flag in table or flag in HELP_FLAGS:
                raise ConfigError(f"two settings are called {flag}; rename the one that is yours")
            table[flag] = option
    return table


def _check_words(words: Words, known: Mapping[str, Option], nodes: Sequence[_Node]) -> None:
    for flag, value in words.given:
        option = known[flag]
        if option.is_switch and value is not None:
            raise ConfigError(f"{flag} takes no value; write {option.flag} or {option.off_flag}")
        if not option.is_switch and value is None:
            raise ConfigError(f"{flag} needs a value ({option.help})")
    wanted = [option for option in _all_options(nodes) if option.metavar]
    if len(words.positionals) < len(wanted):
        missing = wanted[len(words.positionals)]
        raise ConfigError(f"{missing.metavar} is missing: {missing.help}")
    if len(words.positionals) > len(wanted):
        raise ConfigError(f"unexpected argument {words.positionals[len(wanted)]!r}")


def _unknown(
    flag: str,
    known: Mapping[str, Option],
    nodes: Sequence[_Node],
    command: str,
    elsewhere: Mapping[str, Sequence[Any]],
    hint: str,
) -> str:
    """The sentence about an option that does not exist."""
    if flag in FORMER:
        return f"there is no option {flag} any more; write {FORMER[flag]}"
    other_kind = next(filter(None, (_other_kind(flag, node) for node in nodes)), "")
    if other_kind:
        return f"{flag} {other_kind}"
    last = re.split(r"[.]|^--", flag)[-1]
    same = [name for name in known if re.split(r"[.]|^--", name)[-1] == last]
    owners = [
        name
        for name, configs in elsewhere.items()
        if any(flag in _table(_nodes([Group("", config)], {})) for config in configs)
    ]
    if owners and not same:
        return f"{flag} is a setting of {' and '.join(owners)}{hint}"
    close = same or difflib.get_close_matches(flag, list(known), n=1)
    return f"unknown option {flag}; " + (
        f"did you mean {close[0]!r}?" if close else f"`abps {command} --help-all` lists all"
    )


def _other_kind(flag: str, node: _Node) -> str:
    """Say which kinds of a part have a setting that the chosen one has not; "" when none has."""
    *groups, last = flag.removeprefix("--").replace("-", "_").split(".")
    for name in [*groups, last]:
        names = (name, name.removeprefix("no_"))
        if any(item.name in names for item in fields(node.source)):
            if name not in node.children:
                return ""
            node = node.children[name]
            continue
        family = getattr(node.source, "family", "")
        if not node.path or not family:
            return ""
        kinds = [kind for kind in KINDS[family] if any(item.name in names for item in fields(find(family, kind)))]
        if not kinds:
            return ""
        choose = flag_of(node.path.rstrip("."))
        return f"belongs to {choose} {' or '.join(kinds)}; here {choose} is {kind_of(type(node.source))}"
    return ""


def _canonical(flag: str) -> str:
    """`--plan.design_std` and `--no-step.cap` as the table has them."""
    flag = flag.replace("_", "-")
    if flag.startswith("--no-") and "." in flag:
        group, _, name = flag.removeprefix("--no-").rpartition(".")
        return f"--{group}.no-{name}"
    return flag


def _is_flag(word: str) -> bool:
    return word.startswith("--") or (word.startswith("-") and len(word) > 1 and not _is_number(word))


def _is_number(word: str) -> bool:
    return re.match(r"-[0-9.]|-(inf|nan)$", word) is not None


# ---- reading the values ---------------------------------------------------------------------------------------------


def _call_tyro(nodes: Sequence[_Node], words: Words, known: Mapping[str, Option], command: str) -> Any:
    """Let tyro read the values, which are known to belong to options that exist."""
    import tyro

    arguments = [(f"group_{number}", *_mirror(node)) for number, node in enumerate(nodes)]
    root = dataclasses.make_dataclass(
        "Arguments",
        [(name, Annotated[cls, tyro.conf.arg(name="", help=name)], default) for name, cls, default in arguments],
        frozen=True,
    )
    argv = [flag if value is None else f"{flag}={value}" for flag, value in _joined(words, known)]
    try:
        return tyro.cli(root, args=[*words.positionals, *argv], prog=f"abps {command}", console_outputs=False)
    except SystemExit as error:
        raise ConfigError(f"cannot read the arguments {' '.join(argv)}") from error


def _joined(words: Words, known: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """Every option once: the last one counts, and lists that are given in pieces are joined."""
    last: dict[str, tuple[str, str | None]] = {}
    for flag, value in words.given:
        option = known[flag]
        if option.path in last and value is not None and typing.get_origin(option.hint) is tuple:
            value = f"{last[option.path][1]},{value}"
        last[option.path] = (flag, value)
    yield from last.values()


def _mirror(node: _Node) -> tuple[type, Any]:
    """A dataclass for tyro with the same fields as the settings, and its instance with their values."""
    import tyro

    hints = _hints(type(node.source))
    mirrored: list[tuple[str, Any, Any]] = []
    for item in fields(node.source):
        if item.name in node.skip:
            continue
        path, child, family = node.path + item.name, node.children.get(item.name), _family(hints[item.name])
        if family:  # Its value was used when the tree was made.
            kind = Annotated[str, tyro.conf.arg(name=item.name, help="kind")]
            mirrored.append((f"kind_of_{item.name}", kind, _kind(child)))
        if child is not None:
            cls, default = _mirror(child)
            mirrored.append((item.name, Annotated[cls, tyro.conf.arg(help=item.name)], default))
        elif not family:
            hint = _annotated(hints[item.name], path, item.metadata)
            mirrored.append((item.name, hint, getattr(node.source, item.name)))
    mirror = dataclasses.make_dataclass(type(node.source).__name__, mirrored, frozen=True)
    return mirror, mirror()


def _annotated(hint: Any, path: str, metadata: Mapping[str, Any]) -> Any:
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
        instance_from_str=lambda words: _read(words[0], hint, flag_of(path)),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )
    return Annotated[hint, reader, documented]


def _read(text: str, hint: Any, flag: str) -> Any:
    """A value of a field's type from text; lists are separated by commas.

    Raises:
        ConfigError: it is none.
    """
    arms = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if text.lower() == "none" and types.NoneType in arms:
        return None
    hint = next(arm for arm in arms if arm is not types.NoneType)
    inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
    try:
        if inner is not None:
            return tuple(_one(part.strip(), inner) for part in text.split(",") if part.strip())
        return _one(text, hint)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{flag} must be {expected(hint)}, got {text!r}{_nearest_choice(text, hint)}") from error
    except TypeError as error:
        raise ConfigError(f"{flag} has a type that the command line cannot read: {hint}") from error


def _one(text: str, hint: Any) -> Any:
    return hint(text) if hint in (int, float, str, Path) else msgspec.convert(text, hint, strict=False)


def expected(hint: Any) -> str:
    """What a value of a type looks like, in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        one = expected(inner[0])
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
