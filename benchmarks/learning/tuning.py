"""What tuning gains: settings found by `abps.tune` against the defaults, on seeds that the tuning never saw.

    python benchmarks/learning/tuning.py run --task cartpole     # goes on where it stopped; the study is in tune/
    python benchmarks/learning/tuning.py table                   # of everything that was run

A study has 20 trials of 3 runs of 60 episodes, with the default space. Then both settings train with ten fresh seeds,
and twenty fresh episodes judge each current policy. Results are appended to `tuning.jsonl`, one line per run.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from tasks import TASKS
from tasks import make_task as make_env

import abps

RESULTS = Path(__file__).with_name("tuning.jsonl")
TRIALS, EPISODES, SEEDS, JUDGING = 20, 60, 3, 20
FRESH = range(500, 510)


def tuned(name: str, search: str, out: Path) -> abps.TuningResult:
    """The study of a task, begun or gone on with."""
    words = {"trials": TRIALS, "episodes": EPISODES, "seeds": SEEDS, "horizon": TASKS[name].horizon}
    return abps.tune(make_env(name), search, out=out / name / search, name=name, **words)


def run(name: str, search: str, out: Path) -> None:
    """Tune, then train both settings with fresh seeds; what is in the results already is skipped."""
    began = time.perf_counter()
    found = tuned(name, search, out)
    print(found, f"{time.perf_counter() - began:.0f} s", found.best.settings, found.importance)
    known = {(row["task"], row["search"], row["settings"], row["seed"]) for row in rows()}
    base = found.tuning.base.search_config
    for seed in FRESH:
        for which, config in (("default", base), ("tuned", found.search_config)):
            if (name, search, which, seed) in known:
                continue
            env = make_env(name)
            trained = abps.train(
                env, config, seed=seed, episodes=EPISODES, horizon=TASKS[name].horizon, evaluate_every=0
            )
            mean = trained.evaluate(JUDGING, seed=seed).mean
            row = {"task": name, "search": search, "settings": which, "seed": seed, "return": mean}
            study = {"default": found.default.value, "tuned": found.best.value}[which]
            with RESULTS.open("a") as file:
                file.write(json.dumps({**row, "in_study": study, "changes": found.best.settings}) + "\n")
            print(row, flush=True)


def rows() -> list[dict[str, float | int | str]]:
    """What was run."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table() -> None:
    """Means over fresh seeds, beside what the study itself said."""
    groups: dict[tuple[str, str], dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows():
        groups[row["task"], row["search"]][row["settings"]].append(row)
    print("| task | search | settings | in the study (3 seeds) | fresh seeds: mean | std | median | n |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for (task, search), kinds in groups.items():
        for which, found in kinds.items():
            values = np.array([row["return"] for row in found])
            cells = [found[0]["in_study"], values.mean(), values.std(), np.median(values)]
            shown = " | ".join(f"{cell:.1f}" for cell in cells)
            print(f"| {task} | {search} | {which} | {shown} | {len(values)} |")
        ours = {row["seed"]: row["return"] for row in kinds["tuned"]}
        gains = np.array([ours[row["seed"]] - row["return"] for row in kinds["default"] if row["seed"] in ours])
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        print(
            f"| {task} | {search} | gain, seed by seed | | {gains.mean():.1f} ± {error:.1f} (s.e.) | | | {len(gains)} |"
        )


def main() -> None:
    """Do what the words say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--task", choices=tuple(TASKS), default="cartpole")
    parser.add_argument("--search", default="abs")
    parser.add_argument("--out", type=Path, default=Path("tune"))
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.task, arguments.search, arguments.out)
    else:
        table()


if __name__ == "__main__":
    main()
