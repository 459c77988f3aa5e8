"""Training: episodes from an environment into a run, until there is a reason to stop."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from threadpoolctl import threadpool_limits

from abps.config import RunConfig
from abps.errors import RunError
from abps.policies import Policy
from abps.rollouts.pool import Job, Pool, make_pool
from abps.run.directory import RunSettings
from abps.run.evaluation import Evaluation, evaluate
from abps.run.run import Run, Slot, open_run
from abps.search.base import Metrics
from abps.seeding import integer_seed
from abps.tasks.gym import Task, make_task
from abps.trajectory import Failed, Outcome

__all__ = ["Observer", "Outcomes", "TrainingResult", "train"]


class Observer(Protocol):
    """Someone who watches a run: a progress bar, a logger. It must not change anything."""

    def begin(self, run: Run) -> None: ...

    def episode(self, run: Run, outcome: Outcome) -> None: ...

    def iteration(self, run: Run, metrics: Metrics) -> None: ...

    def end(self, run: Run, reasons: dict[str, str]) -> None: ...


class TrainingResult(NamedTuple):
    """How a session of training ended."""

    path: Path
    reasons: dict[str, str]
    episodes: int
    steps: int
    seconds: float
    last: Metrics | None


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
    task = task or make_task(settings.task)
    with threadpool_limits(1), _pools(task, settings.run) as (training, evaluation):

        def evaluator(policies: list[Policy], iteration: int) -> list[Evaluation]:
            return evaluate(evaluation, policies, settings.run.evaluation_episodes, settings.seed, iteration)

        with open_run(path, task.spec, evaluator, settings) as run:
            run.on_iteration = lambda metrics: [observer.iteration(run, metrics) for observer in observers]
            for observer in observers:
                observer.begin(run)
            try:
                reasons = _until_stopped(run, training, observers)
            except RunError as error:
                run.fail(str(error))
                raise
            run.finish(reasons)
            for observer in observers:
                observer.end(run, reasons)
            last = run.metrics.records[-1] if run.metrics.records else None
            return TrainingResult(path, reasons, run.search.episodes, run.search.steps, run.seconds, last)


def _until_stopped(run: Run, pool: Pool, observers: tuple[Observer, ...]) -> dict[str, str]:
    failed_in_a_row = 0
    while not (reasons := run.stop()):
        for slot, outcome, seconds, details in Outcomes(pool, run).of(run.slots()):
            run.record(slot, outcome, seconds, details)
            for observer in observers:
                observer.episode(run, outcome)
            failed_in_a_row = failed_in_a_row + 1 if isinstance(outcome, Failed) else 0
            if failed_in_a_row >= run.settings.run.max_failures:
                reason = outcome.reason if isinstance(outcome, Failed) else ""
                raise RunError(
                    f"{failed_in_a_row} episodes in a row failed, the last with: {reason}. Everything is saved; "
                    f"when the cause is mended, go on with `abps resume {run.path}`"
                )
            if run.stop():
                break
    return reasons


class Outcomes:
    """Runs slots in a pool, tries failed episodes again with another seed, and gives results back in slot order."""

    def __init__(self, pool: Pool, run: Run) -> None:
        self._pool, self._seed, self._config = pool, run.settings.seed, run.settings.run

    def of(self, slots: list[Slot]) -> Iterator[tuple[Slot, Outcome, float, dict[str, Any]]]:
        """Yield every slot with its outcome, its time, and the journal's details (seed, failed attempts)."""
        ready: dict[int, tuple[Outcome, float]] = {}
        failures: dict[int, list[str]] = {}
        following = 0
        waiting = list(range(len(slots)))
        while waiting:
            started = time.perf_counter()
            again: list[int] = []
            jobs = [self._job(slots[index], len(failures.get(index, ()))) for index in waiting]
            for position, outcome in self._pool.run(jobs):
                index = waiting[position]
                seconds, started = time.perf_counter() - started, time.perf_counter()
                if isinstance(outcome, Failed) and len(failures.get(index, ())) < self._config.retries:
                    failures.setdefault(index, []).append(outcome.reason)
                    again.append(index)
                    continue
                ready[index] = (outcome, seconds)
                while following in ready:
                    done, spent = ready.pop(following)
                    yield slots[following], done, spent, self._details(slots[following], failures.get(following, []))
                    following += 1
            waiting = sorted(again)

    def _job(self, slot: Slot, attempt: int) -> Job:
        return Job(slot.query.policy, self._episode_seed(slot, attempt))

    def _episode_seed(self, slot: Slot, attempt: int) -> int:
        return integer_seed(self._seed, "episode", slot.episode, attempt)

    def _details(self, slot: Slot, failures: list[str]) -> dict[str, Any]:
        return {"seed": self._episode_seed(slot, len(failures)), "failed_attempts": failures}


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
