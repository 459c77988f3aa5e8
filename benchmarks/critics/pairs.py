"""Make the (θ, replay) pairs of the critic study: run a search once, keep every policy it tried, and run them again
later.

    python benchmarks/critics/pairs.py cheetah --seed 0 --iterations 25      # from the project's folder

A run is stored as a recipe (`data/runs`, in git, at most 0.6 MB): every query's parameters, role, outer iteration and
normaliser, and the return of every episode. An episode follows from its policy and its seed, so the replay is made
anew from the recipe, compared with the stored returns and cached in the work folder (`runs/critic-study`, not in git);
the library that chose the policies is not needed for it. A recipe that is there is never changed. A *pair* is a run
cut off after an outer iteration: θ is that iteration's centre, the replay everything told by then.

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
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts.episode import run_episode
from abps.search.base import Query
from abps.search.registry import make_search, search_config
from abps.seeding import integer_seed
from abps.tasks.catalogue import task_config
from abps.tasks.gym import Task, make_task
from abps.trajectory import Trajectory

__all__ = ["WORK", "Pair", "StoredQuery", "StoredRun", "load_run", "pair_of"]

WORK = Path("runs/critic-study")
RECIPES = Path(__file__).parent / "data" / "runs"
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
    space: PolicySpace
    search: str
    seed: int
    queries: list[StoredQuery]


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


def recipe_file(task: str, search: str, seed: int) -> Path:
    return RECIPES / f"{task}-{search}-{seed}.npz"


def make_recipe(task_name: str, search_name: str, seed: int, iterations: int) -> Path:
    """Run the search for so many outer iterations and store what it tried; a recipe that is there is left alone."""
    path = recipe_file(task_name, search_name, seed)
    if path.exists():
        return path
    task = make_task(task_config(task_name))
    env = task.make_env()
    search = make_search(search_name, task.spec, search_config(search_name, task_name), seed=seed)
    told: list[tuple[Query, list[Trajectory]]] = []
    episodes, start = 0, time.process_time()
    while search.iteration < iterations:
        query = search.ask()
        trajectories = [run_episode(env, query.policy, episode_seed(seed, episodes + k)) for k in range(query.episodes)]
        episodes += query.episodes
        metrics = search.tell(query, trajectories)
        told.append((query, trajectories))
        if metrics is not None:
            value, seconds = metrics["centre_return"], time.process_time() - start
            print(f"{task_name} {metrics['iteration']} {episodes} {value:.0f} {seconds:.0f} s", flush=True)
    _save(
        path,
        parameters=[query.parameters for query, _ in told],
        roles=[query.role for query, _ in told],
        iterations=[query.iteration for query, _ in told],
        counts=[query.policy.normaliser.count for query, _ in told],
        means=[query.policy.normaliser.mean for query, _ in told],
        m2s=[query.policy.normaliser.m2 for query, _ in told],
        episodes=[len(trajectories) for _, trajectories in told],
        returns=[trajectory.total() for _, trajectories in told for trajectory in trajectories],
    )
    return path


def episode_seed(seed: int, episode: int) -> int:
    return integer_seed(seed, "critic-study", episode)


def load_run(task_name: str, search: str, seed: int, work: Path = WORK) -> StoredRun:
    """A run with all its episodes, rolled out anew from its recipe where they are not cached."""
    recipe, task = _load(recipe_file(task_name, search, seed)), make_task(task_config(task_name))
    space = PolicySpace(search_config(search, task_name).policy, task.spec)
    normalisers = [
        Normaliser(int(count), mean, m2)
        for count, mean, m2 in zip(recipe["counts"], recipe["means"], recipe["m2s"], strict=True)
    ]
    policies = [
        space.policy(parameters, normaliser)
        for parameters, normaliser in zip(recipe["parameters"], normalisers, strict=True)
    ]
    episodes = _episodes(work / f"{task_name}-{search}-{seed}.npz", task, seed, policies, recipe)
    ends = np.cumsum(recipe["episodes"])
    queries = [
        StoredQuery(policy.parameters, policy.normaliser, str(role), int(iteration), episodes[end - count : end])
        for policy, role, iteration, count, end in zip(
            policies, recipe["roles"], recipe["iterations"], recipe["episodes"], ends, strict=True
        )
    ]
    return StoredRun(task, space, search, seed, queries)


def _episodes(cache: Path, task: Task, seed: int, policies: list[Policy], recipe: dict[str, Any]) -> list[Trajectory]:
    """Every episode of a recipe, in order, from the cache or from the simulator."""
    if not cache.exists():
        env = task.make_env()
        owners = [policy for policy, count in zip(policies, recipe["episodes"], strict=True) for _ in range(count)]
        rolled = [run_episode(env, policy, episode_seed(seed, number)) for number, policy in enumerate(owners)]
        _compare(rolled, recipe, "other physics (MuJoCo's version?)")
        _save(
            cache,
            lengths=[len(trajectory) for trajectory in rolled],
            terminated=[trajectory.terminated for trajectory in rolled],
            observations=np.concatenate([trajectory.observations for trajectory in rolled]),
            actions=np.concatenate([trajectory.actions for trajectory in rolled]),
            rewards=np.concatenate([trajectory.rewards for trajectory in rolled]),
        )
    episodes = _cut(_load(cache))
    _compare(episodes, recipe, f"{cache} belongs to another recipe; remove it")
    return episodes


def _compare(episodes: list[Trajectory], recipe: dict[str, Any], reason: str) -> None:
    returns = np.array([trajectory.total() for trajectory in episodes])
    stored = recipe["returns"]
    if returns.shape != stored.shape or not np.allclose(returns, stored, rtol=1e-6, atol=1e-6):
        raise SystemExit(f"the episodes have other returns than their recipe: {reason}")


def _cut(data: dict[str, Any]) -> list[Trajectory]:
    """Episodes that were stored one after the other."""
    episodes, end = [], 0
    for number, (length, terminated) in enumerate(zip(data["lengths"], data["terminated"], strict=True)):
        first, end = end, end + int(length)
        observations = data["observations"][first + number : end + number + 1]  # One more observation than steps.
        actions, rewards = data["actions"][first:end], data["rewards"][first:end]
        episodes.append(Trajectory(observations, actions, rewards, bool(terminated), not terminated))
    return episodes


def _save(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp.npz")
    np.savez_compressed(unfinished, **{name: np.array(values) for name, values in arrays.items()})
    unfinished.replace(path)


def _load(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--search", default="mpd")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=25)
    arguments = parser.parse_args()
    print(make_recipe(arguments.task, arguments.search, arguments.seed, arguments.iterations))


if __name__ == "__main__":
    main()
