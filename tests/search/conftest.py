"""What the tests of the local searches share: tiny tasks, tiny settings, and a driver that answers queries."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from abps.config import (
    AbsConfig,
    AcquisitionConfig,
    CriticsConfig,
    DdpgnConfig,
    GiboConfig,
    GpConfig,
    MpdConfig,
    TaskConfig,
    replace,
)
from abps.rollouts.episode import run_episode
from abps.search.base import Query
from abps.search.registry import make_search
from abps.seeding import integer_seed
from abps.tasks.gym import Task, make_task
from abps.tasks.lqr import make_env
from abps.tasks.synthetic import SyntheticEnv, SyntheticFunction, synthetic_task
from abps.trajectory import Failed, Outcome, Trajectory

CONFIGS = {"mpd": MpdConfig, "gibo": GiboConfig, "abs": AbsConfig, "ddpgn": DdpgnConfig}
CRITICS = CriticsConfig(
    members=3,
    groups=3,
    features=24,
    feature_kind="relu",
    feature_bias=1.0,
    ridges=(1e-3, 1e-2, 1e-1),
    transitions=1000,
    traces=(0.5,),
    discount_cut=0.5,
    replay=1500,
)
"""Pinned: these tests are not about which critics are best."""


class Lab:
    """A namespace: everything is a function of its arguments, so one session-wide object serves all tests."""

    @staticmethod
    def lqr(
        states: int = 2, actions: int = 1, *, horizon: int = 30, noise: float = 0.0, seed: int = 0, **changes: Any
    ) -> Task:
        """A small LQR with actions bounded at ±2, so that critics see them at a sensible scale."""
        env = make_env(states, actions, seed, fixed_start=noise == 0.0, noise=noise, horizon=horizon, action_bound=2.0)
        settings = {"gamma": 0.95, "horizon": horizon, "normalise": False, "policy": "direct", **changes}
        return make_task(env, name="lqr", **settings)

    @staticmethod
    def synthetic(dimension: int = 4, seed: int = 0, **changes: Any) -> Task:
        """A function drawn from a process, with few points of support so that it is made in no time."""
        env = SyntheticEnv(SyntheticFunction(dimension, seed, support=128))
        config: TaskConfig = synthetic_task(dimension, seed)
        names = ("gamma", "horizon", "reward_scale", "normalise", "policy")
        return make_task(env, name=config.name, **{**{name: getattr(config, name) for name in names}, **changes})

    @staticmethod
    def config(name: str, **changes: Any) -> Any:
        """Settings small enough for tests; nested groups can be given whole."""
        shared = {
            "centre_episodes": 2,
            "probes": 3,
            "window": 6,
            "design_std": 0.03,
            "gp": GpConfig(starts=3, polished=1, iterations=15),
            "acquisition": AcquisitionConfig(starts=4, polished=1, iterations=15),
        }
        if name in ("abs", "ddpgn"):
            shared |= {"states": 20, "critics": CRITICS}
        return replace(CONFIGS[name](**shared), **changes)

    def search(self, name: str, task: Task, seed: int = 0, **changes: Any) -> Any:
        return make_search(name, task.spec, self.config(name, **changes), seed=seed)

    @staticmethod
    def outcomes(search: Any, task: Task, query: Query, fails: Callable[[Query, int], bool]) -> list[Outcome]:
        """The episodes of a query; their seeds follow from the query alone, so that a resumed search meets the same ones."""
        env = task.make_env()
        return [
            Failed("told to")
            if fails(query, number)
            else run_episode(env, query.policy, integer_seed(search.seed, "test", query.id, number))
            for number in range(query.episodes)
        ]

    def stage(
        self, search: Any, task: Task, *, fails: Callable[[Query, int], bool] = lambda query, number: False
    ) -> tuple[list[Query], list[Trajectory], Any]:
        """Answer one whole stage; return its queries, the trajectories that worked, and the last metrics."""
        queries, told, metrics = search.open_queries(), [], None
        for query in queries:
            outcomes = self.outcomes(search, task, query, fails)
            told += [outcome for outcome in outcomes if isinstance(outcome, Trajectory)]
            metrics = search.tell(query, outcomes)
        return queries, told, metrics

    def run(self, search: Any, task: Task, stages: int, **options: Any) -> list[Trajectory]:
        """Answer so many stages; return all trajectories that worked, oldest first."""
        return [item for _ in range(stages) for item in self.stage(search, task, **options)[1]]

    def iterate(self, search: Any, task: Task, iterations: int = 1) -> dict[str, Any]:
        """Finish so many outer iterations; return the last metrics."""
        metrics: dict[str, Any] = {}
        while iterations:
            latest = self.stage(search, task)[2]
            if latest is not None:
                metrics, iterations = latest, iterations - 1
        return metrics

    @staticmethod
    def saved(search: Any, *, replay: bool = True) -> dict[str, Any]:
        """A state that later episodes cannot reach: the replay's arrays are views."""
        return copy.deepcopy(search.state(replay=replay))

    @staticmethod
    def difference(left: Any, right: Any, where: str = "state") -> str:
        """Where two states differ in a bit, or "" if nowhere."""
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return f"{where}: keys {sorted(left.keys() ^ right.keys())}"
            return next((d for key in left if (d := Lab.difference(left[key], right[key], f"{where}.{key}"))), "")
        if isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return f"{where}: {len(left)} and {len(right)} entries"
            pairs = enumerate(zip(left, right, strict=True))
            return next((d for number, (a, b) in pairs if (d := Lab.difference(a, b, f"{where}.{number}"))), "")
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            one, two = np.asarray(left), np.asarray(right)
            same = one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
            return "" if same else where
        same = type(left) is type(right) and (left == right or (left != left and right != right))
        return "" if same else f"{where}: {left!r} and {right!r}"


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
