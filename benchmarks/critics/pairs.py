"""Make the (θ, replay) pairs of the critic study: run a search in-process and keep every episode it saw.

    python benchmarks/critics/pairs.py cheetah --seed 0 --iterations 25      # from the project's folder, inside its environment

A run is one file in the work folder (`runs/critic-study` unless told otherwise; not in git): every query's parameters, role, outer
iteration and normaliser, and all episodes one after the other. It is deterministic for one version of the library; a run that is there is
not made again. A *pair* is a run cut off after an outer iteration: θ is that iteration's centre, the replay everything told by then.

Shapes: q queries, e episodes, N steps in all, d parameters, s and a observation and action sizes.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.normaliser import Normaliser
from abps.presets import search_config, task_config
from abps.rollouts.episode import run_episode
from abps.search.registry import make_search
from abps.seeding import integer_seed
from abps.tasks.gym import Task, make_task
from abps.trajectory import Trajectory

__all__ = ["WORK", "Pair", "StoredQuery", "StoredRun", "load_run", "pair_of"]

WORK = Path("runs/critic-study")
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StoredQuery:
    """A policy that was tried, and its episodes."""

    parameters: Array
    normaliser: Normaliser
    role: str
    iteration: int
    trajectories: list[Trajectory]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run of a search on a task."""

    task: Task
    search: str
    seed: int
    queries: list[StoredQuery]
    returns: list[float]
    """Mean undiscounted return of the centre, one per outer iteration."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A run after the last probe of an outer iteration, before the centre moves."""

    run: StoredRun
    iteration: int
    queries: list[StoredQuery]

    @property
    def name(self) -> str:
        return f"{self.run.task.spec.name}-{self.run.search}-{self.run.seed}-{self.iteration}"

    @property
    def centre(self) -> StoredQuery:
        """θ with its episodes."""
        return next(query for query in reversed(self.queries) if query.role == "centre")

    @property
    def transitions(self) -> int:
        return sum(len(trajectory) for query in self.queries for trajectory in query.trajectories)


def pair_of(run: StoredRun, iteration: int) -> Pair:
    """Cut a run off after an outer iteration."""
    return Pair(run, iteration, [query for query in run.queries if query.iteration <= iteration])


def run_file(work: Path, task: str, search: str, seed: int) -> Path:
    return work / f"{task}-{search}-{seed}.npz"


def make_run(task_name: str, search_name: str, seed: int, iterations: int, work: Path) -> Path:
    """Run the search for so many outer iterations and save everything; a run that is there is left alone."""
    path = run_file(work, task_name, search_name, seed)
    if path.exists():
        return path
    task = make_task(task_config(task_name))
    env = task.make_env()
    search = make_search(search_name, task.spec, search_config(search_name, task_name), seed=seed)
    told: list[tuple[Any, list[Trajectory]]] = []
    returns, episodes, start = [], 0, time.process_time()
    while search.iteration < iterations:
        query = search.ask()
        trajectories = []
        for _ in range(query.episodes):
            trajectories.append(run_episode(env, query.policy, integer_seed(seed, "critic-study", episodes)))
            episodes += 1
        metrics = search.tell(query, trajectories)
        told.append((query, trajectories))
        if metrics is not None:
            returns.append(metrics["centre_return"])
            seconds = time.process_time() - start
            print(f"{task_name} {metrics['iteration']} {episodes} {returns[-1]:.0f} {seconds:.0f} s", flush=True)
    _save(path, told, returns)
    return path


def _save(path: Path, told: list[tuple[Any, list[Trajectory]]], returns: list[float]) -> None:
    flat = [trajectory for _, trajectories in told for trajectory in trajectories]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp.npz")
    np.savez(
        unfinished,
        parameters=np.array([query.parameters for query, _ in told]),
        roles=np.array([query.role for query, _ in told]),
        iterations=np.array([query.iteration for query, _ in told]),
        counts=np.array([query.policy.normaliser.count for query, _ in told]),
        means=np.array([query.policy.normaliser.mean for query, _ in told]),
        m2s=np.array([query.policy.normaliser.m2 for query, _ in told]),
        episodes=np.array([len(trajectories) for _, trajectories in told]),
        lengths=np.array([len(trajectory) for trajectory in flat]),
        terminated=np.array([trajectory.terminated for trajectory in flat]),
        observations=np.concatenate([trajectory.observations for trajectory in flat]),
        actions=np.concatenate([trajectory.actions for trajectory in flat]),
        rewards=np.concatenate([trajectory.rewards for trajectory in flat]),
        returns=np.array(returns),
    )
    unfinished.replace(path)


def load_run(task_name: str, search: str, seed: int, work: Path = WORK) -> StoredRun:
    """Read a run back."""
    with np.load(run_file(work, task_name, search, seed), allow_pickle=False) as stored:
        data = {name: stored[name] for name in stored.files}
    lengths = data["lengths"]
    ends = np.cumsum(lengths)
    flat = []
    for number, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        first = end - length
        terminated = bool(data["terminated"][number])
        observations = data["observations"][first + number : end + number + 1]  # One more observation than steps.
        flat.append(
            Trajectory(observations, data["actions"][first:end], data["rewards"][first:end], terminated, not terminated)
        )
    queries, first = [], 0
    for number, count in enumerate(data["episodes"]):
        normaliser = Normaliser(int(data["counts"][number]), data["means"][number], data["m2s"][number])
        queries.append(
            StoredQuery(
                data["parameters"][number],
                normaliser,
                str(data["roles"][number]),
                int(data["iterations"][number]),
                flat[first : first + count],
            )
        )
        first += count
    task = make_task(task_config(task_name))
    return StoredRun(task, search, seed, queries, [float(value) for value in data["returns"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--search", default="mpd")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    print(make_run(arguments.task, arguments.search, arguments.seed, arguments.iterations, arguments.work))


if __name__ == "__main__":
    main()
