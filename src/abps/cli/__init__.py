"""The command line: parse, call, print. A command's module is imported only when the command is used.

A command's module has `HELP` (one line), `configure(parser)` and `execute(arguments) -> exit code`; one whose options depend on
its other arguments has `configure_for(parser, argv)` instead of `configure`.
"""

import argparse
import importlib
import os
import sys
from typing import Any

__all__ = ["main"]

COMMANDS = {
    "train": "train a policy on a task",
    "resume": "go on with a run that was interrupted, or train it longer",
    "evaluate": "run fresh episodes of a trained policy",
    "compare": "run a grid of searches, tasks and seeds, and report",
    "report": "write one HTML file about runs",
    "figure": "draw a figure of the paper from runs",
    "watch": "look at running work in the terminal",
    "ask": "give the next policy to run on real hardware",
    "tell": "hand back what happened on real hardware",
    "export": "write a policy as numpy, ONNX or C",
    "video": "render a policy to MP4 or GIF",
    "tasks": "list the tasks known by name",
    "doctor": "check the installation",
}

EPILOG = """first steps:
  abps train pendulum                     train ABS on InvertedPendulum with the default settings
  abps train hopper --search ars --help   every setting of a search on a task
  abps compare pendulum --searches abs,mpd,ars --seeds 0-2 --episodes 200

A task is a name from `abps tasks`, any Gymnasium id, or module:factory."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit code (0 done, 1 failed, 2 wrong arguments, 130 interrupted)."""
    # Two BLAS threads on small matrices are slower than one; this must be set before numpy is imported.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # A console script does not look beside itself for a user's module:factory.
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] not in COMMANDS:
        _top_parser().parse_args(argv or ["--help"])
        return 2
    return _run(argv[0], argv[1:])


def _top_parser() -> argparse.ArgumentParser:
    from abps import __version__

    parser = argparse.ArgumentParser(
        prog="abps",
        description="Find good deterministic policies in few episodes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"abps {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser


def _run(command: str, argv: list[str]) -> int:
    from abps.errors import AbpsError

    module: Any = importlib.import_module(f"abps.cli.{command}")
    parser = argparse.ArgumentParser(
        prog=f"abps {command}",
        description=module.HELP,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    try:
        if hasattr(module, "configure_for"):
            module.configure_for(parser, argv)
        else:
            module.configure(parser)
        return module.execute(parser.parse_args(argv))
    except AbpsError as error:
        print(f"abps {command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        print(f"\nabps {command}: interrupted", file=sys.stderr)
        return 130
