"""The headline and the numbers behind it: standing, robots, studies, next commands (headline, robot, next_steps)."""

import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from abps.cli import main
from abps.study.groups import group_runs, summarise
from abps.study.headline import facts, run_headline, standing, study_headlines
from abps.study.next_steps import next_steps
from abps.study.records import Run, load_run, load_runs
from abps.study.robot import is_robot, robot_state

MakeRun = Callable[..., Path]


def with_rows(path: Path, rows: list[dict[str, Any]], **sections: Any) -> Run:
    """The run with these metrics, and sections of its settings replaced."""
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = yaml.safe_load((path / "config.yaml").read_text())
    (path / "config.yaml").write_text(yaml.safe_dump({**config, **sections}))
    (path / "journal.jsonl").write_text("".join(json.dumps({"return": 1.0, "steps": 5}) + "\n" for _ in range(300)))
    return load_run(path)


ROWS = [
    {"episodes": 40, "eval_return": 200.0, "eval_return_std": 10.0, "max_return": 200.0},
    {"episodes": 78, "eval_return": 1000.0, "eval_return_std": 0.0, "max_return": 1000.0},
    {"episodes": 150, "eval_return": 1010.0, "eval_return_std": 60.0, "max_return": 1010.0},
    {"episodes": 299, "eval_return": 979.0, "eval_return_std": 4.0, "max_return": 1012.0},
]


@pytest.fixture
def run(make_run: MakeRun, tmp_path: Path) -> Run:
    return with_rows(make_run(tmp_path, "hopper", "abs", 0), ROWS, run={"evaluation_episodes": 5})


def test_the_sentence(run: Run) -> None:
    # 1010 ± 30 is luckier than 1000 ± 0, not more believable; 300 episodes ran, 299 of them in whole iterations.
    wanted = "Current policy 979 after 300 episodes; reached 1010 after 150; best believable policy 1000 ± 0."
    assert run_headline(run) == wanted


def test_a_threshold_is_what_had_to_be_reached(run: Run) -> None:
    assert "; reached 900 after 78; " in run_headline(run, 900.0)
    assert "; has not reached 2000; " in run_headline(run, 2000.0)


def test_standard_errors_are_those_of_the_mean(run: Run) -> None:
    now = standing(run)
    rng = np.random.default_rng(0)
    sample = rng.normal(size=5)
    sample = 979.0 + 4.0 * (sample - sample.mean()) / sample.std()  # Five episodes that the last row may describe.
    assert now.error == pytest.approx(sample.std(ddof=1) / math.sqrt(5))
    assert (now.measured_by, now.current, now.believable_at) == ("evaluation", 979.0, 78.0)


def test_without_evaluations_the_training_episodes_are_named(make_run: MakeRun, tmp_path: Path) -> None:
    rows = [{"episodes": 10, "centre_return": 5.0}, {"episodes": 20, "centre_return": 7.0}]
    run = with_rows(make_run(tmp_path, "hopper", "abs", 0), rows)
    now = standing(run)
    assert (now.measured_by, now.current) == ("training", 7.0)
    assert math.isnan(now.believable), "nothing was evaluated, nothing is believed"
    assert "believable" not in run_headline(run)
    assert "training episodes" in facts(run)[0]["note"]


def test_one_evaluation_episode_has_no_error(make_run: MakeRun, tmp_path: Path) -> None:
    run = with_rows(make_run(tmp_path, "hopper", "abs", 0), ROWS, run={"evaluation_episodes": 1})
    assert "±" not in run_headline(run)
    assert facts(run)[0]["note"] == "mean of 1 fresh evaluation episode"


def test_nothing_measured_yet(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    assert run_headline(with_rows(path, [])) == "No outer iteration is finished yet: 300 episodes so far."
    (path / "FAILED").write_text("boom")
    assert run_headline(load_run(path)) == "The run failed after 300 episodes, before a policy was measured."


def test_episodes_beyond_a_limit_are_counted(run: Run) -> None:
    assert "limit" not in run_headline(run)
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    (run.path / "config.yaml").write_text(yaml.safe_dump({**config, "task": {"constraint": ["wall<=2"]}}))
    lines = [{"return": 1.0, "steps": 5, "violated": violated} for violated in (["wall"], [], None, ["wall"], "wall")]
    (run.path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = load_run(run.path)
    assert run_headline(found).endswith("; 2 episodes beyond a limit.")
    beyond = next(item for item in facts(found) if item["name"] == "Beyond a limit")
    assert beyond["value"] == "2"
    assert "wall<=2" in beyond["note"]


def test_facts_have_units(run: Run) -> None:
    told = {fact["name"]: (fact["value"], fact["note"]) for fact in facts(run)}
    assert told["Current policy"] == ("979 ± 2", "mean ± standard error of 5 fresh evaluation episodes")
    assert told["Maximum so far"][0] == "1012"
    assert told["Episodes"] == ("300", "1500 steps, 4 outer iterations")


def test_a_study_is_ranked_by_current_policies(study: Path) -> None:
    rows = summarise(group_runs(load_runs([study])))
    sentences = study_headlines(rows)
    assert [sentence.split(",")[0] for sentence in sentences] == ["pendulum", "hopper"]
    means = {row.label: row.scores["iqm"]["centre_return"].value for row in rows if row.task == "hopper"}
    places = [sentences[1].index(f"{label} ") for label in sorted(means, key=lambda label: -means[label])]
    assert places == sorted(places)
    assert "interquartile mean of 3 seeds" in sentences[1]


# ---- what to do next ----


def commands(run: Run) -> list[str]:
    return [step.command for step in next_steps(run)]


def test_commands_of_a_finished_run(make_run: MakeRun, tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "with space", "hopper", "abs", 0))
    quoted = shlex.quote(str(run.path))
    assert quoted != str(run.path)
    assert f"abps evaluate {quoted} --episodes 20" in commands(run)
    assert f"abps resume {quoted} --episodes 600" in commands(run)
    comparison = "abps compare hopper --searches abs,ars,mpd --seeds 0-4 --episodes 300 --horizon 1000 "
    assert any(command.startswith(comparison) for command in commands(run))


@pytest.mark.parametrize(
    "words",
    [
        ("--horizon", "15", "--gamma", "0.9"),
        ("--env-kwargs", "seed=1", "--env-kwargs", "states=2", "--wrapper", "RecordEpisodeStatistics"),
        ("--limits.action-change", "0.5", "--limits.weights", "3.0", "--reward-scale", "2.5"),
        ("--observations", "raw", "--noise", "0.01"),
        ("--preset", "paper"),
    ],
)
def test_the_comparison_is_of_the_same_task_and_settings(words: tuple[str, ...], tmp_path: Path, capsys: Any) -> None:
    """Without them `abps compare` meets the run as one with other settings, and refuses it."""
    root, task = tmp_path / "runs", "abps.tasks.lqr:make_env"
    main(["train", task, "--search", "ars", "--episodes", "24", "--runs", str(root), "--quiet", *words])
    (run,) = load_runs([root])
    _, *typed = shlex.split(next(command for command in commands(run) if command.startswith("abps compare")))
    capsys.readouterr()
    assert main([*typed, "--runs", str(root), "--dry-run"]) == 0, capsys.readouterr().out


def test_commands_of_runs_that_stopped(make_run: MakeRun, tmp_path: Path) -> None:
    failed = load_run(make_run(tmp_path, "hopper", "abs", 0, status="failed"))
    assert commands(failed)[:2] == [f"cat {failed.path}/FAILED", f"abps resume {failed.path}"]
    stopped = load_run(make_run(tmp_path, "hopper", "abs", 1, status="unfinished"))
    assert commands(stopped)[:2] == [f"abps resume {stopped.path}", f"abps watch --web {stopped.path}"]


def test_what_is_suggested_can_be_typed(make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every suggested command is one that the command line knows, with options that it has."""
    seen = set()
    robot = robot_run(tmp_path / "robot", told=4)
    done = load_run(make_run(tmp_path, "hopper", "abs", 0))
    stopped = load_run(make_run(tmp_path, "hopper", "abs", 1, status="failed"))
    for run in (robot, done, stopped):
        for command in commands(run):
            program, name, *words = shlex.split(command)
            if program == "cat":
                assert Path(name).is_file()
                continue
            seen.add(name)
            with pytest.raises(SystemExit) if name not in ("resume", "ask") else _anything():
                main([name, "--help"])
            text = capsys.readouterr().out
            if name == "resume":
                main([name, "--help-all"])
                text += capsys.readouterr().out
            assert all(word in text for word in words if word.startswith("--")), command
    assert seen == {"evaluate", "resume", "video", "export", "compare", "watch", "ask", "tell"}


def _anything() -> Any:
    from contextlib import nullcontext

    return nullcontext()


# ---- robots ----


def robot_run(path: Path, *, told: int, fail_from: int = 99, discard: bool = False) -> Run:
    """A real run on hardware whose robot is a random number generator."""
    from abps.run.hardware import create_hardware_run, open_hardware_run
    from abps.search.budget import BudgetConfig
    from abps.tasks.config import HardwareConfig, TaskConfig
    from abps.trajectory import Trajectory

    hardware = HardwareConfig(observations=2, action_low=(-1.0,), action_high=(1.0,))
    task = TaskConfig(name="arm", horizon=8)
    create_hardware_run(path, task, hardware, search="ars", budget=BudgetConfig(episodes=40))
    rng = np.random.default_rng(0)
    with open_hardware_run(path) as robot:
        for number in range(told):
            if number >= fail_from:
                robot.fail("hit the left stop")
                continue
            request = robot.ask()
            assert request is not None
            seen = rng.normal(size=(5, 2)).astype(np.float32)
            act = request.policy.start()
            actions = np.array([act(one) for one in seen[:-1]], dtype=np.float32)
            robot.tell(Trajectory.build(seen, actions, np.full(4, float(number)), terminated=True, truncated=False))
            if discard and number == 1:
                robot.discard()
    return load_run(path)


def test_a_robots_run(tmp_path: Path) -> None:
    run = robot_run(tmp_path / "arm", told=9, fail_from=6, discard=True)
    state = robot_state(run)
    assert is_robot(run)
    assert (state.told, state.budget, state.failed, state.discarded, state.failed_in_a_row) == (8, 40, 3, 1, 3)
    assert (state.best, state.best_episode) == (20.0, 4)
    assert "8 of 40 episodes told" in run_headline(run)
    assert "3 failed, 1 taken back" in run_headline(run)
    assert "best single episode at rest 20 (episode 4)" in run_headline(run), "a path may have been better"
    wanted = [f"abps tell {run.path} --discard", f"abps ask {run.path}"]
    assert commands(run)[:2] == wanted, "three failures in a row: the robot may be to blame"
    assert {fact["name"]: fact["value"] for fact in facts(run)}["Episodes"] == "8 of 40"


def test_a_robot_that_works_is_asked_for_the_next_episode(tmp_path: Path) -> None:
    run = robot_run(tmp_path / "arm", told=3)
    assert robot_state(run).failed_in_a_row == 0
    assert next_steps(run)[0] == ("have the policy of episode 3 written", f"abps ask {run.path}")


def test_a_robot_that_is_done_can_go_on(tmp_path: Path) -> None:
    robot_run(tmp_path / "arm", told=3)
    (tmp_path / "arm" / "DONE").write_text("episodes: 3 of 3 are used")
    run = load_run(tmp_path / "arm")
    assert commands(run) == [f"abps export {run.path} --which current --format c", f"abps ask {run.path} --episodes 6"]
