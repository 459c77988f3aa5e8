"""Cells on disk: how far a run is, whether it is the one that is wanted, and carrying it out in this process.

A study keeps no record of its own. What is finished, broken or under way is read from the run directories, so any
number of studies on any number of machines with a shared file system can work on one grid, and none does what another
did.
"""

import fcntl
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abps.errors import RunError
from abps.run.directory import RunSettings, claim, create_directory, read_settings, write_settings
from abps.run.files import replace_atomically
from abps.search.budget import BudgetConfig
from abps.settings import replace, to_dict
from abps.study.records import reason_text
from abps.words import listing

__all__ = [
    "BusyError",
    "Found",
    "child_environment",
    "differences",
    "find",
    "is_locked",
    "prepare_directory",
    "recorded_episodes",
    "run_cell",
    "single_threaded",
]

if TYPE_CHECKING:
    from abps.tasks.gym import Task

FREE = ("workers", "minutes", "timeout", "checkpoint_every", "max_failures")
"""Settings of `run` that change neither what is learned nor what is recorded."""


class BusyError(RunError):
    """Another process is training this run."""


@dataclass(frozen=True)
class Found:
    """What there is of a wanted run."""

    state: str
    """new, stopped, failed, running, done; or conflict: there is a run, but another one."""
    detail: str = ""
    episodes: int = 0


def find(path: Path, wanted: RunSettings) -> Found:
    """Look at a cell's directory without touching anything."""
    if not (path / "config.yaml").exists():
        return Found("running" if is_locked(path) else "new")
    try:
        existing = read_settings(path)
    except RunError as error:
        return Found("conflict", str(error))
    if unlike := differences(existing, wanted):
        return Found("conflict", "; ".join(unlike))
    episodes = recorded_episodes(path)
    if is_locked(path):
        return Found("running", "", episodes)
    if (path / "FAILED").exists():
        return Found("failed", _first_line(path / "FAILED"), episodes)
    if (path / "DONE").exists() and _enough(existing.budget, wanted.budget, episodes):
        return Found("done", _first_line(path / "DONE"), episodes)
    if 0 < wanted.budget.episodes < episodes and _enough(existing.budget, wanted.budget, episodes):
        return Found("done", "stopped under a larger budget, beyond what is wanted", episodes)
    return Found("stopped", "", episodes)


def differences(existing: RunSettings, wanted: RunSettings) -> list[str]:
    """Say in which settings two runs differ, budgets and what does not matter left out."""
    if existing.search != wanted.search:  # Each has settings of its own, which are not to be compared.
        return [f"search is {existing.search!r} there, {wanted.search!r} is wanted"]
    ours, theirs = (_comparable(settings) for settings in (wanted, existing))
    return [
        f"{name} is {theirs.get(name)!r} there, {ours.get(name)!r} is wanted"
        for name in dict.fromkeys((*ours, *theirs))
        if ours.get(name) != theirs.get(name)
    ]


def is_locked(path: Path) -> bool:
    """Whether a process owns the run; it is never made to wait."""
    try:
        with (path / "lock").open("rb") as file:
            # A shared lock would be refused while the owner has its exclusive one; ours ends with the block.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def recorded_episodes(path: Path) -> int:
    """Whole lines in the journal."""
    try:
        with (path / "journal.jsonl").open("rb") as file:
            return sum(1 for line in file if line.endswith(b"\n"))
    except OSError:
        return 0


def run_cell(path: Path, settings: RunSettings, task: "Task | None" = None) -> None:
    """Train a cell to its end in this process: a new run, or the rest of one that exists.

    Args:
        path: its directory.
        settings: what it is to be.
        task: its task, when it is made already; else it is made from the settings.

    Raises:
        BusyError: another process has it.
        AbpsError: it cannot be made or carried out; FAILED in its directory says why.
    """
    from abps.run.loop import train
    from abps.tasks.gym import make_task

    task = task or make_task(settings.task)  # Before anything is written: a wrong task must leave no run behind.
    path.mkdir(parents=True, exist_ok=True)
    try:
        prepare_directory(path, settings)
    except RunError as error:
        # A run with other settings is somebody's work: it is refused, and not marked in any way.
        raise _or_busy(path, error) from error
    try:
        train(path, settings, task=task)
    except Exception as error:
        if isinstance(busy := _or_busy(path, error), BusyError):
            raise busy from error
        _mark_failed(path, error)
        raise


def single_threaded(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables that keep BLAS and XLA to one thread: cells share the cores."""
    flags = (environment or os.environ).get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NPROC")
    return {**dict.fromkeys(names, "1"), "XLA_FLAGS": flags}


def child_environment() -> dict[str, str]:
    """The environment of a process that is to carry out cells: one thread, and modules found where this one does.

    Python puts the folder of a script first in `sys.path`, and `abps` the folder it is called in; a new process knows
    neither, and would not find the user's environment beside the script.
    """
    ours = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders = [os.path.abspath(place) for place in sys.path if os.path.isdir(place or ".")]
    mine = [place for place in dict.fromkeys(folders) if os.path.realpath(place) not in ours]
    return {**os.environ, **single_threaded(), "PYTHONPATH": os.pathsep.join(mine)}


def _or_busy(path: Path, error: Exception) -> Exception:
    """Tell a run that another process has from one that is broken."""
    if isinstance(error, RunError) and is_locked(path):
        return BusyError(f"the run in {path} is being trained by another process")
    return error


def prepare_directory(path: Path, settings: RunSettings, files: Mapping[str, bytes] | None = None) -> None:
    """Make the run's directory, or bring the one that is there to the wanted settings: budgets may change, no more.

    The same process may not claim it twice, so each step does.

    Args:
        path: the run's directory.
        settings: what it is to be.
        files: further files of a new run (see `create_directory`).

    Raises:
        RunError: there is a run with other settings; it is not touched.
    """
    if not (path / "config.yaml").exists():
        create_directory(path, settings, files)
        return
    with claim(path):
        existing = read_settings(path)
        if unlike := differences(existing, settings):
            raise RunError(f"the run in {path} has other settings: {listing(unlike, 3, '; ')}")
        if existing != settings:
            # First, or a crash would leave a run that looks done under its new budget.
            (path / "DONE").unlink(missing_ok=True)
            write_settings(path, settings)


def _mark_failed(path: Path, error: Exception) -> None:
    if (path / "config.yaml").exists() and not (path / "FAILED").exists():
        replace_atomically(path / "FAILED", f"{type(error).__name__}: {error}\n".encode())


def _enough(existing: BudgetConfig, wanted: BudgetConfig, episodes: int) -> bool:
    """Whether a run that ended under one budget is finished under another."""
    if existing == wanted:
        return True
    same_otherwise = replace(existing, episodes=0) == replace(wanted, episodes=0)
    return same_otherwise and 0 < wanted.episodes <= episodes


def _comparable(settings: RunSettings) -> dict[str, Any]:
    run = {name: value for name, value in to_dict(settings.run).items() if name not in FREE}
    tree = {"task": to_dict(settings.task), settings.search: to_dict(settings.search_config), "run": run}
    return {"seed": settings.seed, "search": settings.search, "initial": settings.initial, **_flat(tree)}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value})
    return flat


def _first_line(path: Path) -> str:
    try:
        return (reason_text(path).splitlines() or [""])[0]
    except OSError:
        return ""
