"""Many episodes at once: in this process, or in spawned workers that may hang or die without harm.

The result of an episode depends on its job alone (policy and seed), never on which worker ran it or when, so any number
of workers gives identical results. Workers are spawned, never forked.
"""

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from abps.config import TaskConfig
from abps.errors import TaskError
from abps.policies import Policy
from abps.rollouts.episode import attempt_episode
from abps.trajectory import Failed, Outcome

__all__ = ["Job", "Pool", "make_pool"]

START_TIMEOUT = 120.0
"""Seconds a new worker may take to import everything and make its environment."""


class Job(NamedTuple):
    """One episode to run."""

    policy: Policy
    seed: int


class Pool(Protocol):
    """Runs jobs and yields `(index, outcome)` as they finish, in any order."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]: ...

    def close(self) -> None: ...


def make_pool(task: Any, workers: int = 1, timeout: float = 0.0) -> Pool:
    """Return a pool for a `Task`: in this process when one worker without a time limit is enough.

    Raises:
        TaskError: the task is one environment object, which other processes cannot use.
    """
    if workers == 1 and timeout == 0.0:
        return _InProcess(task.make_env)
    if task.shared:
        raise TaskError(
            "an environment object runs in this process only: use workers=1 and timeout=0, or module:factory"
        )
    return _Workers(task.config, workers, timeout)


class _InProcess:
    """Runs episodes one after the other, here."""

    def __init__(self, make_env: Callable[[], Any]) -> None:
        self._make_env = make_env
        self._env: Any = None

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for index, job in enumerate(jobs):
            if self._env is None:
                self._env = self._make_env()
            outcome = attempt_episode(self._env, job.policy, job.seed)
            if isinstance(outcome, Failed):
                self.close()  # A broken environment is not trusted with another episode.
            yield index, outcome

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
        self._env = None


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: int | None = None
    deadline: float = float("inf")


class _Workers:
    """Runs episodes in spawned processes; one that dies or exceeds the time limit is replaced."""

    def __init__(self, config: TaskConfig, count: int, timeout: float) -> None:
        self._config, self._count, self._timeout = config, count, timeout
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        waiting = deque(range(len(jobs)))
        try:
            while waiting or self._busy:
                while waiting and len(self._busy) < self._count:
                    self._assign(self._idle.pop() if self._idle else self._spawn(), waiting.popleft(), jobs)
                yield from self._collect()
        finally:
            for worker in self._busy:  # Only when the caller stopped early: what is half done is dropped.
                self._discard(worker)
            self._busy.clear()

    def close(self) -> None:
        for worker in [*self._idle, *self._busy]:
            self._discard(worker)
        self._idle.clear()
        self._busy.clear()

    def _spawn(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there, self._config), daemon=True)
        process.start()
        there.close()
        worker = _Worker(process, here)
        try:
            if here.poll(START_TIMEOUT) and here.recv() == "ready":
                return worker
        except (EOFError, OSError):
            pass
        self._discard(worker)
        raise TaskError(f"a rollout worker could not make the task {self._config.id!r}; try workers=1 to see why")

    def _assign(self, worker: _Worker, index: int, jobs: Sequence[Job]) -> None:
        job = jobs[index]
        worker.job = index
        worker.deadline = time.monotonic() + self._timeout if self._timeout else float("inf")
        worker.connection.send((job.policy.spec, job.policy.parameters, job.policy.normaliser, job.seed))
        self._busy.append(worker)

    def _collect(self) -> Iterator[tuple[int, Outcome]]:
        """Yield what finished; wait until something does or a deadline passes."""
        remaining = min(worker.deadline for worker in self._busy) - time.monotonic()
        ready = wait(
            [worker.connection for worker in self._busy], None if remaining == float("inf") else max(remaining, 0.0)
        )
        for worker in list(self._busy):
            if worker.connection in ready:
                yield self._finish(worker)
            elif time.monotonic() >= worker.deadline:
                self._busy.remove(worker)
                self._discard(worker)
                yield _index(worker), Failed(f"hung: no result within {self._timeout:g} seconds")

    def _finish(self, worker: _Worker) -> tuple[int, Outcome]:
        self._busy.remove(worker)
        try:
            outcome = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(5.0)
            code = worker.process.exitcode
            self._discard(worker)
            return _index(worker), Failed(f"the worker process died (exit code {code})")
        self._idle.append(worker)
        return _index(worker), outcome

    def _discard(self, worker: _Worker) -> None:
        worker.connection.close()
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join(5.0)


def _index(worker: _Worker) -> int:
    if worker.job is None:
        raise RuntimeError("a worker without a job answered")
    return worker.job


def _serve(connection: Connection, config: TaskConfig) -> None:
    """A worker's life: make the environment, run what comes, end when the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle.
    from abps.tasks.gym import make_task

    task = make_task(config)
    env = task.make_env()
    connection.send("ready")
    while True:
        try:
            spec, parameters, normaliser, seed = connection.recv()
        except (EOFError, OSError):
            return
        outcome = attempt_episode(env, Policy(spec, parameters, normaliser), seed)
        if isinstance(outcome, Failed):
            env = task.make_env()
        connection.send(outcome)
