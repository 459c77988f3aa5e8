"""`abps failures RUN`: why episodes of a run failed, with the tracebacks of the environment."""

import argparse
import json
from pathlib import Path

__all__ = ["HELP", "configure", "execute"]

HELP = """Say why episodes of a run failed: the last traceback, and how often each reason came.

Attempts that failed and then worked with another seed are among them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--all", action="store_true", help="print every traceback, not only the last")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    """Print what failures.log holds."""
    from abps.run.directory import read_settings
    from abps.run.failures import FAILURES_FILE, read_failures
    from abps.words import count

    read_settings(arguments.run)  # A folder that is no run is an error, not a run without failures.
    notes = read_failures(arguments.run)
    reasons = [note.partition("\n")[0].partition(": ")[2] for note in notes]
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    if arguments.json:
        rows = [dict(zip(("where", "text"), note.partition(": ")[::2], strict=True)) for note in notes]
        print(json.dumps({"run": str(arguments.run), "reasons": counts, "rows": rows}, ensure_ascii=False))
        return 0
    if not notes:
        print(f"no episode of {arguments.run} failed")
        return 0
    print("\n\n".join(notes if arguments.all else notes[-1:]) + "\n")
    for reason, times in counts.items():
        print(f"{count(times, 'attempt')}: {reason}")
    print(f"All of it is in {arguments.run / FAILURES_FILE}")
    return 0
