"""Cells on disk and the schedule: nothing is done twice, mixed or forgotten. The executor here is a toy."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abps.errors import ConfigError, RunError
from abps.run.config import RunConfig
from abps.run.directory import (
    RunSettings,
    claim,
    create_directory,
    read_settings,
    settings_document,
    settings_from_document,
    write_settings,
)
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.study import schedule as schedule_module
from abps.study.cells import BusyError, find, run_cell
from abps.study.executors import Outcome, make_executor
from abps.study.grid import Cell
from abps.study.schedule import Schedule
from abps.tasks.catalogue import task_config

TASK = "abps.tasks.lqr:s2_a1_seed0"


def settings(seed: int = 0, episodes: int = 8, **changes: float) -> RunSettings:
    search = replace(search_config("ars", TASK), directions=2, top=1, **changes)
    task = replace(task_config(TASK), horizon=5)
    return RunSettings(task, "ars", search, BudgetConfig(episodes=episodes), RunConfig(evaluate_every=0), seed)


def finish(path: Path, wanted: RunSettings, episodes: int | None = None) -> None:
    """What a worker leaves behind, without the work."""
    if not (path / "config.yaml").exists():
        create_directory(path, wanted)
    (path / "journal.jsonl").write_text("{}\n" * (wanted.budget.episodes if episodes is None else episodes))
    (path / "DONE").write_text("episodes: used\n")


def cells(root: Path, count: int = 3) -> list[Cell]:
    return [Cell(n, root / "task" / "ars" / f"seed-{n}", settings(n)) for n in range(count)]


class ToyExecutor:
    """Does in `poll` what its script says; a cell without a script is finished."""

    def __init__(self, script: dict[int, list[str]] | None = None, room: int = 1) -> None:
        self.script, self.places, self.started, self.open, self.stopped = script or {}, room, [], [], False

    def describe(self) -> str:
        return "a toy"

    def room(self) -> int:
        return self.places - len(self.open)

    def start(self, cell: Cell) -> None:
        self.started.append(cell.number)
        self.open.append(cell)

    def poll(self) -> list[Outcome]:
        ended, self.open = self.open, []
        return [self._end(cell) for cell in ended]

    def stop(self) -> None:
        self.stopped = True

    def _end(self, cell: Cell) -> Outcome:
        result = self.script[cell.number].pop(0) if self.script.get(cell.number) else ""
        if not result:
            finish(cell.path, cell.settings)
        return Outcome(cell, result or "done", "so it was")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_module, "PAUSE", 0.001)
    monkeypatch.setattr(schedule_module, "LOOK_EVERY", 0.01)


def test_states_on_disk(tmp_path: Path) -> None:
    path, wanted = tmp_path / "run", settings()
    assert find(path, wanted).state == "new"
    create_directory(path, wanted)
    assert find(path, wanted).state == "stopped"
    (path / "FAILED").write_text("no torque\n")
    assert (find(path, wanted).state, find(path, wanted).detail) == ("failed", "no torque")
    (path / "FAILED").unlink()
    with claim(path):
        assert find(path, wanted).state == "running"
    finish(path, wanted)
    assert find(path, wanted).state == "done"


def test_a_larger_budget_goes_on_and_a_smaller_one_is_done(tmp_path: Path) -> None:
    path, wanted = tmp_path / "run", settings(episodes=8)
    finish(path, wanted)
    assert find(path, settings(episodes=9)).state == "stopped"
    assert find(path, settings(episodes=7)).state == "done"
    assert find(path, replace(wanted, budget=BudgetConfig(episodes=8, target=3.0))).state == "stopped"


def test_a_run_stopped_beyond_a_smaller_budget_is_done_under_it(tmp_path: Path) -> None:
    path, wanted = tmp_path / "run", settings(episodes=8)
    finish(path, wanted)
    (path / "DONE").unlink()  # As if it was interrupted under a larger budget.
    write_settings(path, settings(episodes=20))
    assert find(path, settings(episodes=20)).state == "stopped"
    assert find(path, settings(episodes=8)).state == "stopped"  # Its last evaluation may be missing.
    assert find(path, settings(episodes=7)).state == "done"
    assert find(path, replace(wanted, budget=BudgetConfig(episodes=7, target=3.0))).state == "stopped"


def test_other_settings_are_a_conflict_and_what_does_not_matter_is_none(tmp_path: Path) -> None:
    path, wanted = tmp_path / "run", settings()
    finish(path, wanted)
    there = find(path, settings(step=0.5))
    assert there.state == "conflict"
    assert "ars.step is 0.02 there, 0.5 is wanted" in there.detail
    assert find(path, replace(wanted, run=RunConfig(evaluate_every=0, workers=2, minutes=1.0))).state == "done"
    assert find(path, replace(wanted, run=RunConfig(evaluate_every=1))).state == "conflict"
    (path / "config.yaml").write_text("seed: [")
    assert find(path, wanted).state == "conflict"


def test_a_conflict_is_refused_and_leaves_no_mark(tmp_path: Path) -> None:
    path = tmp_path / "run"
    finish(path, settings())
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "lock"}
    with pytest.raises(RunError, match="other settings"):
        run_cell(path, settings(step=0.5))
    after = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "lock"}
    assert after == before
    toy = ToyExecutor()
    with pytest.raises(ConfigError, match=r"(?s)1 of the grid's runs exist with other settings.*--axis"):
        Schedule([Cell(0, path, settings(step=0.5))], toy)
    assert toy.started == []


def test_a_cell_runs_goes_on_and_is_left_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_cell(path, settings(episodes=4))
    assert find(path, settings(episodes=4)).state == "done"
    run_cell(path, settings(episodes=8))
    assert find(path, settings(episodes=8)).state == "done"
    assert read_settings(path).budget.episodes == 8
    with claim(path), pytest.raises(BusyError):
        run_cell(path, settings(episodes=12))
    assert not (path / "FAILED").exists()


def test_a_cell_that_breaks_says_so_in_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_cell(path, settings(episodes=4))
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (path / "journal.jsonl").write_bytes(b"".join([lines[0], b"?" * len(lines[1]) + b"\n", *lines[2:]]))
    with pytest.raises(RunError, match="damaged"):
        run_cell(path, settings(episodes=8))
    assert find(path, settings(episodes=8)).state == "failed"


def test_settings_travel_as_json_documents() -> None:
    wanted = replace(settings(), variant="step=0.02")
    assert settings_from_document(settings_document(wanted)) == wanted


def test_what_is_done_is_skipped_and_the_rest_is_run(tmp_path: Path) -> None:
    wanted = cells(tmp_path)
    finish(wanted[1].path, wanted[1].settings)
    toy = ToyExecutor()
    study = Schedule(wanted, toy)
    study.run()
    assert toy.started == [0, 2]
    assert [item.skipped for item in study.states] == [False, True, False]
    assert study.count("done") == 3
    assert toy.stopped
    again = ToyExecutor()
    Schedule(wanted, again).run()
    assert again.started == []


def test_a_dead_process_is_started_once_more_a_failure_is_not(tmp_path: Path) -> None:
    toy = ToyExecutor({0: ["died"], 1: ["died", "died"], 2: ["failed"]})
    study = Schedule(cells(tmp_path), toy)
    study.run()
    assert [toy.started.count(number) for number in range(3)] == [2, 2, 1]
    assert [item.state for item in study.states] == ["done", "failed", "failed"]
    assert study.states[2].message == "so it was"
    # Negative control: without retries the first death counts.
    strict = Schedule(cells(tmp_path / "strict"), ToyExecutor({0: ["died"]}), retries=0)
    strict.run()
    assert strict.states[0].state == "failed"


def test_a_worker_that_says_done_is_not_believed(tmp_path: Path) -> None:
    class Liar(ToyExecutor):
        def _end(self, cell: Cell) -> Outcome:
            return Outcome(cell, "done")

    study = Schedule(cells(tmp_path, 1), Liar())
    study.run()
    assert study.states[0].state == "failed"


def _owned(path: Path, wanted: RunSettings) -> Iterator[None]:
    create_directory(path, wanted)
    with claim(path):
        yield


@pytest.mark.parametrize("finished", [True, False])
def test_a_cell_that_another_process_runs_is_waited_for_and_taken_over_if_given_up(
    tmp_path: Path, finished: bool
) -> None:
    (cell,) = cells(tmp_path, 1)
    owner = _owned(cell.path, cell.settings)
    next(owner)
    toy, seen = ToyExecutor(), []

    def look(study: Schedule) -> None:
        seen.append(study.states[0].state)
        if len(seen) == 20:
            if finished:
                finish(cell.path, cell.settings)
            next(owner, None)

    study = Schedule([cell], toy, on_tick=look)
    study.run()
    assert seen[:20] == ["elsewhere"] * 20
    assert study.count("done") == 1
    assert toy.started == ([] if finished else [0])


def test_busy_workers_give_their_cell_back(tmp_path: Path) -> None:
    toy = ToyExecutor({0: ["busy"]})
    study = Schedule(cells(tmp_path, 1), toy)
    study.run()
    assert toy.started == [0, 0]
    assert study.count("done") == 1


def test_a_deadline_leaves_the_rest_waiting(tmp_path: Path) -> None:
    toy = ToyExecutor()
    study = Schedule(cells(tmp_path), toy, deadline=0.0)
    study.run()
    assert toy.started == []
    assert toy.stopped
    assert study.count("waiting") == 3


def test_an_interrupt_stops_the_executor(tmp_path: Path) -> None:
    def interrupt(study: Schedule) -> None:
        raise KeyboardInterrupt

    toy = ToyExecutor()
    with pytest.raises(KeyboardInterrupt):
        Schedule(cells(tmp_path), toy, on_tick=interrupt).run()
    assert toy.stopped


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_executor("cloud"),
        lambda: make_executor("local", jobs=0),
        lambda: make_executor("local", address="1.2.3.4"),
    ],
)
def test_executors_that_cannot_be(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()
