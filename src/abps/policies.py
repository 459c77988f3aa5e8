"""Deterministic policies: flat parameters ↔ actions, and their derivatives.

Shapes: d parameters, s observation size, a action size, m states. A *policy class* (`LinearTanh`) knows the map for every
parameter vector; a *policy* (`Policy`) is one parameter vector with the normaliser it was made for, ready to act.
A new class of policies implements `PolicyClass` and enters `POLICY_CLASSES`; nothing else in the project changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from abps.errors import ConfigError, ShapeError
from abps.normaliser import STD_FLOOR, Normaliser
from abps.npz import read_npz
from abps.tasks.spec import TaskSpec

__all__ = ["POLICY_CLASSES", "Direct", "LinearTanh", "Policy", "PolicyClass", "load_policy", "policy_class"]

Array = NDArray[np.float64]


class PolicyClass(ABC):
    """Maps parameters and observations to actions, for one task."""

    kind: str
    size: int
    """d: the number of parameters."""

    @abstractmethod
    def __init__(self, spec: TaskSpec) -> None: ...

    @abstractmethod
    def actions(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        """π(s) for m states, of one policy or of n: (d,) or (n, d), (m, s) → (m, a) or (n, m, a)."""

    @abstractmethod
    def pullback(
        self,
        parameters: Array,
        observations: NDArray[np.floating],
        normaliser: Normaliser,
        cotangents: NDArray[np.floating],
    ) -> Array:
        """Σ_m cotangent_m · ∂π(s_m)/∂parameters: (m, a) or (k, m, a) cotangents → (d,) or (k, d)."""

    @abstractmethod
    def controller(self, parameters: Array, normaliser: Normaliser) -> Callable[[NDArray[Any]], Array]:
        """A fast function from one observation (s,) to one action (a,), for the control loop."""

    @abstractmethod
    def rescaled(self, parameters: Array, old: Normaliser, new: Normaliser) -> Array:
        """Parameters that mean under `new` what `parameters` meant under `old`, as far as the class can express it."""


class _Linear(PolicyClass):
    """What policies share that are a function of W s̃, one row of W per action; abstract."""

    def __init__(self, spec: TaskSpec) -> None:
        self.low, self.high = np.array(spec.action_low), np.array(spec.action_high)
        self.centre = (self.high + self.low) / 2.0
        self.shape = (spec.action_dim, spec.observation_dim)
        self.size = spec.action_dim * spec.observation_dim

    @abstractmethod
    def _slopes(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        """∂π_j/∂(w_j·s̃) (m, a)."""

    def matrix(self, parameters: Array) -> Array:
        """W, the parameters as an (a, s) matrix, or of n policies (n, a, s)."""
        return _matrix(parameters, self.shape)

    def pullback(
        self,
        parameters: Array,
        observations: NDArray[np.floating],
        normaliser: Normaliser,
        cotangents: NDArray[np.floating],
    ) -> Array:
        slopes, states = self._slopes(parameters, observations, normaliser), normaliser.apply(observations)
        pulled = np.swapaxes(cotangents * slopes, -1, -2) @ states
        return pulled.reshape(*pulled.shape[:-2], self.size)

    def rescaled(self, parameters: Array, old: Normaliser, new: Normaliser) -> Array:
        # A sensor that had not moved has no scale to keep: its weight would grow by a factor of up to std / STD_FLOOR, for ever.
        factor = np.where(old.std > STD_FLOOR, new.std / old.std, 1.0)
        return (self.matrix(parameters) * factor).reshape(-1)


class LinearTanh(_Linear):
    """a = centre + half · tanh(W s̃), no bias, zero parameters at the start; s̃ the normalised observation."""

    kind = "linear-tanh"

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        self.half = (self.high - self.low) / 2.0

    def actions(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        weights = np.swapaxes(self.matrix(parameters), -1, -2)
        return self.centre + self.half * np.tanh(normaliser.apply(observations) @ weights)

    def _slopes(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        """∂π_j/∂(w_j·s̃) (m, a)."""
        squashed = np.tanh(normaliser.apply(observations) @ self.matrix(parameters).T)
        return self.half * (1.0 - np.square(squashed))

    def controller(self, parameters: Array, normaliser: Normaliser) -> Callable[[NDArray[Any]], Array]:
        gains = self.matrix(parameters) / normaliser.std
        offset = -gains @ normaliser.mean
        # The array's own method is quicker than np.dot, which first asks every argument whether it overrides it.
        centre, half, times, tanh = self.centre, self.half, gains.dot, np.tanh

        def act(observation: NDArray[Any]) -> Array:
            action = times(observation)  # In place from here on: these are the hottest lines of a rollout.
            action += offset
            tanh(action, action)
            action *= half
            action += centre
            return action

        return act


class Direct(_Linear):
    """a = centre + W s̃, clipped to the bounds: linear inside them, for tasks whose parameters or actions are the point.

    With symmetric bounds the centre is zero and a = W s̃ exactly, the linear policies of `tasks/lqr.py`; with a constant
    observation of one, the parameters are the action itself, seen from the middle of its box (`tasks/synthetic.py`).
    """

    kind = "direct"

    def actions(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        return np.clip(self._wanted(parameters, normaliser.apply(observations)), self.low, self.high)

    def _slopes(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        """∂π_j/∂(w_j·s̃) (m, a)."""
        wanted = self._wanted(parameters, normaliser.apply(observations))
        return ((wanted > self.low) & (wanted < self.high)).astype(np.float64)

    def controller(self, parameters: Array, normaliser: Normaliser) -> Callable[[NDArray[Any]], Array]:
        gains = self.matrix(parameters) / normaliser.std
        offset = self.centre - gains @ normaliser.mean
        low, high, maximum, minimum = self.low, self.high, np.maximum, np.minimum

        def act(observation: NDArray[Any]) -> Array:
            return minimum(maximum(gains @ observation + offset, low), high)

        return act

    def _wanted(self, parameters: Array, states: Array) -> Array:
        """The actions (m, a), or of n policies (n, m, a), before the bounds cut them off."""
        return self.centre + states @ np.swapaxes(self.matrix(parameters), -1, -2)


def _matrix(parameters: Array, shape: tuple[int, int]) -> Array:
    if parameters.ndim not in (1, 2) or parameters.shape[-1] != shape[0] * shape[1]:
        raise ShapeError(
            f"parameters have shape {parameters.shape}; this policy has {shape[0] * shape[1]} ({shape[0]} actions × {shape[1]} observations)"
        )
    return parameters.reshape(*parameters.shape[:-1], *shape)


POLICY_CLASSES: dict[str, type[PolicyClass]] = {LinearTanh.kind: LinearTanh, Direct.kind: Direct}


def policy_class(spec: TaskSpec) -> PolicyClass:
    """Return the policy class that `spec.policy` names.

    Raises:
        ConfigError: there is no such class.
    """
    if spec.policy not in POLICY_CLASSES:
        raise ConfigError(f"unknown policy {spec.policy!r}; known: {', '.join(POLICY_CLASSES)}")
    return POLICY_CLASSES[spec.policy](spec)


@dataclass(frozen=True, eq=False)
class Policy:
    """One deterministic policy: call it with an observation to get an action. Saved as `.npz`, readable with numpy alone."""

    spec: TaskSpec
    parameters: Array
    """(d,)"""
    normaliser: Normaliser
    act: Callable[[NDArray[Any]], Array] = field(init=False, repr=False)
    """The map from one observation (s,) to one action (a,), ready for a control loop."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "act", policy_class(self.spec).controller(self.parameters, self.normaliser))

    def __call__(self, observation: NDArray[Any]) -> Array:
        """Return the action (a,) for one observation (s,)."""
        return self.act(observation)

    def save(self, path: Path) -> None:
        """Write the policy as `.npz`."""
        with Path(path).open("wb") as file:
            self.write(file)

    def write(self, file: BinaryIO) -> None:
        """Write the policy as plain arrays, no pickle; docs/hardware.md shows how to act on it with numpy alone."""
        np.savez(file, **self.arrays())

    def arrays(self) -> dict[str, Any]:
        """Everything that acting needs, as named plain arrays."""
        return {
            "kind": np.array(self.spec.policy),
            "task": np.array(self.spec.name),
            "weights": self.parameters.reshape(self.spec.action_dim, -1),
            "observation_mean": self.normaliser.mean,
            "observation_std": self.normaliser.std,
            "observation_count": np.array(self.normaliser.count),
            "observation_m2": self.normaliser.m2,
            "action_low": np.array(self.spec.action_low),
            "action_high": np.array(self.spec.action_high),
        }


POLICY_ARRAYS = (
    "kind",
    "task",
    "weights",
    "observation_mean",
    "observation_count",
    "observation_m2",
    "action_low",
    "action_high",
)
MAX_PARAMETERS = 10_000_000
"""More numbers than any policy has; a file that claims more is refused before memory is reserved for it."""


def load_policy(path: Path) -> Policy:
    """Read what `Policy.save` wrote; nothing in the file is executed, every shape is checked.

    Raises:
        ConfigError: the file is missing or is no policy.
    """
    try:
        data = read_npz(path, dict.fromkeys(POLICY_ARRAYS, MAX_PARAMETERS), required=POLICY_ARRAYS)
        weights = np.asarray(data["weights"], dtype=np.float64)
        mean, m2 = (
            np.asarray(data["observation_mean"], dtype=np.float64),
            np.asarray(data["observation_m2"], dtype=np.float64),
        )
        low, high = data["action_low"], data["action_high"]
        if (
            weights.ndim != 2
            or mean.shape != (weights.shape[1],)
            or m2.shape != mean.shape
            or low.shape != (weights.shape[0],)
            or high.shape != low.shape
        ):
            raise ValueError(f"shapes do not fit: weights {weights.shape}, mean {mean.shape}, action_low {low.shape}")
        if str(data["kind"]) not in POLICY_CLASSES:
            raise ValueError(f"unknown policy kind {str(data['kind'])!r}")
        if not all(np.all(np.isfinite(part)) for part in (weights, mean, m2)) or np.any(m2 < 0.0):
            raise ValueError("a number is not finite, or a variance is negative")
        spec = TaskSpec(
            name=str(data["task"]),
            observation_dim=weights.shape[1],
            action_dim=weights.shape[0],
            action_low=tuple(float(x) for x in low),
            action_high=tuple(float(x) for x in high),
            policy=str(data["kind"]),
        )
        return Policy(spec, weights.reshape(-1), Normaliser(max(int(data["observation_count"]), 0), mean, m2))
    except FileNotFoundError as error:
        raise ConfigError(f"no policy file at {path}") from error
    except Exception as error:
        raise ConfigError(f"{path} is not a policy file of abps: {error}") from error
