"""Restarts: when a local search has stopped getting anywhere, and where it begins anew.

A local search ends in some local optimum: a gait that scoots, a robot that stands. An *attempt* is the search from one
start on. When the policy that it believes to be the best has not become much better for a number of episodes, the next
attempt begins, with an empty window:

- where the search began. Where episodes may end early, such attempts take turns: a `far`-sighted one maximises what the
  search maximises, a `near`-sighted one a discounted return that sees a tenth of the horizon. Where every step survived
  is rewarded, standing still is the best that can be reached uphill from a falling start; over a tenth of the horizon
  it is better to get going and fall later. Where a near-sighted attempt ends, the next one goes `onward` with the
  search's own objective;
- at the best policy of all attempts, the `champion`, after an attempt that led to nothing better.

The champion stays the current policy of the search until another is probably better. Shapes: d parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from abps.arrays import Array
from abps.settings import Part, require, setting

__all__ = [
    "CHAMPION",
    "FAR",
    "NEAR",
    "ONWARD",
    "Attempts",
    "Belief",
    "NoRestarts",
    "RestartWhenStuck",
    "Restarts",
    "Verdict",
]

FAR, NEAR, ONWARD, CHAMPION = "far", "near", "onward", "champion"
"""How an attempt begins."""


@dataclass
class Belief:
    """A policy and what is believed of its return."""

    parameters: Array
    """(d,)"""
    value: float
    """Posterior mean of the return, unscaled."""
    deviation: float
    """Posterior standard deviation."""

    def better_than(self, other: "Belief") -> float:
        """Probability that this policy is better; beliefs of two attempts are independent."""
        spread = float(np.hypot(self.deviation, other.deviation))
        return float(ndtr((self.value - other.value) / spread)) if spread > 0 else float(self.value > other.value)


@dataclass
class Attempts:
    """What is remembered of the attempts."""

    origin: Array = field(default_factory=lambda: np.zeros(0))
    """Parameters (d,) at which the search began."""
    ended_early: bool = False
    """Whether any episode, ever, was ended by the task before its time."""
    champion: Belief | None = None
    """The best policy of finished attempts."""
    kind: str = FAR
    """How the attempt that is under way began."""
    near_next: bool = True
    """Whether the next attempt that begins where the search began is near-sighted."""
    first_value: float | None = None
    """What the attempt believed of its first policy."""
    high: float = -np.inf
    """The value to rise above."""
    risen: int = 0
    """Told episodes when the attempt last rose, or began."""


class Verdict(NamedTuple):
    """What follows from an outer iteration."""

    attempts: Attempts
    current: Array | None = None
    """Parameters (d,) of the current policy of the search; None: the one that the attempt believes in."""
    start: Array | None = None
    """Parameters (d,) at which the search begins anew; None: it goes on."""


class Restarts(Part, ABC):
    """Decides when an attempt is over, where the next one begins, and which policy is the current one."""

    family: ClassVar[str] = "restarts"

    @abstractmethod
    def judge(self, attempts: Attempts, belief: Callable[[], Belief], episodes: int) -> Verdict:
        """Called at the end of every outer iteration.

        Args:
            attempts: what was returned last time.
            belief: gives the policy that this attempt believes to be the best.
            episodes: told episodes of the whole search.
        """

    def discount(self, attempts: Attempts, horizon: int) -> float:
        """The largest discount γ of the return that the attempt under way maximises; 1: that of the search."""
        return 1.0


@dataclass(frozen=True)
class NoRestarts(Restarts):
    """One attempt."""

    def judge(self, attempts: Attempts, belief: Callable[[], Belief], episodes: int) -> Verdict:
        return Verdict(attempts)


@dataclass(frozen=True)
class RestartWhenStuck(Restarts):
    """Begin anew when the policy believed to be the best has not become much better for a while."""

    patience: int = setting(50, "episodes without a rise after which the search begins anew")
    rise: float = setting(0.1, "what counts as a rise: share of what the attempt has gained since its first policy")
    sight: float = setting(
        0.1,
        "share of the horizon that near-sighted attempts see, where episodes may end early; 1: there are none",
    )
    certainty: float = setting(0.8, "a policy replaces that of earlier attempts when it is better with this chance")

    def __post_init__(self) -> None:
        require(self.patience >= 1, "patience must be at least 1")
        require(self.rise >= 0, "rise must not be negative")
        require(0 < self.sight <= 1, "sight must be in (0, 1]")
        require(0.5 <= self.certainty < 1, "certainty must be in [0.5, 1)")

    def judge(self, attempts: Attempts, belief: Callable[[], Belief], episodes: int) -> Verdict:
        found, champion, near = belief(), attempts.champion, attempts.kind == NEAR
        won = champion is None or (not near and found.better_than(champion) > self.certainty)
        best = found if champion is None or won else champion
        attempts = self._followed(attempts, found.value, episodes)
        if episodes - attempts.risen < self.patience:
            return Verdict(attempts, best.parameters)
        kind = self._next_kind(attempts, won)
        near_next = attempts.near_next != (kind in (NEAR, FAR))
        start = {ONWARD: found.parameters, CHAMPION: best.parameters}.get(kind, attempts.origin)
        following = Attempts(attempts.origin, attempts.ended_early, best, kind, near_next, risen=episodes)
        return Verdict(following, best.parameters, start)

    def discount(self, attempts: Attempts, horizon: int) -> float:
        return 1.0 - 1.0 / (1.0 + self.sight * horizon) if attempts.kind == NEAR else 1.0

    def _next_kind(self, attempts: Attempts, won: bool) -> str:
        if attempts.kind == NEAR:
            return ONWARD
        if not won and attempts.kind != CHAMPION:
            return CHAMPION
        return NEAR if attempts.near_next and attempts.ended_early and self.sight < 1 else FAR

    def _followed(self, attempts: Attempts, value: float, episodes: int) -> Attempts:
        """Note whether the attempt has risen."""
        if attempts.first_value is None:
            return replace(attempts, first_value=value, high=value, risen=episodes)
        if value > attempts.high + self.rise * max(attempts.high - attempts.first_value, 0.0):
            return replace(attempts, high=value, risen=episodes)
        return attempts
