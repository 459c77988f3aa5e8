"""`abps compare` from the outside: exit codes, what is listed, skipped and reported, and the SLURM script run by a
real shell."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from abps.cli import main
from abps.run.directory import read_settings
from abps.search import auto
from abps.search.registry import SEARCHES
from abps.study.cells import is_locked
from abps.study.groups import group_runs
from abps.study.records import load_runs
from abps.study.slurm import array_script

LQR = "abps.tasks.lqr:s2_a1_seed0"
SMALL = ["--searches", "ars", "--set", "ars.directions=2", "--set", "ars.top=1", "--set", "run.evaluation_episodes=1"]


def command(tmp_path: Path, *more: str, episodes: int = 8) -> list[str]:
    return ["compare", LQR, *SMALL, "--episodes", str(episodes), "--runs", str(tmp_path / "runs"), *more]


def journals(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("journal.jsonl"))}


def shell(words: list[str], **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment, **options)


def test_a_dry_run_lists_every_cell_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = command(tmp_path, "--seeds", "0-2", "--axis", "ars.step=0.01,0.02", "--dry-run")
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert text.count("new") == 6
    assert "6 cells, 6 to run" in text
    assert not (tmp_path / "runs").exists()
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [item["cell"] for item in told["cells"]] == list(range(6))
    assert told["cells"][1]["run"].endswith("ars@step=0.02/seed-0")
    assert (told["done"], told["failed"], told["missing"], told["report"], told["rows"]) == (0, 0, 6, None, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["abps.tasks.lqr:nothing", "--searches", "ars"], "has no factory 'nothing'"),
        ([LQR, "--searches", "ars,arss"], "unknown search 'arss'; did you mean 'ars'"),
    ],
)
def test_a_dry_run_checks_names(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words, "--dry-run"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_a_missing_package_is_one_sentence_before_anything_runs(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cma", None)
    words = ["compare", LQR, "--searches", "ars,cma", "--seeds", "0-2", "--runs", str(tmp_path / "runs"), *more]
    assert main(words) == 1
    told = capsys.readouterr()
    assert told.err == "abps compare: CMA-ES needs the package cma (pycma): pip install 'abps[peers]'\n"
    assert (told.out, (tmp_path / "runs").exists()) == ("", False)


def test_one_cell_tells_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tmp_path, "--seeds", "0", "--cell", "0", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], [row["label"] for row in told["rows"]]) == ("done", ["ars"])


def test_rows_are_told_without_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tmp_path, "--seeds", "0", "--no-report", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] is None
    assert [(row["label"], row["runs"]) for row in told["rows"]] == [("ars", 1)]
    assert main(command(tmp_path, "--seeds", "0,1", "--dry-run", "--json")) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed.keys() == told.keys()
    assert listed["rows"] == told["rows"]  # Of what is there already.
    assert (listed["done"], listed["missing"]) == (1, 1)


def test_a_study_runs_once_reports_and_is_extended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Cells are real processes; two of them are enough to see what happens to what is done.
    assert main(command(tmp_path, "--axis", "ars.step=0.01,0.02", "--seeds", "0", "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["done"], result["failed"], result["missing"]) == (2, 0, 0)
    assert {row["label"] for row in result["rows"]} == {"ars (step=0.01)", "ars (step=0.02)"}
    assert Path(result["report"]).stat().st_size > 10_000
    before = journals(tmp_path)
    assert main(command(tmp_path, "--axis", "ars.step=0.01,0.02", "--seeds", "0", "--no-report")) == 0
    assert "2 of 2 cells are done" in capsys.readouterr().out
    assert journals(tmp_path) == before
    # One axis value, more episodes: the run goes on, its first episodes stay, the other variant is not touched.
    assert (
        main(command(tmp_path, "--axis", "ars.step=0.01", "--seeds", "0", "--quiet", "--no-report", episodes=12)) == 0
    )
    after = journals(tmp_path)
    changed = [name for name in after if after[name] != before[name]]
    assert len(changed) == 1
    assert after[changed[0]].startswith(before[changed[0]])
    assert after[changed[0]].count(b"\n") == 12


def test_imported_curves_stand_beside_a_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curves = tmp_path / "curves.csv"
    curves.write_text(f"task,search,seed,episodes,steps,return\n{LQR},td3,0,2,40,-3\n{LQR},td3,0,9,900000,-2\n")
    assert main(["import", str(curves), "--runs", str(tmp_path / "others"), "--quiet"]) == 0
    words = command(tmp_path, "--seeds", "0", "--with", str(tmp_path / "others"))
    assert main([*words, "--with", str(tmp_path / "nowhere")]) == 1
    assert "nowhere does not exist" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main([*words, "--json"]) == 0
    rows = {row["label"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["td3 (imported)"]["scores"]["mean"]["max_return"][0] == -3  # What it had after our 8 episodes.
    assert set(rows) == {"ars", "td3 (imported)"}
    assert main([*words, "--x", "steps"]) == 0
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if "td3 (imported)" in line and LQR in line.split()[:1]
    ]
    ours = load_runs([tmp_path / "runs"])[0].column("steps")[-1]
    assert line.split()[4:6] == ["2", f"{ours:.0f}"]  # Its episodes by then, and the steps both have.


def test_variants_of_a_task_are_apart_in_the_statistics(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    for folder, gamma in (("ars@task.gamma=0.9", 0.9), ("ars@task.gamma=0.99", 0.99)):
        for seed in range(2):
            file = make_run(tmp_path, "hopper", "ars", seed, folder=folder) / "config.yaml"
            file.write_text(file.read_text().replace("gamma: 0.99", f"gamma: {gamma}"))
    groups = group_runs(load_runs([tmp_path]))
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("ars (task.gamma=0.9)", 2), ("ars (task.gamma=0.99)", 2),
    ]  # fmt: skip


def test_other_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = command(tmp_path, "--seeds", "0", "--cell", "0", "--quiet")
    assert main(arguments) == 0
    before = journals(tmp_path)
    assert main([*command(tmp_path, "--seeds", "0"), "--set", "ars.noise=0.5"]) == 1
    assert "ars.noise is" in capsys.readouterr().err
    assert main([*arguments, "--set", "ars.noise=0.5"]) == 1
    capsys.readouterr()
    assert main([*command(tmp_path, "--seeds", "0-2", "--dry-run"), "--set", "ars.noise=0.5"]) == 1
    assert "3 cells, 2 to run, 1 in the way: made with other settings" in capsys.readouterr().out
    assert journals(tmp_path) == before


def test_a_failed_cell_is_counted_shown_and_in_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path, "--seeds", "0", "--cell", "0", "--quiet", episodes=4)) == 0
    (journal,) = (tmp_path / "runs").rglob("journal.jsonl")
    journal.write_bytes(b"x" + journal.read_bytes())
    capsys.readouterr()
    assert main(command(tmp_path, "--seeds", "0", "--no-report")) == 1
    printed = capsys.readouterr()
    assert "0 of 1 cell is done, 1 failed" in printed.out
    assert "damaged" in printed.err
    assert "Run what is missing with: abps compare" in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "no.such.module:env", "--searches", "ars"], "no.such.module"),
        (["compare", "pendulum", "--searches", "ars", "--episodes", "0"], "--episodes"),
        (["compare", "pendulum", "--searches", "ars", "--grid", "paper-table-1"], "says nothing"),
        (["compare", "pendulum", "--searches", "ars", "--cell", "99"], "cells 0 to 4"),
        (["compare", "pendulum", "--searches", "ars", "--seeds", "x"], "seeds"),
        (["compare", "pendulum", "--searches", "ars", "--retries", "-1"], "--retries must not be negative, got -1"),
        (["compare", "pendulum", "--searches", "ars", "--hours", "-1"], "--hours must be positive, got -1"),
        (["compare", "pendulum", "--horizon", "x"], "task.horizon must be of type int, got 'x'"),
        (["compare", "pendulum", "--gamma", "1", "--set", "task.gamma=1"], "--gamma and --set task.gamma say the same"),
        (["compare", "pendulum", "--wrapper", "Nope(", "--searches", "ars"], "the wrapper 'Nope(' cannot be used"),
    ],
)
def test_wrong_arguments(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_the_papers_grid_is_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "hopper,cheetah", "--searches", "abs,mpd", "--seeds", "0-4", "--grid", "paper-table-1"]
    assert main([*words, "--dry-run", "--runs", str(tmp_path)]) == 0
    assert "60 cells" in capsys.readouterr().out


def test_a_terminated_study_stops_its_cells_says_how_to_go_on_and_does_only_the_rest(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "abps", *command(tmp_path, "--seeds", "0", episodes=100_000)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as study:
        run = tmp_path / "runs" / "abps.tasks.lqr-s2_a1_seed0" / "ars" / "seed-0"
        deadline = time.monotonic() + 60
        while not (run / "journal.jsonl").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        study.send_signal(signal.SIGTERM)
        _, errors = study.communicate(timeout=60)
    assert study.returncode == 130
    assert f"abps compare {LQR}" in errors
    assert not is_locked(run)
    saved = (run / "journal.jsonl").read_bytes()
    count = saved.count(b"\n")
    assert main(command(tmp_path, "--seeds", "0", "--cell", "0", "--quiet", episodes=count + 4)) == 0
    assert (run / "journal.jsonl").read_bytes().startswith(saved)


def test_the_slurm_script_is_sound_and_its_array_tasks_run_their_cells(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "abps",
        *command(tmp_path, "--seeds", "0-1"),
        "--axis",
        "ars.step=0.01,0.02",
        "--slurm",
    ]
    printed = shell(words)
    assert printed.returncode == 0, printed.stderr
    assert "#SBATCH --array=0-3\n" in printed.stdout
    script = tmp_path / "study.sh"
    script.write_text(printed.stdout)
    assert shell(["bash", "-n", str(script)]).returncode == 0
    ran = shell(["bash", str(script)], env={"SLURM_ARRAY_TASK_ID": "3"}, cwd="/")
    assert ran.returncode == 0, ran.stderr
    (journal,) = (tmp_path / "runs").rglob("journal.jsonl")
    assert journal.parent.parts[-2:] == ("ars@step=0.02", "seed-1")
    assert read_settings(journal.parent).variant == "step=0.02"
    # What is done is left out of the next script; a cell that cannot run has an exit code that SLURM sees.
    assert "#SBATCH --array=0-2\n" in shell(words).stdout
    assert shell(["bash", str(script)], env={"SLURM_ARRAY_TASK_ID": "9"}).returncode != 0


def test_scripts_quote_what_a_shell_would_read_otherwise(tmp_path: Path) -> None:
    script = array_script(["echo", "a b", "$HOME;'"], [0, 1, 2, 5, 7, 8], folder=tmp_path, logs=tmp_path)
    assert "--array=0-2,5,7-8\n" in script
    file = tmp_path / "script.sh"
    file.write_text(script)
    assert shell(["bash", str(file)], env={"SLURM_ARRAY_TASK_ID": "5"}).stdout == "a b $HOME;' --cell 5\n"


def test_a_terminated_slurm_task_waits_for_its_cell(tmp_path: Path) -> None:
    cell = "import signal, sys, time; signal.signal(15, lambda *a: (time.sleep(0.3), print('saved'), sys.exit(7))); "
    cell += "print('on', flush=True); time.sleep(60)"
    file = tmp_path / "script.sh"
    file.write_text(array_script([sys.executable, "-c", cell], [0], folder=tmp_path, logs=tmp_path))
    with subprocess.Popen(
        ["bash", str(file)], stdout=subprocess.PIPE, text=True, env={**os.environ, "SLURM_ARRAY_TASK_ID": "0"}
    ) as task:
        assert task.stdout is not None
        assert task.stdout.readline() == "on\n"
        task.terminate()
        assert task.stdout.read() == "saved\n"
        assert task.wait(10) == 7


def test_all_and_auto_stand_for_other_searches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compare", f"{LQR},pendulum", "--episodes", "60", "--seeds", "0", "--runs", str(tmp_path), "--dry-run"]
    assert main([*words, "--searches", "all", "--json"]) == 0
    listed = [Path(item["run"]).parts[-2] for item in json.loads(capsys.readouterr().out)["cells"]]
    assert listed == [*SEARCHES, *SEARCHES]
    rule = (auto.Row(3, 1000, "ars", 0.9, "abs", 0.8, 4), auto.Row(10**9, 10**9, "mpd", 0.7, "abs", 0.6, 3))
    monkeypatch.setattr(auto, "RULE", rule)
    assert main([*words, "--searches", "auto,ars", "--axis", "mpd.plan.probes=4,8", "--json"]) == 0
    told = capsys.readouterr()
    names = ["/".join(Path(item["run"]).parts[-3:-1]) for item in json.loads(told.out)["cells"]]
    variants = [f"pendulum/mpd@plan.probes={count}" for count in (4, 8)]
    assert names == [f"{LQR.replace(':', '-')}/ars", *variants, "pendulum/ars"]
    assert told.err.splitlines()[0].startswith(f"{LQR}: auto chose ars for 2 weights and 60 episodes")
    assert told.err.splitlines()[1].startswith("pendulum: auto chose mpd for 4 weights")
    assert main([*words, "--searches", "auto", "--set", "auto.plan.probes=3"]) == 1
    assert "cannot tell whose setting 'auto.plan.probes' is" in capsys.readouterr().err


def test_help_says_what_every_search_suits(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    text = capsys.readouterr().out
    assert all(f"  {name:8}{entry.suits}\n" in text for name, entry in SEARCHES.items())


@pytest.mark.parametrize("words", [["--plan.probes", "8"], ["--policy", "mlp"]])
def test_settings_of_a_search_are_said_to_need_their_owner(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "pendulum", *words])
    assert "e.g. --set abs.plan.paths=2" in capsys.readouterr().err


ENVIRONMENT = """
import gymnasium, numpy as np

class Lift(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(height=gymnasium.spaces.Box(-9, 9, (1,)))
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))

    def __init__(self, mass):
        self.mass = mass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = self.np_random.uniform(-1, 1, 1)
        return {"height": self.height}, {}

    def step(self, action):
        self.height = np.clip(self.height + action / self.mass, -9, 9)
        return {"height": self.height}, -float(self.height[0] ** 2), False, False, {"cost": float(abs(action[0]))}
"""


def test_an_environment_of_ones_own_takes_the_options_of_train(tmp_path: Path) -> None:
    (tmp_path / "lift_env.py").write_text(ENVIRONMENT)
    words = ["compare", "lift_env:Lift", *SMALL, "--seeds", "0", "--episodes", "8", "--horizon", "5", "--json"]
    words += ["--env-kwargs", "mass=4", "--wrapper", "FlattenObservation", "--wrapper", "BoundAction(low=-1,high=1)"]
    answer = shell([sys.executable, "-m", "abps", *words], cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["done"] == 1
    task = read_settings(tmp_path / "runs" / "lift_env-Lift" / "ars" / "seed-0").task
    assert (task.horizon, task.env_kwargs) == (5, ("mass=4",))
    assert task.wrapper == ("FlattenObservation", "BoundAction(low=-1,high=1)")


def test_searches_are_compared_under_constraints(tmp_path: Path) -> None:
    (tmp_path / "lift_env.py").write_text(ENVIRONMENT)
    words = ["compare", "lift_env:Lift", *SMALL, "--seeds", "0", "--episodes", "8", "--horizon", "5", "--json"]
    words += ["--env-kwargs", "mass=4", "--wrapper", "FlattenObservation", "--wrapper", "BoundAction(low=-1,high=1)"]
    limits = ["--constraint", "push<=0.5", "--constraint", "work<=2(reduce=sum, probability=0.8)"]
    answer = shell([sys.executable, "-m", "abps", *words, *limits], cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    run = load_runs([tmp_path / "runs"])[0]
    assert run.constraints == ("push<=0.5", "work<=2(reduce=sum, probability=0.8)")
    assert set(run.episodes.costs) == {"push", "work"}
    refused = shell([sys.executable, "-m", "abps", *words, "--constraint", ""], cwd=tmp_path)
    assert refused.returncode == 1
    assert "a constraint needs a limit" in refused.stderr
