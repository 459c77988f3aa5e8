"""How fast searches learn: the episodes until the centre's evaluated return reaches a target, for several seeds.

    python benchmarks/learning/reach.py ars-swimmer mpd-cheetah --jobs 2     # from the project's folder, inside its
    environment

Every (case, seed) is an ordinary run under `runs/benchmarks`, so an interrupted benchmark goes on where it stopped and
a finished one is only read. The centre is evaluated on fresh episodes that are not counted; a run ends at its target.
"""

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from abps.policies.linear import LinearTanh
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, create_directory, run_path, stamp_versions
from abps.run.loop import train
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.catalogue import task_config

UNDISCOUNTED = {"gamma": 1.0, "reward_scale": 400.0}
"""Swimmer's undiscounted return lies within ± 400."""


@dataclass(frozen=True)
class Case:
    """A search on a task, the return its centre must reach, within how many episodes, in how many of five seeds."""

    search: str
    task: str
    target: float
    episodes: int
    required: int
    evaluate_every: int = 1
    preset: str = "cpu"
    task_changes: dict[str, Any] = field(default_factory=dict)
    search_changes: dict[str, Any] = field(default_factory=dict)


CASES = {
    "ars-swimmer": Case("ars", "swimmer", 325.0, 1000, 3, 10),
    "ars-swimmer-tanh": Case("ars", "swimmer", 325.0, 1000, 3, 10, search_changes={"policy": LinearTanh()}),
    "ars-pendulum": Case("ars", "pendulum", 1000.0, 1000, 3, 2),
    "mpd-swimmer": Case("mpd", "swimmer", 325.0, 700, 4, task_changes=UNDISCOUNTED),
    "gibo-swimmer": Case("gibo", "swimmer", 325.0, 700, 4, task_changes=UNDISCOUNTED),
    "mpd-cheetah": Case("mpd", "cheetah", 1200.0, 1000, 3, preset="paper"),
    "abs-pendulum": Case("abs", "pendulum", 1000.0, 500, 3),
}


class Row(NamedTuple):
    """What one run came to."""

    case: str
    seed: int
    reached_at: int | None
    """Training episodes used when an evaluation of the centre first reached the target."""
    best_centre: float
    episodes: int
    seconds: float


def settings_of(case: Case, seed: int) -> RunSettings:
    """The preset's settings, a budget that ends at the target, and an evaluation of the centre alone."""
    return RunSettings(
        task=replace(task_config(case.task), **case.task_changes),
        search=case.search,
        search_config=replace(search_config(case.search, case.task, case.preset), **case.search_changes),
        budget=BudgetConfig(episodes=case.episodes, target=case.target),
        run=RunConfig(evaluate_every=case.evaluate_every, evaluate_probes="none", checkpoint_every=10),
        seed=seed,
    )


def measure(name: str, seed: int, root: Path) -> Row:
    """Train the run, or go on with it, or only read it when it is done."""
    case = CASES[name]
    settings = settings_of(case, seed)
    path = run_path(root / name, settings)
    if not (path / "config.yaml").exists():
        create_directory(path, settings)
    if not (path / "DONE").exists():
        train(path, settings)
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    seen = [(record["episodes"], record["eval_return"]) for record in records if record["eval_return"] is not None]
    reached = next((episodes for episodes, value in seen if value >= case.target), None)
    last = records[-1]
    return Row(name, seed, reached, max(value for _, value in seen), last["episodes"], last["seconds"])


def table(name: str, rows: list[Row]) -> str:
    """The rows of one case as Markdown, with the verdict under them."""
    case = CASES[name]
    changes = "".join(f", {key} {value}" for key, value in {**case.task_changes, **case.search_changes}.items())
    lines = [
        f"### {name}: centre reaches {case.target:g} within {case.episodes} episodes (preset {case.preset}{changes})",
        "",
        "| seed | reached after (episodes) | best evaluated centre | episodes | seconds |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: row.seed):
        reached = "–" if row.reached_at is None else str(row.reached_at)
        lines.append(f"| {row.seed} | {reached} | {row.best_centre:.1f} | {row.episodes} | {row.seconds:.0f} |")
    count = sum(row.reached_at is not None for row in rows)
    verdict = "passed" if count >= case.required else "NOT passed"
    lines += ["", f"{count} of {len(rows)} seeds reach it (at least {case.required} of 5 wanted): {verdict}.", ""]
    return "\n".join(lines)


def main() -> int:
    """Run what is missing, print the tables; exit code 1 when too few seeds reach their target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, at most one per core")
    parser.add_argument("--runs", type=Path, default=Path("runs/benchmarks"))
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    rows: list[Row] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(measure, name, seed, arguments.runs)
            for name in arguments.cases
            for seed in range(arguments.seeds)
        ]
        for job in as_completed(jobs):
            rows.append(job.result())
            print(f"{time.strftime('%H:%M:%S')} {rows[-1]}", file=sys.stderr, flush=True)
    versions = stamp_versions()
    print(", ".join(f"{name} {versions[name]}" for name in ("abps", "commit", "mujoco")), end="\n\n")
    passed = True
    for name in arguments.cases:
        mine = [row for row in rows if row.case == name]
        print(table(name, mine))
        passed &= sum(row.reached_at is not None for row in mine) >= CASES[name].required
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
