"""Numbers, counts and durations in sentences."""

import math

import pytest

from abps.words import count, duration, first_line, listing, number, printable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (979, "979"), (979.04, "979"), (978.6, "978.6"), (1000, "1000"), (12345.6, "12\u202f346"),
        (-1234567, "−1\u202f234\u202f567"), (0.012345, "0.01235"), (-0.5, "−0.5"), (1.23e-7, "1.2e-07"),
        (math.nan, "–"), (-0.00000001, "−1e-08"), (1e12, "1e+12"), (-0.0, "0"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_counts() -> None:
    assert [count(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert count(2, "search", "searches") == "2 searches"
    assert count(3, "fit that fell back") == "3 fits that fell back"


def test_listings_and_durations() -> None:
    assert listing(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listing(["a"], 2) == "a"
    assert [duration(s) for s in (42, 600, 12000, 187200)] == ["42 s", "10 min", "3 h 20 min", "2 d 4 h"]


def test_a_terminal_is_sent_no_control_characters() -> None:
    assert printable("née") == "née"
    assert printable("a\x1b[31m\nb\ud800") == r"a\x1b[31m\nb\ud800"


def test_a_long_line_is_cut_between_words_and_says_so() -> None:
    assert first_line("no motor\nTraceback", 20) == "no motor"
    assert first_line("the traceback is in `runs/a/failures.log`", 24) == "the traceback is in …"
    assert first_line("x" * 50, 10) == "x" * 9 + " …"
    assert first_line("", 10) == ""
