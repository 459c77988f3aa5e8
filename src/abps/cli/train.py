"""`abps train`: make a run and train it. What `abps resume` shares with it is here too."""

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from abps.cli.helptext import all_help, short_help
from abps.cli.options import Words, named_value, parse, parse_known, split_words
from abps.cli.tree import Group, positional
from abps.errors import ConfigError
from abps.run.config import RunConfig
from abps.run.settings_file import NOTHING, FileSettings, read_settings_file
from abps.search.auto import AUTO, choose_search
from abps.search.base import SearchConfig
from abps.search.budget import DEFAULT_EPISODES, BudgetConfig
from abps.search.registry import SEARCHES, search_config
from abps.settings import replace, setting, to_dict
from abps.tasks.catalogue import task_config
from abps.tasks.config import TaskConfig
from abps.words import count

__all__ = [
    "DEFAULT_EPISODES",
    "HELP",
    "SEARCH_HELP",
    "TrainArguments",
    "as_interrupt",
    "flat_config",
    "other_searches",
    "print_help",
    "run",
    "train_and_tell",
    "train_groups",
    "with_settings",
]

HELP = "Train a policy on a task. The run is saved after every episode; `abps resume` goes on with it."

USAGE = "abps train TASK [--search NAME] [--seed N] [--episodes N] [any other setting]"

FOOTER = "`abps train TASK --search NAME --help-all` lists every setting, and the parts to choose from."

SEARCH_HELP = f"{', '.join(SEARCHES)}, auto, or module:Name of your own"

OTHER_SEARCH = ", not of the chosen one"

Logger = Literal["tensorboard", "wandb"]


@dataclass(frozen=True)
class TrainArguments:
    """What `abps train` takes beside settings."""

    task: str = positional("TASK", "a name from `abps tasks`, a Gymnasium id, or module:factory")
    search: str = setting("abs", SEARCH_HELP)
    preset: str = setting("cpu", "cpu: for ordinary computers; paper: as published")
    seed: int = setting(0, "everything random derives from it")
    runs: Path = setting(Path("runs"), "folder of all runs")
    config: Path | None = setting(None, "settings from a file like a run's config.yaml; options override them")
    initial: Path | None = setting(None, "start from a run's policy, a policy file, or a .npy file of parameters")
    overwrite: bool = setting(False, "start over; an existing run is renamed, not deleted")
    quiet: bool = setting(False, "print errors only")
    json: bool = setting(False, "print the result as one JSON object, and no progress bar")
    log: tuple[Logger, ...] = setting((), "also log to tensorboard or wandb; may be repeated")


def run(argv: Sequence[str]) -> int:
    """Do what the words say; return the exit code."""
    groups, words = train_groups(argv)
    chosen = groups[0].config.search
    if print_help(words, USAGE, HELP, groups, FOOTER):
        return 0
    arguments, budget, run_config, task, search = parse(
        words, groups, command="train", elsewhere=lambda: other_searches(chosen), hint=OTHER_SEARCH
    )
    return _train(replace(arguments, search=chosen), budget, run_config, task, search)


def train_groups(argv: Sequence[str]) -> tuple[list[Group], Words]:
    """The options of the search and task that the words or the settings file name, with their values as defaults."""
    config = named_value(argv, "--config", "")
    file = read_settings_file(config) if config else NOTHING
    search = named_value(argv, "--search", file.search or "abs")
    preset = named_value(argv, "--preset", "cpu")
    words = split_words(argv, _groups("", with_settings(search), preset, NOTHING))
    if not words.positionals and file.task_name:
        words = words._replace(positionals=(file.task_name,))
    task = words.positionals[0] if words.positionals else ""
    if search == AUTO:
        search = _chosen(words, task, file)
    return _groups(task, search, preset, file), words


def with_settings(search: str) -> str:
    """A search whose settings can be told: for `auto`, before it has chosen, those of the default one."""
    return "abs" if search == AUTO else search


def _chosen(words: Words, task: str, file: FileSettings) -> str:
    """The search that suits the task and the budget; the default one where only help is wanted, or no task is named."""
    from abps.tasks.gym import make_task

    if not task or {"-h", "--help", "--help-all"} & {flag for flag, _ in words.given}:
        return "abs"
    groups = _groups(task, "abs", "cpu", file._replace(search="", settings={}))[:-1]
    arguments, budget, _, config = parse_known(words, groups, command="train")
    return choose_search(make_task(config).spec, budget).announce(quiet=arguments.quiet)


def other_searches(chosen: str) -> dict[str, list[SearchConfig]]:
    """The settings of all searches but the chosen one, for a sentence about an option that is theirs."""
    return {f"the search {name}": [search_config(name)] for name in SEARCHES if name != chosen}


def _groups(task: str, search: str, preset: str, file: FileSettings) -> list[Group]:
    place = f" on {task}" if task else ""
    arguments = TrainArguments(search=search, seed=file.seed or 0)
    return [
        Group("arguments", arguments),
        Group("when to stop", file.budget_on(BudgetConfig(episodes=DEFAULT_EPISODES))),
        Group("how it runs", file.run_on(RunConfig())),
        Group(f"task {task}".rstrip(), _task(task, file), ("id", "name")),
        Group(f"search {search}{place}, preset {preset}", file.search_on(search, search_config(search, task, preset))),
    ]


def _task(task: str, file: FileSettings) -> TaskConfig:
    """The task that the words name; a file that names it knows its id, too."""
    named = task == file.task_name and file.task.get("id")
    return file.task_on(
        replace(task_config(task or "any"), id=str(file.task["id"])) if named else task_config(task or "any")
    )


def print_help(words: Words, usage: str, text: str, groups: Sequence[Group], footer: str) -> bool:
    """Print the help that the words ask for; False when they ask for none."""
    flags = {flag for flag, _ in words.given}
    if "--help-all" in flags:
        print(all_help(usage, text, groups, words, footer))
    elif flags & {"-h", "--help"}:
        print(short_help(usage, text, groups, words, footer))
    else:
        return False
    return True


def _train(arguments: TrainArguments, budget: BudgetConfig, run: RunConfig, task: Any, search: Any) -> int:
    from abps.run.directory import RunSettings, new_directory, run_path
    from abps.run.loggers import open_loggers
    from abps.run.start import prepare_start
    from abps.tasks.gym import make_task

    if arguments.seed < 0:
        raise ConfigError(f"--seed must not be negative, got {arguments.seed}")
    check_end(budget, run)
    made = make_task(task)  # Before anything is written: a wrong task must leave no directory behind.
    start = prepare_start(arguments.initial, made.spec, search)
    settings = RunSettings(task, arguments.search, search, budget, run, arguments.seed, initial=start.text)
    path = run_path(arguments.runs, settings)
    with new_directory(path, settings, start.files, overwrite=arguments.overwrite):
        loggers = open_loggers(arguments.log, path, flat_config(settings))
    return train_and_tell(path, settings, arguments, loggers, made)


def check_end(budget: BudgetConfig, run: RunConfig) -> None:
    """Refuse a run that nothing would ever stop."""
    if not (budget.episodes or budget.steps or budget.plateau or run.minutes) and budget.target is None:
        raise ConfigError("--episodes 0 is no limit, and nothing else would stop the run; give --episodes N")


def train_and_tell(path: Path, settings: Any, arguments: Any, loggers: Sequence[Any], task: Any = None) -> int:
    """Train with a progress bar, and say in the end what was learned and where it is."""
    from abps.api.progress import ProgressBar
    from abps.run.loop import train

    bar = None if arguments.quiet or arguments.json else ProgressBar()
    observers: list[Any] = list(loggers)
    signal.signal(signal.SIGTERM, as_interrupt)
    try:
        result = train(path, settings, (*observers, bar) if bar else tuple(observers), task)
    except KeyboardInterrupt:
        if bar:
            bar.close()
        print(f"\nInterrupted; every finished episode is saved. Go on with: abps resume {path}", file=sys.stderr)
        return 130
    finally:
        if bar:
            bar.close()
    _print_result(result, settings, arguments)
    return 0


def as_interrupt(number: int, frame: Any) -> None:
    """Let SIGTERM end a command as Ctrl-C does."""
    raise KeyboardInterrupt


def flat_config(settings: Any) -> dict[str, Any]:
    return {"seed": settings.seed, "task": to_dict(settings.task), settings.search: to_dict(settings.search_config)}


def _print_result(result: Any, settings: Any, arguments: Any) -> None:
    last = result.last or {}
    if arguments.json:
        summary = {
            "run": str(result.path),
            "task": settings.task.name,
            "search": settings.search,
            "seed": settings.seed,
            "episodes": result.episodes,
            "steps": result.steps,
            "failures": result.failures,
            "seconds": round(result.seconds, 3),
            "stopped": result.reasons,
            "current_return": last.get("eval_return"),
            "max_return": last.get("max_return"),
        }
        if settings.task.constraint:
            summary["beyond_a_limit"] = _beyond_a_limit(result.path)
        print(json.dumps(summary))
        return
    if arguments.quiet:
        return
    centre, best = last.get("eval_return"), last.get("max_return")
    learned = "no outer iteration was finished; give it more episodes"
    if result.failures == result.episodes:
        learned = "no episode worked"
    if centre is not None:
        learned = f"the current policy returns {centre:.1f} (mean of fresh episodes), the best one so far {best:.1f}"
    used = f"{count(result.episodes, 'episode')} of {settings.task.name} in {result.seconds:.0f} s"
    print(f"{settings.search} used {used}: {learned}.")
    if result.failures:
        print(f"{count(result.failures, 'episode')} failed and gave no return; why: abps failures {result.path}")
    if settings.task.constraint:
        beyond = count(_beyond_a_limit(result.path), "episode")
        print(f"{beyond} went beyond a limit ({', '.join(settings.task.constraint)}).")
    print(f"The run is in {result.path}; look at it with: abps report {result.path}")
    print(f"Train it longer with: abps resume {result.path} --episodes {2 * max(result.episodes, 1)}")


def _beyond_a_limit(path: Path) -> int:
    """Training episodes of the run, all sessions, whose costs were above a limit."""
    from abps.study.records import load_run

    return len(load_run(path).episodes.violated)
