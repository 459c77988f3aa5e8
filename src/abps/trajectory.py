"""One finished episode as data, and an episode that failed.

Shapes: T steps, s observation size, a action size, c constraints. Observations and actions are float32 (what replay and
statistics use, in memory and on disk alike), rewards and costs float64 (so that a return is the same number wherever it
is summed).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abps.errors import ShapeError

__all__ = ["Failed", "Outcome", "Trajectory", "discounts"]

LARGEST_REWARD = 1e30
"""Sums and squares of anything up to this stay finite; a larger reward is a fault of the environment."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A finished episode; `terminated` (the MDP ended) and `truncated` (the clock ran out) are never mixed up.

    Example:
        >>> import abps
        >>> observations, actions, rewards = [[0.0], [0.1], [0.3]], [[1.0], [1.0]], [2.0, 4.0]
        >>> episode = abps.Trajectory.build(observations, actions, rewards, terminated=True, truncated=False)
        >>> len(episode), episode.total(), episode.total(gamma=0.5)
        (2, 6.0, 4.0)
    """

    observations: NDArray[np.float32]
    """(T + 1, s): the state before every step and the one after the last."""
    actions: NDArray[np.float32]
    """(T, a): what was really applied to the system."""
    rewards: NDArray[np.float64]
    """(T,): as the environment gave them, neither scaled nor shifted."""
    terminated: bool
    truncated: bool
    costs: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    """(T, c): what constraints are about, as it was reported; c = 0 for a task without constraints."""

    @classmethod
    def build(
        cls,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        terminated: bool,
        truncated: bool,
        costs: ArrayLike | None = None,
    ) -> "Trajectory":
        """Cast to the contract's dtypes and check shapes and finiteness.

        Args:
            observations: (T + 1, s).
            actions: (T, a).
            rewards: (T,).
            terminated: whether the MDP ended.
            truncated: whether the clock ran out.
            costs: (T, c), one column per constraint of the task; None: there are none.

        Raises:
            ShapeError: a shape does not fit, the episode is empty, or a number is not finite.
        """
        with np.errstate(over="ignore"):  # What does not fit into float32 becomes infinite and is refused below.
            obs = np.asarray(observations, dtype=np.float32)
            act = np.asarray(actions, dtype=np.float32)
        rew = np.asarray(rewards, dtype=np.float64)
        if rew.ndim != 1 or rew.size == 0:
            raise ShapeError(f"rewards must be a vector of at least one step, got shape {rew.shape}")
        steps = rew.shape[0]
        if obs.ndim != 2 or obs.shape[0] != steps + 1:
            raise ShapeError(
                f"observations must have shape ({steps + 1}, s), one more than the {steps} rewards, got {obs.shape}"
            )
        if act.ndim != 2 or act.shape[0] != steps:
            raise ShapeError(f"actions must have shape ({steps}, a), one per reward, got {act.shape}")
        cost = np.zeros((steps, 0)) if costs is None else np.asarray(costs, dtype=np.float64)
        if cost.ndim != 2 or cost.shape[0] != steps:
            raise ShapeError(f"costs must have shape ({steps}, c), one row per reward, got {cost.shape}")
        for name, array in (("observations", obs), ("actions", act), ("rewards", rew), ("costs", cost)):
            if not np.all(np.isfinite(array)):
                step = int(np.argwhere(~np.isfinite(array))[0][0])
                raise ShapeError(f"{name} contain a number that is not finite, first at step {step}")
        for name, array in (("rewards", rew), ("costs", cost)):
            largest = float(np.abs(array).max(initial=0.0))
            if largest > LARGEST_REWARD:
                raise ShapeError(f"{name} must not exceed {LARGEST_REWARD:g}, got {largest:g}")
        return cls(obs, act, rew, bool(terminated), bool(truncated), cost)

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def total(self, gamma: float = 1.0, shift: float = 0.0) -> float:
        """Return Σ γᵗ (r_t − shift), the discounted return Ĵ of this episode."""
        rewards = self.rewards - shift
        if gamma == 1.0:
            return float(rewards.sum())
        return float(discounts(gamma, len(self)) @ rewards)


@dataclass(frozen=True)
class Failed:
    """An episode without a usable result: it crashed, hung, or returned something that is not a trajectory.

    Example:
        >>> import abps
        >>> abps.Failed("hit the left stop").reason
        'hit the left stop'
    """

    reason: str
    traceback: str = field(default="", repr=False, compare=False)
    """Of the exception behind it, where there was one."""


Outcome = Trajectory | Failed


def discounts(gamma: float, steps: int) -> NDArray[np.float64]:
    """Return (1, γ, γ², …), the occupancy weights of an episode's states; shape (steps,)."""
    return np.power(gamma, np.arange(steps, dtype=np.float64))
