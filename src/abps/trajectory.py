"""One finished episode as data, and an episode that failed.

Shapes: T steps, s observation size, a action size. Observations and actions are float32 (what replay and statistics
use, in memory and on disk alike), rewards float64 (so that a return is the same number wherever it is summed).
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

    @classmethod
    def build(
        cls, observations: ArrayLike, actions: ArrayLike, rewards: ArrayLike, *, terminated: bool, truncated: bool
    ) -> "Trajectory":
        """Cast to the contract's dtypes and check shapes and finiteness.

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
        for name, array in (("observations", obs), ("actions", act), ("rewards", rew)):
            if not np.all(np.isfinite(array)):
                step = int(np.argwhere(~np.isfinite(array))[0][0])
                raise ShapeError(f"{name} contain a number that is not finite, first at step {step}")
        if float(np.max(np.abs(rew))) > LARGEST_REWARD:
            raise ShapeError(f"rewards must not exceed {LARGEST_REWARD:g}, got {float(np.max(np.abs(rew))):g}")
        return cls(obs, act, rew, bool(terminated), bool(truncated))

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
