"""`abps train` and `abps resume` (train.py, resume.py, helptext.py, progress.py): what they print, write and return."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from abps.search import auto
from abps.search.registry import PRESETS, SEARCHES

Call = Callable[..., Any]
LQR = ("abps.tasks.lqr:make_env", "--search", "ars", "--horizon", "10", "--directions", "2", "--top", "2")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUN = Path("runs/abps.tasks.lqr-make_env/ars/seed-0")


def test_help_is_one_screen(abps: Call, snapshot: Call) -> None:
    answer = abps("train", "--help")
    assert answer.code == 0
    snapshot("train_help", answer.out)
    assert abps("train", "-h").out == answer.out


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("preset", PRESETS)
def test_help_of_every_search_fits_on_one_screen(abps: Call, search: str, preset: str) -> None:
    lines = abps("train", "hopper", "--search", search, "--preset", preset, "--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    needed = (
        "TASK --search --preset --seed --episodes --target --minutes --workers --runs --overwrite --quiet --json --log"
    )
    for option in needed.split():
        assert any(line.startswith(f"  {option}") for line in lines)
    assert "--help-all" in " ".join(lines)


@pytest.mark.parametrize("search", ["mpd", "ars"])
def test_help_all_shows_every_setting_of_the_search_on_the_task(abps: Call, snapshot: Call, search: str) -> None:
    answer = abps("train", "hopper", "--search", search, "--preset", "paper", "--help-all")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 100
    snapshot(f"train_hopper_{search}_help_all", answer.out)


def test_help_all_shows_the_settings_of_the_chosen_kinds(abps: Call) -> None:
    before = abps("train", "hopper", "--preset", "paper", "--help-all").out
    after = abps("train", "hopper", "--preset", "paper", "--step", "walk", "--help-all").out
    assert "--step.factor" in before
    assert "--step.factor" not in after
    assert "--step.probability" in after
    assert "--step.probability" not in before
    assert "[walk]" in after


def test_presets_change_the_defaults_shown(abps: Call) -> None:
    def shown(*words: str) -> str:
        return " ".join(abps("train", "hopper", *words, "--help-all").out.split())

    assert "linear-tanh, [clipped-linear]" in shown("--search", "ars", "--preset", "cpu")
    assert "[linear-tanh], clipped-linear" in shown("--search", "ars", "--preset", "paper")
    assert "[droq], lstd" in shown("--preset", "paper")
    assert "[droq], lstd" not in shown()


def test_a_run_says_what_was_learned_where_it_is_and_how_to_go_on(abps: Call, here: Path) -> None:
    answer = abps("train", *LQR, "--episodes", "12")
    assert answer.code == 0
    assert "ars used 12 episodes of abps.tasks.lqr:make_env" in answer.out
    assert "the current policy returns" in answer.out
    assert f"The run is in {RUN}; look at it with: abps report {RUN}" in answer.out
    assert f"abps resume {RUN} --episodes 24" in answer.out
    names = {path.name for path in (here / RUN).iterdir()}
    assert {"config.yaml", "versions.json", "journal.jsonl", "metrics.jsonl", "checkpoint", "policy", "DONE"} <= names
    assert {path.name for path in (here / RUN / "policy").iterdir()} == {"best.npz", "current.npz"}
    versions = json.loads((here / RUN / "versions.json").read_text())
    assert {"abps", "python", "numpy", "gymnasium", "mujoco", "commit", "cpu"} <= set(versions)


def test_settings_reach_the_run(abps: Call, here: Path) -> None:
    words = (
        "--episodes",
        "4",
        "--step",
        "0.5",
        "--gamma",
        "0.9",
        "--observations",
        "raw",
        "--evaluation-episodes",
        "1",
        "--quiet",
    )
    assert abps("train", *LQR, *words, "--seed", "3").code == 0
    settings = yaml.safe_load((here / RUN.with_name("seed-3") / "config.yaml").read_text())
    assert settings["search"]["settings"]["step"] == 0.5
    assert settings["search"]["settings"]["observations"] == {"kind": "raw"}
    assert (settings["task"]["gamma"], settings["task"]["horizon"]) == (0.9, 10)
    assert (settings["seed"], settings["run"]["evaluation_episodes"]) == (3, 1)


STEP_RULE = '''"""A step rule from outside the package."""

from dataclasses import dataclass

from abps.settings import setting
from abps.steps.base import Move, StepInput, StepRule


@dataclass(frozen=True)
class Momentum(StepRule):
    """A step of fixed length along Σ⁻¹μ."""

    length: float = setting(0.01, "length of the step")

    def __call__(self, given: StepInput) -> Move:
        return Move(given.model.neighbourhood.theta + self.length * given.model.posterior.direction)
'''


def test_a_step_rule_from_the_current_folder(abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "step_of_a_stranger.py").write_text(STEP_RULE)
    monkeypatch.syspath_prepend(here)
    words = ("abps.tasks.lqr:make_env", "--search", "mpd", "--horizon", "5", "--step", "step_of_a_stranger:Momentum")
    small = ("--plan.window", "4", "--plan.probes", "2", "--plan.centre-episodes", "1", "--quiet")
    answer = abps("train", *words, "--step.length", "0.5", *small, "--episodes", "8")
    assert answer.code == 0, answer.err
    run = RUN.parent.with_name("mpd") / "seed-0"
    step = yaml.safe_load((here / run / "config.yaml").read_text())["search"]["settings"]["step"]
    assert step == {"kind": "step_of_a_stranger:Momentum", "length": 0.5}
    assert abps("resume", run, "--episodes", "12", "--quiet").code == 0
    assert len((here / run / "journal.jsonl").read_text().splitlines()) == 12


def test_quiet_and_json(abps: Call, here: Path) -> None:
    quiet = abps("train", *LQR, "--episodes", "4", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    answer = abps("train", *LQR, "--episodes", "4", "--seed", "1", "--json")
    assert answer.err == ""
    summary = json.loads(answer.out)
    assert (summary["episodes"], summary["steps"], summary["search"], summary["seed"]) == (4, 40, "ars", 1)
    assert summary["stopped"] == {"episodes": "4 of 4 episodes are used"}
    assert summary["current_return"] <= summary["max_return"]
    assert summary["failures"] == 0


def test_an_existing_run_is_neither_lost_nor_mixed_up(abps: Call, here: Path) -> None:
    assert abps("train", *LQR, "--episodes", "4", "--quiet").code == 0
    before = (here / RUN / "journal.jsonl").read_bytes()
    answer = abps("train", *LQR, "--episodes", "4")
    assert answer.code == 1
    assert "there is a run in" in answer.err
    assert "abps resume" in answer.err
    assert "--overwrite" in answer.err
    assert (here / RUN / "journal.jsonl").read_bytes() == before
    assert abps("train", *LQR, "--episodes", "8", "--quiet", "--overwrite").code == 0
    assert (here / RUN.with_name("seed-0.old-1") / "journal.jsonl").read_bytes() == before
    assert len((here / RUN / "journal.jsonl").read_text().splitlines()) == 8


def test_resume_trains_longer(abps: Call, here: Path) -> None:
    assert abps("train", *LQR, "--episodes", "4", "--quiet").code == 0
    answer = abps("resume", RUN, "--episodes", "8")
    assert answer.code == 0
    assert "ars used 8 episodes" in answer.out
    assert abps("resume", RUN).code == 0  # Nothing left to do is no error.
    assert len((here / RUN / "journal.jsonl").read_text().splitlines()) == 8


def test_a_budget_below_what_was_run_is_refused_and_changes_nothing(abps: Call, here: Path) -> None:
    assert abps("train", *LQR, "--episodes", "8", "--quiet").code == 0
    before = {path: path.read_bytes() for path in (here / RUN).iterdir() if path.is_file()}
    answer = abps("resume", RUN, "--episodes", "4")
    said = "the run has 8 episodes already, and --episodes counts them all; for 100 more give --episodes 108"
    assert (answer.code, answer.err) == (2, f"abps resume: {said}\n")
    assert {path: path.read_bytes() for path in (here / RUN).iterdir() if path.is_file()} == before


def test_an_empty_task_is_a_missing_one(abps: Call, here: Path) -> None:
    assert abps("train", "", "--episodes", "4").err.startswith("abps train: TASK is missing")


def test_a_run_of_an_older_version_is_refused_with_the_version_that_can(abps: Call, here: Path) -> None:
    assert abps("train", *LQR, "--episodes", "4", "--quiet").code == 0
    config = here / RUN / "config.yaml"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if not line.startswith("format")))
    before = config.read_bytes()
    answer = abps("resume", RUN, "--episodes", "8")
    assert answer.code == 1
    assert "was made by another version" in answer.err
    assert answer.err.count("\n") == 1
    assert config.read_bytes() == before
    assert abps("export", RUN, "--quiet").code == 0
    assert "there is a run in" in abps("train", *LQR, "--episodes", "4").err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_everything_and_says_how_to_go_on(abps: Call, here: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "abps", "train", *LQR, "--episodes", "1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    journal, deadline = here / RUN / "journal.jsonl", time.monotonic() + 60
    while not (journal.exists() and journal.stat().st_size > 4000) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"Go on with: abps resume {RUN}" in err
    assert "Traceback" not in err
    lines = journal.read_text().splitlines()
    done = len(lines)
    assert json.loads(lines[-1])["episode"] == done - 1
    assert not (here / RUN / "DONE").exists()
    assert abps("resume", RUN, "--episodes", done + 4, "--quiet").code == 0
    assert len(journal.read_text().splitlines()) == done + 4


def test_loggers_by_option(abps: Call, here: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert abps("train", *LQR, "--episodes", "4", "--quiet", "--log", "tensorboard").code == 0
    assert list((here / RUN / "tensorboard").glob("events*"))


def test_a_run_that_only_fails_ends_with_an_error(abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from abps.tasks.lqr import LqrEnv

    def crash(self: Any, action: Any) -> Any:
        raise RuntimeError("no power")

    monkeypatch.setattr(LqrEnv, "step", crash)
    answer = abps("train", *LQR, "--episodes", "40", "--max-failures", "3", "--quiet")
    assert answer.code == 1
    assert "3 episodes in a row failed" in answer.err
    assert "no power" in answer.err
    assert "no power" in (here / RUN / "FAILED").read_text()


def test_a_run_without_an_episode_that_worked_says_so(abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from abps.tasks.lqr import LqrEnv

    monkeypatch.setattr(LqrEnv, "step", lambda self, action: 1 / 0)
    answer = abps("train", *LQR, "--episodes", "2")
    assert "make_env in 0 s: no episode worked." in answer.out
    assert "2 episodes failed and gave no return" in answer.out


def test_a_run_that_nothing_would_stop_is_refused(abps: Call, here: Path) -> None:
    answer = abps("train", *LQR, "--episodes", "0")
    assert (answer.code, "nothing else would stop the run" in answer.err) == (2, True)
    assert not Path("runs").exists()
    assert abps("train", *LQR, "--episodes", "0", "--steps", "100", "--quiet").code == 0
    settings = (RUN / "config.yaml").read_bytes()
    assert "nothing else would stop" in abps("resume", RUN, "--steps", "0").err
    assert (RUN / "config.yaml").read_bytes() == settings


def test_a_constrained_run_counts_the_episodes_beyond_a_limit(
    abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(here)
    Path("effort.py").write_text("def push(observation, action, reward, info):\n    return float(abs(action).max())\n")
    words = (*LQR, "--constraint", "push<=0(source=effort:push)", "--episodes", "6")  # Only no push at all is within.
    answer = abps("train", *words)
    lines = [json.loads(line) for line in (RUN / "journal.jsonl").read_text().splitlines()]
    beyond = sum(bool(line["violated"]) for line in lines)
    assert 1 < beyond <= 6
    assert f"{beyond} episodes went beyond a limit (push<=0(source=effort:push))." in answer.out
    assert json.loads(abps("train", *words, "--overwrite", "--json").out)["beyond_a_limit"] == beyond


@pytest.mark.parametrize("command", ["resume", "evaluate", "export", "failures"])
def test_a_folder_of_runs_is_answered_with_a_run_in_it(abps: Call, here: Path, command: str) -> None:
    abps("train", *LQR, "--episodes", "12", "--quiet")
    answer = abps(command, "runs")
    assert answer.code == 1
    assert answer.err.strip().endswith(f"there is no run in runs itself (no config.yaml); a run in it is {RUN}")


# ---- files, starts and loggers ---------------------------------------------------------------------------------------


def test_a_settings_file_comes_before_options(abps: Call, here: Path) -> None:
    assert abps("train", *LQR, "--episodes", "8", "--gamma", "0.9", "--quiet").code == 0
    assert abps("train", "--config", RUN, "--seed", "1", "--directions", "3", "--quiet").code == 0
    first, second = (yaml.safe_load((RUN.with_name(f"seed-{n}") / "config.yaml").read_text()) for n in (0, 1))
    assert second["search"]["settings"].pop("directions") == 3
    assert first["search"]["settings"].pop("directions") == 2
    assert {**first, "seed": 1} == second
    answer = abps("train", "--config", "nowhere.yaml")
    assert (answer.code, answer.err) == (2, "abps train: nowhere.yaml is missing\n")


def test_a_run_starts_from_another_one(abps: Call, here: Path) -> None:
    assert abps("train", *LQR, "--episodes", "8", "--quiet").code == 0
    assert abps("train", *LQR, "--episodes", "8", "--seed", "1", "--initial", RUN, "--quiet").code == 0
    started = RUN.with_name("seed-1")
    assert f"initial: {RUN}/policy/current.npz (checksum " in (started / "config.yaml").read_text()
    assert abps("resume", started, "--episodes", "12", "--quiet").code == 0
    answer = abps("train", *LQR, "--seed", "2", "--initial", "nowhere")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert not RUN.with_name("seed-2").exists()


def test_an_environment_is_made_again_as_it_was(abps: Call, here: Path) -> None:
    words = ("Pendulum-v1", "--search", "ars", "--horizon", "10", "--directions", "2", "--top", "2", "--quiet")
    words = (*words, "--env-kwargs", "g=2.5", "--wrapper", "ClipReward(min_reward=-1,max_reward=0)", "--episodes", "8")
    assert abps("train", *words).code == 0
    run = Path("runs/Pendulum-v1/ars/seed-0")
    task = yaml.safe_load((run / "config.yaml").read_text())["task"]
    assert (task["env_kwargs"], task["wrapper"]) == (["g=2.5"], ["ClipReward(min_reward=-1,max_reward=0)"])
    returns = json.loads(abps("evaluate", run, "--json", "--episodes", "3").out)["returns"]
    assert all(-10.0 <= value <= 0.0 for value in returns)
    assert abps("resume", run, "--episodes", "12", "--quiet").code == 0


@pytest.mark.parametrize("there", [False, True])
def test_a_logger_that_cannot_begin_leaves_no_run_behind(
    abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    if there:
        assert abps("train", *LQR, "--episodes", "4", "--quiet").code == 0
    kept = (RUN / "journal.jsonl").read_bytes() if there else b""
    answer = abps("train", *LQR, "--episodes", "8", "--log", "tensorboard", "--overwrite")
    assert answer.err == "abps train: TensorBoard logging needs tensorboardX: pip install 'abps[tensorboard]'\n"
    left = [str(path) for path in here.rglob("seed-0*")] if there else list(here.iterdir())
    assert left == ([str(here / RUN)] if there else []), "nor the folders that would have held it"
    assert not there or (RUN / "journal.jsonl").read_bytes() == kept


def test_a_search_whose_package_is_missing_leaves_no_run_behind(
    abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cma", None)
    answer = abps("train", LQR[0], "--search", "cma", "--episodes", "8")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "abps train: CMA-ES needs the package cma (pycma): pip install 'abps[peers]'\n"
    assert not (here / "runs").exists()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_number_of_the_progress_bar_is_cut(
    abps: Call, here: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = abps("train", *LQR, "--episodes", "12")
    assert re.search(r"12/12 episodes \d:\d\d:\d\d \S+ current -?[\d.]+  best -?[\d.]+\s", answer.err)


def test_counts_agree_with_their_nouns(abps: Call, here: Path) -> None:
    answer = abps("train", *LQR, "--episodes", "1")
    assert "ars used 1 episode of abps.tasks.lqr:make_env" in answer.out
    assert "1 of 1 episode is used" in (RUN / "DONE").read_text()


def test_auto_chooses_and_the_run_knows_only_what_it_chose(
    abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = (auto.Row(8, 40, "ars", 0.9, "abs", 0.8, 4), auto.Row(10**9, 10**9, "mpd", 0.7, "abs", 0.6, 3))
    monkeypatch.setattr(auto, "RULE", rule)
    name = LQR[0]
    words = ("--search", "auto", "--directions", 2, "--top", 1, "--evaluation-episodes", 1)
    answer = abps("train", name, *words, "--episodes", 4)
    assert answer.code == 0
    assert answer.err.startswith("auto chose ars for 6 weights and 4 episodes: it had 90 % of")
    assert answer.out.startswith("ars used 4 episodes")
    run = here / "runs" / name.replace(":", "-") / "ars" / "seed-0"
    assert yaml.safe_load((run / "config.yaml").read_text())["search"]["name"] == "ars"
    assert abps("resume", run, "--episodes", 8, "--quiet").code == 0
    assert abps("train", name, *words, "--episodes", 4, "--seed", 1, "--quiet").err == ""
    # The settings are those of the chosen search; more episodes are another one.
    wrong = abps("train", name, *words, "--episodes", 41)
    assert wrong.code == 2
    assert wrong.err.splitlines()[-1].endswith("--directions is a setting of the search ars, not of the chosen one")
    (here / "mine.yaml").write_text(
        f"task: {{id: '{name}', name: lqr}}\nsearch: {{name: auto}}\nbudget: {{episodes: 4}}\n"
    )
    assert "auto chose ars" in abps("train", "--config", "mine.yaml", "--evaluation-episodes", 1).err


def test_help_of_auto_needs_no_choice(abps: Call) -> None:
    answer = abps("train", "--search", "auto", "--help")
    assert answer.code == 0
    assert "auto chose" not in answer.err
    assert abps("train", "--search", "auto").err.startswith("abps train: TASK is missing")
