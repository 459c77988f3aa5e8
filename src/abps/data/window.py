"""The window: the last N_max points with everything measured at them (paper Appendix A).

A point keeps its returns unscaled and the normaliser it was run with, so that the reward scale may change and old
points can be re-mapped into new coordinates. Shapes: d parameters.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.data.visits import Visits
from abps.normaliser import Normaliser

__all__ = ["Point", "added"]

AROUND = ("centre", "path")
"""Roles of points that stand for the centre."""


@dataclass(frozen=True, eq=False)
class Point:
    """One policy that was tried, with what came of it."""

    parameters: Array
    """(d,), in the coordinates of `normaliser`."""
    normaliser: Normaliser
    returns: Array
    """Unscaled objective of every episode that worked, at least one."""
    role: str
    iteration: int
    visits: Visits | None = None
    """Where its episodes went; kept only by searches that ask for it."""
    start: Array | None = None
    """(s,): the first state of its first episode."""

    @property
    def value(self) -> float:
        """Ĵ: the mean return."""
        return float(self.returns.mean())


KEPT = 6
"""Newest points of the policy that is believed to be the best which never leave the window."""


def added(points: list[Point], point: Point, capacity: int, believed: Array | None = None) -> list[Point]:
    """The newest `capacity` points, oldest first, with one more.

    The oldest leaves when there is no room, but never the newest centre, to which everything else refers (its own
    episodes, or paths around it), nor the last few of the policy `believed` (d,) to be the best: what is not remembered
    cannot be returned to.
    """
    points = [*points, point]
    if len(points) <= capacity:
        return points
    centres = [place for place, item in enumerate(points) if item.role in ("centre", "path")]
    kept = set(centres[-1:])
    if believed is not None:
        same = [place for place, item in enumerate(points) if np.array_equal(item.parameters, believed)]
        kept |= set(same[-KEPT:])
    del points[next((place for place in range(len(points)) if place not in kept), 0)]
    return points
