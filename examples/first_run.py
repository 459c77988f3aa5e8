"""The guide "A first run" in seconds: train a policy, look at its run, train it longer, and use it.

    python examples/first_run.py [folder]

Every step is a call of the command line, as you would type it; the last one is Python.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import abps
from abps.cli import main


def first_run(folder: Path) -> None:
    """Train, evaluate, report, go on; then act with the policy."""
    run = folder / "pendulum" / "ars" / "seed-1"
    train = ["train", "pendulum", "--search", "ars", "--seed", "1", "--runs", str(folder), "--quiet"]
    assert main([*train, "--episodes", "60"]) == 0
    print("\nFresh episodes of its current policy, and of the best it ever evaluated:")
    assert main(["evaluate", str(run), "--episodes", "5"]) == 0
    assert main(["evaluate", str(run), "--episodes", "5", "--which", "best"]) == 0
    print("\nThe same run, trained for longer:")
    assert main(["resume", str(run), "--episodes", "90", "--quiet"]) == 0
    print("\nOne HTML file with curves and settings:")
    assert main(["report", str(run)]) == 0

    policy = abps.load_policy(run / "policy" / "current.npz")
    print(f"\nWhat it does when the pole leans a little: {policy(np.array([0.0, 0.01, 0.0, 0.0]))}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        first_run(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            first_run(Path(temporary))
