"""`abps figure NAME RUNS…`: draw a figure of the paper, or one of ours, from run directories."""

import argparse
from pathlib import Path

from abps.errors import ConfigError

__all__ = ["HELP", "configure", "execute"]

HELP = "draw a figure of the paper from run directories"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("name", nargs="?", help="which figure; --list shows them all")
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUNS", help="run directories, or folders with runs in them"
    )
    parser.add_argument("--out", type=Path, help="file to write: .png, .svg or .pdf (default: NAME.png)")
    parser.add_argument("--dark", action="store_true", help="for a dark screen")
    parser.add_argument("--x", choices=("episodes", "steps", "minutes"), default="episodes", help="what x counts")
    parser.add_argument(
        "--statistic", choices=("mean", "iqm", "median"), default="mean", help="what a curve shows over seeds"
    )
    parser.add_argument("--list", action="store_true", help="list the figures and stop")
    parser.add_argument("--quiet", action="store_true", help="print nothing")


def execute(arguments: argparse.Namespace) -> int:
    """Draw and write the figure."""
    from abps.study.gallery import FIGURES, Options, draw, save
    from abps.study.records import load_runs
    from abps.study.style import DARK, LIGHT

    if arguments.list:
        width = max(len(name) for name in FIGURES)
        print("\n".join(f"{name:<{width}}  {entry.help}" for name, entry in FIGURES.items()))
        return 0
    if arguments.name is None or not arguments.runs:
        raise ConfigError("say which figure and which runs, e.g. `abps figure paper-3 runs --out figure.svg`")
    if arguments.name not in FIGURES:
        raise ConfigError(f"no figure called {arguments.name!r}; known: {', '.join(FIGURES)}")
    options = Options(arguments.x, arguments.statistic, DARK if arguments.dark else LIGHT)
    out = arguments.out or Path(f"{arguments.name}.png")
    save(draw(arguments.name, load_runs(arguments.runs), options), out)
    if not arguments.quiet:
        print(f"wrote {out}")
    return 0
