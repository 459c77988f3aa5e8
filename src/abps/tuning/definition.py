"""What a tuning study is, as `tune.yaml` in its folder says it: settings, space, episodes and seeds.

tune/<task>/<search>/
  tune.yaml          what is tuned; a study goes on only under the same words
  trials.log         Optuna's journal: one line of JSON per event
  best.yaml          the best settings so far, a settings file (`--config`)
  trials/<n>/        the runs of trial n, one per seed, while it is under way or when it failed
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from abps.errors import ConfigError, RunError
from abps.run.config import RunConfig
from abps.run.directory import MAX_CONFIG_BYTES, RunSettings, parse_yaml, settings_document, settings_from_document
from abps.run.files import read_bounded, replace_atomically
from abps.search.base import SearchConfig
from abps.settings import replace
from abps.study.cells import differences
from abps.tuning.space import Space, read_space

__all__ = ["BEST", "DEFINITION", "FIRST_SEED", "Tuning", "read_tuning", "write_tuning"]

DEFINITION, BEST = "tune.yaml", "best.yaml"

FIRST_SEED = 1_000_000
"""Trials train with seeds from here on, so that those that a user reports (0, 1, 2, …) are fresh."""

RUNGS = (4, 2, 1)
"""A trial is judged after a quarter, half and all of its episodes."""


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how a trial is judged."""

    base: RunSettings
    """The settings that the space surrounds; the budget has the training episodes of every run."""
    space: Space
    seeds: int
    """Runs per trial; the objective is their mean."""
    evaluation_episodes: int
    """Fresh episodes that judge the current policy of a run."""

    def __post_init__(self) -> None:
        for name in ("seeds", "evaluation_episodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.base.budget.episodes < 1:
            raise ConfigError(f"episodes must be at least 1, got {self.base.budget.episodes}")

    @property
    def rungs(self) -> list[int]:
        """Training episodes after which a trial is judged, the last one all of them."""
        episodes = self.base.budget.episodes
        return sorted({max(1, -(-episodes // share)) for share in RUNGS})

    @property
    def training_seeds(self) -> list[int]:
        """The seeds of a trial's runs, the same for all trials."""
        return [FIRST_SEED + self.base.seed * self.seeds + number for number in range(self.seeds)]

    def settings(self, config: SearchConfig, seed: int, episodes: int) -> RunSettings:
        """The settings of one run of a trial."""
        budget = replace(self.base.budget, episodes=episodes)
        return replace(self.base, search_config=config, seed=seed, budget=budget)

    def document(self) -> dict[str, Any]:
        """As `tune.yaml` says it."""
        return {
            **settings_document(self.base),
            "tuning": {
                "seeds": self.seeds,
                "evaluation_episodes": self.evaluation_episodes,
                "space": self.space.document(),
            },
        }


def quiet_run(run: RunConfig) -> RunConfig:
    """How runs of a trial are carried out: without evaluations of their own, which only the study needs."""
    return replace(run, evaluate_every=0, evaluate_probes="none", minutes=0.0)


def write_tuning(folder: Path, tuning: Tuning) -> None:
    """Write `tune.yaml`, or make sure that the one that is there says the same.

    Raises:
        RunError: it says something else, or the disk refuses.
    """
    file = folder / DEFINITION
    if not file.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {folder}: {error.strerror or error}") from error
        text = yaml.safe_dump(tuning.document(), sort_keys=False, allow_unicode=True)
        replace_atomically(file, text.encode())
    there = read_tuning(folder)
    if unlike := _differences(there, tuning):
        raise RunError(f"{folder} has a study of something else ({'; '.join(unlike[:3])}); take another folder: --out")


def read_tuning(folder: Path) -> Tuning:
    """Read `tune.yaml`.

    Raises:
        RunError: there is none, or it is damaged.
    """
    file = folder / DEFINITION
    content = read_bounded(file, MAX_CONFIG_BYTES)
    try:
        document = parse_yaml(content)
        base, own = settings_from_document(document), document["tuning"]
        space = read_space(own["space"], base.search_config)
        return Tuning(base, space, int(own["seeds"]), int(own["evaluation_episodes"]))
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RunError(f"{file} is damaged, or names a part that is not here: {error}") from error


def _differences(there: Tuning, wanted: Tuning) -> list[str]:
    unlike = differences(there.base, wanted.base)
    ours, theirs = wanted.space.document(), there.space.document()
    pairs = {f"the range of {name}": (theirs.get(name), ours.get(name)) for name in {**theirs, **ours}}
    pairs["episodes"] = there.base.budget.episodes, wanted.base.budget.episodes
    pairs["seeds"] = there.seeds, wanted.seeds
    pairs["evaluation_episodes"] = there.evaluation_episodes, wanted.evaluation_episodes
    return unlike + [f"{name}: {old} there, {new} is wanted" for name, (old, new) in pairs.items() if old != new]
