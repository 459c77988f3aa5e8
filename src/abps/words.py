"""Numbers and lists in sentences, for reports, headlines and tables."""

import math
from collections.abc import Sequence

__all__ = ["count", "duration", "first_line", "listing", "number", "printable"]

SMALLEST = 1e-4


def count(amount: int, noun: str, many: str = "") -> str:
    """`1 run`, `3 runs`, `2 searches`; words after the first stay: `2 fits that fell back`."""
    head, blank, tail = noun.partition(" ")
    return f"{number(amount)} {noun if amount == 1 else many or f'{head}s{blank}{tail}'}"


def number(value: float) -> str:
    """Four significant digits, thousands apart: `979`, `12 345`, `−0.0123`, `1.2e-07`."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e9 or size < SMALLEST):
        return f"{value:.2g}".replace("-", "−", 1) if value < 0 else f"{value:.2g}"
    text = f"{value:.0f}" if size >= 1000 else f"{value:.4g}"
    whole, dot, part = text.lstrip("-").partition(".")
    spaced = f"{int(whole):,}".replace(",", "\u202f") if len(whole) > 4 else whole
    return ("−" if text.startswith("-") and float(text) != 0 else "") + spaced + dot + part


def listing(items: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """The first of `items`, and how many more there are."""
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return between.join(items[:most]) + rest


def first_line(text: str, most: int) -> str:
    """The first line of a text; of a longer one whole words, and `…` in place of the rest."""
    line = (text.strip().splitlines() or [""])[0]
    if len(line) <= most:
        return line
    whole = line[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:(`") if " " in line[: most - 1] else line[: most - 1]
    return f"{whole} …"


def printable(text: str) -> str:
    """The text with what no terminal should be sent written as in Python: `a\\x1b[31m`."""
    return text if text.isprintable() else repr(text)[1:-1]


def duration(seconds: float) -> str:
    """`42 s`, `7 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
