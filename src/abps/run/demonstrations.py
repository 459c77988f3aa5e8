"""Hand-tuned controllers and recorded episodes as files, from which a search can start.

- a controller: `.npz` with `weights` (a, s) and optionally `bias` (a,): a = W·observation + b, in units of the actions;
- recorded episodes: one trajectory file (`.npz` or `.csv`, see docs/hardware.md), or a folder of them.
"""

import zipfile
from pathlib import Path

import numpy as np

from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.npz import read_npz
from abps.policies.imitation import Imitation, from_gains, imitate
from abps.policies.observations import Observations
from abps.policies.policy import PolicySpace
from abps.policies.start import Start
from abps.run.trajectory_files import read_trajectory
from abps.settings import replace
from abps.trajectory import Trajectory

__all__ = ["demonstrated"]

MAX_EPISODES = 1000


def demonstrated(source: Path, space: PolicySpace, observations: Observations) -> Start | None:
    """Parameters that act like the controller or the episodes in a file or folder; None: it holds neither.

    Raises:
        ShapeError: they do not fit the task, or a file is damaged.
        ConfigError: the policies cannot express them.
    """
    files = _episode_files(source)
    if files:
        return _imitated(files, source, space, observations)
    if "weights" not in _names(source) or "kind" in _names(source):  # A policy file says its kind.
        return None
    size = space.spec.observation_dim * space.spec.action_dim
    arrays = read_npz(source, {"weights": 10 * size, "bias": 10 * size}, required=("weights",))
    try:
        found = from_gains(space, arrays["weights"], arrays.get("bias"))
    except ShapeError as error:
        raise ShapeError(f"{source} is no controller of this task (weights (a, s), bias (a,)): {error}") from error
    return Start(found.parameters, Normaliser.empty(space.spec.observation_dim), f"the controller in {source}")


def _imitated(files: list[Path], source: Path, space: PolicySpace, observations: Observations) -> Start:
    spec = replace(space.spec, constraints=())  # To be imitated an episode need not have reported costs.
    trajectories = [read_trajectory(file, spec).trajectory for file in files]
    unknown = Normaliser.empty(space.spec.observation_dim)
    normaliser = observations.updated(unknown, _seen(unknown, trajectories))
    found: Imitation = imitate(
        space,
        np.concatenate([item.observations[:-1] for item in trajectories]),
        np.concatenate([item.actions for item in trajectories]),
        normaliser=normaliser,
    )
    count = "1 episode" if len(files) == 1 else f"{len(files)} episodes"
    text = f"imitation of {count} in {source}, actions {found.error:.2g} half ranges apart (root mean square)"
    return Start(found.parameters, normaliser, text)


def _seen(empty: Normaliser, trajectories: list[Trajectory]) -> Normaliser:
    for trajectory in trajectories:
        empty = empty.add(trajectory.observations[:-1])
    return empty


def _episode_files(source: Path) -> list[Path]:
    """The trajectory files that a path means; none for a run, a policy or a controller."""
    if source.is_dir():
        inside = sorted(file for file in source.iterdir() if file.suffix.lower() in (".npz", ".csv"))
        files = [] if (source / "config.yaml").exists() or (source / "policy").is_dir() else inside
        if len(files) > MAX_EPISODES:
            raise ConfigError(f"{source} holds {len(files)} files; at most {MAX_EPISODES} episodes are imitated")
        return files
    is_episode = source.suffix.lower() == ".csv" or "actions" in _names(source)
    return [source] if is_episode and source.is_file() else []


def _names(path: Path) -> set[str]:
    """The names of the arrays in an `.npz` file; none where there is no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return set()
