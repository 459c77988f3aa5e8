"""One deterministic policy, the space it comes from, and its file.

Shapes: d parameters, n policies, m states, s observation size, a action size. A policy file is an `.npz` of plain
arrays; docs/hardware.md shows how to act on it with numpy alone.
"""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.normaliser import STD_FLOOR, Normaliser
from abps.npz import read_npz
from abps.policies.base import Controller, FastControl, Layered, PolicyClass, PriorMetric
from abps.policies.layers import controller, layer_arrays, path_controller
from abps.policies.limiter import RateLimiter
from abps.policies.path import ParameterPath
from abps.registry import is_known, kind_of
from abps.settings import from_dict, to_dict
from abps.tasks.limits import Limits
from abps.tasks.spec import TaskSpec
from abps.words import count

__all__ = ["QUERY_ARRAYS", "Policy", "PolicySpace", "load_policy"]

MAX_PARAMETERS = 10_000_000
"""More numbers than any policy has; a file that claims more is refused before memory is reserved for it."""

SHARED_ARRAYS = ("kind", "task", "observation_mean", "observation_count", "observation_m2", "action_low", "action_high")
"""Arrays of every policy file; a class adds its own, most of them `weights`."""

QUERY_ARRAYS = ("policy_id", "horizon", "episode", "role", "iteration", "left")
"""What a hardware run adds to the policy that it asks for (`run/hardware.py`)."""

RESERVED = {
    *SHARED_ARRAYS, "observation_std", "settings", "path_knots", "path_interval", "action_rate", "action_start",
    *QUERY_ARRAYS,
}  # fmt: skip
"""Names of arrays that a class cannot use for its own, nor such that begin with `LAYER`."""
LAYER = "layer_"


@dataclass(frozen=True)
class PolicySpace:
    """The policies of one class on one task."""

    policy_class: PolicyClass
    spec: TaskSpec

    @cached_property
    def size(self) -> int:
        """d: the number of parameters."""
        return self.initial().size

    def initial(self) -> Array:
        """The parameters (d,) that a search starts from."""
        return np.array(self.policy_class.initial(self.spec), dtype=np.float64)

    def actions(self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        """π(s) for m states, of one policy or of n: (d,) or (n, d), (m, s) → (m, a) or (n, m, a)."""
        return self.policy_class.actions(self.spec, parameters, normaliser.apply(observations))

    def pullback(
        self,
        parameters: Array,
        observations: NDArray[np.floating],
        normaliser: Normaliser,
        cotangents: NDArray[np.floating],
    ) -> Array:
        """Σ_m cotangent_m · ∂π(s_m)/∂parameters: (m, a) or (k, m, a) cotangents → (d,) or (k, d)."""
        return self.policy_class.pullback(self.spec, parameters, normaliser.apply(observations), cotangents)

    def metric(
        self, parameters: Array, observations: NDArray[np.floating], normaliser: Normaliser, weights: Array
    ) -> Array:
        """Blocks (b, d/b, d/b) of the metric of the actions over m weighted states; see `PolicyClass.metric`."""
        shares = weights / weights.sum()
        return self.policy_class.metric(self.spec, parameters, normaliser.apply(observations), shares)

    def prior_metric(self, observations: NDArray[np.floating], normaliser: Normaliser) -> Array:
        """Blocks as those of `metric`, of parameters of which nothing is known yet; see `PriorMetric`."""
        even = np.full(len(observations), 1.0)
        if isinstance(self.policy_class, PriorMetric):
            shares = even / even.sum()
            return self.policy_class.prior_metric(self.spec, normaliser.apply(observations), shares)
        return self.metric(self.initial(), observations, normaliser, even)

    def remapped(self, parameters: Array, old: Normaliser, new: Normaliser) -> Array:
        """Parameters that mean under `new` what `parameters` meant under `old`.

        Uses the arrays `weights` and `bias` of `to_arrays`: exact where the mean stays, or where there is a `bias`. A
        sensor that had not moved has no scale to keep: its weight would grow by a factor of up to std / STD_FLOOR, for
        ever.
        """
        arrays = self.policy_class.to_arrays(self.spec, parameters)
        if "weights" not in arrays:
            return parameters
        factor = np.where(old.std > STD_FLOOR, new.std / old.std, 1.0)
        weights = arrays["weights"]
        changed = {**arrays, "weights": weights * factor}
        if "bias" in arrays:
            changed["bias"] = arrays["bias"] + weights @ ((new.mean - old.mean) / old.std)
        return self.policy_class.from_arrays(self.spec, changed)

    def policy(self, parameters: Array, normaliser: Normaliser, path: ParameterPath | None = None) -> "Policy":
        """The policy with these parameters, moving along a path if there is one."""
        return Policy(self, parameters, normaliser, path)


@dataclass(frozen=True, eq=False)
class Policy:
    """One deterministic policy: call it with an observation to get an action. Saved as `.npz`, readable with numpy.

    Example:
        >>> import numpy as np
        >>> import abps
        >>> task = abps.make_task("pendulum")
        >>> policy = abps.make_search("mpd", task.spec).ask().policy
        >>> policy(np.zeros(4)).shape, policy(np.zeros((7, 4))).shape
        ((1,), (7, 1))
    """

    space: PolicySpace
    parameters: Array
    """(d,)"""
    normaliser: Normaliser
    path: ParameterPath | None = None
    """Where the parameters go during an episode, for a policy that explores along a path; None: they stay."""
    act: Controller = field(init=False, repr=False)
    """The map from one observation (s,) to one action (a,) with the parameters at rest, and no limit of its rate."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "act", self._controller())

    def __repr__(self) -> str:
        spec, name = self.space.spec, type(self.space.policy_class).__name__
        sizes = f"{count(spec.observation_dim, 'observation')}, {count(spec.action_dim, 'action')}"
        path = "" if self.path is None else ", along a path"
        return f"<abps policy {name} of {spec.name}: {sizes}, {count(self.parameters.size, 'parameter')}{path}>"

    def start(self) -> Controller:
        """The controller of one episode, from its first step on; every episode starts its own.

        It moves along the path and keeps to the rate of the actions, where there are any.
        """
        moving, rates = self._moving(), self.spec.action_rates
        return moving if rates is None else RateLimiter(moving, rates, self.spec.action_start)

    def _moving(self) -> Controller:
        if self.path is None:
            return self.act
        policy_class = self.space.policy_class
        if isinstance(policy_class, FastControl):
            return policy_class.path_controller(self.spec, self.path, self.normaliser)
        if isinstance(policy_class, Layered):
            knots = [policy_class.layers(self.spec, knot) for knot in self.path.knots]
            return path_controller(knots, self.path, self.spec, self.normaliser)
        return _MovingController(self.space, self.path, self.normaliser)

    def _controller(self) -> Controller:
        policy_class = self.space.policy_class
        if isinstance(policy_class, FastControl):
            return policy_class.controller(self.spec, self.parameters, self.normaliser)
        if isinstance(policy_class, Layered):
            return controller(policy_class.layers(self.spec, self.parameters), self.spec, self.normaliser)
        return lambda observation: self.actions(np.asarray(observation)[None])[0]

    @property
    def spec(self) -> TaskSpec:
        """The task it was made for."""
        return self.space.spec

    def __call__(self, observation: ArrayLike) -> Array:
        """Return the action (a,) for one observation (s,), or (…, a) for a batch (…, s).

        Raises:
            ShapeError: an observation has another size, or is not made of numbers.
        """
        size = self.spec.observation_dim
        try:
            observations = np.asarray(observation, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"an observation is a list or array of {size} numbers: {error}") from error
        if observations.ndim == 0 or observations.shape[-1] != size:
            raise ShapeError(
                f"the policy takes observations of {size} numbers, one (s,) or a batch (m, s); got shape "
                f"{observations.shape}"
            )
        if observations.ndim == 1:
            return self.act(observations)
        actions = self.actions(observations.reshape(-1, size))
        return actions.reshape(*observations.shape[:-1], actions.shape[-1])

    def actions(self, observations: NDArray[np.floating]) -> Array:
        """π(s) for m states: (m, s) → (m, a)."""
        return self.space.actions(self.parameters, np.asarray(observations), self.normaliser)

    def save(self, path: str | Path) -> None:
        """Write the policy as `.npz`."""
        with Path(path).open("wb") as file:
            self.write(file)

    def write(self, file: BinaryIO) -> None:
        """Write the policy as plain arrays, no pickle."""
        np.savez(file, **self.arrays())

    def arrays(self) -> dict[str, Any]:
        """Everything that acting needs, as named plain arrays."""
        policy_class = self.space.policy_class
        settings = {name: value for name, value in to_dict(policy_class).items() if name != "kind"}
        path: dict[str, Any] = {}
        if self.path is not None:
            path = {"path_knots": self.path.knots, "path_interval": np.array(self.path.interval)}
        rates: dict[str, Any] = {}
        if self.spec.action_rates is not None:
            rates = {"action_rate": self.spec.action_rates, "action_start": self.spec.action_start}
        own = policy_class.to_arrays(self.spec, self.parameters)
        if taken := sorted(name for name in own if is_reserved(name)):
            raise ConfigError(f"{type(policy_class).__name__}.to_arrays uses the reserved names {', '.join(taken)}")
        return {
            "kind": np.array(kind_of(type(policy_class))),
            **({"settings": np.array(json.dumps(settings))} if settings else {}),
            "task": np.array(self.spec.name),
            **own,
            "observation_mean": self.normaliser.mean,
            "observation_std": self.normaliser.std,
            "observation_count": np.array(self.normaliser.count),
            "observation_m2": self.normaliser.m2,
            "action_low": np.array(self.spec.action_low),
            "action_high": np.array(self.spec.action_high),
            **path,
            **rates,
            **self._layer_arrays(),
        }

    def _layer_arrays(self) -> dict[str, Any]:
        """The layers of a policy that `weights` and `bias` alone do not describe, for robots that know numpy only."""
        policy_class = self.space.policy_class
        if not isinstance(policy_class, Layered):
            return {}
        knots = [self.parameters] if self.path is None else self.path.knots
        layers = [policy_class.layers(self.spec, knot) for knot in knots]
        return layer_arrays(layers) if len(layers[0].layers) > 1 else {}


class _MovingController:
    """Acts with parameters that move along a path, for policy classes without a fast controller."""

    def __init__(self, space: PolicySpace, path: ParameterPath, normaliser: Normaliser) -> None:
        self.space, self.path, self.normaliser, self.step = space, path, normaliser, 0

    def __call__(self, observation: NDArray[np.floating]) -> Array:
        parameters = self.path.at(self.step)
        self.step += 1
        return self.space.actions(parameters, np.asarray(observation)[None], self.normaliser)[0]


def is_reserved(name: str) -> bool:
    """Whether an array of a policy file is not the class's own."""
    return name in RESERVED or name.startswith(LAYER)


def load_policy(path: str | Path, policy_class: PolicyClass | None = None) -> Policy:
    """Read what `Policy.save` wrote; nothing in the file is executed, every shape is checked.

    Args:
        path: the file.
        policy_class: the class that is expected beside the registered ones, e.g. the one that a run's settings name; a
            file alone cannot have a module imported.

    Raises:
        ConfigError: the file is missing, is no policy, or its class is neither registered nor expected.

    Example:
        >>> import abps
        >>> policy = abps.make_search("mpd", abps.make_task("pendulum").spec).ask().policy
        >>> policy.save("policy.npz")
        >>> abps.load_policy("policy.npz").parameters.shape
        (4,)
    """
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a policy is loaded from a file, got {path!r:.80}")
    try:
        data = read_npz(Path(path), MAX_PARAMETERS, required=SHARED_ARRAYS)
        return _policy(data, policy_class)
    except FileNotFoundError as error:
        raise ConfigError(f"no policy file at {path}") from error
    except Exception as error:
        raise ConfigError(f"{path} is not a policy file of abps: {error}") from error


def _policy(data: dict[str, Any], expected: PolicyClass | None) -> Policy:
    mean, m2, low, high = (
        np.asarray(data[name], dtype=np.float64)
        for name in ("observation_mean", "observation_m2", "action_low", "action_high")
    )
    if mean.ndim != 1 or m2.shape != mean.shape or low.ndim != 1 or high.shape != low.shape:
        raise ValueError(f"shapes do not fit: mean {mean.shape}, m2 {m2.shape}, action_low {low.shape}")
    kind = str(data["kind"])
    if not is_known("policy", kind) and (expected is None or kind != kind_of(type(expected))):
        # A stranger's file must not import modules.
        raise ValueError(f"unknown policy kind {kind!r}; import its module and `abps.register` its class first")
    policy_class = from_dict(PolicyClass, {**json.loads(str(data.get("settings", "{}"))), "kind": kind})
    spec = TaskSpec(
        name=str(data["task"]),
        observation_dim=mean.size,
        action_dim=low.size,
        action_low=tuple(float(x) for x in low),
        action_high=tuple(float(x) for x in high),
        limits=_limits(data),
    )
    own = {name: np.asarray(value, dtype=np.float64) for name, value in data.items() if not is_reserved(name)}
    if not all(np.all(np.isfinite(part)) for part in (*own.values(), mean, m2)) or np.any(m2 < 0.0):
        raise ValueError("a number is not finite, or a variance is negative")
    parameters = policy_class.from_arrays(spec, own)
    normaliser = Normaliser(max(int(data["observation_count"]), 0), mean, m2)
    path = None
    if "path_knots" in data:
        path = ParameterPath(np.asarray(data["path_knots"], dtype=np.float64), int(data["path_interval"]))
        if path.knots.shape[1] != parameters.size:
            raise ValueError(f"knots have {path.knots.shape[1]} parameters, the policy {parameters.size}")
    return PolicySpace(policy_class, spec).policy(parameters, normaliser, path)


def _limits(data: dict[str, Any]) -> Limits:
    """The rate limit of a policy file; the other limits are the search's business."""
    rate, start = (
        tuple(float(x) for x in np.asarray(data.get(name, ()), dtype=np.float64).reshape(-1))
        for name in ("action_rate", "action_start")
    )
    return Limits(action_rate=rate, action_start=start)
