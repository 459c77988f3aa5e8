"""The guide "On a cluster" without a cluster: print a SLURM array script and run two of its array tasks with bash.

python examples/cluster.py [folder]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from abps.cli import main


def run_as_slurm_would(folder: Path) -> None:
    """Make the script, run its tasks one after the other, then let the same command write the report."""
    study = ["compare", "pendulum", "--searches", "ars", "--seeds", "0-1", "--episodes", "16",
             "--runs", str(folder / "runs")]  # fmt: skip
    command = [sys.executable, "-m", "abps", *study]
    script = folder / "study.sh"
    script.write_text(subprocess.run([*command, "--slurm"], check=True, capture_output=True, text=True).stdout)
    print(script.read_text())
    for number in ("0", "1"):
        subprocess.run(["bash", str(script)], check=True, env={**os.environ, "SLURM_ARRAY_TASK_ID": number})
    assert main([*study, "--report", str(folder / "report.html")]) == 0  # Nothing is left to run.


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_as_slurm_would(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run_as_slurm_would(Path(temporary))
