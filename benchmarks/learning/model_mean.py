"""Does the return in a learned model of the task help ABS, beside its critics or instead of them?

    python benchmarks/learning/model_mean.py run                      # goes on where it stopped
    python benchmarks/learning/model_mean.py table                    # medians [lowest, highest] of everything run

`abs` is the recipe with its default settings; `beside` adds the model-based mean to the critics' (prior `model-based`
around `ascent`); `instead` has a constant beside the model and no critics. Everything else is the same, settings of the
model-based prior are its defaults for every task. What is evaluated is the current policy, by ten fresh episodes, as in
`own_tasks.py`. Results are appended to `model_mean.jsonl`, one line per run.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from own_tasks import Bench, seeds_of
from threadpoolctl import threadpool_limits

from abps.model.model_prior import ModelBasedPrior
from abps.search.local import LocalSearchConfig
from abps.search.registry import search_config
from abps.settings import replace

RESULTS = Path(__file__).with_name("model_mean.jsonl")
VARIANTS = ("abs", "beside", "instead")


def variant(name: str, task: str) -> LocalSearchConfig:
    """The settings of a variant."""
    config = search_config("abs", task)
    assert isinstance(config, LocalSearchConfig)
    if name == "abs":
        return config
    return replace(config, prior=ModelBasedPrior(beside=config.prior) if name == "beside" else ModelBasedPrior())


def train(task: str, seed: int, marks: list[int], name: str) -> dict[str, Any]:
    """One run, and what came of it."""
    bench, begin, weights = Bench(task, seed, marks), time.perf_counter(), []
    search = variant(name, task).make(bench.task.spec, seed=seed, name=name)
    while bench.episodes < marks[-1]:
        query = search.ask()
        search.tell(query, [bench.run(query.policy, lambda: search.incumbent) for _ in range(query.episodes)])
        weights.append(getattr(search.prior.memory, "weight", float("nan")))
    thinking = time.perf_counter() - begin - sum(bench.seconds.values())
    row = {"search": name, "task": task, "seed": seed, "returns": {m: v[0] for m, v in bench.returns.items()}}
    return {**row, "seconds_thinking": thinking, "weight": float(np.mean(weights))}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(arguments: argparse.Namespace) -> None:
    marks = sorted(int(word) for word in arguments.marks.split(","))
    done = {(row["search"], row["task"], row["seed"]) for row in rows(arguments.results)}
    for task in arguments.tasks.split(","):
        for seed in seeds_of(arguments.seeds):
            for name in arguments.searches.split(","):
                if (name, task, seed) not in done:
                    row = train(task, seed, marks, name)
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    shown = {mark: round(value, 1) for mark, value in row["returns"].items()}
                    print(
                        name, task, seed, shown, f"{row['seconds_thinking']:.0f} s", f"{row['weight']:.2f}", flush=True
                    )


def table(path: Path) -> None:
    """A row per task and variant."""
    found = rows(path)
    print("| task | prior | seeds | return of the current policy: median [lowest, highest] | mean β | thinking, s |")
    print("|---|---|---|---|---|---|")
    for task in dict.fromkeys(row["task"] for row in found):
        for name in VARIANTS:
            mine = [row for row in found if (row["task"], row["search"]) == (task, name)]
            if mine:
                cells = []
                for mark in mine[0]["returns"]:
                    values = [row["returns"][mark] for row in mine]
                    cells.append(f"{mark}: **{np.median(values):.4g}** [{min(values):.4g}, {max(values):.4g}]")
                weight, thinking = (np.mean([row[key] for row in mine]) for key in ("weight", "seconds_thinking"))
                shown = "–" if np.isnan(weight) else f"{weight:.2f}"
                print(f"| {task} | {name} | {len(mine)} | {'; '.join(cells)} | {shown} | {thinking:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--tasks", default="cart,cartpole,arm,quadrotor")
    parser.add_argument("--searches", default=",".join(VARIANTS))
    parser.add_argument("--seeds", default="300-304")
    parser.add_argument("--marks", default="30,60")
    parser.add_argument("--results", type=Path, default=RESULTS, help="another file: everything is made anew")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        run(arguments) if arguments.command == "run" else table(arguments.results)


if __name__ == "__main__":
    main()
