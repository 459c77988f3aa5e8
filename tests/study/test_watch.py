"""Looking at runs: states, numbers, files that grow and shrink, what fits on a screen, and TensorBoard files."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from abps.cli import main, study_view
from abps.cli.study_view import LineView, LiveView
from abps.errors import RunError
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, claim, create_directory
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.study.executors.local import LocalExecutor
from abps.study.grid import Cell
from abps.study.progress import Follower, Snapshot
from abps.study.schedule import Schedule
from abps.study.tensorboard import TensorBoardExport
from abps.study.watch import overview, study_time_left
from abps.tasks.catalogue import task_config
from abps.words import duration


def text(snapshots: list[Snapshot], height: int | None = None, width: int = 160) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(overview(snapshots, height, "", width))
    console.file.close()
    return console.export_text()


def test_a_finished_run(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    path = make_run(tmp_path, "hopper", "abs", 3)
    last = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    (path / "journal.jsonl").write_text("{}\n" * 285)
    seen = Follower(path).read()
    assert (seen.task, seen.search, seen.seed, seen.state) == ("hopper", "abs", 3, "done")
    assert (seen.episodes, seen.budget) == (285, 300)
    assert (seen.centre, seen.best) == (last["eval_return"], last["max_return"])
    assert seen.score == max(last["r2_validation"])
    assert seen.ascent == last["probability_ascent"]
    assert seen.left is None


def test_states(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    failed = make_run(tmp_path, "hopper", "ars", 0, status="failed")
    assert Follower(failed).read().state == "failed"
    assert "10 episodes in a row failed" in text([Follower(failed).read()])
    (failed / "FAILED").write_text(
        "Traceback (most recent call last):\n" + "  File x\n" * 500 + "ValueError: too hot\n"
    )
    assert Follower(failed).read().reason == "ValueError: too hot"
    stopped = make_run(tmp_path, "hopper", "ars", 1, status="unfinished")
    assert Follower(stopped).read().state == "stopped"
    with claim(stopped):
        running = Follower(stopped).read()
    assert running.state == "running"
    assert running.rate is not None
    assert running.left == pytest.approx(60 * (running.budget - running.episodes) / running.rate)


def test_the_rate_is_that_of_the_last_iterations(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    path = make_run(tmp_path, "hopper", "ars", 0)
    rows = [
        {"episodes": 10 * (n + 1), "seconds": 100.0 * (n + 1) if n < 10 else 1000.0 + 10 * (n - 9)} for n in range(20)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert Follower(path).read().rate == pytest.approx(60.0)


def test_files_are_followed_as_they_grow_and_are_cut(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    path = make_run(tmp_path, "hopper", "ars", 0, status="unfinished")
    journal, follower = path / "journal.jsonl", Follower(path)
    journal.write_text("{}\n{}\n")
    assert follower.read().episodes == 2
    with journal.open("a") as file:
        file.write('{}\n{"half')
    assert follower.read().episodes == 3
    with journal.open("a") as file:
        file.write(' a line"}\n')
    assert follower.read().episodes == 4
    journal.write_text("{}\n")  # A resumed run cuts what its checkpoint does not know.
    assert follower.read().episodes == 1
    (path / "metrics.jsonl").write_text('{"eval_return": 5.0, "episodes": 3}\nnot json\n[1]\n')
    assert follower.read().centre == 5.0


def test_an_empty_or_damaged_run_is_shown_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "hopper" / "abs" / "seed-1"
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("seed: [")
    seen = Follower(path).read()
    assert (seen.task, seen.search, seen.state, seen.episodes) == ("hopper", "abs", "stopped", 0)
    assert "hopper" in text([seen])


def snapshots(count: int, state: str = "done") -> list[Snapshot]:
    one = Snapshot(Path("x"), "hopper", "abs", 0, state, "", 50, 100, 1.0, 2.0, 0.5, 0.9, 10.0, 60.0)
    return [replace(one, seed=seed) for seed in range(count)]


def test_what_matters_stays_on_a_low_screen() -> None:
    many = [*snapshots(50), *snapshots(1, "running"), *snapshots(1, "failed")]
    shown = text(many, height=15)
    assert len(shown.splitlines()) <= 15
    assert "running" in shown
    assert "failed" in shown
    assert "more" in shown
    assert "50 done" in shown
    assert len(text(many).splitlines()) > 50


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_failed_run_stays_readable(width: int) -> None:
    reason = "RuntimeError: " + "the simulation diverged because of a very large action, " * 6
    failed = [replace(item, reason=reason) for item in snapshots(2, "failed")]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(overview([*snapshots(3), *failed], 20, "", width))
    lines = console.export_text().splitlines()
    assert lines[0].split()[:5] == ["task", "search", "seed", "state", "episodes"], "no title is cut"
    assert all(line.split()[:2] == ["hopper", "abs"] for line in lines[1:6]), "no column is squeezed"
    assert lines[6].startswith(" hopper/abs/seed-0 failed: RuntimeError: the simulation")
    assert len(lines) == 9, "a reason takes one line on a screen"
    whole = Console(width=width, record=True, file=io.StringIO())
    whole.print(overview(failed))
    assert " ".join(whole.export_text().split()).count("very large action") == 12, "and all of it elsewhere"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_names_and_numbers_are_not_cut_where_leaving_out_the_bar_makes_room(width: int) -> None:
    runs = [replace(item, task="gimbal:make_env", budget=120) for item in snapshots(2, "waiting")]
    lines = text(runs, height=20, width=width).splitlines()
    assert "…" not in "".join(lines)
    assert [line.split()[:4] for line in lines[1:3]] == [["gimbal:make_env", "abs", str(k), "waiting"] for k in (0, 1)]
    assert all("50/120" in line for line in lines[1:3])


def test_a_long_name_gives_way_on_a_screen_and_has_several_lines_elsewhere() -> None:
    runs = [replace(item, task="a_module_with_a_long_name:make_env", search="abs (x=1)") for item in snapshots(1)]
    on_screen = text(runs, height=20, width=60).splitlines()
    assert len(on_screen) == 3
    assert on_screen[1].split()[-2:] == ["50/100", "1"], "numbers are whole"
    elsewhere = text(runs, width=60).splitlines()
    assert "".join(line.split()[0] for line in elsewhere[1:-1]).startswith("a_module_with_a_long_name:make_env")
    assert "…" not in "".join(elsewhere)


def test_many_failures_leave_room_for_the_rest() -> None:
    many = [*snapshots(2, "running"), *(replace(item, reason="too hot") for item in snapshots(30, "failed"))]
    shown = text(many, height=20)
    assert len(shown.splitlines()) <= 20
    assert "27 more failed" in shown


def test_a_robot_waits_for_its_next_episode(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    with (path / "config.yaml").open("a") as file:
        file.write("hardware: {observations: 3}\n")
    assert Follower(path).read().state == "waiting"
    (path / "DONE").write_text("episodes: budget reached")
    assert Follower(path).read().state == "done"


def test_watching_goes_on_when_runs_vanish(
    tmp_path: Path, make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from abps.cli import watch as command

    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    monkeypatch.setattr(command, "PATIENCE", 0.0)
    watcher = command._Watcher([tmp_path], None)
    assert len(watcher.look()) == 1
    shutil.rmtree(path)
    assert watcher.look(again=True) == []
    with pytest.raises(RunError, match="no run found"):
        watcher.look()


def test_the_newest_evaluation_is_shown_not_a_training_episode(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    rows = [{"episodes": 1, "eval_return": 7.0, "centre_return": 3.0}, {"episodes": 2, "centre_return": 99.0}]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert Follower(path).read().centre == 7.0


def test_time_left_of_a_study() -> None:
    running, waiting = (
        snapshots(2, "running"),
        [replace(item, episodes=0, rate=None) for item in snapshots(2, "waiting")],
    )
    # 50 episodes left in each of two, 100 in each of two that are as fast: 300 episodes at 20 per minute.
    assert study_time_left([*running, *waiting]) == pytest.approx(60 * 300 / 20)
    assert study_time_left(snapshots(3)) is None
    assert study_time_left([replace(running[0], budget=0)]) is None
    # The longest run is never shorter than itself.
    assert study_time_left([running[0], replace(running[1], rate=0.1)]) == pytest.approx(60 * 50 / 0.1)


@pytest.mark.parametrize(
    ("seconds", "words"), [(42, "42 s"), (600, "10 min"), (7200, "2 h 0 min"), (200_000, "2 d 7 h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_command(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(study), "--once"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("done") >= 18
    assert "R̃²" in printed
    assert main(["watch", str(study / "hopper"), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 9
    assert {line["task"] for line in lines} == {"hopper"}
    assert main(["watch", str(study / "nothing")]) == 1
    assert main(["watch", str(study), "--every", "0"]) == 1


def events(folder: Path) -> list[tuple[str, int, float]]:
    from tensorboardX.event_file_writer import EventsWriter  # noqa: F401 (the package is there)
    from tensorboardX.proto import event_pb2

    found = []
    for file in sorted(folder.rglob("events.*")):
        data = file.read_bytes()
        while data:  # The records: length (8), its checksum (4), the event, its checksum (4).
            size = int.from_bytes(data[:8], "little")
            event = cast("Any", event_pb2).Event.FromString(data[12 : 12 + size])
            found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
            data = data[16 + size :]
    return found


def test_tensorboard_files_hold_every_number_once(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    path = make_run(tmp_path / "runs", "hopper", "abs", 0, status="unfinished")
    rows = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (path / "metrics.jsonl").write_text("".join(rows[:5]))
    export = TensorBoardExport(tmp_path / "tb")
    assert export.update(path) == 5
    assert export.update(path) == 0
    (path / "metrics.jsonl").write_text("".join(rows))
    assert TensorBoardExport(tmp_path / "tb").update(path) == len(rows) - 5
    found = events(tmp_path / "tb" / "hopper" / "abs" / "seed-0")
    expected = [json.loads(row) for row in rows]
    returns = [(step, value) for tag, step, value in found if tag == "max_return"]
    assert [step for step, _ in returns] == [row["episodes"] for row in expected]
    assert [value for _, value in returns] == pytest.approx([row["max_return"] for row in expected], rel=1e-6)
    assert sum(1 for tag, _, _ in found if tag == "weights/4") == len(rows)


def test_tensorboard_files_of_two_runs_are_not_mixed(tmp_path: Path, make_run: Callable[..., Path], capsys) -> None:
    for place in ("one", "two"):
        make_run(tmp_path / place, "hopper", "ars", 0)
    words = ["--once", "--tensorboard", str(tmp_path / "tb")]
    assert main(["watch", str(tmp_path / "one"), *words]) == 0
    assert "TensorBoard: 18 outer iterations" in capsys.readouterr().out
    assert main(["watch", str(tmp_path / "two"), *words]) == 1
    assert "holds the export of" in capsys.readouterr().err


def test_the_live_table_of_a_study(tmp_path: Path) -> None:
    search = search_config("ars", "pendulum")
    settings = RunSettings(
        task_config("pendulum"), "ars", search, BudgetConfig(episodes=30), RunConfig(), 0, "step=0.1"
    )
    cells = [Cell(n, tmp_path / "pendulum" / "ars@step=0.1" / f"seed-{n}", replace(settings, seed=n)) for n in range(3)]
    screen = io.StringIO()
    view = LiveView(Console(file=screen, force_terminal=True, width=140, height=30))
    schedule = Schedule(cells, LocalExecutor(jobs=2))
    create_directory(cells[0].path, cells[0].settings)
    schedule.states[0].state = schedule.states[1].state = "running"
    with claim(cells[0].path):
        view.begin(schedule)
        view.tick(schedule)
        schedule.states[2].state, schedule.states[2].message = "failed", "no [torque]"
        view.change(schedule.states[2])
        view.close()
    shown = screen.getvalue()
    # The second cell was started but holds no lock yet; brackets in a message are not read as markup.
    assert all(words in shown for words in ("1 running", "2 waiting", "ars step=0.1", "0/30", "2 local processes"))
    assert "no [torque]" in shown


def test_lines_say_running_when_a_cell_begins_and_not_when_it_is_queued(tmp_path: Path, monkeypatch, capsys) -> None:
    """Ray takes all cells at once, and runs as many as it has cores."""
    monkeypatch.setattr(study_view, "REFRESH", 0.0)
    search = search_config("ars", "pendulum")
    wanted = RunSettings(task_config("pendulum"), "ars", search, BudgetConfig(episodes=30), RunConfig(), 0)
    cells = [Cell(n, tmp_path / f"cell-{n}", replace(wanted, seed=n)) for n in range(2)]
    view, schedule = LineView(), Schedule(cells, LocalExecutor(jobs=2))
    for item in schedule.states:
        item.state = "running"
        view.change(item)
    view.tick(schedule)
    assert capsys.readouterr().err == ""  # Both are queued.
    create_directory(cells[1].path, cells[1].settings)
    with claim(cells[1].path):
        view.tick(schedule)
        view.tick(schedule)
    for item in schedule.states:
        item.state = "done"
        view.change(item)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    first, second = (cell.name for cell in cells)
    assert lines == [f"{second}: running", f"{first}: done", f"{second}: done after 0 s"]
