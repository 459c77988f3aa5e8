"""Tuning from begin to end (tuning/study.py, work.py, results.py, worker.py): trials, failures, kills."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml

import abps
from abps.errors import RunError
from abps.run.run import Run
from abps.tuning.definition import read_tuning
from abps.tuning.results import TrialResult, TuningResult
from abps.tuning.storage import STARTS, open_study

pytest.importorskip("optuna")

LQR = "abps.tasks.lqr:make_env"


class Touchy(gymnasium.Env[Any, Any]):
    """Pays for small actions, and breaks at large ones."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-10.0, 10.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(0.1, 1.0, 2).astype(np.float32)
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if abs(float(action[0])) > 1.0:
            raise RuntimeError("the actuator broke")
        return self.state, float(action[0]), False, True, {}


pytestmark = pytest.mark.usefixtures("folder")
LENGTHS = {"step": {"factor": 3}, "noise": {"factor": 3}}


def study(out: Path | None = None, task: Any = LQR, **changes: Any) -> TuningResult:
    """A study of ARS that takes a moment."""
    words: dict[str, Any] = {
        "trials": 3, "episodes": 8, "seeds": 1, "evaluation_episodes": 2, "horizon": 10, "gamma": 0.95, "jobs": 1,
        "checkpoint_every": 100, "observations": "raw", "directions": 1, "top": 1, "space": LENGTHS,
    }  # fmt: skip
    return abps.tune(task, "ars", out=out, **{**words, **changes})


def without_times(trials: tuple[TrialResult, ...]) -> list[TrialResult]:
    return [trial._replace(seconds=0.0) for trial in trials]


def test_a_study_ends_with_settings_that_can_be_used(folder: Path) -> None:
    found = study(folder, seeds=2, keep_runs=True)
    assert [trial.number for trial in found.trials] == [0, 1, 2]
    assert found.default.settings == {"step": 0.02, "noise": 0.025}
    done = [trial for trial in found.trials if trial.state == "done"]
    assert found.best.value == max(trial.value for trial in done if trial.value is not None)
    assert found.best.value == pytest.approx(np.mean(found.best.returns))
    assert found.config is not None
    assert yaml.safe_load(found.config.read_text())["search"]["settings"]["step"] == found.best.settings["step"]
    seed = found.tuning.training_seeds[1]
    run = abps.train(LQR, "ars", config=found.config, seed=seed, episodes=8, evaluate_every=0)
    assert run.settings.search_config == found.search_config
    assert run.settings.task.horizon == 10
    kept = abps.load(folder / "trials" / f"{found.best.number:04d}" / f"seed-{seed}")
    assert (kept.current.parameters == run.current.parameters).all()  # Rungs change nothing.
    assert found.best.returns[1] == run._evaluate([run.current], 2, seed, "tuning")[0].mean


def test_an_interrupted_study_goes_on_as_if_nothing_had_happened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of runs, again and again: what is tried, and what comes of it, stays the same."""
    whole = study(folder / "whole")
    assert list((folder / "whole" / "trials").iterdir()) == []  # Runs of finished trials go.
    record, calls = Run.record, 0

    def interrupted(self: Run, *words: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise KeyboardInterrupt
        return record(self, *words)

    monkeypatch.setattr(Run, "record", interrupted)
    interruptions = 0
    while True:
        try:
            found = study(folder / "cut")
            break
        except KeyboardInterrupt:
            interruptions += 1
    monkeypatch.undo()
    assert interruptions > 2
    assert without_times(found.trials) == without_times(whole.trials)
    assert study(folder / "cut").trials == found.trials  # There is nothing left to do.
    assert len(study(folder / "cut", trials=4).trials) == 4


def test_a_failing_trial_is_data(folder: Path) -> None:
    space = {"noise": [0.025, 8.0, 9.0], "step": {"factor": 2}}
    out = folder / "touchy"
    found = study(out, Touchy, space=space, trials=4, horizon=1, retries=0, max_failures=2, policy="linear-tanh")
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert failed
    assert all(trial.settings["noise"] > 1.0 for trial in failed)
    assert "the actuator broke" in failed[0].reason
    assert found.best.settings["noise"] == 0.025
    assert len(found.trials) == 4
    assert (out / "best.yaml").read_text().startswith("# The best of 4 trials of")
    (last,) = (number for number, trial in enumerate(found.trials) if trial == failed[-1])
    other = out.with_name("again")
    again = study(other, Touchy, space=space, trials=last + 1, horizon=1, retries=0, max_failures=2,
                  policy="linear-tanh")  # fmt: skip
    assert again.trials[-1].state == "failed"
    assert (other / "best.yaml").read_text().startswith(f"# The best of {last + 1} trials of")


def test_a_task_that_always_fails_ends_the_study_with_its_reason() -> None:
    with pytest.raises(RunError, match=r"3 trials failed and none worked, the last with: .*the actuator broke"):
        study(task=Touchy, space={"noise": [8.0, 9.0]}, horizon=1, max_failures=2, retries=0, policy="linear-tanh",
              noise=8.0)  # fmt: skip


def test_settings_that_exclude_each_other_cost_no_trial() -> None:
    space = {"directions": {"low": 1, "high": 9}, "top": {"low": 1, "high": 9}}
    found = study(space=space, seed=1, episodes=18)
    assert len(found.trials) == 3
    assert all(trial.settings["top"] <= trial.settings["directions"] for trial in found.trials)
    assert found.trials[-1].number > 2, "none was drawn: no test"


def test_hopeless_trials_are_stopped_early() -> None:
    found = study(space={"step": {"low": 1e-9, "high": 0.1}}, trials=9, evaluation_episodes=1)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    assert all(trial.episodes < 8 and trial.value is not None for trial in pruned)
    assert found.count("done") + len(pruned) == 9
    assert found.importance == {}  # There are too few trials to say.


def test_a_trial_whose_process_dies_again_and_again_counts_as_failed(folder: Path) -> None:
    study(folder, trials=1)
    opened = open_study(folder, read_tuning(folder))
    opened.ask().set_user_attr(STARTS, 3)
    found = study(folder, trials=3)
    assert [trial.state for trial in found.trials][1] == "failed"
    assert found.trials[1].reason == "its process died 3 times"


def test_too_few_episodes_are_said_so() -> None:
    with pytest.raises(RunError, match="no outer iteration was finished in 1 episode"):
        study(episodes=1, trials=3)


def test_another_study_in_the_folder_is_not_touched(folder: Path) -> None:
    study(folder, trials=1)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(RunError, match=r"has a study of something else .*ars.policy.kind"):
        study(folder, trials=1, policy="linear-tanh")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_a_killed_study_with_workers_goes_on(folder: Path) -> None:
    """SIGKILL for the study and a worker with a trial: the other worker ends by itself, and the next call goes on."""
    words: dict[str, Any] = {"trials": 2, "episodes": 60, "seeds": 1, "horizon": 100}
    command = [sys.executable, "-m", "abps", "tune", LQR, "--search", "ars", "--out", str(folder), "--jobs", "2"]
    command += [word for name, value in words.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline, begun, workers = time.monotonic() + 60, [], set[int]()
    while not begun and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
        workers |= children(process.pid)
        begun = [file for file in folder.glob("trials/*/seed-*/journal.jsonl") if file.stat().st_size]
    owner = int((begun[0].parents[1] / "lock").read_text())
    assert owner in workers
    os.kill(process.pid, signal.SIGKILL)
    os.kill(owner, signal.SIGKILL)
    process.wait()
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.01)
    recorded = begun[0].read_bytes()
    assert read_tuning(folder).base.budget.episodes == 60
    found = abps.tune(LQR, "ars", **words, jobs=1, out=folder, keep_runs=True)
    assert [trial.number for trial in found.trials] == [0, 1]
    assert found.count("running") == 0
    assert begun[0].read_bytes().startswith(recorded[: recorded.rfind(b"\n") + 1])


def children(pid: int) -> set[int]:
    try:
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return set()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
