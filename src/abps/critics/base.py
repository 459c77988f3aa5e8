"""The contract of an ensemble of critics, and what both kinds share (paper Section 4, Algorithm 1).

Shapes: k members, m states, s observation size, a action size. A critic estimates Q of the *centre* policy θ in units
of scaled reward, (r − shift) / scale. Its inputs are standardised with statistics of the replay that are frozen at
every new centre, not with the policy's normaliser: tasks that run without one (InvertedPendulum, Swimmer) need scaled
inputs too.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.errors import ShapeError
from abps.policies.policy import Policy, PolicySpace
from abps.settings import Part
from abps.tasks.spec import TaskSpec

__all__ = ["Critics", "CriticsPart", "DirectAdvantages", "FitReport", "InputScale", "advantages", "mean_advantages"]
__all__ += ["value_differences"]

ROWS = 65_536
"""States per call of the critics: bounds the memory when all visited states are used."""
STILL = 1e-6
"""A sensor whose standard deviation in the replay is below this counts as constant and is only centred."""


class FitReport(NamedTuple):
    """What a call of `start_centre` or `update` did."""

    transitions: int
    """Transitions that were new to the critics."""
    steps: int
    """Gradient steps; 0 for critics in closed form."""
    diverged: tuple[int, ...]
    """Members whose weights were not finite or absurdly large, and were therefore initialised anew."""


@dataclass(frozen=True, eq=False)
class InputScale:
    """Maps states to standardised, clipped ones and actions to [−1, 1]."""

    mean: Array
    """(s,)"""
    std: Array
    """(s,)"""
    action_centre: Array
    """(a,)"""
    action_half: Array
    """(a,)"""
    clip: float
    """Standardised states are clipped at ± this; 0: not at all."""

    @classmethod
    def measure(cls, spec: TaskSpec, states: NDArray[np.floating], clip: float) -> "InputScale":
        """Freeze the statistics of (n, s) states."""
        if states.shape[0] == 0:
            raise ShapeError(
                "critics need at least one stored transition; append the centre's episodes to the replay first"
            )
        mean = states.mean(axis=0, dtype=np.float64)
        std = states.std(axis=0, dtype=np.float64)
        return cls.known(spec, mean, np.where(std < STILL, 1.0, std), clip)

    @classmethod
    def known(cls, spec: TaskSpec, mean: Array, std: Array, clip: float) -> "InputScale":
        """From statistics that were measured before."""
        return cls(mean, std, spec.action_centre, spec.action_half, float(clip))

    @property
    def spread(self) -> Array:
        """Nothing: only split inputs have one."""
        return np.zeros(0)

    @property
    def action_unit(self) -> Array:
        """(a,): the change of action that changes its input by one."""
        return self.action_half

    def __call__(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float64]:
        """`inputs` in float64; a feature map casts to its own precision."""
        return self.inputs(states, actions, np.float64)

    def inputs(
        self, states: NDArray[np.floating], actions: NDArray[np.floating], dtype: type[np.floating[Any]]
    ) -> NDArray[Any]:
        """Return (m, s + a) network inputs for (m, s) states and (m, a) actions."""
        if states.ndim != 2 or actions.ndim != 2 or states.shape[0] != actions.shape[0]:
            raise ShapeError(f"critics take (m, s) states and (m, a) actions, got {states.shape} and {actions.shape}")
        s, a = self.mean.size, self.action_half.size
        if (states.shape[1], actions.shape[1]) != (s, a):
            raise ShapeError(
                f"critics of {s} observations and {a} actions got {states.shape[1]} and {actions.shape[1]}"
            )
        inputs = np.empty((states.shape[0], s + a), dtype=dtype)
        np.divide(states - self.mean, self.std, out=inputs[:, :s], casting="same_kind")
        if self.clip > 0:
            np.clip(inputs[:, :s], -self.clip, self.clip, out=inputs[:, :s])
        np.divide(actions - self.action_centre, self.action_half, out=inputs[:, s:], casting="same_kind")
        return inputs


class Critics(ABC):
    """An ensemble of k estimates of the centre's action values; all of it is deterministic given the seed."""

    members: int
    """k"""
    memory: Any
    """A dataclass of arrays and scalars: everything that is needed to go on."""

    @abstractmethod
    def start_centre(self, centre: Policy, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        """Learn the action values of a new centre from the replay.

        All optimisers are reset and the input statistics measured anew; member `worst` gets new random weights.
        """

    @abstractmethod
    def update(self, replay: Replay) -> FitReport:
        """Learn on after new transitions were appended to the replay of the current centre."""

    @abstractmethod
    def q(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """Q_i(s, a) of every member for (m, s) states and (m, a) actions → (k, m)."""

    @abstractmethod
    def action_gradients(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """∇_a Q_i(s, a) of every member → (k, m, a)."""


@runtime_checkable
class DirectAdvantages(Protocol):
    """What critics may offer beside the contract: advantages that need no difference of two values."""

    def advantages(self, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """Q_i(s, a) − Q_i(s, π_θ(s)), for n actions at each of m states: (m, s), (n, m, a) → (k, n, m)."""
        ...

    def linearised_advantages(
        self, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]
    ) -> Array:
        """The same to first order in the departure from the centre's action, which is what m̂ takes of them."""
        ...


def advantages(critics: Critics, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
    """Q_i(s, a) − Q_i(s, π_θ(s)) of every member, for n actions at each of m states: (m, s), (n, m, a) → (k, n, m)."""
    if isinstance(critics, DirectAdvantages):
        return critics.advantages(centre, states, actions)
    return value_differences(critics, centre, states, actions)


def value_differences(
    critics: Critics, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]
) -> Array:
    """`advantages` as differences of values; shapes as there."""
    per_call = max(1, ROWS // max(len(states), 1))
    at_centre = critics.q(states, centre.actions(states))[:, None, :]
    values = np.empty((critics.members, *actions.shape[:2]))
    for start in range(0, len(actions), per_call):
        part = actions[start : start + per_call]
        rows = critics.q(np.tile(states, (len(part), 1)), part.reshape(-1, part.shape[2]))
        values[:, start : start + per_call] = rows.reshape(critics.members, *part.shape[:2])
    return values - at_centre


def mean_advantages(
    critics: Critics, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]
) -> Array:
    """What m̂ adds up of every member, with the same slope at the centre's actions; shapes as in `advantages`."""
    if isinstance(critics, DirectAdvantages):
        return critics.linearised_advantages(centre, states, actions)
    return advantages(critics, centre, states, actions)


class CriticsPart(Part, ABC):
    """Settings of an ensemble of critics, from which it is made."""

    family: ClassVar[str] = "critics"
    replay: int
    """Capacity of the replay ring that they learn from, in transitions."""

    @abstractmethod
    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Critics:
        """Untrained critics."""
