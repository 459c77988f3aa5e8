"""The searches by name: the one table that the command line, the documentation and the contract tests go through."""

import importlib
from dataclasses import dataclass
from typing import Any

from abps import config as settings
from abps.errors import ConfigError
from abps.search.base import Search
from abps.tasks.spec import TaskSpec

__all__ = ["SEARCHES", "SearchEntry", "make_search", "search_entry"]


@dataclass(frozen=True)
class SearchEntry:
    """Where a search lives and what configures it; the module is imported when the search is made."""

    module: str
    class_name: str
    config: type[Any]
    summary: str


SEARCHES: dict[str, SearchEntry] = {
    "abs": SearchEntry("abps.search.abs", "Abs", settings.AbsConfig, "Augmented Bayesian Search (the paper)"),
    "mpd": SearchEntry("abps.search.mpd", "Mpd", settings.MpdConfig, "most probable descent, constant mean"),
    "gibo": SearchEntry("abps.search.gibo", "Gibo", settings.GiboConfig, "gradient-information Bayesian optimisation"),
    "ddpgn": SearchEntry("abps.search.ddpgn", "Ddpgn", settings.DdpgnConfig, "ablation: the critics' gradient alone"),
    "ars": SearchEntry("abps.search.ars", "Ars", settings.ArsConfig, "augmented random search"),
}


def search_entry(name: str) -> SearchEntry:
    """Return the entry of a search.

    Raises:
        ConfigError: there is no search of that name.
    """
    if name not in SEARCHES:
        raise ConfigError(f"unknown search {name!r}; known: {', '.join(SEARCHES)}")
    return SEARCHES[name]


def make_search(
    name: str,
    spec: TaskSpec,
    config: Any = None,
    *,
    seed: int = 0,
    budget: settings.BudgetConfig | None = None,
) -> Search[Any]:
    """Make a search by name.

    Args:
        name: a key of `SEARCHES`.
        spec: sizes, bounds, discount and horizon of the task.
        config: the search's settings; None takes the class's defaults (`presets` has the paper's).
        seed: everything random in the search derives from it.
        budget: when `stop` gives a reason; None never does.

    Raises:
        ConfigError: unknown name, or settings of another search.
    """
    entry = search_entry(name)
    config = entry.config() if config is None else config
    if type(config) is not entry.config:
        raise ConfigError(f"search {name!r} takes {entry.config.__name__}, got {type(config).__name__}")
    cls = getattr(importlib.import_module(entry.module), entry.class_name)
    return cls(spec, config, seed=seed, budget=budget)
