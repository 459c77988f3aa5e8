"""Tens of thousands of damaged and hostile files: every loader answers with a clear error or a recorded fallback.

    python benchmarks/kill/fuzz_files.py [--cases 12000] [--seed 0] > benchmarks/kill/fuzz_files.txt

The memory of the process is limited, so that a file that makes a loader believe in an enormous array is found out. The
exit code is 0 only when nothing but `AbpsError` came out and no finished episode was lost.
"""

import argparse
import collections
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))

import fuzzing

MEMORY = 3 * 2**30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", default="mpd")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("error")
    counts: dict[str, collections.Counter[str]] = {target: collections.Counter() for target in fuzzing.TARGETS}
    wrong, started, slowest = 0, time.monotonic(), 0.0
    shm = Path("/dev/shm")  # noqa: S108 (syncing a real disk ten thousand times is not the point here)
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        fixture = fuzzing.Fixture(Path(folder), arguments.search)
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        for number in range(arguments.cases):
            target = fuzzing.TARGETS[number % len(fuzzing.TARGETS)]
            begin = time.monotonic()
            try:
                counts[target][fuzzing.check_case(fixture, target, arguments.seed + number, scratch)] += 1
            except Exception:
                wrong += 1
                counts[target]["WRONG"] += 1
                print(f"case {target!r}, seed {arguments.seed + number}:\n{traceback.format_exc(limit=-4)}", flush=True)
            slowest = max(slowest, time.monotonic() - begin)
    for target, counter in counts.items():
        print(f"{target:22} " + "  ".join(f"{name} {count}" for name, count in sorted(counter.items())))
    print(
        f"{arguments.cases} cases ({arguments.search}): {wrong} wrong; slowest case {slowest:.2f} s; "
        f"{time.monotonic() - started:.0f} s in all"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
