"""`abps tune`: what it prints, writes and returns."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("optuna")

Call = Callable[..., Any]
LQR = ("abps.tasks.lqr:make_env", "--search", "ars", "--horizon", "10", "--directions", "1", "--top", "1")
SHORT = ("--episodes", "4", "--seeds", "1", "--evaluation-episodes", "1", "--jobs", "1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_dry_run_prints_a_space_file_of_what_is_not_fixed(abps: Call, here: Path) -> None:
    answer = abps("tune", *LQR, "--dry-run")
    assert answer.code == 0
    assert set(yaml.safe_load(answer.out)) == {"step", "noise"}
    (here / "space.yaml").write_text(answer.out)
    again = abps("tune", *LQR, "--space", "space.yaml", "--dry-run", "--json")
    assert json.loads(again.out)["space"] == yaml.safe_load(answer.out)
    assert list(here.iterdir()) == [here / "space.yaml"]  # Nothing was run.


def test_a_study_its_table_and_its_settings_file(abps: Call, here: Path) -> None:
    answer = abps("tune", *LQR, *SHORT, "--trials", "2")
    assert answer.code == 0
    assert "Best of 2 trials (0 stopped early, 0 failed)" in answer.out
    assert "trial 1: done: return" in answer.err
    folder = here / "tune" / "abps.tasks.lqr-make_env" / "ars"
    assert f"--config {folder.relative_to(here)}/best.yaml" in answer.out
    document = json.loads(abps("tune", *LQR, *SHORT, "--trials", "2", "--json").out)
    assert [row["number"] for row in document["rows"]] == [0, 1]
    assert document["best"]["value"] == max(row["value"] for row in document["rows"])
    trained = abps("train", "--config", document["config"], "--episodes", "2", "--json")
    assert json.loads(trained.out)["search"] == "ars"
    stored = yaml.safe_load((here / "runs/abps.tasks.lqr-make_env/ars/seed-0/config.yaml").read_text())
    assert stored["search"]["settings"]["step"] == document["best"]["settings"]["step"]
    other = abps("tune", *LQR, *SHORT, "--trials", "2", "--seeds", "2")
    assert other.code == 1
    assert "has a study of something else (seeds: 1 there, 2 is wanted); take another folder: --out" in other.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--trials", "0"), "trials must be at least 1, got 0"),
        (("--seeds", "0"), "seeds must be at least 1, got 0"),
        (("--episodes", "0"), "episodes must be at least 1, got 0"),
        (("--jobs", "0"), "jobs must be at least 1, got 0"),
        (("--seed", "-1"), "--seed must not be negative"),
        (("--space", "none.yaml"), "none.yaml is missing"),
        (("--trails", "3"), "did you mean '--trials'?"),
    ],
)
def test_wrong_words_get_one_sentence_and_leave_nothing(
    words: tuple[str, ...], sentence: str, abps: Call, here: Path
) -> None:
    answer = abps("tune", *LQR, *words)
    assert answer.code == 2
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert list(here.iterdir()) == []


def test_without_optuna_there_is_one_sentence(abps: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    answer = abps("tune", *LQR)
    assert (answer.code, answer.err) == (2, "abps tune: tuning needs Optuna: pip install 'abps[tune]'\n")


def test_the_command_that_checks_the_best_settings_is_one_that_compare_takes(abps: Call, here: Path) -> None:
    (here / "space.yaml").write_text("step: {low: 0.1, high: 0.5}\nnoise: {low: 0.1, high: 0.5}\n")
    words = ("--space", "space.yaml", *SHORT, "--trials", "3", "--episodes", "32")
    answer = abps("tune", "abps.tasks.lqr:make_env", "--search", "ars", *words)
    assert answer.code == 0
    line = answer.out.splitlines()[-1].strip()
    assert line.startswith("abps compare abps.tasks.lqr:make_env --searches ars --seeds 0-4"), answer.out
    listed = abps(*line.split()[1:], "--dry-run")
    assert listed.code == 0
    assert "10 cells, 10 to run" in listed.out
