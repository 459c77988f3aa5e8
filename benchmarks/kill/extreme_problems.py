"""Every search on 200 random small problems with extreme scales: each must run to the end, without a warning.

    python benchmarks/kill/extreme_problems.py [--problems 200] [--first 0] > benchmarks/kill/extreme_problems.txt

The exit code is 0 only when every search survives every problem.
"""

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))

import extremes
import killing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--searches", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    failed = 0
    seeds = range(arguments.first, arguments.first + arguments.problems)
    for search in arguments.searches.split(",") if arguments.searches else killing.searches():
        started, wrong, fallbacks = time.monotonic(), 0, Counter()
        for seed in seeds:
            task = extremes.problem(seed)
            try:
                metrics = extremes.solve(search, task)
                fallbacks.update(
                    name for name in ("fit_fallback", "acquisition_fallbacks", "critics_diverged") if metrics.get(name)
                )
            except Exception:
                wrong += 1
                print(
                    f"{search}, problem {seed} ({task.kind}, scale "
                    f"{task.scale:.1e}):\n{traceback.format_exc(limit=-4)}",
                    flush=True,
                )
        noted = ", ".join(f"{name} in {count}" for name, count in sorted(fallbacks.items())) or "none"
        print(
            f"{search:6} {len(seeds) - wrong} of {len(seeds)} problems run to the end; fallbacks "
            "noted in the last iteration: "
            f"{noted}; {time.monotonic() - started:.0f} s",
            flush=True,
        )
        failed += wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
