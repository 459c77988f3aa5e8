"""Searches that run paths: their size in units of action, resuming inside a stage of paths, any number of workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abps.critics.episodic import EpisodicLstd
from abps.model.ascent_prior import AscentPrior
from abps.model.chart import ActionMetric
from abps.model.gp import GP
from abps.policies.linear import LinearTanh
from abps.policies.observations import RawObservations
from abps.run.loop import train
from abps.search.local import LocalSearch, LocalSearchConfig
from abps.search.plan import PathsAroundCentre
from abps.search.registry import make_search
from abps.settings import replace
from abps.steps.adaptive import AdaptiveAscent

Make = Callable[..., Any]

PLAN = PathsAroundCentre(
    first_paths=3, scouts=1, paths=2, path_shift=0.0, path_size=0.1, path_steps=5, quick_shift=0.0, window=9
)
CONFIG = LocalSearchConfig(
    policy=LinearTanh(bias=True),
    observations=RawObservations(),
    chart=ActionMetric(ridge=0.05),
    prior=AscentPrior(critics=EpisodicLstd(episodes=6, features=12, rows=300, replay=200)),
    gp=GP(
        lengthscale_low=0.13, lengthscale_high=1.2, shared_lengthscale=True, scale_by_dimension=False, noise="spread",
        hyper_priors=True,
    ),
    step=AdaptiveAscent(first_length=0.1, shortest=0.01, longest=1.0, jump=3.0),
    plan=PLAN,
    states=24,
    chart_points=4,
    clip_returns=True,
    discount=1.0,
)  # fmt: skip
"""The parts of the preset `cpu`, small and pinned: a stage has a probe or the centre, and two paths."""


def queries_of(lab: Any, task: Any, config: LocalSearchConfig, stages: int) -> tuple[Any, list[Any]]:
    search = make_search("abs", task.spec, config)
    lab.run(search, task, stages)
    return search, search.open_queries()


def test_a_path_moves_the_actions_by_its_size_to_first_order(lab: Any) -> None:
    """At the knots by `path_size`, in between by less: (1 − u)² + u² of the variance, u the way to the next knot."""
    task, size, interval = lab.lqr(3, 2, horizon=100), 1e-3, 5
    plan = replace(PLAN, first_paths=1, paths=40, path_size=size, path_steps=interval, window=60, path_rate=0.0)
    config = replace(CONFIG, plan=plan, chart=ActionMetric(ridge=1e-7), states=0)
    search, queries = queries_of(lab, task, config, stages=2)
    queries = [query for query in queries if query.role == "path"]
    assert len(queries) == 40
    visits = search.neighbourhood().recent_visits
    weights = visits.weights / visits.weights.sum()
    resting = search.policies.actions(search.centre, visits.states, search.normaliser)

    def change(parameters: Any) -> float:
        moved = search.policies.actions(parameters, visits.states, search.normaliser)
        return float(np.square((moved - resting) / task.spec.action_half).mean(axis=1) @ weights)

    knots = [change(knot) for query in queries for knot in query.policy.path.knots]
    assert np.sqrt(np.mean(knots)) == pytest.approx(size, rel=0.05)
    steps = [change(query.policy.path.at(step)) for query in queries for step in range(task.spec.horizon)]
    u = np.arange(interval) / interval
    assert np.sqrt(np.mean(steps)) == pytest.approx(size * np.sqrt(np.mean((1 - u) ** 2 + u**2)), rel=0.05)


def test_larger_paths_move_the_actions_more(lab: Any) -> None:
    """Negative control of the test above, and of the setting."""
    task, sizes = lab.lqr(2, 1), []
    for size in (0.05, 0.2):
        _, queries = queries_of(lab, task, replace(CONFIG, plan=replace(PLAN, path_size=size)), stages=1)
        sizes.append(np.std([query.policy.path.knots - query.parameters for query in queries]))
    assert sizes[1] == pytest.approx(4.0 * sizes[0])


@pytest.mark.parametrize("bias", [True, False])
def test_a_shift_moves_every_action_alike_in_all_states(lab: Any, bias: bool) -> None:
    """A policy with a bias follows but for saturation; one without cannot (the negative control)."""
    task, size = lab.lqr(3, 2, horizon=100), 1e-3
    plan = replace(PLAN, first_paths=1, paths=40, path_shift=size, path_size=0.0, window=60, path_rate=0.0)
    config = replace(CONFIG, policy=LinearTanh(bias=bias), plan=plan, chart=ActionMetric(ridge=1e-7), states=0)
    search, queries = queries_of(lab, task, config, stages=2)
    visits = search.neighbourhood().recent_visits
    resting = search.policies.actions(search.centre, visits.states, search.normaliser)
    knots = np.concatenate([query.policy.path.knots for query in queries if query.role == "path"])
    moved = search.policies.actions(knots, visits.states, search.normaliser)
    changes = (moved - resting) / task.spec.action_half
    over_states = changes.std(axis=1).max()
    if bias:
        assert np.sqrt(np.mean(np.square(changes.mean(axis=1)))) == pytest.approx(size, rel=0.1)
        assert over_states < 0.2 * size
    else:
        assert over_states > 0.2 * size


def test_a_quick_shift_is_added_to_the_slow_path(lab: Any) -> None:
    """Every `quick_steps` another shift of its own size; without it the path goes straight from knot to knot."""
    task, size, slow = lab.lqr(3, 2, horizon=100), 1e-3, 10
    shape = {"path_shift": size, "path_size": 0.0, "path_steps": slow, "quick_steps": 2}
    plan = replace(PLAN, first_paths=1, paths=40, window=60, path_rate=0.0, **shape)
    wiggles = []
    for quick in (0.0, size):
        config = replace(CONFIG, plan=replace(plan, quick_shift=quick), chart=ActionMetric(ridge=1e-7), states=0)
        search, queries = queries_of(lab, task, config, stages=2)
        paths = [query.policy.path for query in queries if query.role == "path"]
        assert {path.interval for path in paths} == {2 if quick else slow}
        at = np.array([[path.at(step) for step in range(0, 100, 2)] for path in paths])
        visits = search.neighbourhood().recent_visits
        actions = search.policies.actions(at.reshape(-1, at.shape[2]), visits.states, search.normaliser)
        shifts = (actions.mean(axis=1) / task.spec.action_half).reshape(40, 50, 2)
        wiggles.append(np.diff(shifts, 2, axis=1).reshape(40, -1, 2)[:, np.arange(48) % 5 != 4])
    assert np.abs(wiggles[0]).max() < 0.1 * size  # Straight between the slow knots, but for the curve of tanh.
    assert np.sqrt(np.mean(np.square(wiggles[1]))) == pytest.approx(np.sqrt(6.0) * size, rel=0.1)


def test_paths_of_one_stage_differ_and_their_return_is_nobodys(lab: Any) -> None:
    task = lab.lqr(2, 1)
    search, queries = queries_of(lab, task, CONFIG, stages=4)
    paths = [query for query in queries if query.role == "path"]
    assert len(paths) == PLAN.paths
    assert not np.allclose(paths[0].policy.path.knots, paths[1].policy.path.knots)
    assert all(np.array_equal(query.parameters, search.centre) for query in paths)
    before = search.progress.best.value
    lucky = lab.outcomes(search, task, paths[0])[0]
    search.tell(paths[0], [replace(lucky, rewards=lucky.rewards + 1e6)])
    assert search.progress.best.value == before


def test_an_old_centre_leaves_the_window_once_paths_stand_for_newer_ones(lab: Any) -> None:
    """No centre is run at rest while there are probes ahead; the first one must not stay for ever. Policies that
    were believed to be the best meanwhile keep their place on purpose.
    """
    task = lab.lqr(2, 1)
    search = make_search("abs", task.spec, CONFIG)
    assert isinstance(search, LocalSearch)
    believed = []
    for _ in range(6):
        lab.iterate(search, task, 1)
        believed.append(search.progress.believed)
    assert [query.role for query in search.open_queries()] == ["probe", "path", "path"]
    others = [p for p in search.memory.window if not any(np.array_equal(p.parameters, best) for best in believed)]
    assert min(point.iteration for point in others) >= search.iteration - PLAN.window // 3
    assert search.neighbourhood().newest_centre.role == "path"


def test_a_resumed_search_plans_the_same_paths(lab: Any) -> None:
    """State saved between stages; the stage of paths is planned anew and its answers lead to the same place."""
    task = lab.lqr(2, 1)
    one, queries = queries_of(lab, task, CONFIG, stages=5)
    other = make_search("abs", task.spec, CONFIG)
    other.load(lab.saved(one))
    for mine, theirs in zip(queries, other.open_queries(), strict=True):
        assert (mine.id, mine.role) == (theirs.id, theirs.role)
        if mine.role == "path":
            assert theirs.policy.path is not None
            assert mine.policy.path.knots.tobytes() == theirs.policy.path.knots.tobytes()
    lab.run(one, task, 3)
    lab.run(other, task, 3)
    assert lab.difference(one.state(), other.state()) == ""


@pytest.mark.parametrize("stop", [2, 5, 6, 7])
def test_a_run_stopped_among_its_paths_goes_on_bit_for_bit(
    stop: int, tmp_path: Path, make_settings: Make, run_new: Make, records: Make
) -> None:
    """Stages end after episodes 1, 2, 3, 4, 7 and so on: these runs stop among the first paths, or inside a stage."""

    def settings(episodes: int) -> Any:
        return make_settings("abs", CONFIG, episodes=episodes, evaluate_every=0, horizon=30)

    run_new(tmp_path / "long", settings(16))
    run_new(tmp_path / "run", settings(stop))
    train(tmp_path / "run", settings(16))
    roles = [line["role"] for line in records(tmp_path / "run/journal.jsonl")]
    assert roles[1:4] == ["scout", "path", "path"]
    assert roles.count("path") >= 8
    for file in ("journal.jsonl", "metrics.jsonl"):
        assert records(tmp_path / "run" / file) == records(tmp_path / "long" / file)
    for file in ("episodes.bin", "policy/current.npz", "policy/best.npz"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "long" / file).read_bytes()


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, make_settings: Make, run_new: Make, records: Make
) -> None:
    for workers in (1, 3):
        settings = make_settings("abs", CONFIG, workers=workers, episodes=12, evaluate_every=0, horizon=30)
        run_new(tmp_path / str(workers), settings)
    assert records(tmp_path / "3/journal.jsonl") == records(tmp_path / "1/journal.jsonl")
    assert (tmp_path / "3/episodes.bin").read_bytes() == (tmp_path / "1/episodes.bin").read_bytes()
    other = make_settings("abs", CONFIG, seed=1, episodes=12, evaluate_every=0, horizon=30)
    run_new(tmp_path / "other", other)
    assert (tmp_path / "other/episodes.bin").read_bytes() != (tmp_path / "1/episodes.bin").read_bytes()


# ---- scouts ----------------------------------------------------------------


def test_scouts_count_for_the_chart_and_the_critics_but_not_for_the_process(lab: Any) -> None:
    task = lab.lqr(2, 1)
    search = make_search("abs", task.spec, replace(CONFIG, plan=replace(PLAN, first_paths=4, scouts=2)))
    assert isinstance(search, LocalSearch)
    lab.run(search, task, 4)
    near = search.neighbourhood()
    assert [point.role for point in near.scouts] == ["scout", "scout"]
    assert [point.role for point in near.entries] == ["centre", "path"]
    assert near.returns.shape == (2,)
    visits = near.recent_visits
    assert visits is not None
    assert CONFIG.states is not None
    assert len(visits.states) == 4 * CONFIG.states
    assert search.replay is not None
    assert len(search.replay) == min(4 * task.spec.horizon, search.replay.capacity)


def test_a_second_scout_is_laid_in_the_scale_that_the_first_one_showed(lab: Any) -> None:
    """At rest at zero nothing moves: the first path's weights are as large as the sensors are still; then it is seen
    how far they go. Told runaway states, the next path's weights are smaller by as much."""
    task = lab.lqr(2, 1)
    sizes = {}
    for factor in (1.0, 100.0):
        search = make_search("abs", task.spec, replace(CONFIG, plan=replace(PLAN, first_paths=4, scouts=2)))
        lab.run(search, task, 1)
        query = search.ask()
        outcome = lab.outcomes(search, task, query)[0]
        search.tell(query, [replace(outcome, observations=outcome.observations * np.float32(factor))])
        path = search.ask().policy.path
        assert path is not None
        sizes[factor] = float(np.std(path.knots[:, :2] - search.centre[:2]))
    assert sizes[100.0] < 0.1 * sizes[1.0]


def test_a_probe_of_a_stage_whose_paths_all_failed_is_in_the_replay_as_after_a_resume(lab: Any) -> None:
    """The centre is given up, but the probe's episode was told: a replay filled from the journal has it, too."""
    task = lab.lqr(3, 2, horizon=20)
    search, twin = (make_search("abs", task.spec, CONFIG) for _ in range(2))
    told = []
    while search.iteration < 2:
        told += lab.stage(search, task)[1]
    queries, worked, metrics = lab.stage(search, task, fails=lambda query, number: query.role == "path")
    assert [query.role for query in queries] == ["probe", "path", "path"]
    assert len(worked) == 1
    assert metrics["retreat"] == "failed"
    told += worked
    assert search.replay is not None
    assert search.replay.total == sum(map(len, told))
    twin.load(search.state(replay=False), told)
    assert not lab.difference(lab.saved(search), lab.saved(twin))
