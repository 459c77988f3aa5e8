"""What a search knows of a task: sizes, bounds, discount, horizon and reward scale. No environment, no Gymnasium."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.settings import check_types
from abps.tasks.constraints import Constraint
from abps.tasks.limits import Limits

__all__ = ["TaskSpec"]


@dataclass(frozen=True)
class TaskSpec:
    """The contract between a task and a search (hashable, saved with the run).

    Example:
        >>> import abps
        >>> spec = abps.TaskSpec("arm", observation_dim=6, action_dim=2, action_low=(-1.0, 0.0), action_high=(1.0, 4.0))
        >>> spec.action_centre.tolist(), spec.action_half.tolist()
        ([0.0, 2.0], [1.0, 2.0])
    """

    name: str
    observation_dim: int
    action_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    gamma: float = 0.99
    horizon: int = 1000
    reward_scale: float | None = None
    """Rewards are divided by it before a search sees a return; None: found automatically by the search."""
    limits: Limits = Limits()
    """How far and how fast actions may change."""
    constraints: tuple[Constraint, ...] = ()
    """Costs that every episode reports, and their limits."""

    @cached_property
    def action_centre(self) -> Array:
        """(a,): the middle of every action's range."""
        return (np.array(self.action_high) + np.array(self.action_low)) / 2.0

    @cached_property
    def action_half(self) -> Array:
        """(a,): half of every action's range."""
        return (np.array(self.action_high) - np.array(self.action_low)) / 2.0

    @cached_property
    def action_rates(self) -> Array | None:
        """(a,): the largest change of every action from one control step to the next; None: no limit."""
        return self.limits.rates(self.action_half)

    @cached_property
    def action_start(self) -> Array:
        """(a,): the action before the first step, from which its rate is counted."""
        return self.limits.start(np.array(self.action_low), np.array(self.action_high))

    def __post_init__(self) -> None:
        check_types(self)
        if self.observation_dim < 1 or self.action_dim < 1:
            raise ConfigError(
                f"a task needs at least one observation and one action, got {self.observation_dim} and "
                f"{self.action_dim}"
            )
        for name, bounds in (("action_low", self.action_low), ("action_high", self.action_high)):
            if len(bounds) != self.action_dim or not np.all(np.isfinite(bounds)):
                raise ConfigError(f"{name} must be {self.action_dim} finite numbers, got {bounds}")
        if not all(low < high for low, high in zip(self.action_low, self.action_high, strict=True)):
            raise ConfigError(
                f"every action_low must be below its action_high, got {self.action_low} and {self.action_high}"
            )
        if not 0.0 < self.gamma <= 1.0:
            raise ConfigError(f"gamma must be in (0, 1], got {self.gamma}")
        if self.horizon < 1:
            raise ConfigError(f"horizon must be at least 1, got {self.horizon}")
        if self.reward_scale is not None and not (np.isfinite(self.reward_scale) and self.reward_scale > 0):
            raise ConfigError(f"reward_scale must be positive and finite, got {self.reward_scale}")
        self.limits.rates(self.action_half)  # These raise when there are more or fewer numbers than actions.
        self.limits.changes(self.action_half)
        self.limits.start(np.array(self.action_low), np.array(self.action_high))
