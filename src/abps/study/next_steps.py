"""What to type next about a run: commands with the reason for each, ready to be copied into a shell."""

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from abps.errors import AbpsError
from abps.search.registry import PRESETS, SEARCHES, search_config
from abps.settings import to_dict
from abps.study.records import Run
from abps.study.robot import REPEATED, is_robot, robot_state
from abps.tasks.catalogue import PAPER_TASKS, task_config
from abps.words import count

__all__ = ["Step", "next_steps"]

LONGER = 2
"""A finished run is offered so many times its episodes."""

SHORT = 6
"""More changed settings of a search are left out of a command that is to be read."""

OPTIONS = ("gamma", "horizon", "env_kwargs", "wrapper", "constraint")
"""Settings of a task that have an option of their own; the others are given by `--set`."""


class Step(NamedTuple):
    """A command and what it is for."""

    why: str
    command: str


def next_steps(run: Run) -> list[Step]:
    """What a reader of a run's report may want to do next, most urgent first."""
    path = shlex.quote(str(run.path))
    if is_robot(run):
        return _robot(run, path)
    if run.config.get("imported"):
        return []  # A curve from elsewhere: there is no policy and nothing to go on with.
    steps = []
    if run.status == "failed":
        steps.append(Step("see why it failed", f"cat {shlex.quote(str(run.path / 'FAILED'))}"))
    if run.status != "done":
        steps.append(Step("go on where it stopped", f"abps resume {path}"))
        steps.append(Step("look at it while it runs", f"abps watch --web {path}"))
    if run.metrics:
        steps.append(Step("judge the current policy by fresh episodes", f"abps evaluate {path} --episodes 20"))
    if run.status == "done":
        longer = LONGER * (run.budget or run.episodes_run)
        steps.append(Step("train it longer", f"abps resume {path} --episodes {longer}"))
    if run.metrics:
        steps.append(Step("film an episode", f"abps video {path} --which current"))
        steps.append(
            Step("take the policy to other software, here C", f"abps export {path} --which current --format c")
        )
        steps.append(_compare(run))
    return steps


def _compare(run: Run) -> Step:
    others = [name for name in ("abs", "ars", "mpd") if name != run.search][:2]
    searches = shlex.quote(",".join([run.search, *others]))
    budget = run.budget or run.episodes_run
    words = [*_task_words(run), *_search_words(run)]
    start = f"abps compare {shlex.quote(_task(run))} --searches {searches} --seeds 0-4 --episodes {budget}"
    return Step("one run is no benchmark: compare over seeds", " ".join([start, *map(shlex.quote, words)]))


def _task_words(run: Run) -> list[str]:
    """Options for what was changed about the task: without them, another task would be compared."""
    words: list[str] = []
    usual = _flat(to_dict(task_config(_task(run))))
    for name, value in _changed(run.config.get("task"), usual).items():
        if name in ("id", "name"):
            continue
        if name not in OPTIONS:
            words += ["--set", f"task.{name}={_text(value)}"]
            continue
        for item in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(item)]
    return words


def _search_words(run: Run) -> list[str]:
    """Options for the settings of the search, when there are few: the preset, and what differs from it."""
    search = run.config.get("search")
    if run.search not in SEARCHES or not isinstance(search, Mapping):
        return []
    try:
        usual = {preset: _flat(to_dict(search_config(run.search, run.task, preset))) for preset in PRESETS}
    except AbpsError:
        return []
    changed = {preset: _changed(search.get("settings"), settings) for preset, settings in usual.items()}
    preset = min(PRESETS, key=lambda name: len(changed[name]))
    if len(changed[preset]) > SHORT:
        return []
    words = [] if preset == PRESETS[0] else ["--preset", preset]
    for name, value in changed[preset].items():
        words += ["--set", f"{run.search}.{name.removesuffix('.kind')}={_text(value)}"]
    return words


def _changed(group: Any, usual: Mapping[str, Any]) -> dict[str, Any]:
    """What a group of a run's settings says that is not as usual; names that nobody knows are left out."""
    flat = _flat(group) if isinstance(group, Mapping) else {}
    kinds = [name for name in usual if name.endswith(".kind") and flat.get(name, usual[name]) != usual[name]]
    others = tuple(name.removesuffix("kind") for name in kinds)  # All settings of a part of another kind.
    known = [name for name in flat if name in usual or name.startswith(others)]
    return {name: flat[name] for name in known if name not in usual or flat[name] != usual[name]}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value})
    return flat


def _text(value: Any) -> str:
    """A value as `--set` reads it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)


def _robot(run: Run, path: str) -> list[Step]:
    state, steps = robot_state(run), []
    if run.status == "failed":
        steps.append(Step("see why it stopped", f"cat {shlex.quote(str(run.path / 'FAILED'))}"))
    if state.failed_in_a_row >= REPEATED:
        failed = count(state.failed_in_a_row, "episode")
        why = f"the last {failed} failed: if the robot is to blame, mend it and take one back"
        steps.append(Step(why, f"abps tell {path} --discard"))
    if run.status == "done":
        steps.append(Step("take the policy to the robot, here as C", f"abps export {path} --which current --format c"))
        steps.append(Step("go on with more episodes", f"abps ask {path} --episodes {LONGER * max(state.told, 1)}"))
        return steps
    steps.append(Step(f"have the policy of episode {state.told} written", f"abps ask {path}"))
    steps.append(Step("after it ran: hand its trajectory back", f"abps tell {path} --trajectory FILE"))
    steps.append(Step("or, if it could not be run to its end", f'abps tell {path} --failed "REASON"'))
    if state.told:
        steps.append(Step("or, if the newest told episode was worthless", f"abps tell {path} --discard"))
    steps.append(Step("see it while you work", f"abps watch --web {path}"))
    return steps


def _task(run: Run) -> str:
    """A word that `abps compare` understands: a name of the catalogue, or what the task was made from."""
    task = run.config.get("task")
    made_from = task.get("id") if isinstance(task, Mapping) else None
    return run.task if run.task in PAPER_TASKS or not isinstance(made_from, str) else made_from
