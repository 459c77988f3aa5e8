"""The searches by name: the one table that the command line, the documentation and the contract tests go through.

Two further words stand for searches: `all` for every one that is installed, `auto` for the one that suits (`auto.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

from abps.errors import AbpsError, ConfigError
from abps.policies.start import InitialLike, read_start
from abps.registry import KINDS, check_part, import_object, kind_of, nearest
from abps.search.auto import AUTO, choose_search
from abps.search.base import Search, SearchConfig
from abps.search.budget import BudgetConfig
from abps.settings import from_dict
from abps.tasks.spec import TaskSpec

__all__ = [
    "ALL",
    "PRESETS",
    "SEARCHES",
    "ListedSearches",
    "SearchEntry",
    "listed_searches",
    "make_search",
    "register_search",
    "search_config",
]

ALL = "all"
"""In a list of searches: every one that is installed."""

PRESETS = ("cpu", "paper")
"""`cpu`: for ordinary computers; `paper`: as published."""

Recipe = Callable[[str, str], SearchConfig]
"""Task name and preset → the settings of a search."""


@dataclass(frozen=True)
class SearchEntry:
    """A search by name; its recipe is imported when it is first needed."""

    recipe: str | Recipe
    summary: str
    suits: str = ""
    """What it is for, in a few words, as measured (docs/guides/which_search.md)."""
    needs: str = ""
    """A package that an extra of abps brings; "": none."""
    extra: str = ""
    """The extra that brings it."""

    @property
    def installed(self) -> bool:
        """Whether it can run here."""
        return not self.needs or find_spec(self.needs) is not None


SEARCHES: dict[str, SearchEntry] = {
    "abs": SearchEntry(
        "abps.search.recipes:abs_recipe",
        "Augmented Bayesian Search (the paper)",
        "the default: first or level with the first on most tasks, up to 100 episodes, of any size",
    ),
    "mpd": SearchEntry(
        "abps.search.recipes:mpd",
        "most probable descent, constant mean",
        "ABS without critics; hundreds of episodes on large tasks (Ant)",
    ),
    "gibo": SearchEntry(
        "abps.search.recipes:gibo",
        "gradient-information Bayesian optimisation",
        "as mpd, with steps of a fixed length; hundreds of episodes (HalfCheetah)",
    ),
    "ddpgn": SearchEntry(
        "abps.search.recipes:ddpgn",
        "ablation: the critics' gradient alone",
        "an ablation, to see what the critics do alone",
    ),
    "ars": SearchEntry(
        "abps.search.recipes:ars",
        "augmented random search",
        "a thousand episodes and more, many workers",
    ),
    "cma": SearchEntry(
        "abps.search.recipes:cma",
        "CMA-ES, by pycma (needs abps[peers])",
        "up to ten weights or so, a hundred episodes and more",
        needs="cma",
        extra="peers",
    ),
    "es": SearchEntry(
        "abps.search.recipes:es",
        "OpenAI-ES: mirrored perturbations and Adam",
        "hundreds of episodes, many workers",
    ),
    "snes": SearchEntry(
        "abps.search.recipes:snes",
        "separable natural evolution strategy",
        "the evolution strategy to try first: few weights, quadrotor and Swimmer",
    ),
    "pso": SearchEntry(
        "abps.search.recipes:pso",
        "particle swarm",
        "up to ten weights or so, a hundred episodes; behind snes and cma",
    ),
    "turbo": SearchEntry(
        "abps.search.box_recipes:turbo",
        "trust-region Bayesian optimisation",
        "Swimmer, Hopper and HalfCheetah in a hundred episodes; poor on the small tasks",
    ),
    "crbo": SearchEntry(
        "abps.search.box_recipes:crbo",
        "confidence-region (cautious) Bayesian optimisation",
        "HalfCheetah and Walker2d; a policy that stays at least as good as its start",
    ),
    "klbo": SearchEntry(
        "abps.search.box_recipes:klbo",
        "local Bayesian optimisation of a search distribution",
        "up to ten weights or so, tens of episodes; behind abs and snes",
    ),
    "rducb": SearchEntry(
        "abps.search.box_recipes:rducb",
        "Bayesian optimisation by random decompositions",
        "a return that is a sum over few weights each; no measured task is",
    ),
}


class ListedSearches(NamedTuple):
    """The searches that a list of names stands for."""

    names: tuple[str, ...]
    missing: tuple[str, ...]
    """Those that `all` leaves out, because a package is not installed."""

    @property
    def note(self) -> str:
        """One sentence about what is missing; "": nothing is."""
        if not self.missing:
            return ""
        extras = sorted({SEARCHES[name].extra for name in self.missing})
        which = ", ".join(self.missing)
        return f"left out, because a package is missing: {which} (pip install 'abps[{','.join(extras)}]')"


def listed_searches(names: Iterable[str]) -> ListedSearches:
    """Names of searches, each once; `all` stands for every registered one that is installed.

    Example:
        >>> from abps.search.registry import listed_searches
        >>> listed_searches(["ars", "abs", "ars"]).names
        ('ars', 'abs')
    """
    wanted = list(names)
    known = [name for name, entry in SEARCHES.items() if entry.installed]
    missing = tuple(name for name in SEARCHES if name not in known) if ALL in wanted else ()
    every = [other for name in wanted for other in (known if name == ALL else [name])]
    return ListedSearches(tuple(dict.fromkeys(every)), tuple(name for name in missing if name not in wanted))


def register_search(name: str, recipe: Recipe, summary: str = "") -> None:
    """Make a search known by name: `recipe(task, preset)` gives its settings.

    Raises:
        ConfigError: the name is taken.

    Example:
        >>> import abps
        >>> from abps.search.recipes import mpd
        >>> from abps.settings import replace
        >>> from abps.steps.walk import Walk
        >>> def short_walk(task, preset):
        ...     return replace(mpd(task, preset), step=Walk(length=0.005))
        >>> abps.register_search("short-walk", short_walk)
        >>> abps.search_config("short-walk", "hopper").step.length
        0.005
    """
    if not callable(recipe):
        raise ConfigError(f"a recipe is a function of task and preset that gives settings, got {recipe!r:.80}")
    if name in (ALL, AUTO):
        raise ConfigError(f"{name!r} stands for other searches already; choose another name")
    known = SEARCHES.get(name)
    if known is not None and known.recipe is not recipe:
        raise ConfigError(f"there is a search {name!r} already; choose another name")
    SEARCHES[name] = SearchEntry(recipe, summary or (recipe.__doc__ or "").strip().partition("\n")[0])


def search_config(search: str, task: str = "", preset: str = "cpu") -> SearchConfig:
    """The settings of a search on a task: what every entrance of abps starts from.

    Args:
        search: a name of `SEARCHES`, a settings class registered by `abps.register`, or `module:Name` of a recipe or of
            a settings class.
        task: the task's name, for presets that depend on it.
        preset: one of `PRESETS`.

    Raises:
        ConfigError: unknown search or preset.

    Example:
        >>> import abps
        >>> abps.search_config("mpd", "hopper").plan
        CentreThenProbes(centre_episodes=3, probes=16, window=51, design_std=0.025)
    """
    if not isinstance(search, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a search is a name ({', '.join(SEARCHES)}) or module:Name, got {search!r:.80}")
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}{nearest(preset, PRESETS)}")
    if search in (ALL, AUTO):
        raise ConfigError(f"{search!r} is no search with settings of its own; name one of {', '.join(SEARCHES)}")
    recipes: dict[str, Any] = {name: part for name, part in KINDS["search"].items() if isinstance(part, type)}
    recipes |= {name: entry.recipe for name, entry in SEARCHES.items()}
    if search not in recipes and ":" not in search:
        raise ConfigError(f"unknown search {search!r}{nearest(search, recipes)}")
    recipe = recipes.get(search, search)
    recipe = import_object(recipe) if isinstance(recipe, str) else recipe
    if isinstance(recipe, type):
        check_part(recipe, "search", search)
        return from_dict(SearchConfig, {"kind": search if ":" in search else kind_of(recipe)})
    config = _settings_of(search, recipe, task, preset) if callable(recipe) else recipe
    if not isinstance(config, SearchConfig):
        raise ConfigError(f"{search!r} must give the settings of a search (a SearchConfig), got {config!r}")
    return config


def _settings_of(search: str, recipe: Any, task: str, preset: str) -> Any:
    try:
        return recipe(task, preset)
    except AbpsError:
        raise
    except Exception as error:  # Whatever a stranger's recipe does.
        raise ConfigError(f"the recipe {search!r} failed: {type(error).__name__}: {error}") from error


def make_search(
    search: str | SearchConfig,
    spec: TaskSpec,
    config: SearchConfig | None = None,
    *,
    seed: int = 0,
    budget: BudgetConfig | None = None,
    initial: InitialLike | None = None,
) -> Search[Any]:
    """Make a search.

    Args:
        search: a name (see `search_config`), settings, or `auto`: the search that suits the spec and the budget; what
            it chose is printed, and the search's `name`.
        spec: sizes, bounds, discount and horizon of the task.
        config: settings; None takes those of the preset `cpu` for the task that `spec` names.
        seed: everything random in the search derives from it.
        budget: when `stop` gives a reason; None never does.
        initial: where it starts: a policy, an array of parameters, a run directory or a policy file; None: where its
            class of policies does.

    Raises:
        ConfigError: unknown name, settings of another kind of search, or a start that is none.

    Example:
        >>> import abps
        >>> task = abps.make_task("pendulum")
        >>> env = task.make_env()
        >>> search = abps.make_search("mpd", task.spec, seed=0, budget=abps.BudgetConfig(episodes=2))
        >>> while not search.stop():
        ...     query = search.ask()
        ...     outcomes = [abps.run_episode(env, query.policy, seed) for seed in query.seeds]
        ...     metrics = search.tell(query, outcomes)
        >>> search.stop()
        {'episodes': '2 of 2 episodes are used'}
    """
    if not isinstance(spec, TaskSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a search is made for a TaskSpec (`abps.make_task(...).spec`), got {spec!r:.80}")
    if search == AUTO:
        search = choose_search(spec, budget).announce()
    if isinstance(search, SearchConfig):
        made = search.make(spec, seed=seed, budget=budget)
    else:
        expected = search_config(search, spec.name)
        config = expected if config is None else config
        if type(config) is not type(expected):
            raise ConfigError(f"search {search!r} takes {type(expected).__name__}, got {type(config).__name__}")
        made = config.make(spec, seed=seed, budget=budget, name=search)
    if initial is not None:
        start = read_start(initial, made.policies, made.config.observations)
        made.start_from(start.parameters, start.normaliser)
    return made
