"""What an operator is told of a robot's run (`run/operator.py`), and how a terminal shows it (`cli/robot_view.py`)."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.cli import main
from abps.cli.robot_view import spark
from abps.errors import RunError
from abps.run.hardware import create_hardware_run, open_hardware_run
from abps.run.operator import is_robot, robot_facts
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.limits import Limits
from abps.trajectory import Trajectory


def episode(policy: Any, value: float) -> Trajectory:
    observations = np.random.default_rng(int(10 * value)).normal(size=(5, 3))
    act = policy.start()
    actions = [act(row) for row in observations[:-1]]
    return Trajectory.build(observations, actions, [0.0, 0.0, 0.0, value], terminated=True, truncated=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    config = replace(search_config("ars", "arm"), directions=2, top=1)
    create_hardware_run(
        path,
        TaskConfig(name="arm", horizon=8, limits=Limits(action_rate=(0.5,))),
        HardwareConfig(observations=3, action_low=(-1.0,), action_high=(1.0,)),
        search="ars",
        config=config,
        budget=BudgetConfig(episodes=8),
    )
    return path


def tell(path: Path, *values: float | str) -> None:
    """Tell returns, or reasons of failures; then ask, as an operator does."""
    for value in values:
        with open_hardware_run(path) as robot:
            request = robot.ask()
            assert request is not None
            robot.fail(value) if isinstance(value, str) else robot.tell(episode(request.policy, value))


def ask(path: Path) -> Any:
    with open_hardware_run(path) as robot:
        request = robot.ask()
        assert request is not None
        robot.write_policy(request)
        return request


def test_facts_follow_the_run(run: Path) -> None:
    facts = robot_facts(run)
    assert (facts["state"], facts["told"], facts["best"], facts["next"]) == ("new", 0, None, None)
    assert facts["commands"] == [f"abps ask {run}"]
    assert facts["limits"] == {"action_rate": [0.5]}
    request = ask(run)
    facts = robot_facts(run)
    assert facts["state"] == "asked"
    assert facts["next"] is not None
    assert (facts["next"]["policy_id"], facts["next"]["left"]) == (request.policy_id, 1)
    assert facts["commands"][0] == f"abps tell {run} --trajectory FILE"
    tell(run, 3.0, 5.0, 4.0)
    facts = robot_facts(run)
    assert facts["state"] == "told", "query.npz is of an episode that was told"
    assert [item["value"] for item in facts["episodes"]] == [3.0, 5.0, 4.0]
    assert facts["best"] is not None
    assert (facts["best"]["episode"], facts["recent"]) == (1, 4.0)
    assert set(facts["policies"]) == {"best", "current"}
    with open_hardware_run(run) as robot:
        robot.discard()
    facts = robot_facts(run)
    assert (facts["told"], facts["discarded"]) == (2, [2])


def test_the_end_says_how_to_go_on(run: Path) -> None:
    tell(run, *range(8))
    facts = robot_facts(run)
    assert (facts["state"], facts["reason"]) == ("done", "8 of 8 episodes are used")
    assert f"abps ask {run} --episodes 28" in facts["commands"]
    assert all((Path(file)).is_file() for file in facts["policies"].values())


def test_failures_are_counted_and_spoken_of(run: Path) -> None:
    tell(run, 1.0, "it jammed", "it jammed", "again")
    facts = robot_facts(run)
    assert [item["failed"] for item in facts["failures"]] == ["it jammed", "it jammed", "again"]
    assert "The last 3 episodes failed (newest: again)" in facts["advice"][0]
    tell(run, 2.0)
    assert "3 of the last 5 episodes failed" in robot_facts(run)["advice"][0]
    (run / "FAILED").write_text("Traceback\n  line\nRuntimeError: out of oil\n")
    facts = robot_facts(run)
    assert (facts["state"], facts["reason"]) == ("failed", "RuntimeError: out of oil")


def test_looking_changes_nothing_and_takes_no_lock(run: Path) -> None:
    tell(run, 1.0, 2.0)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with open_hardware_run(run):
        assert robot_facts(run)["told"] == 2
    robot_facts(run)
    after = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    names = {file for file in before if file.name != "lock" and file.suffix != ".npz"}
    assert {file: before[file] for file in names} == {file: after[file] for file in names}


def test_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no run in"):
        robot_facts(tmp_path)
    assert not is_robot(tmp_path)


@pytest.fixture(scope="module")
def told_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("robot") / "run"
    create_hardware_run(
        path,
        TaskConfig(name="arm", horizon=8),
        HardwareConfig(observations=3, action_low=(-1.0,), action_high=(1.0,)),
        search="ars",
        budget=BudgetConfig(episodes=8),
    )
    tell(path, 1.0, "jammed", 2.0)
    ask(path)
    (path / "DONE").write_text("episodes: used\n")
    return path


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["config.yaml", "journal.jsonl", "query.npz", "DONE"]),
    cut=st.floats(0.0, 1.0),
    noise=st.binary(max_size=40),
)
def test_damaged_files_are_survived(told_run: Path, name: str, cut: float, noise: bytes) -> None:
    file = told_run / name
    whole = file.read_bytes()
    at = int(cut * len(whole))
    try:
        file.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
        facts = robot_facts(told_run)
        is_robot(told_run)
        json.dumps(facts, allow_nan=False)
        assert facts["told"] <= 3
        assert facts["advice"]
    finally:
        file.write_bytes(whole)


def test_bars_go_from_the_smallest_to_the_largest() -> None:
    def facts(value: float | None) -> Any:
        return {"value": value}

    assert spark([facts(v) for v in (0.0, 7.0, None, 3.0)]) == "▁█×▄"
    assert spark([facts(2.0), facts(2.0)]) == "▁▁"


def test_abps_watch_shows_the_operator_what_to_do(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tell(run, 1.0, "it jammed", 2.5)
    assert main(["watch", str(run), "--once"]) == 0
    shown = capsys.readouterr().out
    for words in (
        "arm · ars · 3 of 8 episodes",
        "failed: it jammed",
        "best: 2.5",
        "What to do next",
        f"abps ask {run}",
    ):
        assert words in shown
    assert main(["watch", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["told"] == 3
    shutil.copytree(run, tmp_path / "runs" / "one")
    assert main(["watch", str(tmp_path / "runs"), "--once"]) == 0  # A folder is a table, as ever.
    assert "What to do next" not in capsys.readouterr().out


def test_a_finished_robot_run_is_extended_and_exported(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tell(run, *range(8))
    assert main(["ask", str(run)]) == 0
    assert f"Go on: abps ask {run} --episodes 28" in capsys.readouterr().out
    for words, sentence in (
        (["--episodes", "8"], "Go on"),  # Nothing new.
        (["--episodes", "5"], "the run has 8 told episodes already"),
        (["--plan.probes", "5"], "settings are chosen when a run is made"),
    ):
        main(["ask", str(run), *words])
        captured = capsys.readouterr()
        assert sentence in captured.out + captured.err
    assert main(["ask", str(run), "--episodes", "10"]) == 0
    assert "Episode 8: run policy" in capsys.readouterr().out
    assert not (run / "DONE").exists()
    for which in ("best", "current"):
        out = tmp_path / which
        assert main(["export", str(run), "--which", which, "--out", str(out), "--format", "numpy"]) == 0
        assert (out / "policy.py").is_file()
