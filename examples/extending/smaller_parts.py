"""The smaller families, one part each: a chart, a plan, restarts, a way of probing, an aggregation and observations."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from abps.acquisition.probing import Probe, Probing
from abps.arrays import Array
from abps.data.visits import Visits
from abps.model.aggregation import Aggregation
from abps.model.chart import Chart
from abps.model.gp import PriorMean
from abps.model.posterior import GradientPosterior
from abps.normaliser import Normaliser
from abps.policies.observations import Observations
from abps.policies.policy import Policy
from abps.search.plan import Plan, Situation, Stage
from abps.search.restarts import Attempts, Belief, Restarts, Verdict
from abps.settings import setting


@dataclass(frozen=True)
class Scaled(Chart):
    """Every parameter in a unit of its own: z = (x − θ) / (smallest + |θ|)."""

    smallest: float = setting(1.0, "unit of a parameter that is zero")

    def at(self, centre: Policy, visits: Visits | None) -> "ScaledCoordinates":
        theta = centre.parameters
        return ScaledCoordinates(theta, self.smallest + np.abs(theta))


@dataclass(frozen=True, eq=False)
class ScaledCoordinates:
    """The chart at one centre."""

    theta: Array
    units: Array

    @property
    def centre(self) -> Array:
        return np.zeros_like(self.theta)

    def to_chart(self, parameters: Array) -> Array:
        return (parameters - self.theta) / self.units

    def to_parameters(self, points: Array) -> Array:
        return self.theta + points * self.units

    def gradients(self, gradients: Array) -> Array:
        return gradients * self.units


@dataclass(frozen=True)
class FreshDesign(Plan):
    """The centre and Gaussian probes side by side in every outer iteration; then a few probes chosen by the model."""

    window: int = setting(20, "points the process keeps")
    gaussian: int = setting(4, "Gaussian probes of every outer iteration")
    chosen: int = setting(2, "probes chosen by the model")
    std: float = setting(0.05, "standard deviation of the Gaussian probes")

    def next(self, situation: Situation) -> Stage | None:
        if not situation.stage:
            return Stage("design", centre_episodes=1, gaussian=self.gaussian, std=self.std)
        return Stage("probe", probe=True) if situation.probes < self.gaussian + self.chosen else None


@dataclass(frozen=True)
class RestartEvery(Restarts):
    """Begins anew where the search began after every so many episodes; the newest attempt is the one that counts."""

    episodes: int = setting(100, "episodes of an attempt")

    def judge(self, attempts: Attempts, belief: Callable[[], Belief], episodes: int) -> Verdict:
        if episodes - attempts.risen < self.episodes:
            return Verdict(attempts)
        return Verdict(replace(attempts, risen=episodes), start=attempts.origin)


@dataclass(frozen=True)
class SphereProbes(Probing):
    """Uniform on a sphere around the centre."""

    radius: float = setting(0.1, "distance of a probe from the centre")

    def choose(self, posterior: GradientPosterior, avoid: list[Array], rng: np.random.Generator) -> Probe:
        direction = rng.standard_normal(len(posterior.theta))
        return Probe(posterior.theta + self.radius * direction / np.linalg.norm(direction))


@dataclass(frozen=True)
class OnlyGood(Aggregation):
    """The mean of the critics that explain something; no critic, no mean function."""

    threshold: float = setting(0.0, "scores R̃² below this do not count")

    def weights(self, scores: Array) -> Array:
        good = (scores > self.threshold).astype(float)
        return good / max(good.sum(), 1.0)

    def prior_mean(self, value: float, features: Array, gradients: Array, weights: Array) -> PriorMean:
        return PriorMean(value + features @ weights, value, gradients @ weights)


@dataclass(frozen=True)
class FirstStatistics(Observations):
    """Standardised with the statistics of the first outer iteration, for ever."""

    remap: bool = setting(False, "re-map the parameters when the normaliser changes")

    @property
    def remaps(self) -> bool:
        return self.remap

    def updated(self, normaliser: Normaliser, fresh: Normaliser) -> Normaliser:
        return normaliser if normaliser.count else fresh
