"""The limiter of the rate of actions: what a policy wants, brought within reach of the action before.

    aₜ = min(max(wantedₜ, aₜ₋₁ − rate), aₜ₋₁ + rate)

The robot's numpy code (docs/hardware.md) and the exported C and numpy code compute the same. An action that is within
reach is not changed by a single bit, and an action between two allowed ones stays inside the action bounds. Shapes: a
action size.
"""

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.policies.base import Controller

__all__ = ["RateLimiter"]


class RateLimiter:
    """A controller of one episode that changes its action by at most `rates` (a,) per step."""

    def __init__(self, controller: Controller, rates: Array, start: Array) -> None:
        self._controller, self._rates, self._last = controller, rates, start

    def __call__(self, observation: NDArray[np.floating]) -> Array:
        wanted = self._controller(observation)
        self._last = np.minimum(np.maximum(wanted, self._last - self._rates), self._last + self._rates)
        return self._last.copy()  # An environment that writes to its action must not reach the memory.
