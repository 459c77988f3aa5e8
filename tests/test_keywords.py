"""Keyword arguments as text, and counts in words (`words.py`)."""

from typing import Any

import pytest

from abps.errors import ConfigError
from abps.keywords import call_parts, keywords_texts, read_keywords, split_list
from abps.words import count


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ([], {}),
        (["gravity=9.81"], {"gravity": 9.81}),
        (["a=1,b=two", "c=true, d=none"], {"a": 1, "b": "two", "c": True, "d": None}),
        (["sizes=[1, 2],name='x, y'"], {"sizes": [1, 2], "name": "x, y"}),
        (['{"a": {"b": [1, 2]}, "c": "=,"}', "d=4"], {"a": {"b": [1, 2]}, "c": "=,", "d": 4}),
        (["a=1", "a=2"], {"a": 2}),
    ],
)
def test_pairs_and_json_objects_are_read(texts: list[str], values: dict[str, Any]) -> None:
    assert read_keywords(texts) == values
    assert read_keywords(keywords_texts(values)) == values


@pytest.mark.parametrize("text", ["gravity", "=3", "a b=3", "{1: 2}", "{"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"e\.g\. gravity=9\.81"):
        read_keywords([text], "env_kwargs")


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be numbers, texts or lists"):
        keywords_texts({"a": object()})


def test_lists_are_split_outside_of_brackets_and_quotes() -> None:
    assert split_list("a(x=1,y=2), b ,,c[1,2],'d,e'") == ["a(x=1,y=2)", "b", "c[1,2]", "'d,e'"]


def test_calls_are_taken_apart() -> None:
    assert call_parts("module:Name") == ("module:Name", {})
    assert call_parts("m:Name(low=-1, high=[1,2])") == ("m:Name", {"low": -1, "high": [1, 2]})
    with pytest.raises(ConfigError, match="cannot read"):
        call_parts("Name(low=1")


def test_counts_agree_with_their_nouns() -> None:
    assert [count(n, "episode") for n in (0, 1, 2)] == ["0 episodes", "1 episode", "2 episodes"]
    assert count(2, "process", "processes") == "2 processes"
