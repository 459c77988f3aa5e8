"""Runs of several searches side by side at a few numbers of episodes: returns, and the minutes it took to get there.

    abps compare hopper,cheetah --searches abs,mpd,ars --seeds 0-2 --episodes 1000 --runs runs/critics --preset paper \\
        --axis abs.prior.aggregation=softmax,marginal --axis abs.prior.critics=lstd,droq
    python benchmarks/learning/milestones.py runs/critics --at 500 1000

A cell shows the median over seeds and, in brackets, the lowest and highest. A run that has not come as far is left out
there, and the number of runs that did is shown when it is not all of them.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from abps.study.groups import Group, group_runs, points
from abps.study.records import Run, load_runs
from abps.study.statistics import on_grid

QUANTITIES = (
    ("centre_return", "current centre"),
    ("max_return", "maximum so far"),
    ("centre_discounted", "current centre, discounted"),
    ("max_discounted", "maximum so far, discounted"),
)
SHORT = 0.95
"""An outer iteration seldom ends exactly at a milestone: a run that has come so far of the way counts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="run directories, or folders with runs in them")
    parser.add_argument("--at", type=float, nargs="+", default=[500, 1000], help="episodes (default: 500 1000)")
    arguments = parser.parse_args()
    groups = group_runs(load_runs(arguments.runs))
    for task in dict.fromkeys(group.task for group in groups):
        print(f"### {task}\n")
        print("\n".join(table([group for group in groups if group.task == task], arguments.at)), end="\n\n")


def table(groups: list[Group], marks: list[float]) -> list[str]:
    """The searches of one task as Markdown rows, one row per search and milestone."""
    heads = ["search", "episodes", *(head for _, head in QUANTITIES), "minutes"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for group in groups:
        runs = [*group.runs, *group.left_out]  # Those under way count as far as they have come.
        for mark in marks:
            there = [run for run in runs if len(run.metrics) and run.column("episodes")[-1] >= SHORT * mark]
            if not there:
                continue
            cells = [spread([at(run, name, mark) for run in there]) for name, _ in QUANTITIES]
            minutes = float(np.median([seconds_until(run, mark) for run in there])) / 60
            count = "" if len(there) == len(runs) else f" ({len(there)} of {len(runs)} runs)"
            lines.append(f"| {group.label} | {mark:g}{count} | {' | '.join(cells)} | {minutes:.1f} |")
    return lines


def at(run: Run, quantity: str, mark: float) -> float:
    """The last value of a quantity up to a number of episodes."""
    x, y = points(run, quantity, "episodes")
    return float(on_grid(x, y, [mark])[0]) if len(x) else np.nan


def seconds_until(run: Run, mark: float) -> float:
    """Wall time until a number of episodes, evaluation included."""
    before: NDArray[np.bool_] = run.column("episodes") <= mark
    return float(run.column("seconds")[before][-1]) if before.any() else np.nan


def spread(values: list[float]) -> str:
    """Median (lowest … highest)."""
    return f"{float(np.median(values)):.0f} ({min(values):.0f} … {max(values):.0f})"


if __name__ == "__main__":
    main()
