"""The contract of ask and tell: what is refused, what is counted, when there is a reason to stop."""

from typing import Any

import numpy as np
import pytest

from abps.config import ArsConfig, BudgetConfig, MpdConfig
from abps.errors import ConfigError, ShapeError
from abps.search.base import Answer, Metrics, Proposal, Search
from abps.search.registry import SEARCHES, make_search, search_entry
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

SPEC = TaskSpec("toy", 2, 1, (-1.0,), (1.0,), horizon=5, normalise=False)


class Scripted(Search[ArsConfig]):
    """Runs its centre twice per outer iteration and moves one step to the right; nothing is learned."""

    name = "scripted"

    def _propose(self) -> list[Proposal]:
        return [Proposal(self.centre, "centre", 2)]

    def _learn(self, stage: list[Answer]) -> Metrics:
        returns = [trajectory.total() for trajectory in stage[0].trajectories]
        if returns:
            self._note_centre(float(np.mean(returns)))
        self.centre = self.centre + np.array([0.1, 0.0])
        return {}

    def _state(self, replay: bool) -> dict[str, Any]:
        return {}

    def _load(self, state: dict[str, Any], trajectories: Any) -> None:
        pass


def episode(total: float = 1.0, steps: int = 3, sizes: tuple[int, int] = (2, 1)) -> Trajectory:
    rewards = np.full(steps, total / steps)
    return Trajectory.build(
        np.zeros((steps + 1, sizes[0])), np.zeros((steps, sizes[1])), rewards, terminated=True, truncated=False
    )


def scripted(**budget: Any) -> Scripted:
    return Scripted(SPEC, ArsConfig(), budget=BudgetConfig(**budget))


def test_asking_twice_gives_the_same_query() -> None:
    search = scripted()
    assert search.ask() is search.ask()
    assert search.open_queries() == [search.ask()]


@pytest.mark.parametrize(
    ("outcomes", "error", "message"),
    [
        ([episode()], ConfigError, "asked for 2 episodes, 1 outcomes came"),
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
    assert (search.episodes, search.steps) == (0, 0)


def test_a_query_is_told_once() -> None:
    search = scripted()
    query = search.ask()
    search.tell(query, [episode(), episode()])
    with pytest.raises(ConfigError, match=r"query 0 is not open; open are \[1\]. Was it told already"):
        search.tell(query, [episode(), episode()])


def test_answers_of_one_stage_may_come_in_any_order() -> None:
    def finish(order: list[int]) -> np.ndarray:
        search = make_search("ars", SPEC, ArsConfig(directions=2, top=2), seed=3)
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
    assert (search.episodes, search.steps, search.failures) == (6, 7, 3)
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
    search = scripted(**budget)
    for total in totals:
        assert search.stop() == {}
        search.tell(search.ask(), [episode(total), episode(total)])
    assert search.stop() == reason
    search.budget = BudgetConfig()
    assert search.stop() == {}


def test_a_search_that_never_runs_its_centre_has_no_plateau() -> None:
    search = make_search("ars", SPEC, ArsConfig(directions=1, top=1), budget=BudgetConfig(plateau=1))
    for _ in range(3):
        for query in search.open_queries():
            search.tell(query, [episode()])
    assert search.stop() == {}


def test_a_state_is_saved_between_stages_and_fits_its_search_only() -> None:
    search = make_search("ars", SPEC, ArsConfig(directions=1, top=1), seed=3)
    state = search.state()
    search.tell(search.ask(), [episode()])
    with pytest.raises(ConfigError, match="between stages only"):
        search.state()
    with pytest.raises(ConfigError, match="saved by seed 3, not 4"):
        make_search("ars", SPEC, ArsConfig(directions=1, top=1), seed=4).load(state)
    with pytest.raises(ConfigError, match="saved by search 'ars', not 'scripted'"):
        Scripted(SPEC, ArsConfig(), seed=3).load(state)
    wider = TaskSpec("toy", 3, 1, (-1.0,), (1.0,))
    with pytest.raises(ShapeError, match=r"centre has shape \(2,\), the policy needs \(3,\)"):
        make_search("ars", wider, ArsConfig(directions=1, top=1), seed=3).load(state)


def test_wrong_makings_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown search 'bbo'; known: abs, mpd"):
        search_entry("bbo")
    with pytest.raises(ConfigError, match="search 'ars' takes ArsConfig, got MpdConfig"):
        make_search("ars", SPEC, MpdConfig())
    with pytest.raises(ConfigError, match="seed must not be negative"):
        make_search("ars", SPEC, seed=-1)
    assert all(entry.summary for entry in SEARCHES.values())
