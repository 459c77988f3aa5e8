"""A SLURM array script: one array task per cell, each the same command with `--cell` and its own number."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from abps.errors import ConfigError

__all__ = ["array_script"]

MAX_ARRAY = 1001
"""SLURM's default MaxArraySize; the script's comment says what to do beyond it."""


def array_script(command: Sequence[str], numbers: Sequence[int], *, folder: Path, logs: Path, cores: int = 1) -> str:
    """Return the script.

    Args:
        command: the words of the command that runs one cell when `--cell N` is appended.
        numbers: the cells that are to run.
        folder: where the command is to be run.
        logs: a folder for SLURM's output files.
        cores: cores per cell.

    Raises:
        ConfigError: there is nothing to run.
    """
    if not numbers:
        raise ConfigError("every cell of the grid is done; there is nothing for SLURM to run")
    big = (
        f"# Your cluster may allow fewer than {len(numbers)} array tasks (scontrol show config | grep MaxArraySize).\n"
    )
    return f"""#!/bin/bash
#SBATCH --job-name=abps
#SBATCH --array={_ranges(numbers)}
#SBATCH --cpus-per-task={cores}
#SBATCH --mem-per-cpu=3G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --open-mode=append
#SBATCH --output={_no_blanks(logs)}/cell-%a.log
{big if max(numbers) >= MAX_ARRAY else ""}#
# One array task per cell. Adjust memory, time, partition and account to your cluster, then: sbatch THIS_FILE
# A task that runs out of time has saved every finished episode: submit the script again and it goes on.
# All nodes must see {folder} under this path. The report is made afterwards by the same command without --cell.

set -u
cd {shlex.quote(str(folder))} || exit 1
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# The shell passes SLURM's warning signal on, and waits until the last episode is on disk.
{shlex.join(command)} --cell "$SLURM_ARRAY_TASK_ID" &
cell=$!
trap 'kill -TERM "$cell" 2>/dev/null' TERM INT
wait "$cell"
code=$?
if kill -0 "$cell" 2>/dev/null; then
    wait "$cell"
    code=$?
fi
exit "$code"
"""


def _ranges(numbers: Sequence[int]) -> str:
    """`0-4,7` for 0, 1, 2, 3, 4, 7."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _no_blanks(path: Path) -> str:
    """SLURM reads #SBATCH lines word by word, quoted or not."""
    if re.search(r"\s", str(path)):
        raise ConfigError(
            f"SLURM cannot write its output to {str(path)!r}: the path has blanks in it; take other --runs"
        )
    return str(path)
