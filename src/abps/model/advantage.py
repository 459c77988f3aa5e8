"""The advantage mean function and the validation predictor (paper Eqs. (adv_mean) and (R2_validation)).

    m̂(x) = Ĵ(θ) + Σ_t w_t [Q(s_t, π_x(s_t)) − Q(s_t, π_θ(s_t))],    s_t, w_t: states of the centre θ,
    m̃(x) = Ĵ(θ) + Σ_t w_t [Q(s_t, a_t) − Q(s_t, π_θ(s_t))],          s_t, a_t, w_t: states and actions of x itself,

with the occupancy weights w_t = γᵗ / episodes. Closed-form split critics enter m̂ to first order in the departure from
the centre's action (`critics.base.mean_advantages`), m̃ with all they have. Critics enter linearly, so both are given as
one *feature* per critic and combined by whoever holds the critics' weights. Shapes: n points, d parameters, k critics,
S states, s and a sizes.
"""

from collections.abc import Sequence

import numpy as np

from abps.arrays import Array
from abps.critics.base import ROWS, Critics, advantages, mean_advantages
from abps.data.objective import Objective
from abps.data.visits import Visits
from abps.policies.policy import Policy
from abps.trajectory import Trajectory, discounts

__all__ = ["advantage_features", "advantage_gradients", "centre_return_estimate", "validation_advantages"]


def advantage_features(critics: Critics, centre: Policy, visits: Visits, points: Array) -> Array:
    """Every critic's expected advantage of every point over the centre, on the centre's states: (n, d) → (n, k).

    m̂(X) = Ĵ(θ) + features @ weights.
    """
    states, weights = visits.states, visits.weights
    actions = centre.space.actions(points, states, centre.normaliser)
    return (mean_advantages(critics, centre, states, actions) @ weights).T  # Eq. (adv_mean)


def advantage_gradients(critics: Critics, centre: Policy, visits: Visits) -> Array:
    """Gradients of the features at θ, the deterministic policy gradient of every critic: (d, k).

    ∇m̂(θ) = gradients @ weights.
    """
    slopes = critics.action_gradients(visits.states, centre.actions(visits.states))
    cotangents = slopes * visits.weights[:, None]
    return centre.space.pullback(centre.parameters, visits.states, centre.normaliser, cotangents).T


def validation_advantages(critics: Critics, centre: Policy, visits: Sequence[Visits]) -> Array:
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


def _advantages(critics: Critics, centre: Policy, visits: Sequence[Visits]) -> Array:
    states = np.concatenate([item.states for item in visits])
    taken = np.concatenate([item.actions for item in visits])
    differences = advantages(critics, centre, states, taken[None])[:, 0]
    firsts = np.cumsum([0, *(len(item.weights) for item in visits[:-1])])
    weighted = differences * np.concatenate([item.weights for item in visits])
    return np.add.reduceat(weighted, firsts, axis=1).T  # Eq. (R2_validation)


def centre_return_estimate(
    critics: Critics, centre: Policy, trajectory: Trajectory, objective: Objective, scale: float = 1.0
) -> Array:
    """J(θ) from an episode that did not follow π_θ, such as one along a path: one estimate per critic (k,), unscaled.

    The performance-difference lemma (paper Eq. (pdl)) holds for actions chosen in any way that does not look ahead:

        J(θ) = E[ G − Σ_t γᵗ A(s_t, a_t) ],    G = Σ_t γᵗ (r_t − shift),    A(s, a) = Q(s, a) − Q(s, π_θ(s)).

    With the exact Q of an infinite horizon the mean telescopes to V(s₀) − γᵀ V(s_T): unbiased for episodes that
    terminate, and for truncated ones but for a tail of weight γᵀ. Errors of Q enter as they are, weighted by γᵗ and by
    how far the actions depart from the centre's.

    Args:
        critics: fitted at the centre, with rewards divided by `scale`.
        centre: π_θ.
        trajectory: the episode.
        objective: γ and the shift; its γ should be the one that the critics were fitted with.
        scale: what the critics divide rewards by.
    """
    states = trajectory.observations[:-1]
    differences = advantages(critics, centre, states, trajectory.actions[None])[:, 0]
    return objective.total(trajectory) - scale * (differences @ discounts(objective.gamma, len(trajectory)))
