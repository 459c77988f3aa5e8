"""`abps resume`: go on with a run, exactly as if it had never been interrupted."""

import argparse
from pathlib import Path

from abps.cli.settings import add_settings, read_settings
from abps.cli.train import add_output_options, train_and_tell
from abps.config import BudgetConfig, RunConfig

HELP = "Go on with a run after Ctrl-C, a crash or a power loss, bit for bit; or train a finished one longer."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run directory")
    add_output_options(parser)
    add_settings(parser, "when to stop (changes the run's own)", BudgetConfig())
    add_settings(parser, "run (changes the run's own)", RunConfig())


def execute(arguments: argparse.Namespace) -> int:
    from abps.config import replace
    from abps.run.directory import claim, stamp_changes, write_settings
    from abps.run.directory import read_settings as read_run

    settings = read_run(arguments.run)
    changed = replace(
        settings,
        budget=read_settings(arguments, settings.budget),
        run=read_settings(arguments, settings.run),
    )
    if not arguments.quiet:
        for change in stamp_changes(arguments.run):
            print(f"note: {change}; results may differ from those of the uninterrupted run")
    if changed != settings:
        with claim(arguments.run):
            write_settings(arguments.run, changed)
    return train_and_tell(arguments.run, changed, arguments)
