"""`abps.compare`: searches on tasks over seeds, in one call, as a table and a report."""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from abps.api.resolve import as_path, whole_number
from abps.api.temporary import TemporaryFolder
from abps.api.trained import TrainedRun
from abps.errors import AbpsError, ConfigError, RunError
from abps.search.auto import AUTO, choose_search
from abps.search.budget import BudgetConfig
from abps.search.registry import listed_searches
from abps.settings import replace
from abps.study.cells import find, run_cell
from abps.study.executors import make_executor
from abps.study.grid import Cell, Grid, make_cells, parse_seeds
from abps.study.groups import Row, group_runs, summarise
from abps.study.records import Run as Record
from abps.study.records import load_run
from abps.study.schedule import Schedule, check_conflicts, check_searches
from abps.study.statistics import Estimate
from abps.study.summary import markdown_table, summary_table
from abps.tasks.gym import Task, TaskLike, make_task

__all__ = ["Comparison", "compare"]

WIDTH = 160


class Comparison:
    """What came of `abps.compare`: a table, the runs behind it, and a report.

    Example:
        >>> import abps
        >>> env = abps.make_task("Pendulum-v1").make_env()
        >>> found = abps.compare(env, ["ars"], seeds=2, episodes=16, settings={"task.horizon": 20})
        >>> [(row["task"], row["search"], row["seeds"]) for row in found]
        [('Pendulum-v1', 'ars', 2)]
        >>> found.runs[1].settings.seed, found.failed
        (1, {})
        >>> found.markdown().splitlines()[-1].startswith("| Pendulum-v1 | ars | 2 | 16 |")
        True
    """

    def __init__(
        self,
        runs: Sequence[TrainedRun],
        records: Sequence[Record],
        failed: Mapping[str, str],
        folder: Path,
        keep: TemporaryFolder | None,
    ) -> None:
        self.runs = tuple(runs)
        """Every run that has results, in the order of seeds, tasks and searches."""
        self.failed = dict(failed)
        """Runs that stopped with an error or are too short to have results, and why."""
        self._records, self._folder, self._keep = records, folder, keep
        self._summary: list[Row] = summarise(group_runs(records))

    @property
    def path(self) -> Path | None:
        """The folder of the runs; None when they are only in memory."""
        return None if self._keep is not None else self._folder

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per task and search: means over seeds with 95 % bootstrap intervals, at the episodes all reached."""
        return [_plain(row) for row in self._summary]

    def report(self, out: str | Path | None = None) -> Path:
        """Write one HTML file about all runs and return its path.

        Args:
            out: the file; None: `report.html` in the folder of the runs, or here when they are only in memory.
        """
        from abps.study.report import write_report

        file = as_path(out, "out") if out is not None else (self.path or Path()) / "report.html"
        write_report(self._records, file)
        return file

    def markdown(self) -> str:
        """The table as Markdown."""
        return markdown_table(self._summary)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._summary)

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=WIDTH, no_color=True, force_jupyter=False).print(summary_table(self._summary))
        failed = "".join(f"failed: {name}: {reason}\n" for name, reason in self.failed.items())
        return text.getvalue() + failed

    def __repr__(self) -> str:
        return str(self).rstrip()

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        return self.markdown()


def compare(
    tasks: TaskLike | Sequence[TaskLike],
    searches: str | Sequence[str] = ("abs", "mpd", "ars"),
    *,
    seeds: int | str | Sequence[int] = 5,
    episodes: int = 300,
    preset: str = "cpu",
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
) -> Comparison:
    """Train every search on every task with every seed, and compare: what `abps compare` does.

    Tasks that another process can make (names, classes and functions of a module) are trained in processes side by
    side; others, such as environment objects, one after the other here.

    Args:
        tasks: one task or several; each as `abps.train` takes it.
        searches: names, or `module:Name` of your own; `all`: every one that is installed; `auto`: what suits each task
            and the episodes (a line on standard error says which).
        seeds: how many (0, 1, 2, …), or which: `[3, 5]`, `"0-4"`.
        episodes: training episodes of every run.
        preset: `cpu`: for ordinary computers; `paper`: as published.
        settings: for all runs, by owner and name: `{"task.gamma": 0.98, "abs.plan.window": 30, "run.workers": 1}`.
        out: folder of the runs, as `abps compare --runs`; the same call goes on where it was interrupted. None: they
            are only in memory.
        jobs: runs at the same time; None: as many as there are cores.

    Raises:
        AbpsError: one sentence about what is wrong, before anything is run; or nothing could be trained at all.

    Example:
        >>> import abps
        >>> found = abps.compare("pendulum", ["ars"], seeds=1, episodes=16, settings={"task.horizon": 20})
        >>> [(row["search"], row["seeds"]) for row in found]
        [('ars', 1)]
        >>> found.report("comparison.html").name
        'comparison.html'
    """
    if settings is not None and not isinstance(settings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"settings must be a dictionary like {{'task.gamma': 0.98}}, got {settings!r:.80}")
    if jobs is not None:
        whole_number(jobs, "jobs", 1)
    changes = dict(settings or {})
    mine = {name.removeprefix("task."): changes.pop(name) for name in list(changes) if name.startswith("task.")}
    made = _made_tasks(tasks, mine)
    names, length = _names(searches), whole_number(episodes, "episodes", 1)
    grid = Grid(
        tasks=tuple(made),
        searches=names,
        seeds=_seeds(seeds),
        episodes=dict.fromkeys(made, length),
        preset=preset,
        auto=_chosen(made, length) if AUTO in names else {},
        fixed={name: str(value) for name, value in changes.items()},
    )
    keep = TemporaryFolder() if out is None else None
    folder = keep.path if keep is not None else as_path(out, "out")
    cells = [_with_task(cell, made) for cell in make_cells(grid, folder)]
    there = [find(cell.path, cell.settings) for cell in cells]
    check_conflicts(cells, there)
    check_searches(cells, there, {name: task.spec for name, task in made.items()})
    failed = {**_side_by_side(cells, made, jobs), **_one_by_one(cells, made)}
    return _comparison(cells, made, failed, folder, keep)


def _made_tasks(tasks: Any, changes: Mapping[str, Any]) -> dict[str, Task]:
    """The tasks by name; wrong ones are known before anything runs."""
    listed = list(tasks) if isinstance(tasks, list | tuple) else [tasks]
    made: dict[str, Task] = {}
    for source in listed:
        task = make_task(source, **changes)
        if task.config.name in made:
            raise ConfigError(f"two tasks are called {task.config.name!r}; a task is compared once")
        made[task.config.name] = task
    return made


def _names(searches: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(searches, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"searches must be a name or a list of names, got {searches!r:.80}")
    listed = [searches] if isinstance(searches, str) else list(searches)
    for item in listed:
        if not isinstance(item, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"searches are compared by name, got {item!r:.80}; `abps.register_search` gives it one")
    found = listed_searches(name.strip() for item in listed for name in item.split(",") if name.strip())
    if found.note:
        print(found.note, file=sys.stderr)
    return found.names


def _chosen(made: Mapping[str, Task], episodes: int) -> dict[str, str]:
    """The search that suits every task."""
    budget = BudgetConfig(episodes=episodes)
    return {name: choose_search(task.spec, budget).announce(f"{name}: ") for name, task in made.items()}


def _seeds(seeds: int | str | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, str):
        return parse_seeds(seeds)
    if hasattr(seeds, "__index__"):
        return tuple(range(whole_number(seeds, "seeds", 1)))
    try:
        return tuple(dict.fromkeys(whole_number(seed, "a seed", 0) for seed in seeds))  # type: ignore[union-attr]
    except TypeError as error:
        raise ConfigError(f"seeds are a number, a list, or a text like '0-4', got {seeds!r:.80}") from error


def _with_task(cell: Cell, made: Mapping[str, Task]) -> Cell:
    """The cell with the task that was made, which a name alone need not say."""
    task = made[cell.settings.task.name]
    return cell._replace(settings=replace(cell.settings, task=task.config))


def _side_by_side(cells: Sequence[Cell], made: Mapping[str, Task], jobs: int | None) -> dict[str, str]:
    """Carry out the cells whose tasks other processes can make; return why some failed."""
    portable = [cell for cell in cells if made[cell.settings.task.name].portable]
    if not portable:
        return {}
    workers = max(cell.settings.run.workers for cell in portable)
    schedule = Schedule(portable, make_executor("local", jobs=jobs, workers=workers))
    schedule.run()
    return {item.cell.name: item.message for item in schedule.states if item.state == "failed"}


def _one_by_one(cells: Sequence[Cell], made: Mapping[str, Task]) -> dict[str, str]:
    """Carry out the other cells in this process; return why some failed."""
    failed: dict[str, str] = {}
    for cell in cells:
        task = made[cell.settings.task.name]
        if task.portable or find(cell.path, cell.settings).state == "done":
            continue
        try:
            run_cell(cell.path, cell.settings, task)
        except AbpsError as error:
            failed[cell.name] = str(error)
    return failed


def _comparison(
    cells: Sequence[Cell],
    made: Mapping[str, Task],
    failed: Mapping[str, str],
    folder: Path,
    keep: TemporaryFolder | None,
) -> Comparison:
    there = [cell for cell in cells if (cell.path / "metrics.jsonl").is_file()]
    nothing = [cell.name for cell in cells if cell not in there and cell.name not in failed]
    failed = {**failed, **dict.fromkeys(nothing, "no outer iteration was finished; give it more episodes")}
    if not there or len(failed) == len(cells):
        raise RunError(f"no run of {len(cells)} came to its end: {next(iter(failed.values()))}")
    runs = [TrainedRun(cell.path, cell.settings, made[cell.settings.task.name], keep) for cell in there]
    return Comparison(runs, [load_run(cell.path) for cell in there], failed, folder, keep)


def _plain(row: Row) -> dict[str, Any]:
    """A row of the table as plain numbers."""
    found: dict[str, Any] = {"task": row.task, "search": row.label, "seeds": row.runs, "episodes": row.episodes}
    for name, quantity in (("current", "centre_return"), ("maximum", "max_return")):
        estimate: Estimate | None = row.scores["mean"].get(quantity)
        found[name] = None if estimate is None else estimate.value
        found[f"{name}_low"] = None if estimate is None else estimate.low
        found[f"{name}_high"] = None if estimate is None else estimate.high
    return {**found, "steps": row.steps, "minutes": row.minutes}
