"""What critics are worth in the loop: the slope of the true return along their direction, in the chart of the search.

    python benchmarks/critics/slopes.py run --task cheetah --seeds 0,3 --at 60,120,200     # goes on where it stopped
    python benchmarks/critics/slopes.py table

A run of ABS with its default settings is stopped after so many episodes. Around its centre the undiscounted return is
measured at antithetic pairs θ ± z, |z| about `SIZE` in the chart, with common seeds: E[z·(J(θ+z) − J(θ−z))/2]·d/SIZE²
is the gradient of the smoothed return. Along a unit direction v the slope is unbiased however noisy the gradient is as
a whole, and comes with a standard error. Critics of several settings are fitted to the same episodes; a step that
changes the actions by 0.03 gains about 0.03 times the slope. Results are appended to `slopes.jsonl`.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "learning"))
from own_tasks import Bench, rows

from abps.arrays import Array
from abps.critics.episodic import EpisodicLstd
from abps.model.advantage import advantage_gradients
from abps.rollouts.episode import run_episode
from abps.search.local import LocalSearch
from abps.search.recipes import fast_abs

RESULTS = Path(__file__).with_name("slopes.jsonl")
SIZE, PAIRS = 0.1, 400
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "4000 steps": {"rows": 4000},
    "16000 steps": {"rows": 16_000},
    "256 features": {"features": 256},
    "512 features": {"features": 512},
    "γ 0.99 alone": {"gammas": (0.99,)},
    "γ 0.95 alone": {"gammas": (0.95,)},
    "value ridge 3 alone": {"value_ridges": (3.0,)},
    "as before: 4000 steps, 128 features, λ 0 and 0.9": {
        "rows": 4000, "features": 128, "traces": (0.0, 0.9), "slope_ridge": 0.1, "off_policy_scale": 0.3
    },
}  # fmt: skip


def searches(task: str, seed: int, marks: list[int]) -> Any:
    """A default run of ABS, given out at the first end of an outer iteration after every mark."""
    bench = Bench(task, seed, [10**9])
    search = fast_abs(task).make(bench.task.spec, seed=seed, name="abs")
    left = list(marks)
    while left:
        query = search.ask()
        done = search.tell(query, [bench.run(query.policy, None) for _ in range(query.episodes)])
        if done is not None and search.episodes >= left[0]:
            yield left.pop(0), bench, search


def gradient_samples(bench: Bench, search: LocalSearch) -> Array:
    """(PAIRS, d): one estimate of the gradient in the chart per antithetic pair."""
    near, rng = search.neighbourhood(), np.random.default_rng(1)
    chart, d = near.coordinates, len(near.theta)

    def value(move: Array, seed: int) -> float:
        policy = search.policies.policy(chart.to_parameters(near.theta + move), near.centre.normaliser)
        return run_episode(bench.fresh, policy, seed).total()

    moves = SIZE / np.sqrt(d) * rng.standard_normal((PAIRS, d))
    differences = np.array([(value(move, seed) - value(-move, seed)) / 2.0 for seed, move in enumerate(moves)])
    return moves * differences[:, None] * d / SIZE**2


def direction(search: LocalSearch, settings: dict[str, Any]) -> Array:
    """The mean of the members' unit gradients in the chart, as the ascent prior takes it."""
    near = search.neighbourhood()
    critics = EpisodicLstd(**settings).make(search.policies, search.objective, search.seed)
    assert search.replay is not None
    assert near.recent_visits is not None
    critics.start_centre(near.centre, search.replay, near.scale)
    gradients = near.coordinates.gradients(advantage_gradients(critics, near.centre, near.recent_visits).T)
    mean = (gradients / np.linalg.norm(gradients, axis=1)[:, None]).mean(axis=0)
    return mean / np.linalg.norm(mean)


def run(arguments: argparse.Namespace) -> None:
    done = {(row["task"], row["seed"], row["at"]) for row in rows(RESULTS)}
    marks = [int(word) for word in arguments.at.split(",")]
    for seed in map(int, arguments.seeds.split(",")):
        if all((arguments.task, seed, mark) in done for mark in marks):
            continue
        for mark, bench, search in searches(arguments.task, seed, marks):
            if (arguments.task, seed, mark) in done:
                continue
            samples = gradient_samples(bench, search)
            halves = samples[::2].mean(axis=0), samples[1::2].mean(axis=0)
            agreement = float(halves[0] @ halves[1] / np.linalg.norm(halves[0]) / np.linalg.norm(halves[1]))
            row: dict[str, Any] = {"task": arguments.task, "seed": seed, "at": mark, "halves": agreement, "slopes": {}}
            row["steepest"] = float(np.linalg.norm(samples.mean(axis=0)) * np.sqrt(max(agreement, 0.0)))
            for name, settings in VARIANTS.items():
                along = samples @ direction(search, settings)
                row["slopes"][name] = [float(along.mean()), float(along.std() / np.sqrt(PAIRS))]
            with RESULTS.open("a") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(row["task"], seed, mark, {name: round(slope[0]) for name, slope in row["slopes"].items()}, flush=True)


def table() -> None:
    found = rows(RESULTS)
    print("| critics | mean slope | " + " | ".join(f"{r['task']} {r['seed']}, {r['at']}" for r in found) + " |")
    print("|---" * (len(found) + 2) + "|")
    for name in VARIANTS:
        slopes = [row["slopes"][name] for row in found]
        cells = " | ".join(f"{mean:.0f} ± {error:.0f}" for mean, error in slopes)
        print(f"| {name} | {np.mean([mean for mean, _ in slopes]):.0f} | {cells} |")
    cells = " | ".join(f"{row['steepest']:.0f}" for row in found)
    print(f"| steepest, about | {np.mean([row['steepest'] for row in found]):.0f} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--task", default="cheetah")
    parser.add_argument("--seeds", default="0,3")
    parser.add_argument("--at", default="60,120,200")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        run(arguments) if arguments.command == "run" else table()


if __name__ == "__main__":
    main()
