"""Ask and tell: what is refused, what is counted, when there is a reason to stop; the table of searches."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from abps.errors import ConfigError, ShapeError
from abps.policies.linear import LinearTanh
from abps.policies.observations import RawObservations
from abps.search.ars import ArsConfig
from abps.search.base import Answer, Metrics, Proposal, Search
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearchConfig
from abps.search.registry import SEARCHES, make_search, register_search, search_config
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

SPEC = TaskSpec("toy", 2, 1, (-1.0,), (1.0,), horizon=5)
CONFIG = ArsConfig(policy=LinearTanh(), observations=RawObservations(), directions=1, top=1)


@dataclass
class Moves:
    """How often the centre moved."""

    count: int = 0


class Scripted(Search[ArsConfig]):
    """Runs its centre twice per outer iteration and moves one step to the right; nothing is learned."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.memory = Moves()

    def _propose(self) -> list[Proposal]:
        return [Proposal(self.centre, "centre", 2)]

    def _learn(self, stage: list[Answer]) -> Metrics:
        returns = [trajectory.total() for trajectory in stage[0].trajectories]
        if returns:
            self._note_centre(float(np.mean(returns)))
        self.progress.centre = self.centre + np.array([0.1, 0.0])
        self.memory.count += 1
        return {}


def episode(total: float = 1.0, steps: int = 3, sizes: tuple[int, int] = (2, 1)) -> Trajectory:
    rewards = np.full(steps, total / steps)
    return Trajectory.build(
        np.zeros((steps + 1, sizes[0])), np.zeros((steps, sizes[1])), rewards, terminated=True, truncated=False
    )


def threads() -> set[int]:
    """The threads of the libraries of linear algebra."""
    return {item["num_threads"] for item in threadpool_info() if item["user_api"] == "blas"}


def scripted(**budget: Any) -> Scripted:
    return Scripted(SPEC, CONFIG, budget=BudgetConfig(**budget), name="scripted")


def test_asking_twice_gives_the_same_query() -> None:
    search = scripted()
    assert search.ask() is search.ask()
    assert search.open_queries() == [search.ask()]


@pytest.mark.parametrize(
    ("outcomes", "error", "message"),
    [
        ([episode()], ConfigError, "asked for 2 episodes, 1 outcome came"),
        ([episode(), "three"], ShapeError, "outcome 1 is a str, expected a Trajectory or Failed"),
        (
            [episode(), episode(sizes=(3, 1))],
            ShapeError,
            "outcome 1 has 3 observations and 1 actions per step; the task has 2 and 1",
        ),
    ],
)
def test_wrong_outcomes_are_refused_and_change_nothing(outcomes: Any, error: Any, message: str) -> None:
    search = scripted()
    query = search.ask()
    with pytest.raises(error, match=message):
        search.tell(query, outcomes)
    assert search.ask() is query
    assert (search.progress.episodes, search.progress.steps) == (0, 0)


def test_a_query_is_told_once() -> None:
    search = scripted()
    query = search.ask()
    search.tell(query, [episode(), episode()])
    with pytest.raises(ConfigError, match=r"query 0 is not open; open are \[1\]. Was it told already"):
        search.tell(query, [episode(), episode()])


def test_answers_of_one_stage_may_come_in_any_order() -> None:
    def finish(order: list[int]) -> np.ndarray:
        search = make_search("ars", SPEC, ArsConfig(observations=RawObservations(), directions=2, top=2), seed=3)
        queries = search.open_queries()
        for index in order:
            search.tell(queries[index], [episode(float(index))])
        return search.incumbent.parameters

    assert np.array_equal(finish([0, 1, 2, 3]), finish([3, 1, 0, 2]))
    assert np.linalg.norm(finish([0, 1, 2, 3])) > 0.0


def test_every_episode_is_counted_and_failures_never_become_best() -> None:
    search = scripted()
    search.tell(search.ask(), [episode(2.0, steps=3), Failed("slipped")])
    search.tell(search.ask(), [Failed("slipped"), Failed("again")])
    metrics = search.tell(search.ask(), [episode(1.0, steps=2), episode(1.5, steps=2)])
    progress = search.progress
    assert (progress.episodes, progress.steps, progress.failures) == (6, 7, 3)
    result = search.result()
    assert result.best_return == pytest.approx(2.0)
    assert np.array_equal(result.best.parameters, np.zeros(2))
    assert np.allclose(result.incumbent.parameters, [0.3, 0.0])
    assert metrics is not None
    assert metrics["centre_return"] == pytest.approx(1.25)
    assert [record["iteration"] for record in result.history] == [0, 1, 2]


def test_nothing_told_is_a_result_too() -> None:
    result = scripted().result()
    assert result.best_return == -np.inf
    assert np.array_equal(result.best.parameters, np.zeros(2))


@pytest.mark.parametrize(
    ("budget", "totals", "reason"),
    [
        ({"episodes": 4}, [1.0, 1.0], {"episodes": "4 of 4 episodes are used"}),
        ({"steps": 12}, [1.0, 1.0], {"steps": "12 of 12 environment steps are used"}),
        ({"target": 3.0}, [1.0, 3.0], {"target": "a centre returned 3, the target is 3"}),
        ({"plateau": 2}, [1.0, 2.0, 2.0], {"plateau": "no better centre for 2 outer iterations"}),
    ],
)
def test_every_reason_to_stop(budget: dict[str, Any], totals: list[float], reason: dict[str, str]) -> None:
    search, endless = scripted(**budget), scripted()
    for total in totals:
        assert search.stop() == {}
        for told in (search, endless):
            told.tell(told.ask(), [episode(total), episode(total)])
    assert search.stop() == reason
    assert endless.stop() == {}


def test_a_search_that_never_runs_its_centre_has_no_plateau() -> None:
    search = make_search("ars", SPEC, CONFIG, budget=BudgetConfig(plateau=1))
    for _ in range(3):
        for query in search.open_queries():
            search.tell(query, [episode()])
    assert search.stop() == {}


def test_a_state_is_saved_between_stages_and_fits_its_search_only() -> None:
    search = make_search("ars", SPEC, CONFIG, seed=3)
    state = search.state()
    assert search.between_stages
    search.tell(search.ask(), [episode()])
    assert not search.between_stages
    with pytest.raises(ConfigError, match="between stages only"):
        search.state()
    with pytest.raises(ConfigError, match="saved by seed 3, not 4"):
        make_search("ars", SPEC, CONFIG, seed=4).load(state)
    with pytest.raises(ConfigError, match="saved by search 'ars', not 'scripted'"):
        Scripted(SPEC, CONFIG, seed=3, name="scripted").load(state)
    wider = TaskSpec("toy", 3, 1, (-1.0,), (1.0,))
    with pytest.raises(ShapeError, match=r"centre has shape \(2,\), the policy needs \(3,\)"):
        make_search("ars", wider, CONFIG, seed=3).load(state)


def test_a_state_holds_progress_and_memory_and_is_no_view_of_them() -> None:
    search, copy = scripted(), scripted()
    search.tell(search.ask(), [episode(2.0), Failed("slipped")])
    state = search.state()
    assert state["memory"] == {"count": 1}
    assert state["progress"]["episodes"] == 2
    search.tell(search.ask(), [episode(3.0), episode(3.0)])
    assert (state["memory"]["count"], state["progress"]["episodes"]) == (1, 2)
    copy.load(state)
    copy.tell(copy.ask(), [episode(3.0), episode(3.0)])
    assert copy.memory == search.memory == Moves(2)
    assert (copy.progress.episodes, copy.progress.failures, copy.progress.best_centre) == (4, 1, 3.0)
    assert copy.result().best_return == search.result().best_return == 3.0
    assert state["progress"]["best"]["value"] == 2.0


def test_an_open_query_is_asked_again_after_loading() -> None:
    """The state stands before the stage that was asked for but not told: its number is given out again."""
    search, copy = scripted(), scripted()
    query = search.ask()
    copy.load(search.state())
    assert copy.ask().id == query.id == 0
    assert search.ask() is query


def test_wrong_makings_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown search 'bbo'; known: abs, mpd"):
        search_config("bbo")
    with pytest.raises(ConfigError, match="unknown search 'giboo'; did you mean 'gibo'"):
        make_search("giboo", SPEC)
    with pytest.raises(ConfigError, match="unknown preset 'gpu'; did you mean 'cpu'"):
        search_config("ars", preset="gpu")
    with pytest.raises(ConfigError, match="search 'ars' takes ArsConfig, got LocalSearchConfig"):
        make_search("ars", SPEC, LocalSearchConfig())
    with pytest.raises(ConfigError, match="seed must not be negative"):
        make_search("ars", SPEC, seed=-1)
    with pytest.raises(ConfigError, match="there is a search 'ars' already"):
        register_search("ars", lambda task, preset: CONFIG)
    with pytest.raises(ConfigError, match="search"):
        search_config("abps.state:NoMemory")
    assert all(entry.summary for entry in SEARCHES.values())


def test_a_search_can_be_made_from_settings_alone() -> None:
    """Its name is then the kind of its settings."""
    search = make_search(CONFIG, SPEC, seed=2)
    assert (search.name, search.seed, search.config) == ("ars", 2, CONFIG)
    assert isinstance(search_config("abps.search.ars:ArsConfig"), ArsConfig)


def test_a_search_thinks_with_one_thread_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last digits of a product depend on the threads; `abps.train` has one, so ask and tell have one, too."""
    search, seen = scripted(), []
    for name in ("_propose", "_learn"):
        original = getattr(Scripted, name)
        monkeypatch.setattr(
            Scripted, name, lambda self, *stage, original=original: (seen.append(threads()), original(self, *stage))[1]
        )
    with threadpool_limits(2):
        if threads() != {2}:
            pytest.skip("the linear algebra here has one thread")
        query = search.ask()
        search.tell(query, [episode(), episode()])
        assert threads() == {2}
    assert seen == [{1}, {1}]
