"""`abps failures` (failures.py), and the notes that a run keeps (run/failures.py)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.run.failures import FAILURES_FILE, note_failure, read_failures
from abps.trajectory import Failed

Call = Callable[..., Any]

MODULE = """
import gymnasium
import numpy as np


class Loose(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        return self.turn(action)

    def turn(self, action):
        raise ValueError("a screw is loose")
"""


def test_the_screen_has_one_sentence_and_the_command_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abps: Call
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "loose_screws.py").write_text(MODULE)
    answer = abps("train", "loose_screws:Loose", "--search", "ars", "--quiet", "--retries", "0")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "10 episodes in a row failed, the last with: ValueError: a screw is loose" in answer.err
    run = next(tmp_path.glob("runs/*/ars/seed-0"))
    shown = abps("failures", run)
    assert shown.code == 0
    assert shown.out.count("Traceback") == 1
    assert 'loose_screws.py", line 17, in turn' in shown.out
    assert "10 attempts: ValueError: a screw is loose" in shown.out
    assert abps("failures", run, "--all").out.count("Traceback") == 10
    told = json.loads(abps("failures", run, "--json").out)
    assert told["reasons"] == {"ValueError: a screw is loose": 10}
    assert [row["where"] for row in told["rows"]] == [f"episode {number}" for number in range(10)]


def test_a_run_without_failures_and_no_run(tmp_path: Path, abps: Call, make_settings: Call, run_new: Call) -> None:
    run_new(tmp_path / "run", make_settings(episodes=6))
    assert abps("failures", tmp_path / "run").out == f"no episode of {tmp_path / 'run'} failed\n"
    assert "there is no run" in abps("failures", tmp_path).err


def test_notes_are_bounded_and_read_back(tmp_path: Path) -> None:
    assert read_failures(tmp_path) == []
    note_failure(tmp_path, 3, 0, Failed("first", "Traceback\n  line\nError: first\n"))
    note_failure(tmp_path, 3, 1, Failed("second"))
    assert read_failures(tmp_path) == [
        "episode 3: first\nTraceback\n  line\nError: first",
        "episode 3, attempt 2: second",
    ]
    for number in range(200):
        note_failure(tmp_path, number, 0, Failed("long", "x" * 100_000))
    assert (tmp_path / FAILURES_FILE).stat().st_size < 1.1 * 2**20
