"""A prior mean from a learned model of the task (after Wilson, Fern & Tadepalli 2014).

Transitions and rewards are fitted from the replay (`dynamics.py`); the return m(θ) of a policy in the model
(`simulation.py`) becomes a part of the mean of J,

    J(x) = (what another prior says) + β·(m(x) − m(θ)),    β ≈ β̂ ∈ [0, 1],

so that with a constant beside it the mean is (1 − β)·constant + β·m, up to the constant that is fitted anyway. β̂ has
the largest marginal likelihood of the window (`model_weight`), with a wide prior around `trust` for windows that say
nothing. A model that returns contradict gets weight zero: it is not there at all. Shapes: n points, d parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abps.arrays import Array
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.model.ascent_prior import LARGEST_SLOPE
from abps.model.dynamics import Capacity, Dynamics, fit_dynamics
from abps.model.gp import Model, PriorMean
from abps.model.kernel import Kernel, SquaredExponential
from abps.model.linalg import cholesky, squared_distances
from abps.model.neighbourhood import Neighbourhood
from abps.model.posterior import Features
from abps.model.prior import ConstantPrior, Prior, PriorLearner, Timed, cosine, stored
from abps.model.simulation import Episodes, simulated_gradients, simulated_returns
from abps.policies.policy import PolicySpace
from abps.seeding import generator
from abps.settings import replace, require, setting

__all__ = ["ModelBasedLearner", "ModelBasedPrior", "model_weight"]

LENGTHSCALES = (0.5, 1.0, 2.0)
"""Lengthscales among which the weight is looked for, in median distances of the window's points."""
NOISE_SHARES = (0.03, 0.3, 3.0)
"""σ_n²/σ_f², likewise."""
WEIGHTS = np.linspace(0.0, 1.0, 21)
LONGEST = 2.0
"""Gradients of single starts are cut to so many medians of their lengths."""
SMALLEST = 1e-12


@dataclass(frozen=True)
class ModelBasedPrior(Prior):
    """The return in a learned model of the task, weighed by the marginal likelihood, beside another prior."""

    beside: Prior = setting(ConstantPrior(np.inf), "the prior that the model's return is added to")
    trust: float = setting(1.0, "β: weight of the model's return where the window says nothing about it")
    trust_spread: float = setting(0.7, "standard deviation of β around it; a wide one leaves all to the returns")
    weight_spread: float = setting(0.5, "standard deviation of β that the process keeps, relative to what was found")
    starts: int = setting(8, "recorded start states that simulated episodes begin from, the newest")
    steps: int = setting(500, "steps of a simulated episode, at most")
    cosines: int = setting(100, "random features of the model, at most")
    per_feature: int = setting(5, "transitions that every feature of the model needs")
    lengthscale: float = setting(1.0, "of the random features, in standard deviations of the inputs times √i")
    transitions: int = setting(6000, "newest transitions that the model is fitted to")

    def __post_init__(self) -> None:
        require(0 <= self.trust <= 1 and self.trust_spread > 0, "need 0 <= trust <= 1 and trust_spread > 0")
        require(self.weight_spread > 0 and self.lengthscale > 0, "weight_spread and lengthscale must be positive")
        require(self.starts >= 1 and self.steps >= 1, "starts and steps must be at least 1")
        require(self.cosines >= 0 and self.per_feature >= 1, "need cosines >= 0 and per_feature >= 1")
        require(self.transitions >= 2, "transitions must be at least 2")

    def start(self, space: PolicySpace, objective: Objective, seed: int, timed: Timed) -> PriorLearner:
        return ModelBasedLearner(self, space, objective, seed, timed)


@dataclass
class ModelBasedMemory:
    """What a model-based learner remembers."""

    beside: Any = None
    dynamics: Dynamics | None = None
    starts: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """(m, s)"""
    weight: float = 0.0
    """β̂"""
    slope: float = 0.0
    """Length of ∇m in the chart, in scaled returns."""


class ModelBasedLearner(PriorLearner):
    """Fits the model after every told stage, and adds its returns to another prior's mean."""

    def __init__(
        self, prior: ModelBasedPrior, space: PolicySpace, objective: Objective, seed: int, timed: Timed
    ) -> None:
        self.prior, self.space, self.objective, self.seed, self._timed = prior, space, objective, seed, timed
        self.beside = prior.beside.start(space, objective, seed, timed)
        self.replay_capacity = max(self.beside.replay_capacity, prior.transitions)
        self._memory = ModelBasedMemory()

    @property
    def memory(self) -> ModelBasedMemory:  # type: ignore[override]
        """The model, and what the prior beside it remembers."""
        self._memory.beside = self.beside.memory
        return self._memory

    @memory.setter
    def memory(self, memory: ModelBasedMemory) -> None:
        self._memory, self.beside.memory = memory, memory.beside

    @property
    def weights(self) -> Array | None:
        return self.beside.weights

    def new_centre(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        self.beside.new_centre(neighbourhood, replay, iteration)
        self._fit(replay)

    def new_episodes(self, neighbourhood: Neighbourhood, replay: Replay | None, iteration: int) -> None:
        self.beside.new_episodes(neighbourhood, replay, iteration)
        self._fit(replay)

    def _fit(self, replay: Replay | None) -> None:
        prior, data = self.prior, stored(replay).newest(self.prior.transitions)
        with self._timed("dynamics"):
            capacity = Capacity(prior.cosines, prior.per_feature, prior.lengthscale)
            rng = generator(self.seed, "dynamics")
            self._memory.dynamics = fit_dynamics(data, self.space.spec, capacity, rng)
        first = np.concatenate([[len(data.last) == stored(replay).total], data.last[:-1]])
        found = data.states[first] if first.any() else data.states[:1]
        self._memory.starts = found[-prior.starts :].astype(np.float64)

    def mean(self, neighbourhood: Neighbourhood) -> PriorMean:
        near, prior, memory = neighbourhood, self.prior, self._memory
        other = self.beside.mean(near)
        if memory.dynamics is None:
            return other
        value, gradient = self.slope(near)
        values = self.returns(near, near.parameters) - value
        trust = prior.trust, prior.trust_spread
        memory.weight = model_weight(near.points, near.returns - _at_points(other), values, trust)
        memory.slope = float(np.linalg.norm(gradient))
        largest = LARGEST_SLOPE * float(np.std(near.returns))
        gradient = gradient * min(1.0, largest / max(memory.slope, SMALLEST))
        # The weights of features have prior std one: what differs in size is put into the feature.
        unit = max(prior.weight_spread * memory.weight, SMALLEST)
        feature = Features((unit * values)[:, None], (unit * gradient)[:, None], np.array([memory.weight / unit]))

        def known(points: Array) -> Array:
            return unit * (self.returns(near, near.coordinates.to_parameters(points)) - value)[:, None]

        return _with_feature(other, feature, known, near.theta)

    def returns(self, near: Neighbourhood, parameters: Array) -> Array:
        """m of policies (n, d) → (n,), in scaled returns; each is simulated once, however often it is there."""
        unique, place = np.unique(parameters, axis=0, return_inverse=True)
        with self._timed("simulation"):
            found = simulated_returns(self._dynamics, self.space, unique, near.centre.normaliser, self._episodes)
        return found[place.ravel()] / near.scale

    def slope(self, near: Neighbourhood) -> tuple[float, Array]:
        """m(θ), and ∇m(θ) (d,) in the chart, in scaled returns."""
        with self._timed("simulation"):
            values, gradients = simulated_gradients(self._dynamics, near.centre, self._episodes)
        return float(values.mean()) / near.scale, _robust_mean(near.coordinates.gradients(gradients)) / near.scale

    @property
    def _dynamics(self) -> Dynamics:
        if self._memory.dynamics is None:
            raise RuntimeError("the model is used before it was fitted")
        return self._memory.dynamics

    @property
    def _episodes(self) -> Episodes:
        steps = min(self.prior.steps, self.space.spec.horizon)
        return Episodes(self._memory.starts, steps, self.objective.gamma, self.objective.shift)

    def metrics(self, model: Model, iteration: int) -> dict[str, Any]:
        memory, near = self._memory, model.neighbourhood
        own = replace(model, prior=self.beside.mean(near), log_marginal_likelihood=None)
        features, scores = model.prior.features, np.zeros(2) if memory.dynamics is None else memory.dynamics.scores
        return {
            **self.beside.metrics(own, iteration),
            "model_weight": memory.weight,
            "model_slope": memory.slope,
            "model_r2": float(np.mean(scores[:-1])),
            "model_r2_reward": float(scores[-1]),
            "model_gradient_cosine": None if features is None else cosine(features.gradient[:, -1], model.posterior.mu),
        }


def model_weight(
    points: Array, returns: Array, values: Array, trust: tuple[float, float], kernel: Kernel | None = None
) -> float:
    """β ∈ [0, 1] of largest marginal likelihood of returns (n,) = constant + β·values + process + noise.

    Constant and signal variance are integrated and maximised in closed form, the lengthscale and the share of noise are
    looked for on a grid. `trust` is mean and standard deviation of a Gaussian prior of β.
    """
    distances = squared_distances(points)
    typical = float(np.median(distances[distances > SMALLEST])) if (distances > SMALLEST).any() else 1.0
    n, best = len(returns), (-np.inf, trust[0])
    prior = -0.5 * np.square((WEIGHTS - trust[0]) / trust[1])
    if n < 3 or float(np.ptp(values)) <= SMALLEST or float(np.ptp(returns)) <= SMALLEST:
        return trust[0]
    for length in LENGTHSCALES:
        gram = (kernel or SquaredExponential()).profile(distances / (length**2 * typical)).value
        for noise in NOISE_SHARES:
            factor = cholesky(gram + noise * np.eye(n))
            ones, y, f = factor.whiten(np.column_stack([np.ones(n), returns, values])).T
            unit = ones / np.linalg.norm(ones)
            y, f = y - unit * (unit @ y), f - unit * (unit @ f)
            squares = np.maximum(y @ y - 2.0 * WEIGHTS * (y @ f) + WEIGHTS**2 * (f @ f), SMALLEST * (y @ y))
            determinant = factor.log_determinant() + 2.0 * np.log(np.linalg.norm(ones))
            likelihood = -0.5 * ((n - 1) * np.log(squares) + determinant) + prior
            place = int(np.argmax(likelihood))
            if likelihood[place] > best[0]:
                best = (float(likelihood[place]), float(WEIGHTS[place]))
    return best[1]


def _robust_mean(gradients: Array) -> Array:
    """Mean of gradients (m, d), none longer than the median times `LONGEST`: one start where a model blows up may not
    speak for all."""
    lengths = np.linalg.norm(gradients, axis=1)
    longest = LONGEST * float(np.median(lengths))
    return (gradients * np.minimum(1.0, longest / np.maximum(lengths, SMALLEST))[:, None]).mean(axis=0)


def _at_points(prior: PriorMean) -> Array:
    """What a prior mean says at the points (n,), its features at their prior weights."""
    features = prior.features
    if features is None:
        return prior.at_points
    return prior.at_points + features.values @ _weights(features)


def _weights(features: Features) -> Array:
    """β₀ (k,)"""
    return np.broadcast_to(np.asarray(features.prior, dtype=np.float64), (features.values.shape[1],))


def _with_feature(prior: PriorMean, feature: Features, known: Callable[[Array], Array], theta: Array) -> PriorMean:
    """A prior mean with one more linear feature, which `known` gives at any points."""
    old = prior.features
    if old is None:
        return prior._replace(features=feature, feature_scale=(1.0, 1.0), features_at=known)
    features = Features(
        np.hstack([old.values, feature.values]),
        np.hstack([old.gradient, feature.gradient]),
        np.append(_weights(old), feature.prior),
    )

    def both(points: Array) -> Array:
        others = (points - theta) @ old.gradient if prior.features_at is None else prior.features_at(points)
        return np.hstack([others, known(points)])

    return prior._replace(features=features, features_at=both)
