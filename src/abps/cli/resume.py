"""`abps resume`: go on with a run, exactly as if it had never been interrupted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abps.cli.options import parse, split_words
from abps.cli.train import Logger, check_end, flat_config, print_help, train_and_tell
from abps.cli.tree import Group, positional
from abps.errors import ConfigError, RunError
from abps.run.config import RunConfig
from abps.search.budget import BudgetConfig
from abps.settings import replace, setting
from abps.words import count

__all__ = ["HELP", "ResumeArguments", "run"]

HELP = "Go on with a run after Ctrl-C, a crash or a power loss, bit for bit; or train a finished one longer."

USAGE = "abps resume RUN [--episodes N] [any other setting of the budget or the run]"

FOOTER = "What is not given stays as it is in the run. `abps resume --help-all` lists every setting that can change."

FIXED = "; a run keeps the search and the task that it began with"


@dataclass(frozen=True)
class ResumeArguments:
    """What `abps resume` takes beside settings."""

    run: str = positional("RUN", "a run directory")
    quiet: bool = setting(False, "print errors only")
    json: bool = setting(False, "print the result as one JSON object, and no progress bar")
    log: tuple[Logger, ...] = setting((), "also log to tensorboard or wandb; may be repeated")


def run(argv: Sequence[str]) -> int:
    """Do what the words say; return the exit code."""
    from abps.run.directory import claim, read_settings, stamp_changes, write_settings
    from abps.run.loggers import open_loggers

    groups = _groups(BudgetConfig(), RunConfig())
    words = split_words(argv, groups)
    if print_help(words, USAGE, HELP, groups, FOOTER):
        return 0
    # Wrong words are found before a wrong run.
    parse(words, groups, command="resume", elsewhere=_fixed_settings, hint=FIXED)
    path = Path(words.positionals[0])
    settings = read_settings(path)
    if settings.hardware is not None:  # Said before anything is written: `abps ask` alone extends a robot's run.
        raise RunError(f"{path} is a run on real hardware; go on with `abps ask {path}` and `abps tell {path}`")
    groups = _groups(settings.budget, settings.run)
    arguments, budget, run_config = parse(words, groups, command="resume")
    changed = replace(settings, budget=budget, run=run_config)
    check_end(budget, run_config)
    if budget.episodes != settings.budget.episodes:
        _check_budget(path, budget.episodes)
    if not (arguments.quiet or arguments.json):
        for change in stamp_changes(path):
            print(f"note: {change}; results may differ from those of the uninterrupted run")
    if changed != settings:
        with claim(path):
            write_settings(path, changed)
    loggers = open_loggers(arguments.log, path, flat_config(changed))
    return train_and_tell(path, changed, arguments, loggers)


def _check_budget(path: Path, episodes: int) -> None:
    """Refuse a budget that the run has outgrown: its files would say that it used more episodes than it had."""
    from abps.study.cells import recorded_episodes

    there = recorded_episodes(path)
    if 0 < episodes < there:
        raise ConfigError(
            f"the run has {count(there, 'episode')} already, and --episodes counts them all; for 100 more give "
            f"--episodes {there + 100}"
        )


def _groups(budget: BudgetConfig, run_config: RunConfig) -> list[Group]:
    return [
        Group("arguments", ResumeArguments()),
        Group("when to stop", budget, show_defaults=False),
        Group("how it runs", run_config, show_defaults=False),
    ]


def _fixed_settings() -> Mapping[str, Sequence[Any]]:
    from abps.search.registry import SEARCHES, search_config
    from abps.tasks.config import TaskConfig

    return {"the task": [TaskConfig()], "the search": [search_config(name) for name in SEARCHES]}
