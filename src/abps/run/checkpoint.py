"""Checkpoints: a search's state as safetensors + JSON, checksummed, atomically replaced, the last two kept.

`checkpoint/<episodes>.safetensors` holds the arrays; `checkpoint/<episodes>.json` holds everything else: the schema's
version, the version of abps, the size and checksum of the arrays, the tree of the state, and a checksum over all of
that. The JSON is renamed into place last: a checkpoint exists when its JSON does. Nothing here can execute code, and
sizes are compared with what the checksummed JSON promises before anything is read.
"""

import contextlib
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import RunError
from abps.run.files import read_bounded, replace_together

__all__ = [
    "SCHEMA",
    "SchemaError",
    "checkpoint_paths",
    "drop_old_checkpoints",
    "load_checkpoint",
    "reloaded",
    "save_checkpoint",
]

SCHEMA = 2
"""Version of the layout; a golden file of every version lies in tests/run/golden."""

KEPT = 2
MAX_JSON_BYTES = 256 * 1024 * 1024
_TENSOR, _FLOAT = "$tensor", "$float"


class SchemaError(RunError):
    """A whole checkpoint of a layout that this version of abps does not know."""


def save_checkpoint(directory: Path, episodes: int, state: dict[str, Any]) -> None:
    """Write the state as of `episodes` finished episodes, then drop all but the last two.

    Raises:
        RunError: the disk refuses; earlier checkpoints are untouched.
    """
    from safetensors.numpy import save

    from abps import __version__

    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make {directory}: {error.strerror or error}") from error
    tensors: dict[str, np.ndarray] = {}
    tree = _pack(state, "", tensors)
    content = save({name: np.asarray(array, order="C") for name, array in tensors.items()})
    document = {
        "schema": SCHEMA,
        "abps": __version__,
        "episodes": episodes,
        "tensors_bytes": len(content),
        "tensors_sha256": hashlib.sha256(content).hexdigest(),
        "tree": tree,
    }
    name = f"{episodes:08d}"
    replace_together({directory / f"{name}.safetensors": content, directory / f"{name}.json": _sealed(document)})
    drop_old_checkpoints(directory)


def checkpoint_paths(directory: Path) -> list[Path]:
    """The `.json` files of the checkpoints in a directory, newest first."""
    return sorted(directory.glob("[0-9]" * 8 + ".json"), reverse=True) if directory.is_dir() else []


def load_checkpoint(path: Path) -> tuple[int, dict[str, Any]]:
    """Read the checkpoint behind a `.json` path: the number of episodes it stands at, and the state.

    Raises:
        SchemaError: it is whole, but of a schema this version cannot read.
        RunError: it is damaged.
    """
    from safetensors.numpy import load

    try:
        document = _unsealed(path, read_bounded(path, MAX_JSON_BYTES))
        size, episodes = int(document["tensors_bytes"]), int(document["episodes"])
        arrays = path.with_suffix(".safetensors")
        content = read_bounded(arrays, size)
        if len(content) != size or hashlib.sha256(content).hexdigest() != document["tensors_sha256"]:
            raise RunError(f"{arrays} is damaged: its size or checksum does not fit")
        state = _unpack(document["tree"], load(content))
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    if not isinstance(state, dict) or path.stem != f"{episodes:08d}":
        raise RunError(f"{path} is damaged: it holds no state, or that of another name")
    return episodes, state


def reloaded(state: dict[str, Any]) -> dict[str, Any]:
    """The state as it would come back from a checkpoint, without a file.

    Raises:
        TypeError: it holds something that a checkpoint cannot.
    """
    tensors: dict[str, np.ndarray] = {}
    tree = json.dumps(_pack(state, "", tensors), allow_nan=False)
    return _unpack(json.loads(tree), tensors)


def _sealed(document: dict[str, Any]) -> bytes:
    """The document with a checksum over all of it; the rule is the same for every schema."""
    body = json.dumps(document, allow_nan=False, sort_keys=True)
    return (json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest()})[:-1] + ", " + body[1:] + "\n").encode()


def _unsealed(path: Path, content: bytes) -> dict[str, Any]:
    """Return the document when its checksum fits, whatever its schema, and then only a known schema."""
    document = json.loads(content)
    seal = document.pop("sha256")
    body = json.dumps(document, allow_nan=False, sort_keys=True)
    if hashlib.sha256(body.encode()).hexdigest() != seal:
        raise RunError(f"{path} is damaged: its checksum does not fit")
    if document["schema"] != SCHEMA:
        raise SchemaError(
            f"{path} has checkpoint schema {document['schema']!r}, written by abps {document.get('abps', 'unknown')}; "
            f"this version reads schema {SCHEMA}. Resume with that version of abps, or delete "
            f"{path.parent} to have the "
            "state computed again from the journal (no episode is run again)"
        )
    return document


def drop_old_checkpoints(directory: Path) -> None:
    """Remove all but the last two checkpoints, and whatever else a crash left between them."""
    kept = {path.stem for path in checkpoint_paths(directory)[:KEPT]}
    for path in directory.iterdir():
        if path.name.partition(".")[0] not in kept or path.suffix == ".tmp":
            with contextlib.suppress(OSError):
                path.unlink()


def _pack(value: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """Turn a state into a JSON tree, moving arrays to `tensors`."""
    if isinstance(value, dict):
        if any(not isinstance(key, str) or key.startswith("$") for key in value):
            raise TypeError(f"state{path}: keys must be strings that do not start with $")
        return {key: _pack(item, f"{path}/{_escaped(key)}", tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, f"{path}/{index}", tensors) for index, item in enumerate(value)]
    if isinstance(value, np.ndarray):
        tensors[path] = value
        return {_TENSOR: path}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"state{path} is a {type(value).__name__}, which a checkpoint cannot hold")


def _escaped(key: str) -> str:
    """A key as a part of a path, as JSON pointers do it: no two places of a state share a name."""
    return key.replace("~", "~0").replace("/", "~1")


def _unpack(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    """The inverse of `_pack`; tuples come back as lists."""
    if isinstance(value, list):
        return [_unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_TENSOR}:
        return np.array(tensors[value[_TENSOR]])
    if set(value) == {_FLOAT}:
        return float(value[_FLOAT])
    return {key: _unpack(item, tensors) for key, item in value.items()}
