"""Running observation statistics: mean and standard deviation, mergeable, independent of how the data were split.

Shapes: n observations of size s. Moments are float64 and merged with Chan's formula, so a batch, its halves, and its
rows one by one give the same statistics up to rounding.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ShapeError

__all__ = ["STD_FLOOR", "Normaliser"]

STD_FLOOR = 1e-6
"""Standard deviations below this count as this: a sensor that never moves must not divide by zero."""


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Immutable running moments; `add` and `merge` return new ones.

    Example:
        >>> import numpy as np
        >>> seen = Normaliser.empty(2).add(np.array([[0.0, 10.0], [2.0, 30.0]]))
        >>> seen.mean.tolist(), seen.std.tolist()
        ([1.0, 20.0], [1.0, 10.0])
        >>> seen.apply(np.array([[2.0, 20.0]])).tolist()
        [[1.0, 0.0]]
    """

    count: int
    mean: Array
    """(s,)"""
    m2: Array
    """(s,): sum of squared deviations from `mean`."""

    @classmethod
    def empty(cls, size: int) -> "Normaliser":
        """Statistics of no observation: mean 0, std 1."""
        return cls(0, np.zeros(size), np.zeros(size))

    @property
    def std(self) -> Array:
        """Root mean squared deviation from `mean`, at least `STD_FLOOR`; ones before the first observation."""
        if self.count == 0:
            return np.ones_like(self.mean)
        return np.maximum(np.sqrt(self.m2 / self.count), STD_FLOOR)

    def add(self, observations: NDArray[np.floating]) -> "Normaliser":
        """Return the statistics with n more observations, given as (n, s).

        Raises:
            ShapeError: the observations have another size.
        """
        data = np.asarray(observations, dtype=np.float64)
        if data.ndim != 2 or data.shape[1] != self.mean.shape[0]:
            raise ShapeError(f"observations must have shape (n, {self.mean.shape[0]}), got {data.shape}")
        if data.shape[0] == 0:
            return self
        mean = data.mean(axis=0)
        return self.merge(Normaliser(data.shape[0], mean, np.square(data - mean).sum(axis=0)))

    def merge(self, other: "Normaliser") -> "Normaliser":
        """Return the statistics of both data sets together (Chan, Golub & LeVeque 1979)."""
        if other.count == 0:
            return self
        if self.count == 0:
            return other
        total = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / total)
        m2 = self.m2 + other.m2 + np.square(delta) * (self.count * other.count / total)
        return Normaliser(total, mean, m2)

    def widen(self, other: "Normaliser") -> "Normaliser":
        """Return the statistics with `other`'s data added, but with this mean: deviations of all data are measured from
        it.

        A policy without bias can follow a change of scale exactly, but no change of the mean.
        """
        if self.count == 0 or other.count == 0:
            return self.merge(other)
        m2 = self.m2 + other.m2 + np.square(other.mean - self.mean) * other.count
        return Normaliser(self.count + other.count, self.mean, m2)

    def with_scales(self) -> "Normaliser":
        """Return the statistics with a spread for sensors that did not move: the size of their mean, at least one.

        For statistics of a few episodes that are kept for ever: such a sensor may well move later (a goal that is drawn
        anew for every episode), and must not then be a million spreads away.
        """
        size = np.maximum(1.0, np.abs(self.mean))
        still = self.std <= STD_FLOOR * size
        return Normaliser(self.count, self.mean, np.where(still, self.count * np.square(size), self.m2))

    def apply(self, observations: NDArray[np.floating]) -> Array:
        """Return (observations − mean) / std; the last axis is s."""
        return (np.asarray(observations, dtype=np.float64) - self.mean) / self.std
