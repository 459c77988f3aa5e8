"""`abps ask`: the next policy to run on real hardware; with `--new`, the first one of a new run."""

import argparse
import json
from pathlib import Path
from typing import Any

from abps.cli.settings import add_settings, read_settings
from abps.config import BudgetConfig, HardwareConfig, TaskConfig, from_dict
from abps.errors import ConfigError
from abps.presets import PRESETS, search_config
from abps.search.registry import SEARCHES

HELP = """Write the policy that is to run next on the real system, and say for how many episodes.

  abps ask RUN --new robot.yaml --search abs --episodes 60     make a run and ask for the first time
  abps ask RUN                                                 ask again; the answer is the same until you tell
  abps tell RUN --trajectory episode.npz                       hand back what happened (see `abps tell --help`)

robot.yaml describes the system:  observations: 4
                                  action_low: [-1.0]
                                  action_high: [1.0]
                                  horizon: 500        # longest episode in steps
                                  name: cartpole      # and gamma, normalise, reward_scale if you like
docs/hardware.md is the guide; the robot's computer needs numpy only."""

MAX_FILE = 65_536


def configure_for(parser: argparse.ArgumentParser, argv: list[str]) -> None:
    """Add the options; those of a search only when a run is made."""
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--out", type=Path, help="where to write the policy (default: RUN/query.npz)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--new", type=Path, metavar="ROBOT.yaml", help="make the run, for the system described there")
    group = parser.add_argument_group("with --new")
    group.add_argument("--search", choices=tuple(SEARCHES), default="abs", help="the search (default: abs)")
    group.add_argument("--preset", choices=PRESETS, default="cpu", help="budget of the critics (default: cpu)")
    group.add_argument("--seed", type=int, default=0, help="everything random derives from it (default: 0)")
    if any(word == "--new" or word.startswith("--new=") for word in argv) or "--help" in argv or "-h" in argv:
        scout = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        scout.add_argument("--search", default="abs")
        known = scout.parse_known_args(argv)[0].search
        add_settings(parser, "with --new: when to stop", BudgetConfig())
        search = known if known in SEARCHES else "abs"
        add_settings(parser, f"with --new: search {search}", search_config(search, "robot"))


def execute(arguments: argparse.Namespace) -> int:
    from abps.run.hardware import open_hardware_run

    if arguments.new is not None:
        _create(arguments)
    with open_hardware_run(arguments.run) as robot:
        for warning in robot.run.warnings:
            print(f"note: {warning}")
        request = robot.ask()
        if request is None:
            return _say_done(arguments, robot)
        file = robot.write_policy(request, arguments.out)
    if arguments.json:
        answer: dict[str, Any] = {**request._asdict(), "policy": str(file), "done": False}
        print(json.dumps(answer))
        return 0
    times = "one episode" if request.left == 1 else f"{request.left} episodes, told one by one"
    print(
        f"Episode {request.episode}: run policy {request.policy_id} ({request.role}, outer iteration {request.iteration}) "
        f"for {times}."
    )
    print(f"The policy is in {file}. Then: abps tell {arguments.run} --trajectory FILE")
    return 0


def _say_done(arguments: argparse.Namespace, robot: Any) -> int:
    policy = arguments.run / "policy" / "current.npz"
    if arguments.json:
        print(json.dumps({"done": True, "stopped": robot.stopped, "policy": str(policy)}))
    else:
        reasons = "; ".join(robot.stopped.values())
        print(f"The run is done: {reasons}. The policy it stands on is in {policy}, the luckiest beside it.")
    return 0


def _create(arguments: argparse.Namespace) -> None:
    from abps.run.hardware import create_hardware_run

    task, hardware = read_robot(arguments.new)
    create_hardware_run(
        arguments.run,
        task,
        hardware,
        search=arguments.search,
        config=read_settings(arguments, search_config(arguments.search, task.name, arguments.preset)),
        budget=read_settings(arguments, BudgetConfig()),
        seed=arguments.seed,
    )


def read_robot(path: Path) -> tuple[TaskConfig, HardwareConfig]:
    """Read the description of a real system.

    Raises:
        ConfigError: the file is missing, not YAML, or has a field that is unknown or wrong.
    """
    from dataclasses import fields

    from abps.errors import RunError
    from abps.run.directory import parse_yaml
    from abps.run.files import read_bounded

    try:
        document = parse_yaml(read_bounded(path, MAX_FILE))
    except RunError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a list of `name: value` lines (observations, action_low, action_high, …)")
    own = {field.name for field in fields(HardwareConfig)}
    hardware = from_dict(HardwareConfig, {name: value for name, value in document.items() if name in own})
    task = from_dict(TaskConfig, {name: value for name, value in document.items() if name not in own})
    return task, hardware
