"""The Ray executor on a real local cluster, with a worker killed in the middle of a run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from abps.errors import ConfigError
from abps.run.config import RunConfig
from abps.run.directory import RunSettings
from abps.run.files import parse_checked_json
from abps.run.metrics import without_times
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.study.cells import find, recorded_episodes, run_cell
from abps.study.executors import make_executor
from abps.study.grid import Cell
from abps.study.schedule import Schedule
from abps.tasks.catalogue import task_config

pytestmark = [
    pytest.mark.slow,
    # Ray's own warnings are not ours to fix.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

TASK = "abps.tasks.lqr:s2_a1_seed0"


def cell(root: Path, seed: int = 0, episodes: int = 300) -> Cell:
    """A run that is long enough to be killed in its middle, whatever the machine's speed."""
    search = replace(search_config("ars", TASK), directions=2, top=1)
    settings = RunSettings(
        task_config(TASK), "ars", search, BudgetConfig(episodes=episodes), RunConfig(evaluate_every=0), seed
    )
    return Cell(seed, root / "lqr" / "ars" / f"seed-{seed}", settings)


def journal(path: Path) -> list[dict]:
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    return [without_times(parse_checked_json(line) or {}) for line in lines]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_worker_niceness", "0")  # 15 by itself: beside other tests they would hardly get on.
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        yield
        ray.shutdown()


def test_a_killed_worker_is_replaced_and_the_run_goes_on_bit_for_bit(tmp_path: Path, cluster: None) -> None:
    alone = cell(tmp_path / "alone")
    run_cell(alone.path, alone.settings)
    wanted, killed = [cell(tmp_path), cell(tmp_path, 1, 8)], []

    def kill_once(study: Schedule) -> None:
        if not killed and recorded_episodes(wanted[0].path) >= 8:
            killed.append(int((wanted[0].path / "lock").read_text()))
            assert killed[0] != os.getpid()
            os.kill(killed[0], signal.SIGKILL)

    executor = make_executor("ray")
    assert "1 node with 2 cores" in executor.describe()
    study = Schedule(wanted, executor, on_tick=kill_once)
    study.run()
    assert study.count("done") == 2, [item.message for item in study.states]
    assert study.states[0].deaths == len(killed) == 1
    assert journal(wanted[0].path) == journal(alone.path)
    assert journal(wanted[1].path)[:8] != journal(alone.path)[:8]


def test_stop_cancels_what_runs_and_what_is_broken_says_why(tmp_path: Path, cluster: None) -> None:
    broken, endless = cell(tmp_path, 0, 4), cell(tmp_path, 1, 100_000)
    run_cell(broken.path, broken.settings)
    (broken.path / "journal.jsonl").write_bytes(b"x" + (broken.path / "journal.jsonl").read_bytes())
    broken = Cell(0, broken.path, replace(broken.settings, budget=BudgetConfig(episodes=8)))

    def interrupt(study: Schedule) -> None:
        if study.states[0].state == "failed" and recorded_episodes(endless.path) >= 4:
            raise KeyboardInterrupt

    study = Schedule([broken, endless], make_executor("ray"), on_tick=interrupt)
    with pytest.raises(KeyboardInterrupt):
        study.run()
    assert "damaged" in study.states[0].message
    assert find(endless.path, endless.settings).state == "stopped"


def test_an_address_where_nobody_is(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="cannot reach or start Ray at"):
        make_executor("ray", address="not an address")
