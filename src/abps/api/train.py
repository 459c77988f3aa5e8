"""`abps.train`: from a task to a trained policy in one call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abps.api.callbacks import Callback, CallbackObserver, checked_callbacks
from abps.api.resolve import Resolved, as_path, resolve, whole_number
from abps.api.temporary import TemporaryFolder
from abps.api.trained import TrainedRun
from abps.policies.start import InitialLike
from abps.run.loop import Observer
from abps.run.loop import train as train_run
from abps.search.base import SearchConfig
from abps.search.budget import DEFAULT_EPISODES, BudgetConfig
from abps.study.cells import find, prepare_directory
from abps.tasks.gym import TaskLike

__all__ = ["train"]


def train(
    task: TaskLike,
    search: str | SearchConfig = "abs",
    *,
    episodes: int | None = None,
    seed: int = 0,
    preset: str = "cpu",
    initial: InitialLike | TrainedRun | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    out: str | Path | None = None,
    config: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> TrainedRun:
    """Train a policy: what `abps train` does, with the same defaults and the same numbers.

    Args:
        task: a name from `abps tasks`, a Gymnasium id, `module:factory`, Gymnasium's `module:EnvId`, an environment,
            its class, or a function that makes one.
        search: a name (`abs`, `mpd`, `gibo`, `ars`, …), `module:Name` of your own, settings, or `auto`: the search that
            suits the task's size and the episodes; a line on standard error says which and why.
        episodes: training episodes; None: what `config` says, or 300.
        seed: everything random derives from it.
        preset: `cpu`: for ordinary computers; `paper`: as published.
        initial: where the search starts: a policy, an array of parameters, a run, a run directory, a policy file, or a
            `.npy` file; None: where its class of policies does.
        callbacks: functions that are called with a `TrainingEvent` after every episode; one that returns a text or True
            ends the run.
        out: a run directory; every finished episode is on disk before the next one starts, and the same call goes on
            with a run that was interrupted. None: the run is only in memory.
        config: a settings file: a run's `config.yaml`, or a part of one.
        progress: whether a line on standard error shows how far it is.
        settings: any other setting of the task, the budget, the run or the search, by its name on the command line:
            `gamma=0.98`, `workers=2`, `step="walk"`, `plan={"probes": 8}`, `**{"plan.probes": 8}`.

    Returns:
        The run: its policies, numbers, and a report.

    Raises:
        AbpsError: one sentence about what is wrong with the arguments, the environment or the run.

    Example:
        >>> import abps
        >>> run = abps.train("pendulum", search="ars", episodes=32, seed=0, horizon=100)
        >>> run.result.episodes, run.policy([0.0, 0.0, 0.0, 0.0]).shape
        (32, (1,))
        >>> longer = abps.train("pendulum", search="ars", episodes=16, horizon=100, initial=run)
        >>> longer.settings.initial.partition(" (")[0]
        'a policy'
    """
    if episodes is not None:
        settings["episodes"] = whole_number(episodes, "episodes", 1)
    found = checked_callbacks(callbacks)
    resolved = resolve(
        task,
        search,
        budget=BudgetConfig(episodes=DEFAULT_EPISODES),
        seed=seed,
        preset=preset,
        initial=initial.current if isinstance(initial, TrainedRun) else initial,
        config=config,
        changes=settings,
    )
    observers: list[Observer] = [CallbackObserver(found)] if found else []
    if progress:
        from abps.api.progress import ProgressBar

        observers.append(ProgressBar())
    return _in_memory(resolved, observers) if out is None else _on_disk(resolved, observers, as_path(out, "out"))


def _in_memory(resolved: Resolved, observers: list[Observer]) -> TrainedRun:
    """Train in a temporary folder, which is removed with the object that is returned; an error leaves it there."""
    folder = TemporaryFolder()
    path = folder.path / "run"
    try:
        _train(resolved, observers, path)
    except BaseException as error:
        folder.keep()
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"Every finished episode is in {path}: `abps.load` reads it; next time, out=PATH goes on.")
        raise
    return TrainedRun(path, resolved.settings, resolved.task, folder)


def _on_disk(resolved: Resolved, observers: list[Observer], path: Path) -> TrainedRun:
    try:
        _train(resolved, observers, path)
    except KeyboardInterrupt as error:
        error.add_note(f"Every finished episode is in {path}; the same call goes on with it.")
        raise
    return TrainedRun(path, resolved.settings, resolved.task)


def _train(resolved: Resolved, observers: list[Observer], path: Path) -> None:
    """Make the run, or go on with one of the same settings; one that is done already is left as it is."""
    if find(path, resolved.settings).state == "done":  # Perhaps with more episodes than are wanted now.
        return
    prepare_directory(path, resolved.settings, resolved.start.files)
    try:
        train_run(path, resolved.settings, tuple(observers), resolved.task)
    finally:
        for observer in observers:
            close = getattr(observer, "close", None)
            if close is not None:
                close()
