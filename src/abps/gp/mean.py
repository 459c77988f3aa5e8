"""The advantage mean function and the validation predictor (paper Eqs. (adv_mean) and (R2_validation)).

    m̂(x) = Ĵ(θ) + Σ_t w_t [Q(s_t, π_x(s_t)) − Q(s_t, π_θ(s_t))],    s_t, w_t: states of the centre θ,
    m̃(x) = Ĵ(θ) + Σ_t w_t [Q(s_t, a_t) − Q(s_t, π_θ(s_t))],          s_t, a_t, w_t: states and actions of x itself,

with the occupancy weights w_t = γᵗ / episodes. Critics enter linearly, so both are given as one *feature* per critic and
combined by whoever holds the critics' weights. Shapes: n points, d parameters, k critics, S states, s and a sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.critics.base import Centre, Critics
from abps.errors import ShapeError
from abps.trajectory import Trajectory, discounts

__all__ = ["Visits", "advantage_features", "advantage_gradients", "validation_advantages"]

Array = NDArray[np.float64]

ROWS = 65_536
"""States per call of the critics: bounds the memory when all visited states are used."""


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

    def state(self) -> dict[str, Any]:
        """The arrays by name."""
        return {"states": self.states, "actions": self.actions, "weights": self.weights}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Visits":
        """Rebuild what `state` returned."""
        return cls(np.array(state["states"]), np.array(state["actions"]), np.array(state["weights"]))


def systematic_sample(weights: Array, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """Choose `size` of n items such that weighted sums stay unbiased: returns their places, in order, and new weights.

    Items heavier than an equal share are all kept with their own weight; from the others, one draw places a regular comb
    over their cumulated weight, so that the sample is spread over the episode as evenly as possible.
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


def advantage_features(critics: Critics, centre: Centre, visits: Visits, points: Array) -> Array:
    """Every critic's expected advantage of every point over the centre, on the centre's states: (n, d) → (n, k).

    m̂(X) = Ĵ(θ) + features @ weights.
    """
    states, weights = visits.states, visits.weights
    at_centre = critics.q(states, centre.actions(states)) @ weights
    per_call = max(1, ROWS // len(weights))
    features = np.empty((points.shape[0], critics.members))
    for start in range(0, points.shape[0], per_call):
        part = points[start : start + per_call]
        actions = [centre.policy_class.actions(x, states, centre.normaliser) for x in part]
        values = critics.q(np.tile(states, (len(part), 1)), np.concatenate(actions))
        totals = values.reshape(critics.members, len(part), len(weights)) @ weights
        features[start : start + per_call] = (totals - at_centre[:, None]).T  # Eq. (adv_mean)
    return features


def advantage_gradients(critics: Critics, centre: Centre, visits: Visits) -> Array:
    """Gradients of the features at θ, the deterministic policy gradient of every critic: (d, k).

    ∇m̂(θ) = gradients @ weights.
    """
    slopes = critics.action_gradients(visits.states, centre.actions(visits.states))
    cotangents = slopes * visits.weights[:, None]
    return centre.policy_class.pullback(centre.parameters, visits.states, centre.normaliser, cotangents).T


def validation_advantages(critics: Critics, centre: Centre, visits: Sequence[Visits]) -> Array:
    """Every critic's expected advantage of the actions that n points really took, on their own states: (n, k).

    m̃(X) = Ĵ(θ) + advantages @ weights.
    """
    features, start = np.empty((len(visits), critics.members)), 0
    while start < len(visits):
        stop, rows = start + 1, len(visits[start].weights)
        while stop < len(visits) and rows + len(visits[stop].weights) <= ROWS:
            rows += len(visits[stop].weights)
            stop += 1
        features[start:stop] = _advantages(critics, centre, visits[start:stop])
        start = stop
    return features


def _advantages(critics: Critics, centre: Centre, visits: Sequence[Visits]) -> Array:
    states = np.concatenate([item.states for item in visits])
    taken = critics.q(states, np.concatenate([item.actions for item in visits]))
    differences = taken - critics.q(states, centre.actions(states))
    firsts = np.cumsum([0, *(len(item.weights) for item in visits[:-1])])
    weighted = differences * np.concatenate([item.weights for item in visits])
    return np.add.reduceat(weighted, firsts, axis=1).T  # Eq. (R2_validation)
