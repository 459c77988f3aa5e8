"""`abps ask`: making a hardware run from robot.yaml (docs/hardware.md), and asking; the rest is in tests/e2e."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from abps.search.registry import search_config
from abps.settings import to_dict

Call = Callable[..., Any]
ROBOT = {"observations": 3, "action_low": [-1.0], "action_high": [1.0], "horizon": 20, "name": "arm"}


@pytest.fixture
def robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("robot.yaml").write_text(yaml.safe_dump(ROBOT))
    return Path("robot.yaml")


def test_help(abps: Call, snapshot: Call) -> None:
    answer = abps("ask", "--help")
    assert len(answer.out.splitlines()) <= 40
    snapshot("ask_help", answer.out)


def test_a_new_run_has_the_settings_that_were_given_and_those_of_the_preset(abps: Call, robot: Path) -> None:
    answer = abps(
        "ask", "run", "--new", robot, "--search", "mpd", "--episodes", "9", "--plan.probes", "4", "--seed", "2"
    )
    assert answer.code == 0, answer.err
    assert "Episode 0: run policy" in answer.out
    document = yaml.safe_load(Path("run/config.yaml").read_text())
    expected = to_dict(search_config("mpd", "arm"))
    expected["plan"]["probes"] = 4
    assert document["search"]["settings"] == expected
    assert (document["budget"]["episodes"], document["seed"], document["task"]["name"]) == (9, 2, "arm")
    again = json.loads(abps("ask", "run", "--json").out)
    assert (again["episode"], again["done"]) == (0, False)


@pytest.mark.parametrize(
    ("changes", "words", "sentence"),
    [
        ({"normalise": True}, (), "give `abps ask` --observations running or --observations raw"),
        ({"policy": "direct"}, (), "give `abps ask` --policy linear-tanh or --policy clipped-linear"),
        ({"reward_shift": 1.0}, (), "give `abps ask` --reward-shift X"),
        ({"gama": 0.9}, (), "unknown setting gama; did you mean 'gamma'?"),
        ({"gamma": "high"}, (), "gamma must be of type float, got 'high'"),
        ({}, ("--search", "mpd", "--plan.prob", "3"), "did you mean '--plan.probes'?"),
        ({}, ("--search", "gbo"), "unknown search 'gbo'; did you mean 'gibo'?"),
        ({}, ("--workers", "3"), "unknown option --workers"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(
    abps: Call, robot: Path, changes: dict[str, Any], words: tuple[str, ...], sentence: str
) -> None:
    robot.write_text(yaml.safe_dump({**ROBOT, **changes}))
    answer = abps("ask", "run", "--new", robot, *words)
    assert answer.code == 2
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert not Path("run").exists()


def test_settings_belong_to_a_new_run(abps: Call, robot: Path) -> None:
    assert abps("ask", "run", "--new", robot, "--search", "ars").code == 0
    answer = abps("ask", "run", "--directions", "3")
    assert answer.code == 2
    assert "--directions is a setting of the search; settings are chosen when a run is made, with --new" in answer.err


def test_auto_chooses_for_a_robot(abps: Call, robot: Path) -> None:
    answer = abps("ask", "run", "--new", robot, "--search", "auto", "--episodes", 60)
    assert answer.code == 0
    chosen = yaml.safe_load(Path("run/config.yaml").read_text())["search"]["name"]
    assert answer.err.startswith(f"auto chose {chosen} for")
    assert "and 60 episodes" in answer.err
