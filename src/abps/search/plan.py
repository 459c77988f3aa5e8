"""Plans: which episodes an outer iteration runs, and when it is over (paper Algorithm 2).

A plan is asked after every told stage what comes next; None means that the centre moves. Shapes: d parameters.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from abps.settings import Part, require, setting

__all__ = ["CentreThenProbes", "Plan", "Situation", "Stage"]


class Situation(NamedTuple):
    """Where an outer iteration stands."""

    iteration: int
    centre_told: bool
    """Whether the centre's episodes of this iteration are known."""
    probes: int
    """Probes told in this iteration."""
    points: int
    """Points in the window."""
    stage: str
    """Name of the last told stage of this iteration, "" before the first."""


@dataclass(frozen=True)
class Stage:
    """Episodes that can run side by side."""

    name: str
    """"centre", "design" (Gaussian probes) or "probe" (chosen by the model)."""
    count: int = 1
    """How many policies."""
    episodes: int = 1
    """Episodes of each."""
    std: float = 0.0
    """Of Gaussian probes around the centre."""


class Plan(Part, ABC):
    """Decides which episodes are run next."""

    family: ClassVar[str] = "plan"
    window: int
    """N_max: points the process keeps."""

    @abstractmethod
    def next(self, situation: Situation) -> Stage | None:
        """The next stage of the outer iteration; None: the centre moves."""


@dataclass(frozen=True)
class CentreThenProbes(Plan):
    """The paper's: the centre N_c times, then N_acq probes one by one; in the first iteration N_max − 1 Gaussian ones."""

    centre_episodes: int = setting(3, "N_c: episodes of every new centre", common=True)
    probes: int = setting(16, "N_acq: probes of one outer iteration", common=True)
    window: int = setting(51, "N_max: points the process keeps")
    design_std: float = setting(0.025, "standard deviation of the Gaussian probes of the first outer iteration")

    def __post_init__(self) -> None:
        require(self.centre_episodes >= 1, "centre_episodes must be at least 1")
        require(self.probes >= 1, "probes must be at least 1")
        require(self.window >= 1, "window must be at least 1")
        require(self.design_std > 0, "design_std must be positive")

    def next(self, situation: Situation) -> Stage | None:
        if not situation.centre_told:
            return Stage("centre", episodes=self.centre_episodes)
        if situation.stage == "centre" and (situation.iteration == 0 or situation.points < 2):
            return Stage("design", count=max(self.window - 1, 1), std=self.design_std)
        if situation.stage == "design" or situation.probes >= self.probes:
            return None
        return Stage("probe")
