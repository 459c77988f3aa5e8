"""Golden journals: what abps 0.1.0 (commit db8d57b, before searches became compositions of parts) asked for.

A journal names the old command line, the versions it ran under, and per episode the query's id, role and iteration, the
checksum and norm of its parameters, the return and the number of steps. `settings_of` says the same settings in today's
words; `replay` runs a search against the same environment with the same seeds, and gives the same columns.
benchmarks/golden has the longer journals, and how all of them were made.
"""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from abps.critics.lstd_config import Lstd, Quadratic, Relu, Split
from abps.model.aggregation import Best, Marginal, Mean, Single, Softmax
from abps.rollouts.episode import run_episode
from abps.run.directory import stamp_versions
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.registry import make_search, search_config
from abps.seeding import integer_seed
from abps.settings import replace
from abps.tasks.catalogue import task_config
from abps.tasks.gym import make_task

MATCHED = ("numpy", "scipy", "mujoco", "cpu")
"""What must be the same for floating-point numbers to be the same to the last bit."""

AGGREGATIONS = {
    "softmax": Softmax(),
    "mean": Mean(),
    "best": Best(),
    "single": Single(),
    "evidence": Marginal(total=0.0),
}
FEATURES = {"split": Split(size=64), "relu": Relu(size=64), "quadratic": Quadratic()}


class Row(NamedTuple):
    """One episode of a journal."""

    query: int
    role: str
    iteration: int
    parameters_crc: int
    parameters_norm: float
    value: float
    """Its undiscounted return."""
    steps: int


class Golden(NamedTuple):
    """A recorded journal."""

    name: str
    options: dict[str, str]
    """The old command line: `task`, and its options without the dashes."""
    versions: dict[str, str]
    rows: list[Row]


def load(path: Path) -> Golden:
    """Read a journal."""
    document = json.loads(path.read_text())
    task, *words = document["arguments"]
    options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    return Golden(
        path.stem, {"task": task, **options}, document["versions"], [Row(*row) for row in document["episodes"]]
    )


def exact_here(golden: Golden) -> bool:
    """Whether this machine and its libraries are those of the recording, which let OpenBLAS choose its kernels."""
    here = stamp_versions()
    return "OPENBLAS_CORETYPE" not in os.environ and all(here[name] == golden.versions[name] for name in MATCHED)


def settings_of(golden: Golden) -> SearchConfig:
    """The settings of the old command line in today's words."""
    options = golden.options
    config: Any = search_config(options["search"], options["task"], options["preset"])
    if "window" in options:
        config = replace(
            config, plan=replace(config.plan, window=int(options["window"]), probes=int(options["probes"]))
        )
    if options.get("critics.kind") == "lstd":
        features = FEATURES[options.get("critics.feature-kind", "split")]
        config = replace(config, prior=replace(config.prior, critics=Lstd(features=features, members=5)))
    if "critics.width" in options:
        names = ("width", "members", "steps-first", "steps-probe", "steps-centre")
        small = {name.replace("-", "_"): int(options[f"critics.{name}"]) for name in names}
        config = replace(config, prior=replace(config.prior, critics=replace(config.prior.critics, **small)))
    if "aggregation" in options:
        prior = replace(config.prior, aggregation=AGGREGATIONS[options["aggregation"]])
        config = replace(config, prior=prior, states=int(options["states"]))
    return config


def replay(golden: Golden, config: SearchConfig | None = None, episodes: int | None = None) -> Iterator[Row]:
    """Run the search of a journal anew, one row per episode, until its budget or after `episodes`."""
    options = golden.options
    seed = int(options["seed"])
    task = make_task(task_config(options["task"]))
    env = task.make_env()
    budget = BudgetConfig(episodes=int(options["episodes"]))
    search = make_search(options["search"], task.spec, config or settings_of(golden), seed=seed, budget=budget)
    done = 0
    try:
        with threadpool_limits(1):
            while not search.stop():
                query, outcomes = search.ask(), []
                crc, norm = zlib.crc32(query.parameters.tobytes()), float(np.linalg.norm(query.parameters))
                for _ in range(query.episodes):
                    trajectory = run_episode(env, query.policy, integer_seed(seed, "episode", done, 0))
                    outcomes.append(trajectory)
                    yield Row(query.id, query.role, query.iteration, crc, norm, trajectory.total(), len(trajectory))
                    done += 1
                    if done == episodes:
                        return
                search.tell(query, outcomes)
    finally:
        env.close()
