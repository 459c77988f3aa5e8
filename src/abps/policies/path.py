"""Paths: parameters that move smoothly during an episode, so that one episode excites many directions.

The parameters at step t are interpolated linearly between knots, `interval` steps apart; after the last knot they stay
there. The actions remain a deterministic function of state and time: nothing is noise. Shapes: k knots, d parameters.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.errors import ShapeError

__all__ = ["ParameterPath", "between"]

SUBSTEPS = 4
"""Places between two knots of a path at which limits and constraints are checked, too."""


@dataclass(frozen=True, eq=False)
class ParameterPath:
    """Knots of the parameters, and the steps between two of them."""

    knots: Array
    """(k, d)"""
    interval: int

    def __post_init__(self) -> None:
        if self.knots.ndim != 2 or len(self.knots) < 1 or not np.all(np.isfinite(self.knots)):
            raise ShapeError(f"knots have shape {self.knots.shape}; expected finite numbers (k, d), at least one knot")
        if self.interval < 1:
            raise ShapeError(f"the interval between knots must be at least one step, got {self.interval}")

    def place(self, step: int) -> tuple[int, int, float]:
        """The two knots around a step, and how far it is from the first to the second (0 to 1)."""
        first, rest = divmod(step, self.interval)
        last = len(self.knots) - 1
        return min(first, last), min(first + 1, last), rest / self.interval

    def at(self, step: int) -> Array:
        """The parameters (d,) at a step."""
        first, second, share = self.place(step)
        return (1.0 - share) * self.knots[first] + share * self.knots[second]


def between(knots: Array) -> Array:
    """The knots (k, d) and places between each two of them, (n, d)."""
    if len(knots) == 1:
        return knots
    shares = np.arange(SUBSTEPS + 1)[:, None, None] / (SUBSTEPS + 1.0)
    inner = (1.0 - shares) * knots[:-1] + shares * knots[1:]
    return np.concatenate([inner.reshape(-1, knots.shape[1]), knots[-1:]])
