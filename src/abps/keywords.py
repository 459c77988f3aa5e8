"""Keyword arguments as text: `gravity=9.81, mode=easy, sizes=[1, 2]`, or a JSON object; nothing is executed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from abps.errors import ConfigError

__all__ = ["call_parts", "keywords_texts", "read_keywords", "split_list"]

OPENING, CLOSING, QUOTES = "([{", ")]}", "\"'"
EXAMPLE = "e.g. gravity=9.81 or '{\"gravity\": 9.81}'"


def split_list(text: str) -> list[str]:
    """Split at the commas that are inside no brackets and no quotes; empty pieces are left out."""
    return [piece for piece in (part.strip() for part in _pieces(text)) if piece]


def _pieces(text: str) -> Iterator[str]:
    start, depth, quote = 0, 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in OPENING or letter in CLOSING:
            depth += 1 if letter in OPENING else -1
        elif letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def read_keywords(texts: Iterable[str], name: str = "keyword arguments") -> dict[str, Any]:
    """Read `key=value` pairs, separated by commas, and JSON objects; a value that is no JSON is a text.

    Raises:
        ConfigError: a text has another form.
    """
    found: dict[str, Any] = {}
    for piece in (piece for text in texts for piece in split_list(text)):
        found |= _json_object(piece, name) if piece.startswith("{") else _pair(piece, name)
    return found


def keywords_texts(values: Mapping[str, Any]) -> list[str]:
    """The inverse of `read_keywords`: one `key=value` each.

    Raises:
        ConfigError: a value is none that JSON can hold.
    """
    try:
        return [f"{key}={json.dumps(value, ensure_ascii=False, allow_nan=False)}" for key, value in values.items()]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"keyword arguments of an environment must be numbers, texts or lists: {error}") from error


def _json_object(text: str, name: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} has no JSON object in {text!r}: {error}; {EXAMPLE}") from error


def _pair(text: str, name: str) -> dict[str, Any]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key.isidentifier():
        raise ConfigError(f"{name} must be key=value or a JSON object, got {text!r}; {EXAMPLE}")
    return {key: _value(value)}


def call_parts(text: str) -> tuple[str, dict[str, Any]]:
    """`module:Name(key=value)` → `module:Name` and the keyword arguments.

    Raises:
        ConfigError: the brackets do not fit.
    """
    name, bracket, rest = text.strip().partition("(")
    if bracket and not rest.endswith(")"):
        raise ConfigError(f"cannot read {text!r}; expected module:Name or module:Name(key=value)")
    return name.strip(), read_keywords([rest.removesuffix(")")], f"what {name.strip()} is given") if bracket else {}


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip(QUOTES)
