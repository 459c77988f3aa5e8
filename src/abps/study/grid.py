"""A grid: tasks × searches × seeds × any settings, as a list of cells that are runs in the normal layout.

An *axis* names one setting (`abs.step.factor`), a part by its kind (`abs.prior.aggregation=softmax,mean`), or several
that change together (`abs.gp.lengthscale_low+abs.gp.lengthscale_high`), and the values it takes. The first word says
whose setting it is: a search's name, `task`, `budget`, or the word `preset` alone. An axis of a search multiplies the
cells of that search only. What an axis changes is written into the run's `variant`, which is part of its path: two
variants never share a directory.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import ConfigError
from abps.registry import kind_of
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, run_path
from abps.search.auto import AUTO
from abps.search.budget import BudgetConfig
from abps.search.registry import PRESETS, SEARCHES, search_config
from abps.settings import Part, with_changes
from abps.tasks.catalogue import task_config

__all__ = [
    "GRIDS",
    "PAPER_TABLE_1",
    "Axis",
    "Cell",
    "Grid",
    "NamedGrid",
    "make_cells",
    "parse_assignment",
    "parse_axis",
    "parse_names",
    "parse_seeds",
]

OWNERS = ("task", "budget", "run")
MAX_SEEDS = 10_000


@dataclass(frozen=True)
class Axis:
    """One or several settings that change together, and the texts of the values they take."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    """One tuple per point of the axis, one text per name."""
    tasks: tuple[str, ...] = ()
    """The tasks it holds for; empty: all."""


@dataclass(frozen=True)
class Grid:
    """What is to be compared."""

    tasks: tuple[str, ...]
    searches: tuple[str, ...]
    seeds: tuple[int, ...]
    episodes: Mapping[str, int]
    """Training episodes per task; 0: no limit."""
    preset: str = "cpu"
    axes: tuple[Axis, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that hold for all cells they apply to, by dotted name, as texts or values; they do not make a variant.
    """
    auto: Mapping[str, str] = field(default_factory=dict)
    """The search that the name `auto` stands for, per task."""


class Cell(NamedTuple):
    """One run of a study."""

    number: int
    """Its place in the whole grid, which does not depend on what is finished already."""
    path: Path
    settings: RunSettings

    @property
    def name(self) -> str:
        """task/search[@variant]/seed-n, the way a cell is spoken of."""
        return "/".join(self.path.parts[-3:])


def _pairs(*bounds: tuple[str, str]) -> tuple[tuple[str, ...], ...]:
    return tuple(bounds)


def _paper_table_1() -> tuple[Axis, ...]:
    """The paper's Table 1: step sizes (ABS only) and lengthscale priors, smaller by half for the three large tasks."""
    small, large = ("pendulum", "swimmer", "hopper"), ("cheetah", "walker", "ant")
    wide = _pairs(("0.00125", "0.025"), ("0.0025", "0.05"))
    narrow = _pairs(("0.000625", "0.0125"), ("0.00125", "0.025"))
    axes = [
        Axis(("abs.step.factor",), (("0.0025",), ("0.005",)), small),
        Axis(("abs.step.factor",), (("0.00125",), ("0.0025",)), large),
    ]
    for search in ("abs", "mpd"):
        names = (f"{search}.gp.lengthscale_low", f"{search}.gp.lengthscale_high")
        axes += [Axis(names, wide, small), Axis(names, narrow, large)]
    return tuple(axes)


class NamedGrid(NamedTuple):
    """Axes known by name, and the preset whose settings they vary."""

    axes: tuple[Axis, ...]
    preset: str


PAPER_TABLE_1 = _paper_table_1()
GRIDS: dict[str, NamedGrid] = {"paper-table-1": NamedGrid(PAPER_TABLE_1, "paper")}
"""Grids known by name."""


def make_cells(grid: Grid, root: Path) -> list[Cell]:
    """Return the grid's cells, seed by seed, so that a study cut short has every search on every task at least once.

    Raises:
        ConfigError: an unknown name, a value out of range, or an axis that no cell has.
    """
    _check(grid)
    cells: dict[Path, Cell] = {}
    for seed, task, name in itertools.product(grid.seeds, grid.tasks, grid.searches):
        search = grid.auto[task] if name == AUTO else name
        for settings in _variants(grid, task, search, seed):
            path = run_path(root, settings)
            known = cells.setdefault(path, Cell(len(cells), path, settings))
            if known.settings != settings:
                raise ConfigError(f"two different cells of the grid have the path {path}; rename one of the tasks")
    return list(cells.values())


def parse_axis(text: str) -> Axis:
    """Read `name=value,value`, `a+b=1:2,3:4` for settings that change together; `;` separates values with commas.

    Raises:
        ConfigError: it has another form.
    """
    left, separator, right = text.partition("=")
    names = tuple(name.strip() for name in left.split("+"))
    values = [value.strip() for value in right.split(";" if ";" in right else ",")]
    if not separator or not all(names) or not all(values):
        raise ConfigError(
            f"cannot read the axis {text!r}; expected name=value,value, e.g. abs.step.factor=0.0025,0.005"
        )
    points = tuple(tuple(part.strip() for part in value.split(":")) if len(names) > 1 else (value,) for value in values)
    for point in points:
        if len(point) != len(names):
            raise ConfigError(
                f"the axis {text!r} changes {len(names)} settings together, so each of its values must be {len(names)} "
                f"numbers joined by ':'; got {':'.join(point)!r}"
            )
    return Axis(names, points)


def parse_assignment(text: str) -> tuple[str, str]:
    """Read `name=value`.

    Raises:
        ConfigError: it has another form.
    """
    name, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not name or not value:
        raise ConfigError(f"cannot read the setting {text!r}; expected name=value, e.g. mpd.plan.probes=8")
    return name, value


def parse_names(text: str) -> tuple[str, ...]:
    """Read names separated by commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read `0-4` or `0,3,7-9`, each seed once.

    Raises:
        ConfigError: it has another form.
    """
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None:
            raise ConfigError(f"cannot read the seeds {text!r}; expected numbers and ranges, e.g. 0-4 or 0,3,7-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_SEEDS:
            raise ConfigError(f"the range of seeds {part.strip()!r} is empty or has more than {MAX_SEEDS} of them")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)


def _split(name: str) -> tuple[str, str]:
    """`mpd.plan.probes` → `mpd`, `plan.probes`; a search of one's own is `package.module:Name`, dots and all."""
    module, colon, rest = name.rpartition(":")
    owner, _, setting = rest.partition(".")
    return f"{module}{colon}{owner}", setting


def _check(grid: Grid) -> None:
    if not (grid.tasks and grid.searches and grid.seeds):
        raise ConfigError("a grid needs at least one task, one search and one seed")
    searches = [name for name in grid.searches if name != AUTO]
    searches += [name for name in grid.auto.values() if AUTO in grid.searches and name not in searches]
    for search in searches:
        search_config(search)
    axes = [name for axis in grid.axes for name in axis.names]
    for name in (*axes, *grid.fixed):
        owner, setting = _split(name)
        if owner in SEARCHES and owner not in searches:
            raise ConfigError(f"{name} is a setting of {owner}, which is not among the searches of this grid")
        if name != "preset" and (owner not in (*searches, *OWNERS) or not setting):
            raise ConfigError(
                f"cannot tell whose setting {name!r} is; begin it with a search ({', '.join(searches)}), with "
                f"{', '.join(OWNERS)}, or write preset alone"
            )
    if twice := sorted({name for name in axes if name in grid.fixed}):
        raise ConfigError(f"{', '.join(twice)} cannot be both fixed and an axis")
    if "budget.episodes" in (*axes, *grid.fixed):
        raise ConfigError("set the budget with --episodes, not as a setting: longer runs continue shorter ones")
    if runs := sorted({name for name in axes if _split(name)[0] == "run"}):
        raise ConfigError(
            f"{', '.join(runs)} does not change what is learned, so it makes no axis; fix it for all cells"
        )
    for axis in grid.axes:
        if axis.tasks and not set(axis.tasks) & set(grid.tasks):
            continue
        if len(set(axis.values)) < len(axis.values):
            raise ConfigError(f"the axis {'+'.join(axis.names)} has a value twice")


def _variants(grid: Grid, task: str, search: str, seed: int) -> Iterator[RunSettings]:
    axes = [axis for axis in grid.axes if (not axis.tasks or task in axis.tasks) and _applies(axis.names, search)]
    for points in itertools.product(*(axis.values for axis in axes)):
        chosen = {
            name: text
            for axis, point in zip(axes, points, strict=True)
            for name, text in zip(axis.names, point, strict=True)
        }
        yield _settings(grid, task, search, seed, chosen)


def _applies(names: Sequence[str], search: str) -> bool:
    return any(_split(name)[0] in (search, "preset", *OWNERS) for name in names)


def _settings(grid: Grid, task: str, search: str, seed: int, chosen: Mapping[str, str]) -> RunSettings:
    """The settings of one cell: the preset's, then the fixed ones, then the axes' values."""
    changes = {**grid.fixed, **chosen}
    preset = changes.pop("preset", grid.preset)
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; known: {', '.join(PRESETS)}")
    parts: dict[str, Any] = {
        "task": task_config(task),
        search: search_config(search, task, preset),
        "budget": BudgetConfig(episodes=grid.episodes[task]),
        "run": RunConfig(),
    }
    own = {name: text for name, text in changes.items() if _split(name)[0] in parts}
    for owner in parts:
        mine = {_split(name)[1]: text for name, text in own.items() if _split(name)[0] == owner}
        parts[owner] = with_changes(parts[owner], mine, where=f"{owner}.") if mine else parts[owner]
    labels = [_label(name, search, parts, preset) for name in chosen if name in own or name == "preset"]
    return RunSettings(
        parts["task"], search, parts[search], parts["budget"], parts["run"], seed, variant=",".join(labels)
    )


def _label(name: str, search: str, parts: Mapping[str, Any], preset: str) -> str:
    """`name=value` as it was understood, so that 0.10 and 0.1 are one variant; the search's own name is left out."""
    if name == "preset":
        return f"preset={preset}"
    owner, rest = _split(name)
    value = parts[owner]
    for part in rest.split("."):
        value = getattr(value, part)
    return f"{rest if owner == search else name}={_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, Part):
        return kind_of(type(value))
    if isinstance(value, tuple):
        return "+".join(_shown(part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)
