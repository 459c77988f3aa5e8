"""Trajectories as files, from whoever ran the episode: `.npz` or `.csv`, checked before anything is believed.

`.npz`: `observations` (T+1, s), `actions` (T, a), `rewards` (T,), `terminated` (one boolean), and optionally
`policy_id`; for a task with constraints `cost_<name>` each, (T,) or one number for the whole episode. `.csv`: a header
and T+1 rows; columns `o0` … `o<s−1>`, `a0` … `a<a−1>`, `reward`, `terminated`. The last row is the observation after
the last step; its other cells are empty. Costs are columns `cost_<name>`; with one number for the whole episode it
stands in the row of the last step, and the cells above are empty. Further columns (a clock, say) are ignored.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.errors import RunError, ShapeError
from abps.npz import read_npz
from abps.run.files import read_bounded
from abps.tasks.constraints import Constraint
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory
from abps.words import printable

__all__ = ["Told", "read_trajectory", "write_trajectory_npz"]

ARRAYS = ("observations", "actions", "rewards", "terminated")
TRUE, FALSE = ("1", "true", "True", "1.0"), ("0", "false", "False", "0.0")
SLACK = 10
"""Files up to so many times too large are read, so that the message can say by how much."""


class Told(NamedTuple):
    """What a trajectory file says: the episode, and which policy it claims to be of (None: it does not say)."""

    trajectory: Trajectory
    policy_id: str | None


class _Contents(NamedTuple):
    """The arrays of a file: observations, actions and rewards; costs; the end; whose episode it is."""

    arrays: tuple[NDArray[Any], ...]
    costs: list[NDArray[Any]]
    """One per constraint: (T,), or one number."""
    terminated: bool
    policy_id: str | None


def read_trajectory(path: Path, spec: TaskSpec) -> Told:
    """Read and check an episode of a task.

    Raises:
        ShapeError: the file is missing, or not an episode of this task; the message says what is wrong with it.
    """
    readers = {".npz": _read_npz, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ShapeError(f"{path} must end in .npz or .csv, got {path.suffix or 'no ending'!r}")
    if not path.is_file():
        raise ShapeError(f"there is no file {path}")
    arrays, costs, terminated, policy_id = reader(path, spec)
    try:
        trajectory = Trajectory.build(
            *arrays,
            terminated=terminated,
            truncated=not terminated,
            costs=_step_costs(costs, spec.constraints, len(arrays[2])),
        )
    except (ShapeError, ValueError, TypeError) as error:
        raise ShapeError(f"{path}: {error}") from error
    _check_sizes(path, trajectory, spec)
    return Told(trajectory, policy_id)


def write_trajectory_npz(
    path: Path, trajectory: Trajectory, policy_id: str | None = None, constraints: Sequence[Constraint] = ()
) -> None:
    """Write an episode as `.npz` (a robot without abps does the same with `numpy.savez`, see docs/hardware.md)."""
    extra: dict[str, Any] = {} if policy_id is None else {"policy_id": np.array(policy_id)}
    extra |= {_array(item): trajectory.costs[:, place] for place, item in enumerate(constraints)}
    np.savez(
        path,
        observations=trajectory.observations,
        actions=trajectory.actions,
        rewards=trajectory.rewards,
        terminated=np.array(trajectory.terminated),
        **extra,
    )


def _array(constraint: Constraint) -> str:
    """What a constraint's array or column is called."""
    return f"cost_{constraint.name}"


def _step_costs(costs: Sequence[NDArray[Any]], constraints: Sequence[Constraint], steps: int) -> NDArray[np.float64]:
    """Costs (T, c), from an array (T,) or one number for each constraint."""
    columns = np.zeros((steps, len(constraints)))
    for place, (constraint, given) in enumerate(zip(constraints, costs, strict=True)):
        if given.size == 1 and given.shape != (steps,):
            columns[:, place] = constraint.of_episode(float(given.reshape(())), steps)
        elif given.shape == (steps,):
            columns[:, place] = given
        else:
            raise ShapeError(
                f"{_array(constraint)!r} must be one number per step, ({steps},), or one for the whole episode; "
                f"it has shape {given.shape}"
            )
    return columns


def _check_sizes(path: Path, trajectory: Trajectory, spec: TaskSpec) -> None:
    sizes = (trajectory.observations.shape[1], trajectory.actions.shape[1])
    if sizes != (spec.observation_dim, spec.action_dim):
        raise ShapeError(
            f"{path} has {sizes[0]} observations and {sizes[1]} actions per step; "
            f"the task has {spec.observation_dim} and {spec.action_dim}"
        )
    if len(trajectory) > spec.horizon:
        raise ShapeError(f"{path} has {len(trajectory)} steps; an episode of this task has at most {spec.horizon}")


def _read_npz(path: Path, spec: TaskSpec) -> _Contents:
    largest = SLACK * (spec.horizon + 1) * (spec.observation_dim + spec.action_dim + 1)
    wanted = (*ARRAYS, *map(_array, spec.constraints))
    data = read_npz(path, {**dict.fromkeys(wanted, largest), "policy_id": 1}, required=wanted)
    for name in wanted:
        if data[name].dtype.kind not in "fiub":
            raise ShapeError(f"{path}: array {name!r} must hold numbers, it holds {data[name].dtype}")
    if data["terminated"].size != 1:
        raise ShapeError(f"{path}: 'terminated' must be one boolean, it has shape {data['terminated'].shape}")
    policy_id = str(data["policy_id"]) if "policy_id" in data else None
    arrays, costs = (data["observations"], data["actions"], data["rewards"]), [data[name] for name in wanted[4:]]
    return _Contents(arrays, costs, bool(data["terminated"].reshape(())), policy_id)


def _read_csv(path: Path, spec: TaskSpec) -> _Contents:
    columns = spec.observation_dim + spec.action_dim + len(spec.constraints)
    limit = SLACK * (spec.horizon + 2) * 32 * (columns + 8)
    try:
        text = read_bounded(path, limit).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except (RunError, UnicodeDecodeError, csv.Error) as error:
        raise ShapeError(f"{path} is not a readable .csv file: {error}") from error
    rows = [row for row in rows if row]
    if len(rows) < 3:
        raise ShapeError(f"{path} has {len(rows)} lines; an episode needs a header and at least two rows")
    table = _Table(path, rows)
    observations = table.numbers([f"o{k}" for k in range(spec.observation_dim)], len(rows) - 1)
    actions = table.numbers([f"a{k}" for k in range(spec.action_dim)], len(rows) - 2)
    rewards = table.numbers(["reward"], len(rows) - 2)[:, 0]
    costs = [table.costs(_array(constraint)) for constraint in spec.constraints]
    return _Contents((observations, actions, rewards), costs, table.terminated(), None)


class _Table:
    """The cells of a CSV file by column name."""

    def __init__(self, path: Path, rows: list[list[str]]) -> None:
        self._path, self._rows = path, rows[1:]
        self._columns = {name.strip(): place for place, name in enumerate(rows[0])}
        if len(self._columns) != len(rows[0]):
            raise ShapeError(f"{path} names a column twice")

    def cell(self, row: int, name: str) -> str:
        if name not in self._columns:
            there = ", ".join(map(printable, list(self._columns)[:20]))
            raise ShapeError(f"{self._path} has no column {name!r}; it has {there}")
        place = self._columns[name]
        return self._rows[row][place].strip() if place < len(self._rows[row]) else ""

    def numbers(self, names: list[str], rows: int) -> NDArray[np.float64]:
        """The first `rows` cells of the columns; those below must be empty."""
        for name in names:
            for row in range(rows, len(self._rows)):
                if self.cell(row, name):
                    raise ShapeError(
                        f"{self._path}: column {name!r} must be empty in the last row, which is the "
                        "observation after the "
                        "last step"
                    )
        return np.array([[self._number(row, name) for name in names] for row in range(rows)])

    def costs(self, name: str) -> NDArray[np.float64]:
        """A number per step (T,), or the one of the last step where the cells above are empty (1,)."""
        steps = len(self._rows) - 1
        if steps > 1 and self.cell(steps - 1, name) and not any(self.cell(row, name) for row in range(steps - 1)):
            return np.array([self._number(steps - 1, name)])
        return self.numbers([name], steps)[:, 0]

    def terminated(self) -> bool:
        """Whether the last step says that the episode ended by itself; no earlier step may say so."""
        for row in range(len(self._rows) - 1):
            cell, last = self.cell(row, "terminated"), row == len(self._rows) - 2
            if cell not in TRUE + FALSE:
                raise ShapeError(f"{self._path}, row {row + 2}: 'terminated' must be 0 or 1, it is {cell!r}")
            if cell in TRUE:
                if not last:
                    raise ShapeError(f"{self._path}, row {row + 2}: 'terminated' is 1, but further steps follow")
                return True
        return False

    def _number(self, row: int, name: str) -> float:
        cell = self.cell(row, name)
        try:
            return float(cell)
        except ValueError as error:
            raise ShapeError(f"{self._path}, row {row + 2}: {name!r} must be a number, it is {cell[:40]!r}") from error
