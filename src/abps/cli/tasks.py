"""`abps tasks`: the tasks known by name."""

import argparse
import json

HELP = "List the tasks known by short name. Any Gymnasium id and module:factory work as well."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace) -> int:
    from abps.tasks.catalogue import PAPER_TASKS

    rows = [
        {
            "name": name,
            "env": f"{row.env}-v4",
            "gamma": row.gamma,
            "paper_episodes": row.episodes,
            "normalise": row.normalise,
        }
        for name, row in PAPER_TASKS.items()
    ]
    if arguments.json:
        print(json.dumps(rows))
        return 0
    print(f"{'name':10} {'environment':22} {'γ':>6} {'episodes in the paper':>22}")
    for row in rows:
        print(f"{row['name']:10} {row['env']:22} {row['gamma']:6} {row['paper_episodes']:22}")
    print("\nAppend -v5 for the newer physics (hopper-v5). Any Gymnasium id or module:factory is a task too.")
    print(
        "Which search suits a task: --search auto chooses; `abps compare --help` and docs/guides/which_search.md tell."
    )
    return 0
