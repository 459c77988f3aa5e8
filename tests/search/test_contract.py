"""What holds for every search in the registry, on a small linear-quadratic task; two are registered by the test itself.

Every search starts from its recipe, made smaller where it has the numbers for that. None is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.policies.base import PolicyClass
from abps.policies.linear import LinearTanh
from abps.policies.observations import Observations, RawObservations, RunningNormaliser
from abps.registry import KINDS, find
from abps.run.checkpoint import checkpoint_paths, load_checkpoint, save_checkpoint
from abps.search.base import ROLES, Answer, Metrics, Proposal, Search, SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearchConfig
from abps.search.registry import SEARCHES, make_search, register_search, search_config
from abps.seeding import episode_seed, generator
from abps.settings import replace, setting
from abps.steps.base import Move, StepInput, StepRule
from abps.tasks.spec import TaskSpec
from abps.testing import check_search
from abps.trajectory import Failed

SMALLER = {
    "directions": 3, "top": 2, "step": 0.05, "noise": 0.05, "centre_episodes": 2, "probes": 3, "window": 6, "starts": 4,
    "max_steps": 100, "members": 3, "replay": 1500, "transitions": 1000, "size": 24,
    "candidates": 40, "functions": 20, "first_points": 4, "refit": 8, "features": 5, "hidden": (3,),
}  # fmt: skip
"""Numbers by the name of their setting, wherever a search has it."""


# ---- searches of the test's own ----------------------------------------


@dataclass
class Found:
    """The best return so far, and where all better ones were."""

    value: float = -np.inf
    places: list[Array] = field(default_factory=list)


@dataclass(frozen=True)
class HillClimberConfig(SearchConfig):
    """Two random neighbours per outer iteration; the centre goes to the better one if it is the best so far."""

    policy: PolicyClass = setting(LinearTanh(), "class of policies")
    observations: Observations = setting(RunningNormaliser(), "what policies see")
    reward_shift: float = setting(0.0, "subtracted from every reward")
    std: float = setting(0.05, "standard deviation of a neighbour")

    def make(
        self, spec: TaskSpec, *, seed: int = 0, budget: BudgetConfig | None = None, name: str = ""
    ) -> "HillClimber":
        return HillClimber(spec, self, seed=seed, budget=budget, name=name)


class HillClimber(Search[HillClimberConfig]):
    def __init__(self, spec: TaskSpec, config: HillClimberConfig, **options: Any) -> None:
        super().__init__(spec, config, **options)
        self.memory = Found()

    def _propose(self) -> list[Proposal]:
        moves = self.config.std * generator(self.seed, "hill", self.iteration).standard_normal((2, self.policies.size))
        return [Proposal(self.centre + move, "direction") for move in moves]

    def _learn(self, stage: list[Answer]) -> Metrics:
        worked = [answer for answer in stage if answer.trajectories]
        values = [self.objective.total(answer.trajectories[0]) for answer in worked]
        if values and max(values) > self.memory.value:
            self.progress.centre = worked[int(np.argmax(values))].query.parameters
            self.memory.value, self.memory.places = max(values), [*self.memory.places, self.centre]
        return {"best_value": self.memory.value if self.memory.places else None}


@dataclass
class Velocity:
    moved: Array | None = None


@dataclass(frozen=True)
class Momentum(StepRule):
    """Along μ with half of the last move added: a step rule that remembers something."""

    length: float = setting(0.02, "length of the part along μ")
    memory_type = Velocity

    def __call__(self, given: StepInput) -> Move:
        theta, mu = given.model.neighbourhood.theta, given.model.posterior.mu
        move = self.length * mu / max(float(np.linalg.norm(mu)), 1e-12)
        if given.memory.moved is not None:
            move = move + 0.5 * given.memory.moved
        return Move(theta + move, {"momentum": float(np.linalg.norm(move))}, Velocity(move))


def hill_climber(task: str, preset: str) -> SearchConfig:
    """A search of the test's own."""
    return HillClimberConfig()


def with_momentum(task: str, preset: str) -> SearchConfig:
    """A local search with a step rule of the test's own."""
    return LocalSearchConfig(observations=RawObservations(), step=Momentum())


STRANGERS = {"hill-climber": hill_climber, "with-momentum": with_momentum}
pytestmark = pytest.mark.parametrize("name", [*SEARCHES, *STRANGERS])


@pytest.fixture(autouse=True)
def strangers() -> Iterator[None]:
    """Known for the duration of a test."""
    for name, recipe in STRANGERS.items():
        register_search(name, recipe)
    yield
    for name in STRANGERS:
        del SEARCHES[name]


# ---- the contract ----------------------------------------


def smaller(part: Any) -> Any:
    """A part, and the parts it is made of, with the numbers of `SMALLER`."""
    changes: dict[str, Any] = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if is_dataclass(value):
            changes[item.name] = smaller(value)
        elif item.name in SMALLER and isinstance(value, int | float | tuple):
            changes[item.name] = SMALLER[item.name]
    return replace(part, **changes)


def make(name: str, task: Any, seed: int = 0, **options: Any) -> Any:
    return make_search(name, task.spec, smaller(search_config(name, task.spec.name)), seed=seed, **options)


def test_every_query_has_the_seeds_of_its_episodes(name: str, lab: Any) -> None:
    """Numbered in the order of the queries, as `abps train` numbers them; the same for a search made again."""
    task = lab.lqr()
    search, again, seeds = make(name, task, seed=3), make(name, task, seed=3), []
    for _ in range(3):
        queries = search.open_queries()
        assert [query.seeds for query in queries] == [query.seeds for query in again.open_queries()]
        assert all(len(query.seeds) == query.episodes for query in queries)
        seeds += [seed for query in queries for seed in query.seeds]
        for query in queries:
            search.tell(query, lab.outcomes(search, task, query))
        for query in reversed(again.open_queries()):  # In another order: seeds do not depend on it.
            again.tell(query, lab.outcomes(again, task, query))
    assert seeds == [episode_seed(3, number) for number in range(len(seeds))]
    assert make(name, task, seed=4).ask().seeds[0] != seeds[0]


def test_a_search_can_start_elsewhere(name: str, lab: Any) -> None:
    """Its first policies lie around the given one, also after its state was saved and loaded."""
    task = lab.lqr()
    search, usual = make(name, task), make(name, task)
    start = np.full(search.centre.size, 5.0)
    search.start_from(start)
    np.testing.assert_array_equal(search.result().incumbent.parameters, start)
    loaded = make(name, task)
    loaded.load(search.state())
    distances = [np.linalg.norm(query.parameters - start) for query in loaded.open_queries()]
    assert max(distances) < 0.5 * np.linalg.norm(start)
    assert min(np.linalg.norm(query.parameters - start) for query in usual.open_queries()) > max(distances)
    assert [query.parameters.tolist() for query in search.open_queries()] == [
        query.parameters.tolist() for query in loaded.open_queries()
    ]
    with pytest.raises(ConfigError, match="before its first query"):
        search.start_from(start)
    with pytest.raises(ShapeError, match="finite numbers to start from"):
        make(name, task).start_from(start[1:])


def test_queries_are_well_formed(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(name, task)
    assert search.name == name
    seen: list[int] = []
    for _ in range(3):
        queries = search.open_queries()
        assert queries
        assert search.ask() is queries[0]
        for query in queries:
            assert query.role in ROLES
            assert query.episodes >= 1
            assert query.iteration == search.iteration
            assert query.parameters.shape == (search.policies.size,)
            assert np.all(np.isfinite(query.parameters))
            assert np.array_equal(query.policy.parameters, query.parameters)
        seen += [query.id for query in queries]
        lab.stage(search, task)
    assert seen == list(range(len(seen)))


def test_the_same_seed_gives_the_same_search_and_another_does_not(name: str, lab: Any) -> None:
    task = lab.lqr()
    searches = [make(name, task, seed) for seed in (0, 0, 1)]
    for search in searches:
        lab.iterate(search, task, 2)
    first, second, third = (lab.saved(search) for search in searches)
    assert lab.difference(first, second) == ""
    assert not np.array_equal(first["progress"]["centre"], third["progress"]["centre"])


def test_a_state_saved_and_loaded_goes_on_bit_for_bit(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(name, task)
    lab.iterate(search, task, 1)
    lab.stage(search, task)
    copy = make(name, task)
    copy.load(lab.saved(search))
    for other in (search, copy):
        lab.iterate(other, task, 2)
    assert lab.difference(lab.saved(search), lab.saved(copy)) == ""


@pytest.mark.parametrize("kind", KINDS["policy"])
def test_every_class_of_policies_goes_on_bit_for_bit(name: str, kind: str, lab: Any) -> None:
    """Saved and loaded between any two stages, with failures among the episodes."""
    task = lab.lqr()
    config: Any = smaller(search_config(name, task.spec.name))
    check_search(replace(config, policy=smaller(find("policy", kind)())), task)


def test_a_state_is_of_plain_types_and_survives_a_checkpoint(name: str, lab: Any, tmp_path: Path) -> None:
    """Nested dictionaries, lists, arrays and scalars, and nothing else; a file gives them back bit for bit."""

    def check(value: Any, where: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                assert type(key) is str, where
                check(item, f"{where}.{key}")
        elif type(value) is list:
            for number, item in enumerate(value):
                check(item, f"{where}.{number}")
        else:
            assert type(value) in (np.ndarray, int, float, bool, str, type(None)), f"{where}: {type(value)}"
            assert not isinstance(value, np.ndarray) or value.dtype.kind in "fiub", f"{where}: {value.dtype}"

    task = lab.lqr()
    search, copy = make(name, task), make(name, task)
    for stages in (0, 1, 2):
        lab.run(search, task, stages, fails=lambda query, number: query.id % 5 == 3)
        state = lab.saved(search)
        check(state, "state")
        save_checkpoint(tmp_path / "checkpoint", stages, state)
    episodes, loaded = load_checkpoint(checkpoint_paths(tmp_path / "checkpoint")[0])
    assert episodes == 2
    assert lab.difference(state, loaded) == ""
    copy.load(loaded)
    assert lab.difference(lab.saved(copy), loaded) == ""
    for other in (search, copy):
        lab.run(other, task, 2)
    assert lab.difference(lab.saved(search), lab.saved(copy)) == ""


def test_metrics_and_history_agree(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(name, task)
    metrics = lab.iterate(search, task, 2)
    assert search.iteration == 2
    untimed = {key: value for key, value in metrics.items() if not key.startswith("seconds")}
    assert lab.difference(untimed, search.result().history[-1]) == ""
    assert metrics["episodes"] == search.progress.episodes
    assert metrics["steps"] == search.progress.steps


def test_it_stops_when_its_budget_is_used(name: str, lab: Any) -> None:
    task = lab.lqr(horizon=5)
    search = make(name, task, budget=BudgetConfig(episodes=10))
    last = 0
    while not search.stop():
        query = search.ask()
        search.tell(query, lab.outcomes(search, task, query))
        last = query.episodes
    assert set(search.stop()) == {"episodes"}
    assert 10 <= search.episodes < 10 + last


def test_failed_episodes_are_survived(name: str, lab: Any) -> None:
    """Every third episode fails: the search goes on, counts them, and never takes one for its best."""
    task = lab.lqr()
    search = make(name, task)

    def fails(query: Any, number: int) -> bool:
        return (query.id + number) % 3 == 2

    while search.iteration < 2:
        lab.stage(search, task, fails=fails)
    assert search.progress.failures > 0
    assert np.isfinite(search.result().best_return)
    assert np.all(np.isfinite(search.incumbent.parameters))


def test_only_failures_change_nothing_but_the_counts(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(name, task)
    for _ in range(3):
        for query in search.open_queries():
            search.tell(query, [Failed("no power")] * query.episodes)
    assert search.result().best_return == -np.inf
    assert search.progress.failures == search.episodes > 0
    assert np.all(np.isfinite(search.incumbent.parameters))


def test_told_trajectories_are_never_written_to(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(name, task)
    while search.iteration < 1:
        for query in search.open_queries():
            outcomes = lab.outcomes(search, task, query)
            for trajectory in outcomes:
                for array in (trajectory.observations, trajectory.actions, trajectory.rewards):
                    array.flags.writeable = False  # Whoever writes to it now raises.
            search.tell(query, outcomes)
