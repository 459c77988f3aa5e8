"""`abps doctor`: says what is there, and fails when something needed is not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


def test_a_healthy_installation(abps: Call) -> None:
    answer = abps("doctor")
    assert answer.code == 0, answer.out
    assert answer.out.count("works") == 7
    assert "mujoco" in answer.out


def test_json(abps: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abps.cli.doctor._try_task", lambda name: None)
    report = json.loads(abps("doctor", "--json").out)
    assert set(report) == {"versions", "optional", "checks"}
    assert set(report["checks"].values()) == {"works"}


def test_a_broken_task_is_reported_and_fails(abps: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        if name == "ant":
            raise RuntimeError("no physics")

    monkeypatch.setattr("abps.cli.doctor._try_task", broken)
    answer = abps("doctor")
    assert answer.code == 1
    assert "FAILS: no physics" in answer.out
