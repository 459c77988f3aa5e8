"""The prior of the fast ABS: a slope along the direction in which an ensemble of critics expects J to rise.

Every critic's gradient of the advantage mean (the deterministic policy gradient on recent states) is taken in the
chart, where it is the natural gradient, and divided by its length: members of unlike reach have unlike units, and what
they agree on counts. Their mean is the direction v, its length between 0 and 1 their agreement. The prior of J in the
chart is then

    J(z) = constant + β·(v·z),    β ~ N(β₀, (share·β₀)²),    β₀ from the critics' own size, times their agreement,

with the weight β left to the process. Two more linear terms take noise out of the returns: the critics' value of an
episode's start state (tasks with random starts or goals), and an offset of path episodes, which ran beside the centre.
Shapes: n points, d parameters, k critics.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import CriticsPart
from abps.critics.episodic import EpisodicLstd
from abps.critics.improvement import Improvement, TwinNetworks
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.model.advantage import advantage_gradients
from abps.model.gp import Model, PriorMean
from abps.model.neighbourhood import Neighbourhood, visits_of
from abps.model.posterior import Features
from abps.model.prior import Prior, PriorLearner, Timed, cosine, stored
from abps.policies.policy import PolicySpace
from abps.settings import require, setting

__all__ = ["Ascent", "AscentLearner", "AscentPrior", "StateValues"]

LARGEST_SLOPE = 5.0
"""The slope that is believed beforehand is at most so many spreads of the window's returns per unit of action."""
SMALLEST = 1e-12


@runtime_checkable
class StateValues(Protocol):
    """What critics may offer beside the contract: values of states, which serve as control variates."""

    def values(self, states: NDArray[np.floating]) -> Array:
        """V_i(s) of every member (k, m), in scaled rewards."""
        ...


class Ascent(NamedTuple):
    """What the critics say about the gradient at a centre, in the chart."""

    direction: Array
    """v (d,), of length one; zero where no member has a gradient."""
    agreement: float
    """Length of the mean of the members' unit gradients: 1 when all point the same way."""
    slope: float
    """Rise of J along v per unit of the chart, in scaled returns."""


@dataclass(frozen=True)
class AscentPrior(Prior):
    """A slope along the critics' direction of ascent; how steep it is, the returns decide."""

    critics: CriticsPart = setting(EpisodicLstd(), "the ensemble of action-value functions of the centre")
    improvement: Improvement = setting(TwinNetworks(), "how far stored data carry the policy between two episodes")
    slope_share: float = setting(1.0, "share of the critics' own slope that is believed beforehand")
    slope_spread: float = setting(1.0, "prior standard deviation of the slope, relative to what is believed")
    start_spread: float = setting(0.7, "prior std of the start values' weight, in spreads of the returns; 0: not used")
    path_spread: float = setting(0.45, "prior std of the offset of path episodes, in spreads of the returns; 0: none")

    def __post_init__(self) -> None:
        require(self.slope_share >= 0 and self.slope_spread > 0, "need slope_share >= 0 and slope_spread > 0")
        require(self.start_spread >= 0 and self.path_spread >= 0, "spreads must not be negative")

    def start(self, space: PolicySpace, objective: Objective, seed: int, timed: Timed) -> PriorLearner:
        return AscentLearner(self, space, objective, seed, timed)


@dataclass
class AscentMemory:
    """What an ascent learner remembers."""

    critics: Any = None
    diverged: int = 0
    agreement: float = 0.0
    slope: float = 0.0
    target: Array | None = None
    """Parameters (d,) that the improver went to from the centre."""
    improver: Any = None


class AscentLearner(PriorLearner):
    """Fits the critics at every centre, and gives the prior mean along their direction."""

    def __init__(self, prior: AscentPrior, space: PolicySpace, objective: Objective, seed: int, timed: Timed) -> None:
        self.prior, self._timed = prior, timed
        self.critics = prior.critics.make(space, objective, seed)
        self.improver = prior.improvement.make(space, objective, seed)
        self.replay_capacity = prior.critics.replay
        self._memory = AscentMemory()

    @property
    def memory(self) -> AscentMemory:  # type: ignore[override]
        """What the critics remember, and the last direction's diagnostics."""
        self._memory.critics, self._memory.improver = self.critics.memory, self.improver.memory
        return self._memory

    @memory.setter
    def memory(self, memory: AscentMemory) -> None:
        self._memory, self.critics.memory, self.improver.memory = memory, memory.critics, memory.improver

    @property
    def weights(self) -> Array | None:
        return None

    def new_centre(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        with self._timed("improvement"):
            self._memory.target = self._improved(neighbourhood, stored(replay))
        self._fit_critics(neighbourhood, replay)

    def gone_back(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        """See `PriorLearner.gone_back`: the networks' way led to something worse, so the gradient is followed."""
        self._memory.target = None
        self._fit_critics(neighbourhood, replay)

    def begin_anew(self, replay: Replay | None) -> None:
        """See `PriorLearner.begin_anew`: the improver would lead the new attempt where the last one ended."""
        self.improver.begin_anew(stored(replay))

    def _fit_critics(self, near: Neighbourhood, replay: Replay | None) -> None:
        with self._timed("critics"):
            report = self.critics.start_centre(near.centre, stored(replay), near.scale)
        self._memory.diverged = len(report.diverged)

    def _improved(self, near: Neighbourhood, replay: Replay) -> Array | None:
        """Where the improver goes from the centre (d,), in parameters."""
        chart = near.coordinates

        def natural(gradient: Array) -> Array | None:
            move = chart.gradients(gradient)
            norm = float(np.linalg.norm(move))
            return chart.to_parameters(chart.centre + move / norm) - near.centre.parameters if norm > SMALLEST else None

        return self.improver.improve(near.centre, replay, natural)

    def new_episodes(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        with self._timed("critics"):
            report = self.critics.update(stored(replay))
        self._memory.diverged += len(report.diverged)

    def ascent(self, neighbourhood: Neighbourhood) -> Ascent:
        """The mean of the members' unit gradients in the chart, on the states of recent episodes."""
        visits = neighbourhood.recent_visits
        if visits is None:
            raise RuntimeError("the ascent prior needs the visited states of points; keep them (states)")
        raw = advantage_gradients(self.critics, neighbourhood.centre, visits)
        gradients = neighbourhood.coordinates.gradients(raw.T)  # (k, d)
        lengths = np.linalg.norm(gradients, axis=1)
        units = gradients / np.maximum(lengths, SMALLEST)[:, None]
        total = units.mean(axis=0)
        agreement = float(np.linalg.norm(total))
        slope = float(np.linalg.norm(gradients.mean(axis=0))) * agreement
        return Ascent(total / max(agreement, SMALLEST), agreement, slope)

    def mean(self, neighbourhood: Neighbourhood) -> PriorMean:
        prior, near = self.prior, neighbourhood
        target = None if self._memory.target is None else near.coordinates.to_chart(self._memory.target)
        ascent = self.ascent(near)
        if target is not None:
            move = target - near.theta
            ascent = ascent._replace(direction=move / max(float(np.linalg.norm(move)), SMALLEST))
        self._memory.agreement, self._memory.slope = ascent.agreement, ascent.slope
        spread = max(float(np.std(near.returns)), SMALLEST)
        slope = min(prior.slope_share * ascent.slope, LARGEST_SLOPE * spread)
        offsets = near.points - near.theta
        # The weights have prior std one: what differs in size is put into the features.
        unit = max(prior.slope_spread * slope, SMALLEST)
        columns = [unit * (offsets @ ascent.direction), *self._control_variates(near, spread)]
        gradient = np.zeros((len(near.theta), len(columns)))
        gradient[:, 0] = unit * ascent.direction
        weights = np.zeros(len(columns))
        weights[0] = slope / unit
        features = Features(np.column_stack(columns), gradient, weights)
        n, d = near.points.shape
        constant = PriorMean(np.zeros(n), 0.0, np.zeros(d), features, mean_bound=np.inf, feature_scale=(1.0, 1.0))
        return constant._replace(target=target)

    def _control_variates(self, near: Neighbourhood, spread: float) -> list[Array]:
        """Known parts of the returns' noise (n,): values of start states, and whether an episode moved along a path."""
        prior, columns = self.prior, []
        if prior.start_spread > 0 and isinstance(self.critics, StateValues):
            starts = np.stack([visits_of(p).states[0] if p.start is None else p.start for p in near.entries])
            values = self.critics.values(starts).mean(axis=0)
            deviation = float(values.std())
            if deviation > 0:
                columns.append(prior.start_spread * spread * (values - values.mean()) / deviation)
        paths = np.array([float(point.role == "path") for point in near.entries])
        if prior.path_spread > 0 and paths.any():
            columns.append(prior.path_spread * spread * paths)
        return columns

    def metrics(self, model: Model, iteration: int) -> dict[str, Any]:
        gradient = model.prior.slope()
        return {
            "critics_agreement": self._memory.agreement,
            "critics_slope": self._memory.slope,
            "critics_diverged": self._memory.diverged,
            "mean_gradient_norm": float(np.linalg.norm(gradient)),
            "mean_gradient_cosine": cosine(gradient, model.posterior.mu),
        }
