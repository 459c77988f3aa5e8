"""Cells on a Ray cluster: all nodes have abps installed and see the run directories under the same path.

A cell is one Ray task in a process of its own (`max_calls=1`). Ray's own retries are off: a lost worker comes back as
`died`, and the schedule starts the cell again, on whatever worker is free. It then goes on from its journal, bit for
bit.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from abps.errors import AbpsError, ConfigError, RunError
from abps.run.directory import settings_document, settings_from_document
from abps.study.cells import BusyError, run_cell, single_threaded
from abps.study.executors.base import Outcome
from abps.study.grid import Cell

__all__ = ["RayExecutor"]

GRACE = 20.0
MANY = 100_000
"""Cells handed to Ray at once when no number is given: it queues them itself, and an autoscaler sees what is needed."""


class RayExecutor:
    """A Ray cluster that exists, or one on this machine for the time of the study."""

    def __init__(self, address: str | None = None, jobs: int | None = None, workers: int = 1) -> None:
        self._ray = _import_ray()
        self._jobs = jobs or MANY
        self._tasks: dict[Any, Cell] = {}
        self._own = not self._ray.is_initialized()
        if self._own:
            self._connect(address)
        threads = {"env_vars": single_threaded(_without_xla())}
        remote = self._ray.remote(num_cpus=workers, max_retries=0, max_calls=1, runtime_env=threads)
        self._run = remote(_run_on_worker)

    def describe(self) -> str:
        cores = self._ray.cluster_resources().get("CPU", 0.0)
        nodes = sum(1 for node in self._ray.nodes() if node.get("Alive"))
        return f"Ray, {nodes} node{'' if nodes == 1 else 's'} with {cores:g} cores"

    def room(self) -> int:
        return self._jobs - len(self._tasks)

    def start(self, cell: Cell) -> None:
        words = (str(cell.path.resolve()), settings_document(cell.settings), os.getcwd())
        self._tasks[self._run.options(name=cell.name).remote(*words)] = cell

    def poll(self) -> list[Outcome]:
        if not self._tasks:
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._outcome(task, self._tasks.pop(task)) for task in ready]

    def stop(self) -> None:
        for task in self._tasks:
            self._ray.cancel(task, force=False)
        deadline = time.monotonic() + GRACE
        while self._tasks and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.1)
        for task in self._tasks:
            self._ray.cancel(task, force=True)
        self._tasks = {}
        if self._own:
            self._ray.shutdown()

    def _connect(self, address: str | None) -> None:
        options: dict[str, Any] = {"include_dashboard": False} if address is None else {}
        # Ray ignores an address of None and looks at RAY_ADDRESS by itself; a dashboard cannot be asked of a cluster.
        if address is None and os.environ.get("RAY_ADDRESS"):
            options = {}
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level="error", **options)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            where = f"at {address!r}" if address else "on this machine"
            raise ConfigError(
                f"cannot reach or start Ray {where}: {error}. Is it running (`ray status --address "
                "…`), and of the same "
                "Ray and Python version?"
            ) from error

    def _outcome(self, task: Any, cell: Cell) -> Outcome:
        exceptions = self._ray.exceptions
        try:
            result, message = self._ray.get(task)
        except exceptions.TaskCancelledError:
            return Outcome(cell, "interrupted", "stopped")
        except exceptions.RayTaskError as error:
            return Outcome(cell, "died", str(error).strip().splitlines()[-1][:500])
        except exceptions.RayError as error:
            return Outcome(cell, "died", f"its worker was lost ({type(error).__name__})")
        return Outcome(cell, result, message)


def _run_on_worker(path: str, document: dict[str, Any], folder: str) -> tuple[str, str]:
    """Carry out a cell in a Ray worker's process; what was foreseen is returned, the rest is raised."""
    sys.path.insert(0, folder)  # Where a task `module:factory` was found on the machine that started the study.
    try:
        run_cell(Path(path), settings_from_document(document))
    except BusyError as error:
        return "busy", str(error)
    except AbpsError as error:
        return "failed", str(error)
    except KeyboardInterrupt:
        return "interrupted", "stopped"
    except OSError as error:
        raise RunError(f"{path}: {error}; do all nodes see this path on a shared file system?") from error
    return "done", ""


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ConfigError("the Ray executor needs Ray: pip install 'abps[ray]'") from error
    return ray


def _without_xla() -> dict[str, str]:
    """The workers' machines have their own XLA flags; ours do not travel."""
    return {"XLA_FLAGS": ""}
