"""Costs as strangers give them: in a robot's files, in the lines of a journal, in `--constraint`.

Damage is one clear sentence or is left out, loses nothing, and is never a traceback. Covers `tasks/constraints.py`,
`run/trajectory_files.py`, `run/journal.py`, `run/operator.py` and `study/costs.py`.
"""

import contextlib
import io
import json
import math
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import fuzzing
import killing
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from abps.cli import main
from abps.errors import AbpsError
from abps.run.directory import read_settings, stamp_changes
from abps.run.files import checked_json
from abps.run.hardware import create_hardware_run, hardware_spec, open_hardware_run
from abps.run.loop import train
from abps.run.operator import robot_facts
from abps.run.run import open_run
from abps.run.trajectory_files import read_trajectory
from abps.search.budget import BudgetConfig
from abps.settings import replace
from abps.study.costs import cost_charts
from abps.study.records import load_run
from abps.study.report import payload
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.constraints import Constraint, read_constraints

Made = TypeVar("Made")
CONSTRAINT = ("torque<=2", "wear<=9(reduce=sum, probability=0.8)")
FUZZ = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PIECES = [
    *(
        "wall",
        "<=",
        "<",
        "=",
        "1",
        "2.4",
        "nan",
        "inf",
        "1e400",
        "-",
        "(",
        ")",
        "[",
        "{",
        "}",
        "'",
        '"',
        ",",
        " ",
        "\n",
    ),
    *("\0", "é", "probability", "=0.9", "=high", "reduce", "=sum", "=mean", "source", "=a:b", '{"reduce": "sum"}'),
]
WORDS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
CONSTRAINTS = st.one_of(st.text(max_size=30), WORDS, WORDS.map(lambda words: f"wall<=1({words})"))
NUMBERS = st.one_of(st.floats(), st.integers(-(10**400), 10**400), st.sampled_from([1e30, 1.1e30, -1e30, 5e-324]))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def attempt(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """What was made, or the sentence with which it was refused."""
    try:
        return make(), ""
    except AbpsError as error:
        return None, str(error)


# ---- text ------------------------------------------------------------------------------------------------------------


@settings(FUZZ, max_examples=500)
@given(CONSTRAINTS)
def test_any_text_is_a_constraint_or_one_sentence(text: str) -> None:
    task, said = attempt(lambda: TaskConfig(constraint=(text,)))
    if task is None:
        assert said.isprintable()
        return
    (constraint,) = read_constraints(task.constraint)
    assert Constraint.parse(str(constraint)) == constraint
    assert math.isfinite(constraint.limit)


@settings(FUZZ, max_examples=300)
@given(st.one_of(st.text(min_size=1, max_size=10), WORDS, st.sampled_from(["true", "none", "7", "a, b", "it's", " a"])))
def test_a_constraint_keeps_its_source_as_text(source: str) -> None:
    """`source="true"`, `"7"` and `"a, b"` were written into the run as something else."""
    constraint, said = attempt(lambda: Constraint("wall", 1.0, source=source))
    if constraint is None:
        assert said.isprintable()
        return
    assert Constraint.parse(str(constraint)) == constraint


@settings(FUZZ, max_examples=40)
@given(text=CONSTRAINTS)
def test_the_command_line_refuses_a_wrong_constraint(tmp_path: Path, text: str) -> None:
    (tmp_path / "robot.yaml").write_bytes(fuzzing.ROBOT)
    run, said = tmp_path / "run", io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        words = ["ask", str(run), "--new", str(tmp_path / "robot.yaml"), "--search", "ars", f"--constraint={text}"]
        code = main(words)
    if code == 0:
        kept = read_settings(run).task.constraint
        assert len(kept) == 1
        shutil.rmtree(run)
    else:
        assert code == 2
        assert not run.exists()
        assert "Traceback" not in said.getvalue()
        assert said.getvalue().removesuffix("\n").isprintable(), "not one line"


@pytest.mark.parametrize(
    "option", ["--constraint=", "--constraint= , ", "--limits.action-rate=", "--limits.action-change= "]
)
def test_an_empty_limit_is_not_none(tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable of the shell that is not set gave a run that keeps no limit."""
    (tmp_path / "robot.yaml").write_bytes(fuzzing.ROBOT)
    assert main(["ask", str(tmp_path / "run"), "--new", str(tmp_path / "robot.yaml"), option]) == 2
    assert "leave the option out for none" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# ---- a robot's files -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot with two constraints that has told three episodes, one of them failed, and waits for the fourth."""
    folder = tmp_path_factory.mktemp("costs")
    path = folder / "run"
    create_hardware_run(
        path,
        TaskConfig(name="tiny", horizon=8, gamma=0.9, constraint=CONSTRAINT),
        HardwareConfig(observations=3, action_low=(-1.0,), action_high=(1.0,)),
        search="ars",
        config=killing.tiny_config("ars"),
        budget=BudgetConfig(episodes=9),
    )
    with open_hardware_run(path) as opened:
        for torque in (0.5, 2.5):
            opened.tell_file(written(folder / "episode.npz", cost_torque=torque, cost_wear=np.full(5, 0.5 + torque)))
        opened.fail("hit a stop")
        assert opened.ask() is not None
    return path


def written(path: Path, **costs: Any) -> Path:
    """An episode of five steps with these costs."""
    rng = np.random.default_rng(5)
    arrays: dict[str, Any] = {"observations": rng.normal(size=(6, 3)), "actions": np.zeros((5, 1))}
    np.savez(path, **arrays, rewards=rng.normal(size=5), terminated=False, **costs)
    return path


def journal(path: Path) -> bytes:
    return (path / "journal.jsonl").read_bytes() + (path / "episodes.bin").read_bytes()


def check_tell(robot: Path, file: Path) -> None:
    """A file is told or refused in one sentence; what was told before is never touched."""
    before, said = journal(robot), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(["tell", str(robot), "--trajectory", str(file)])
    if code:
        assert code == 1  # Refused, as every error of data; 2 is for wrong words.
        assert journal(robot) == before
        assert "Traceback" not in said.getvalue()
        assert said.getvalue().removesuffix("\n").isprintable(), "not one line"
        return
    facts = robot_facts(robot)
    assert facts["told"] == 4
    assert set(facts["episodes"][-1]["costs"]) == {"torque", "wear"}
    assert all(math.isfinite(cost) for cost in facts["episodes"][-1]["costs"].values())
    assert main(["tell", str(robot), "--discard"]) == 0
    assert journal(robot) == before


ARRAYS = st.one_of(
    st.lists(st.floats(), max_size=7).map(np.array),
    st.floats().map(np.float64),
    st.sampled_from([np.array("much"), np.array([1j] * 5), np.zeros((5, 1)), np.zeros((1, 1)), np.zeros((0,))]),
    st.sampled_from([np.array([True] * 5), np.zeros(5, "M8[s]"), np.full(5, 1.1e30), np.full(5, 2**63, np.uint64)]),
)


@FUZZ
@given(torque=ARRAYS, wear=ARRAYS)
def test_any_costs_in_an_npz_file(robot: Path, torque: Any, wear: Any) -> None:
    check_tell(robot, written(robot.parent / "episode.npz", cost_torque=torque, cost_wear=wear))


@FUZZ
@example(seed=16777215, form="csv")  # A form feed in the name of a column.
@given(seed=st.integers(0, 2**32 - 1), form=st.sampled_from(["npz", "csv"]))
def test_damaged_files_with_costs(robot: Path, seed: int, form: str) -> None:
    rng, file = random.Random(seed), robot.parent / f"damaged.{form}"  # noqa: S311 (damage is no secret)
    good = written(robot.parent / "good.npz", cost_torque=np.linspace(0, 3, 5), cost_wear=4.0).read_bytes()
    csv = (
        "o0,o1,o2,a0,reward,terminated,cost_torque,cost_wear\n1,2,3,0.5,1,0,0.25,\n1,2,3,0.5,1,1,2.75,3.5\n4,5,6,,,,,\n"
    )
    file.write_bytes(fuzzing.damaged(good if form == "npz" else csv.encode(), rng, b"cost_torque"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Not even a warning of numpy's.
        check_tell(robot, file)


@pytest.mark.parametrize("cell", ["", "much", "nan", "inf", "1e31", "1e999", "0x1", "１", " ", '"1'])
def test_a_wrong_cell_is_named(robot: Path, cell: str) -> None:
    rows = [
        "o0,o1,o2,a0,reward,terminated,cost_torque,cost_wear",
        f"1,2,3,0,1,0,{cell},1",
        "1,2,3,0,1,0,1,1",
        "1,2,3,,,,,",
    ]
    file = robot.parent / "episode.csv"
    file.write_text("\n".join(rows))
    spec = hardware_spec(read_settings(robot))
    if cell in ("", " "):
        assert read_trajectory(file, spec).trajectory.costs[0, 0] == 1.0  # One number for the whole episode.
        return
    if cell == "１":  # A digit of another script is a digit.
        assert read_trajectory(file, spec).trajectory.costs[0, 0] == 1.0
        return
    with pytest.raises(AbpsError, match=r"cost|csv") as error:
        read_trajectory(file, spec)
    assert str(error.value).isprintable()


# ---- journals --------------------------------------------------------------------------------------------------------


def resealed(path: Path, place: int, **changes: Any) -> None:
    """Change fields of a line, and its checksum, as somebody who knows how it is made."""
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    record = json.loads(lines[place])
    record.pop("check")
    with contextlib.suppress(ValueError):  # Numbers that JSON does not have are no line of a journal.
        lines[place] = checked_json(record | changes)
    (path / "journal.jsonl").write_bytes(b"".join(lines))


@FUZZ
@example(place=0, costs={"torque": 10**400, "wear": True}, violated=None)
@given(place=st.integers(0, 2), costs=JSON | st.fixed_dictionaries({"torque": JSON}), violated=JSON)
def test_any_costs_in_a_line_of_the_journal(robot: Path, tmp_path: Path, place: int, costs: Any, violated: Any) -> None:
    """What people look at survives any line; the run itself takes the costs from its trajectories."""
    path = tmp_path / "run"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(robot, path)
    resealed(path, place, costs=costs, violated=violated)
    facts = robot_facts(path)
    json.dumps(facts, allow_nan=False)
    run = load_run(path)
    json.dumps([cost_charts(run), payload([run])], allow_nan=False)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["watch", str(path), "--once"]) == 0
    assert len(run.episodes) == facts["told"] == 3
    with open_hardware_run(path) as opened:
        told = opened.run.journal.outcome(1)
        assert getattr(told, "costs", np.zeros((1, 2)))[0].tolist() == [2.5, 3.0]


def episodes_of(path: Path) -> int:
    with open_run(path, SPEC, None) as opened:
        return opened.search.episodes


SPEC = replace(fuzzing.SPEC, constraints=read_constraints(("place<=1.5", "effort<=0.5(reduce=sum, probability=0.8)")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    constraint = tuple(map(str, SPEC.constraints))
    path = tmp_path_factory.mktemp("trained") / "run"
    killing.make_run(path, "ars", env="CostlyEnv", episodes=14, evaluate_every=0, constraint=constraint)
    train(path, read_settings(path))
    return path


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(["journal.jsonl", "episodes.bin", "config.yaml"]))
def test_damaged_runs_with_costs(trained: Path, tmp_path: Path, seed: int, name: str) -> None:
    """A run is refused and left as it is, or goes on with every episode that is whole; it can be looked at anyway."""
    path, rng = tmp_path / "run", random.Random(seed)  # noqa: S311
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(trained, path)
    (path / name).write_bytes(fuzzing.damaged((path / name).read_bytes(), rng, b"{}"))
    stamp_changes(path)
    before = journal(path)
    json.dumps(payload([load_run(path)]), allow_nan=False)
    told, said = attempt(lambda: episodes_of(path))
    if told is None:
        assert said
        assert journal(path) == before
        return
    if name == "episodes.bin":
        assert told >= 13  # The last one may be torn: it is kept in discarded/ and run again.
    if name == "journal.jsonl":
        whole = [line for line in before.split(b"\n")[:-1] if b"\0" not in line and line.endswith(b"}")]
        assert told >= min(len(whole), 14) - 1
