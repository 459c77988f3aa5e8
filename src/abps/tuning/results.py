"""What a tuning study found: every trial, the best settings as a settings file, and which settings mattered."""

import math
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from abps.errors import RunError
from abps.run.files import replace_atomically
from abps.search.base import SearchConfig
from abps.settings import to_dict, with_changes
from abps.tuning.definition import BEST, Tuning
from abps.tuning.space import value_of
from abps.tuning.storage import FAILED, INVALID, RETURNS, SECONDS
from abps.words import count

__all__ = ["TrialResult", "TuningResult", "rows_of", "write_best"]

STATES = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
"""Optuna's words for what became of a trial, and ours."""

LEAST_FOR_IMPORTANCE = 10
"""Finished trials below which nobody can say which settings mattered."""


class TrialResult(NamedTuple):
    """One trial: what was tried, and what came of it."""

    number: int
    state: str
    """done, pruned (stopped early), failed, or running."""
    value: float | None
    """Mean return over seeds: after all episodes, or when it was stopped."""
    settings: dict[str, Any]
    """What was tried, by dotted name."""
    returns: tuple[float, ...]
    """Return per seed after all episodes."""
    episodes: int
    """Training episodes per seed after which it was judged last."""
    seconds: float
    reason: str
    """Why it failed."""


class TuningResult:
    """What a tuning study found.

    Example:
        >>> import abps
        >>> found = abps.tune("pendulum", "ars", trials=2, episodes=16, seeds=1, horizon=20, jobs=1)
        >>> [trial.number for trial in found.trials], found.default.settings["step"]
        ([0, 1], 0.06)
        >>> run = abps.train("pendulum", found.search_config, episodes=16, horizon=20)
    """

    def __init__(self, folder: Path, tuning: Tuning, study: Any, keep: Any = None) -> None:
        self._folder, self._tuning, self._study, self._keep = folder, tuning, study, keep
        self.trials: tuple[TrialResult, ...] = tuple(rows_of(tuning, study))
        """Every trial, in the order in which they were started."""

    @property
    def path(self) -> Path | None:
        """The study's folder; None when it is only in memory."""
        return None if self._keep is not None else self._folder

    @property
    def config(self) -> Path | None:
        """The best settings as a settings file; None when the study is only in memory."""
        return None if self.path is None else self.path / BEST

    @property
    def default(self) -> TrialResult:
        """The trial with the settings as they are: the first one."""
        return self.trials[0]

    @cached_property
    def best(self) -> TrialResult:
        """The trial with the highest mean return; partly by luck, as the best of many always is.

        Raises:
            RunError: none was finished.
        """
        done = [trial for trial in self.trials if trial.state == "done"]
        if not done:
            reasons = [trial.reason for trial in self.trials if trial.reason]
            raise RunError("no trial was finished" + (f"; the last one failed with: {reasons[-1]}" if reasons else ""))
        return max(done, key=lambda trial: (trial.value or -math.inf, -trial.number))

    @property
    def search_config(self) -> SearchConfig:
        """The best settings, as `abps.train` takes them."""
        return settings_of(self._tuning, self.best)

    @cached_property
    def importance(self) -> dict[str, float]:
        """The share of each setting in what separates good trials from all (PED-ANOVA); empty with few trials."""
        return _importance(self._study, sum(trial.state == "done" for trial in self.trials))

    @property
    def tuning(self) -> Tuning:
        """What was tuned: settings, space, episodes and seeds."""
        return self._tuning

    def count(self, state: str) -> int:
        """How many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)

    def __repr__(self) -> str:
        place = "in memory" if self.path is None else f"in {self.path}"
        found = f", best {self.best.value:.4g}" if self.count("done") else ""
        return f"<abps tuning {place}: {len(self.trials)} trials of {self._tuning.base.search}{found}>"


def rows_of(tuning: Tuning, study: Any) -> list[TrialResult]:
    """Every trial of a study, but those whose settings exclude each other."""
    return [
        _row(tuning, trial)
        for trial in study.get_trials(deepcopy=False)
        if INVALID not in trial.user_attrs and trial.state.name != "WAITING"
    ]


def _row(tuning: Tuning, trial: Any) -> TrialResult:
    failed = trial.user_attrs.get(FAILED, "")
    state = "failed" if failed else STATES.get(trial.state.name, "running")
    judged = trial.intermediate_values
    last = max(judged, default=0)
    settings = {name: tuning.space.entries[name].clean(value) for name, value in trial.params.items()}
    return TrialResult(
        number=trial.number,
        state=state,
        value=None if failed or not judged else float(judged[last]),
        settings=settings,
        returns=tuple(trial.user_attrs.get(RETURNS, ())),
        episodes=int(last),
        seconds=float(trial.user_attrs.get(SECONDS, 0.0)),
        reason=failed,
    )


def settings_of(tuning: Tuning, trial: TrialResult) -> SearchConfig:
    """The settings that a trial had."""
    if trial.number == 0:  # As they are, which need not lie in the space.
        return tuning.base.search_config
    return with_changes(tuning.base.search_config, trial.settings)


def write_best(folder: Path, tuning: Tuning, study: Any) -> None:
    """Write the best settings so far as a settings file; nothing as long as no trial was finished."""
    found = TuningResult(folder, tuning, study)
    if not found.count("done"):
        return
    best, base, ended = found.best, tuning.base, len(found.trials) - found.count("running")
    config = settings_of(tuning, best)
    document = {"task": to_dict(base.task), "search": {"name": base.search, "settings": to_dict(config)}}
    before = to_dict(base.search_config)
    changed = [f"#   {name}: {value_of(before, name)} → {value}" for name, value in best.settings.items()]
    lines = [
        f"# The best of {count(ended, 'trial')} of `abps tune`: trial {best.number}, mean return",
        f"# {best.value:.6g} over {count(tuning.seeds, 'seed')} after {count(base.budget.episodes, 'episode')}.",
        *(["# What was tried:", *changed] if best.number else ["# These are the settings as they were."]),
    ]
    text = "\n".join(lines) + "\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    replace_atomically(folder / BEST, text.encode())


def _importance(study: Any, done: int) -> dict[str, float]:
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    if done < LEAST_FOR_IMPORTANCE:
        return {}
    try:
        return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
    except (RuntimeError, ValueError):  # All alike: there is nothing to tell apart.
        return {}
