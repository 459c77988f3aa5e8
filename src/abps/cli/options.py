"""Settings as command-line options: a field of a settings class becomes `--name`, one inside a part `--part.name`.

A part is chosen by naming its kind (`--step walk`, or `--step module:Name` from outside the package); the options are
then those of that kind. The words are checked against the table of options here, so that every mistake is one sentence;
then tyro reads the values (`values.py`).
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, NamedTuple

from abps.cli.tree import Group, Node, Option, flag_of, grow
from abps.cli.values import read_values
from abps.errors import ConfigError
from abps.registry import KINDS, find, kind_of

__all__ = ["Words", "named_value", "options_of", "parse", "parse_known", "split_words"]

HELP_FLAGS = ("-h", "--help", "--help-all")


FORMER = {"--normalise": "--observations running", "--no-normalise": "--observations raw"}
"""Options of abps 0.1.0 that no option of today resembles."""


class Words(NamedTuple):
    """A command's words, taken apart."""

    positionals: tuple[str, ...]
    given: tuple[tuple[str, str | None], ...]
    """Options in their order, with their values; a switch has none."""

    def last(self) -> dict[str, str]:
        """The value of every option that has one; the last one counts."""
        return {flag: value for flag, value in self.given if value is not None}


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
    parsed = read_values(nodes, words.given, known, words.positionals)
    return [node.build(getattr(parsed, f"group_{number}")) for number, node in enumerate(nodes)]


def parse_known(words: Words, groups: Sequence[Group], *, command: str) -> list[Any]:
    """As `parse`, of the options that these groups have; the others are left for later."""
    known = _table(_nodes(groups, words.last()))
    return parse(words._replace(given=tuple(pair for pair in words.given if pair[0] in known)), groups, command=command)


def _nodes(groups: Sequence[Group], chosen: Mapping[str, str] | Sequence[str]) -> list[Node]:
    if not isinstance(chosen, Mapping):
        chosen = _rough_values(chosen)
    return [grow(Node(group.config, "", group.skip), chosen) for group in groups]


def _rough_values(argv: Sequence[str]) -> dict[str, str]:
    """Whatever could be the value of an option, before it is known which options take one."""
    values = {_canonical(word): value for word, value in pairwise(argv) if _is_flag(word) and not _is_flag(value)}
    for word in argv:
        if _is_flag(word) and "=" in word:
            values[_canonical(word.partition("=")[0])] = word.partition("=")[2]
    return values


def _all_options(nodes: Sequence[Node]) -> Iterator[Option]:
    for node in nodes:
        yield from node.options()


def _flags(option: Option) -> tuple[str, ...]:
    if option.metavar or option.heading:
        return ()
    return (option.flag, option.off_flag) if option.is_switch else (option.flag,)


def _table(nodes: Sequence[Node]) -> dict[str, Option]:
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


def _check_words(words: Words, known: Mapping[str, Option], nodes: Sequence[Node]) -> None:
    for flag, value in words.given:
        option = known[flag]
        if option.is_switch and value is not None:
            raise ConfigError(f"{flag} takes no value; write {option.flag} or {option.off_flag}")
        if not option.is_switch and value is None:
            raise ConfigError(f"{flag} needs a value ({option.help})")
    wanted = [option for option in _all_options(nodes) if option.metavar]
    given = [word for word in words.positionals if word.strip()]
    if len(given) < len(wanted):
        missing = wanted[len(given)]
        raise ConfigError(f"{missing.metavar} is missing: {missing.help}")
    if len(words.positionals) > len(wanted):
        raise ConfigError(f"unexpected argument {words.positionals[len(wanted)]!r}")


def _unknown(
    flag: str,
    known: Mapping[str, Option],
    nodes: Sequence[Node],
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


def _other_kind(flag: str, node: Node) -> str:
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
