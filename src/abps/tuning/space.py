"""What may vary: a search space made from the settings' own metadata, or read from a YAML file.

By default these are the settings that `tune` marks, or `common` where it says nothing (`abps.settings.setting`): every
positive number of them, on a logarithmic scale within a factor of its default, narrowed to what the settings accept.
"""

import math
import os
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import ConfigError, RunError
from abps.registry import kind_of, nearest
from abps.run.directory import MAX_CONFIG_BYTES, parse_yaml
from abps.run.files import read_bounded
from abps.search.base import SearchConfig
from abps.settings import KIND, Part, to_dict, with_changes

__all__ = ["FACTOR", "Choice", "Range", "Space", "default_space", "read_space"]

FACTOR = 3.0
"""A number of the default space goes from its default divided by this to its default times this."""

DIGITS = 4
"""Significant digits of a tried number: what is run is what a settings file can say."""

NARROWING = 24
"""Bisections of a bound that the settings do not accept."""


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included."""

    low: float
    high: float
    log: bool
    """Whether ratios count instead of differences."""
    whole: bool

    def suggest(self, trial: Any, name: str) -> Any:
        """Let an Optuna trial choose."""
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return self.clean(trial.suggest_float(name, self.low, self.high, log=self.log))

    def clean(self, value: Any) -> Any:
        """What is run when Optuna says this: a number of few digits."""
        return value if self.whole else min(max(_rounded(value), self.low), self.high)

    def has(self, value: Any) -> bool:
        """Whether a value lies in it."""
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def document(self) -> dict[str, Any]:
        """As a settings file says it."""
        kind = int if self.whole else float
        return {"low": kind(self.low), "high": kind(self.high), "log": self.log}


@dataclass(frozen=True)
class Choice:
    """One of a few values; for a part its kinds, for a list its values as text."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, name: str) -> Any:
        """Let an Optuna trial choose."""
        return trial.suggest_categorical(name, self.values)

    def clean(self, value: Any) -> Any:
        """What is run when Optuna says this."""
        return value

    def has(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return any(value == one and type(value) is type(one) for one in self.values)

    def document(self) -> list[Any]:
        """As a settings file says it."""
        return list(self.values)


@dataclass(frozen=True)
class Space:
    """What may vary, by dotted name as on the command line: `plan.path_size`."""

    entries: Mapping[str, Range | Choice] = field(default_factory=dict)

    def suggest(self, trial: Any, base: SearchConfig) -> dict[str, Any]:
        """Let an Optuna trial choose; settings that the chosen kinds of parts do not have are left out."""
        chosen: dict[str, Any] = {}
        for name in sorted(self.entries, key=lambda name: (not self._is_kind(name, base), name.count("."))):
            if value_of(to_dict(with_kinds(base, chosen)), name) is not _NOTHING:
                chosen[name] = self.entries[name].suggest(trial, name)
        return chosen

    def defaults(self, base: SearchConfig) -> dict[str, Any]:
        """The settings as they are, where they lie in the space."""
        document = to_dict(base)
        values = {name: _plain(value_of(document, name)) for name in self.entries}
        return {name: value for name, value in values.items() if self.entries[name].has(value)}

    def document(self) -> dict[str, Any]:
        """As `read_space` reads it."""
        return {name: entry.document() for name, entry in self.entries.items()}

    def _is_kind(self, name: str, base: SearchConfig) -> bool:
        return isinstance(value_of(to_dict(base), name), Mapping)


class _Nothing:
    """What stands where a setting does not exist."""


_NOTHING = _Nothing()


class _Leaf(NamedTuple):
    """One plain setting."""

    name: str
    hint: Any
    value: Any
    wanted: bool


def default_space(base: SearchConfig, fixed: Collection[str] = ()) -> Space:
    """The space of a search that nobody described.

    Args:
        base: its settings, which the ranges surround.
        fixed: names that stay as they are.

    Raises:
        ConfigError: nothing is left to vary.
    """
    entries = {
        leaf.name: _around(base, leaf.name, leaf.value, FACTOR)
        for leaf in _leaves(base)
        if leaf.wanted and leaf.hint in (int, float) and leaf.value > 0 and leaf.name not in fixed
    }
    if not entries:
        raise ConfigError(f"the search {kind_of(type(base))} has no positive number to vary; give a space of your own")
    return Space(entries)


def read_space(source: str | Path | Mapping[str, Any], base: SearchConfig) -> Space:
    """A space from a YAML file, or a dictionary like one.

    Each line names a setting of the search: `{low: 0.1, high: 3, log: true}`, `{factor: 5}` around its default, or a
    list of values to choose from, for a part of kinds.

    Raises:
        ConfigError: it cannot be read, or names what the search does not have.
    """
    if not isinstance(source, str | os.PathLike | Mapping):
        raise ConfigError(f"a space is a YAML file or a dictionary like one, got {source!r:.80}")
    where = "the space" if isinstance(source, Mapping) else str(source)
    document = source if isinstance(source, Mapping) else _parsed(Path(source))
    if not isinstance(document, Mapping) or not document:
        raise ConfigError(f"{where} must have a line for every setting that varies, e.g. plan.probes: {{factor: 2}}")
    given = {str(name).replace("-", "_"): value for name, value in document.items()}
    kinds = {name: entry for name, entry in given.items() if isinstance(entry, list)}
    documents = [to_dict(base)]
    for name, values in kinds.items():
        if isinstance(value_of(documents[0], name), Mapping):
            documents += [to_dict(with_kinds(base, {name: kind})) for kind in values]
    try:
        return Space({name: _entry(name, entry, base, documents) for name, entry in given.items()})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def with_kinds(base: SearchConfig, chosen: Mapping[str, Any]) -> SearchConfig:
    """The settings with the parts that were chosen, each with the defaults of its kind."""
    document = to_dict(base)
    parts = {name: kind for name, kind in chosen.items() if isinstance(value_of(document, name), Mapping)}
    return with_changes(base, parts) if parts else base


def value_of(document: Any, name: str) -> Any:
    """What stands at a dotted name in nested dictionaries; a mark when there is nothing."""
    for part in name.split("."):
        if not isinstance(document, Mapping) or part not in document or part == KIND:
            return _NOTHING
        document = document[part]
    return document


def _parsed(file: Path) -> Any:
    try:
        return parse_yaml(read_bounded(file, MAX_CONFIG_BYTES), file)
    except RunError as error:
        raise ConfigError(str(error)) from error


def _entry(name: str, entry: Any, base: SearchConfig, documents: list[Any]) -> Range | Choice:
    found = [value for document in documents if not isinstance(value := value_of(document, name), _Nothing)]
    if not found:
        known = [leaf.name for leaf in _leaves(base)]
        raise ConfigError(f"the search has no setting {name!r}{nearest(name, known)}")
    default = found[0]
    if isinstance(entry, list):
        return _choice(name, entry, base, default)
    if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
        raise ConfigError(f"{name} must be {{low: …, high: …}}, {{factor: …}} or a list of values, got {entry!r}")
    if isinstance(default, bool) or not isinstance(default, int | float):
        raise ConfigError(f"{name} is no number; give a list of values to choose from")
    if set(entry) == {"factor"}:
        return _by_factor(base, name, default, entry["factor"])
    return _range(name, dict(entry), default)


def _choice(name: str, values: list[Any], base: SearchConfig, default: Any) -> Choice:
    if len(values) < 2:
        raise ConfigError(f"{name} needs two values or more to choose from, got {values!r}")
    plain = tuple(_plain(value) for value in values)
    for value in plain:
        if not isinstance(value, bool | int | float | str | None):
            raise ConfigError(f"{name} can choose between numbers, words and lists of them, got {value!r}")
        if isinstance(default, Mapping) or value_of(to_dict(base), name) is not _NOTHING:
            with_changes(base, {name: value})  # A value that no trial could have is known now.
    return Choice(plain)


def _by_factor(base: SearchConfig, name: str, default: float, factor: Any) -> Range:
    if not _number(factor) or factor <= 1:
        raise ConfigError(f"{name}.factor must be a number above 1, got {factor!r}")
    if default <= 0:
        raise ConfigError(f"{name} is {default:g}, which has no factor around it; give low and high")
    return _around(base, name, default, float(factor))


def _range(name: str, entry: dict[str, Any], default: float) -> Range:
    low, high, log = entry.pop("low", None), entry.pop("high", None), entry.pop("log", None)
    if entry or not _number(low) or not _number(high):
        raise ConfigError(f"{name} must be {{low: …, high: …, log: true or false}} with two numbers")
    if not low < high:
        raise ConfigError(f"{name}: low must be below high, got {low!r} and {high!r}")
    if log not in (None, True, False) or (log and low <= 0):
        raise ConfigError(f"{name}: log is true or false, and needs a positive low")
    whole = isinstance(default, int)
    if whole and not (float(low).is_integer() and float(high).is_integer()):
        raise ConfigError(f"{name} is a whole number; so are its bounds, got {low!r} and {high!r}")
    return Range(float(low), float(high), log=low > 0 if log is None else log, whole=whole)


def _around(base: SearchConfig, name: str, value: float, factor: float) -> Range:
    """A range around a positive value, as far as the settings accept it when everything else stays."""
    whole = isinstance(value, int)
    low = _accepted(base, name, value, max(1, round(value / factor)) if whole else _rounded(value / factor))
    high = _accepted(base, name, value, round(value * factor) if whole else _rounded(value * factor))
    return Range(float(low), float(high), log=True, whole=whole)


def _accepted(base: SearchConfig, name: str, good: float, wanted: float) -> float:
    """The value nearest to `wanted`, from `good` on, that the settings accept."""
    if _accepts(base, name, wanted):
        return wanted
    whole = isinstance(good, int)
    bad = wanted
    for _ in range(NARROWING):
        middle = round(math.sqrt(good * bad)) if whole else math.sqrt(good * bad)
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if _accepts(base, name, middle) else (good, middle)
    # Rounded towards the default, so that the bound itself is one that they accept.
    return good if whole or not _accepts(base, name, _rounded(good)) else _rounded(good)


def _accepts(base: SearchConfig, name: str, value: float) -> bool:
    if value_of(to_dict(base), name) is _NOTHING:  # It belongs to another kind; trials find out.
        return True
    try:
        with_changes(base, {name: value})
    except ConfigError:
        return False
    return True


def _leaves(config: Any, prefix: str = "") -> Iterator[_Leaf]:
    """All plain settings, those of parts and groups included."""
    hints = typing.get_type_hints(type(config))
    for item in fields(config):
        value, name = getattr(config, item.name), f"{prefix}{item.name}"
        if is_dataclass(value):
            yield from _leaves(value, f"{name}.")
        elif not _is_part(hints[item.name]):
            tune = item.metadata.get("tune")
            wanted = item.metadata.get("common", False) if tune is None else tune
            yield _Leaf(name, hints[item.name], value, wanted)


def _is_part(hint: Any) -> bool:
    arms = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return any(isinstance(arm, type) and issubclass(arm, Part) for arm in arms)


def _plain(value: Any) -> Any:
    """A value as Optuna can keep it: a part by its kind, a list as text."""
    if isinstance(value, Mapping) and KIND in value:
        return value[KIND]
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
