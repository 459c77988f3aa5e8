"""A policy as one Python file that needs numpy and nothing else."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from abps.arrays import Array
from abps.export.form import LinearPolicyArrays, literal, safe_text

__all__ = ["act_numpy", "write_numpy"]

FILE = "policy.py"

TEMPLATE = '''"""Deterministic policy for "{task}", exported by abps: {a} actions from {s} observations. Needs numpy only.

    from policy import act
    action = act(observation)        # ({s},) -> ({a},); also (n, {s}) -> (n, {a})

As a program it reads one observation per line (numbers separated by spaces) and prints one action per line.
"""

import numpy as np

WEIGHTS = np.array([
{weights}
])
OBSERVATION_MEAN = np.array([{mean}])
OBSERVATION_STD = np.array([{std}])
ACTION_LOW = np.array([{low}])
ACTION_HIGH = np.array([{high}])
ACTION_CENTRE = (ACTION_HIGH + ACTION_LOW) / 2.0
ACTION_HALF = (ACTION_HIGH - ACTION_LOW) / 2.0


def act(observation):
    """Return the action for an observation; the raw one, it is normalised here."""
    observation = np.asarray(observation, dtype=np.float64)
    if observation.shape[-1:] != OBSERVATION_MEAN.shape:
        raise ValueError(f"expected {s} numbers in an observation, got the shape {{observation.shape}}")
    latent = (observation - OBSERVATION_MEAN) / OBSERVATION_STD @ WEIGHTS.T
    return {squash}


if __name__ == "__main__":
    import sys

    for line in sys.stdin:
        print(*(repr(float(value)) for value in act(np.array(line.split(), dtype=np.float64))))
'''

SQUASH = {
    "tanh": "ACTION_CENTRE + ACTION_HALF * np.tanh(latent)",
    "clip": "np.clip(ACTION_CENTRE + latent, ACTION_LOW, ACTION_HIGH)",
}


def write_numpy(form: LinearPolicyArrays, directory: Path) -> list[Path]:
    """Write `policy.py`; return the files."""
    path = Path(directory) / FILE
    rows = "\n".join(f"    [{_numbers(row)}]," for row in form.weights)
    path.write_text(
        TEMPLATE.format(
            task=safe_text(form.task), a=form.low.size, s=form.mean.size, weights=rows, squash=SQUASH[form.squash],
            mean=_numbers(form.mean), std=_numbers(form.std), low=_numbers(form.low), high=_numbers(form.high),
        ),
        encoding="utf-8",
    )  # fmt: skip
    return [path]


def act_numpy(directory: Path, observations: Array) -> Array:
    """Actions of the written file, run as a program of its own: (m, s) → (m, a)."""
    command = [sys.executable, "-I", str(Path(directory) / FILE)]
    return through_program(command, observations)


def through_program(command: list[str], observations: Array) -> Array:
    """Send observations through a program that reads and prints one line each."""
    text = "".join(" ".join(literal(value) for value in row) + "\n" for row in observations)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=120)
    return np.array([[float(word) for word in line.split()] for line in done.stdout.splitlines()])


def _numbers(values: Array) -> str:
    return ", ".join(literal(value) for value in values)
