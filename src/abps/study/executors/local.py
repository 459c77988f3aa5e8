"""Cells in processes of this machine, one BLAS and XLA thread each.

A cell's process is started afresh (never forked: jax does not survive a fork), in its own session so that Ctrl-C
reaches the study alone, and ends by itself when the study's process is gone, however that died: the pipe to it breaks.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

from abps.run.directory import settings_document
from abps.study.cells import child_environment
from abps.study.executors.base import Outcome
from abps.study.grid import Cell
from abps.study.worker import BUSY, DONE, FAILED, INTERRUPTED

__all__ = ["LOG", "LocalExecutor"]

LOG = "worker.log"
"""What a cell's process printed, in its run directory."""

GRACE = 20.0
"""Seconds that a process gets to stop cleanly before it is killed."""

RESULTS = {DONE: "done", BUSY: "busy", FAILED: "failed", INTERRUPTED: "interrupted"}


class _Child(NamedTuple):
    cell: Cell
    process: "subprocess.Popen[bytes]"


class LocalExecutor:
    """As many processes as there are cores, or as one says."""

    def __init__(self, jobs: int | None = None, workers: int = 1) -> None:
        self._jobs = jobs or max(1, _cores() // workers)
        self._children: list[_Child] = []

    def describe(self) -> str:
        return f"{self._jobs} local process{'' if self._jobs == 1 else 'es'}"

    def room(self) -> int:
        return self._jobs - len(self._children)

    @property
    def processes(self) -> dict[str, int]:
        """The process id of every running cell, by the cell's name."""
        return {child.cell.name: child.process.pid for child in self._children}

    def start(self, cell: Cell) -> None:
        cell.path.mkdir(parents=True, exist_ok=True)
        with (cell.path / LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "abps.study.worker", str(cell.path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=child_environment(),
                start_new_session=True,
            )
        self._children.append(_Child(cell, process))
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(BrokenPipeError):  # It died at once; `poll` finds out how.
            process.stdin.write(json.dumps(settings_document(cell.settings)).encode() + b"\n")
            process.stdin.flush()

    def poll(self) -> list[Outcome]:
        ended = [child for child in self._children if child.process.poll() is not None]
        self._children = [child for child in self._children if child not in ended]
        return [_outcome(child) for child in ended]

    def stop(self) -> None:
        for child in self._children:
            child.process.terminate()
        deadline = time.monotonic() + GRACE
        for child in self._children:
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        for child in self._children:
            _close(child)
        self._children = []


def _cores() -> int:
    """Cores this process may use, which on a shared machine are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _outcome(child: _Child) -> Outcome:
    _close(child)
    code = child.process.returncode
    result = RESULTS.get(code, "died")
    message = "" if result == "done" else _last_line(child.cell)
    if result == "died":
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        message = f"its process {how}" + (f" ({message})" if message and code > 0 else "")
    return Outcome(child.cell, result, message)


def _close(child: _Child) -> None:
    if child.process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.process.stdin.close()


def _last_line(cell: Cell) -> str:
    try:
        with (cell.path / LOG).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:500] if lines else ""
