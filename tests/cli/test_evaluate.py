"""`abps evaluate`: fresh episodes of a saved policy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, make_settings: Call, run_new: Call) -> Path:
    run_new(tmp_path / "run", make_settings(episodes=12))
    return tmp_path / "run"


def test_returns_are_printed(abps: Call, run: Path) -> None:
    answer = abps("evaluate", run, "--episodes", "3")
    assert answer.code == 0
    assert answer.out.startswith(f"current policy of {run}: return ")
    assert "(std over 3 episodes, 0 failed)" in answer.out


def test_json_repeats_and_the_seed_counts(abps: Call, run: Path) -> None:
    first, second = (json.loads(abps("evaluate", run, "--episodes", "4", "--json").out) for _ in range(2))
    assert first == second
    assert len(first["returns"]) == 4
    assert first["mean"] == pytest.approx(sum(first["returns"]) / 4)
    other = json.loads(abps("evaluate", run, "--episodes", "4", "--json", "--seed", "1").out)
    assert other["returns"] != first["returns"]


def test_best_and_current_are_different_policies(abps: Call, run: Path) -> None:
    answers = [json.loads(abps("evaluate", run, "--which", name, "--json").out) for name in ("best", "current")]
    assert [answer["policy"] for answer in answers] == ["best", "current"]
    assert answers[0]["mean"] != answers[1]["mean"] or (
        (run / "policy/best.npz").read_bytes() == (run / "policy/current.npz").read_bytes()
    )


def test_evaluation_leaves_the_run_alone(abps: Call, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    abps("evaluate", run, "--episodes", "2")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_what_cannot_be_evaluated_says_why(abps: Call, run: Path, tmp_path: Path) -> None:
    assert "must be at least 1" in abps("evaluate", run, "--episodes", "0").err
    assert "there is no run in" in abps("evaluate", tmp_path / "nowhere").err
    (run / "policy/best.npz").unlink()
    assert "has no best policy yet" in abps("evaluate", run, "--which", "best").err
    (run / "policy/current.npz").write_bytes(b"not a policy")
    answer = abps("evaluate", run)
    assert answer.code == 1
    assert "is not a policy file" in answer.err


def test_a_negative_seed_is_refused_in_one_sentence(abps: Call, run: Path) -> None:
    answer = abps("evaluate", run, "--seed", "-1")
    assert (answer.code, answer.err) == (1, "abps evaluate: --seed must not be negative, got -1\n")
