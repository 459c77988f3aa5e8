"""`abps doctor`: says what is there, and fails when something needed is not."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.cli.doctor import OPTIONAL

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
BROUGHT_BY = {"imageio_ffmpeg": "imageio[ffmpeg]"}

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


def test_every_package_of_an_extra_is_listed() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    needed = [one for name, packages in extras.items() if name not in ("test", "docs") for one in packages]
    listed = [BROUGHT_BY.get(name, name) for name in OPTIONAL]
    assert sorted(listed) == sorted(re.split(r"[<>=]", one)[0] for one in needed)
