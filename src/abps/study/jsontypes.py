"""Numbers and texts as the page's JSON holds them."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.study.statistics import Estimate

__all__ = ["as_text", "embedded", "estimate", "last", "number", "numbers", "thinned"]

DIGITS = 5
MAX_TEXT = 500


def number(value: float) -> float | int | None:
    """Five significant digits; None for what is not finite, which JSON cannot say."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def numbers(values: NDArray[Any]) -> list[float | int | None]:
    """A vector, each entry as `number`."""
    return [number(float(value)) for value in values]


def last(values: NDArray[np.float64]) -> float | int | None:
    """The newest finite entry."""
    finite = values[np.isfinite(values)]
    return number(float(finite[-1])) if finite.size else None


def thinned(size: int, most: int) -> NDArray[np.int64]:
    """Indices of at most `most` of `size` entries, the first and the last among them."""
    if not size:
        return np.zeros(0, np.int64)
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64))


def estimate(value: Estimate) -> list[float | int | None]:
    """Value, lower and upper end."""
    return [number(value.value), number(value.low), number(value.high)]


def as_text(value: Any) -> str:
    """A setting as a cell of a table."""
    return value[:MAX_TEXT] if isinstance(value, str) else json.dumps(value, default=str)[:MAX_TEXT]


def embedded(content: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment there."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
