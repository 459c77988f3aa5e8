"""Settings as options: every type of field, both ways."""

import argparse
from dataclasses import dataclass
from typing import Any

import pytest

from abps.cli.settings import add_settings, read_settings
from abps.config import AbsConfig, GpConfig, setting
from abps.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    size: int = setting(3, "how large, in 100 % of cases")


@dataclass(frozen=True)
class Outer:
    count: int = setting(1, "how many")
    rate: float = setting(0.5, "how fast")
    name: str = setting("a", "which", choices=("a", "b"))
    flag: bool = setting(True, "whether")
    limit: float | None = setting(2.0, "how far")
    parts: tuple[float, ...] = setting((1.0, 2.0), "which parts")
    inner: Inner = setting(Inner, "inside")


def parse(*words: str, config: Any = None) -> Any:
    config = Outer() if config is None else config
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_settings(parser, "things", config)
    return read_settings(parser.parse_args(words), config)


def test_nothing_given_changes_nothing() -> None:
    config = Outer(count=7)
    assert parse(config=config) is config


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (("--count", "5"), "count", 5),
        (("--rate", "1e-3"), "rate", 1e-3),
        (("--name", "b"), "name", "b"),
        (("--no-flag",), "flag", False),
        (("--flag",), "flag", True),
        (("--limit", "none"), "limit", None),
        (("--limit", "4"), "limit", 4.0),
        (("--parts", "3,4.5"), "parts", (3.0, 4.5)),
        (("--inner.size", "9"), "inner", Inner(9)),
        (("--count", "0"), "count", 0),
    ],
)
def test_every_type_is_read(words: tuple[str, ...], field: str, value: Any) -> None:
    assert getattr(parse(*words), field) == value


@pytest.mark.parametrize(
    "words", [("--count", "1.5"), ("--rate", "fast"), ("--name", "c"), ("--parts", "1,x"), ("--siz", "3")]
)
def test_wrong_words_end_with_exit_code_two(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*words)
    assert caught.value.code == 2


def test_validation_of_the_config_applies() -> None:
    with pytest.raises(ConfigError, match="window must be at least 1"):
        parse("--window", "0", config=AbsConfig())
    with pytest.raises(ConfigError, match="lengthscale_low <= lengthscale_high"):
        parse("--gp.lengthscale-low", "9", config=AbsConfig())
    assert parse("--gp.starts", "77", config=AbsConfig()).gp == GpConfig(starts=77)


def test_help_shows_meaning_and_default() -> None:
    parser = argparse.ArgumentParser()
    add_settings(parser, "things", Outer(rate=0.25))
    text = " ".join(parser.format_help().split())
    assert "how fast (default: 0.25)" in text
    assert "how large, in 100 % of cases (default: 3)" in text
    assert "which parts (default: 1,2)" in text
    assert "things: inner" in text
