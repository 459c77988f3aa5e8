"""The guide "Tuning settings" in seconds: a few trials of ARS on InvertedPendulum, gone on with, and the result used.

    python examples/tuning.py [folder]

Optuna is needed: pip install 'abps[tune]'.
"""

import sys
import tempfile
from pathlib import Path

import abps
from abps.cli import main


def run(folder: Path) -> None:
    """Tune with four trials, then with two more, and train with what was found."""
    words = ["tune", "pendulum", "--search", "ars", "--out", str(folder), "--horizon", "100"]
    words += ["--episodes", "12", "--seeds", "2", "--jobs", "1"]
    print("What varies, as a file for --space:")
    assert main([*words, "--dry-run"]) == 0
    print("\nFour trials, and two more:")
    assert main([*words, "--trials", "4", "--quiet"]) == 0
    assert main([*words, "--trials", "6"]) == 0
    trained = abps.train("pendulum", "ars", config=folder / "best.yaml", episodes=12, seed=0)
    print(f"\nA run with the best settings and a seed of its own: {trained}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run(Path(temporary))
