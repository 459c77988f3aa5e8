"""`abps compare`: a grid of runs, carried out here or on a cluster, and its report."""

import argparse
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abps.cli.train import as_interrupt
from abps.errors import ConfigError
from abps.search.auto import AUTO, choose_search
from abps.search.budget import DEFAULT_EPISODES, BudgetConfig
from abps.search.registry import PRESETS, SEARCHES, listed_searches
from abps.study.executors.base import EXECUTORS
from abps.study.grid import (
    GRIDS,
    Cell,
    Grid,
    NamedGrid,
    make_cells,
    parse_assignment,
    parse_axis,
    parse_names,
    parse_seeds,
)
from abps.study.groups import AXES
from abps.study.records import find_runs, load_runs
from abps.words import count

__all__ = ["ADVICE", "HELP", "configure", "execute"]

HELP = """Run a grid of tasks, searches, seeds and settings, and write a report about it.

Cells that are finished are skipped, broken and unfinished ones go on where they stopped, and cells that another process
is running are waited for. The same command given again after Ctrl-C, a crash or a power loss does only what is missing;
given on several machines with a shared file system, it shares the work."""

ADVICE = "settings are given with their owner's name, e.g. --set abs.plan.paths=2, --set task.gamma=0.98"

PAGE = "docs/guides/which_search.md"

TASK_OPTIONS = ("gamma", "horizon", "env_kwargs", "wrapper", "constraint")
"""Settings of the task that `abps train` and this command give the same option."""

EXAMPLES = """
  abps compare pendulum --searches abs,mpd,ars --seeds 0-2 --episodes 200
  abps compare pendulum --searches all --seeds 0-4 --episodes 60                      is ABS worth it on my task?
  abps compare hopper --searches abs --axis abs.prior.aggregation=softmax,mean    a setting as a further axis
  abps compare hopper --searches abs --axis abs.gp.lengthscale_low+abs.gp.lengthscale_high=0.00125:0.025,0.0025:0.05
  abps compare hopper,cheetah --searches abs,mpd --grid paper-table-1                 the paper's grid search
  abps compare hopper --searches abs,ars --with runs/hopper/td3@imported --x steps    beside imported curves
  abps compare hopper --executor ray --address auto                                   on a Ray cluster
  abps compare hopper --slurm > study.sh && sbatch study.sh                           on a SLURM cluster"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    suits = "\n".join(f"  {name:8}{entry.suits or entry.summary}" for name, entry in SEARCHES.items())
    parser.epilog = f"searches, and what they suit (measured: {PAGE}):\n{suits}\n\nexamples:{EXAMPLES}"
    parser.add_argument(
        "tasks", help="tasks, separated by commas: names from `abps tasks`, Gymnasium ids, module:factory"
    )
    parser.add_argument(
        "--searches", default="abs,mpd,ars",
        help=f"of {', '.join(SEARCHES)}, module:Name of your own; all: every one that is installed; auto: what suits "
        "each task and the episodes (default: abs,mpd,ars)",
    )  # fmt: skip
    parser.add_argument("--seeds", default="0-4", help="e.g. 0-4 or 0,3,7-9 (default: 0-4)")
    parser.add_argument("--episodes", type=int, help="training episodes per run (default: as `abps train`)")
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="cpu: for ordinary computers; paper: as published (default: cpu, or what --grid is about)",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs (default: runs)")
    task = parser.add_argument_group("task; as in `abps train`, for all tasks")
    task.add_argument("--gamma", help="discount of the return that is maximised; the same as --set task.gamma=…")
    task.add_argument("--horizon", help="longest episode in steps")
    task.add_argument(
        "--env-kwargs", action="append", default=[], metavar="KEY=VALUE",
        help="keyword arguments that the environment is made with, or a JSON object; may be repeated",
    )  # fmt: skip
    task.add_argument(
        "--wrapper", action="append", default=[], metavar="NAME",
        help="wrapper around the environment, e.g. FlattenObservation; may be repeated, the innermost first",
    )  # fmt: skip
    task.add_argument(
        "--constraint", action="append", default=[], metavar="NAME<=LIMIT",
        help="cost that episodes keep below a limit, e.g. 'torque<=5'; may be repeated",
    )  # fmt: skip
    grid = parser.add_argument_group("settings; a name begins with the search, task, budget or run it belongs to")
    grid.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="fixed", help="for all cells")
    grid.add_argument(
        "--axis", action="append", default=[], metavar="NAME=V,V,…",
        help="one variant per value, each in a folder of its own; A+B=1:2,3:4 changes two settings together",
    )  # fmt: skip
    grid.add_argument("--grid", choices=tuple(GRIDS), help="axes known by name")
    place = parser.add_argument_group("where it runs")
    place.add_argument("--executor", choices=EXECUTORS, default="local", help="(default: local)")
    place.add_argument("--address", help="of a Ray cluster (default: RAY_ADDRESS, or a new one on this machine)")
    place.add_argument("--jobs", type=int, help="cells at the same time (default: as many as there are cores)")
    place.add_argument(
        "--retries", type=int, default=1, help="times a cell whose process died is started again (default: 1)"
    )
    place.add_argument("--hours", type=float, help="stop cleanly after so much time; the same command goes on")
    place.add_argument(
        "--slurm", action="store_true", help="print a SLURM array script for what is missing, run nothing"
    )
    place.add_argument("--cell", type=int, metavar="N", help="run one cell of the grid in this process (see --dry-run)")
    output = parser.add_argument_group("output")
    output.add_argument("--dry-run", action="store_true", help="list the cells and how far they are, run nothing")
    output.add_argument(
        "--with", action="append", default=[], type=Path, metavar="RUNS", dest="others",
        help="further runs for table and report, e.g. imported ones (`abps import`); may be repeated",
    )  # fmt: skip
    output.add_argument(
        "--x", choices=tuple(AXES), default="episodes", help="what the table compares at (default: episodes)"
    )
    output.add_argument("--report", type=Path, metavar="FILE", help="HTML report (default: report.html in --runs)")
    output.add_argument("--no-report", action="store_true", help="write none")
    output.add_argument("--json", action="store_true", help="print the result as one JSON object")
    output.add_argument("--quiet", action="store_true", help="print errors only")


def execute(arguments: argparse.Namespace) -> int:
    """Do what the arguments say; 0 only when every cell is done."""
    cells = make_cells(_grid(arguments), arguments.runs)
    if arguments.dry_run:
        _check(cells)
        return _list(cells, arguments)
    if arguments.slurm:
        return _print_slurm(cells, arguments)
    if arguments.cell is not None:
        return _run_one(cells, arguments)
    if arguments.others:
        find_runs(arguments.others)  # A wrong path should be known now, not after an hour.
    return _run_all(cells, arguments)


def _grid(arguments: argparse.Namespace) -> Grid:
    tasks, listed = parse_names(arguments.tasks), listed_searches(parse_names(arguments.searches))
    if listed.note and not arguments.quiet:
        print(listed.note, file=sys.stderr)
    searches = listed.names
    if arguments.episodes is not None and arguments.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, got {arguments.episodes}")
    if arguments.retries < 0:
        raise ConfigError(f"--retries must not be negative, got {arguments.retries}")
    if arguments.hours is not None and not arguments.hours > 0:
        raise ConfigError(f"--hours must be positive, got {arguments.hours:g}")
    named = GRIDS.get(arguments.grid, NamedGrid((), "cpu"))
    axes = tuple(axis for axis in named.axes if axis.names[0].partition(".")[0] in searches)
    if arguments.grid and not any(set(axis.tasks) & set(tasks) for axis in axes):
        raise ConfigError(f"the grid {arguments.grid} says nothing about these tasks and searches")
    fixed, episodes = _fixed(arguments), arguments.episodes or DEFAULT_EPISODES
    return Grid(
        tasks=tasks,
        searches=searches,
        seeds=parse_seeds(arguments.seeds),
        episodes=dict.fromkeys(tasks, episodes),
        preset=arguments.preset or named.preset,
        auto=_chosen(tasks, fixed, episodes, quiet=arguments.quiet) if AUTO in searches else {},
        axes=(*axes, *map(parse_axis, arguments.axis)),
        fixed=fixed,
    )


def _fixed(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings that hold for all cells: those of `--set`, and those of the task that have an option of their own."""
    fixed: dict[str, Any] = dict(map(parse_assignment, arguments.fixed))
    for option in TASK_OPTIONS:
        value = getattr(arguments, option)
        if value in (None, []):
            continue
        if f"task.{option}" in fixed:
            raise ConfigError(f"--{option.replace('_', '-')} and --set task.{option} say the same thing; give one")
        fixed[f"task.{option}"] = tuple(value) if isinstance(value, list) else value
    return fixed


def _chosen(tasks: Sequence[str], fixed: Mapping[str, Any], episodes: int, *, quiet: bool) -> dict[str, str]:
    """The search that suits every task."""
    from abps.tasks.gym import make_task

    budget = BudgetConfig(episodes=episodes)
    mine = {name.removeprefix("task."): text for name, text in fixed.items() if name.startswith("task.")}
    chosen = {task: choose_search(make_task(task, **mine).spec, budget) for task in tasks}
    return {task: choice.announce(f"{task}: ", quiet=quiet) for task, choice in chosen.items()}


def _list(cells: Sequence[Cell], arguments: argparse.Namespace) -> int:
    from abps.study.cells import find

    found = [find(cell.path, cell.settings) for cell in cells]
    if arguments.json:
        listed = [
            {"cell": cell.number, "run": str(cell.path), "budget": cell.settings.budget.episodes, **vars(there)}
            for cell, there in zip(cells, found, strict=True)
        ]
        states = [there.state for there in found]
        done, failed = states.count("done"), states.count("failed") + states.count("conflict")
        out = {"done": done, "failed": failed, "missing": len(cells) - done - failed, "cells": listed, "report": None}
        print(json.dumps({**out, "rows": _rows(_runs_of(cells, arguments))}, ensure_ascii=False))
    elif not arguments.quiet:
        for cell, there in zip(cells, found, strict=True):
            budget = cell.settings.budget.episodes
            detail = f"  {there.detail}" if there.state in ("failed", "conflict") else ""
            print(f"{cell.number:5}  {there.state:8} {there.episodes:6}/{budget:<6} {cell.path}{detail}")
        states = [there.state for there in found]
        conflicts = states.count("conflict")
        missing = len(cells) - states.count("done") - conflicts
        other = f", {conflicts} in the way: made with other settings" if conflicts else ""
        print(f"{count(len(cells), 'cell')}, {missing} to run{other}")
    return 1 if any(there.state == "conflict" for there in found) else 0


def _print_slurm(cells: Sequence[Cell], arguments: argparse.Namespace) -> int:
    from abps.study.cells import find
    from abps.study.schedule import check_conflicts
    from abps.study.slurm import array_script

    found = [find(cell.path, cell.settings) for cell in cells]
    check_conflicts(cells, found)
    missing = [cell.number for cell, there in zip(cells, found, strict=True) if there.state != "done"]
    words = [word for word in arguments.argv if word not in ("--slurm", "--json", "--quiet")]
    logs = (arguments.runs / "slurm").resolve()
    logs.mkdir(parents=True, exist_ok=True)  # SLURM does not make the folder of its output files.
    command = [sys.executable, "-m", "abps", "compare", *words]
    cores = max(cell.settings.run.workers for cell in cells)
    print(array_script(command, missing, folder=Path.cwd(), logs=logs, cores=cores), end="")
    return 0


def _run_one(cells: Sequence[Cell], arguments: argparse.Namespace) -> int:
    from abps.study.cells import find, run_cell, single_threaded

    if not 0 <= arguments.cell < len(cells):
        raise ConfigError(
            f"there is no cell {arguments.cell}; the grid has cells 0 to {len(cells) - 1} (see --dry-run)"
        )
    cell = cells[arguments.cell]
    os.environ.update(single_threaded())
    signal.signal(signal.SIGTERM, as_interrupt)
    if find(cell.path, cell.settings).state != "done":
        try:
            run_cell(cell.path, cell.settings)
        except KeyboardInterrupt:
            print(
                f"{cell.name}: interrupted; every finished episode is saved, the same command goes on", file=sys.stderr
            )
            return 130
    there = find(cell.path, cell.settings)
    if arguments.json:
        rows = _rows(_runs_of([cell], arguments))
        print(json.dumps({"cell": cell.number, "run": str(cell.path), **vars(there), "rows": rows}, ensure_ascii=False))
    elif not arguments.quiet:
        print(f"{cell.path}: {there.state} ({count(there.episodes, 'episode')})")
    return 0 if there.state == "done" else 1


def _run_all(cells: Sequence[Cell], arguments: argparse.Namespace) -> int:
    from abps.cli.study_view import make_view
    from abps.study.cells import find
    from abps.study.executors import make_executor
    from abps.study.schedule import Schedule, check_conflicts

    check_conflicts(cells, [find(cell.path, cell.settings) for cell in cells])
    _check(cells)
    signal.signal(signal.SIGTERM, as_interrupt)
    view = make_view(quiet=arguments.quiet or arguments.json)
    workers = max(cell.settings.run.workers for cell in cells)
    executor = make_executor(arguments.executor, jobs=arguments.jobs, address=arguments.address, workers=workers)
    deadline = None if arguments.hours is None else time.monotonic() + 3600.0 * arguments.hours
    schedule = Schedule(cells, executor, arguments.retries, view.change, view.tick, deadline)
    try:
        view.begin(schedule)
        schedule.run()
    except KeyboardInterrupt:
        view.close()
        again = shlex.join(["abps", "compare", *arguments.argv])
        print(
            f"\nInterrupted with {schedule.count('done')} of {len(cells)} cells done; every finished episode is saved. "
            f"Go on with: {again}",
            file=sys.stderr,
        )
        return 130
    finally:
        view.close()
    return _conclude(schedule, arguments)


def _check(cells: Sequence[Cell]) -> None:
    """Make every task and search once: a wrong name or a missing package should be known now, not after an hour."""
    from abps.study.cells import find
    from abps.study.schedule import check_searches
    from abps.tasks.gym import make_task

    specs = {config.name: make_task(config).spec for config in {cell.settings.task for cell in cells}}
    check_searches(cells, [find(cell.path, cell.settings) for cell in cells], specs)


def _conclude(schedule: Any, arguments: argparse.Namespace) -> int:
    """Report, and say how it went."""
    runs = _runs_of([item.cell for item in schedule.states], arguments)
    content: dict[str, Any] = {}
    file = arguments.report or arguments.runs / "report.html"
    if runs and not arguments.no_report:
        from abps.study.report import write_report

        content = write_report(runs, file)
    failed = [item for item in schedule.states if item.state == "failed"]
    missing = schedule.count("waiting", "elsewhere")
    if arguments.json:
        cells = [{"cell": item.cell.number, "run": str(item.cell.path), "state": item.state, "skipped": item.skipped,
                 "message": item.message} for item in schedule.states]  # fmt: skip
        out = {"done": schedule.count("done"), "failed": len(failed), "missing": missing, "cells": cells,
               "report": str(file) if content else None, "rows": content.get("rows") or _rows(runs)}  # fmt: skip
        print(json.dumps(out, ensure_ascii=False))
    else:
        for item in failed:
            print(f"failed: {item.cell.path}: {item.message} (see worker.log there)", file=sys.stderr)
        if not arguments.quiet:
            _print_summary(runs, arguments.x)
            one = len(schedule.states) == 1
            done = f"{schedule.count('done')} of {count(len(schedule.states), 'cell')} {'is' if one else 'are'} done"
            print(f"{done}, {len(failed)} failed, {missing} missing.")
            for notice in content.get("warnings", []):
                if notice["level"] != "note":
                    print(f"{notice['level']}: {notice['text']}")
            if content:
                print(f"The report is {file}")
        if failed or missing:
            print(f"Run what is missing with: {shlex.join(['abps', 'compare', *arguments.argv])}", file=sys.stderr)
    return 1 if failed or missing else 0


def _runs_of(cells: Sequence[Cell], arguments: argparse.Namespace) -> list[Any]:
    """What there is of the cells, and the runs to compare them with."""
    ours = [cell.path for cell in cells if (cell.path / "config.yaml").exists()]
    return load_runs([*ours, *arguments.others]) if ours or arguments.others else []


def _rows(runs: Sequence[Any]) -> list[Any]:
    """The rows of the report, when none is written."""
    from abps.study.report import payload

    return payload(runs)["rows"] if runs else []


def _print_summary(runs: Sequence[Any], axis: str) -> None:
    from rich.console import Console

    from abps.study.groups import group_runs, summarise
    from abps.study.summary import summary_table

    if any(run.metrics for run in runs):
        console = Console()
        # In a file there is no width to keep to; a table that is cut off would be of no use there.
        table = summary_table(summarise(group_runs(runs), axis=axis))
        Console(width=None if console.is_terminal else 160).print(table)
