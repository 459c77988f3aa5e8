"""Settings from a file: a whole config.yaml, a group of it, or only what differs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from abps.errors import ConfigError
from abps.run.directory import settings_document
from abps.run.settings_file import read_settings_file
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.tasks.catalogue import task_config


def written(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def test_a_whole_config_and_its_groups_say_the_same(tmp_path: Path, make_settings: Any) -> None:
    settings = make_settings(step=0.5, gamma=0.9, minutes=3.0)
    document = settings_document(settings)
    group = document["search"]
    forms = {"whole": document, "named": group, "bare": group["settings"], "inside": {"search": group["settings"]}}
    for name, form in forms.items():
        file = read_settings_file(written(tmp_path / f"{name}.yaml", form))
        assert file.search_on("ars", search_config("ars")) == settings.search_config
    whole = read_settings_file(tmp_path / "whole.yaml")
    assert (whole.search, whole.seed, whole.task_name) == ("ars", 0, "lqr")
    assert whole.budget_on(BudgetConfig(episodes=1)) == settings.budget
    assert whole.run_on(settings.run) == settings.run
    assert whole.task_on(settings.task) == settings.task


def test_what_a_file_leaves_out_stays_as_it_is(tmp_path: Path) -> None:
    file = read_settings_file(written(tmp_path / "part.yaml", "plan: {probes: 3}\nstep: {kind: normalised-gradient}\n"))
    base: Any = search_config("mpd", "hopper")
    found: Any = file.search_on("mpd", base)
    assert (found.plan.probes, found.plan.window) == (3, base.plan.window)
    assert type(found.step).__name__ == "NormalisedGradient"
    assert found.gp == base.gp
    assert file.budget_on(BudgetConfig(episodes=7)) == BudgetConfig(episodes=7)


def test_a_file_about_another_task_says_nothing_of_this_one(tmp_path: Path) -> None:
    file = read_settings_file(
        written(tmp_path / "a.yaml", {"task": {"id": "Hopper-v4", "name": "hopper", "gamma": 0.5}})
    )
    assert file.task_on(task_config("hopper")).gamma == 0.5
    assert file.task_on(task_config("walker")).gamma == 0.99
    bare = read_settings_file(
        written(tmp_path / "b.yaml", {"task": {"gamma": 0.5, "env_kwargs": {"mass": 2, "x": "y"}}})
    )
    assert bare.task_on(task_config("walker")).gamma == 0.5
    assert bare.task_on(task_config("walker")).env_kwargs == ("mass=2", 'x="y"')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "must hold groups of settings"),
        ("a: [", r"file\.yaml is not a readable settings file"),
        ("a: &x 1\nb: *x", "aliases"),
        ("budget: {}\nrum: {}", "has the group 'rum'"),
        ("budget: 3", "budget must be a group of settings, got 3"),
        ("search: {name: ars, settings: 3}", "search.settings must be a group"),
        ("seed: x\nbudget: {}", "seed must be a whole number, got 'x'"),
        ("hardware: {observations: 3}\ntask: {}", "describes a robot"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings_file(written(tmp_path / "file.yaml", content))


def test_mistakes_in_a_group_name_the_file(tmp_path: Path) -> None:
    file = read_settings_file(written(tmp_path / "file.yaml", "search: {name: ars, settings: {stepp: 1}}\n"))
    with pytest.raises(ConfigError, match=r"file.yaml: unknown setting ars.stepp; did you mean 'step'"):
        file.search_on("ars", search_config("ars"))
    with pytest.raises(ConfigError, match="has settings of the search 'ars', and 'mpd' is wanted"):
        file.search_on("mpd", search_config("mpd"))
    with pytest.raises(ConfigError, match=r"nowhere.yaml is missing"):
        read_settings_file(tmp_path / "nowhere.yaml")
