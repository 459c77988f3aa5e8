"""docs/settings.md is what the code says, and every entrance of abps starts from the same settings."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from abps.cli.options import parse
from abps.cli.train import DEFAULT_EPISODES, train_groups
from abps.run.config import RunConfig
from abps.run.directory import read_settings
from abps.run.hardware import create_hardware_run
from abps.search.budget import BudgetConfig
from abps.search.registry import PRESETS, SEARCHES, make_search, search_config
from abps.tasks.catalogue import PAPER_TASKS, task_config
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.limits import Limits
from abps.tasks.spec import TaskSpec

DOCS = Path(__file__).parents[2] / "docs"
TASKS = (*PAPER_TASKS, "robot")
"""`robot` stands for every task that abps does not know."""


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_settings", DOCS / "generate_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(generator: ModuleType) -> None:
    assert (DOCS / "settings.md").read_text() == generator.page(), "run `make docs`"


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", TASKS)
def test_the_command_line_starts_from_the_recipe(search: str, preset: str, task: str) -> None:
    groups, words = train_groups([task, "--search", search, "--preset", preset])
    _, budget, run, found_task, found = parse(words, groups, command="train")
    assert budget == BudgetConfig(episodes=DEFAULT_EPISODES)
    assert run == RunConfig()
    assert found == search_config(search, task, preset)
    assert found_task == task_config(task)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("task", TASKS)
def test_python_and_hardware_start_from_the_same_settings(search: str, task: str, tmp_path: Path) -> None:
    groups, words = train_groups([task, "--search", search])
    trained = parse(words, groups, command="train")[-1]
    spec = TaskSpec(
        name=task, observation_dim=2, action_dim=1, action_low=(-1.0,), action_high=(1.0,), gamma=0.99, horizon=10,
        reward_scale=None,
    )  # fmt: skip
    assert make_search(search, spec).config == trained
    hardware = HardwareConfig(observations=2, action_low=(-1.0,), action_high=(1.0,))
    create_hardware_run(tmp_path / "run", TaskConfig(name=task), hardware, search=search)
    made = read_settings(tmp_path / "run")
    assert made.search_config == trained
    assert made.budget == BudgetConfig()
    assert made.run == RunConfig(evaluate_every=0, checkpoint_stages=True)  # As the page says.


# ---- reading the page as a person would -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sections() -> dict[str, list[list[list[str]]]]:
    """Heading → its tables → rows → cells, without the marks of code."""
    found: dict[str, list[list[list[str]]]] = {}
    heading, inside = "", False
    for line in (DOCS / "settings.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").replace("`", "")
            found[heading] = []
        is_row = line.startswith("|")
        if is_row and not inside:
            found[heading].append([])
        if is_row and not line.startswith("|---"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found[heading][-1].append([cell.strip().replace("`", "") for cell in cells])
        inside = is_row
    return found


def read_page(sections: dict[str, Any], search: str, preset: str, task: str) -> dict[str, str]:
    """The settings of a search on a task, put together from the page's tables alone."""
    parts, *by_task = sections[f"Search {search}, preset {preset}"]
    special = {row[0]: row[1 + TASKS.index(task)] for table in by_task for row in table[1:]}
    found: dict[str, str] = {}
    for name, kind, differing in parts[1:]:
        path = "" if name == "the search itself" else name
        kind = special.get(path, kind) if path else kind
        if path and kind:
            found[path] = kind
        family = path.rpartition(".")[2] if path else "search"
        heading = f"{family} {kind}" if kind else f"group {family}"
        prefix = f"{path}." if path else ""
        for table in sections[heading]:
            found.update({prefix + row[0]: row[1] for row in table[1:] if f"{prefix}{row[0]}" not in found})
        for text in filter(None, differing.split(", ")):
            setting, _, value = text.partition(" ")
            found[prefix + setting] = value
    found.update({name: value for name, value in special.items() if value})
    return {name: value for name, value in found.items() if not name.endswith("…")}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", TASKS)
def test_the_page_says_the_same(
    search: str, preset: str, task: str, generator: ModuleType, sections: dict[str, Any]
) -> None:
    expected = {name: generator.shown(value) for name, value in generator.leaves(search_config(search, task, preset))}
    assert read_page(sections, search, preset, task) == expected


@pytest.mark.parametrize(
    ("heading", "config"),
    [
        ("When to stop", BudgetConfig()),
        ("How a run is carried out", RunConfig()),
        ("The task", TaskConfig()),
        ("Limits", Limits()),
    ],
)
def test_the_page_has_the_defaults_of_budget_run_and_task(
    heading: str, config: Any, generator: ModuleType, sections: dict[str, Any]
) -> None:
    (table,) = sections[heading]
    expected = {name: generator.shown(v) for name, v in generator.leaves(config) if not name.startswith("limits.")}
    assert {row[0]: row[1] for row in table[1:] if row[0] != "limits.…"} == expected


def test_the_page_has_a_table_for_every_kind(generator: ModuleType, sections: dict[str, Any]) -> None:
    from abps.registry import KINDS

    for family in KINDS:
        for kind in generator.kinds_of(family):
            assert f"{family} {kind}" in sections
