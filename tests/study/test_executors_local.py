"""The local executor with real processes: killed, orphaned, interrupted, and always the same episodes in the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from abps.run.config import RunConfig
from abps.run.directory import RunSettings
from abps.run.files import parse_checked_json
from abps.run.metrics import without_times
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.study.cells import find, is_locked, recorded_episodes, run_cell
from abps.study.executors.local import LocalExecutor
from abps.study.grid import Cell
from abps.study.schedule import Schedule
from abps.tasks.catalogue import task_config

TASK = "abps.tasks.lqr:s2_a1_seed0"
EPISODES = 48


def cell(root: Path, seed: int = 0, episodes: int = EPISODES) -> Cell:
    search = replace(search_config("ars", TASK), directions=2, top=1)
    settings = RunSettings(
        task_config(TASK), "ars", search, BudgetConfig(episodes=episodes), RunConfig(evaluation_episodes=1), seed
    )
    return Cell(seed, root / "lqr" / "ars" / f"seed-{seed}", settings)


def journal(path: Path) -> list[dict]:
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    return [without_times(parse_checked_json(line) or {}) for line in lines]


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    wanted = cell(tmp_path_factory.mktemp("alone"))
    run_cell(wanted.path, wanted.settings)
    return journal(wanted.path)


def test_a_killed_process_is_started_again_and_the_journal_is_that_of_an_uninterrupted_run(
    tmp_path: Path, uninterrupted: list[dict]
) -> None:
    wanted, executor, killed = [cell(tmp_path, 0), cell(tmp_path, 1, 8)], LocalExecutor(jobs=2), []

    def kill_once(study: Schedule) -> None:
        if not killed and recorded_episodes(wanted[0].path) >= 10:
            killed.append(executor.processes[wanted[0].name])
            os.kill(killed[0], signal.SIGKILL)

    study = Schedule(wanted, executor, on_tick=kill_once)
    study.run()
    assert study.count("done") == 2
    assert study.states[0].deaths == len(killed) == 1
    assert journal(wanted[0].path) == uninterrupted
    # Negative control: another seed has other episodes.
    assert journal(wanted[1].path)[:8] != uninterrupted[:8]


def environment_of(pid: int) -> list[str]:
    """The variables a process was started with; for an instant after it was, the kernel shows none."""
    until = time.monotonic() + 10.0
    while not (text := Path(f"/proc/{pid}/environ").read_bytes()) and time.monotonic() < until:
        time.sleep(0.01)
    return text.decode().split("\0")


def test_a_process_has_one_thread_per_library(tmp_path: Path) -> None:
    executor = LocalExecutor(jobs=1)
    executor.start(cell(tmp_path, episodes=2000))
    (pid,) = executor.processes.values()
    try:
        environment = environment_of(pid)
        assert {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NPROC=1"} <= set(environment)
        assert any(line.startswith("XLA_FLAGS=") and "multi_thread_eigen=false" in line for line in environment)
        assert executor.room() == 0
    finally:
        executor.stop()


def test_stop_ends_processes_cleanly_and_the_run_can_go_on(tmp_path: Path) -> None:
    wanted, executor = cell(tmp_path, episodes=100_000), LocalExecutor(jobs=1)
    executor.start(wanted)
    (pid,) = executor.processes.values()
    wait_for(lambda: recorded_episodes(wanted.path) >= 4)
    began = time.monotonic()
    executor.stop()
    assert time.monotonic() - began < 10
    assert not Path(f"/proc/{pid}").exists()
    assert find(wanted.path, wanted.settings).state == "stopped"
    assert (wanted.path / "worker.log").read_text() == ""  # No traceback: being stopped is nothing special.
    shorter = replace(wanted.settings, budget=BudgetConfig(episodes=recorded_episodes(wanted.path) + 2))
    run_cell(wanted.path, shorter)
    assert find(wanted.path, shorter).state == "done"


def test_a_broken_run_fails_with_its_reason_and_is_not_tried_again(tmp_path: Path) -> None:
    wanted = cell(tmp_path, episodes=4)
    run_cell(wanted.path, wanted.settings)
    lines = (wanted.path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (wanted.path / "journal.jsonl").write_bytes(b"x" + b"".join(lines))
    longer = Cell(0, wanted.path, replace(wanted.settings, budget=BudgetConfig(episodes=8)))
    study = Schedule([longer], LocalExecutor(jobs=1))
    study.run()
    assert study.states[0].state == "failed"
    assert "damaged" in study.states[0].message
    assert study.states[0].deaths == 0


ORPHANS = """
import sys, time
sys.path.insert(0, {here!r})
from pathlib import Path
import importlib.util
spec = importlib.util.spec_from_file_location("helpers", {file!r})
helpers = importlib.util.module_from_spec(spec); spec.loader.exec_module(helpers)
executor = helpers.LocalExecutor(jobs=1)
executor.start(helpers.cell(Path({root!r}), episodes=100_000))
time.sleep(100)
"""


def test_processes_end_when_the_study_is_killed(tmp_path: Path) -> None:
    script = ORPHANS.format(here=str(Path(__file__).parent), file=__file__, root=str(tmp_path))
    parent = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"})
    wanted = cell(tmp_path)
    try:
        wait_for(lambda: recorded_episodes(wanted.path) >= 4)
        assert is_locked(wanted.path)
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not is_locked(wanted.path), 10.0)
