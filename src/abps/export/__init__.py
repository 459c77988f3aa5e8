"""Policies for other software: numpy, ONNX and C, each compared with the original first; and videos."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from abps.errors import ConfigError
from abps.policies import Policy

__all__ = ["FORMATS", "Exported", "export_policy"]

FORMATS = ("numpy", "onnx", "c")


class Exported(NamedTuple):
    """What was written, and how far it is from the original on random observations."""

    files: list[Path]
    error: float | None
    """None: it could not be checked on this machine; `note` says why."""
    note: str = ""


def export_policy(policy: Policy, kind: str, directory: Path) -> Exported:
    """Write a policy for other software and verify it; normaliser, squashing and action bounds are inside.

    Args:
        policy: the policy.
        kind: one of `FORMATS`.
        directory: where the files go; made when missing.

    Raises:
        ConfigError: unknown format, a missing package, or a policy class that cannot be exported.
        NumericsError: the exported policy acts differently.
    """
    from abps.export.c_policy import act_c, compiler, write_c
    from abps.export.form import PolicyArrays, check
    from abps.export.numpy_policy import act_numpy, write_numpy
    from abps.export.onnx_policy import act_onnx, write_onnx

    writers = {"numpy": (write_numpy, act_numpy), "onnx": (write_onnx, act_onnx), "c": (write_c, act_c)}
    if kind not in writers:
        raise ConfigError(f"unknown format {kind!r}; known: {', '.join(FORMATS)}")
    write, act = writers[kind]
    form = PolicyArrays.of(policy)
    with tempfile.TemporaryDirectory() as name:  # Nothing that was not verified reaches the reader's directory.
        draft = Path(name)
        files = write(form, draft)
        unchecked = kind == "c" and compiler() is None
        error = (
            None if unchecked else check(policy, lambda observations: act(draft, observations), f"the {kind} policy")
        )
        files = [_place(file, Path(directory)) for file in files]
    return Exported(files, error, "no C compiler (cc, gcc or clang) found" if unchecked else "")


def _place(file: Path, directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(file, directory / file.name))
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror or error}") from error
