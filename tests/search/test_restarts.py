"""When an attempt is over, where the next one begins, and which policy is the current one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError
from abps.search.registry import search_config
from abps.search.restarts import CHAMPION, FAR, NEAR, ONWARD, Attempts, Belief, NoRestarts, RestartWhenStuck
from abps.settings import replace as changed
from abps.state import restore, save
from abps.tasks.constraints import Constraint
from abps.tasks.limits import Limits

RULE = RestartWhenStuck(patience=10, rise=0.1, certainty=0.8)
ORIGIN, GOOD, BETTER = np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 2.0])


def follow(rule: Any, beliefs: list[Belief], attempts: Attempts | None = None, every: int = 2, told: int = 0) -> list:
    """Verdicts of outer iterations of so many episodes each."""
    attempts, verdicts = attempts or Attempts(ORIGIN, risen=told), []
    for number, belief in enumerate(beliefs, start=1):
        verdicts.append(rule.judge(attempts, lambda belief=belief: belief, told + number * every))
        attempts = verdicts[-1].attempts
    return verdicts


def believed(value: float, parameters: np.ndarray = GOOD, deviation: float = 0.1) -> Belief:
    return Belief(parameters, value, deviation)


def test_without_restarts_nothing_is_asked_and_nothing_changes():
    def never() -> Belief:
        raise AssertionError("the belief costs a posterior")

    attempts = Attempts(ORIGIN)
    verdict = NoRestarts().judge(attempts, never, 1000)
    assert verdict.attempts is attempts
    assert (verdict.current, verdict.start) == (None, None)


def test_an_attempt_that_rises_goes_on_and_one_that_does_not_is_over():
    """A rise is a tenth of what was gained since the first policy: 5 % a step is one every other step."""
    rising = follow(RULE, [believed(1.0 + 0.05 * number) for number in range(40)])
    assert all(verdict.start is None for verdict in rising)
    stuck = follow(RULE, [believed(0.0), *[believed(1.0)] * 8])
    # Risen at 2 and 4 episodes told; ten later it is over.
    assert [verdict.start is not None for verdict in stuck] == [False] * 6 + [True, False, False]
    assert np.array_equal(stuck[6].start, ORIGIN)
    creeping = follow(RULE, [believed(0.0), *[believed(1.0 + 0.01 * number) for number in range(8)]])
    assert creeping[6].start is not None
    finer = [believed(0.0), *[believed(1.0 + 0.01 * number) for number in range(8)]]
    assert all(verdict.start is None for verdict in follow(replace(RULE, rise=0.001), finer))


def test_the_champion_stays_the_current_policy_until_another_is_probably_better():
    champion = Attempts(ORIGIN, champion=believed(1.0, GOOD), risen=0)
    for value, deviation, wins in ((0.5, 0.1, False), (1.05, 0.1, False), (1.5, 0.1, True), (1.5, 5.0, False)):
        verdict = follow(RULE, [believed(value, BETTER, deviation)], champion)[0]
        assert np.array_equal(verdict.current, BETTER if wins else GOOD)
    easy = follow(replace(RULE, certainty=0.6), [believed(1.05, BETTER)], champion)[0]
    assert np.array_equal(easy.current, BETTER)


def kinds_and_starts(
    rule: RestartWhenStuck, values: list[tuple[float, np.ndarray]], ended_early: bool = True
) -> tuple[list[str], list[tuple]]:
    """How attempts begin, and where, when each ends believing in a policy of such a value."""
    attempts, kinds, starts = Attempts(ORIGIN, ended_early), [], []
    for value, place in values:
        for told in range(100):
            verdict = rule.judge(attempts, lambda v=value, p=place: believed(v, p), attempts.risen + 2 * (told > 0) * 5)
            attempts = verdict.attempts
            if verdict.start is not None:
                kinds.append(attempts.kind)
                starts.append(tuple(verdict.start))
                break
    return kinds, starts


VALUES = [
    (1.0, GOOD),
    (0.2, BETTER),
    (0.3, GOOD),
    (1.0, GOOD),
    (0.1, BETTER),
    (0.2, GOOD),
    (9.0, BETTER),
    (3.0, BETTER),
]


def test_attempts_from_the_origin_take_turns_and_failed_ones_are_followed_by_one_from_the_champion():
    """A near-sighted attempt, whose values are of another return (9.0), can neither win nor lose: it goes onward."""
    kinds, starts = kinds_and_starts(RULE, VALUES)
    assert kinds == [NEAR, ONWARD, CHAMPION, FAR, CHAMPION, NEAR, ONWARD, FAR]
    assert starts == [(0, 0), (0, 2), (1, 0), (0, 0), (1, 0), (0, 0), (0, 2), (0, 0)]


def test_without_near_sighted_attempts_the_champion_follows_every_failed_one():
    assert kinds_and_starts(RULE, VALUES, ended_early=False) == kinds_and_starts(replace(RULE, sight=1.0), VALUES)
    kinds, starts = kinds_and_starts(replace(RULE, sight=1.0), VALUES)
    assert kinds == [FAR, CHAMPION, FAR, CHAMPION, FAR, CHAMPION, FAR, CHAMPION]
    assert starts[1] == (1, 0)


def test_a_near_sighted_attempt_keeps_the_champion_and_sees_a_share_of_the_horizon():
    near = Attempts(ORIGIN, True, believed(1.0, GOOD), NEAR, risen=0)
    verdict = follow(RULE, [believed(50.0, BETTER)], near)[0]
    assert np.array_equal(verdict.current, GOOD)
    assert RULE.discount(near, 1000) == pytest.approx(1 - 1 / 101)
    assert RULE.discount(near, 20) == pytest.approx(1 - 1 / 3)
    for kind in (FAR, ONWARD, CHAMPION):
        assert RULE.discount(replace(near, kind=kind), 1000) == 1.0
    assert NoRestarts().discount(near, 1000) == 1.0


@pytest.mark.parametrize(
    "wrong", [{"patience": 0}, {"rise": -0.1}, {"certainty": 0.4}, {"certainty": 1.0}, {"sight": 0}, {"sight": 1.5}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError):
        RestartWhenStuck(**wrong)


def test_what_is_remembered_is_saved_and_restored():
    attempts = Attempts(ORIGIN, True, believed(1.0), ONWARD, False, 0.1, 0.9, 12)
    again = restore(Attempts(), save(attempts))
    assert again.champion is not None
    assert np.array_equal(again.champion.parameters, GOOD)
    assert again.ended_early
    assert (again.kind, again.near_next, again.first_value, again.high, again.risen) == (ONWARD, False, 0.1, 0.9, 12)
    assert restore(Attempts(), save(Attempts(ORIGIN))).champion is None


# ---- in a search -----------------------------------------------------------------------------------------------------


def search_on(lab: Any, spec_changes: dict[str, Any] | None = None, **settings: Any) -> tuple[Any, Any]:
    task = lab.lqr(2, 2, noise=0.05, horizon=20)
    config = changed(search_config("abs", "x", "cpu"), restarts=RestartWhenStuck(**settings))
    return config.make(replace(task.spec, **(spec_changes or {})), seed=0), task


def test_a_search_begins_anew_where_it_began_and_keeps_its_best_policy(lab):
    search, task = search_on(lab, patience=4, rise=1e6)
    begun, origin = [], search.centre
    search.memory.attempts.ended_early = True
    for _ in range(90):
        at = search.centre
        _, _, metrics = lab.stage(search, task)
        if metrics is not None and metrics.get("restart"):
            begun.append(metrics["restart"])
            assert search.memory.window == []
            if begun[-1] in (NEAR, FAR):
                assert not np.array_equal(search.centre, at)
                assert np.array_equal(search.centre, origin)
            if begun[-1] == CHAMPION:
                assert np.array_equal(search.centre, search.incumbent.parameters)
    assert begun[:2] == [NEAR, ONWARD]
    assert len(begun) >= 4


def test_a_near_sighted_attempt_measures_its_own_return(lab):
    """Its points are discounted returns; those of every other attempt are what the search maximises."""
    search, task = search_on(lab, patience=4, rise=1e6)
    search.memory.attempts.ended_early = True  # Else none is near-sighted.
    seen = set()
    for _ in range(90):
        kind, window = search.memory.attempts.kind, len(search.memory.window)
        near = 1 - 1 / (1 + 0.1 * 20)
        _, outcomes, metrics = lab.stage(search, task)
        if metrics is not None and metrics.get("restart"):
            continue
        told = [trajectory.total(near if kind == NEAR else 1.0) for trajectory in outcomes]
        points = search.memory.window[window:]
        assert np.allclose(sorted(np.concatenate([p.returns for p in points])), sorted(told)[-len(told) :])
        seen.add(kind)
    assert {FAR, NEAR, ONWARD} <= seen


def test_an_episode_that_ends_early_is_remembered(lab):
    search, task = search_on(lab, patience=4, rise=1e6)
    lab.stage(search, task)
    assert not search.memory.attempts.ended_early
    query = search.ask()
    fallen = [replace(outcome, terminated=True, truncated=False) for outcome in lab.outcomes(search, task, query)]
    search.tell(query, fallen)
    while search.memory.attempts.kind == FAR:
        assert search.memory.attempts.ended_early
        lab.stage(search, task)
    assert search.memory.attempts.kind == NEAR


def test_a_task_that_limits_changes_or_costs_has_one_attempt(lab):
    for limited in ({"limits": Limits(action_change=(0.5,))}, {"constraints": (Constraint("u", 1.0),)}):
        search, _ = search_on(lab, limited, patience=1, rise=1e6)
        assert isinstance(search._restarts, NoRestarts)
    assert isinstance(search_on(lab, patience=1)[0]._restarts, RestartWhenStuck)


def test_a_resumed_search_restarts_as_the_uninterrupted_one(lab):
    """Saved after every stage and loaded into a new search: the same queries to the last bit."""
    one, task = search_on(lab, patience=4, rise=1e6)
    other, _ = search_on(lab, patience=4, rise=1e6)
    for _ in range(40):
        fresh, _ = search_on(lab, patience=4, rise=1e6)
        fresh.load(other.state())
        other = fresh
        asked, found = lab.stage(one, task)[0], lab.stage(other, task)[0]
        for mine, theirs in zip(asked, found, strict=True):
            assert np.array_equal(mine.parameters, theirs.parameters)
    assert one.memory.attempts.champion is not None
