"""`abps export RUN --format numpy|onnx|c`: a policy for other software, verified before it is handed out."""

import argparse
import json
from pathlib import Path
from typing import Any

from abps.errors import ConfigError, RunError
from abps.run.directory import no_run

__all__ = ["HELP", "configure", "execute"]

HELP = "Write a run's policy as numpy, ONNX or C, and verify that it acts the same."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("run", type=Path, help="a run directory, or a policy file (.npz)")
    parser.add_argument(
        "--format", choices=("numpy", "onnx", "c"), default="numpy", help="what to write (default: numpy)"
    )
    parser.add_argument("--out", type=Path, default=None, help="directory to write to (default: RUN/export/FORMAT)")
    parser.add_argument("--which", choices=("best", "current"), default="best", help="which policy (default: best)")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    """Export, verify, and say how far the exported policy is from the original."""
    from abps.export import export_policy
    from abps.policies import load_policy

    _check_directory(arguments.out)
    kind, file = _policy_class(arguments.run), policy_file(arguments.run, arguments.which)
    out = arguments.out or file.parent.parent / "export" / arguments.format
    done = export_policy(load_policy(file, kind), arguments.format, out)
    if arguments.json:
        print(json.dumps({"files": [str(path) for path in done.files], "error": done.error, "note": done.note}))
    elif not arguments.quiet:
        for path in done.files:
            print(f"wrote {path}")
        checked = f"verified: largest difference {done.error:.1e}" if done.error is not None else ""
        print(checked or f"not verified: {done.note}")
    return 0


def _check_directory(out: Path | None) -> None:
    """Refuse the name of a file: a folder `policy.py` would be made, with a `policy.py` in it."""
    if out is not None and out.suffix in (".py", ".c", ".h", ".onnx") and not out.is_dir():
        raise ConfigError(f"--out is a directory, in which files have names of their own; leave out {out.name!r}")


def _policy_class(run: Path) -> Any:
    """The class of policies that a run's settings name; None where there are none that this version reads."""
    from abps.run.directory import OldFormatError, read_settings

    if run.is_file() or not (run / "config.yaml").is_file():
        return None
    try:
        return read_settings(run).search_config.policy
    except OldFormatError:
        return None


def policy_file(run: Path, which: str) -> Path:
    """The policy file of a run directory; a file is taken as it is.

    Raises:
        RunError: there is none.
    """
    if run.is_file():
        return run
    file = run / "policy" / f"{which}.npz"
    if not run.is_dir():
        raise RunError(f"{run} does not exist; expected a run directory or a policy file")
    if not (run / "config.yaml").is_file() and not file.parent.is_dir():
        raise no_run(run)
    if not file.is_file():
        raise RunError(f"{run} has no {which} policy yet: no outer iteration was finished")
    return file
