"""A run as an object: the same from training and from disk; the best policy is judged by fresh episodes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abps
from abps.cli import main
from abps.tasks.lqr import make_env

QUICK: dict[str, Any] = {"episodes": 12, "horizon": 15, "directions": 3, "top": 2, "evaluation_episodes": 2}
LQR = "abps.tasks.lqr:make_env"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> abps.TrainedRun:
    return abps.train(LQR, "ars", out=tmp_path_factory.mktemp("api") / "run", **QUICK)


def folder(run: abps.TrainedRun) -> Path:
    assert run.path is not None
    return run.path


def test_a_loaded_run_is_the_trained_one(trained: abps.TrainedRun) -> None:
    loaded = abps.load(folder(trained))
    assert loaded.result == trained.result
    assert loaded.history == trained.history
    np.testing.assert_array_equal(loaded.policy.parameters, trained.policy.parameters)
    np.testing.assert_array_equal(loaded.best.parameters, trained.best.parameters)
    assert loaded.evaluate(4) == trained.evaluate(4)
    assert repr(loaded).startswith(f"<abps run in {trained.path}: ars, seed 0, 12 episodes of")


def test_evaluate_is_the_command(trained: abps.TrainedRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained.path), "--episodes", "4", "--seed", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["returns"] == list(trained.evaluate(4, seed=2).returns)


def test_policies_take_single_observations_and_batches(trained: abps.TrainedRun) -> None:
    policy, size = trained.policy, trained.policy.spec.observation_dim
    batch = np.random.default_rng(0).standard_normal((2, 3, size))
    actions = policy(batch)
    assert actions.shape == (2, 3, policy.spec.action_dim)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(actions[index], policy(list(batch[index])), rtol=1e-12)
    for wrong in (np.zeros(size + 1), np.zeros((2, size + 1)), 3.0, "text", [[1.0], [2.0, 3.0]]):
        with pytest.raises(abps.ShapeError, match="observation"):
            policy(wrong)


def test_the_best_policy_is_not_the_luckiest(trained: abps.TrainedRun, tmp_path: Path) -> None:
    """A bad policy that was lucky once is in `best.npz`; fresh episodes find it out. A good one is taken."""
    task = abps.make_task(LQR, horizon=15)
    current = trained.current
    bad = current.space.policy(np.full_like(current.parameters, 3.0), current.normaliser)
    run = trained.save(tmp_path / "lucky")
    bad.save(tmp_path / "lucky" / "policy" / "best.npz")
    np.testing.assert_array_equal(run.best.parameters, current.parameters)
    other = trained.save(tmp_path / "unlucky")
    bad.save(tmp_path / "unlucky" / "policy" / "current.npz")
    current.save(tmp_path / "unlucky" / "policy" / "best.npz")
    np.testing.assert_array_equal(other.best.parameters, current.parameters)
    assert task.spec.observation_dim == current.spec.observation_dim


def test_an_environment_object_has_to_be_brought_along(tmp_path: Path) -> None:
    run = abps.train(make_env(), "ars", out=tmp_path / "run", **QUICK)
    with pytest.raises(abps.TaskError, match="was an object of a Python program"):
        abps.load(tmp_path / "run").evaluate(2)
    assert abps.load(tmp_path / "run", task=make_env).evaluate(2) == run.evaluate(2)
    assert abps.load(tmp_path / "run").policy.parameters.size == run.policy.parameters.size
    with pytest.raises(abps.RunError, match="the policy takes"):
        abps.load(tmp_path / "run", task="Pendulum-v1").evaluate(2)


def test_a_saved_run_is_one_that_the_commands_take(tmp_path: Path) -> None:
    saved = abps.train(LQR, "ars", **QUICK).save(tmp_path / "kept")
    assert main(["resume", str(saved.path), "--episodes", "18", "--quiet"]) == 0
    assert abps.load(tmp_path / "kept").result.episodes == 18
    with pytest.raises(abps.RunError, match="exists already"):
        saved.save(tmp_path / "kept")


def test_a_report_lies_in_the_runs_folder(trained: abps.TrainedRun, tmp_path: Path) -> None:
    assert trained.report() == folder(trained) / "report.html"
    assert trained.report(str(tmp_path / "own.html")).read_text().startswith("<!doctype html>")


def test_what_is_no_path_is_said(trained: abps.TrainedRun) -> None:
    with pytest.raises(abps.ConfigError, match="out must be a path, got 3"):
        trained.report(3)  # type: ignore[arg-type]
    with pytest.raises(abps.ConfigError, match="path must be a path, got 3"):
        trained.save(3)  # type: ignore[arg-type]


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, message in ((tmp_path, "there is no run"), (tmp_path / "file", "takes a run directory"), (3, "got 3")):
        with pytest.raises(abps.AbpsError, match=message):
            abps.load(path)  # type: ignore[arg-type]
    abps.train(LQR, "ars", out=tmp_path / "short", **{**QUICK, "episodes": 2})
    (tmp_path / "short/policy/current.npz").unlink()  # As a run has it that was killed before it wrote one.
    short = abps.load(tmp_path / "short")
    with pytest.raises(abps.RunError, match="no outer iteration was finished in 2 episodes"):
        _ = short.policy
