"""Write the golden checkpoint of the current schema: python tests/run/make_golden.py (once per schema, never over an
old one)."""

import sys
from pathlib import Path

import numpy as np

from abps.run.checkpoint import SCHEMA, save_checkpoint

STATE = {
    "journal": "00ff",
    "metrics": 3,
    "search": {
        "centre": np.array([0.5, -1.25, 1e-300]),
        "empty": np.zeros((0, 2)),
        "flags": np.array([True, False]),
        "counts": np.array([[1, 2], [3, 2**40]]),
        "single": np.array([1.5], dtype=np.float32),
        "value": float("-inf"),
        "missing": None,
        "name": "Ĵ(θ)",
        "nested": {"list": [1, 2.5, [np.array([7.0])], "x"], "flag": True},
    },
}

if __name__ == "__main__":
    folder = Path(__file__).parent / "golden" / f"schema-{SCHEMA}"
    if folder.exists():
        sys.exit(f"{folder} exists; a golden file is never written again")
    folder.mkdir(parents=True)
    save_checkpoint(folder, 42, STATE)
