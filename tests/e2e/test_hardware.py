"""Real hardware: ask and tell through the command line and in Python, wrong files, failed and taken-back episodes."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import fuzzing
import killing
import numpy as np
import pytest

from abps.cli import main
from abps.errors import ConfigError, RunError, ShapeError
from abps.policies import load_policy
from abps.run.directory import read_settings
from abps.run.hardware import create_hardware_run, extend_hardware_run, hardware_spec, open_hardware_run
from abps.run.loop import train
from abps.run.operator import robot_facts
from abps.run.trajectory_files import read_trajectory
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearchConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.study.records import load_run
from abps.study.robot import robot_state
from abps.study.run_view import run_details
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.limits import Limits
from abps.trajectory import Trajectory

ROOT = Path(__file__).resolve().parents[2]
TASK = TaskConfig(name="arm", horizon=8, gamma=0.9)
HARDWARE = HardwareConfig(observations=3, action_low=(-1.0,), action_high=(1.0,))


@pytest.fixture
def run(tmp_path):
    create_hardware_run(
        tmp_path / "run",
        TASK,
        HARDWARE,
        search="mpd",
        config=killing.tiny_config("mpd"),
        budget=BudgetConfig(episodes=15),
    )
    return tmp_path / "run"


def episode(policy, seed, steps=6):
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(steps + 1, 3)).astype(np.float32)
    actions = np.array([policy(observation) for observation in observations[:-1]])
    rewards = -np.square(observations[:-1]).sum(axis=1)
    return Trajectory.build(observations, actions, rewards, terminated=False, truncated=True)


def tell_all(path, until=10**9):
    """Open the run anew for every episode, as the command line does."""
    while True:
        with open_hardware_run(path) as robot:
            request = robot.ask()
            if request is None or request.episode >= until:
                return
            robot.tell(episode(request.policy, request.episode), request.policy_id)


def test_a_run_made_without_settings_has_those_of_the_command_line(tmp_path):
    """The preset `cpu`: neither the paper's, nor the bare defaults of the search's class."""
    create_hardware_run(tmp_path / "run", TASK, HARDWARE)
    found = read_settings(tmp_path / "run").search_config
    assert found == search_config("abs", "arm")
    assert found != search_config("abs", "arm", "paper")
    assert found != LocalSearchConfig()


def test_run_told_in_many_sessions_equals_the_one_told_in_one(run, tmp_path):
    twin = tmp_path / "twin"
    shutil.copytree(run, twin)
    tell_all(run)
    with open_hardware_run(twin) as robot:
        while (request := robot.ask()) is not None:
            robot.tell(episode(request.policy, request.episode))
    assert (run / "DONE").read_text() == "episodes: 15 of 15 episodes are used\n"
    assert killing.differences(killing.comparable(run), killing.comparable(twin)) == []


def test_asking_twice_gives_the_same_and_changes_nothing(run):
    tell_all(run, until=7)
    before = killing.comparable(run)
    answers = []
    for _ in range(2):
        with open_hardware_run(run) as robot:
            answers.append(robot.ask())
    assert answers[0][:5] == answers[1][:5]
    assert np.array_equal(answers[0].policy.parameters, answers[1].policy.parameters)
    assert killing.comparable(run) == before


def test_discarded_episode_is_as_if_never_told(run):
    for count in (3, 9):
        tell_all(run, until=count)
        before = killing.comparable(run)
        with open_hardware_run(run) as robot:
            request = robot.ask()
            assert request is not None
            robot.tell(episode(request.policy, seed=1000 + count))
            assert robot.discard() == count
            again = robot.ask()
            assert again is not None
            assert again[:5] == request[:5]
        after = killing.comparable(run)
        assert {name for name in after if name.startswith("discarded")}
        gone = {name: after.pop(name) for name in list(after) if name.startswith("discarded")}
        assert gone
        for name in ("journal.jsonl", "episodes.bin", "metrics.jsonl"):
            assert before.get(name) == after.get(name)
    tell_all(run)
    assert (run / "DONE").exists()


def test_nothing_to_discard(run):
    with open_hardware_run(run) as robot, pytest.raises(RunError, match="no told episode"):
        robot.discard()


def test_failed_episode_is_recorded_with_its_reason(run):
    with open_hardware_run(run) as robot:
        assert robot.fail("it fell off\nthe table").value is None
        with pytest.raises(ConfigError, match="in a few words"):
            robot.fail("  ")
    line = json.loads((run / "journal.jsonl").read_text())
    assert line["failed"] == "it fell off the table"


def test_strange_and_repeated_episodes_are_remarked_on(run):
    with open_hardware_run(run) as robot:
        request = robot.ask()
        assert request is not None
        good = episode(request.policy, 1)
        assert robot.tell(good).warnings == []
        assert "bit for bit" in robot.tell(good).warnings[0]
        request = robot.ask()
        other = Trajectory.build(
            good.observations, good.actions + 0.5, good.rewards + 1, terminated=False, truncated=True
        )
        assert "differ from the policy's" in robot.tell(other).warnings[0]


def npz(**changes):
    arrays = {
        "observations": np.zeros((4, 3)),
        "actions": np.zeros((3, 1)),
        "rewards": np.zeros(3),
        "terminated": np.array(True),
    }
    arrays.update(changes)
    return {name: array for name, array in arrays.items() if array is not None}


WRONG_NPZ = {
    "has no array 'rewards'": npz(rewards=None),
    "has no array 'terminated'": npz(terminated=None),
    "has 2 observations and 1 actions per step; the task has 3 and 1": npz(observations=np.zeros((4, 2))),
    "observations must have shape (4, s), one more than the 3 rewards": npz(observations=np.zeros((3, 3))),
    "actions must have shape (3, a)": npz(actions=np.zeros(3)),
    "rewards contain a number that is not finite, first at step 1": npz(rewards=np.array([0.0, np.nan, np.inf])),
    "'terminated' must be one boolean": npz(terminated=np.zeros(3)),
    "must hold numbers": npz(observations=np.array("text")),
    "at least one step": npz(rewards=np.zeros(0), actions=np.zeros((0, 1)), observations=np.zeros((1, 3))),
    "has 20 steps; an episode of this task has at most 8": npz(
        observations=np.zeros((21, 3)), actions=np.zeros((20, 1)), rewards=np.zeros(20)
    ),
    "of policy 99-aaaaaaaa, the search waits for 0-": npz(policy_id=np.array("99-aaaaaaaa")),
    "is not plain numbers": npz(rewards=np.array([None, 1, {}], dtype=object)),
}


@pytest.mark.parametrize("message", WRONG_NPZ)
def test_wrong_npz_changes_nothing_and_says_why(message, run, tmp_path):
    before = killing.comparable(run)
    np.savez(tmp_path / "t.npz", **WRONG_NPZ[message])
    with open_hardware_run(run) as robot, pytest.raises(ShapeError, match=re.escape(message)):
        robot.tell_file(tmp_path / "t.npz")
    assert killing.comparable(run) == before


GOOD_CSV = fuzzing._csv().decode()
WRONG_CSV = {
    "has no column 'a0'": GOOD_CSV.replace("a0", "b0"),
    "row 2: 'o0' must be a number, it is 'abc'": re.sub(r"\n[^,]+", "\nabc", GOOD_CSV, count=1),
    "must be empty in the last row": GOOD_CSV.rstrip().rstrip(",") + ",1.0,,\n",
    "'terminated' must be 0 or 1": GOOD_CSV.replace(",0\n", ",maybe\n", 1),
    "but further steps follow": GOOD_CSV.replace(",0\n", ",1\n", 1),
    "names a column twice": GOOD_CSV.replace("o1", "o0"),
    "needs a header and at least two rows": "o0,o1\n",
    "not a readable .csv": GOOD_CSV + "1" * 10_000_000,
}


@pytest.mark.parametrize("message", WRONG_CSV)
def test_wrong_csv_says_why(message, tmp_path):
    (tmp_path / "t.csv").write_text(WRONG_CSV[message])
    with pytest.raises(ShapeError, match=re.escape(message)):
        read_trajectory(tmp_path / "t.csv", fuzzing.SPEC)


def test_csv_and_npz_say_the_same(tmp_path):
    (tmp_path / "t.npz").write_bytes(fuzzing._npz())
    (tmp_path / "t.csv").write_text(GOOD_CSV)
    one, other = (read_trajectory(tmp_path / name, fuzzing.SPEC) for name in ("t.npz", "t.csv"))
    for name in ("observations", "actions", "rewards"):
        assert np.array_equal(getattr(one.trajectory, name), getattr(other.trajectory, name))
    assert one.trajectory.terminated
    assert other.trajectory.terminated
    assert (one.policy_id, other.policy_id) == ("3-00ff00ff", None)


def test_command_line(tmp_path, capsys):
    run, robot = str(tmp_path / "run"), tmp_path / "robot.yaml"
    robot.write_bytes(fuzzing.ROBOT)
    assert main(["ask", run]) == 1
    assert "there is no run" in capsys.readouterr().err
    words = ["--search", "mpd", "--episodes", "8", "--plan.probes", "2"]
    words += ["--plan.window", "3", "--plan.centre-episodes", "1"]
    assert main(["ask", run, "--new", str(robot), *words]) == 0
    assert "run policy 0-" in capsys.readouterr().out
    assert main(["ask", run, "--new", str(robot)]) == 1
    assert "`abps ask" in capsys.readouterr().err
    assert main(["ask", run, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["episode"], answer["role"], answer["left"], answer["done"]) == (0, "centre", 1, False)
    policy = dict(np.load(answer["policy"], allow_pickle=False))
    assert str(policy["policy_id"]) == answer["policy_id"]
    (tmp_path / "t.npz").write_bytes(fuzzing._npz())
    assert main(["tell", run, "--trajectory", str(tmp_path / "t.npz")]) == 1
    assert "the search waits for 0-" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text(GOOD_CSV)
    assert main(["tell", run, "--trajectory", str(tmp_path / "t.csv")]) == 0
    assert "Episode 0 is recorded: return" in capsys.readouterr().out
    assert main(["tell", run, "--failed", "no power"]) == 0
    assert main(["tell", run, "--discard"]) == 0
    assert "Episode 1 is taken back." in capsys.readouterr().out
    for _ in range(7):
        assert main(["tell", run, "--failed", "no power", "--json"]) == 0
    capsys.readouterr()
    assert main(["tell", run, "--failed", "again"]) == 1
    assert "the run is done" in capsys.readouterr().err
    assert main(["ask", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] is True
    config = (Path(run) / "config.yaml").read_text()
    for words in (["resume", run], ["resume", run, "--episodes", "99"], ["video", run], ["evaluate", run]):
        assert main(words) == 1
        assert capsys.readouterr().err.startswith(f"abps {words[0]}: {run} is a run on real hardware")
    assert (Path(run) / "config.yaml").read_text() == config, "a refused command changes nothing"


def test_robot_description_is_checked(tmp_path, capsys):
    robot = tmp_path / "robot.yaml"
    for text, message in (
        ("observations: 3\n", "action_low must list"),
        ("observation: 3\n", "observations must be at least 1"),
        ("observations: 3\naction_low: [1.0]\naction_high: [-1.0]\n", "every action_low must be below"),
        ("observations: 3\naction_low: [-1.0]\naction_high: [1.0]\nhorizn: 3\n", "did you mean 'horizon'"),
        ("- 1\n", "must be a list of"),
    ):
        robot.write_text(text)
        assert main(["ask", str(tmp_path / "run"), "--new", str(robot)]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_simulated_run_is_not_a_hardware_run(tmp_path):
    path = killing.make_run(tmp_path / "run", "ars")
    with pytest.raises(RunError, match="simulated task"), open_hardware_run(path):
        pass


def test_hardware_run_is_not_trained(run):
    with pytest.raises(RunError, match="abps ask"):
        train(run, read_settings(run))


@pytest.mark.slow
def test_example_with_a_robot_in_another_process(environment, tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "hardware_loop.py"), str(tmp_path / "run"), "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "episode 2" in done.stdout
    assert "done: 3 of 3 episodes are used" in done.stdout
    source = (ROOT / "examples" / "hardware_robot.py").read_text()
    imports = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imports == {"sys", "gymnasium", "numpy"}


# ---- extended, limited and warm-started runs -----------------------------


def test_an_extended_run_equals_the_one_that_had_the_budget_from_the_first(tmp_path):
    """Bit for bit, although it was finished in the middle of an outer iteration in between."""
    extended, twin = tmp_path / "extended", tmp_path / "twin"
    for path, episodes in ((extended, 7), (twin, 11)):
        budget = BudgetConfig(episodes=episodes)
        create_hardware_run(path, TASK, HARDWARE, search="ars", config=killing.tiny_config("ars"), budget=budget)
    tell_all(extended)
    assert (extended / "DONE").exists()
    extend_hardware_run(extended, BudgetConfig(episodes=11))
    tell_all(extended)
    tell_all(twin)
    assert killing.differences(killing.comparable(extended), killing.comparable(twin)) == []
    with pytest.raises(ConfigError, match="for 20 more give --episodes 31"):
        extend_hardware_run(extended, BudgetConfig(episodes=11, steps=1))


def test_policies_are_there_as_soon_as_something_was_told(run):
    """Also when no outer iteration was finished, and after a session that was killed before it wrote them."""
    tell_all(run, until=1)
    files = [run / "policy" / f"{name}.npz" for name in ("best", "current")]
    assert all(file.is_file() for file in files)
    for file in files:
        file.unlink()
    with open_hardware_run(run) as robot:
        robot.ask()
    assert all(load_policy(file).spec.action_dim == 1 for file in files)


def limited_run(path, **options):
    task = replace(TASK, limits=Limits(action_change=(0.2,), action_rate=(0.4,), weights=2.0))
    config: Any = search_config("abs", "arm")
    config = replace(config, plan=replace(config.plan, first_paths=2, path_size=2.0, window=8))
    create_hardware_run(path, task, HARDWARE, config=config, budget=BudgetConfig(episodes=8), **options)
    return path


def moved_episode(request):
    """Observations of a seed, and the actions that the policy's controller really applies."""
    rng, act = np.random.default_rng(request.episode), request.policy.start()
    observations = rng.normal(size=(7, 3)).astype(np.float32)
    actions = np.array([act(row) for row in observations[:-1]])
    return Trajectory.build(
        observations, actions, actions[:, 0] * observations[:-1, 0], terminated=False, truncated=True
    )


def test_a_limited_run_told_in_many_sessions_equals_the_one_told_in_one(tmp_path):
    one, many = limited_run(tmp_path / "one"), limited_run(tmp_path / "many")
    with open_hardware_run(one) as robot:
        while (request := robot.ask()) is not None:
            robot.write_policy(request)
            assert robot.tell(moved_episode(request)).warnings == []
    for _ in range(8):
        with open_hardware_run(many) as robot:
            request = robot.ask()
            assert request is not None
            file = dict(np.load(robot.write_policy(request), allow_pickle=False))
            assert np.abs(file["weights"]).max() <= 2.0
            assert file["action_rate"].tolist() == [0.4]
            robot.tell(moved_episode(request))
    assert killing.differences(killing.comparable(one), killing.comparable(many)) == []


def test_a_run_starts_from_a_controller_and_from_what_it_did(tmp_path):
    np.savez(tmp_path / "pid.npz", weights=[[0.5, -0.25, 0.0]], bias=[0.1])
    states = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    wanted = np.clip(states @ np.array([0.5, -0.25, 0.0]) + 0.1, -1, 1)[:, None]
    folder = tmp_path / "shown"
    folder.mkdir()
    for number in range(3):
        rows = slice(3 * number, 3 * number + 3)
        arrays = {"observations": np.vstack([states[rows], states[:1]]), "actions": wanted[rows]}
        np.savez(folder / f"{number}.npz", **arrays, rewards=np.zeros(3), terminated=False)
    table = "o0,o1,o2,a0,reward,terminated\n" + "".join(f"{x},{y},{z},0.5,0,0\n" for x, y, z in states[:4])
    (tmp_path / "one.csv").write_text(table + "1,1,1,,,\n")
    for source, near in ((tmp_path / "pid.npz", wanted), (folder, wanted), (tmp_path / "one.csv", None)):
        path = limited_run(tmp_path / f"run-{source.name}", initial=source)
        for _ in range(2):  # The second time from disk.
            with open_hardware_run(path) as robot:
                request = robot.ask()
                assert request is not None
                if near is not None:
                    assert np.abs(request.policy.actions(states) - near).max() < 0.25
        assert source.name in read_settings(path).initial


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"weights": np.zeros((1, 4))}, "is no controller of this task"),
        ({"weights": np.zeros((1, 3)), "bias": np.zeros(2)}, "is no controller of this task"),
        ({"weights": np.array([[np.nan, 0, 0]])}, "a number is not finite"),
        ({"weights": np.array([[50.0, 0, 0]])}, "limits.weights is 2"),
        ({"gains": np.zeros((1, 3))}, "is not a policy file"),
        ({**npz(actions=np.zeros((3, 2)))}, "has 3 observations and 2 actions per step"),
    ],
)
def test_a_wrong_start_is_one_sentence_and_leaves_nothing(arrays, sentence, tmp_path):
    np.savez(tmp_path / "start.npz", **arrays)
    with pytest.raises((ConfigError, ShapeError), match=re.escape(sentence)) as caught:
        limited_run(tmp_path / "run", initial=tmp_path / "start.npz")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_limits_and_start_through_the_command_line(tmp_path, capsys):
    robot = tmp_path / "robot.yaml"
    robot.write_bytes(fuzzing.ROBOT + b"limits:\n  action_change: [0.25]\n")
    np.savez(tmp_path / "pid.npz", weights=[[0.5, -0.25, 0.0]])
    words = ["--limits.action-rate", "0.5", "--initial", str(tmp_path / "pid.npz"), "--episodes", "9"]
    assert main(["ask", str(tmp_path / "run"), "--new", str(robot), *words]) == 0
    limits = read_settings(tmp_path / "run").task.limits
    assert (limits.action_change, limits.action_rate) == ((0.25,), (0.5,))
    capsys.readouterr()
    robot.write_bytes(fuzzing.ROBOT + b"limits:\n  action_chnge: [0.25]\n")
    assert main(["ask", str(tmp_path / "other"), "--new", str(robot)]) == 2
    assert "did you mean 'action_change'?" in capsys.readouterr().err
    robot.write_bytes(fuzzing.ROBOT + b"limits:\n  action_rate: [0.25, 0.5]\n")
    assert main(["ask", str(tmp_path / "other"), "--new", str(robot)]) == 2
    assert "one for each of 1 actions" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


COSTLY = replace(TASK, constraint=("torque<=2", "wear<=9(reduce=sum, probability=0.8)"))


@pytest.fixture
def costly(tmp_path):
    few = replace(killing.tiny_config("mpd"), states=8)
    create_hardware_run(tmp_path / "run", COSTLY, HARDWARE, search="mpd", config=few, budget=BudgetConfig(episodes=9))
    return tmp_path / "run"


def arrays_of(policy, seed):
    told = episode(policy, seed)
    names = ("observations", "actions", "rewards", "terminated")
    return {name: getattr(told, name) for name in names}


def test_costs_of_a_robot_by_file(costly, tmp_path):
    """One number per step, or one for the whole episode; the journal has them, and a run opened anew knows them."""
    file = tmp_path / "episode.npz"
    with open_hardware_run(costly) as robot:
        request = robot.ask()
        assert request is not None
        np.savez(file, **arrays_of(request.policy, 0), cost_torque=np.linspace(0.5, 2.5, 6), cost_wear=4.0)
        assert robot.tell_file(file).warnings == ["the cost torque was 2.5, above its limit 2"]
        assert robot.fail("hit a stop").value is None
    told = [json.loads(line) for line in (costly / "journal.jsonl").read_text().splitlines()]
    assert told[0]["costs"] == {"torque": 2.5, "wear": 4.0}
    assert told[0]["violated"] == ["torque"]
    assert (told[1]["costs"], told[1]["violated"]) == (None, None)
    facts = robot_facts(costly)
    assert (facts["violations"], facts["constraints"]) == (1, list(COSTLY.constraint))
    with open_hardware_run(costly) as robot:
        told = robot.run.journal.outcome(0)
        assert isinstance(told, Trajectory)
        assert told.costs.tolist()[-1] == [2.5, 4.0]
        assert told.costs[:, 1].sum() == 4.0


def test_costs_of_a_robot_by_csv(costly, tmp_path):
    header = "o0,o1,o2,a0,reward,terminated,cost_torque,cost_wear"
    rows = [header, "0,0,0,0,1,0,0.5,", "0,0,0,0,1,0,0.7,3", "0,0,0,,,,,"]
    file = tmp_path / "episode.csv"
    file.write_text("\n".join(rows))
    told = read_trajectory(file, hardware_spec(read_settings(costly))).trajectory
    assert told.costs.tolist() == [[0.5, 0.0], [0.7, 3.0]]


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ({"cost_torque": np.zeros(6)}, "cost_wear"),
        ({"cost_torque": np.zeros(5), "cost_wear": 1.0}, r"'cost_torque' must be one number per step, \(6,\)"),
        ({"cost_torque": np.full(6, np.nan), "cost_wear": 1.0}, "costs contain a number that is not finite"),
        ({"cost_torque": np.array(["a"] * 6), "cost_wear": 1.0}, "not plain numbers"),
    ],
)
def test_wrong_costs_change_nothing(costly, tmp_path, costs, said):
    file = tmp_path / "episode.npz"
    with open_hardware_run(costly) as robot:
        request = robot.ask()
        assert request is not None
        np.savez(file, **arrays_of(request.policy, 0), **costs)
        with pytest.raises(ShapeError, match=said):
            robot.tell_file(file)
        with pytest.raises(ShapeError, match="0 costs per step; the task has 2 constraints"):
            robot.tell(episode(request.policy, 0))
        assert len(robot.run.journal) == 0


def test_a_robot_with_constraints_from_the_command_line(tmp_path, capsys):
    description = tmp_path / "robot.yaml"
    description.write_text("name: arm\nobservations: 3\naction_low: [-1]\naction_high: [1]\nhorizon: 8\n")
    words = ["ask", str(tmp_path / "run"), "--new", str(description), "--constraint", "torque<=2(probability=0.9)"]
    assert main(words) == 0
    assert read_settings(tmp_path / "run").task.constraint == ("torque<=2(probability=0.9)",)
    assert main([*words[:2], "--new", str(description), "--constraint", "torque<=far"]) != 0
    assert "limit must be a number" in capsys.readouterr().err


def test_costs_of_the_newest_episodes_are_shown_to_the_operator(costly, tmp_path, capsys):
    """In the terminal, as JSON and on the page; the best episode is one that broke no limit."""
    file = tmp_path / "episode.npz"
    with open_hardware_run(costly) as robot:
        for number, torque in enumerate((0.5, 2.5)):
            request = robot.ask()
            assert request is not None
            told: dict[str, Any] = arrays_of(request.policy, number) | {"rewards": np.full(6, 1.0 + number)}
            np.savez(file, **told, cost_torque=torque, cost_wear=4.0)
            robot.tell_file(file)
        robot.fail("hit a stop")
    assert main(["watch", str(costly), "--once"]) == 0
    shown = capsys.readouterr().out.splitlines()
    head = next(number for number, line in enumerate(shown) if line.split()[:1] == ["episode"])
    assert shown[head].split() == ["episode", "iteration", "role", "return", "torque", "wear", "steps", "end"]
    assert [shown[head + 1 + number].split()[4:6] for number in range(3)] == [["0.5", "4"], ["2.5", "4"], ["–", "–"]]
    facts = robot_facts(costly)
    assert [item["costs"] for item in facts["episodes"]] == [{"torque": 0.5, "wear": 4}, {"torque": 2.5, "wear": 4}, {}]
    assert facts["best"] is not None
    assert (facts["best"]["episode"], facts["best"]["value"]) == (0, 6.0)
    run = load_run(costly)
    assert robot_state(run).best_episode == 0
    newest = run_details(run, 100, 0)["newest"]
    assert [(item["episode"], item["costs"].get("torque"), item["violated"]) for item in newest] == [
        (2, None, []),
        (1, 2.5, ["torque"]),
        (0, 0.5, []),
    ]
