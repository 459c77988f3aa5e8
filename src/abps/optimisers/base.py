"""The contract of an optimiser of an unknown function on the unit cube [0, 1]^d: propose points, learn their values.

An optimiser knows nothing of policies, episodes or files: it can be tried on any function (`maximise`). Its settings
are the part; what it remembers is a dataclass of arrays and scalars that its methods take and return; the measured
points are kept for it by whoever runs it. We maximise. Shapes: n measured points, q proposed ones, d parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.seeding import generator
from abps.settings import Part

__all__ = ["Batch", "Learned", "Measured", "Optimiser", "maximise", "newest_and_best"]


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured so far, oldest first."""

    points: Array
    """(n, d), in the unit cube."""
    values: Array
    """(n,), as they were told: neither scaled nor clipped."""
    groups: NDArray[np.int64]
    """(n,): what the optimiser called the point when it proposed it, such as the number of a trust region."""

    @classmethod
    def nothing(cls, d: int) -> "Measured":
        """Before the first value."""
        return cls(np.zeros((0, d)), np.zeros(0), np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: NDArray[Any]) -> "Measured":
        """The rows chosen by a mask or by indices."""
        return Measured(self.points[chosen], self.values[chosen], self.groups[chosen])

    def added(self, batch: "Batch", values: Array) -> "Measured":
        """With the values (q,) of a batch; those that are not finite (failed episodes) are left out."""
        worked = np.isfinite(values)
        return Measured(
            np.concatenate([self.points, batch.points[worked]]),
            np.concatenate([self.values, values[worked]]),
            np.concatenate([self.groups, batch.groups[worked]]),
        )


class Batch(NamedTuple):
    """Points to measure, side by side."""

    points: Array
    """(q, d), q >= 1, in the unit cube."""
    groups: NDArray[np.int64]
    """(q,): the optimiser's own label of every point; it comes back in `Measured`."""

    @classmethod
    def of(cls, points: Array, group: int = 0) -> "Batch":
        """Points of one group."""
        return cls(points, np.full(len(points), group, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Learned:
    """What an optimiser made of new values."""

    memory: Any
    best: Array
    """(d,): the point that it believes to be the best."""
    keep: NDArray[np.bool_]
    """(n,): which measured points it still needs; the others are dropped."""
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])


class Optimiser(Part, ABC):
    """Maximises an unknown function on the unit cube; a frozen dataclass of its settings."""

    family: ClassVar[str] = "optimiser"

    @abstractmethod
    def start(self, d: int) -> Any:
        """What it remembers before the first value: a dataclass of arrays and scalars."""

    @abstractmethod
    def propose(self, memory: Any, measured: Measured, rng: np.random.Generator) -> Batch:
        """The next points. A function of its arguments: after a resume it is computed anew."""

    @abstractmethod
    def learn(self, memory: Any, measured: Measured, fresh: int, rng: np.random.Generator) -> Learned:
        """Take in the newest `fresh` >= 1 rows of `measured`."""


def newest_and_best(measured: Measured, window: int) -> NDArray[np.bool_]:
    """A mask (n,) of `window` points: the best of all, and the newest of the others."""
    order = np.arange(len(measured))
    order[int(np.argmax(measured.values))] = len(measured)  # Newer than the newest: it never leaves.
    keep = np.zeros(len(measured), dtype=bool)
    keep[np.argsort(order)[-window:]] = True
    return keep


def maximise(
    optimiser: Optimiser, function: Callable[[Array], Array], d: int, evaluations: int, *, seed: int = 0
) -> tuple[Measured, list[Learned]]:
    """Run an optimiser on a plain function of points (q, d) → values (q,), NaN where it failed.

    Returns:
        Everything that was measured, oldest first, and what was learned after every batch.

    Example:
        >>> import numpy as np
        >>> from abps.optimisers.base import maximise
        >>> from abps.optimisers.turbo import Turbo
        >>> told, learned = maximise(Turbo(), lambda x: -np.sum((x - 0.3) ** 2, axis=1), d=2, evaluations=25)
        >>> bool(np.abs(learned[-1].best - 0.3).max() < 0.05)
        True
    """
    memory, kept, told = optimiser.start(d), Measured.nothing(d), Measured.nothing(d)
    learned: list[Learned] = []
    count = stage = 0
    while count < evaluations:
        batch = optimiser.propose(memory, kept, generator(seed, "propose", stage))
        values = np.asarray(function(batch.points), dtype=np.float64)
        fresh = int(np.isfinite(values).sum())
        kept, told = kept.added(batch, values), told.added(batch, values)
        count, stage = count + len(values), stage + 1
        if fresh:
            learned.append(optimiser.learn(memory, kept, fresh, generator(seed, "learn", stage)))
            memory, kept = learned[-1].memory, kept.where(learned[-1].keep)
    return told, learned
