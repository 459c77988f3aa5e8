"""Settings: frozen dataclasses of plain values, and parts that are chosen by kind.

A *part* is a frozen dataclass whose fields are its settings and whose methods are its behaviour. Alternatives form a
family: all step rules derive from `StepRule`, and a field of type `StepRule` takes any of them. In YAML a part is a
group with its `kind`; what does not belong to that kind is refused. The string in `setting(default, help)` is what
`--help` and docs/settings.md print: meaning, unit, and the paper's symbol. `__post_init__` only validates.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from abps.errors import ConfigError
from abps.keywords import split_list
from abps.registry import find, kind_of, nearest

__all__ = [
    "KIND",
    "Part",
    "check_types",
    "from_dict",
    "replace",
    "require",
    "setting",
    "to_dict",
    "with_changes",
]

T = TypeVar("T")

KIND = "kind"
"""The key under which a part's kind stands in a settings file."""


class Part:
    """Base of all families. A family's base sets `family` to its name in the registry."""

    family: ClassVar[str]


def setting(default: Any, help: str, *, common: bool = False, tune: bool | None = None) -> Any:
    """A documented field of a settings class.

    Args:
        default: its default value; a nested part or group is given as an instance.
        help: meaning, unit and range, the paper's symbol.
        common: whether `--help` shows it; `--help-all` shows every setting.
        tune: whether `abps tune` varies it when nobody says what to vary; None: when it is common.
    """
    return field(default=default, metadata={"help": help, "common": common, "tune": tune})


def require(condition: bool, message: str) -> None:
    """Raise a `ConfigError` unless the condition holds."""
    if not condition:
        raise ConfigError(message)


def replace(config: T, **changes: Any) -> T:
    """`dataclasses.replace`, typed for any settings class."""
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def check_types(config: Any, where: str = "") -> None:
    """Refuse settings whose values have other types than their fields say; groups and parts are looked into.

    Raises:
        ConfigError: names the field, what it takes and what came.
    """
    hints = typing.get_type_hints(cast("type[Any]", type(config)))
    for item in fields(config):
        value, hint, name = getattr(config, item.name), hints[item.name], f"{where}{item.name}"
        arms = _arms(hint)
        group = _group(arms)
        if value is None and types.NoneType in arms:
            continue
        if group is None:
            _check_plain(hint, value, name)
        elif isinstance(value, group) and is_dataclass(value):
            check_types(value, f"{name}.")
        else:
            raise ConfigError(f"{name} must be a {group.__name__}, got {value!r}")


def _check_plain(hint: Any, value: Any, name: str) -> None:
    try:
        msgspec.convert(_plain(value), hint, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name} {_expected(hint, value)}") from error
    except TypeError:  # A type that only its own class knows.
        return


def to_dict(config: Any) -> Any:
    """Return settings as nested dictionaries of scalars and lists; a part starts with its `kind`."""
    if is_dataclass(config) and not isinstance(config, type):
        own = {item.name: to_dict(getattr(config, item.name)) for item in fields(config)}
        return {KIND: kind_of(type(config)), **own} if isinstance(config, Part) else own
    plain = _plain(config)
    return list(cast("tuple[Any, ...]", plain)) if isinstance(plain, tuple) else plain


def _plain(value: Any) -> Any:
    """A value whose numbers are Python's own, not numpy's."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in cast("tuple[Any, ...]", value))
    return value.item() if hasattr(value, "item") else value


def from_dict(cls: type[T], values: Any, *, where: str = "", default: Any = None) -> T:
    """Build settings from nested dictionaries; a field that is missing keeps its default.

    Args:
        cls: a settings class, or the base of a family of parts.
        values: what `to_dict` returned, or part of it.
        where: the dotted path of this group, for errors.
        default: what missing fields are taken from, when it is of the same kind.

    Raises:
        ConfigError: an unknown name, or a value of the wrong type.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where.rstrip('.') or 'the settings'} must be a group of settings, got {values!r}")
    given = dict(cast("Mapping[str, Any]", values))
    if issubclass(cls, Part):
        kind = given.pop(KIND, None)
        if kind is None and default is None:
            raise ConfigError(f"{where}kind is missing: say which {cls.family} it is")
        cls = cast("type[T]", type(default) if kind is None else find(cls.family, kind))
    known = [item.name for item in fields(cls)]  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    base = default if type(default) is cls else None
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"unknown setting {where}{name}{nearest(name, known)}")
        inner = getattr(base, name) if base is not None else _default_of(cls, name)
        arguments[name] = _typed(hints[name], value, f"{where}{name}", inner)
    if base is not None:
        return dataclasses.replace(base, **arguments)  # type: ignore[type-var]
    for item in fields(cls):  # type: ignore[arg-type]
        if item.init and item.name not in arguments and item.default is item.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}{item.name} must be given: it has no default")
    return cls(**arguments)


def with_changes(config: T, changes: Mapping[str, Any], *, where: str = "") -> T:
    """Return settings with dotted names replaced, all at once, because some are only valid together.

    Values are texts, as on the command line, or what the field holds. Naming a part by its kind (`step=walk`) takes
    that kind with its own defaults, and `step.length=0.02` then belongs to it; a part itself is taken as it is, a
    dictionary changes what it names. A list takes its values separated by commas.

    Raises:
        ConfigError: an unknown name, or a value of the wrong type.
    """
    document = to_dict(config)
    for name in sorted(changes, key=lambda name: name.count(".")):  # Kinds before what belongs to them.
        *groups, last = name.split(".")
        place = cast("dict[str, Any]", document)
        for group in groups:
            inner = place.setdefault(group, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{where}{name}: {group} is a setting, not a group of settings")
            place = cast("dict[str, Any]", inner)
        place[last] = _changed(place.get(last), changes[name], f"{where}{name}")
    return from_dict(type(config), document, where=where)


def _changed(old: Any, new: Any, name: str) -> Any:
    """What stands at a setting's place in the document after a change."""
    if is_dataclass(new) and not isinstance(new, type):
        return to_dict(new)
    if not isinstance(old, dict):
        return _read(new, old)
    known = cast("dict[str, Any]", old)
    if isinstance(new, Mapping):
        given = cast("Mapping[str, Any]", new)
        return {**known, **given} if given.get(KIND, known.get(KIND)) == known.get(KIND) else dict(given)
    if KIND not in known:
        raise ConfigError(f"{name} is a group of settings: {', '.join(known)}; set one of them")
    return known if known[KIND] == new else {KIND: new}


def _read(value: Any, default: Any) -> Any:
    """A value from text; a setting that is a list takes its values separated by commas."""
    if isinstance(value, tuple):
        return list(cast("tuple[Any, ...]", value))
    if not isinstance(value, str):
        return value
    if isinstance(default, list):
        return [_scalar(part) for part in split_list(value)]
    return value if isinstance(default, str) else _scalar(value)


def _scalar(text: str) -> Any:
    words = {"true": True, "yes": True, "false": False, "no": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _default_of(cls: type, name: str) -> Any:
    default = next(item.default for item in fields(cls) if item.name == name)  # type: ignore[arg-type]
    return None if default is dataclasses.MISSING else default


def _typed(hint: Any, value: Any, where: str, default: Any) -> Any:
    """Check `value` against a field's type."""
    arms = _arms(hint)
    if value is None and types.NoneType in arms:
        return None
    group = _group(arms)
    if group is not None:
        return from_dict(group, value, where=f"{where}.", default=default)
    try:
        return msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where} {_expected(hint, value)}") from error


def _arms(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _group(arms: tuple[Any, ...]) -> type[Any] | None:
    """The group of settings or family of parts among the alternatives of a type."""
    return next((arm for arm in arms if isinstance(arm, type) and (is_dataclass(arm) or issubclass(arm, Part))), None)


def _expected(hint: Any, value: Any) -> str:
    choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
    if choices:
        return f"must be one of {', '.join(choices)}; got {value!r}"
    if typing.get_origin(hint) is tuple:
        return f"must be a list of type {typing.get_args(hint)[0].__name__}, got {value!r}"
    return f"must be of type {getattr(hint, '__name__', None) or hint}, got {value!r}"
