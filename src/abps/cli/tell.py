"""`abps tell`: hand back what happened on real hardware."""

import argparse
import json
from pathlib import Path
from typing import Any

HELP = """Hand back the episode that `abps ask` asked for: a trajectory, or the reason why there is none.

  abps tell RUN --trajectory episode.npz     an episode, also as .csv (docs/hardware.md has both formats)
  abps tell RUN --failed "gripper jammed"    it could not be run to its end; no probe is placed next to it
  abps tell RUN --discard                    take the newest told episode back and have it run again

A wrong file changes nothing."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run directory made by `abps ask --new`")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--trajectory", type=Path, metavar="FILE", help="the episode, as .npz or .csv")
    what.add_argument("--failed", metavar="REASON", help="the episode failed, in a few words")
    what.add_argument("--discard", action="store_true", help="take the newest told episode back (a copy is kept)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from abps.run.hardware import open_hardware_run

    with open_hardware_run(arguments.run) as robot:
        if arguments.discard:
            episode = robot.discard()
            _print(arguments, {"episode": episode, "discarded": True}, f"Episode {episode} is taken back.")
        else:
            recorded = robot.fail(arguments.failed) if arguments.failed is not None else None
            recorded = recorded or robot.tell_file(arguments.trajectory)
            _print_recorded(arguments, recorded)
        following = robot.stopped
    if not arguments.json:
        print(f"The run is done: {'; '.join(following.values())}." if following else f"Next: abps ask {arguments.run}")
    return 0


def _print_recorded(arguments: argparse.Namespace, recorded: Any) -> None:
    for warning in recorded.warnings:
        if not arguments.json:
            print(f"note: {warning}")
    text = f"Episode {recorded.episode} is recorded: "
    text += "failed." if recorded.value is None else f"return {recorded.value:.6g}."
    if recorded.metrics is not None:
        text += f" Outer iteration {recorded.metrics['iteration']} is complete; the policy has moved."
    _print(arguments, {"episode": recorded.episode, "return": recorded.value, "warnings": recorded.warnings}, text)


def _print(arguments: argparse.Namespace, document: dict[str, Any], text: str) -> None:
    print(json.dumps(document) if arguments.json else text)
