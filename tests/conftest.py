"""What many tests share: deterministic property tests, a quick task, and runs that take a moment."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from abps.policies.observations import RawObservations
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, create_directory
from abps.run.loop import TrainingResult, train
from abps.run.metrics import without_times
from abps.search.ars import ArsConfig
from abps.search.budget import BudgetConfig
from abps.settings import replace
from abps.tasks.config import TaskConfig

# Tests press Ctrl-C; where they run in the background, SIGINT is ignored, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
hypothesis.settings.register_profile("abps", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("abps")

sys.path.insert(0, str(Path(__file__).parent / "oracles"))  # Twins and laboratories, under their plain names.

MEMORY, ROOM = Path("/dev/shm"), 2**31  # noqa: S108 (pytest makes a folder of the user's own in it)
ROOT = "PYTEST_DEBUG_TEMPROOT"
if ROOT not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    # Runs sync every episode: milliseconds on a disk, nothing in memory. No test cuts the power: those of power loss
    # write what it would leave behind. Give the variable another folder, e.g. /tmp, to test on that.
    os.environ[ROOT] = str(MEMORY)

QUICK_TASK = TaskConfig(id="abps.tasks.lqr:make_env", name="lqr", gamma=0.95, horizon=15, reward_scale=1.0)
"""A noise-free linear system with random initial states, importable by spawned workers; a millisecond an episode."""

QUICK_SEARCH = ArsConfig(observations=RawObservations(), step=0.02, noise=0.05, directions=3, top=2)


@pytest.fixture(scope="session", autouse=True)
def temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What this process keeps in temporary folders goes where the tests' own folders are."""
    tempfile.tempdir = str(tmp_path_factory.getbasetemp())
    yield
    tempfile.tempdir = None


@pytest.fixture
def quick_task() -> TaskConfig:
    return QUICK_TASK


@pytest.fixture
def make_settings() -> Callable[..., RunSettings]:
    """Settings of a short ARS run on the quick task; changes go to whichever group knows the name."""

    def make(search: str = "ars", search_config: Any = None, seed: int = 0, **changes: Any) -> RunSettings:
        groups = {
            "task": QUICK_TASK,
            "search_config": search_config or QUICK_SEARCH,
            "budget": BudgetConfig(episodes=24),
            "run": RunConfig(evaluation_episodes=2),
        }
        for name, value in changes.items():
            home = next(key for key, config in groups.items() if hasattr(config, name))
            groups[home] = replace(groups[home], **{name: value})
        return RunSettings(search=search, seed=seed, **groups)

    return make


@pytest.fixture
def run_new() -> Callable[..., TrainingResult]:
    """Make a run directory and train it to its end."""

    def run(path: Path, settings: RunSettings, observers: tuple[Any, ...] = ()) -> TrainingResult:
        create_directory(path, settings)
        return train(path, settings, observers)

    return run


@pytest.fixture
def records() -> Callable[..., list[dict[str, Any]]]:
    """The lines of a run's journal or metrics, without times unless asked for."""

    def read(path: Path, *, times: bool = False) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return lines if times else [without_times(line) for line in lines]

    return read
