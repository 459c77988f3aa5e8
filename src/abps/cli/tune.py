"""`abps tune`: look for better settings of a search on a task."""

import json
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abps.cli.helptext import shown_value
from abps.cli.options import Words, named_value, options_of, parse, split_words
from abps.cli.train import OTHER_SEARCH, as_interrupt, other_searches, print_help
from abps.cli.tree import Group, positional
from abps.errors import ConfigError
from abps.run.config import RunConfig
from abps.run.settings_file import NOTHING, FileSettings, read_settings_file
from abps.search.budget import BudgetConfig
from abps.search.registry import SEARCHES, search_config
from abps.settings import setting
from abps.tasks.catalogue import task_config
from abps.words import count

__all__ = ["HELP", "TuneArguments", "run"]

HELP = (
    "Look for better settings of a search on a task, through Optuna. The defaults are meant to do without; "
    "docs/guides/tuning.md has what tuning gained where it was measured. "
    "The same command after Ctrl-C or a crash goes on at the episode where it stopped."
)

USAGE = (
    "abps tune TASK [--search NAME] [--trials N] [--space FILE] [any setting of task or search, which then is fixed]"
)

FOOTER = (
    "Without --space the settings above that are positive numbers vary, and lengthscales, on a logarithmic scale "
    "within a factor of 3; `abps tune TASK --search NAME --dry-run` lists them. "
    "`abps tune TASK --search NAME --help-all` lists every setting."
)

NOT_HERE = (
    "minutes",
    "evaluate_every",
    "evaluation_episodes",
    "evaluate_probes",
    "checkpoint_every",
    "checkpoint_stages",
)
"""Settings of a run that a trial's runs do not leave to the user."""


@dataclass(frozen=True)
class TuneArguments:
    """What `abps tune` takes beside settings."""

    task: str = positional("TASK", "a name from `abps tasks`, a Gymnasium id, or module:factory")
    search: str = setting("abs", f"{', '.join(SEARCHES)}, or module:Name of your own")
    preset: str = setting("cpu", "cpu: for ordinary computers; paper: as published")
    trials: int = setting(50, "settings to try, those of earlier calls included")
    episodes: int = setting(100, "training episodes of every run")
    seeds: int = setting(3, "runs per trial; what is maximised is the mean return of their current policies")
    evaluation_episodes: int = setting(10, "fresh episodes that judge a current policy")
    space: Path | None = setting(None, "YAML file of what varies, and how far")
    jobs: int | None = setting(None, "trials at the same time; none: as many as there are cores")
    out: Path | None = setting(None, "folder of the study; none: tune/<task>/<search>")
    config: Path | None = setting(None, "settings from a file like a run's config.yaml; options override them")
    seed: int = setting(0, "of the study: what is tried, and which seeds the runs have (from 1000000 on)")
    keep_runs: bool = setting(False, "keep the runs of all trials, not only of those that failed")
    dry_run: bool = setting(False, "say what would vary, and run nothing")
    quiet: bool = setting(False, "print errors only")
    json: bool = setting(False, "print the result as one JSON object")


def run(argv: Sequence[str]) -> int:
    """Do what the words say; return the exit code."""
    groups, words = _groups_and_words(argv)
    if print_help(words, USAGE, HELP, groups, FOOTER):
        return 0
    arguments, run_config, task, search = parse(
        words,
        groups,
        command="tune",
        elsewhere=lambda: other_searches(named_value(argv, "--search", "abs")),
        hint=OTHER_SEARCH,
    )
    return _tune(arguments, run_config, task, search, _given(groups[-1], words), argv)


def _groups_and_words(argv: Sequence[str]) -> tuple[list[Group], Words]:
    config = named_value(argv, "--config", "")
    file = read_settings_file(config) if config else NOTHING
    search = named_value(argv, "--search", file.search or "abs")
    preset = named_value(argv, "--preset", "cpu")
    words = split_words(argv, _groups("", search, preset, NOTHING))
    if not words.positionals and file.task_name:
        words = words._replace(positionals=(file.task_name,))
    return _groups(words.positionals[0] if words.positionals else "", search, preset, file), words


def _groups(task: str, search: str, preset: str, file: FileSettings) -> list[Group]:
    place = f" on {task}" if task else ""
    return [
        Group("arguments", TuneArguments(search=search)),
        Group("how it runs", file.run_on(RunConfig()), NOT_HERE),
        Group(f"task {task}".rstrip(), file.task_on(task_config(task or "any")), ("id", "name")),
        Group(f"search {search}{place}, preset {preset}", file.search_on(search, search_config(search, task, preset))),
    ]


def _given(group: Group, words: Words) -> set[str]:
    """The settings of the search that the words fix."""
    flags = {flag for flag, _ in words.given}
    ((_, options),) = options_of([group], words)
    return {option.path for option in options if {option.flag, option.off_flag} & flags}


def _tune(
    arguments: TuneArguments, run_config: RunConfig, task: Any, search: Any, fixed: set[str], argv: Sequence[str]
) -> int:
    from abps.run.directory import RunSettings, run_place
    from abps.tasks.gym import make_task
    from abps.tuning.definition import Tuning, quiet_run
    from abps.tuning.space import default_space, read_space
    from abps.tuning.storage import load_optuna
    from abps.tuning.study import run_study

    load_optuna()
    if arguments.seed < 0:
        raise ConfigError(f"--seed must not be negative, got {arguments.seed}")
    made = make_task(task)  # Before anything is written: a wrong task must leave no folder behind.
    budget = BudgetConfig(episodes=max(0, arguments.episodes))
    base = RunSettings(task, arguments.search, search, budget, quiet_run(run_config), arguments.seed)
    space = default_space(search, fixed) if arguments.space is None else read_space(arguments.space, search)
    tuning = Tuning(base, space, arguments.seeds, arguments.evaluation_episodes)
    folder = arguments.out or run_place(Path("tune"), task.name, arguments.search, "", 0).parent
    if arguments.dry_run:
        return _dry_run(tuning, folder, arguments)
    view = _View(arguments)
    signal.signal(signal.SIGTERM, as_interrupt)
    try:
        found = run_study(
            folder, tuning, arguments.trials, made,
            jobs=arguments.jobs, keep=arguments.keep_runs, on_change=lambda study: view.show(tuning, study),
        )  # fmt: skip
    except KeyboardInterrupt:
        view.close()
        again = shlex.join(["abps", "tune", *argv])
        print(f"\nInterrupted; every finished episode is saved in {folder}. Go on with: {again}", file=sys.stderr)
        return 130
    finally:
        view.close()
    _print_result(found, folder, arguments, plain=not fixed and arguments.config is None)
    return 0 if found.count("done") else 1


def _dry_run(tuning: Any, folder: Path, arguments: TuneArguments) -> int:
    space = tuning.space.document()
    if arguments.json:
        print(json.dumps({"out": str(folder), "space": space, "rows": []}))
    elif not arguments.quiet:
        import yaml

        episodes = arguments.trials * arguments.seeds * arguments.episodes
        print(yaml.safe_dump(space, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100), end="")
        print(
            f"# {count(arguments.trials, 'trial')} of {count(arguments.seeds, 'run')} in {folder}: at most "
            f"{count(episodes, 'training episode', 'training episodes')}, "
            "less those of trials that are stopped early. The lines above are a file for --space."
        )
    return 0


class _View:
    """What a person sees meanwhile: a bar on a terminal, a line per finished trial elsewhere."""

    def __init__(self, arguments: TuneArguments) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self._total, self._bar, self._told = arguments.trials, None, set[int]()
        self._lines = not (arguments.quiet or arguments.json) and not console.is_terminal
        if not (arguments.quiet or arguments.json or self._lines):
            self._bar = _bar(console, f"{arguments.search} on {arguments.task}", self._total)

    def show(self, tuning: Any, study: Any) -> None:
        """Show how far the study is."""
        if self._bar is None and not self._lines:
            return
        from abps.tuning.results import rows_of

        rows = rows_of(tuning, study)
        ended = [row for row in rows if row.state in ("done", "pruned", "failed")]
        for row in ended:
            if self._lines and row.number not in self._told:
                what = row.reason or f"return {row.value:.4g} after {row.episodes} episodes"
                print(f"trial {row.number}: {row.state}: {what}", file=sys.stderr, flush=True)
            self._told.add(row.number)
        if self._bar is not None:
            done = [row.value for row in rows if row.state == "done" and row.value is not None]
            first = rows[0].value if rows and rows[0].state == "done" else None
            parts = [f"best {max(done):.4g}"] if done else []
            parts += [f"default {first:.4g}"] if first is not None else []
            parts += [f"{number} {word}" for word in ("pruned", "failed") if (number := _count(rows, word))]
            self._bar.update(self._bar.task_ids[0], completed=len(ended), news="  ".join(parts))

    def close(self) -> None:
        """Leave the terminal as it was found."""
        if self._bar is not None:
            self._bar.stop()


def _count(rows: Sequence[Any], state: str) -> int:
    return sum(row.state == state for row in rows)


def _bar(console: Any, name: str, total: int) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("trials"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[news]}"),
        console=console,
        refresh_per_second=4,
    )
    bar.add_task(name, total=total, news="")
    bar.start()
    return bar


def _print_result(found: Any, folder: Path, arguments: TuneArguments, *, plain: bool) -> None:
    if arguments.json:
        print(json.dumps(_json(found, folder), ensure_ascii=False))
        return
    best = found.best
    if arguments.quiet:
        return
    from rich.console import Console

    console = Console()
    wide = Console(width=None if console.is_terminal else 160)
    wide.print(_table(found))
    said = f"{found.count('pruned')} stopped early, {found.count('failed')} failed"
    first = found.default
    default = f"; the settings as they are had {first.value:.4g}" if first.state == "done" and best.number else ""
    which = f"trial {best.number}" if best.number else "the settings as they are"
    print(
        f"Best of {count(len(found.trials), 'trial')} ({said}): {which}, mean return {best.value:.4g} over "
        f"{count(arguments.seeds, 'seed')} after {count(arguments.episodes, 'episode')}{default}."
    )
    print(f"Use it with: {shlex.join(['abps', 'train', arguments.task, '--config', str(folder / 'best.yaml')])}")
    if best.number:
        print("The best of many is partly luck; compare on seeds that were not used here:")
        print(f"  {_check_command(found, arguments) if plain else _train_command(folder, arguments)}")


def _table(found: Any) -> Any:
    """The settings that vary: as they are, the best, and how much each mattered."""
    from rich.table import Table

    from abps.settings import to_dict
    from abps.tuning.space import value_of

    base, importance = to_dict(found.tuning.base.search_config), found.importance
    best = found.best.settings
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("setting", "default", "best", *(["importance"] if importance else [])):
        table.add_column(name, justify="left" if name == "setting" else "right", overflow="fold")
    for name in sorted(found.tuning.space.entries, key=lambda name: -importance.get(name, 0.0)):
        default = value_of(base, name)
        shown = default["kind"] if isinstance(default, dict) else shown_value(default)
        tried = shown_value(best[name]) if name in best else "–"
        cells = [name, shown, tried if found.best.number else shown]
        table.add_row(*cells, *([f"{importance.get(name, 0.0):.2f}"] if importance else []))
    return table


def _check_command(found: Any, arguments: TuneArguments) -> str:
    """The command that holds the best settings against those that were there, on fresh seeds."""
    from abps.settings import to_dict
    from abps.tuning.space import value_of

    base, best = to_dict(found.tuning.base.search_config), found.best.settings
    names = "+".join(f"{arguments.search}.{name}" for name in best)
    before = ":".join(_text(value_of(base, name)) for name in best)
    after = ":".join(_text(value) for value in best.values())
    words = ["abps", "compare", arguments.task, "--searches", arguments.search, "--seeds", "0-4"]
    words += ["--episodes", str(arguments.episodes), "--axis", f"{names}={before},{after}"]
    return shlex.join(words + (["--preset", arguments.preset] if arguments.preset != "cpu" else []))


def _train_command(folder: Path, arguments: TuneArguments) -> str:
    words = ["abps", "train", arguments.task, "--config", str(folder / "best.yaml")]
    return shlex.join([*words, "--episodes", str(arguments.episodes), "--seed", "0"])


def _text(value: Any) -> str:
    return str(value["kind"]) if isinstance(value, dict) else shown_value(value) if value is None else str(value)


def _json(found: Any, folder: Path) -> dict[str, Any]:
    rows = [trial._asdict() for trial in found.trials]
    best = found.best if found.count("done") else None
    return {
        "out": str(folder),
        "config": str(folder / "best.yaml") if best else None,
        "done": found.count("done"),
        "pruned": found.count("pruned"),
        "failed": found.count("failed"),
        "best": best and best._asdict(),
        "default": found.default._asdict() if found.trials else None,
        "importance": found.importance,
        "rows": rows,
    }
