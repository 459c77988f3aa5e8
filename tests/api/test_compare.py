"""`abps.compare`: tasks of every form, a table, a report, and the same runs as the command's."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abps
from abps.tasks.lqr import make_env

LQR = "abps.tasks.lqr:make_env"
SMALL = {"task.horizon": 15, "ars.directions": 3, "ars.top": 2, "run.evaluation_episodes": 2}


def test_objects_and_names_are_compared_in_one_table(tmp_path: Path) -> None:
    env = make_env()
    found = abps.compare([env, LQR], ["ars"], seeds=[7], episodes=12, settings=SMALL, out=tmp_path / "runs")
    assert [(row["task"], row["search"], row["seeds"]) for row in found] == [
        (name, "ars", 1) for name in sorted([abps.make_task(env).config.name, LQR], key=str.lower)
    ]
    first, second = found.rows
    assert first["current"] == second["current"]  # The same system under two names.
    assert first["current_low"] <= first["current"] <= first["current_high"]
    one = abps.train(LQR, "ars", seed=7, episodes=12, horizon=15, directions=3, top=2, evaluation_episodes=2)
    for run in (run for run in found.runs if run.settings.seed == 7):
        np.testing.assert_array_equal(run.policy.parameters, one.policy.parameters)
    assert found.report() == tmp_path / "runs" / "report.html"
    assert "ars" in str(found)
    assert len(found.markdown().splitlines()) == 4
    again = abps.compare([env, LQR], ["ars"], seeds="7", episodes=12, settings=SMALL, out=tmp_path / "runs")
    assert again.rows == found.rows


def test_a_task_that_fails_does_not_take_the_others_with_it() -> None:
    def broken() -> Any:
        env = make_env()
        env.step = lambda action: 1 / 0  # type: ignore[method-assign]
        return env

    found = abps.compare([make_env(), broken], "ars", seeds=1, episodes=12, settings=SMALL)
    assert [row["task"] for row in found if row["current"] is not None] == [abps.make_task(make_env()).config.name]
    assert "10 episodes in a row failed" in found.failed["broken/ars/seed-0"]
    assert "failed: broken/ars/seed-0" in str(found)
    with pytest.raises(abps.RunError, match="no run of 1 came to its end: 10 episodes in a row"):
        abps.compare(broken, "ars", seeds=1, episodes=12, settings=SMALL)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"searches": ["arss"]}, "unknown search 'arss'; did you mean 'ars'"),
        ({"searches": [3]}, "searches are compared by name, got 3"),
        ({"seeds": "x"}, "cannot read the seeds 'x'"),
        ({"seeds": None}, "seeds are a number, a list, or a text"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1"),
        ({"episodes": 0}, "episodes must be a whole number of at least 1"),
        ({"tasks": []}, "a grid needs at least one task"),
        ({"tasks": [make_env, make_env]}, "two tasks are called 'make_env'"),
        ({"tasks": "abps.tasks.lqr:make"}, "has no factory 'make'"),
        ({"settings": {"task.gama": 1}}, "unknown setting task.gama; did you mean 'gamma'"),
        ({"settings": {"gamma": 1}}, "cannot tell whose setting 'gamma' is"),
        ({"settings": 3}, "settings must be a dictionary like"),
        ({"searches": 3}, "searches must be a name or a list of names, got 3"),
        ({"jobs": "two"}, "jobs must be a whole number of at least 1, got 'two'"),
        ({"out": 3}, "out must be a path, got 3"),
    ],
)
def test_wrong_arguments_are_one_sentence_and_nothing_is_run(words: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"tasks": LQR, "searches": "ars", **words}
    with pytest.raises(abps.AbpsError, match=message):
        abps.compare(call.pop("tasks"), call.pop("searches"), **call)


def test_a_run_too_short_for_results_is_named() -> None:
    found = abps.compare(
        LQR,
        ["ars", "snes"],
        seeds=1,
        episodes=4,
        settings={"task.horizon": 5, "ars.directions": 2, "ars.top": 2, "snes.strategy.population": 8},
    )
    assert [row["search"] for row in found if row["current"] is not None] == ["ars"]
    assert list(found.failed) == [f"{abps.make_task(LQR).config.name.replace(':', '-')}/snes/seed-0"]
    assert "no outer iteration was finished; give it more episodes" in str(found)


def test_processes_find_an_environment_beside_the_script(tmp_path: Path) -> None:
    """Python looks beside a script for its modules, from whatever folder it is called."""
    (tmp_path / "beside.py").write_text("from abps.tasks.lqr import make_env\n\n\ndef mine():\n    return make_env()\n")
    (tmp_path / "script.py").write_text(
        "import abps, beside\n"
        f"found = abps.compare(beside.mine, ['ars'], seeds=1, episodes=12, settings={SMALL!r})\n"
        "print(len(found), found.failed)\n"
    )
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    words = [sys.executable, str(tmp_path / "script.py")]
    answer = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert answer.stdout == "1 {}\n", answer.stderr
