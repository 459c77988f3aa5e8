"""Charts: the coordinates in which kernel, probes and steps have their lengths.

Parameters have no natural scale; actions do. The chart at a centre θ is the metric of the actions over visited states,

    F = E_s[(∂π/∂θ)ᵀ diag(1/half²) (∂π/∂θ)] / a,    F + ridge = LLᵀ,    z = Lᵀ(x − θ),

so that |z| is, to first order, the root-mean-square change of the actions in halves of their ranges. The identity chart
(z = x) is the paper's. Shapes: n points, d parameters, b blocks of p = d/b.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.data.visits import Visits
from abps.policies.policy import Policy
from abps.settings import Part, require, setting

__all__ = ["ActionMetric", "Chart", "Coordinates", "Identity"]

FLOOR = 1e-9
"""Added to the metric's diagonal, relative to it, so that rounding cannot make it singular."""
STILL = 1e-6
"""A sensor whose spread is below this share of its size counts as one that never moves."""


class Coordinates(Protocol):
    """A chart at one centre; all maps take one vector (d,) or many as rows (n, d)."""

    @property
    def centre(self) -> Array:
        """(d,): where θ is in the chart."""
        ...

    def to_chart(self, parameters: Array) -> Array:
        """x → z."""
        ...

    def to_parameters(self, points: Array) -> Array:
        """z → x."""
        ...

    def gradients(self, gradients: Array) -> Array:
        """Gradients in the parameters → gradients in z."""
        ...


class Chart(Part, ABC):
    """Gives the coordinates at a centre."""

    family: ClassVar[str] = "chart"

    @abstractmethod
    def at(self, centre: Policy, visits: Visits | None) -> Coordinates:
        """The coordinates at a centre, given states visited near it."""


@dataclass(frozen=True)
class Identity(Chart):
    """The parameters themselves (the paper)."""

    def at(self, centre: Policy, visits: Visits | None) -> Coordinates:
        return _Unchanged(centre.parameters)


@dataclass(frozen=True)
class ActionMetric(Chart):
    """Lengths are changes of the actions, in halves of their ranges.

    The ridge is the same metric of the untrained policy over states whose coordinates are shuffled against each other:
    in units of action like the metric itself, whatever the sensors' scales and offsets are, and it bounds weights of
    directions that the visited states do not show, or in which the actions are saturated.
    """

    ridge: float = setting(0.05, "share of the shuffled, untrained metric that is added")

    def __post_init__(self) -> None:
        require(self.ridge > 0, "ridge must be positive")

    def at(self, centre: Policy, visits: Visits | None) -> Coordinates:
        if visits is None:
            raise RuntimeError("the action metric needs the visited states of points; keep them (states)")
        space, normaliser, weights = centre.space, centre.normaliser, visits.weights
        blocks = space.metric(centre.parameters, visits.states, normaliser, weights)
        blocks = blocks + self.ridge * space.prior_metric(_shuffled(visits.states), normaliser)
        diagonal = np.einsum("bii->bi", blocks)
        diagonal += FLOOR * np.maximum(diagonal, 1.0)
        factors: Array = np.linalg.cholesky(blocks).astype(np.float64)
        return _Metric(centre.parameters, factors, np.linalg.inv(factors).astype(np.float64))


def _shuffled(states: NDArray[np.floating]) -> Array:
    """States (S, s) with every coordinate shifted by another number of rows; one that never moves gets spread one."""
    states = np.asarray(states, dtype=np.float64)
    count, size = states.shape
    shuffled = np.stack([np.roll(states[:, k], (k + 1) * count // (size + 1)) for k in range(size)], axis=1)
    still = states.std(axis=0) <= STILL * np.maximum(1.0, np.abs(states).max(axis=0))
    shuffled[:, still] += np.where((np.arange(count)[:, None] + np.arange(int(still.sum()))) % 2 == 0, 1.0, -1.0)
    return shuffled


@dataclass(frozen=True, eq=False)
class _Unchanged:
    centre: Array

    def to_chart(self, parameters: Array) -> Array:
        return parameters

    def to_parameters(self, points: Array) -> Array:
        return points

    def gradients(self, gradients: Array) -> Array:
        return gradients


@dataclass(frozen=True, eq=False)
class _Metric:
    """z = Lᵀ(x − θ), block by block."""

    theta: Array
    factors: Array
    """L (b, p, p)"""
    inverses: Array
    """L⁻¹ (b, p, p)"""

    @property
    def centre(self) -> Array:
        return np.zeros_like(self.theta)

    def to_chart(self, parameters: Array) -> Array:
        return self._by_blocks(parameters - self.theta, self.factors)  # z_b = L_bᵀ x_b: rows times L_b

    def to_parameters(self, points: Array) -> Array:
        return self.theta + self._by_blocks(points, self.inverses)

    def gradients(self, gradients: Array) -> Array:
        return self._by_blocks(gradients, self.inverses.transpose(0, 2, 1))

    def _by_blocks(self, vectors: Array, matrices: Array) -> Array:
        """Row vectors times a matrix per block."""
        parts = vectors.reshape(*vectors.shape[:-1], len(matrices), -1)
        return np.einsum("...bi,bij->...bj", parts, matrices).reshape(vectors.shape)
