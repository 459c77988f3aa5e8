"""The window: the last N_max points with everything measured at them (paper Appendix A).

A point keeps its returns unscaled and the normaliser it was run with, so that the reward scale may change and old
points can be re-mapped into new coordinates. Shapes: d parameters.
"""

from dataclasses import dataclass

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


def added(points: list[Point], point: Point, capacity: int) -> list[Point]:
    """The newest `capacity` points, oldest first, with one more.

    The oldest leaves when there is no room, but never the newest centre, run at rest or along a path: everything else
    refers to it.
    """
    points = [*points, point]
    if len(points) > capacity:
        newest = max((place for place, item in enumerate(points) if item.role in AROUND), default=-1)
        del points[1 if newest == 0 else 0]
    return points
