"""What a policy sees: raw observations, or observations standardised with running statistics."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from abps.normaliser import Normaliser
from abps.settings import Part, setting

__all__ = ["Observations", "RawObservations", "RunningNormaliser"]


class Observations(Part, ABC):
    """How observations become a policy's inputs."""

    family: ClassVar[str] = "observations"

    @property
    @abstractmethod
    def remaps(self) -> bool:
        """Whether parameters are re-mapped when the normaliser changes, so that policies keep their meaning."""

    @abstractmethod
    def updated(self, normaliser: Normaliser, fresh: Normaliser) -> Normaliser:
        """The normaliser after an outer iteration that saw the observations summed up in `fresh`."""


@dataclass(frozen=True)
class RawObservations(Observations):
    """Observations as they come."""

    @property
    def remaps(self) -> bool:
        return False

    def updated(self, normaliser: Normaliser, fresh: Normaliser) -> Normaliser:
        return normaliser


@dataclass(frozen=True)
class RunningNormaliser(Observations):
    """Observations less their running mean, divided by their running standard deviation."""

    remap: bool = setting(
        False, "re-map centre and old points when the normaliser changes, so that every policy keeps its meaning"
    )
    freeze_mean: bool = setting(
        False, "keep the mean of the first outer iteration; with `remap`, an update then changes no policy at all"
    )

    @property
    def remaps(self) -> bool:
        return self.remap

    def updated(self, normaliser: Normaliser, fresh: Normaliser) -> Normaliser:
        return normaliser.widen(fresh) if self.freeze_mean else normaliser.merge(fresh)
