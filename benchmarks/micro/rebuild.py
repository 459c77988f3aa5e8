"""Whole searches before and after the inside was rebuilt, in one run, as ratios: the same journals, told again.

    git worktree add /tmp/abps-0.1.0 db8d57b
    python benchmarks/micro/rebuild.py /tmp/abps-0.1.0

Each search is run in turn by the old and the new code, in processes of their own; the best of three counts. What a run
of a single episode takes (reading the command line, making the task) is shown first and subtracted from the others.
"""

import subprocess
import sys
import time

CASES = {
    "start": ["hopper", "--search", "ars", "--episodes", "1"],
    "mpd hopper": ["hopper", "--search", "mpd", "--preset", "paper", "--episodes", "92"],
    "gibo hopper": ["hopper", "--search", "gibo", "--preset", "paper", "--episodes", "92"],
    "ars hopper": ["hopper", "--search", "ars", "--episodes", "160"],
    "mpd cheetah": ["cheetah", "--search", "mpd", "--preset", "paper", "--episodes", "90"],
}
REPEATS = 3


def seconds(source: str, words: list[str], number: int) -> float:
    """The time that one training run takes, without the start of Python."""
    code = (
        "import sys, time; from abps.cli import main; import abps.run.loop, abps.tasks.gym;"
        f"start = time.process_time(); main({['train', *words, '--quiet', '--evaluate-every', '0']!r}"
        f" + ['--runs', '/tmp/rebuild-{number}', '--overwrite']); print(time.process_time() - start)"
    )
    environment = {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    sources = (f"{sys.argv[1]}/src", "src")
    print(time.strftime("%Y-%m-%d"), "| CPU seconds of a run: old, new, ratio new/old")
    start = [0.0, 0.0]
    for name, words in CASES.items():
        times = [[seconds(source, words, place) for place, source in enumerate(sources)] for _ in range(REPEATS)]
        old, new = (min(column) - already for column, already in zip(zip(*times, strict=True), start, strict=True))
        print(f"{name:14} {old:7.2f} {new:7.2f} {new / old:6.2f}", flush=True)
        start = [old, new] if name == "start" else start


if __name__ == "__main__":
    main()
