"""How reliably the robot of examples/hardware_cartpole.py learns in sixty episodes, from nothing and from a controller.

    python benchmarks/hardware/cartpole.py           # what is missing in cartpole.jsonl, then cartpole.txt anew
    rm benchmarks/hardware/cartpole.jsonl            # before it: everything is measured again

The episodes, their seeds and the search are those of the example; only the files between them are left out. Every run
is a line of `cartpole.jsonl` when it ends, so that the command goes on where it was stopped. `docs/hardware.md` quotes
`cartpole.txt`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import abps
from abps.policies.imitation import from_gains

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from hardware_cartpole import HAND_TUNED, run_episode

SPEC = abps.TaskSpec("cartpole", 4, 1, (-10.0,), (10.0,), horizon=500)
STARTS = ("from nothing", "from the hand-tuned controller")
RESULTS = Path(__file__).with_name("cartpole.jsonl")


def learn(seed: int, hand_tuned: bool) -> dict[str, float]:
    """One run: the return before, and the mean and the worst of ten episodes of the current policy after sixty."""
    search, begin = abps.make_search("abs", SPEC, seed=seed, budget=abps.BudgetConfig(episodes=60)), time.perf_counter()
    if hand_tuned:
        search.start_from(from_gains(search.policies, HAND_TUNED).parameters)
    first = episode(search.incumbent, 10**6).total()
    while not search.stop():
        query = search.ask()
        numbers = range(search.episodes, search.episodes + query.episodes)
        search.tell(query, [episode(query.policy, 1000 * seed + number) for number in numbers])
    fresh = [episode(search.incumbent, 10**6 + trial).total() for trial in range(10)]
    found = {"before": first, "mean": float(np.mean(fresh)), "worst": min(fresh)}
    return {**found, "seconds": time.perf_counter() - begin}


def episode(policy: abps.Policy, seed: int) -> abps.Trajectory:
    """As the robot runs it: from the policy's arrays, with numpy."""
    arrays = run_episode({**policy.arrays(), "horizon": SPEC.horizon}, seed)
    fell = arrays.pop("terminated")
    return abps.Trajectory.build(**arrays, terminated=fell, truncated=not fell)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(seeds: int, out: Path) -> None:
    """Measure what is missing."""
    done = {(row["start"], row["seed"]) for row in rows(out)}
    for seed in range(seeds):
        for start in STARTS:
            if (start, seed) not in done:
                row = {"start": start, "seed": seed, **learn(seed, start != STARTS[0])}
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(start, seed, f"{row['mean']:.1f}", flush=True)


def table(out: Path) -> str:
    """The text of `cartpole.txt`."""
    lines: list[str] = []
    for start in STARTS:
        lines.append(f"{start}: seed, return before, mean and worst of ten episodes after 60")
        found = sorted((row for row in rows(out) if row["start"] == start), key=lambda row: row["seed"])
        lines += [f"{row['seed']:4d} {row['before']:7.1f} {row['mean']:7.1f} {row['worst']:7.1f}" for row in found]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results; the text goes beside them, as .txt")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        run(arguments.seeds, arguments.out)
    arguments.out.with_suffix(".txt").write_text(table(arguments.out))


if __name__ == "__main__":
    main()
