"""The results table: six tasks × {abs, mpd, ars} × 3 seeds at 300 episodes (preset `cpu`), written to
benchmarks/RESULTS.md.

    python benchmarks/learning/table.py --hours 2         # from the project's folder, inside its environment

One resumable command: cells are ordinary runs under `runs/table`; what is done is skipped, what was cut off goes on,
and the table is written anew from whatever is there, naming the cells that are missing. Cheap cells run first, so that
a short time gives whole rows instead of pieces of all. Only the part of RESULTS.md between the two marks is replaced.
"""

import argparse
import os
import platform
import shlex
import signal
import sys
import time
from pathlib import Path

from abps.cli.study_view import make_view
from abps.run.directory import stamp_versions
from abps.search.ars import ArsConfig
from abps.settings import replace
from abps.study.cells import find
from abps.study.executors import make_executor
from abps.study.grid import Cell, Grid, make_cells, parse_names, parse_seeds
from abps.study.groups import group_runs, improvements, summarise
from abps.study.notices import warnings
from abps.study.records import Run, load_run
from abps.study.report import write_report
from abps.study.schedule import Schedule
from abps.study.summary import markdown_table

TASKS = "pendulum,swimmer,hopper,cheetah,walker,ant"
SEARCHES = "abs,mpd,ars"
BEGIN, END = "<!-- table.py begins -->", "<!-- table.py ends -->"

TASK_COST = {"pendulum": 1.0, "hopper": 2.0, "walker": 3.0, "swimmer": 6.0, "cheetah": 7.0, "ant": 9.0}
SEARCH_COST = {"ars": 1.0, "mpd": 1.5, "abs": 3.0}
"""Rough costs relative to each other; they decide the order and nothing else."""

EVALUATE_EPISODES = 15
"""ARS iterations can be as short as two episodes; evaluating each would cost more than the search. About so many lie
between."""


def main() -> int:
    """Run what is missing, then write the table; 0 only when every cell is done."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cells = _cells(arguments)
    view = make_view(quiet=arguments.quiet)
    deadline = None if arguments.hours is None else time.monotonic() + 3600.0 * arguments.hours
    schedule = Schedule(
        cells, make_executor("local", jobs=arguments.jobs), on_change=view.change, on_tick=view.tick, deadline=deadline
    )
    interrupted = False
    if not arguments.only_write:
        view.begin(schedule)
        try:
            schedule.run()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            view.close()
    missing = _write(cells, arguments)
    print(f"wrote {arguments.out}; {len(cells) - missing} of {len(cells)} cells are done")
    return 130 if interrupted else int(missing > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--hours", type=float, help="stop cleanly after so much time; the same command goes on")
    parser.add_argument("--jobs", type=int, help="cells at the same time (default: as many as there are cores)")
    parser.add_argument("--tasks", default=TASKS, help=f"(default: {TASKS})")
    parser.add_argument("--searches", default=SEARCHES, help=f"(default: {SEARCHES})")
    parser.add_argument("--seeds", default="0-2", help="(default: 0-2)")
    parser.add_argument("--episodes", type=int, default=300, help="per run (default: 300)")
    parser.add_argument("--runs", type=Path, default=Path("runs/table"), help="(default: runs/table)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "RESULTS.md", help="the Markdown file")
    parser.add_argument("--only-write", action="store_true", help="run nothing, write the table from what there is")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser.parse_args()


def _cells(arguments: argparse.Namespace) -> list[Cell]:
    tasks = parse_names(arguments.tasks)
    episodes = {task: int(arguments.episodes) for task in tasks}
    grid = Grid(tasks, parse_names(arguments.searches), parse_seeds(arguments.seeds), episodes)
    cells = [_with_evaluations(cell) for cell in make_cells(grid, arguments.runs)]
    return sorted(cells, key=lambda cell: (_cost(cell), cell.settings.task.name, cell.settings.search, cell.number))


def _cost(cell: Cell) -> float:
    return TASK_COST.get(cell.settings.task.name, 5.0) * SEARCH_COST.get(cell.settings.search, 2.0)


def _with_evaluations(cell: Cell) -> Cell:
    search = cell.settings.search_config
    if not isinstance(search, ArsConfig):
        return cell
    every = max(1, round(EVALUATE_EPISODES / (2 * search.directions)))
    settings = replace(cell.settings, run=replace(cell.settings.run, evaluate_every=every))
    return cell._replace(settings=settings)


def _write(cells: list[Cell], arguments: argparse.Namespace) -> int:
    """Write the table and the report; return how many cells are missing."""
    found = [find(cell.path, cell.settings) for cell in cells]
    missing = [(cell, there) for cell, there in zip(cells, found, strict=True) if there.state != "done"]
    runs = [load_run(cell.path) for cell, there in zip(cells, found, strict=True) if there.state == "done"]
    lines = ["## Learning: six tasks, three searches", "", *_head(arguments, runs), ""]
    if runs:
        groups = group_runs(runs)
        lines += [markdown_table(summarise(groups)), *_pairs(groups), ""]
        lines += [f"- {notice.level}: {notice.text}" for notice in warnings(runs, groups)]
        write_report(runs, arguments.runs / "report.html")
    if missing:
        lines += ["", f"**{len(missing)} of {len(cells)} cells are missing** (episodes so far):", ""]
        listed = (
            f"{cell.name} ({there.episodes}{', failed' if there.state == 'failed' else ''})" for cell, there in missing
        )
        lines.append(", ".join(sorted(listed)) + ".")
    _replace_part(arguments.out, "\n".join(lines).strip())
    return len(missing)


def _head(arguments: argparse.Namespace, runs: list[Run]) -> list[str]:
    versions = stamp_versions()
    commits = sorted({str(run.versions.get("commit", "unknown")) for run in runs}) or [versions["commit"]]
    command = shlex.join(["python", "benchmarks/learning/table.py", *sys.argv[1:]])
    jobs = arguments.jobs or os.cpu_count()
    return [
        f"Made by `{command}` on {time.strftime('%Y-%m-%d')}: {versions['cpu']}, {os.cpu_count()} "
        f"cores, {jobs} runs at a "
        f"time with one thread each, {platform.system()}, Python {versions['python']}, NumPy {versions['numpy']}, "
        f"MuJoCo {versions['mujoco']}, Gymnasium {versions['gymnasium']}; commit{'s' if len(commits) > 1 else ''} "
        f"{', '.join(commits)}.",
        "",
        "Undiscounted returns of fresh evaluation episodes (5 each, not counted as training), at the "
        "episode count that all "
        "searches of a task reached; preset `cpu`. *Current centre* is the policy the search stands "
        "on; *maximum so far* is "
        "the paper's measure, over centres and best probes (ARS: best directions), evaluated every "
        "outer iteration (ARS: "
        f"about every {EVALUATE_EPISODES} episodes). Intervals are 95 % bootstrap percentiles over "
        "seeds; with three seeds "
        "they are too narrow. Minutes are the median wall time of a run, evaluation included, on a "
        "machine that did other "
        "work as well.",
    ]  # fmt: skip


def _pairs(groups: list) -> list[str]:
    pairs = [pair for pair in improvements(groups) if pair.ours < pair.theirs]
    return [
        f"- P({pair.ours} beats {pair.theirs}), maximum so far, over {pair.tasks} task{'s' if pair.tasks > 1 else ''}: "
        f"{pair.estimate.value:.2f} [{pair.estimate.low:.2f}, {pair.estimate.high:.2f}]"
        for pair in pairs
    ]


def _replace_part(path: Path, content: str) -> None:
    """Put `content` between the marks; everything else in the file stays as it is."""
    text = path.read_text() if path.exists() else "# Results\n"
    part = f"{BEGIN}\n{content}\n{END}"
    if BEGIN in text and END in text:
        head, _, rest = text.partition(BEGIN)
        text = head + part + rest.partition(END)[2]
    else:
        text = f"{text.rstrip()}\n\n{part}\n"
    path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
