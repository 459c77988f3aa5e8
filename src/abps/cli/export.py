"""`abps export RUN --format numpy|onnx|c`: a policy for other software, verified before it is handed out."""

import argparse
import json
from pathlib import Path
from typing import Any

from abps.errors import RunError

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
    if not file.is_file():
        raise RunError(f"{run} has no {which} policy yet: no outer iteration was finished")
    return file
