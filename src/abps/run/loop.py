"""Training: episodes from an environment into a run, until there is a reason to stop."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from abps.errors import RunError
from abps.policies import Policy
from abps.rollouts.pool import Job, Pool, make_pool
from abps.run.config import RunConfig
from abps.run.directory import RunSettings
from abps.run.evaluation import Evaluation, evaluate
from abps.run.failures import FAILURES_FILE, note_failure
from abps.run.run import Run, Slot, clean_reason, failures_noted, open_run
from abps.run.spool import Finished
from abps.search.base import Metrics
from abps.seeding import episode_seed
from abps.tasks.gym import Task, make_task
from abps.trajectory import Failed, Outcome
from abps.words import count

__all__ = ["Episodes", "Observer", "TrainingResult", "train"]


class Observer(Protocol):
    """Someone who watches a run: a progress bar, a logger. It changes nothing but `run.stop_requests`."""

    def begin(self, run: Run) -> None: ...

    def episode(self, run: Run, outcome: Outcome) -> None: ...

    def iteration(self, run: Run, metrics: Metrics) -> None: ...

    def end(self, run: Run, reasons: dict[str, str]) -> None: ...


class Ended(NamedTuple):
    """How an episode ended in the end, how long it took, and why earlier attempts at it failed."""

    outcome: Outcome
    seconds: float
    attempts: tuple[str, ...]


class TrainingResult(NamedTuple):
    """How a session of training ended."""

    path: Path
    reasons: dict[str, str]
    episodes: int
    steps: int
    seconds: float
    last: Metrics | None
    failures: int = 0
    """Episodes that failed, of all."""


def train(
    path: Path, settings: RunSettings, observers: tuple[Observer, ...] = (), task: Task | None = None
) -> TrainingResult:
    """Train the run in `path` from where it stands to its end.

    Args:
        path: an existing run directory (see `directory.create_directory`).
        settings: the run's settings.
        observers: told of every episode and iteration.
        task: an already made task (for an environment object); None makes it from the settings.

    Raises:
        RunError: the run is in use, damaged, or stopped because too many episodes in a row failed.
        KeyboardInterrupt: Ctrl-C; every finished episode is saved.
    """
    if settings.hardware is not None:
        raise RunError(f"{path} is a run on real hardware; go on with `abps ask {path}` and `abps tell {path}`")
    task = task or make_task(settings.task)
    with _pools(task, settings.run) as (training, evaluation):

        def evaluator(policies: list[Policy], iteration: int) -> list[Evaluation]:
            return evaluate(evaluation, policies, settings.run.evaluation_episodes, settings.seed, iteration)

        with open_run(path, task.spec, evaluator, settings) as run, failures_noted(path):
            return _run_to_its_end(run, training, observers)


def _run_to_its_end(run: Run, pool: Pool, observers: tuple[Observer, ...]) -> TrainingResult:
    def tell_observers(metrics: Metrics) -> None:
        for observer in observers:
            observer.iteration(run, metrics)

    run.on_iteration = tell_observers
    for observer in observers:
        observer.begin(run)
    reasons = _until_stopped(run, pool, observers)
    run.finish(reasons)
    for observer in observers:
        observer.end(run, reasons)
    last = run.metrics.records[-1] if run.metrics.records else None
    told = run.search.progress
    return TrainingResult(run.path, reasons, run.search.episodes, told.steps, run.seconds, last, told.failures)


def _until_stopped(run: Run, pool: Pool, observers: tuple[Observer, ...]) -> dict[str, str]:
    while not (reasons := run.stop()):
        for slot, finished in Episodes(pool, run).of(run.slots()):
            details = {
                "seed": episode_seed(run.settings.seed, slot.episode, len(finished.attempts)),
                "failed_attempts": finished.attempts,
            }
            run.record(slot, finished.outcome, finished.seconds, details)
            run.spool.drop(slot.episode)
            for observer in observers:
                observer.episode(run, finished.outcome)
            _refuse_too_many_failures(run, finished.outcome)
            if run.stop():
                break
    return reasons


def _refuse_too_many_failures(run: Run, outcome: Outcome) -> None:
    if isinstance(outcome, Failed) and run.failures_in_a_row >= run.settings.run.max_failures:
        error = RunError(
            f"{count(run.failures_in_a_row, 'episode')} in a row failed, the last with: "
            f"{clean_reason(outcome.reason)}. The traceback is in {run.path / FAILURES_FILE} (`abps failures "
            f"{run.path}`); when the cause is mended, go on with `abps resume {run.path}`"
        )
        if outcome.traceback:
            error.add_note(outcome.traceback)  # For a Python program; the command line prints the sentence.
        raise error


class Episodes:
    """Runs slots in a pool, tries failed episodes again with another seed, and gives results back in slot order."""

    def __init__(self, pool: Pool, run: Run) -> None:
        self._pool, self._run, self._retries = pool, run, run.settings.run.retries
        self._attempts: dict[int, tuple[str, ...]] = {}
        self._ready: dict[int, Ended] = {}
        self._following = 0

    def of(self, slots: list[Slot]) -> Iterator[tuple[Slot, "Ended"]]:
        """Yield every slot with how it ended, in order; what is finished early waits in the spool."""
        waiting = [index for index, slot in enumerate(slots) if not self._is_spooled(index, slot)]
        yield from self._in_order(slots)
        while waiting:
            started = time.perf_counter()
            again: list[int] = []
            jobs = [self._job(slots[index], index) for index in waiting]
            for position, outcome in self._pool.run(jobs):
                index, now = waiting[position], time.perf_counter()
                if not self._settle(index, slots[index], outcome, now - started):
                    again.append(index)
                yield from self._in_order(slots)
                started = time.perf_counter()
            waiting = sorted(again)

    def _in_order(self, slots: list[Slot]) -> Iterator[tuple[Slot, "Ended"]]:
        while self._following in self._ready:
            yield slots[self._following], self._ready.pop(self._following)
            self._following += 1

    def _is_spooled(self, index: int, slot: Slot) -> bool:
        """Take over what an interrupted session left of this episode; True when it is finished."""
        known = self._run.spool.load(slot.episode, slot.query.id)
        if known is None:
            return False
        self._attempts[index] = known.attempts
        if known.outcome is None:
            return False
        self._ready[index] = Ended(known.outcome, known.seconds, known.attempts)
        return True

    def _settle(self, index: int, slot: Slot, outcome: Outcome, seconds: float) -> bool:
        """Take in the outcome of one attempt; return whether the episode is finished."""
        attempts = self._attempts.get(index, ())
        if isinstance(outcome, Failed):
            note_failure(self._run.path, slot.episode, len(attempts), outcome)
        if isinstance(outcome, Failed) and len(attempts) < self._retries:
            self._attempts[index] = (*attempts, clean_reason(outcome.reason))
            self._run.spool.save(slot.episode, slot.query.id, Finished(None, seconds, self._attempts[index]))
            return False
        self._ready[index] = Ended(outcome, seconds, attempts)
        if index != self._following:
            self._run.spool.save(slot.episode, slot.query.id, Finished(outcome, seconds, attempts))
        return True

    def _job(self, slot: Slot, index: int) -> Job:
        attempt = len(self._attempts.get(index, ()))
        return Job(slot.query.policy, episode_seed(self._run.settings.seed, slot.episode, attempt))


@contextmanager
def _pools(task: Task, config: RunConfig) -> Iterator[tuple[Pool, Pool]]:
    """One pool for training and one for evaluation: evaluation never touches training's environment."""
    training = make_pool(task, config.workers, config.timeout)
    evaluation = training if task.shared else make_pool(task, config.workers, config.timeout)
    try:
        yield training, evaluation
    finally:
        training.close()
        evaluation.close()
