"""The contract of an ensemble of critics, and what both kinds share (paper Section 4, Algorithm 1).

Shapes: k members, m states, s observation size, a action size. A critic estimates Q of the *centre* policy θ in units of
scaled reward, (r − shift) / scale. Its inputs are standardised with statistics of the replay that are frozen at every new
centre, not with the policy's normaliser: tasks that run without one (InvertedPendulum, Swimmer) need scaled inputs too.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.config import CriticsConfig
from abps.data.replay import Replay
from abps.errors import ShapeError
from abps.normaliser import Normaliser
from abps.policies import PolicyClass
from abps.tasks.spec import TaskSpec

__all__ = ["Centre", "Critics", "FitReport", "InputScale"]

Array = NDArray[np.float64]

ROWS = 65_536
"""States per call of the critics: bounds the memory when all visited states are used."""
STILL = 1e-6
"""A sensor whose standard deviation in the replay is below this counts as constant and is only centred."""


@dataclass(frozen=True, eq=False)
class Centre:
    """The policy π_θ whose action values are learned."""

    policy_class: PolicyClass
    parameters: Array
    """θ (d,)"""
    normaliser: Normaliser

    def actions(self, states: NDArray[np.floating]) -> Array:
        """π_θ(s) for m states: (m, s) → (m, a)."""
        return self.policy_class.actions(self.parameters, states, self.normaliser)

    def state(self) -> dict[str, Any]:
        """The centre as arrays; the policy class is known from the task."""
        n = self.normaliser
        return {"parameters": self.parameters, "count": int(n.count), "mean": n.mean, "m2": n.m2}

    @classmethod
    def from_state(cls, policy_class: PolicyClass, state: dict[str, Any]) -> "Centre":
        """Rebuild what `state` returned."""
        mean, m2 = (np.array(state[name], dtype=np.float64) for name in ("mean", "m2"))
        parameters = np.array(state["parameters"], dtype=np.float64)
        return cls(policy_class, parameters, Normaliser(int(state["count"]), mean, m2))


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
        low, high = np.array(spec.action_low), np.array(spec.action_high)
        return cls(mean, np.where(std < STILL, 1.0, std), (high + low) / 2, (high - low) / 2, float(clip))

    @property
    def action_unit(self) -> Array:
        """(a,): the change of action that changes its input by one."""
        return self.action_half

    def __call__(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float64]:
        """`inputs` in float64; a feature map casts to its own precision."""
        return self.inputs(states, actions, np.float64)

    def inputs(self, states: NDArray[np.floating], actions: NDArray[np.floating], dtype: type) -> NDArray[Any]:
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

    def state(self) -> dict[str, Any]:
        """The statistics as arrays; action bounds and clip come from spec and config."""
        return {"mean": self.mean, "std": self.std}

    @classmethod
    def from_state(cls, spec: TaskSpec, state: dict[str, Any], clip: float) -> "InputScale":
        """Rebuild what `state` returned."""
        low, high = np.array(spec.action_low), np.array(spec.action_high)
        mean, std = (np.array(state[name], dtype=np.float64) for name in ("mean", "std"))
        return cls(mean, std, (high + low) / 2, (high - low) / 2, float(clip))


class Critics(ABC):
    """An ensemble of k estimates of the centre's action values; all of it is deterministic given the seed."""

    config: CriticsConfig
    members: int
    """k"""

    @abstractmethod
    def __init__(self, config: CriticsConfig, spec: TaskSpec, policy_class: PolicyClass, seed: int) -> None: ...

    @abstractmethod
    def start_centre(self, centre: Centre, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
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

    def advantages(self, centre: Centre, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """Q_i(s, a) − Q_i(s, π_θ(s)) of every member, for n actions at each of m states: (m, s), (n, m, a) → (k, n, m)."""
        per_call = max(1, ROWS // max(len(states), 1))
        at_centre = self.q(states, centre.actions(states))[:, None, :]
        values = np.empty((self.members, *actions.shape[:2]))
        for start in range(0, len(actions), per_call):
            part = actions[start : start + per_call]
            rows = self.q(np.tile(states, (len(part), 1)), part.reshape(-1, part.shape[2]))
            values[:, start : start + per_call] = rows.reshape(self.members, *part.shape[:2])
        return values - at_centre

    def promised(self, centre: Centre, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """What m̂ adds up of every member, shapes as in `advantages`, with the same slope at the centre's actions: the advantages themselves by default."""
        return self.advantages(centre, states, actions)

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything needed to go on, as nested dicts of arrays and scalars; loads back bit for bit."""

    @abstractmethod
    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned, on critics made with the same arguments."""
