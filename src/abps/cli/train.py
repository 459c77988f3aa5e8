"""`abps train`: make a run and train it. What `abps resume` shares with it is here too."""

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from abps.cli.settings import add_settings, read_settings
from abps.config import BudgetConfig, RunConfig, to_dict
from abps.presets import PRESETS, TASK_EPISODES, search_config, task_config
from abps.search.registry import SEARCHES

HELP = "Train a policy on a task. The run is saved after every episode; `abps resume` goes on with it."

DEFAULT_EPISODES = 300


def configure_for(parser: argparse.ArgumentParser, argv: list[str]) -> None:
    """Add the options of the search and task that `argv` names, with the preset's values as defaults."""
    parser.usage = "abps train TASK [--search NAME] [--seed N] [--episodes N] [any setting listed by --help]"
    parser.add_argument("task", help="a name from `abps tasks`, a Gymnasium id, or module:factory")
    parser.add_argument("--search", choices=tuple(SEARCHES), default="abs", help="the search (default: abs)")
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        default="cpu",
        help="cpu: light critics, the original ARS; paper: as published (default: cpu)",
    )
    parser.add_argument("--seed", type=int, default=0, help="everything random derives from it (default: 0)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs (default: runs)")
    parser.add_argument("--overwrite", action="store_true", help="start over; an existing run is renamed, not deleted")
    add_output_options(parser)
    task, search, preset = _named(argv)
    add_settings(parser, "when to stop", default_budget(task))
    add_settings(parser, f"task {task}", task_config(task, search, preset), skip=("id", "name"))
    add_settings(parser, f"search {search}", search_config(search, task, preset))
    add_settings(parser, "run", RunConfig())


def execute(arguments: argparse.Namespace) -> int:
    from abps.run.directory import RunSettings, create_directory, move_aside, run_path

    task = read_settings(arguments, task_config(arguments.task, arguments.search, arguments.preset))
    search = read_settings(arguments, search_config(arguments.search, arguments.task, arguments.preset))
    budget = read_settings(arguments, default_budget(arguments.task))
    run = read_settings(arguments, RunConfig())
    settings = RunSettings(task, arguments.search, search, budget, run, arguments.seed)
    path = run_path(arguments.runs, settings)
    from abps.tasks.gym import make_task

    made = make_task(task)  # Before anything is written: a wrong task must leave no directory behind.
    if arguments.overwrite and path.exists():
        move_aside(path)
    create_directory(path, settings)
    return train_and_tell(path, settings, arguments, made)


def default_budget(task: str) -> BudgetConfig:
    """The paper's budget for its tasks is long; a first run should end soon."""
    return BudgetConfig(episodes=min(TASK_EPISODES.get(task, DEFAULT_EPISODES), DEFAULT_EPISODES))


def add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, and no progress bar")
    parser.add_argument(
        "--log", action="append", choices=("tensorboard", "wandb"), default=[], help="also log there (may be repeated)"
    )


def train_and_tell(path: Path, settings: Any, arguments: argparse.Namespace, task: Any = None) -> int:
    """Train with a progress bar, and say in the end what was learned and where it is."""
    from abps.cli.progress import ProgressBar
    from abps.run.loggers import LOGGERS
    from abps.run.loop import train

    bar = None if arguments.quiet or arguments.json else ProgressBar()
    observers: list[Any] = [LOGGERS[name](path, _flat_config(settings)) for name in arguments.log]
    signal.signal(signal.SIGTERM, _as_interrupt)
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


def _as_interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _flat_config(settings: Any) -> dict[str, Any]:
    return {"seed": settings.seed, "task": to_dict(settings.task), settings.search: to_dict(settings.search_config)}


def _print_result(result: Any, settings: Any, arguments: argparse.Namespace) -> None:
    last = result.last or {}
    if arguments.json:
        summary = {
            "run": str(result.path),
            "task": settings.task.name,
            "search": settings.search,
            "seed": settings.seed,
            "episodes": result.episodes,
            "steps": result.steps,
            "seconds": round(result.seconds, 3),
            "stopped": result.reasons,
            "centre_return": last.get("eval_return"),
            "best_return": last.get("max_return"),
        }
        print(json.dumps(summary))
        return
    if arguments.quiet:
        return
    centre, best = last.get("eval_return"), last.get("max_return")
    learned = "no outer iteration was finished; give it more episodes"
    if centre is not None:
        learned = f"the policy it stands on returns {centre:.1f} (mean of fresh episodes), the best it found {best:.1f}"
    print(
        f"{settings.search} used {result.episodes} episodes of {settings.task.name} in {result.seconds:.0f} s: {learned}."
    )
    print(f"The run is in {result.path}; look at it with: abps report {result.path}")
    print(f"Train it longer with: abps resume {result.path} --episodes {2 * max(result.episodes, 1)}")


def _named(argv: list[str]) -> tuple[str, str, str]:
    """Find task, search and preset in the arguments before their options are known."""
    scout = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scout.add_argument("--search", default="abs")
    scout.add_argument("--preset", default="cpu")
    known, rest = scout.parse_known_args(argv)
    task = next((word for word in rest if not word.startswith("-")), "pendulum")
    search = known.search if known.search in SEARCHES else "abs"
    return task, search, known.preset if known.preset in PRESETS else "cpu"
