"""A tuning study from begin to end: in this process, or in workers that share the folder.

Any number of calls may work on one folder at the same time, also from several machines with a shared file system: which
trial is free is decided by locks, and what was found is in the folder alone.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from abps.errors import ConfigError, RunError
from abps.study.cells import child_environment
from abps.study.executors.local import GRACE
from abps.study.worker import DONE, FAILED
from abps.tasks.gym import Task
from abps.tuning.definition import Tuning, write_tuning
from abps.tuning.results import TuningResult
from abps.tuning.storage import load_optuna, open_study
from abps.tuning.work import work

__all__ = ["run_study"]

PAUSE = 0.25
MOST_DEATHS = 3
"""Worker processes that may die one after the other while no trial ends; then something else is wrong."""


def run_study(
    folder: Path,
    tuning: Tuning,
    trials: int,
    task: Task,
    *,
    jobs: int | None = None,
    keep: bool = False,
    on_change: Callable[[Any], None] = lambda study: None,
    temporary: Any = None,
) -> TuningResult:
    """Carry out a study until it has so many trials; one that exists goes on.

    Args:
        folder: of the study.
        tuning: what is tuned; a study in the folder must be of the same.
        trials: how many there shall be in all.
        task: what is controlled.
        jobs: trials at the same time, each in a process of its own; None: as many as there are cores; 1: one after the
            other in this process, which alone makes the same trials every time.
        keep: whether the runs of finished trials stay on disk.
        on_change: called with the Optuna study whenever something may have changed.
        temporary: what keeps a folder that is only in memory.

    Raises:
        ConfigError: Optuna is not installed, or a number is out of range.
        RunError: another study is in the folder, no trial works, or worker processes die.
        KeyboardInterrupt: Ctrl-C; every finished episode is saved, and the same call goes on.
    """
    load_optuna()
    for name, value in (("trials", trials), ("jobs", 1 if jobs is None else jobs)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}")
    write_tuning(folder, tuning)
    study = open_study(folder, tuning)
    on_change(study)
    at_once = min(trials, _processes(tuning) if jobs is None else jobs) if task.portable else 1
    if at_once == 1:
        work(folder, tuning, trials, task, keep=keep, on_change=on_change)
    else:
        _in_workers(folder, study, trials, at_once, keep, on_change)
    return TuningResult(folder, tuning, study, temporary)


def _processes(tuning: Tuning) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // tuning.base.run.workers)


def _in_workers(folder: Path, study: Any, trials: int, jobs: int, keep: bool, on_change: Callable[[Any], None]) -> None:
    """Keep so many workers at work until they find nothing more to do."""
    workers = [_Worker(folder, number, trials, keep) for number in range(jobs)]
    deaths, ended = 0, _ended(study)
    try:
        while workers:
            time.sleep(PAUSE)
            on_change(study)
            if (now := _ended(study)) > ended:
                deaths, ended = 0, now
            for worker in list(workers):
                code = worker.process.poll()
                if code is None:
                    continue
                worker.close()
                workers.remove(worker)
                if code == FAILED:
                    raise RunError(worker.last_line())
                if code != DONE:
                    deaths += 1
                    if deaths > MOST_DEATHS:
                        raise RunError(f"worker processes die, the last one with code {code}; see {worker.log}")
                    workers.append(_Worker(folder, worker.number, trials, keep))
    finally:
        for worker in workers:
            worker.process.terminate()
        deadline = time.monotonic() + GRACE
        for worker in workers:
            worker.stop(deadline)


def _ended(study: Any) -> int:
    return sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))


class _Worker:
    """A process that carries out trials; it ends by itself when this one is gone."""

    def __init__(self, folder: Path, number: int, trials: int, keep: bool) -> None:
        self.number, self.log = number, folder / f"worker-{number}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "abps.tuning.worker", str(folder)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=child_environment(),
                start_new_session=True,
            )
        assert self.process.stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(BrokenPipeError):  # It died at once; `poll` finds out.
            self.process.stdin.write(json.dumps({"trials": trials, "keep": keep}).encode() + b"\n")
            self.process.stdin.flush()

    def stop(self, deadline: float) -> None:
        """Wait for its end, and force it when it takes too long."""
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Close the pipe to it."""
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def last_line(self) -> str:
        """The last thing that it said."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else "a worker failed without a word"
