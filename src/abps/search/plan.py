"""Plans: which episodes an outer iteration runs, and when it is over (paper Algorithm 2).

A plan is asked after every told stage what comes next; None means that the centre moves. Shapes: d parameters.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from abps.settings import Part, require, setting

__all__ = ["AdaptsPaths", "CentreThenProbes", "PathsAroundCentre", "Plan", "Situation", "Stage"]


class Situation(NamedTuple):
    """Where an outer iteration stands."""

    iteration: int
    stage: str
    """Name of the last told stage of this iteration, "" before the first."""
    probes: int
    """Probes told in this iteration."""
    points: int
    """Points in the window."""
    horizon: int
    """Longest episode of the task in steps."""
    path_scale: float = 1.0
    """Factor of the size of paths, as the plan adapted it."""


@dataclass(frozen=True)
class Stage:
    """Episodes that can run side by side."""

    name: str
    """Names the stage in random streams and in the next `Situation`."""
    centre_episodes: int = 0
    """Episodes of the centre."""
    gaussian: int = 0
    """Probes drawn around the centre."""
    std: float = 0.0
    """Standard deviation of such a probe."""
    probe: bool = False
    """Whether one probe is chosen by the model."""
    paths: int = 0
    """Episodes whose parameters move along a path around the centre."""
    path_size: float = 0.0
    """Root-mean-square length of a path's knots, in the chart."""
    path_shift: float = 0.0
    """Root-mean-square shift of every action at a path's knots, alike in all states, in halves of their ranges."""
    path_interval: int = 1
    """Steps between two knots."""
    quick_shift: float = 0.0
    """Root-mean-square of a second shift of every action, drawn anew every `quick_interval` steps."""
    quick_interval: int = 1
    """Steps between two knots of the second shift."""
    scout: bool = False
    """Whether the paths only show the scale of the sensors: critics learn from them, the process does not."""
    ahead: bool = False
    """Whether the probe that the last step asked for is run instead of the centre, if there is one."""


class Plan(Part, ABC):
    """Decides which episodes are run next."""

    family: ClassVar[str] = "plan"
    window: int
    """N_max: points the process keeps."""

    @abstractmethod
    def next(self, situation: Situation) -> Stage | None:
        """The next stage of the outer iteration; None: the centre moves."""


@runtime_checkable
class AdaptsPaths(Protocol):
    """What a plan may offer beside the contract: paths whose size follows from what they cost."""

    def adapted(self, path_scale: float, path_cost: float, *, stuck: bool) -> float:
        """The factor of the size of the next paths.

        Args:
            path_scale: the last one.
            path_cost: what the last path lost, in spreads of the window's returns.
            stuck: whether the last outer iteration went back to an earlier policy.
        """
        ...


@dataclass(frozen=True)
class CentreThenProbes(Plan):
    """The paper's: the centre N_c times, then N_acq probes one by one; in the first iteration N_max − 1 Gaussian."""

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
        if not situation.stage:
            return Stage("centre", centre_episodes=self.centre_episodes)
        if situation.stage == "centre" and (situation.iteration == 0 or situation.points < 2):
            return Stage("design", gaussian=max(self.window - 1, 1), std=self.design_std)
        if situation.stage == "design" or situation.probes >= self.probes:
            return None
        return Stage("probe", probe=True)


@dataclass(frozen=True)
class PathsAroundCentre(Plan):
    """A few episodes a step: paths around the centre, and one look ahead along the last step (or the centre itself)."""

    first_paths: int = setting(6, "path episodes before the first step, one after the other")
    scouts: int = setting(3, "how many of these, all but one at most, only show the scale of the sensors")
    paths: int = setting(1, "path episodes before every later step", common=True)
    path_shift: float = setting(
        0.08, "shift of the actions, alike in all states, at the knots of a path: halves of their ranges", common=True
    )
    path_size: float = setting(
        0.03, "change of the actions by other weights at the knots of a path: halves of their ranges"
    )
    path_steps: int = setting(20, "steps between two knots of a path, at most; a tenth of the horizon if that is less")
    quick_shift: float = setting(
        0.08, "a second shift of the actions, with knots every `quick_steps` steps; 0: none, so that motions are smooth"
    )
    quick_steps: int = setting(2, "steps between two knots of the second shift")
    path_cost: float = setting(
        0.5,
        "paths of a search that goes back grow while they lose less return than this, and all shrink when they lose "
        "more: spreads of the returns",
    )
    path_rate: float = setting(0.25, "how fast they grow and shrink; 0: they keep their size")
    path_scale_low: float = setting(0.5, "smallest factor of the size of paths")
    path_scale_high: float = setting(2.0, "largest factor of the size of paths; 1: they never grow")
    window: int = setting(40, "newest points that the process keeps")

    def __post_init__(self) -> None:
        require(self.first_paths >= 1 and self.paths >= 1, "first_paths and paths must be at least 1")
        require(self.scouts >= 0, "scouts must not be negative")
        require(min(self.path_size, self.path_shift) >= 0, "path_size and path_shift must not be negative")
        require(self.quick_shift >= 0 and self.quick_steps >= 1, "need quick_shift >= 0 and quick_steps >= 1")
        require(self.path_size + self.path_shift > 0, "a path must move: path_size or path_shift must be positive")
        require(self.path_steps >= 1, "path_steps must be at least 1")
        require(self.path_rate >= 0, "path_rate must not be negative")
        require(0 < self.path_scale_low <= 1, "path_scale_low must be in (0, 1]")
        require(self.path_scale_high >= 1, "path_scale_high must be at least 1")
        require(self.window >= 2, "window must be at least 2")

    def next(self, situation: Situation) -> Stage | None:
        interval, scale = max(2, min(self.path_steps, situation.horizon // 10)), situation.path_scale
        path = Stage(
            "paths",
            path_size=scale * self.path_size,
            path_shift=scale * self.path_shift,
            path_interval=interval,
            quick_shift=scale * self.quick_shift,
            quick_interval=min(self.quick_steps, interval),
        )
        if situation.points == 0 and not situation.stage:
            return Stage("centre", centre_episodes=1)
        first = 0 if situation.stage == "centre" else _number_of(situation.stage, "first ")
        if first is not None and first < self.first_paths:
            # One by one: each is laid in the scale of the sensors that those before it showed.
            name, scout = f"first {first + 1}", first < min(self.scouts, self.first_paths - 1)
            return replace(path, name=name, paths=1, scout=scout)
        if not situation.stage:
            return replace(path, ahead=True, centre_episodes=1, paths=self.paths)
        return None

    def adapted(self, path_scale: float, path_cost: float, *, stuck: bool) -> float:
        """See `AdaptsPaths`: on a plateau nothing is lost and larger paths show the critics more; a search that gets
        on has paths of their usual size."""
        factor = np.exp(self.path_rate * np.clip(self.path_cost - path_cost, -1.0, 1.0))
        highest = self.path_scale_high if stuck else max(1.0, path_scale * np.exp(-self.path_rate))
        return float(np.clip(path_scale * factor, self.path_scale_low, highest))


def _number_of(stage: str, prefix: str) -> int | None:
    """The number at the end of a stage's name; None: another stage."""
    return int(stage.removeprefix(prefix)) if stage.startswith(prefix) else None
