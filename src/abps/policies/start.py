"""A policy as the start of another search: found in a run, a file or an array, and fitted to that search's policies.

Shapes: d parameters.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.normaliser import STD_FLOOR, Normaliser
from abps.npz import read_npy
from abps.policies.base import PolicyClass
from abps.policies.observations import Observations
from abps.policies.policy import MAX_PARAMETERS, Policy, PolicySpace, load_policy
from abps.registry import kind_of
from abps.settings import to_dict
from abps.words import count

__all__ = ["InitialLike", "Start", "fitted", "read_start"]

InitialLike = str | Path | Policy | ArrayLike
"""What a search can start from: a run directory, a policy file, a `.npy` file of parameters, a policy, an array."""

FOLDER_FILE = Path("policy") / "current.npz"


class Start(NamedTuple):
    """Where a search starts."""

    parameters: Array
    """(d,)"""
    normaliser: Normaliser
    source: str
    """Where they are from, in words for the run's settings."""


def read_start(source: InitialLike, space: PolicySpace, observations: Observations) -> Start:
    """Find parameters to start from, and express them as policies of `space`.

    Args:
        source: see `InitialLike`; a run's current policy is taken.
        space: the policies of the search that is to start there.
        observations: what its policies see.

    Raises:
        ConfigError: there is no policy, or it cannot be one of the search's policies.
        ShapeError: it belongs to a task of another size.
    """
    if isinstance(source, Policy):
        return _of_policy(source, space, observations, "a policy")
    if isinstance(source, str | Path):
        return _of_file(Path(source), space, observations)
    return Start(_of_array(source, space, "initial"), _unknown(space), "an array")


def fitted(policy: Policy, space: PolicySpace, observations: Observations) -> tuple[Array, Normaliser]:
    """Parameters and normaliser with which `space` has the same policy.

    A search that sees raw observations takes a policy of normalised ones when the standardisation can be moved into its
    weights, which needs a bias. A policy without bias is one with a bias of zero.

    Raises:
        ConfigError: the classes differ, or the policy needs a bias.
        ShapeError: the sizes differ.
    """
    sizes = (policy.spec.observation_dim, policy.spec.action_dim)
    if sizes != (space.spec.observation_dim, space.spec.action_dim):
        raise ShapeError(
            f"the policy to start from takes {count(sizes[0], 'observation')} and gives "
            f"{count(sizes[1], 'action')}; the task has "
            f"{space.spec.observation_dim} and {space.spec.action_dim}"
        )
    parameters = _in_class(policy, space)
    learns_its_own = observations.updated(_unknown(space), _seen(space)).count > 0
    if learns_its_own or policy.normaliser.count == 0:
        return parameters, policy.normaliser
    return _unstandardised(parameters, policy.normaliser, space), _unknown(space)


def _of_file(path: Path, space: PolicySpace, observations: Observations) -> Start:
    file = path / FOLDER_FILE if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise ConfigError(f"cannot start from {path}: it is no run with a policy (no {FOLDER_FILE} in it)")
    if not file.is_file():
        raise ConfigError(f"cannot start from {path}: there is no such run directory, policy file or .npy file")
    if file.suffix == ".npy":
        return Start(_of_array(read_npy(file, MAX_PARAMETERS), space, str(file)), _unknown(space), str(file))
    return _of_policy(load_policy(file, space.policy_class), space, observations, str(file))


def _of_policy(policy: Policy, space: PolicySpace, observations: Observations, source: str) -> Start:
    return Start(*fitted(policy, space, observations), source)


def _of_array(values: ArrayLike, space: PolicySpace, name: str) -> Array:
    try:
        parameters = np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name} must be a policy, a run directory, a policy file or {space.size} parameters, got {values!r:.80}"
        ) from error
    if parameters.size != space.size or not np.all(np.isfinite(parameters)):
        raise ShapeError(
            f"{name} has {parameters.size} numbers; the policies of this search have {space.size} parameters "
            f"({_layout(space)}), all finite"
        )
    return parameters


def _in_class(policy: Policy, space: PolicySpace) -> Array:
    """The policy's parameters in the search's class of policies."""
    mine, theirs = space.policy_class, policy.space.policy_class
    if mine == theirs:
        return np.array(policy.parameters, dtype=np.float64)
    if type(mine) is not type(theirs):
        raise ConfigError(
            f"the policy to start from is {_name(theirs)}, those of the search are {_name(mine)}; take the same class "
            f"(--policy {kind_of(type(theirs))})"
        )
    arrays: Mapping[str, Array] = theirs.to_arrays(policy.spec, policy.parameters)
    wanted = {name: np.zeros_like(part) for name, part in mine.to_arrays(space.spec, space.initial()).items()}
    lost = sorted(name for name, part in arrays.items() if name not in wanted and np.any(part != 0.0))
    if lost:
        raise ConfigError(
            f"the policy to start from has a {', '.join(lost)}, those of the search have none; take the same settings "
            f"of the policy ({', '.join(_options(theirs))})"
        )
    known = {name: part for name, part in arrays.items() if name in wanted}
    return np.asarray(mine.from_arrays(space.spec, {**wanted, **known}), dtype=np.float64)


def _unstandardised(parameters: Array, normaliser: Normaliser, space: PolicySpace) -> Array:
    """Parameters that do with raw observations what `parameters` do with standardised ones.

    w·(s − mean)/std = (w/std)·s − (w/std)·mean. A sensor that never moved has said nothing, and is given no weight.
    """
    arrays = space.policy_class.to_arrays(space.spec, parameters)
    shifted = np.any(normaliser.mean != 0.0)
    if "weights" not in arrays or (shifted and "bias" not in arrays):
        raise ConfigError(
            "the policy to start from standardises its observations, which those of the search cannot: take "
            "--observations running" + (", or --policy.bias" if "weights" in arrays else "")
        )
    gains = np.where(normaliser.std > STD_FLOOR, arrays["weights"] / normaliser.std, 0.0)
    changed = {**arrays, "weights": gains}
    if "bias" in arrays:
        changed["bias"] = arrays["bias"] - gains @ normaliser.mean
    return np.asarray(space.policy_class.from_arrays(space.spec, changed), dtype=np.float64)


def _unknown(space: PolicySpace) -> Normaliser:
    return Normaliser.empty(space.spec.observation_dim)


def _seen(space: PolicySpace) -> Normaliser:
    """Statistics of two observations, to find out whether a search keeps any."""
    return _unknown(space).add(np.array([[-1.0], [1.0]]) * np.ones(space.spec.observation_dim))


def _layout(space: PolicySpace) -> str:
    arrays = space.policy_class.to_arrays(space.spec, space.initial())
    return " and ".join(f"{name} {part.shape}" for name, part in arrays.items())


def _name(policy_class: PolicyClass) -> str:
    return kind_of(type(policy_class))


def _options(policy_class: PolicyClass) -> list[str]:
    settings: dict[str, Any] = {name: value for name, value in to_dict(policy_class).items() if name != "kind"}
    return [
        f"--policy.{'' if value else 'no-'}{name}" if isinstance(value, bool) else f"--policy.{name} {value}"
        for name, value in settings.items()
    ]
