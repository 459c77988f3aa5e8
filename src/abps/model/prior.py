"""Prior means of J: a fitted constant (MPD, GIBO), or Ĵ(θ) plus what critics expect (ABS; paper Sections 3.2 and 4).

A prior is a part; `start` makes its *learner*, which takes in episodes and gives the mean function at a neighbourhood.
At a new centre the advantage learner resets the worst critic and learns Q of π_θ; after every probe it learns on,
scores and weighs the critics (Algorithm 1). Shapes: n points, d parameters, k critics.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from abps.arrays import Array
from abps.critics.base import CriticsPart
from abps.critics.lstd_config import Lstd
from abps.critics.scores import r2, scores, worst_member
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.model.advantage import advantage_features, advantage_gradients, validation_advantages
from abps.model.aggregation import Aggregation, Softmax
from abps.model.gp import Model, PriorMean
from abps.model.neighbourhood import Neighbourhood, visits_of
from abps.policies.policy import PolicySpace
from abps.seeding import generator
from abps.settings import Part, require, setting
from abps.state import NoMemory

__all__ = [
    "AdvantageLearner",
    "AdvantageMemory",
    "AdvantagePrior",
    "ConstantPrior",
    "Prior",
    "PriorLearner",
    "cosine",
    "stored",
]

Timed = Callable[[str], AbstractContextManager[None]]
"""Adds the time of a block to a phase of the iteration's metrics."""


class PriorLearner(ABC):
    """What a prior learns during a search."""

    memory: Any
    """A dataclass of arrays and scalars: everything that is needed to go on."""
    replay_capacity: int
    """How many of the newest transitions it learns from; 0: none."""

    @property
    @abstractmethod
    def weights(self) -> Array | None:
        """The critics' weights (k,), chosen before the window's returns are looked at; None without critics."""

    @abstractmethod
    def new_centre(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        """Learn at a new centre, whose episodes are in the neighbourhood and in the replay."""

    def gone_back(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        """Learn at a policy that was run before and is the centre again; no new episodes are there."""
        self.new_centre(neighbourhood, replay, iteration)

    def begin_anew(self, replay: Replay | None) -> None:  # noqa: B027 - most learners learn anew at every centre.
        """The search begins somewhere else: what was learned so far is of no use there."""

    @abstractmethod
    def new_episodes(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        """Learn on after further episodes at the same centre."""

    @abstractmethod
    def mean(self, neighbourhood: Neighbourhood) -> PriorMean:
        """The mean function at the points of a neighbourhood of the current centre."""

    @abstractmethod
    def metrics(self, model: Model, iteration: int) -> dict[str, Any]:
        """What to write down at the end of an outer iteration."""


class Prior(Part, ABC):
    """What is believed of J before the window's returns are looked at."""

    family: ClassVar[str] = "prior"

    @abstractmethod
    def start(self, space: PolicySpace, objective: Objective, seed: int, timed: Timed) -> PriorLearner:
        """A learner that knows nothing yet."""


@dataclass(frozen=True)
class ConstantPrior(Prior):
    """A constant, fitted with the other hyper-parameters (MPD, GIBO)."""

    bound: float = setting(1.0, "the constant mean is fitted in [−bound, bound] (in scaled returns)")

    def __post_init__(self) -> None:
        require(self.bound >= 0, "bound must not be negative")

    def start(self, space: PolicySpace, objective: Objective, seed: int, timed: Timed) -> PriorLearner:
        return _ConstantLearner(self.bound)


class _ConstantLearner(PriorLearner):
    replay_capacity = 0

    def __init__(self, bound: float) -> None:
        self.bound, self.memory = bound, NoMemory()

    @property
    def weights(self) -> Array | None:
        return None

    def new_centre(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None: ...

    def new_episodes(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None: ...

    def mean(self, neighbourhood: Neighbourhood) -> PriorMean:
        n, d = neighbourhood.points.shape
        return PriorMean(np.zeros(n), 0.0, np.zeros(d), mean_bound=self.bound)

    def metrics(self, model: Model, iteration: int) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class AdvantagePrior(Prior):
    """Ĵ(θ) plus the critics' expected advantage on the centre's states (the paper's m̂, Eq. (adv_mean))."""

    critics: CriticsPart = setting(Lstd(), "the ensemble of action-value functions of the centre")
    aggregation: Aggregation = setting(Softmax(), "how critics become one mean function (Eq. (weighting))")
    reset_worst: bool = setting(True, "give the worst critic new weights at a new centre")
    reset_only_negative: bool = setting(
        False, "reset the worst critic only when its R̃² is negative (the published guard)"
    )
    score_iterations: int = setting(3, "outer iterations whose points enter R̃²")

    def __post_init__(self) -> None:
        require(self.score_iterations >= 1, "score_iterations must be at least 1")

    def start(self, space: PolicySpace, objective: Objective, seed: int, timed: Timed) -> PriorLearner:
        return AdvantageLearner(self, space, objective, seed, timed)


@dataclass
class AdvantageMemory:
    """What an advantage learner remembers."""

    critics: Any
    scores: Array
    """R̃² of every critic (k,)."""
    weights: Array
    """w (k,), Eq. (weighting); chosen before the window's returns are looked at."""
    reset: int | None = None
    diverged: int = 0


class AdvantageLearner(PriorLearner):
    """Learns critics, scores and weighs them, and gives the advantage mean function."""

    def __init__(
        self, prior: AdvantagePrior, space: PolicySpace, objective: Objective, seed: int, timed: Timed
    ) -> None:
        self.prior, self.seed, self._timed = prior, seed, timed
        self.critics = prior.critics.make(space, objective, seed)
        self.replay_capacity = prior.critics.replay
        members = self.critics.members
        self._memory = AdvantageMemory(self.critics.memory, np.zeros(members), np.full(members, 1.0 / members))

    @property
    def memory(self) -> AdvantageMemory:  # type: ignore[override]
        """Scores, weights, and what the critics remember."""
        self._memory.critics = self.critics.memory
        return self._memory

    @memory.setter
    def memory(self, memory: AdvantageMemory) -> None:
        self._memory, self.critics.memory = memory, memory.critics

    @property
    def weights(self) -> Array | None:
        return self._memory.weights

    def new_centre(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        prior, memory = self.prior, self._memory
        memory.reset = None
        if prior.reset_worst and iteration > 0:
            memory.reset = worst_member(memory.scores, only_negative=prior.reset_only_negative)
        with self._timed("critics"):
            report = self.critics.start_centre(neighbourhood.centre, stored(replay), neighbourhood.scale, memory.reset)
        memory.diverged = len(report.diverged)
        self._score(neighbourhood, iteration)

    def new_episodes(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        with self._timed("critics"):
            report = self.critics.update(stored(replay))
        self._memory.diverged += len(report.diverged)
        self._score(neighbourhood, iteration)

    def mean(self, neighbourhood: Neighbourhood) -> PriorMean:
        """m̂ at the points, on the centre's states."""
        features = self.features(neighbourhood)
        return self.prior.aggregation.prior_mean(
            neighbourhood.centre_value, features, self.gradients(neighbourhood), self._memory.weights
        )

    def features(self, neighbourhood: Neighbourhood) -> Array:
        """Every critic's expected advantage of every point (n, k), on the centre's states."""
        near = neighbourhood
        return advantage_features(self.critics, near.centre, near.centre_visits, near.parameters)

    def gradients(self, neighbourhood: Neighbourhood) -> Array:
        """Their gradients at θ (d, k), in the chart."""
        raw = advantage_gradients(self.critics, neighbourhood.centre, neighbourhood.centre_visits)
        return neighbourhood.coordinates.gradients(raw.T).T

    def _score(self, neighbourhood: Neighbourhood, iteration: int) -> None:
        """R̃² over the points of the last outer iterations, and the weights that follow from it (Eqs. 11 and 12)."""
        recent = [p for p in neighbourhood.entries if p.iteration > iteration - self.prior.score_iterations]
        returns = np.array([point.value for point in recent]) / neighbourhood.scale
        with self._timed("mean"):
            visits = [visits_of(point) for point in recent]
            advantages = validation_advantages(self.critics, neighbourhood.centre, visits)
        self._memory.scores = scores(neighbourhood.centre_value, advantages, returns)
        self._memory.weights = self.prior.aggregation.weights(self._memory.scores)

    def metrics(self, model: Model, iteration: int) -> dict[str, Any]:
        memory = self._memory
        weights, gradient = model.weights(memory.weights), model.mean_gradient()
        near = model.neighbourhood
        probes = [k for k, p in enumerate(near.entries) if p.iteration == iteration and p.role == "probe"]
        test = None
        if len(probes) >= 2:
            predicted = near.centre_value + self.features(near)[probes] @ weights
            test = float(r2(predicted, near.returns[probes]))
        metrics = {
            "r2_validation": [float(score) for score in memory.scores],
            "r2_test": test,
            "weights": [float(weight) for weight in weights],
            "log_likelihood_constant": self._constant_likelihood(model, iteration),
            "mean_gradient_norm": float(np.linalg.norm(gradient)),
            "mean_gradient_cosine": cosine(gradient, model.posterior.mu),
            "critic_reset": memory.reset,
            "critics_diverged": memory.diverged,
        }
        if model.prior.features is not None:
            metrics["sigma_beta"] = model.posterior.hyper.feature_scale
        return metrics

    def _constant_likelihood(self, model: Model, iteration: int) -> float | None:
        """The log marginal likelihood of the same window without critics, under the constant mean Ĵ(θ)."""
        near = model.neighbourhood
        n, d = near.points.shape
        constant = PriorMean(np.full(n, near.centre_value), near.centre_value, np.zeros(d))
        with self._timed("diagnostics"):
            rng = generator(self.seed, "fit-constant", iteration)
            return model.gp.fit(near, constant, rng, model.hyper).log_marginal_likelihood


def stored(replay: Replay | None) -> Replay:
    if replay is None:
        raise RuntimeError("critics learn from a replay, and this search keeps none")
    return replay


def cosine(left: Array, right: Array) -> float | None:
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > 0 else None
