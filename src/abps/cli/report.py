"""`abps report RUNS…`: write one self-contained HTML file about runs."""

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

from abps.errors import ConfigError

__all__ = ["HELP", "configure", "execute"]

HELP = "write a self-contained HTML report about runs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUNS", help="run directories, or folders with runs in them"
    )
    parser.add_argument("--out", type=Path, help="file to write (default: report.html in RUNS, or in their folder)")
    parser.add_argument("--title", default="", help="heading of the report")
    parser.add_argument(
        "--threshold", action="append", default=[], metavar="TASK=RETURN",
        help="undiscounted return that counts as success on a task; may be repeated "
        "(default: 80 %% of the way to the best search's end)",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def execute(arguments: argparse.Namespace) -> int:
    """Write the report; warnings in it do not change the exit code."""
    from abps.study.records import load_runs
    from abps.study.report import write_report
    from abps.words import count

    out = arguments.out or _folder(arguments.runs) / "report.html"
    thresholds = dict(_threshold(text) for text in arguments.threshold)
    content = write_report(load_runs(arguments.runs), out, title=arguments.title, thresholds=thresholds)
    unknown = sorted(set(thresholds) - set(content["tasks"]))
    if unknown:
        raise ConfigError(f"--threshold names {', '.join(unknown)}; the runs are of {', '.join(content['tasks'])}")
    if arguments.json:
        summary = {"out": str(out), "rows": content["rows"], "warnings": content["warnings"]}
        print(json.dumps(summary, ensure_ascii=False))
    elif not arguments.quiet:
        size = out.stat().st_size / 1e6
        print(f"wrote {out} ({size:.1f} MB, {count(len(content['runs']), 'run')})")
        for sentence in content["headlines"]:
            print(sentence)
        for item in content["warnings"]:
            print(f"{item['level']}: {item['text']}")
    return 0


def _folder(runs: Sequence[Path]) -> Path:
    """The folder that all of them are in; that of one is itself."""
    return runs[0] if len(runs) == 1 else Path(os.path.commonpath([Path(os.path.abspath(path)) for path in runs]))


def _threshold(text: str) -> tuple[str, float]:
    task, _, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not task or not math.isfinite(number):
        raise ConfigError(f"--threshold must be TASK=RETURN, e.g. hopper=1000, got {text!r}")
    return task, number
