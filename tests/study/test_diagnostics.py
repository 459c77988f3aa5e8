"""Findings in words: what is measured decides the level, and the sentence gives the number."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.study.diagnostics import PANELS, findings
from abps.study.records import Run, load_run

MakeRun = Callable[..., Path]


@pytest.fixture
def run_with(make_run: MakeRun, tmp_path: Path) -> Callable[[list[dict[str, Any]]], Run]:
    path = make_run(tmp_path, "hopper", "abs", 0)

    def make(rows: list[dict[str, Any]]) -> Run:
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return load_run(path)

    return make


@pytest.mark.parametrize(
    ("title", "good", "fair", "poor"),
    [
        ("Critics' agreement", {"critics_agreement": 0.9}, {"critics_agreement": 0.5}, {"critics_agreement": 0.2}),
        ("Direction", {"step_agreement": 0.6}, {"step_agreement": 0.0}, {"step_agreement": -0.6}),
        ("Probability of ascent", {"probability_ascent": 0.95}, {"probability_ascent": 0.8},
         {"probability_ascent": 0.55}),
        ("Noise", {"signal": 1.0, "noise": 0.1}, {"signal": 1.0, "noise": 0.6}, {"signal": 1.0, "noise": 3.0}),
        ("Critics' scores", {"r2_validation": [0.7, -1.0]}, {"r2_validation": [0.1, None]}, {"r2_validation": [-0.5]}),
        ("Use of the critics", {"log_likelihood": 9, "log_likelihood_constant": 4},
         {"log_likelihood": 4.5, "log_likelihood_constant": 4}, {"log_likelihood": 1, "log_likelihood_constant": 4}),
        ("Moves", {"step_chart": 0.1}, {"step_chart": 0.1, "some": "retreat"}, {"step_chart": 0.1, "retreat": "worse"}),
        ("Numerics", {"fit_fallback": ""}, {"fit_fallback": "", "some": "fall"}, {"fit_fallback": "no optimum"}),
    ],
)  # fmt: skip
def test_levels(run_with: Callable[..., Run], title: str, good: Any, fair: Any, poor: Any) -> None:
    for level, row in (("good", good), ("fair", fair), ("poor", poor)):
        rows = [{**row, "episodes": n} for n in range(20)]
        for n in range(8) if row.get("some") == "retreat" else ():
            rows[n]["retreat"] = "worse"
        if row.get("some") == "fall":
            rows[0]["critics_diverged"] = 1
        (found,) = [item for item in findings(run_with(rows)) if item["title"] == title]
        assert found["level"] == level, found["text"]
        assert any(character.isdigit() for character in found["text"])
        assert found["text"].endswith(".")


def test_new_starts_are_told_with_their_episodes(run_with: Callable[..., Run]) -> None:
    begun = {30: {"restart": "near"}, 55: {"restart": "onward"}}
    rows = [{"episodes": 2 * n, **begun.get(n, {})} for n in range(60)]
    (found,) = [item for item in findings(run_with(rows)) if item["title"] == "Attempts"]
    assert found["text"].startswith("2 new starts, after episodes 60, 110: ")
    (found,) = [item for item in findings(run_with(rows[:40])) if item["title"] == "Attempts"]
    assert found["text"].startswith("1 new start, after episode 60: ")
    assert not [item for item in findings(run_with(rows[:30])) if item["title"] == "Attempts"]


def test_only_the_newest_iterations_count(run_with: Callable[..., Run]) -> None:
    rows = [{"episodes": n, "critics_agreement": 0.1 if n < 30 else 0.9} for n in range(40)]
    assert findings(run_with(rows))[0]["text"].startswith("0.90 of 1")
    assert findings(run_with(rows[::-1]))[0]["level"] == "poor", "the order matters"


def test_failed_episodes_are_named(run_with: Callable[..., Run], tmp_path: Path) -> None:
    run = run_with([{"episodes": 40}])
    journal = [{"return": 1.0, "failed": None}] * 38 + [{"return": None, "failed": "gripper jammed\nmore"}] * 2
    (run.path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in journal))
    (found,) = findings(load_run(run.path))
    assert (found["title"], found["level"]) == ("Failed episodes", "fair")
    assert found["text"] == "2 of 40 (5%); the newest: gripper jammed."


def test_nothing_is_said_about_what_was_not_measured(run_with: Callable[..., Run]) -> None:
    assert findings(run_with([])) == []
    assert findings(run_with([{"episodes": 3, "eval_return": 5.0}])) == []


def test_every_panel_says_what_is_good() -> None:
    assert all(panel["good"].endswith(".") and panel["unit"] for panel in PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
