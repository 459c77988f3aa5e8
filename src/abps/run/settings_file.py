"""Settings from a file: a run's config.yaml, the search group of one, or only the settings that are to differ."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from abps.errors import ConfigError, RunError
from abps.keywords import keywords_texts
from abps.run.config import RunConfig
from abps.run.directory import MAX_CONFIG_BYTES, parse_yaml
from abps.run.files import read_bounded
from abps.search.auto import AUTO
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.settings import from_dict
from abps.tasks.config import TaskConfig

__all__ = ["NOTHING", "FileSettings", "read_settings_file"]

GROUPS = ("format", "seed", "variant", "task", "search", "budget", "run", "hardware", "initial")
"""What a run's config.yaml is made of."""


class FileSettings(NamedTuple):
    """What a file says; groups that it does not have are empty."""

    path: Path
    search: str = ""
    """The search's name; "": the file does not say."""
    seed: int | None = None
    task: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    """Of the search."""
    budget: Mapping[str, Any] = {}
    run: Mapping[str, Any] = {}

    @property
    def task_name(self) -> str:
        """The task's id or name, or ""."""
        return str(self.task.get("name") or self.task.get("id") or "")

    def budget_on(self, base: BudgetConfig) -> BudgetConfig:
        """`base` with what the file says of the budget."""
        return self._on(base, self.budget, "budget.")

    def run_on(self, base: RunConfig) -> RunConfig:
        """`base` with what the file says of how a run is carried out."""
        return self._on(base, self.run, "run.")

    def task_on(self, base: TaskConfig) -> TaskConfig:
        """`base` with what the file says of its task; a file about another task says nothing of this one."""
        named = {str(self.task[name]) for name in ("id", "name") if self.task.get(name)}
        if named and not named & {base.id, base.name}:
            return base
        return self._on(base, self.task, "task.")

    def search_on(self, search: str, base: SearchConfig) -> SearchConfig:
        """`base`, the settings of `search`, with those of the file.

        Raises:
            ConfigError: they are those of another search.
        """
        if self.search not in ("", AUTO, search):
            raise ConfigError(
                f"{self.path} has settings of the search {self.search!r}, and {search!r} is wanted; leave the search "
                "out to take the file's"
            )
        return self._on(base, self.settings, f"{search}.")

    def _on(self, base: Any, values: Mapping[str, Any], where: str) -> Any:
        if not values:
            return base
        try:
            return from_dict(type(base), values, where=where, default=base)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from error


NOTHING = FileSettings(Path())


def read_settings_file(path: str | Path) -> FileSettings:
    """Read a settings file, or that of a run directory.

    Raises:
        ConfigError: it is missing, not YAML, or of another form.
    """
    file = Path(path) / "config.yaml" if Path(path).is_dir() else Path(path)
    try:
        document = parse_yaml(read_bounded(file, MAX_CONFIG_BYTES), file)
    except RunError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise ConfigError(f"{file} must hold groups of settings, as the config.yaml of a run does")
    known = cast("dict[str, Any]", document)
    if known.get("hardware") is not None:
        raise ConfigError(f"{file} describes a robot; give its search group alone, or `abps ask --new` its robot.yaml")
    if set(known) == {"name", "settings"}:
        known = {"search": known}
    elif not set(known) & {"task", "search", "budget", "run"}:
        known = {"search": {"settings": known}}
    unknown = sorted(set(known) - set(GROUPS))
    if unknown:
        raise ConfigError(f"{file} has the group {unknown[0]!r}; known are {', '.join(GROUPS)}")
    return _file_settings(file, known)


def _file_settings(file: Path, document: dict[str, Any]) -> FileSettings:
    groups = {name: document.get(name) or {} for name in ("task", "search", "budget", "run")}
    for name, group in groups.items():
        if not isinstance(group, Mapping):
            raise ConfigError(f"{file}: {name} must be a group of settings, got {group!r}")
    seed, search = document.get("seed"), groups["search"]
    if seed is not None and type(seed) is not int:
        raise ConfigError(f"{file}: seed must be a whole number, got {seed!r}")
    settings = search.get("settings", {}) if {"name", "settings"} & set(search) else search
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{file}: search.settings must be a group of settings, got {settings!r}")
    task = dict(groups["task"])
    if isinstance(task.get("env_kwargs"), Mapping):
        task["env_kwargs"] = keywords_texts(task["env_kwargs"])
    return FileSettings(file, str(search.get("name", "")), seed, task, settings, groups["budget"], groups["run"])
