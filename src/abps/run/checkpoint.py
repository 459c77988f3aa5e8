"""Checkpoints: a search's state as safetensors + JSON, checksummed, atomically replaced, the last two kept.

`checkpoint/<episodes>.safetensors` holds the arrays; `checkpoint/<episodes>.json` holds everything else, the schema version
and the checksums. The JSON is renamed into place last: a checkpoint exists when its JSON does. Nothing here can execute code.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from abps.errors import RunError
from abps.run.files import replace_atomically

__all__ = ["SCHEMA", "latest_checkpoint", "load_checkpoint", "save_checkpoint"]

SCHEMA = 1
"""Version of the layout; a golden file of every version lies in tests/run/golden."""

KEPT = 2
MAX_JSON_BYTES = 256 * 1024 * 1024
_TENSOR, _FLOAT = "$tensor", "$float"


def save_checkpoint(directory: Path, episodes: int, state: dict[str, Any]) -> None:
    """Write the state as of `episodes` finished episodes, then drop all but the last two.

    Raises:
        RunError: the disk refuses; earlier checkpoints are untouched.
    """
    from safetensors.numpy import save

    directory.mkdir(exist_ok=True)
    tensors: dict[str, np.ndarray] = {}
    tree = _pack(state, "", tensors)
    content = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    body = json.dumps(tree, allow_nan=False, sort_keys=True)
    head = {
        "schema": SCHEMA,
        "episodes": episodes,
        "tensors_sha256": hashlib.sha256(content).hexdigest(),
        "tree_sha256": hashlib.sha256(body.encode()).hexdigest(),
    }
    replace_atomically(directory / f"{episodes:08d}.safetensors", content)
    replace_atomically(
        directory / f"{episodes:08d}.json", (json.dumps({**head, "tree": tree}, sort_keys=True) + "\n").encode()
    )
    for old in sorted(directory.glob("????????.json"))[:-KEPT]:
        old.unlink()
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def load_checkpoint(path: Path) -> tuple[int, dict[str, Any]]:
    """Read the checkpoint behind a `.json` path: the number of episodes it stands at, and the state.

    Raises:
        RunError: it is damaged, or of a schema this version cannot read.
    """
    from safetensors.numpy import load

    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise RunError(f"{path} is larger than any checkpoint of abps")
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise RunError(
                f"{path} has checkpoint schema {document['schema']!r}; this version of abps reads schema {SCHEMA} "
                "(versions.json beside it names the abps version that wrote it)"
            )
        body = json.dumps(document["tree"], allow_nan=False, sort_keys=True)
        content = path.with_suffix(".safetensors").read_bytes()
        for name, data in (("tree_sha256", body.encode()), ("tensors_sha256", content)):
            if hashlib.sha256(data).hexdigest() != document[name]:
                raise RunError(f"{path} is damaged: {name} does not fit")
        tensors = load(content)
        state = _unpack(document["tree"], tensors)
        episodes = int(document["episodes"])
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    if not isinstance(state, dict):
        raise RunError(f"{path} is damaged: no state in it")
    return episodes, state


def latest_checkpoint(directory: Path, at_most: int) -> tuple[int, dict[str, Any] | None, list[str]]:
    """Return the newest readable checkpoint that stands at no more than `at_most` episodes.

    Returns:
        Its number of episodes (0 without one), its state (None without one), and a sentence for every damaged one passed over.
    """
    complaints: list[str] = []
    for path in sorted(directory.glob("????????.json"), reverse=True) if directory.is_dir() else []:
        try:
            episodes, state = load_checkpoint(path)
        except RunError as error:
            complaints.append(str(error))
            continue
        if episodes <= at_most:
            return episodes, state, complaints
        complaints.append(f"{path} stands at {episodes} episodes, the journal has {at_most}: passed over")
    return 0, None, complaints


def _pack(value: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """Turn a state into a JSON tree, moving arrays to `tensors`."""
    if isinstance(value, dict):
        if any(not isinstance(key, str) or key.startswith("$") for key in value):
            raise TypeError(f"state{path}: keys must be strings that do not start with $")
        return {key: _pack(item, f"{path}/{key}", tensors) for key, item in value.items()}
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
