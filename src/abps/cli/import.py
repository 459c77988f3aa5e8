"""`abps import CURVES.csv`: curves from elsewhere become runs that `compare`, `report` and `figure` read."""

import argparse
import json
from pathlib import Path

from abps.errors import ConfigError
from abps.study.curves import COLUMNS, Imported, import_curves

__all__ = ["HELP", "configure", "execute"]

HELP = """Bring in learning curves from elsewhere: a line per measurement, sorted by time within a run.

Every task, search and seed becomes a run in <runs>/<task>/<search>@imported/seed-<n>, which is marked as imported
wherever it is shown. It can be compared, reported and drawn, but not resumed. A file given again adds what is new."""

EXAMPLE = """
  task,search,seed,episodes,steps,return
  pendulum,td3,0,120,1000,43.5
  pendulum,td3,0,171,2000,67.2"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    width = max(map(len, COLUMNS))
    columns = "\n".join(f"  {name:<{width}}  {column.help}" for name, column in COLUMNS.items())
    parser.epilog = (
        f"columns, in any order:\n{columns}\nof episodes and steps one may be left out, discounted and seconds "
        f"both.\n\nexample:{EXAMPLE}"
    )
    parser.add_argument("file", type=Path, metavar="CURVES.csv", help="a CSV file with a header")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs (default: runs)")
    parser.add_argument(
        "--versions", default="", metavar="NAME=VERSION,…",
        help="what the curves were made with, e.g. mujoco=3.4.0,gymnasium=1.4.0: reports warn about mixed versions",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="start over; an existing run is renamed, not deleted")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def execute(arguments: argparse.Namespace) -> int:
    """Import, and say what is where."""
    versions = dict(map(_version, filter(None, arguments.versions.split(","))))
    done = import_curves(arguments.file, arguments.runs, versions=versions, overwrite=arguments.overwrite)
    if arguments.json:
        written, unchanged = ([str(path) for path in paths] for paths in (done.written, done.unchanged))
        print(json.dumps({"written": written, "unchanged": unchanged, "ignored": done.ignored}))
    elif not arguments.quiet:
        _print(done, arguments.runs)
    return 0


def _print(done: Imported, root: Path) -> None:
    if done.ignored:
        print(f"note: columns that mean nothing here were left out: {', '.join(done.ignored)}")
    there = f", {len(done.unchanged)} were there already" if done.unchanged else ""
    count = len(done.written)
    print(f"imported {count} run{'' if count == 1 else 's'} into {root}{there}")
    for folder in dict.fromkeys(path.parent for path in done.written):
        print(f"  {folder}")


def _version(text: str) -> tuple[str, str]:
    name, _, version = (part.strip() for part in text.partition("="))
    if not name or not version:
        raise ConfigError(f"--versions must be NAME=VERSION,…, e.g. mujoco=3.4.0, got {text!r}")
    return name, version
