"""`abps.train` and what it goes through: `api/train.py`, `api/resolve.py`, `api/callbacks.py`, `api/temporary.py`."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest

import abps
from abps.cli import main
from abps.run.directory import read_settings
from abps.run.settings_file import NOTHING
from abps.search import auto
from abps.seeding import episode_seed
from abps.steps.walk import Walk
from abps.tasks.lqr import make_env

QUICK: dict[str, Any] = {"episodes": 12, "horizon": 15, "directions": 3, "top": 2, "evaluation_episodes": 2}
LQR = "abps.tasks.lqr:make_env"


class Broken(gymnasium.Env[Any, Any]):
    """Fails in its first step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        raise ValueError("a screw is loose")


def local_factory() -> Callable[[], Any]:
    """A function that no other process could import."""
    return lambda: make_env()


SOURCES: dict[str, Callable[[], Any]] = {
    "module:factory": lambda: LQR,
    "function": lambda: make_env,
    "closure": local_factory,
    "object": make_env,
    "task": lambda: abps.make_task(LQR),
    "settings": lambda: abps.TaskConfig(id=LQR, name="lqr"),
}


@pytest.fixture(scope="module")
def expected() -> Any:
    return abps.train(LQR, "ars", **QUICK)


@pytest.mark.parametrize("source", SOURCES)
def test_every_way_to_give_an_environment_gives_the_same_policy(source: str, expected: Any) -> None:
    run = abps.train(SOURCES[source](), "ars", **QUICK)
    np.testing.assert_array_equal(run.policy.parameters, expected.policy.parameters)
    assert run.result.episodes == 12


def test_a_class_and_gymnasiums_own_module_and_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of a module is named by it, and `module:EnvId` imports the module that registers the id."""
    inner = type(make_env())

    class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any]):
        def __init__(self) -> None:
            super().__init__(make_env())

    module = ModuleType("users_lqr")
    module.Wrapped = Wrapped  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "users_lqr", module)
    gymnasium.register("UsersLqr-v0", lambda **options: Wrapped(), max_episode_steps=15)
    try:
        runs = [
            abps.train(source, "ars", **QUICK) for source in (Wrapped, "users_lqr:Wrapped", "users_lqr:UsersLqr-v0")
        ]
    finally:
        del gymnasium.registry["UsersLqr-v0"]
    assert len({run.policy.parameters.tobytes() for run in runs}) == 1
    assert [run.settings.task.name for run in runs] == ["Wrapped", "users_lqr:Wrapped", "users_lqr:UsersLqr-v0"]
    assert inner is not Wrapped


def test_the_same_words_give_the_same_settings_and_numbers_as_the_command_line(tmp_path: Path, records: Any) -> None:
    words = ["--search", "ars", "--seed", "3", "--episodes", "12", "--horizon", "15", "--directions", "3", "--top", "2"]
    assert main(["train", LQR, *words, "--evaluation-episodes", "2", "--runs", str(tmp_path), "--quiet"]) == 0
    theirs = next(tmp_path.glob("*/ars/seed-3"))
    run = abps.train(LQR, "ars", seed=3, out=tmp_path / "mine", **QUICK)
    assert run.settings == read_settings(theirs)
    assert records(tmp_path / "mine" / "journal.jsonl") == records(theirs / "journal.jsonl")


def test_a_loop_of_ones_own_with_the_querys_seeds_is_abps_train(expected: Any) -> None:
    task = abps.make_task(LQR, horizon=15)
    config = expected.settings.search_config
    found, env = [], task.make_env()
    for _ in range(2):
        search = abps.make_search("ars", task.spec, config, budget=abps.BudgetConfig(episodes=12))
        while not search.stop():
            query = search.ask()
            search.tell(query, [abps.run_episode(env, query.policy, seed) for seed in query.seeds])
        found.append(search.result().incumbent.parameters)
    np.testing.assert_array_equal(found[0], expected.policy.parameters)
    np.testing.assert_array_equal(found[0], found[1])
    search = abps.make_search("ars", task.spec, config, budget=abps.BudgetConfig(episodes=12))
    while not search.stop():  # Other seeds give another policy: the comparison above can fail.
        query = search.ask()
        search.tell(query, [abps.run_episode(env, query.policy, seed + 1) for seed in query.seeds])
    assert not np.array_equal(search.result().incumbent.parameters, found[0])


# ---- settings --------------------------------------------------------------------------------------------------------


def test_settings_go_to_the_group_that_knows_them() -> None:
    run = abps.train(LQR, "mpd", episodes=2, gamma=0.9, minutes=5, step=Walk(length=0.5), plan={"probes": 2})
    settings: Any = run.settings
    assert (settings.task.gamma, settings.run.minutes, settings.budget.episodes) == (0.9, 5.0, 2)
    assert (settings.search_config.step, settings.search_config.plan.probes) == (Walk(length=0.5), 2)
    again: Any = abps.train(LQR, "mpd", episodes=2, step="walk", **{"step.length": 0.25, "plan.probes": "3"})
    assert (again.settings.search_config.step.length, again.settings.search_config.plan.probes) == (0.25, 3)


def test_a_settings_file_comes_before_the_calls_own_words(tmp_path: Path) -> None:
    first = abps.train(LQR, "ars", out=tmp_path / "first", **QUICK)
    second = abps.train(LQR, "ars", config=tmp_path / "first", seed=4, episodes=6)
    assert second.settings.search_config == first.settings.search_config
    assert second.settings.task == first.settings.task
    assert (second.settings.budget.episodes, second.settings.seed) == (6, 4)
    assert NOTHING.search_on("ars", first.settings.search_config) is first.settings.search_config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"task": 3}, "a task is a name, a Gymnasium id"),
        ({"search": 3}, "a search is a name, or settings of one"),
        ({"search": "arss"}, "unknown search 'arss'; did you mean 'ars'"),
        ({"episodes": "ten"}, "episodes must be a whole number of at least 1, got 'ten'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"gama": 0.9}, "there is no setting 'gama'; did you mean 'gamma'"),
        ({"gamma": "high"}, "task.gamma must be of type float"),
        ({"directions": 2.5}, "ars.directions must be of type int, got 2.5"),
        ({"callbacks": 3}, "a callback is a function that takes one TrainingEvent, got 3"),
        ({"callbacks": lambda: True}, "a callback is a function that takes one TrainingEvent"),
        ({"initial": "nowhere"}, "cannot start from nowhere"),
        ({"initial": [1.0, 2.0]}, "initial has 2 numbers; the policies of this search have"),
        ({"out": 3}, "out must be a path, got 3"),
        ({"config": "nowhere.yaml"}, "nowhere.yaml is missing"),
        ({"config": 3}, "config must be a path, got 3"),
        ({"preset": "gpu"}, "unknown preset 'gpu'"),
    ],
)
def test_wrong_arguments_are_one_sentence(words: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"task": LQR, "search": "ars", **words}
    with pytest.raises(abps.AbpsError, match=message) as caught:
        abps.train(call.pop("task"), call.pop("search"), **call)
    assert "\n" not in str(caught.value)


# ---- callbacks -------------------------------------------------------------------------------------------------------


def test_a_callback_sees_every_episode_and_iteration_and_may_stop() -> None:
    seen: list[abps.TrainingEvent] = []

    def look(event: abps.TrainingEvent) -> str | None:
        seen.append(event)
        return "enough" if event.episode == 7 else None

    run = abps.train(LQR, "ars", callbacks=[look, lambda event: False], **QUICK)
    assert [event.episode for event in seen] == list(range(8))
    assert [event.metrics is not None for event in seen] == [False] * 5 + [True] + [False] * 2
    assert seen[5].metrics is not None
    assert seen[5].metrics["eval_return"] == run.history[0]["eval_return"]
    assert all(isinstance(event.outcome, abps.Trajectory) for event in seen)
    assert seen[-1].search.episodes == 8
    assert run.result.stopped == {"callback": "enough"}


def test_what_a_callback_raises_is_not_swallowed() -> None:
    def fail(event: abps.TrainingEvent) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(abps.RunError, match=r"ZeroDivisionError: mine .*test_train.py"):
        abps.train(LQR, "ars", callbacks=fail, **QUICK)


# ---- on disk and in memory -------------------------------------------------------------------------------------------


def test_the_same_call_goes_on_after_an_interruption(tmp_path: Path, expected: Any) -> None:
    def interrupt(event: abps.TrainingEvent) -> None:
        if event.episode == 8:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        abps.train(LQR, "ars", out=tmp_path / "run", callbacks=interrupt, **QUICK)
    assert "the same call goes on" in caught.value.__notes__[0]
    assert abps.load(tmp_path / "run").result.episodes == 9
    run = abps.train(LQR, "ars", out=tmp_path / "run", **QUICK)
    np.testing.assert_array_equal(run.policy.parameters, expected.policy.parameters)
    before = (tmp_path / "run" / "journal.jsonl").read_bytes()
    again = abps.train(LQR, "ars", out=str(tmp_path / "run"), callbacks=interrupt, **QUICK)  # Done: nothing is run.
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == before
    assert again.result == run.result
    longer = abps.train(LQR, "ars", out=tmp_path / "run", **{**QUICK, "episodes": 18})
    assert longer.result.episodes == 18
    files = {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    shorter = abps.train(LQR, "ars", out=tmp_path / "run", **QUICK)  # It has more than that: it stays as it is.
    assert shorter.result == longer.result
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == files
    with pytest.raises(abps.RunError, match="other settings: seed is 0 there, 5 is wanted"):
        abps.train(LQR, "ars", out=tmp_path / "run", seed=5, **QUICK)
    with pytest.raises(abps.RunError, match=r"other settings: search is 'ars' there, 'mpd' is wanted$"):
        abps.train(LQR, "mpd", out=tmp_path / "run", episodes=9)
    many = {"gamma": 0.9, "step": 0.5, "noise": 0.5, "evaluation_episodes": 7}
    with pytest.raises(abps.RunError, match=r"other settings: task.gamma is (?:[^;]*; ){2}[^;]* and \d more$"):
        abps.train(LQR, "ars", out=tmp_path / "run", **{**QUICK, **many})


def test_a_script_whose_calls_are_not_guarded_is_told_to_guard_them(tmp_path: Path) -> None:
    """Worker processes read the script anew, and would train once more."""
    words = "import abps\nabps.train('abps.tasks.lqr:make_env', 'ars', episodes=4, horizon=5, workers=2)\n"
    (tmp_path / "script.py").write_text(words)
    command = [sys.executable, str(tmp_path / "script.py")]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 1
    assert 'under `if __name__ == "__main__":`' in answer.stderr.splitlines()[-1]
    assert "a worker process ran the script that started it" in answer.stderr


def test_a_run_in_memory_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = abps.train(LQR, "ars", **QUICK)
    assert run.path is None
    assert len(list(tmp_path.iterdir())) == 1
    del run
    assert list(tmp_path.iterdir()) == []


def test_the_traceback_of_an_environment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(abps.RunError, match=r"10 episodes in a row failed.*a screw is loose") as caught:
        abps.train(Broken, "ars", **QUICK)
    assert "\n" not in str(caught.value)
    assert "raise ValueError" in caught.value.__notes__[0]
    log = next(tmp_path.rglob("failures.log")).read_text()  # The sentence names it, so it is still there.
    assert log.startswith("episode 0: ValueError: a screw is loose\nTraceback")
    assert log.count("raise ValueError") >= 20  # Ten episodes, two attempts each


# ---- warm starts -----------------------------------------------------------------------------------------------------


def test_a_run_starts_where_it_is_told(tmp_path: Path, expected: Any) -> None:
    parameters = expected.policy.parameters
    np.save(tmp_path / "p.npy", parameters)
    expected.policy.save(tmp_path / "p.npz")
    expected.save(tmp_path / "run")
    sources: list[Any] = [expected, expected.policy, parameters, list(parameters), tmp_path / "p.npy"]
    sources += [str(tmp_path / "p.npz"), tmp_path / "run"]
    spec, config = expected.task.spec, expected.settings.search_config
    for source in sources[1:]:
        search = abps.make_search("ars", spec, config, initial=source)
        np.testing.assert_array_equal(search.centre, parameters)
        assert search.ask().parameters.tolist() != abps.make_search("ars", spec, config).ask().parameters.tolist()
    runs = [abps.train(LQR, "ars", initial=source, **QUICK) for source in (expected, tmp_path / "run")]
    np.testing.assert_array_equal(runs[0].policy.parameters, runs[1].policy.parameters)
    assert not np.array_equal(runs[0].policy.parameters, parameters)
    assert str(tmp_path / "run") in runs[1].settings.initial


def test_a_warm_started_run_is_resumed_bit_for_bit(tmp_path: Path, records: Any) -> None:
    sizes = abps.make_task(LQR).spec
    start = np.full(sizes.observation_dim * sizes.action_dim, 0.1)
    words: dict[str, Any] = {**QUICK, "initial": start, "episodes": 18}
    abps.train(LQR, "ars", out=tmp_path / "whole", **words)
    abps.train(LQR, "ars", out=tmp_path / "parts", **{**words, "episodes": 8})
    for checkpoint in (tmp_path / "parts" / "checkpoint").iterdir():  # From the journal and the start alone.
        checkpoint.unlink()
    assert main(["resume", str(tmp_path / "parts"), "--episodes", "18", "--quiet"]) == 0
    assert records(tmp_path / "parts" / "journal.jsonl") == records(tmp_path / "whole" / "journal.jsonl")
    (tmp_path / "parts" / "policy" / "initial.npz").unlink()
    with pytest.raises(abps.RunError, match="the policy that this run starts from cannot be used: no policy file"):
        abps.train(LQR, "ars", out=tmp_path / "parts", **{**words, "episodes": 24})


def test_query_seeds_are_those_of_the_journal(tmp_path: Path, records: Any) -> None:
    abps.train(LQR, "ars", out=tmp_path / "run", seed=2, **QUICK)
    seeds = [line["seed"] for line in records(tmp_path / "run" / "journal.jsonl")]
    assert seeds == [episode_seed(2, number) for number in range(12)]


def test_auto_chooses_by_the_task_and_the_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rule = (auto.Row(8, 40, "ars", 0.9, "abs", 0.8, 4), auto.Row(10**9, 10**9, "mpd", 0.7, "abs", 0.6, 3))
    monkeypatch.setattr(auto, "RULE", rule)
    run = abps.train(LQR, "auto", out=tmp_path / "run", **QUICK)
    assert run.settings.search == "ars"
    assert read_settings(tmp_path / "run").search == "ars"
    assert run.settings.task.horizon == QUICK["horizon"]
    assert "auto chose ars" in capsys.readouterr().err
    # A call's own words come before those of a file, as with any search.
    again = abps.train(LQR, "auto", config=tmp_path / "run", **{**QUICK, "horizon": 7})
    assert (again.settings.task.horizon, again.settings.search) == (7, "ars")
    with pytest.raises(abps.ConfigError, match="there is no setting 'probess'"):
        abps.train(LQR, "auto", probess=3, **QUICK)
    small = {"task.horizon": 5, "ars.directions": 2, "ars.top": 1}
    found = abps.compare(make_env(), ["auto", "ars"], seeds=1, episodes=4, settings=small)
    assert [row["search"] for row in found] == ["ars"]
