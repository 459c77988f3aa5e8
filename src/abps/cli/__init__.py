"""The command line: parse, call, print. A command's module is imported only when the command is used.

A command's module has `HELP` and either `run(argv) -> exit code`, when its options are settings, or `configure(parser)`
and `execute(arguments) -> exit code` for argparse, and perhaps `ADVICE`, what to do about an option that it lacks.
"""

import argparse
import difflib
import importlib
import os
import sys
from typing import Any, NoReturn

__all__ = ["main"]

COMMANDS = {
    "train": "train a policy on a task",
    "resume": "go on with a run that was interrupted, or train it longer",
    "evaluate": "run fresh episodes of a trained policy",
    "compare": "run a grid of searches, tasks and seeds, and report",
    "tune": "look for better settings of a search on a task (Optuna)",
    "report": "write one HTML file about runs",
    "figure": "draw a figure of the paper from runs",
    "import": "bring in curves from elsewhere (CSV), to compare with",
    "watch": "look at running work, in the terminal or a browser",
    "failures": "say why episodes of a run failed, with tracebacks",
    "ask": "give the next policy to run on real hardware",
    "tell": "hand back what happened on real hardware",
    "export": "write a policy as numpy, ONNX or C",
    "video": "render a policy to MP4 or GIF",
    "tasks": "list the tasks known by name",
    "doctor": "check the installation",
}

FROM_SETTINGS = ("train", "resume", "ask", "tune")
"""Commands whose options are settings (`options.py`); they have `run(argv)`, the others are read by argparse."""

EPILOG = """first steps:
  abps train pendulum                     train ABS on InvertedPendulum with the default settings
  abps train hopper --search ars --help   settings that people change; --help-all lists every one
  abps train hopper --search auto         what suits the task's size and the episodes
  abps compare pendulum --searches abs,mpd,ars --seeds 0-2 --episodes 200

Which search suits what: `abps compare --help`, docs/guides/which_search.md (measured).
A task is a name from `abps tasks`, any Gymnasium id, or module:factory."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit code (0 done, 1 failed, 2 wrong arguments, 130 interrupted)."""
    # Two BLAS threads on small matrices are slower than one; this must be set before numpy is imported.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # A console script does not look beside itself for a user's module:factory.
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        return _run(argv[0], argv[1:])
    if argv and not argv[0].startswith("-"):
        close = difflib.get_close_matches(argv[0], COMMANDS, n=1)
        advice = f"did you mean {close[0]!r}?" if close else "`abps --help` lists them"
        print(f"abps: unknown command {argv[0]!r}; {advice}", file=sys.stderr)
        return 2
    _top_parser().parse_args(argv or ["--help"])
    return 2


class _Parser(argparse.ArgumentParser):
    """argparse that says what is wrong in one sentence, and leaves the usage to `--help`."""

    advice = ""
    """What to write in place of an option that is like none of the command's."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split()[0] if "unrecognized" in message else ""
        flags = [flag for action in self._actions for flag in action.option_strings]
        close = difflib.get_close_matches(unknown.partition("=")[0], flags, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"`{self.prog} --help` lists the options"
        if unknown.startswith("--") and not close and self.advice:
            advice = self.advice
        self.exit(2, f"{self.prog}: {message}; {advice}\n")


def _top_parser() -> argparse.ArgumentParser:
    from abps import __version__

    parser = _Parser(
        prog="abps",
        allow_abbrev=False,
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
    from abps.errors import AbpsError, ConfigError

    built_from_settings = command in FROM_SETTINGS  # What is wrong with their settings is wrong with their arguments.
    try:
        module: Any = importlib.import_module(f"abps.cli.{command}")
        if built_from_settings:
            return module.run(argv)
        parser = _Parser(
            prog=f"abps {command}",
            description=module.HELP,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(argv=argv)  # For commands that say them again.
        parser.advice = getattr(module, "ADVICE", "")
        module.configure(parser)
        return module.execute(parser.parse_args(argv))
    except AbpsError as error:
        print(f"abps {command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) and built_from_settings else 1
    except BrokenPipeError:
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"abps {command}: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nabps {command}: interrupted", file=sys.stderr)
        return 130
