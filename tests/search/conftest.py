"""What the tests of searches share: tiny tasks, tiny settings, and a driver that answers queries."""

import copy
import importlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import lqr_lab
import numpy as np
import pytest

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import GaussianProbes, MaximiseCriterion
from abps.acquisition.trace_reduction import TraceReduction
from abps.model import gp
from abps.model.fit import Effort
from abps.model.prior import AdvantagePrior, ConstantPrior
from abps.optimisers import confidence
from abps.policies.linear import ClippedLinear
from abps.rollouts.episode import run_episode
from abps.search import box
from abps.search.base import Query
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import make_search
from abps.seeding import integer_seed
from abps.settings import replace
from abps.steps.direction import ScaledDirection
from abps.steps.gradient import MeanGradient, NormalisedGradient
from abps.steps.walk import Walk
from abps.tasks.gym import Task, make_task
from abps.tasks.synthetic import SyntheticEnv, SyntheticFunction, synthetic_task
from abps.trajectory import Failed, Outcome, Trajectory

PARTS = ("plan", "probing", "prior", "step", "gp")
CRITICS = lqr_lab.SMALL_LSTD
SMALL = CentreThenProbes(centre_episodes=2, probes=3, window=6, design_std=0.03)
CONSTANT = LocalSearchConfig(policy=ClippedLinear(), prior=ConstantPrior(), plan=SMALL)
ADVANTAGE = replace(CONSTANT, prior=AdvantagePrior(critics=CRITICS), states=20)
ASCENT = MaximiseCriterion(ExpectedAscent(), start_std=0.03, starts=4)
CONFIGS = {
    "mpd": replace(CONSTANT, probing=ASCENT, step=Walk(max_steps=100)),
    "gibo": replace(CONSTANT, probing=replace(ASCENT, criterion=TraceReduction()), step=NormalisedGradient()),
    "abs": replace(ADVANTAGE, probing=ASCENT, step=ScaledDirection()),
    "ddpgn": replace(ADVANTAGE, probing=GaussianProbes(0.03), step=MeanGradient()),
}
"""The compositions of the recipes, small and pinned: these tests are not about which settings are best."""


@pytest.fixture(autouse=True)
def effort(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Few starts and iterations of both optimisers, for their quality is tested elsewhere; call it for others."""
    module = importlib.import_module("abps.acquisition.maximise")  # Its package has a function of the same name.

    def spend(*, starts: int = 3, polished: int = 1, iterations: int = 15) -> None:
        monkeypatch.setattr(gp, "FEW", Effort(starts=starts, polished=2, rounds=0, iterations=iterations))
        for name, count in (("THOROUGH", starts), ("WARM", 1)):
            monkeypatch.setattr(gp, name, Effort(starts=count, polished=1, rounds=0, iterations=iterations))
        monkeypatch.setattr(module, "POLISHED", polished)
        monkeypatch.setattr(module, "ITERATIONS", iterations)
        monkeypatch.setattr(confidence, "ITERATIONS", iterations // 3)
        monkeypatch.setattr(box, "EPISODES", 6)

    spend()
    return spend


class Lab:
    """A namespace: everything is a function of its arguments, so one session-wide object serves all tests."""

    lqr = staticmethod(lqr_lab.lqr)

    @staticmethod
    def synthetic(dimension: int = 4, seed: int = 0) -> Task:
        """A function drawn from a process, with few points of support so that it is made in no time."""
        config = synthetic_task(dimension, seed)
        settings = {name: getattr(config, name) for name in ("name", "gamma", "horizon", "reward_scale")}
        return make_task(SyntheticEnv(SyntheticFunction(dimension, seed, support=128)), **settings)

    @staticmethod
    def config(name: str, **changes: Any) -> Any:
        """Settings small enough for tests; a change goes to the search's own settings or to the part that knows it."""
        config = CONFIGS[name]
        for key, value in changes.items():
            known = {part: {item.name for item in fields(getattr(config, part))} for part in PARTS}
            home = "" if hasattr(config, key) else next(part for part in PARTS if key in known[part])
            change = {home: replace(getattr(config, home), **{key: value})} if home else {key: value}
            config = replace(config, **change)
        return config

    def search(self, name: str, task: Task, seed: int = 0, **changes: Any) -> Any:
        return make_search(name, task.spec, self.config(name, **changes), seed=seed)

    @staticmethod
    def outcomes(
        search: Any, task: Task, query: Query, fails: Callable[[Query, int], bool] = lambda query, number: False
    ) -> list[Outcome]:
        """The episodes of a query; their seeds follow from it alone, so that a resumed search meets the same ones."""
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
