"""The window: the last N_max points with everything measured at them (paper Appendix A).

A point keeps its returns unscaled and the normaliser it was run with, so that the reward scale may change and old points can be
re-mapped into new coordinates. Shapes: n points, d parameters.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.data.visits import Visits
from abps.normaliser import Normaliser
from abps.policies import PolicyClass

__all__ = ["Point", "Window"]

Array = NDArray[np.float64]


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
    """Where its episodes went; kept only by searches with critics."""

    @property
    def value(self) -> float:
        """Ĵ: the mean return."""
        return float(self.returns.mean())


class Window:
    """At most `capacity` points, the newest ones, oldest first."""

    def __init__(self, capacity: int, policies: PolicyClass, remap: bool) -> None:
        self.capacity, self.remap, self._policies = capacity, remap, policies
        self.points: list[Point] = []

    def __len__(self) -> int:
        return len(self.points)

    def add(self, point: Point) -> None:
        """Append a point; the oldest one leaves when the window is full, but never the newest centre: all else refers to it."""
        points = [*self.points, point]
        if len(points) > self.capacity:
            newest = max((place for place, item in enumerate(points) if item.role == "centre"), default=-1)
            del points[1 if newest == 0 else 0]
        self.points = points

    def coordinates(self, normaliser: Normaliser) -> Array:
        """X (n, d): as they were tried, or re-mapped into the current normaliser's coordinates."""
        if not self.remap:
            return np.array([point.parameters for point in self.points])
        return np.array([self._policies.rescaled(p.parameters, p.normaliser, normaliser) for p in self.points])

    def values(self) -> Array:
        """Ĵ(X) (n,), unscaled."""
        return np.array([point.value for point in self.points])

    def counts(self) -> Array:
        """Episodes behind every value (n,)."""
        return np.array([float(len(point.returns)) for point in self.points])

    def repeated(self) -> list[Array]:
        """The returns of every point that was run more than once: what the noise is estimated from."""
        return [point.returns for point in self.points if len(point.returns) > 1]

    def state(self) -> list[dict[str, Any]]:
        """The points as nested dicts of arrays and scalars."""
        return [
            {
                "parameters": point.parameters,
                "normaliser": point.normaliser.state(),
                "returns": point.returns,
                "role": point.role,
                "iteration": point.iteration,
                "visits": None if point.visits is None else point.visits.state(),
            }
            for point in self.points
        ]

    def load(self, state: list[dict[str, Any]]) -> None:
        """Take back what `state` gave."""
        self.points = [
            Point(
                saved["parameters"],
                Normaliser.from_state(saved["normaliser"]),
                saved["returns"],
                saved["role"],
                saved["iteration"],
                None if saved["visits"] is None else Visits.from_state(saved["visits"]),
            )
            for saved in state
        ]
