"""Replay all golden journals, those of tests/golden and the longer ones here, and say what differs from abps 0.1.0.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/golden/replay_all.py [PATTERN]

PATTERN selects journals by name, e.g. `full-*`. The exit code says whether all were reproduced.
"""

import sys
import time
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))

from replaying import exact_here, load, replay

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Replay, one line per journal."""
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    folders = [ROOT / "tests" / "golden" / "journals", Path(__file__).parent / "journals"]
    paths = sorted((path for folder in folders for path in folder.glob(f"{pattern}.json")), key=lambda path: path.name)
    wrong = 0
    for path in paths:
        golden, start = load(path), time.perf_counter()
        rows = list(replay(golden))
        pairs = list(zip_longest(golden.rows, rows))
        other = [k for k, (old, new) in enumerate(pairs) if old != new]
        seconds = time.perf_counter() - start
        verdict = "the same, bit for bit" if not other else _difference(pairs, other)
        print(f"{golden.name:40} {len(rows):3} episodes {seconds:5.1f} s  {verdict}", flush=True)
        wrong += bool(other)
        if not exact_here(golden):
            print("  (other numpy, scipy, MuJoCo or processor than at the recording: rounding differs)")
    print(f"{len(paths) - wrong} of {len(paths)} journals are reproduced bit for bit")
    return int(wrong > 0)


def _difference(pairs: list, other: list[int]) -> str:
    old, new = pairs[other[0]]
    if old is None or new is None:
        return f"another number of episodes, from episode {other[0]} on"
    size = abs(old.parameters_norm - new.parameters_norm) / max(old.parameters_norm, 1e-300)
    return f"differs from episode {other[0]} on ({old.role} of iteration {old.iteration}): |θ| by {size:.1e} of itself"


if __name__ == "__main__":
    sys.exit(main())
