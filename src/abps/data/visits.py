"""Where a point's episodes went: the visited states that the mean functions are evaluated at, with their weights.

All states of an episode, or a systematic subsample whose weighted sums are unbiased. Shapes: S states, s and a sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.errors import ShapeError
from abps.trajectory import Trajectory, discounts

__all__ = ["Visits", "systematic_sample"]


@dataclass(frozen=True, eq=False)
class Visits:
    """Where one point's episodes went: a weighted sample of the improper visitation measure d^π."""

    states: NDArray[np.floating]
    """(S, s)"""
    actions: NDArray[np.floating]
    """(S, a): the actions really taken there."""
    weights: Array
    """(S,): γᵗ / episodes, or what makes a subsample's sums unbiased; they always add up to Σ_t γᵗ."""

    @classmethod
    def collect(
        cls, trajectories: Sequence[Trajectory], gamma: float, limit: int = 0, rng: np.random.Generator | None = None
    ) -> "Visits":
        """Gather the states of a point's episodes.

        Args:
            trajectories: the episodes, at least one; each counts alike.
            gamma: discount.
            limit: keep only so many states, drawn systematically in proportion to their weight; 0: all.
            rng: for the draw; needed when there are more states than `limit`.
        """
        if not trajectories:
            raise ShapeError("visits need at least one episode")
        states = np.concatenate([item.observations[:-1] for item in trajectories])
        actions = np.concatenate([item.actions for item in trajectories])
        weights = np.concatenate([discounts(gamma, len(item)) for item in trajectories]) / len(trajectories)
        if limit <= 0 or weights.size <= limit:
            return cls(states, actions, weights)
        if rng is None:
            raise ShapeError(f"{weights.size} states are to be reduced to {limit}: give a generator")
        kept, weights = systematic_sample(weights, limit, rng)
        return cls(states[kept], actions[kept], weights)


def systematic_sample(weights: Array, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """Choose `size` of n items such that weighted sums stay unbiased: returns their places, in order, and new weights.

    Items heavier than an equal share are all kept with their own weight; from the others, one draw places a regular
    comb over their cumulated weight, so that the sample is spread over the episode as evenly as possible.
    """
    order = np.argsort(-weights, kind="stable")
    descending = weights[order]
    rest = descending[::-1].cumsum()[::-1][:size]
    shares = rest / np.arange(size, 0, -1)
    certain = int(np.argmax(descending[:size] <= shares))
    light = np.sort(order[certain:])
    cumulated = np.cumsum(weights[light])
    teeth = (np.arange(size - certain) + rng.random()) * (cumulated[-1] / (size - certain))
    chosen = light[np.minimum(np.searchsorted(cumulated, teeth, side="right"), light.size - 1)]
    places = np.concatenate([order[:certain], chosen])
    new = np.concatenate([descending[:certain], np.full(size - certain, cumulated[-1] / (size - certain))])
    sorting = np.argsort(places, kind="stable")
    return places[sorting], new[sorting]
