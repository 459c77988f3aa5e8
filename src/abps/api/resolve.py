"""From the words of a Python call to the settings of a run: the same names and the same defaults as `abps train`."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import ConfigError
from abps.registry import kind_of, nearest
from abps.run.config import RunConfig
from abps.run.directory import RunSettings
from abps.run.settings_file import NOTHING, FileSettings, read_settings_file
from abps.run.start import RunStart, prepare_start
from abps.search.auto import AUTO, choose_search
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace, with_changes
from abps.tasks.config import TaskConfig
from abps.tasks.gym import Task, TaskLike, make_task

__all__ = ["Resolved", "as_path", "resolve", "whole_number"]


class Resolved(NamedTuple):
    """A run that can begin."""

    settings: RunSettings
    task: Task
    start: RunStart


def resolve(
    task: TaskLike,
    search: str | SearchConfig,
    *,
    budget: BudgetConfig,
    seed: int,
    preset: str,
    initial: Any,
    config: str | Path | None,
    changes: Mapping[str, Any],
) -> Resolved:
    """Find out what a call means, before anything is written.

    Args:
        task: what is controlled.
        search: a name, settings, or `auto`.
        budget: when it stops, where neither file nor changes say.
        seed: everything random derives from it.
        preset: of the search.
        initial: where it starts; None: where its class of policies does.
        config: a settings file; changes come after it.
        changes: settings by name, of the task, the budget, the run or the search.

    Raises:
        AbpsError: one sentence about what is wrong.
    """
    file = read_settings_file(as_path(config, "config")) if config is not None else NOTHING
    whole_number(seed, "seed", 0)
    made = None
    if search == AUTO:
        made, search = _chosen(task, file, budget, changes)
    groups = _sorted_out(changes, search, preset)
    made = made or _made(task, file, groups["task"])
    name = search if isinstance(search, str) else kind_of(type(search))
    base = search_config(name, made.config.name, preset) if isinstance(search, str) else search
    chosen = _changed(file.search_on(name, base), groups["search"], f"{name}.")
    start = prepare_start(initial, made.spec, chosen)
    settings = RunSettings(
        task=made.config,
        search=name,
        search_config=chosen,
        budget=_changed(file.budget_on(budget), groups["budget"], "budget."),
        run=_changed(file.run_on(RunConfig()), groups["run"], "run."),
        seed=int(seed),
        initial=start.text,
    )
    return Resolved(settings, made, start)


def whole_number(value: Any, name: str, least: int) -> int:
    """A count that a call was given.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r:.80}")
    return int(value)


def as_path(value: Any, name: str) -> Path:
    """A path that a call was given.

    Raises:
        ConfigError: it is none.
    """
    try:
        return Path(value)
    except TypeError as error:
        raise ConfigError(f"{name} must be a path, got {value!r:.80}") from error


def _chosen(task: TaskLike, file: FileSettings, budget: BudgetConfig, changes: Mapping[str, Any]) -> tuple[Task, str]:
    """The task, made before the settings of its search are known, and the search that suits it."""
    mine = {
        owner: {name: value for name, value in changes.items() if _first(name) in _names(owner)}
        for owner in (TaskConfig, BudgetConfig)
    }
    made = _made(task, file, mine[TaskConfig])
    allowed = _changed(file.budget_on(budget), mine[BudgetConfig], "budget.")
    return made, choose_search(made.spec, allowed).announce()


def _made(task: TaskLike, file: FileSettings, changes: Mapping[str, Any]) -> Task:
    given = make_task(task, **changes)
    return make_task(given, **_task_changes(file.task_on(given.config), given.config, changes))


def _first(name: str) -> str:
    """The setting or group that a dotted name begins with."""
    return name.partition(".")[0]


def _names(owner: Any) -> set[str]:
    return {item.name for item in fields(owner)}


def _sorted_out(changes: Mapping[str, Any], search: str | SearchConfig, preset: str) -> dict[str, dict[str, Any]]:
    """Changes by the group that they belong to.

    Raises:
        ConfigError: no group has such a setting.
    """
    chosen = search_config(search, "", preset) if isinstance(search, str) else search
    if not hasattr(chosen, "make"):
        raise ConfigError(f"a search is a name, or settings of one (a SearchConfig), got {search!r:.80}")
    owners = {"budget": BudgetConfig, "run": RunConfig, "task": TaskConfig, "search": type(chosen)}
    names = {group: _names(owner) for group, owner in owners.items()}
    found: dict[str, dict[str, Any]] = {group: {} for group in owners}
    for name, value in changes.items():
        group = next((group for group, known in names.items() if _first(name) in known), None)
        if group is None:
            every = sorted({other for known in names.values() for other in known} - {"id"})
            raise ConfigError(f"there is no setting {name!r}{nearest(name, every)}")
        found[group][name] = value
    return found


def _changed(config: Any, changes: Mapping[str, Any], where: str) -> Any:
    return with_changes(config, changes, where=where) if changes else config


def _task_changes(wanted: TaskConfig, have: TaskConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a settings file says of the task and the call does not."""
    kept = replace(wanted, id=have.id, name=have.name)
    return {
        item.name: getattr(kept, item.name)
        for item in fields(kept)
        if item.name not in given and getattr(kept, item.name) != getattr(have, item.name)
    }
