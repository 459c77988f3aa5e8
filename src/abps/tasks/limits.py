"""Limits that a user sets for a system and the software keeps: how far and how fast actions may change.

They belong to the task, as the action bounds do, so that every search obeys them: `action_rate` by the policy itself,
on the robot and in exported code (`policies/limiter.py`), `action_change` and `weights` by every query of a search
(`search/limits.py`). Shapes: a action size.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.settings import require, setting

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """What a search and its policies may do to a system, beside the action bounds; empty or none: no limit.

    Example:
        >>> import abps
        >>> limits = abps.Limits(action_rate=(0.5,), action_change=(0.2,), unit="half-range")
        >>> abps.TaskSpec("arm", 3, 1, (-4.0,), (4.0,), limits=limits).action_rates
        array([2.])
    """

    action_rate: tuple[float, ...] = setting(
        (), "largest change of an action from one control step to the next; one number for all actions, or one each"
    )
    action_start: tuple[float, ...] = setting(
        (), "action from which the rate of the first step is counted; empty: zero, or the bound nearest to it"
    )
    action_change: tuple[float, ...] = setting(
        (), "largest change of an action at any visited state from one outer iteration to the next, probes included"
    )
    unit: Literal["action", "half-range"] = setting(
        "action", "unit of action_rate and action_change: that of the action, or halves of its range"
    )
    weights: float | None = setting(None, "largest absolute value of a policy's parameters: weights and bias")

    def __post_init__(self) -> None:
        for name in ("action_rate", "action_change"):
            numbers: tuple[float, ...] = getattr(self, name)
            positive = all(np.isfinite(number) and number > 0 for number in numbers)
            require(positive, f"{name} must be positive numbers, got {', '.join(map(str, numbers))}")
        require(self.weights is None or (np.isfinite(self.weights) and self.weights > 0), "weights must be positive")

    def rates(self, half: Array) -> Array | None:
        """`action_rate` (a,) in units of the actions, whose half ranges are given; None: no limit."""
        return self._each("action_rate", half)

    def changes(self, half: Array) -> Array | None:
        """`action_change` (a,) in units of the actions; None: no limit."""
        return self._each("action_change", half)

    def start(self, low: Array, high: Array) -> Array:
        """The action (a,) before the first step.

        Raises:
            ConfigError: it is not one number per action inside the bounds.
        """
        if not self.action_start:
            return np.clip(np.zeros(len(low)), low, high)
        start = np.array(self.action_start)
        if start.shape != low.shape or not np.all((start >= low) & (start <= high)):
            raise ConfigError(
                f"limits.action_start must be {len(low)} numbers inside the action bounds, got {self.action_start}"
            )
        return start

    def _each(self, name: str, half: Array) -> Array | None:
        numbers: tuple[float, ...] = getattr(self, name)
        if not numbers:
            return None
        if len(numbers) not in (1, len(half)):
            raise ConfigError(f"limits.{name} must be one number, or one for each of {len(half)} actions: {numbers}")
        return np.array(numbers) * (half if self.unit == "half-range" else np.ones(len(half)))
