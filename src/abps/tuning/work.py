"""One process at work: take a free trial, carry it out, tell what came of it, and again until all are done.

A trial trains one run per seed to a quarter, half and all of the episodes, and is stopped when its mean return at one
of these is below the median of earlier trials there. Its runs are ordinary run directories, so a trial that was
interrupted goes on at the episode where it stopped. A trial that fails is data: it is kept with its
reason, and ranks below all that were judged.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abps.errors import AbpsError, ConfigError, RunError
from abps.policies.policy import PolicySpace, load_policy
from abps.rollouts.pool import Pool, make_pool
from abps.run.directory import claim
from abps.run.evaluation import evaluate
from abps.run.run import clean_reason
from abps.search.base import SearchConfig
from abps.settings import with_changes
from abps.study.cells import find, is_locked, run_cell
from abps.tasks.gym import Task
from abps.tuning.definition import Tuning
from abps.tuning.results import write_best
from abps.tuning.storage import (
    BASE,
    FAILED,
    INVALID,
    RETURNS,
    SECONDS,
    STARTS,
    exclusive,
    load_optuna,
    next_sampler,
    open_study,
    trial_folder,
)
from abps.words import count

__all__ = ["work"]

MOST_STARTS = 3
"""Times that a trial whose process died is started; then it counts as failed."""

HOPELESS = 3
"""Trials that may fail while none has worked; then something else than the settings is wrong."""

MOST_INVALID = 20
"""Settings that exclude each other, per trial, before the space is blamed."""


class _Claimed(NamedTuple):
    """A trial that is ours until the stack is closed."""

    trial: Any
    number: int
    lock: ExitStack


class _Pruned(Exception):
    """The trial is worse than most at this point."""


def work(
    folder: Path,
    tuning: Tuning,
    trials: int,
    task: Task,
    *,
    keep: bool = False,
    on_change: Callable[[Any], None] = lambda study: None,
) -> None:
    """Carry out trials until so many have been started, by whichever process.

    Args:
        folder: of the study.
        tuning: what `tune.yaml` says.
        trials: how many there shall be, those of earlier calls included.
        task: what is controlled.
        keep: whether the runs of finished trials stay on disk.
        on_change: called with the Optuna study whenever something was found out.

    Raises:
        RunError: no trial works, or the study's files cannot be used.
        KeyboardInterrupt: Ctrl-C; every finished episode is saved, and the next call goes on with the trial.
    """
    study = open_study(folder, tuning)
    pool = make_pool(task, tuning.base.run.workers, tuning.base.run.timeout)
    try:
        while (claimed := _next_trial(folder, tuning, study, trials)) is not None:
            with claimed.lock:
                on_change(study)
                _carry_out(folder, tuning, study, claimed, task, pool, keep, on_change)
            on_change(study)
    except OSError as error:
        raise RunError(f"cannot go on in {folder}: {error.strerror or error}") from error
    finally:
        pool.close()


def _next_trial(folder: Path, tuning: Tuning, study: Any, trials: int) -> _Claimed | None:
    """A trial that was interrupted, or a new one; None when there are enough."""
    optuna = load_optuna()
    with exclusive(folder):
        known = study.get_trials(deepcopy=False)
        _refuse_hopeless(known)
        running = [item for item in known if item.state == optuna.trial.TrialState.RUNNING]
        for item in running:
            path = trial_folder(folder, item.number)
            if not is_locked(path):
                study.sampler = next_sampler(tuning, item.number)
                # Optuna's `ask` gives new trials only; this is how one goes on with a trial that is there.
                return _claimed(path, optuna.trial.Trial(study, item._trial_id), item.number)
        waiting = any(item.state == optuna.trial.TrialState.WAITING for item in known)
        counted = [item for item in known if INVALID not in item.user_attrs]
        if len(counted) - waiting >= trials:
            return None
        if len(known) - len(counted) > MOST_INVALID * trials:
            raise ConfigError("nearly all settings in the space exclude each other; narrow it with a space of your own")
        study.sampler = next_sampler(tuning, 0 if waiting else len(known))
        trial = study.ask()
        return _claimed(trial_folder(folder, trial.number), trial, trial.number)


def _claimed(path: Path, trial: Any, number: int) -> _Claimed:
    path.mkdir(parents=True, exist_ok=True)
    lock = ExitStack()
    lock.enter_context(claim(path))
    return _Claimed(trial, number, lock)


def _refuse_hopeless(known: list[Any]) -> None:
    failed = [item.user_attrs[FAILED] for item in known if FAILED in item.user_attrs]
    worked = any(item.state.is_finished() and not {FAILED, INVALID} & set(item.user_attrs) for item in known)
    if len(failed) >= HOPELESS and not worked:
        raise RunError(f"{count(len(failed), 'trial')} failed and none worked, the last with: {failed[-1]}")


def _carry_out(
    folder: Path,
    tuning: Tuning,
    study: Any,
    claimed: _Claimed,
    task: Task,
    pool: Pool,
    keep: bool,
    on_change: Callable[[Any], None],
) -> None:
    trial, path = claimed.trial, trial_folder(folder, claimed.number)
    pruned = load_optuna().trial.TrialState.PRUNED
    before, began = trial.user_attrs.get(SECONDS, 0.0), time.perf_counter()
    starts = trial.user_attrs.get(STARTS, 0) + 1
    trial.set_user_attr(STARTS, starts)
    try:
        if starts > MOST_STARTS:
            raise RunError(f"its process died {count(MOST_STARTS, 'time')}")
        config = _settings(tuning, trial)
        returns = _returns(tuning, trial, config, path, task, pool, lambda: on_change(study))
    except KeyboardInterrupt:
        trial.set_user_attr(STARTS, starts - 1)  # It did not die.
        trial.set_user_attr(SECONDS, before + time.perf_counter() - began)
        raise
    except _Invalid as error:
        trial.set_user_attr(INVALID, clean_reason(str(error)))
        study.tell(trial, state=pruned)
        shutil.rmtree(path, ignore_errors=True)
        return
    except AbpsError as error:
        trial.set_user_attr(FAILED, clean_reason(str(error)))
        trial.set_user_attr(SECONDS, before + time.perf_counter() - began)
        study.tell(trial, state=pruned)  # Without a value it ranks below all others.
        keep = True
    except _Pruned:
        trial.set_user_attr(SECONDS, before + time.perf_counter() - began)
        study.tell(trial, state=pruned)
    else:
        trial.set_user_attr(RETURNS, returns)
        trial.set_user_attr(SECONDS, before + time.perf_counter() - began)
        study.tell(trial, float(np.mean(returns)))
    with exclusive(folder):
        write_best(folder, tuning, study)  # After every trial: it says of how many it is the best.
    if not keep:
        shutil.rmtree(path, ignore_errors=True)


class _Invalid(Exception):
    """The chosen settings exclude each other."""


def _settings(tuning: Tuning, trial: Any) -> SearchConfig:
    """The settings of a trial; the first one has them as they are."""
    base = tuning.base.search_config
    if trial.user_attrs.get(BASE):
        for name in tuning.space.defaults(base):
            tuning.space.entries[name].suggest(trial, name)  # For the sampler.
        return base
    try:
        return with_changes(base, tuning.space.suggest(trial, base))
    except ConfigError as error:
        raise _Invalid(str(error)) from error


def _returns(
    tuning: Tuning,
    trial: Any,
    config: SearchConfig,
    path: Path,
    task: Task,
    pool: Pool,
    on_change: Callable[[], None],
) -> list[float]:
    """Train and judge at every rung; the returns per seed at the last one."""
    reported = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
    for rung in tuning.rungs:
        last = rung == tuning.rungs[-1]
        if rung in reported and not last:
            continue
        found = [_run(tuning, config, path, seed, rung, task, pool) for seed in tuning.training_seeds]
        returns = [value for value in found if value is not None]
        if len(returns) == len(found):
            trial.report(float(np.mean(returns)), rung)
            on_change()
            if last:
                return returns
            if trial.should_prune():
                raise _Pruned
    raise RunError(
        f"no outer iteration was finished in {count(tuning.base.budget.episodes, 'episode')}; give it more episodes"
    )


def _run(
    tuning: Tuning, config: SearchConfig, path: Path, seed: int, episodes: int, task: Task, pool: Pool
) -> float | None:
    """Train one run so far, and judge its current policy by fresh episodes; None when it has none yet.

    Raises:
        AbpsError: the run failed, or every episode of the evaluation did.
    """
    settings, place = tuning.settings(config, seed, episodes), path / f"seed-{seed}"
    if find(place, settings).state != "done":
        run_cell(place, settings, task)
    metrics = place / "metrics.jsonl"
    if not metrics.is_file() or not metrics.stat().st_size:
        return None
    stored = load_policy(place / "policy" / "current.npz", config.policy)
    policy = PolicySpace(stored.space.policy_class, task.spec).policy(stored.parameters, stored.normaliser)
    result = evaluate(pool, [policy], tuning.evaluation_episodes, seed, "tuning")[0]
    if result.mean is None:
        raise RunError(f"all of {count(result.failed, 'episode')} of the current policy failed")
    return result.mean
