"""Settings of the critics in closed form."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import Critics, CriticsPart, InputScale
from abps.critics.features import Features, QuadraticFeatures, ReluFeatures, draw_relu
from abps.critics.split import SplitFeatures, SplitInputs
from abps.data.objective import Objective
from abps.data.replay import Transitions
from abps.policies.policy import Policy, PolicySpace
from abps.settings import Part, require, setting
from abps.tasks.spec import TaskSpec

__all__ = ["FeatureMap", "Lstd", "Quadratic", "Relu", "Split"]


class FeatureMap(Part, ABC):
    """How a state and an action become the features that Q is linear in."""

    family: ClassVar[str] = "features"
    splits: ClassVar[bool] = False
    """Whether Q = V(s) + A(s, u) with u the departure from the centre's action, so that advantages need no value."""

    @abstractmethod
    def measure(self, spec: TaskSpec, centre: Policy, data: Transitions, clip: float) -> InputScale | SplitInputs:
        """Freeze the statistics of the data under a centre: the map from (s, a) to the features' inputs."""

    @abstractmethod
    def draw(self, spec: TaskSpec, group: int, rng: np.random.Generator) -> Features:
        """The features of a group, freshly drawn."""

    @abstractmethod
    def known(self, spec: TaskSpec, group: int, matrix: NDArray[np.float32]) -> Features:
        """The features of a group that was drawn before; `matrix` are their random numbers."""

    @abstractmethod
    def encoder(self, scale: InputScale, centre: Policy, spread: Array) -> InputScale | SplitInputs:
        """The map that `measure` made, from its statistics."""

    @abstractmethod
    def weighted(self, spec: TaskSpec, inputs: NDArray[np.floating], weights: Array) -> Array:
        """Weights of equations (n,), less for rows of inputs that are far from the centre's action."""


@dataclass(frozen=True)
class Split(FeatureMap):
    """A value of the state, plus an advantage quadratic in the departure from the centre's action."""

    splits: ClassVar[bool] = True
    size: int = setting(512, "random ReLU features of the state's value")
    bias: float = setting(1.0, "std of the random features' biases")
    layer_norm: bool = setting(False, "layer-normalise the random features")
    value_ridges: tuple[float, ...] = setting((0.001,), "ridge strengths of the state's value, cycled over the groups")
    quadratic_ridge: float = setting(
        0.5, "ridge strength of the products of departures, the advantage's quadratic terms; 0 leaves them out"
    )
    off_policy_scale: float = setting(
        0.3, "the equation of a step counts 1/(1 + u²/this), u² its mean squared departure in std; 0: all alike"
    )
    action_clip: float = setting(3.0, "departures from the centre's action are clipped at ± this many std")

    def __post_init__(self) -> None:
        require(self.size >= 1, "features.size must be at least 1")
        require(len(self.value_ridges) >= 1 and min(self.value_ridges) > 0, "value_ridges must be positive numbers")
        require(
            self.quadratic_ridge >= 0 and self.off_policy_scale >= 0,
            "quadratic_ridge and off_policy_scale must not be negative",
        )
        require(self.action_clip > 0 and self.bias >= 0, "need action_clip > 0 and bias >= 0")

    def measure(self, spec: TaskSpec, centre: Policy, data: Transitions, clip: float) -> InputScale | SplitInputs:
        return SplitInputs.measure(spec, centre, data, clip, self.action_clip)

    def draw(self, spec: TaskSpec, group: int, rng: np.random.Generator) -> Features:
        return self._split(spec, group, draw_relu(spec.observation_dim, self.size, self.bias, self.layer_norm, rng))

    def known(self, spec: TaskSpec, group: int, matrix: NDArray[np.float32]) -> Features:
        return self._split(spec, group, ReluFeatures(matrix, self.layer_norm))

    def encoder(self, scale: InputScale, centre: Policy, spread: Array) -> InputScale | SplitInputs:
        return SplitInputs(scale, centre, spread, self.action_clip)

    def weighted(self, spec: TaskSpec, inputs: NDArray[np.floating], weights: Array) -> Array:
        if self.off_policy_scale == 0:
            return weights
        departures = inputs[:, spec.observation_dim :].astype(np.float64)
        return weights / (1 + np.square(departures).mean(axis=1) / self.off_policy_scale)

    def _split(self, spec: TaskSpec, group: int, value: ReluFeatures) -> SplitFeatures:
        ridge = self.value_ridges[group % len(self.value_ridges)]
        return SplitFeatures(value, spec.observation_dim, spec.action_dim, ridge, self.quadratic_ridge)


@dataclass(frozen=True)
class Relu(FeatureMap):
    """Random ReLU features of state and action together."""

    size: int = setting(512, "random ReLU features")
    bias: float = setting(1.0, "std of the random features' biases")
    layer_norm: bool = setting(False, "layer-normalise the random features")

    def __post_init__(self) -> None:
        require(self.size >= 1 and self.bias >= 0, "need size >= 1 and bias >= 0")

    def measure(self, spec: TaskSpec, centre: Policy, data: Transitions, clip: float) -> InputScale | SplitInputs:
        return InputScale.measure(spec, data.states, clip)

    def draw(self, spec: TaskSpec, group: int, rng: np.random.Generator) -> Features:
        return draw_relu(spec.observation_dim + spec.action_dim, self.size, self.bias, self.layer_norm, rng)

    def known(self, spec: TaskSpec, group: int, matrix: NDArray[np.float32]) -> Features:
        return ReluFeatures(matrix, self.layer_norm)

    def encoder(self, scale: InputScale, centre: Policy, spread: Array) -> InputScale | SplitInputs:
        return scale

    def weighted(self, spec: TaskSpec, inputs: NDArray[np.floating], weights: Array) -> Array:
        return weights


@dataclass(frozen=True)
class Quadratic(FeatureMap):
    """All monomials of state and action up to degree two: exact for linear-quadratic tasks."""

    def measure(self, spec: TaskSpec, centre: Policy, data: Transitions, clip: float) -> InputScale | SplitInputs:
        return InputScale.measure(spec, data.states, clip)

    def draw(self, spec: TaskSpec, group: int, rng: np.random.Generator) -> Features:
        return QuadraticFeatures(spec.observation_dim + spec.action_dim)

    def known(self, spec: TaskSpec, group: int, matrix: NDArray[np.float32]) -> Features:
        return QuadraticFeatures(spec.observation_dim + spec.action_dim)

    def encoder(self, scale: InputScale, centre: Policy, spread: Array) -> InputScale | SplitInputs:
        return scale

    def weighted(self, spec: TaskSpec, inputs: NDArray[np.floating], weights: Array) -> Array:
        return weights


@dataclass(frozen=True)
class Lstd(CriticsPart):
    """Least-squares temporal differences over fixed features: solved, not iterated."""

    members: int = setting(4, "n: critics in the ensemble")
    replay: int = setting(1_000_000, "capacity of the replay ring in transitions")
    transitions: int = setting(20_000, "at most so many of the newest transitions are used")
    features: FeatureMap = setting(Split(), "features of state and action")
    groups: int = setting(
        2, "independent draws of random features, at most one per critic; members of a group differ in the ridge only"
    )
    ridges: tuple[float, ...] = setting((1.0, 3.0), "ridge strengths, cycled over the members")
    traces: tuple[float, ...] = setting(
        (0.8, 0.0), "λ of the eligibility traces, LSTD(λ), cycled over the groups; 0: one-step targets"
    )
    discount_cut: float = setting(
        0.05, "only the steps t of an episode with γᵗ above this are used, of more episodes therefore; 0: all"
    )
    discount_weight: float = setting(
        1.0, "the equation of step t of an episode counts γ^(t times this), as the step does in J; 0: all alike"
    )
    clip: float = setting(5.0, "standardised observations are clipped at ± this; 0: never")

    def __post_init__(self) -> None:
        for name in ("members", "replay", "transitions", "groups"):
            require(getattr(self, name) >= 1, f"critics.{name} must be at least 1")
        require(
            len(self.traces) >= 1 and all(0 <= trace <= 1 for trace in self.traces),
            "critics.traces must be numbers in [0, 1]",
        )
        require(len(self.ridges) >= 1 and min(self.ridges) > 0, "critics.ridges must be positive numbers")
        require(self.discount_weight >= 0, "critics.discount_weight must not be negative")
        require(0 <= self.discount_cut < 1, "critics.discount_cut must be in [0, 1)")
        require(self.clip >= 0, "critics.clip must not be negative")

    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Critics:
        from abps.critics.closed_form import ClosedFormCritics

        return ClosedFormCritics(self, space, objective, seed)
