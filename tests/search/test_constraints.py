"""Constraints of a task (`search/constraints.py`): every query of every search keeps them under the model."""

import copy
from typing import Any

import numpy as np
import pytest

import abps
from abps.errors import ShapeError
from abps.normaliser import Normaliser
from abps.policies.path import between
from abps.search import constraints as module
from abps.search.constraints import ConstraintKeeper
from abps.search.registry import SEARCHES, make_search, search_config
from abps.settings import replace
from abps.tasks.constraints import Constraint
from abps.tasks.limits import Limits
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

HORIZON = 12
WALL = Constraint("wall", 1.0, 0.9)
SPEC = TaskSpec("arm", 2, 1, (-1.0,), (1.0,), horizon=HORIZON, constraints=(WALL,))
TWO = replace(SPEC, constraints=(WALL, Constraint("energy", 2.0, 0.8, "sum")))
QUICK = ("abs", "mpd", "ars", "cma")


def episode(policy: Any, seed: int, crash: float = np.inf, spec: TaskSpec = SPEC) -> Any:
    """A point pushed about by its policy, which is rewarded for going to the right; the wall is there as well."""
    rng = np.random.default_rng(seed)
    act, state, rows, actions = policy.start(), np.array([0.3, 0.02 * rng.normal()]), [], []
    for _ in range(HORIZON):
        rows.append(state.copy())
        actions.append(act(state))
        state = np.array([state[0] + 0.1 * float(actions[-1][0]), 0.02 * rng.normal()])
    rows.append(state)
    place, force = np.array(rows)[1:, 0], np.array(actions)[:, 0]
    if np.abs(place).max() > crash:
        return Failed("hit the wall")
    costs = np.column_stack([np.abs(place), force**2])[:, : len(spec.constraints)]
    return Trajectory.build(rows, actions, place, terminated=False, truncated=True, costs=costs)


def places(query: Any) -> Any:
    """All parameters (m, d) that an episode of the query uses."""
    policy = query.policy
    return policy.parameters[None] if policy.path is None else between(policy.path.knots)


def train(search: Any, episodes: int, crash: float = np.inf, check: bool = False) -> list[Any]:
    """Tell so many episodes; every query is compared with the process that it was asked under."""
    queries: list[Any] = []
    while search.episodes < episodes:
        for query in search.open_queries():
            if check and search.constraints.memory.recent:
                assert_safe(search, query)
            queries.append(query)
            spec = search.spec
            search.tell(query, [episode(query.policy, seed, crash, spec) for seed in query.seeds])
    return queries


def assert_safe(search: Any, query: Any) -> None:
    keeper, normaliser = search.constraints, query.policy.normaliser
    tried = keeper._near(0, normaliser)[0].parameters
    everything = np.vstack([search.centre, tried])
    highest = float(keeper.safety(everything, normaliser).max())
    level = 0.0 if highest >= 0 else highest - module.LEEWAY
    assert keeper.safety(places(query), normaliser).min() >= level - 1e-6


def eager(name: str, spec: TaskSpec = SPEC, seed: int = 3) -> Any:
    """A search with few episodes an iteration, whose probes and steps are long."""
    config: Any = search_config(name, spec.name)
    if name == "abs":
        plan = replace(config.plan, first_paths=2, scouts=1, path_size=0.5)
        config = replace(config, plan=plan, step=replace(config.step, first_length=1.0, longest=3.0))
    elif hasattr(config, "plan"):
        config = replace(config, plan=replace(config.plan, centre_episodes=1, probes=2, window=4, design_std=2.0))
        config = replace(config, probing=replace(config.probing, starts=2))
    elif hasattr(config, "noise"):
        config = replace(config, noise=2.0, step=2.0, directions=2, top=2)
    elif hasattr(config, "strategy"):
        config = replace(config, strategy=replace(config.strategy, population=4, sigma=2.0))
    return make_search(name, spec, config, seed=seed)


@pytest.mark.parametrize("name", QUICK)
def test_every_query_is_safe_under_the_model(name: str) -> None:
    search = eager(name)
    train(search, 16, check=True)
    assert any(np.any(search.constraints.memory.tried[k].costs) for k in range(3)), "no costs: no test"


def test_what_is_not_safe_is_brought_back_until_it_is() -> None:
    """Negative control of the test above: far policies are not safe, and the keeper returns nearer ones."""
    search = eager("mpd")
    first = search.ask()
    search.tell(first, [episode(first.policy, seed) for seed in first.seeds])
    keeper, normaliser, rng = search.constraints, search.normaliser, np.random.default_rng(0)
    for parameters in 20.0 * rng.normal(size=(4, search.policies.size)):
        wanted = search.policies.policy(parameters, normaliser)
        kept = keeper.within(wanted, search.centre).parameters
        assert keeper.safety(parameters[None], normaliser)[0] < 0.0 <= keeper.safety(kept[None], normaliser)[0] + 1e-6
        way = (kept - search.centre) @ (parameters - search.centre) / np.sum((parameters - search.centre) ** 2)
        np.testing.assert_allclose(kept, search.centre + way * (parameters - search.centre), atol=1e-9)
        assert 0.0 <= way < 1.0


def test_it_breaks_the_limit_less_often_and_still_learns() -> None:
    broken, last = {}, {}
    for spec in (SPEC, replace(SPEC, constraints=())):
        search = eager("abs", spec)
        queries = train(search, 32)
        costs = [np.abs(episode(query.policy, 7).costs[:, 0]).max() > WALL.limit for query in queries]
        key = bool(spec.constraints)
        broken[key], last[key] = float(np.mean(costs[10:])), episode(search.incumbent, 1).total()
    assert broken[True] < 0.25 < 0.5 < broken[False]
    assert last[True] > episode(make_search("abs", SPEC).ask().policy, 1).total() + 1.0


@pytest.mark.parametrize("name", SEARCHES)
def test_before_anything_is_known_only_the_start_is_run(name: str) -> None:
    search = make_search(name, SPEC, seed=1)
    start = search.centre.copy()
    queries = search.open_queries()
    assert [np.array_equal(query.parameters, start) for query in queries] == [True]
    assert queries[0].policy.path is None


def test_a_crash_is_a_measurement_above_the_limit() -> None:
    keepers = []
    for outcome in (Failed("hit the wall"), None):
        search = eager("abs")
        first = search.ask()
        search.tell(first, [episode(first.policy, 0)])
        keeper: ConstraintKeeper = search.constraints
        aside = search.policies.policy(search.centre + 0.4, search.normaliser)
        keeper.saw(99, aside, [outcome or episode(search.incumbent, 1)], keeper.judged(aside), "probe", 0)
        keeper.learn(search.incumbent)
        keepers.append((keeper, aside))
    crashed, worked = (keeper.probability(aside.parameters, aside.normaliser) for keeper, aside in keepers)
    assert crashed < 0.5 < worked
    tried = keepers[0][0].memory.tried[-1]
    assert tried.crashes == 1
    assert tried.costs.shape == (0, 1)


def test_a_search_whose_every_episode_beyond_the_wall_crashes() -> None:
    failures = {}
    for spec in (SPEC, replace(SPEC, constraints=())):
        search = eager("abs", spec)
        train(search, 20, crash=WALL.limit)
        failures[bool(spec.constraints)] = search.progress.failures
        if spec.constraints:
            assert abs(episode(search.incumbent, 5).costs[:, 0]).max() <= WALL.limit
    assert failures[True] < failures[False]


def test_a_start_that_only_fails_is_asked_for_again() -> None:
    search = eager("abs")
    for _ in range(3):
        query = search.ask()
        assert np.array_equal(query.parameters, search.policies.initial())
        search.tell(query, [Failed("no power")] * query.episodes)


def test_the_best_policy_kept_the_constraints() -> None:
    search = eager("ars")
    train(search, 30)
    best, limits = search.result(), [item.limit for item in SPEC.constraints]
    assert np.abs(episode(best.best, 3).costs).max(axis=0)[0] <= limits[0]


@pytest.mark.parametrize("name", ["abs", "cma"])
def test_a_restored_search_goes_on_bit_for_bit(name: str) -> None:
    whole, resumed = eager(name, TWO), eager(name, TWO)
    train(whole, 12, crash=1.6)
    while not whole.between_stages:
        train(whole, whole.episodes + 1, crash=1.6)
    resumed.load(copy.deepcopy(whole.state()))
    mine, theirs = train(whole, 26, crash=1.6), train(resumed, 26, crash=1.6)
    for one, other in zip(mine, theirs, strict=True):
        assert (one.id, one.role) == (other.id, other.role)
        assert places(one).tobytes() == places(other).tobytes()
    assert whole.progress.history == resumed.progress.history
    assert [key for key in whole.parts if "constraint" in key] == [
        "constraints",
        "constraint wall",
        "constraint energy",
    ]


def test_two_constraints_and_limits_at_once() -> None:
    search = eager("abs", replace(TWO, limits=Limits(weights=0.8, action_change=(0.5,))))
    for query in train(search, 14):
        assert np.abs(places(query)).max() <= 0.8 * (1 + 1e-6)
    metrics = search.progress.history[-1]
    assert 0.0 <= metrics["step_safe"] <= 1.0
    assert 0.0 <= metrics["constraint_probability"] <= 1.0
    assert metrics["violations"] == search.constraints.memory.violations


def test_other_observations_than_before() -> None:
    """A running normaliser re-maps what was tried."""
    from abps.policies.observations import RunningNormaliser

    config: Any = replace(search_config("mpd", "arm"), observations=RunningNormaliser(remap=True))
    config = replace(config, plan=replace(config.plan, centre_episodes=1, probes=2, window=4))
    search: Any = make_search("mpd", SPEC, config, seed=0)
    train(search, 20)
    assert search.normaliser.count > 0
    assert isinstance(search.constraints.memory.normaliser, Normaliser)


def test_costs_that_do_not_fit_the_task_are_refused() -> None:
    search = eager("abs")
    query = search.ask()
    told = episode(query.policy, 0, spec=replace(SPEC, constraints=()))
    with pytest.raises(ShapeError, match="0 costs per step; the task has 1 constraint"):
        search.tell(query, [told])
    plain = abps.make_search("abs", replace(SPEC, constraints=()))
    assert plain.constraints is None
    assert not any("constraint" in name for name in plain.parts)
