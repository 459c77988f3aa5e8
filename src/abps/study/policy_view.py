"""A run's policy as a reader can look at it: the matrix of a linear policy, and a film if one was rendered."""

import base64
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import AbpsError
from abps.npz import read_npz
from abps.study.jsontypes import numbers

__all__ = ["film", "policy_pictures"]

MAX_WEIGHTS = 8000
"""Larger matrices are not drawn: their cells would be smaller than a pixel."""

FILMS = {"video.mp4": "video/mp4", "video.gif": "image/gif"}
"""Where `abps video` puts a film by default → its type."""


def policy_pictures(path: Path) -> list[dict[str, Any]]:
    """The policies of a run directory that have a matrix: rows actions, columns observations."""
    found = []
    for which in ("current", "best"):
        try:
            arrays = read_npz(
                path / "policy" / f"{which}.npz",
                {"kind": 1, "weights": MAX_WEIGHTS, "bias": MAX_WEIGHTS, "observation_std": MAX_WEIGHTS},
                required=("weights",),
            )
        except (AbpsError, OSError):
            continue  # No policy yet, one without a matrix, too large, or damaged.
        weights = arrays["weights"]
        if weights.ndim == 2 and weights.size and np.isfinite(weights).all():
            found.append({"which": which, **_picture(arrays)})
    return found


def film(path: Path, limit: int) -> dict[str, str] | None:
    """A film that was rendered beside a run, ready to be put into a page; None: there is none below `limit` bytes."""
    for name, kind in FILMS.items():
        try:
            with (path / name).open("rb") as file:
                content = file.read(limit + 1)
        except OSError:
            continue
        if 0 < len(content) <= limit:
            return {"name": name, "kind": kind, "data": base64.b64encode(content).decode()}
    return None


def _picture(arrays: dict[str, Any]) -> dict[str, Any]:
    weights, bias, std = arrays["weights"], arrays.get("bias"), arrays.get("observation_std")
    columns = [f"o{index}" for index in range(weights.shape[1])]
    if bias is not None and bias.shape == (weights.shape[0],) and np.isfinite(bias).all():
        weights, columns = np.column_stack([weights, bias]), [*columns, "bias"]
    return {
        "kind": str(arrays["kind"]) if "kind" in arrays else "",
        "rows": [f"a{index}" for index in range(weights.shape[0])],
        "columns": columns,
        "weights": [numbers(row) for row in weights],
        "scaled": bool(std is not None and std.size and np.any(std != 1.0)),
    }
