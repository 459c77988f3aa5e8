"""Failures are data: whatever an environment does, the run records it, goes on or stops with the reason, and can be
resumed."""

import json

import faulty_envs
import killing
import numpy as np
import pytest

from abps.errors import RunError
from abps.run.directory import read_settings
from abps.run.loop import train
from abps.run.run import MAX_REASON
from abps.search.local import LocalSearch
from abps.search.registry import make_search
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

ALWAYS = {
    "Raises": "RuntimeError: the simulator broke",
    "RaisesInReset": "ValueError: no initial state",
    "RaisesStrangeText": "[/red] ? broke xxx",
    "NanReward": "rewards contain a number that is not finite",
    "InfiniteObservation": "observations contain a number that is not finite",
    "HugeObservation": "observations contain a number that is not finite",
    "HugeReward": "rewards must not exceed",
    "WrongShape": "observation of shape (2,)",
    "ShrinkingShape": "observation of shape (1,)",
    "ScalarObservation": "observation of shape ()",
    "ShortTuple": "not enough values",
    "VectorReward": "ValueError",
    "CallsExit": "SystemExit: 7",
    "RaisesInClose": "the simulator broke",
}


def make_run(path, env, search="ars", **settings):
    killing.make_run(path, search, env=env, **settings)
    config = path / "config.yaml"
    config.write_text(config.read_text().replace("killing:", "faulty_envs:"))
    return path


def lines_of(path):
    return [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("env", ALWAYS)
def test_environment_that_always_fails_stops_the_run_with_the_reason(env, tmp_path):
    path = make_run(tmp_path / "run", env, max_failures=3, retries=1)
    with pytest.raises(RunError, match="3 episodes in a row failed") as caught:
        train(path, read_settings(path))
    assert ALWAYS[env] in str(caught.value)
    assert ALWAYS[env] in (path / "FAILED").read_text()
    assert not (path / "DONE").exists()
    lines = lines_of(path)
    assert len(lines) == 3
    for line in lines:
        assert ALWAYS[env] in line["failed"]
        assert len(line["failed"]) <= MAX_REASON + 1
        assert len(line["failed_attempts"]) == 1
        assert line["return"] is None
        assert line["bytes"] == 0


def test_stopped_run_goes_on_when_the_cause_is_mended(tmp_path, monkeypatch):
    marker = tmp_path / "mended"
    monkeypatch.setenv(faulty_envs.MARKER, str(marker))
    path = make_run(tmp_path / "run", "UntilMended", max_failures=4)
    with pytest.raises(RunError, match="a cable is loose"):
        train(path, read_settings(path))
    with pytest.raises(RunError, match="4 episodes in a row failed"):  # Not mended: it tries as often again.
        train(path, read_settings(path))
    assert len(lines_of(path)) == 8
    marker.touch()
    train(path, read_settings(path))
    assert (path / "DONE").exists()
    assert not (path / "FAILED").exists()
    lines = lines_of(path)
    assert [line["failed"] is not None for line in lines] == [True] * 8 + [False] * (len(lines) - 8)


@pytest.mark.parametrize(("env", "reason"), [("Hangs", "hung: no result"), ("Dies", "process died (exit code 3)")])
def test_worker_that_hangs_or_dies_is_replaced(env, reason, tmp_path):
    path = make_run(tmp_path / "run", env, episodes=4, timeout=3.0, retries=0, evaluate_every=0)
    result = train(path, read_settings(path))
    assert result.episodes == 4
    lines = lines_of(path)
    assert [line["seed"] % 2 == 0 for line in lines] == [line["failed"] is not None for line in lines]
    failed = [line["failed"] for line in lines if line["failed"]]
    assert failed
    assert all(reason in text for text in failed)


def test_failed_attempts_are_kept_and_the_episode_is_tried_with_another_seed(tmp_path):
    path = killing.make_run(tmp_path / "run", "ars", env="FlakyEnv", retries=3)
    train(path, read_settings(path))
    lines = lines_of(path)
    retried = [line for line in lines if line["failed_attempts"]]
    assert retried
    assert all("unlucky" in text or "not finite" in text for line in retried for text in line["failed_attempts"])
    assert all(line["seed"] % 5 and line["seed"] % 7 for line in lines if line["failed"] is None)
    assert not (path / "spool").exists()


SPEC = TaskSpec("tiny", 3, 1, (-1.0,), (1.0,), gamma=0.9, horizon=8)


def episode(query, number):
    rng = np.random.default_rng([7, number])
    observations = rng.normal(size=(9, 3))
    actions = np.array([query.policy(observation) for observation in observations[:-1]])
    return Trajectory.build(
        observations, actions, -np.square(observations[:-1]).sum(axis=1), terminated=False, truncated=True
    )


@pytest.mark.parametrize("search", killing.searches())
def test_failed_probes_never_become_best_and_never_enter_the_model(search):
    """Every third probe fails; nothing of it may be left but the counts and a place to avoid."""
    solver = make_search(killing.registered(search), SPEC, killing.tiny_config(search), seed=1)
    told, failed, number, steps = [], [], 0, 0
    while solver.iteration < 4:
        query = solver.ask()
        if query.role != "centre" and query.id % 3 == 0:
            near = [np.max(np.abs(query.parameters - point)) for point in failed]
            assert not near or min(near) > 0.0
            failed.append(query.parameters)
            solver.tell(query, [Failed("it fell apart")])
            continue
        outcomes = [episode(query, number + k) for k in range(query.episodes)]
        number += query.episodes
        steps += sum(len(outcome) for outcome in outcomes)
        told.append((np.mean([outcome.total() for outcome in outcomes]), query.parameters))
        solver.tell(query, outcomes)
    assert failed
    assert solver.progress.failures == len(failed)
    assert solver.progress.steps == steps
    best = max(told, key=lambda pair: pair[0])
    assert solver.result().best_return == best[0]
    assert np.array_equal(solver.result().best.parameters, best[1])
    assert np.all(np.isfinite(solver.centre))
    assert isinstance(solver, LocalSearch) == (search in ("abs", "abs@cpu", "mpd", "gibo", "ddpgn"))
    if isinstance(solver, LocalSearch):
        window = solver.memory.window
        kept = [point.parameters.tobytes() for point in window]
        worked = {parameters.tobytes() for _, parameters in told}  # Paths around one centre have its parameters.
        assert set(kept) <= worked
        assert not ({point.tobytes() for point in failed} - worked) & set(kept)
        assert len(window) <= len(told)
        assert all(np.all(np.isfinite(point.returns)) for point in window)
        assert {point.tobytes() for point in solver.memory.avoid} <= {point.tobytes() for point in failed}
    assert (solver.replay is not None) == (search in ("abs", "ddpgn", "abs@cpu"))
    if solver.replay is not None:
        assert solver.replay.total == steps


@pytest.mark.parametrize("search", killing.searches())
def test_search_goes_on_when_everything_fails(search):
    solver = make_search(killing.registered(search), SPEC, killing.tiny_config(search), seed=1)
    for _ in range(30):
        query = solver.ask()
        solver.tell(query, [Failed("no power")] * query.episodes)
    assert not np.isfinite(solver.result().best_return)
    assert np.all(np.isfinite(solver.ask().parameters))
