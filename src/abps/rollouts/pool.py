"""Many episodes at once: in this process, or in spawned workers that may hang or die without harm.

The result of an episode depends on its job alone (policy and seed), never on which worker ran it or when, so any number
of workers gives identical results. Workers are spawned, never forked.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from abps.errors import TaskError
from abps.policies import Policy
from abps.rollouts.episode import attempt_episode
from abps.tasks.config import TaskConfig
from abps.trajectory import Failed, Outcome

__all__ = ["Job", "Pool", "make_pool"]

GUARD = 'put what it does under `if __name__ == "__main__":`, since worker processes read it anew'
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
        return _InProcess(task.make_env, owns=not task.shared)
    if not task.portable:
        raise TaskError(
            f"the environment {task.config.name!r} can be made in this process only: use workers=1 and timeout=0, or "
            "name it by module:factory"
        )
    return _Workers(task.config, workers, timeout)


class _Env:
    """An environment that is made when it is needed, and made anew after a failure: a broken one is not used again."""

    def __init__(self, make_env: Callable[[], Any], owns: bool = True) -> None:
        self._make_env, self._owns = make_env, owns
        self._env: Any = None

    def attempt(self, policy: Policy, seed: int) -> Outcome:
        """Run one episode; whatever goes wrong, also in making the environment, becomes `Failed`."""
        try:
            if self._env is None:
                self._env = self._make_env()
        except Exception as error:
            return Failed(f"the environment cannot be made: {error}")
        outcome = attempt_episode(self._env, policy, seed)
        if isinstance(outcome, Failed):
            self.close()
        return outcome

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None and self._owns:
            with contextlib.suppress(Exception):  # A broken environment may fail in closing, too.
                env.close()


class _InProcess:
    """Runs episodes one after the other, here."""

    def __init__(self, make_env: Callable[[], Any], owns: bool) -> None:
        self._env = _Env(make_env, owns)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for index, job in enumerate(jobs):
            yield index, self._env.attempt(job.policy, job.seed)

    def close(self) -> None:
        self._env.close()


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: int = -1
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
                    index = waiting.popleft()
                    self._assign(index, jobs[index])
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
        with _without_interrupts():
            try:
                process.start()
            except RuntimeError as error:  # Python's words, when a worker runs an unguarded script once more.
                raise TaskError(f"a worker process ran the script that started it; {GUARD}") from error
        there.close()
        worker = _Worker(process, here)
        try:
            if here.poll(START_TIMEOUT) and here.recv() == "ready":
                return worker
        except (EOFError, OSError):
            pass
        self._discard(worker)
        raise TaskError(
            f"a worker process could not make the task {self._config.id!r}: its own message is above, and workers=1 "
            f"does without such processes. From a script, {GUARD}"
        )

    def _assign(self, index: int, job: Job) -> None:
        """Give a job to an idle worker, or to a new one when there is none or it died while it was idle."""
        message = (job.policy.space, job.policy.parameters, job.policy.normaliser, job.policy.path, job.seed)
        while self._idle:
            worker = self._idle.pop()
            try:
                worker.connection.send(message)
            except OSError:
                self._discard(worker)
                continue
            return self._expect(worker, index)
        worker = self._spawn()
        with contextlib.suppress(OSError):  # If it dies right now, `_finish` finds out.
            worker.connection.send(message)
        return self._expect(worker, index)

    def _expect(self, worker: _Worker, index: int) -> None:
        worker.job = index
        worker.deadline = time.monotonic() + self._timeout if self._timeout else float("inf")
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
                yield worker.job, Failed(f"hung: no result within {self._timeout:g} seconds")

    def _finish(self, worker: _Worker) -> tuple[int, Outcome]:
        self._busy.remove(worker)
        try:
            outcome = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(5.0)
            code = worker.process.exitcode
            self._discard(worker)
            return worker.job, Failed(f"the worker process died (exit code {code})")
        self._idle.append(worker)
        return worker.job, outcome

    def _discard(self, worker: _Worker) -> None:
        worker.connection.close()
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join(5.0)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back while a worker starts: it would inherit the signal before it can ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, config: TaskConfig) -> None:
    """A worker's life: make the environment, run what comes, end when the pipe closes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_die_with_parent, daemon=True).start()
    from abps.tasks.gym import make_task

    env = _Env(make_task(config).make_env)
    with contextlib.suppress(EOFError, OSError):  # The parent has gone.
        connection.send("ready")
        while True:
            space, parameters, normaliser, path, seed = connection.recv()
            connection.send(env.attempt(Policy(space, parameters, normaliser, path), seed))


def _die_with_parent() -> None:
    """End this process when the parent was killed, even in the middle of an episode that never ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
