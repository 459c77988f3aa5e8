"""How fast ARS learns: the episodes until the centre's evaluated return reaches a target, for several seeds.

    python benchmarks/learning/ars.py --jobs 2            # from the project's folder, inside its environment

Every (task, seed) is an ordinary run under `runs/benchmarks`, so an interrupted benchmark goes on where it stopped and a
finished one is only read. The centre is evaluated on fresh episodes that are not counted; a run ends at its target.
"""

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from abps.config import BudgetConfig, RunConfig
from abps.presets import search_config, task_config
from abps.run.directory import RunSettings, create_directory, run_path, stamp_versions
from abps.run.loop import train


class Case(NamedTuple):
    """A task with the return its centre must reach, and how many outer iterations lie between two evaluations."""

    task: str
    target: float
    evaluate_every: int


class Row(NamedTuple):
    """What one run came to."""

    task: str
    seed: int
    reached_at: int | None
    """Training episodes used when an evaluation of the centre first reached the target."""
    best_centre: float
    episodes: int
    seconds: float


CASES = {"swimmer": Case("swimmer", 325.0, 10), "pendulum": Case("pendulum", 1000.0, 2)}
EPISODES = 1000
REQUIRED = 3


def settings_of(case: Case, seed: int, preset: str) -> RunSettings:
    """The preset's settings, a budget that ends at the target, and an evaluation of the centre alone."""
    return RunSettings(
        task=task_config(case.task, "ars", preset),
        search="ars",
        search_config=search_config("ars", case.task, preset),
        budget=BudgetConfig(episodes=EPISODES, target=case.target),
        run=RunConfig(evaluate_every=case.evaluate_every, evaluate_probes="none", checkpoint_every=10),
        seed=seed,
    )


def measure(case: Case, seed: int, preset: str, root: Path) -> Row:
    """Train the run, or go on with it, or only read it when it is done."""
    settings = settings_of(case, seed, preset)
    path = run_path(root / preset, settings)
    if not (path / "config.yaml").exists():
        create_directory(path, settings)
    if not (path / "DONE").exists():
        train(path, settings)
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    seen = [(record["episodes"], record["eval_return"]) for record in records if record["eval_return"] is not None]
    reached = next((episodes for episodes, value in seen if value >= case.target), None)
    last = records[-1]
    return Row(case.task, seed, reached, max(value for _, value in seen), last["episodes"], last["seconds"])


def table(case: Case, rows: list[Row]) -> str:
    """The rows of one task as Markdown, with the verdict under them."""
    lines = [
        f"### {case.task}: centre reaches {case.target:g} within {EPISODES} episodes",
        "",
        "| seed | reached after (episodes) | best evaluated centre | episodes | seconds |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: row.seed):
        reached = "–" if row.reached_at is None else str(row.reached_at)
        lines.append(f"| {row.seed} | {reached} | {row.best_centre:.1f} | {row.episodes} | {row.seconds:.0f} |")
    count = sum(row.reached_at is not None for row in rows)
    verdict = "passed" if count >= REQUIRED else "NOT passed"
    return "\n".join(
        [*lines, "", f"{count} of {len(rows)} seeds reach it (at least {REQUIRED} wanted): {verdict}.", ""]
    )


def main() -> int:
    """Run what is missing, print the tables; exit code 1 when too few seeds reach their target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--preset", default="cpu", help="cpu: the original ARS; paper: the ABS paper's variant")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, at most one per core")
    parser.add_argument("--runs", type=Path, default=Path("runs/benchmarks"))
    arguments = parser.parse_args()
    rows: list[Row] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(measure, CASES[task], seed, arguments.preset, arguments.runs)
            for task in arguments.tasks
            for seed in range(arguments.seeds)
        ]
        for job in as_completed(jobs):
            rows.append(job.result())
            print(f"{time.strftime('%H:%M:%S')} {rows[-1]}", file=sys.stderr, flush=True)
    versions = stamp_versions()
    print(
        f"preset {arguments.preset}, " + ", ".join(f"{name} {versions[name]}" for name in ("abps", "commit", "mujoco"))
    )
    print()
    passed = True
    for task in arguments.tasks:
        mine = [row for row in rows if row.task == task]
        print(table(CASES[task], mine))
        passed &= sum(row.reached_at is not None for row in mine) >= REQUIRED
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
