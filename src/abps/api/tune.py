"""`abps.tune`: look for better settings of a search on a task, in one call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abps.api.resolve import as_path, resolve, whole_number
from abps.api.temporary import TemporaryFolder
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.settings import replace
from abps.tasks.gym import TaskLike
from abps.tuning.definition import Tuning, quiet_run
from abps.tuning.results import TuningResult
from abps.tuning.space import default_space, read_space
from abps.tuning.study import run_study

__all__ = ["tune"]


def tune(
    task: TaskLike,
    search: str | SearchConfig = "abs",
    *,
    trials: int = 50,
    episodes: int = 100,
    seeds: int = 3,
    evaluation_episodes: int = 10,
    space: str | Path | Mapping[str, Any] | None = None,
    seed: int = 0,
    preset: str = "cpu",
    config: str | Path | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    keep_runs: bool = False,
    **settings: Any,
) -> TuningResult:
    """Look for better settings through Optuna: what `abps tune` does.

    Args:
        task: as `abps.train` takes it.
        search: a name, `module:Name` of your own, or settings, which the space surrounds.
        trials: settings to try, those of earlier calls with the same `out` included.
        episodes: training episodes of every run.
        seeds: runs per trial, with seeds from 1 000 000 on; what is maximised is the mean return of their current
            policies.
        evaluation_episodes: fresh episodes that judge a current policy.
        space: what varies, and how far: a YAML file, or a dictionary like `{"step.length": {"factor": 5}}`; None:
            common settings that are positive numbers, within a factor of 3.
        seed: of the study: what is tried, and which seeds the runs have.
        preset: `cpu`: for ordinary computers; `paper`: as published.
        config: a settings file, which the space surrounds.
        out: the study's folder; the same call goes on where it was interrupted. None: it is only in memory.
        jobs: trials at the same time; None: as many as there are cores; 1: one after the other in this process. A task
            that no other process can make has one.
        keep_runs: whether the runs of finished trials stay in the folder.
        settings: other settings, as `abps.train` takes them; those of the search are then fixed.

    Raises:
        AbpsError: one sentence about what is wrong, or why no trial worked.

    Example:
        >>> import abps
        >>> found = abps.tune("pendulum", "ars", trials=3, episodes=16, seeds=1, horizon=20, jobs=1)
        >>> len(found.trials), found.best.state, sorted(found.best.settings)
        (3, 'done', ['directions', 'noise', 'step', 'top'])
    """
    counts = {"trials": trials, "seeds": seeds, "evaluation_episodes": evaluation_episodes, "episodes": episodes}
    for name, value in counts.items():
        whole_number(value, name, 1)
    if jobs is not None:
        whole_number(jobs, "jobs", 1)
    resolved = resolve(
        task,
        search,
        budget=BudgetConfig(episodes=int(episodes)),
        seed=seed,
        preset=preset,
        initial=None,
        config=config,
        changes={**settings, "episodes": int(episodes)},
    )
    chosen = resolved.settings.search_config
    tuning = Tuning(
        base=replace(resolved.settings, run=quiet_run(resolved.settings.run)),
        space=default_space(chosen, _fixed(settings)) if space is None else read_space(space, chosen),
        seeds=int(seeds),
        evaluation_episodes=int(evaluation_episodes),
    )
    temporary = TemporaryFolder() if out is None else None
    folder = temporary.path if temporary is not None else as_path(out, "out")
    return run_study(folder, tuning, int(trials), resolved.task, jobs=jobs, keep=keep_runs, temporary=temporary)


def _fixed(settings: Mapping[str, Any]) -> set[str]:
    """The names that a call fixes, inside groups too."""
    return {
        f"{name}.{inner}" if inner else name
        for name, value in settings.items()
        for inner in (["", *value] if isinstance(value, Mapping) else [""])
    }
