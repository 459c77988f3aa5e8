"""The guide "Comparing searches" in seconds: two searches and a variant, two seeds, on InvertedPendulum.

python examples/comparing_searches.py [folder]
"""

import sys
import tempfile
from pathlib import Path

from abps.cli import main


def compare(folder: Path) -> None:
    """Run a study, run it again, extend it, and look at it."""
    study = [
        "compare",
        "pendulum",
        "--seeds",
        "0-1",
        "--runs",
        str(folder / "runs"),
        "--set",
        "ars.top=1",
    ]
    mpd = ["--set", "mpd.plan.window=6", "--set", "mpd.plan.probes=3", "--set", "mpd.plan.centre_episodes=1"]
    both = [*study, *mpd, "--searches", "mpd,ars", "--axis", "ars.directions=1,2", "--episodes", "12"]

    print("What will run:")
    assert main([*both, "--dry-run"]) == 0
    print("\nRun it:")
    assert main([*both, "--report", str(folder / "report.html")]) == 0
    print("\nOnce more: everything is done already.")
    assert main([*both, "--no-report"]) == 0
    print("\nOne of the variants for longer: it goes on where it stopped.")
    assert main([*study, "--searches", "ars", "--axis", "ars.directions=1", "--episodes", "16", "--no-report"]) == 0
    print("\nHow far all of them are; their curves go to TensorBoard files.")
    assert main(["watch", str(folder / "runs"), "--once", "--tensorboard", str(folder / "tensorboard")]) == 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compare(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            compare(Path(temporary))
