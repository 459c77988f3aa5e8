"""`abps ask`: the next policy to run on real hardware; with `--new`, the first one of a new run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from abps.cli.options import Words, named_value, parse, parse_known, split_words
from abps.cli.train import OTHER_SEARCH, SEARCH_HELP, other_searches, print_help, with_settings
from abps.cli.tree import Group, flag_of, positional
from abps.errors import ConfigError
from abps.search.auto import AUTO, choose_search
from abps.search.budget import BudgetConfig
from abps.search.registry import SEARCHES, search_config
from abps.settings import from_dict, replace, setting
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.limits import Limits

__all__ = ["HELP", "AskArguments", "NewArguments", "read_robot", "run"]

HELP = """Write the policy that is to run next on the real system, and say for how many episodes.

  abps ask RUN --new robot.yaml --search abs --episodes 60   make a run and ask for the first time
  abps ask RUN                                               the answer is the same until you tell
  abps tell RUN --trajectory episode.npz                     hand back what happened
  abps ask RUN --episodes 100                                go on with a finished run: 100 in all

robot.yaml describes the system:  observations: 4
                                  action_low: [-1.0]
                                  action_high: [1.0]
                                  horizon: 500   # also name, gamma, limits, constraint"""

USAGE = "abps ask RUN [--episodes N] [--new ROBOT.yaml [--search NAME] [--initial FILE] [any other setting]]"

FOOTER = "`abps ask --help-all` lists every setting. docs/hardware.md is the guide."

ONLY_NEW = "; settings are chosen when a run is made, with --new"

MAX_FILE = 65_536

MORE = 20
"""Episodes that a finished run is suggested to have added."""

MOVED = {
    "normalise": "--observations running or --observations raw",
    "policy": "--policy linear-tanh or --policy clipped-linear",
    "reward_shift": "--reward-shift X",
}
"""Fields that robot.yaml had in abps 0.1.0, and the options that took their place."""


@dataclass(frozen=True)
class AskArguments:
    """What `abps ask` takes always."""

    run: str = positional("RUN", "a run directory")
    out: Path | None = setting(None, "where to write the policy (default: RUN/query.npz)")
    json: bool = setting(False, "print one JSON object")
    new: Path | None = setting(None, "make the run, for the system described in this file")


@dataclass(frozen=True)
class NewArguments:
    """What `abps ask` takes when it makes a run, beside settings."""

    search: str = setting("abs", SEARCH_HELP, common=True)
    preset: str = setting("cpu", "cpu: for ordinary computers; paper: as published", common=True)
    seed: int = setting(0, "everything random derives from it", common=True)
    initial: Path | None = setting(None, "start from a controller, episodes, a policy or a run", common=True)


@dataclass(frozen=True)
class LimitArguments:
    """The limits and constraints of robot.yaml as options."""

    limits: Limits = setting(Limits(), "limits that the search keeps")
    constraint: tuple[str, ...] = setting(
        (), "cost that episodes keep below a limit: name<=limit, name<=limit(probability=0.95,reduce=max); repeatable"
    )


def run(argv: Sequence[str]) -> int:
    """Do what the words say; return the exit code."""
    words = split_words(argv, _groups(argv, TaskConfig()))
    if print_help(words, USAGE, HELP, _groups(argv, TaskConfig()), FOOTER):
        return 0
    arguments = _create(argv, words) if "--new" in words.last() else _go_on(words)
    return _ask(arguments)


def _go_on(words: Words) -> AskArguments:
    """Ask an existing run, which may get another budget; wrong words are found before a wrong run."""
    from abps.run.directory import read_settings
    from abps.run.hardware import extend_hardware_run

    arguments, _ = parse(words, _known(BudgetConfig()), command="ask", elsewhere=_settings_of_new, hint=ONLY_NEW)
    path = Path(arguments.run)
    given = {flag for flag, _ in words.given} - {flag_of(field.name) for field in fields(AskArguments)}
    if given:
        _, budget = parse(words, _known(read_settings(path).budget), command="ask")
        extend_hardware_run(path, budget)
    return arguments


def _known(budget: BudgetConfig) -> list[Group]:
    return [Group("arguments", AskArguments()), Group("when to stop", budget)]


def _groups(argv: Sequence[str], task: TaskConfig, chosen: str = "") -> list[Group]:
    search = chosen or with_settings(named_value(argv, "--search", "abs"))
    preset = named_value(argv, "--preset", "cpu")
    return [
        Group("arguments", AskArguments()),
        Group("when to stop", BudgetConfig()),
        Group("with --new", NewArguments()),
        Group("with --new: limits, here or in robot.yaml", LimitArguments(task.limits, task.constraint)),
        Group(f"with --new: search {search}, preset {preset}", search_config(search, task.name, preset)),
    ]


def _settings_of_new() -> Mapping[str, Sequence[Any]]:
    searches = [search_config(name) for name in SEARCHES]
    return {"a new run": [NewArguments(), LimitArguments()], "the search": searches}


def _create(argv: Sequence[str], words: Words) -> AskArguments:
    """Make a run; nothing is written when a word or the robot's file is wrong."""
    from abps.run.hardware import create_hardware_run, robot_spec

    task, hardware = read_robot(Path(words.last()["--new"]))
    chosen = named_value(argv, "--search", "abs")
    if chosen == AUTO:
        _, budget = parse_known(words, _known(BudgetConfig()), command="ask")
        chosen = choose_search(robot_spec(task, hardware), budget).announce()
    arguments, budget, new, limited, config = parse(
        words, _groups(argv, task, chosen), command="ask", elsewhere=lambda: other_searches(chosen), hint=OTHER_SEARCH
    )
    create_hardware_run(
        Path(arguments.run),
        replace(task, limits=limited.limits, constraint=limited.constraint),
        hardware,
        search=chosen,
        config=config,
        budget=budget,
        seed=new.seed,
        initial=new.initial,
    )
    return arguments


def _ask(arguments: AskArguments) -> int:
    from abps.run.hardware import open_hardware_run

    path = Path(arguments.run)
    with open_hardware_run(path) as robot:
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
    role = f"{request.role}, outer iteration {request.iteration}"
    print(f"Episode {request.episode}: run policy {request.policy_id} ({role}) for {times}.")
    print(f"The policy is in {file}. Then: abps tell {path} --trajectory FILE")
    return 0


def _say_done(arguments: AskArguments, robot: Any) -> int:
    run, told = Path(arguments.run), len(robot.run.journal)
    policy = run / "policy" / "current.npz"
    if arguments.json:
        print(json.dumps({"done": True, "stopped": robot.stopped, "policy": str(policy)}))
        return 0
    print(f"The run is done: {'; '.join(robot.stopped.values())}.")
    print(f"The current policy is in {policy}, the one with the best return beside it.")
    print(f"Look at the run: abps watch {run}. Export: abps export {run} --which current --format c")
    print(f"Go on: abps ask {run} --episodes {told + MORE}")
    return 0


def read_robot(path: Path) -> tuple[TaskConfig, HardwareConfig]:
    """Read the description of a real system.

    Raises:
        ConfigError: the file is missing, not YAML, or has a field that is unknown or wrong.
    """
    from abps.errors import RunError
    from abps.run.directory import parse_yaml
    from abps.run.files import read_bounded

    try:
        document = parse_yaml(read_bounded(path, MAX_FILE), path)
    except RunError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a list of `name: value` lines (observations, action_low, action_high, …)")
    for name, advice in MOVED.items():
        if name in document:
            raise ConfigError(
                f"{name} in {path} is a setting of the search now; leave it out there, and give `abps ask` {advice}"
            )
    own = {field.name for field in fields(HardwareConfig)}
    hardware = from_dict(HardwareConfig, {name: value for name, value in document.items() if name in own})
    task = from_dict(TaskConfig, {name: value for name, value in document.items() if name not in own})
    return task, hardware
