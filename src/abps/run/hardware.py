"""Runs on real hardware: the search asks for episodes, somebody runs them somewhere, and tells what happened.

The same run directory as everywhere (journal, checkpoints, metrics, policies), without a simulator. Between two calls
there may be seconds or days, and any number of crashes: the journal is the truth. docs/hardware.md is the guide; the
robot needs numpy only.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abps.errors import ConfigError, RunError, ShapeError
from abps.policies import Policy
from abps.policies.start import InitialLike
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, claim, create_directory, read_settings, write_settings
from abps.run.files import replace_atomically
from abps.run.journal import Journal
from abps.run.run import Run, open_run, parameters_crc
from abps.run.start import prepare_start
from abps.run.trajectory_files import read_trajectory
from abps.search.auto import AUTO, choose_search
from abps.search.base import Metrics, Query, SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.constraints import read_constraints
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory
from abps.words import count

__all__ = [
    "HardwareRun",
    "Recorded",
    "Request",
    "create_hardware_run",
    "extend_hardware_run",
    "hardware_spec",
    "open_hardware_run",
    "robot_spec",
]

HARDWARE_ID = "real-hardware"
STRANGE_ACTIONS = 0.1
"""Actions further than this share of their range from the policy's are worth a warning."""


class Request(NamedTuple):
    """One episode that the search waits for."""

    episode: int
    policy_id: str
    """Names the policy; a trajectory that carries it cannot be told to the wrong request."""
    role: str
    iteration: int
    left: int
    """Episodes of this policy that are still wanted, this one included."""
    policy: Policy


class Recorded(NamedTuple):
    """What became of an episode that was told."""

    episode: int
    value: float | None
    """Its undiscounted return; None when it failed."""
    metrics: Metrics | None
    """Of the outer iteration that it completed, if it did."""
    warnings: list[str]


def create_hardware_run(
    path: Path,
    task: TaskConfig,
    hardware: HardwareConfig,
    *,
    search: str = "abs",
    config: SearchConfig | None = None,
    budget: BudgetConfig | None = None,
    seed: int = 0,
    initial: InitialLike | None = None,
) -> None:
    """Make the directory of a run on real hardware.

    Args:
        path: where; there must be no run yet.
        task: its `name`, `gamma`, `horizon`, `reward_scale`, `limits` and `constraint` count; its `id` does not.
        hardware: sizes and bounds.
        search: a name of the registry, or `auto`.
        config: the search's settings; None takes those of the preset `cpu`.
        budget: when the search stops asking; None: never.
        seed: everything random in the search derives from it.
        initial: what to start from: a hand-tuned controller or recorded episodes in files (`run.demonstrations`), or a
            policy (`policies.start.read_start`); None: the start of the policy class.

    Raises:
        ConfigError: a setting is out of its range, or there is nothing to start from.
        RunError: there is a run already.
    """
    if (path / "config.yaml").exists():
        raise RunError(f"there is a run in {path} already; `abps ask {path}` goes on with it")
    if search == AUTO:
        search = choose_search(robot_spec(task, hardware), budget).announce()
    settings = RunSettings(
        task=replace(task, id=HARDWARE_ID, name=task.name or "robot"),
        search=search,
        search_config=search_config(search, task.name) if config is None else config,
        budget=budget or BudgetConfig(),
        run=RunConfig(checkpoint_stages=True, evaluate_every=0),
        seed=seed,
        hardware=hardware,
    )
    # Before anything is written: wrong bounds, or a start outside the limits, must leave no directory behind.
    spec = hardware_spec(settings)
    start = prepare_start(initial, spec, settings.search_config)
    create_directory(path, replace(settings, initial=start.text), start.files)


def hardware_spec(settings: RunSettings) -> TaskSpec:
    """The spec of a hardware run's task.

    Raises:
        RunError: the run belongs to a simulator.
        ConfigError: the bounds are not bounds.
    """
    if settings.hardware is None:
        raise RunError("this run belongs to a simulated task; go on with `abps resume`")
    return robot_spec(settings.task, settings.hardware)


def robot_spec(task: TaskConfig, hardware: HardwareConfig) -> TaskSpec:
    """The spec of a system that is described by its task and its sizes.

    Raises:
        ConfigError: the bounds are not bounds.
    """
    return TaskSpec(
        name=task.name,
        observation_dim=hardware.observations,
        action_dim=len(hardware.action_low),
        action_low=hardware.action_low,
        action_high=hardware.action_high,
        gamma=task.gamma,
        horizon=task.horizon or 1000,
        reward_scale=task.reward_scale,
        limits=task.limits,
        constraints=read_constraints(task.constraint),
    )


def extend_hardware_run(path: Path, budget: BudgetConfig) -> None:
    """Give a run another budget: a finished one goes on where it stopped, as if it had always had this one.

    Raises:
        ConfigError: fewer episodes than were told already.
        RunError: no run, one of a simulator, or in use.
    """
    settings = read_settings(path)
    spec = hardware_spec(settings)
    if budget == settings.budget:
        return
    with claim(path):
        told = len(Journal(path, spec))
        if 0 < budget.episodes <= told:
            raise ConfigError(
                f"the run has {told} told episodes already, and --episodes counts them all; for 20 more give "
                f"--episodes {told + 20}"
            )
        write_settings(path, replace(settings, budget=budget))


@contextmanager
def open_hardware_run(path: Path) -> "Iterator[HardwareRun]":
    """Own a hardware run until the block ends; nobody else can ask or tell meanwhile.

    Raises:
        RunError: no run, one of a simulator, damaged, or in use.
    """
    settings = read_settings(path)
    with open_run(path, hardware_spec(settings), None, settings) as run:
        try:
            yield HardwareRun(run)
        finally:
            if reasons := run.stop():
                run.finish(reasons)
            elif len(run.journal):
                run.save_policies()  # Whatever was told, also by a session that was killed before it wrote them.


class HardwareRun:
    """Ask and tell, one episode at a time. Made by `open_hardware_run`."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def stopped(self) -> dict[str, str]:
        """Every reason why no further episode is wanted; empty: ask."""
        return self.run.stop()

    def ask(self) -> Request | None:
        """The episode that the search waits for, the same until it is told; None when the run is done."""
        if self.stopped:
            return None
        query = self.run.slots()[0].query
        left = sum(slot.query.id == query.id for slot in self.run.slots())
        episode = len(self.run.journal)
        return Request(episode, _policy_id(query), query.role, query.iteration, left, query.policy)

    def write_policy(self, request: Request, path: Path | None = None) -> Path:
        """Write the policy of a request as `.npz` (default: `<run>/query.npz`) and return where it is."""
        path = path or self.run.path / "query.npz"
        buffer = io.BytesIO()
        extra: dict[str, Any] = {
            "policy_id": np.array(request.policy_id),
            "horizon": np.array(request.policy.spec.horizon),
            **{name: np.array(getattr(request, name)) for name in ("episode", "role", "iteration", "left")},
        }
        np.savez(buffer, **request.policy.arrays(), **extra)
        replace_atomically(path, buffer.getvalue())
        return path

    def tell_file(self, path: Path) -> Recorded:
        """`tell` an episode from a `.npz` or `.csv` file.

        Raises:
            ShapeError: the file is not an episode of this task, or of another policy. Nothing has changed then.
        """
        told = read_trajectory(path, self.run.spec)
        return self.tell(told.trajectory, told.policy_id)

    def tell(self, trajectory: Trajectory, policy_id: str | None = None) -> Recorded:
        """Record an episode of the policy that `ask` gave.

        Raises:
            ShapeError: it does not fit the task, or is of another policy. Nothing has changed then.
            RunError: the run is done, or the disk refuses.
        """
        request = self._wanted()
        if policy_id is not None and policy_id != request.policy_id:
            raise ShapeError(
                f"this episode is of policy {policy_id}, the search waits for {request.policy_id}; was it told already?"
            )
        sizes = (trajectory.observations.shape[1], trajectory.actions.shape[1])
        if sizes != (self.run.spec.observation_dim, self.run.spec.action_dim):
            raise ShapeError(
                f"the episode has {sizes[0]} observations and {sizes[1]} actions per step; the task has "
                f"{self.run.spec.observation_dim} and {self.run.spec.action_dim}"
            )
        if trajectory.costs.shape[1] != len(self.run.spec.constraints):
            raise ShapeError(
                f"the episode has {trajectory.costs.shape[1]} costs per step; the task has "
                f"{count(len(self.run.spec.constraints), 'constraint')}"
            )
        if len(trajectory) > self.run.spec.horizon:
            raise ShapeError(f"the episode has {len(trajectory)} steps; the task has at most {self.run.spec.horizon}")
        warnings = _strange_actions(trajectory, request.policy)
        for place, constraint in enumerate(self.run.spec.constraints):
            cost = constraint.episode_cost(trajectory.costs[:, place])
            if cost > constraint.limit:
                warnings.append(f"the cost {constraint.name} was {cost:.6g}, above its limit {constraint.limit:.6g}")
        twin = self.run.journal.twin_of(trajectory)
        if twin is not None:
            warnings.append(
                f"the episode equals episode {twin} bit for bit; if it is the same one, told twice, take this one back "
                "with `abps tell RUN --discard`"
            )
        return self._record(trajectory, warnings)

    def fail(self, reason: str) -> Recorded:
        """Record that the episode could not be run to its end; the search goes on and avoids the place.

        Raises:
            ConfigError: no reason is given.
            RunError: the run is done, or the disk refuses.
        """
        if not reason.strip():
            raise ConfigError("say in a few words why the episode failed; it is kept in the journal")
        self._wanted()
        return self._record(Failed(reason), [])

    def discard(self) -> int:
        """Take the newest told episode back, as if it had never been told; `ask` then gives its policy again.

        What was told is kept in `<run>/discarded`. An episode that was not told yet needs no discarding: run it again.

        Returns:
            The episode's number.

        Raises:
            RunError: nothing was told yet, or the disk refuses.
        """
        if len(self.run.journal) == 0:
            raise RunError("there is no told episode to take back; an episode that was not told is simply run again")
        return self.run.take_back()

    def _wanted(self) -> Request:
        request = self.ask()
        if request is None:
            raise RunError(f"the run is done ({'; '.join(self.stopped.values())}); no further episode is wanted")
        return request

    def _record(self, outcome: Outcome, warnings: list[str]) -> Recorded:
        slot = self.run.slots()[0]
        metrics = self.run.record(slot, outcome, 0.0, {"seed": None, "failed_attempts": []})
        value = outcome.total() if isinstance(outcome, Trajectory) else None
        return Recorded(slot.episode, value, metrics, warnings)


def _policy_id(query: Query) -> str:
    return f"{query.id}-{parameters_crc(query):08x}"


def _strange_actions(trajectory: Trajectory, policy: Policy) -> list[str]:
    """Say so when the actions are not the policy's: another policy's file, or a robot that does something else."""
    act = policy.start()
    wanted = np.array([act(observation) for observation in trajectory.observations[:-1]])
    span = np.array(policy.spec.action_high) - np.array(policy.spec.action_low)
    distance = float(np.max(np.abs(trajectory.actions - wanted) / span))
    if distance <= STRANGE_ACTIONS:
        return []
    return [
        f"the recorded actions differ from the policy's by up to {distance:.0%} of their range; was "
        "it another policy's "
        "episode, or does the robot filter its actions? (recorded all the same; `abps tell RUN "
        "--discard` takes it back)"
    ]
