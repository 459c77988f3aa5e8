"""What holds for every search in the registry, on a small linear-quadratic task."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from abps.config import ArsConfig, BudgetConfig
from abps.search.base import ROLES
from abps.search.registry import SEARCHES, make_search
from abps.trajectory import Failed

NAMES = [
    pytest.param(name, marks=[] if importlib.util.find_spec(entry.module) else pytest.mark.skip("not written yet"))
    for name, entry in SEARCHES.items()
]
pytestmark = pytest.mark.parametrize("name", NAMES)


def make(lab: Any, name: str, task: Any, seed: int = 0, **options: Any) -> Any:
    config = ArsConfig(step=0.05, noise=0.05, directions=3, top=2) if name == "ars" else lab.config(name)
    return make_search(name, task.spec, config, seed=seed, **options)


def test_queries_are_well_formed(name: str, lab: Any) -> None:
    task = lab.lqr(normalise=True)
    search = make(lab, name, task)
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
    searches = [make(lab, name, task, seed) for seed in (0, 0, 1)]
    for search in searches:
        lab.iterate(search, task, 2)
    first, second, third = (lab.saved(search) for search in searches)
    assert lab.difference(first, second) == ""
    assert not np.array_equal(first["centre"], third["centre"])


def test_a_state_saved_and_loaded_goes_on_bit_for_bit(name: str, lab: Any) -> None:
    task = lab.lqr(normalise=True)
    search = make(lab, name, task)
    lab.iterate(search, task, 1)
    lab.stage(search, task)
    copy = make(lab, name, task)
    copy.load(lab.saved(search))
    for other in (search, copy):
        lab.iterate(other, task, 1)
    assert lab.difference(lab.saved(search), lab.saved(copy)) == ""


def test_metrics_and_history_agree(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(lab, name, task)
    metrics = lab.iterate(search, task, 2)
    assert search.iteration == 2
    untimed = {key: value for key, value in metrics.items() if not key.startswith("seconds")}
    assert lab.difference(untimed, search.result().history[-1]) == ""
    assert metrics["episodes"] == search.episodes
    assert metrics["steps"] == search.steps


def test_it_stops_when_its_budget_is_used(name: str, lab: Any) -> None:
    task = lab.lqr(horizon=5)
    search = make(lab, name, task, budget=BudgetConfig(episodes=10))
    while not search.stop():
        query = search.ask()
        search.tell(query, lab.outcomes(search, task, query, lambda query, number: False))
    assert set(search.stop()) == {"episodes"}
    assert 10 <= search.episodes < 10 + query.episodes


def test_failed_episodes_are_survived(name: str, lab: Any) -> None:
    """Every third episode fails: the search goes on, counts them, and never takes one for its best."""
    task = lab.lqr()
    search = make(lab, name, task)

    def fails(query: Any, number: int) -> bool:
        return (query.id + number) % 3 == 2

    while search.iteration < 2:
        lab.stage(search, task, fails=fails)
    assert search.failures > 0
    assert np.isfinite(search.result().best_return)
    assert np.all(np.isfinite(search.incumbent.parameters))


def test_only_failures_change_nothing_but_the_counts(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(lab, name, task)
    for _ in range(3):
        for query in search.open_queries():
            search.tell(query, [Failed("no power")] * query.episodes)
    assert search.result().best_return == -np.inf
    assert search.failures == search.episodes > 0
    assert np.all(np.isfinite(search.incumbent.parameters))


def test_told_trajectories_are_never_written_to(name: str, lab: Any) -> None:
    task = lab.lqr()
    search = make(lab, name, task)
    while search.iteration < 1:
        for query in search.open_queries():
            outcomes = lab.outcomes(search, task, query, lambda query, number: False)
            for trajectory in outcomes:
                for array in (trajectory.observations, trajectory.actions, trajectory.rewards):
                    array.flags.writeable = False  # Whoever writes to it now raises.
            search.tell(query, outcomes)
