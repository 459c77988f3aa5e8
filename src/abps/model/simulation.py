"""Returns of policies in a learned model, and their gradient by the adjoint method.

    m(θ) = mean over recorded starts of Σ_t γᵗ c_t (r̂(s_t, a_t) − shift),   a_t = π_θ(s_t),   s_{t+1} = f̂(s_t, a_t),

with c_0 = 1 and c_{t+1} = c_t · going_on(s_{t+1}), the share of an episode that has not ended. The gradient runs the
same steps backwards, at the cost of about three forward runs whatever the number of parameters; the policy's slope in
the state, which no policy class needs to offer, is taken by central differences.

Shapes: n policies, d parameters, m starts, T steps, s observation size, a action size.
"""

from typing import NamedTuple

import numpy as np

from abps.arrays import Array
from abps.model.dynamics import Dynamics, Step
from abps.normaliser import Normaliser
from abps.policies.policy import Policy, PolicySpace

__all__ = ["Episodes", "simulated_gradients", "simulated_returns"]

OVER = 1e-6
"""When less than this share of an episode is left, it is over."""
DIFFERENCE = 1e-5
"""Step of the central differences, in standard deviations of the states."""


class Episodes(NamedTuple):
    """What is simulated."""

    starts: Array
    """(m, s)"""
    steps: int
    """T"""
    gamma: float
    shift: float = 0.0
    """Subtracted from every reward."""


def simulated_returns(
    dynamics: Dynamics, space: PolicySpace, parameters: Array, normaliser: Normaliser, episodes: Episodes
) -> Array:
    """m of n policies (n, d) → (n,), all from the same starts."""
    n, m = len(parameters), len(episodes.starts)
    states, left, total = np.tile(episodes.starts, (n, 1)), np.ones(n * m), np.zeros(n * m)
    active, discount = np.arange(n * m), 1.0  # Episodes that go on; the others are left out of all that follows.
    for _ in range(episodes.steps):
        owners, firsts = np.unique(active // m, return_index=True)
        groups = np.split(states, firsts[1:])
        actions = [space.actions(parameters[k], group, normaliser) for k, group in zip(owners, groups, strict=True)]
        step = dynamics.step(states, np.concatenate(actions))
        total[active] += discount * left * (step.rewards - episodes.shift)
        left, discount = left * step.going_on, discount * episodes.gamma
        going = left > OVER
        if not going.any():
            break
        active, states, left = active[going], step.next_states[going], left[going]
    return total.reshape(n, m).mean(axis=1)


def simulated_gradients(dynamics: Dynamics, policy: Policy, episodes: Episodes) -> tuple[Array, Array]:
    """m(θ) of one policy from every start (m,), and their gradients (m, d)."""
    states, left, discount = episodes.starts, np.ones(len(episodes.starts)), 1.0
    record: list[tuple[Array, Step, Array, float]] = []
    values = np.zeros(len(episodes.starts))
    for _ in range(episodes.steps):
        step = dynamics.step(states, policy.actions(states))
        record.append((states, step, left, discount))
        values += discount * left * (step.rewards - episodes.shift)
        states, left, discount = step.next_states, left * step.going_on, discount * episodes.gamma
        if left.max() < OVER:
            break
    return values, _adjoint(dynamics, policy, episodes, record)


def _adjoint(
    dynamics: Dynamics, policy: Policy, episodes: Episodes, record: list[tuple[Array, Step, Array, float]]
) -> Array:
    """Backwards through the recorded steps; the pullback to the parameters is one call per start."""
    to_state, to_left = np.zeros_like(episodes.starts), np.zeros(len(episodes.starts))
    visited, cotangents = [], []
    for states, step, left, discount in reversed(record):
        from_state, to_action = dynamics.pullback(step, to_state, discount * left, to_left * left)
        to_left = to_left * step.going_on + discount * (step.rewards - episodes.shift)
        to_state = from_state + np.einsum("ma,mas->ms", to_action, _state_slopes(policy, states, dynamics.std))
        visited.append(states)
        cotangents.append(to_action)
    pullback, theta, normaliser = policy.space.pullback, policy.parameters, policy.normaliser
    pairs = zip(np.swapaxes(visited, 0, 1), np.swapaxes(cotangents, 0, 1), strict=True)
    return np.stack([pullback(theta, states, normaliser, back) for states, back in pairs])


def _state_slopes(policy: Policy, states: Array, std: Array) -> Array:
    """∂π/∂s (m, a, s) by central differences."""
    m, size = states.shape
    moves = DIFFERENCE * np.diag(std)
    both = np.concatenate([states[:, None] + moves, states[:, None] - moves], axis=1)  # (m, 2s, s)
    actions = policy.actions(both.reshape(-1, size)).reshape(m, 2, size, -1)
    return ((actions[:, 0] - actions[:, 1]) / (2.0 * DIFFERENCE * std)[None, :, None]).transpose(0, 2, 1)
