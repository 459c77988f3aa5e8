"""How the next probe is chosen: where a criterion is largest (paper Appendix A), or at random.

All lengths are in the coordinates of the chart. Shapes: d parameters, f failed probes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from abps.acquisition.base import Criterion
from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.maximise import maximise
from abps.arrays import Array
from abps.model.posterior import GradientPosterior
from abps.settings import Part, require, setting

__all__ = ["GaussianProbes", "HasCriterion", "MaximiseCriterion", "Probe", "Probing"]


class Probe(NamedTuple):
    """A point to measure."""

    point: Array
    """(d,)"""
    fallback: bool = False
    """Whether no maximum could be found, so that the point was chosen some other way."""


class Probing(Part, ABC):
    """Chooses the next probe."""

    family: ClassVar[str] = "probing"

    @abstractmethod
    def choose(self, posterior: GradientPosterior, avoid: list[Array], rng: np.random.Generator) -> Probe:
        """The next point to measure, away from failed ones (d,)."""


@runtime_checkable
class HasCriterion(Protocol):
    """What a probing may offer beside the contract: the criterion that figures draw, and where it is looked for."""

    @property
    def criterion(self) -> Criterion: ...

    @property
    def radius(self) -> float: ...


@dataclass(frozen=True)
class MaximiseCriterion(Probing):
    """Where a criterion is largest in a box around the centre."""

    criterion: Criterion = setting(ExpectedAscent(), "what is maximised")
    radius: float = setting(0.1, "half width of the box around the centre θ that probes stay in")
    start_std: float = setting(0.025, "standard deviation of the Gaussian starts around θ")
    starts: int = setting(32, "Gaussian starts that are screened; the best are polished by a bounded L-BFGS")
    avoid_radius: float = setting(0.1, "no probe closer than this to a failed one, in lengthscales; 0 switches it off")

    def __post_init__(self) -> None:
        require(self.radius > 0, "radius must be positive")
        require(self.start_std > 0, "start_std must be positive")
        require(self.starts >= 1, "starts must be at least 1")
        require(self.avoid_radius >= 0, "avoid_radius must not be negative")

    def choose(self, posterior: GradientPosterior, avoid: list[Array], rng: np.random.Generator) -> Probe:
        centre = posterior.theta
        starts = centre + self.start_std * rng.standard_normal((self.starts, len(centre)))
        found = maximise(
            self.criterion,
            posterior,
            starts,
            centre - self.radius,
            centre + self.radius,
            rng,
            avoid=np.array(avoid) if avoid else None,
            avoid_radius=self.avoid_radius,
        )
        return Probe(found.point, bool(found.fallback))


@dataclass(frozen=True)
class GaussianProbes(Probing):
    """Gaussian around the centre: no model is asked."""

    std: float = setting(0.025, "standard deviation of a probe around θ")

    def __post_init__(self) -> None:
        require(self.std > 0, "std must be positive")

    def choose(self, posterior: GradientPosterior, avoid: list[Array], rng: np.random.Generator) -> Probe:
        return Probe(posterior.theta + self.std * rng.standard_normal(len(posterior.theta)))
