"""Grids: what is multiplied by what, where each cell lies, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abps.errors import ConfigError
from abps.search.base import SearchConfig
from abps.search.local import LocalSearchConfig
from abps.search.registry import search_config
from abps.steps.gradient import NormalisedGradient
from abps.steps.walk import Walk
from abps.study.grid import (
    GRIDS,
    PAPER_TABLE_1,
    Axis,
    Grid,
    make_cells,
    parse_assignment,
    parse_axis,
    parse_names,
    parse_seeds,
)
from abps.tasks.catalogue import PAPER_TASKS

ROOT = Path("runs")


def local(config: SearchConfig) -> Any:
    """The settings of a local search, whose parts have settings of their own."""
    assert isinstance(config, LocalSearchConfig)
    return config


def grid(
    tasks: str = "pendulum",
    searches: str = "ars",
    seeds: str = "0-1",
    *axes: str,
    preset: str = "cpu",
    **fixed: str,
) -> Grid:
    names = parse_names(tasks)
    return Grid(
        names,
        parse_names(searches),
        parse_seeds(seeds),
        dict.fromkeys(names, 30),
        preset,
        tuple(map(parse_axis, axes)),
        {name.replace("__", "."): value for name, value in fixed.items()},
    )


def names(wanted: Grid) -> list[str]:
    return [cell.name for cell in make_cells(wanted, ROOT)]


def test_cells_are_tasks_times_searches_times_seeds_in_the_normal_layout() -> None:
    cells = make_cells(grid("pendulum,hopper", "ars,mpd", "0-2"), ROOT)
    assert len(cells) == 12
    assert [cell.number for cell in cells] == list(range(12))
    assert cells[0].path == ROOT / "pendulum" / "ars" / "seed-0"
    assert cells[1].settings.search_config == search_config("mpd", "pendulum")
    # Every search on every task comes before the second seed.
    assert {cell.settings.seed for cell in cells[:4]} == {0}


def test_more_seeds_keep_the_numbers_of_the_cells_there_were() -> None:
    few, many = (make_cells(grid("pendulum,hopper", "ars,mpd", seeds), ROOT) for seeds in ("0-1", "0-4"))
    assert few == many[: len(few)]


def test_an_axis_multiplies_its_own_search_only_and_names_the_folder() -> None:
    found = names(
        grid(
            "hopper",
            "abs,ars",
            "0",
            "abs.step.factor=0.00125,0.0025",
            "abs.gp.lengthscale_high=0.025,0.05",
            preset="paper",
        )
    )
    assert found == [
        "hopper/abs@step.factor=0.00125,gp.lengthscale_high=0.025/seed-0",
        "hopper/abs@step.factor=0.00125,gp.lengthscale_high=0.05/seed-0",
        "hopper/abs@step.factor=0.0025,gp.lengthscale_high=0.025/seed-0",
        "hopper/abs@step.factor=0.0025,gp.lengthscale_high=0.05/seed-0",
        "hopper/ars/seed-0",
    ]


def test_axes_of_tasks_and_presets_hold_for_every_search() -> None:
    assert len(names(grid("hopper", "mpd,ars", "0", "task.gamma=0.9,1", "task.reward_scale=1,none"))) == 8
    cells = make_cells(grid("hopper", "abs", "0", "preset=cpu,paper"), ROOT)
    assert [cell.settings.search_config for cell in cells] == [
        search_config("abs", "hopper", preset) for preset in ("cpu", "paper")
    ]
    assert cells[0].settings.search_config != cells[1].settings.search_config
    assert [cell.settings.variant for cell in cells] == ["preset=cpu", "preset=paper"]


def test_fixed_settings_make_no_variant() -> None:
    (cell,) = make_cells(
        grid("hopper", "mpd", "0", mpd__plan__probes="8", budget__target="300", run__workers="2"), ROOT
    )
    assert cell.path.parts[-2] == "mpd"
    settings = cell.settings
    assert (local(settings.search_config).plan.probes, settings.budget.target, settings.run.workers) == (8, 300.0, 2)


def test_values_are_understood_before_they_are_named() -> None:
    assert names(grid("hopper", "mpd", "0", "mpd.step.length=0.10,1e-1")) == ["hopper/mpd@step.length=0.1/seed-0"]
    (lists, flags) = (
        make_cells(grid("hopper", "ddpgn", "0", text), ROOT)
        for text in ("ddpgn.prior.critics.ridges=0.1,0.2;0.3", "ddpgn.prior.reset_worst=yes,false")
    )
    assert [local(cell.settings.search_config).prior.critics.ridges for cell in lists] == [(0.1, 0.2), (0.3,)]
    assert [local(cell.settings.search_config).prior.reset_worst for cell in flags] == [True, False]
    (scale,) = make_cells(grid("hopper", "mpd", "0", task__reward_scale="none"), ROOT)
    assert scale.settings.task.reward_scale is None


def test_an_axis_of_kinds_takes_each_with_its_own_defaults() -> None:
    cells = make_cells(
        grid("hopper", "abs", "0", "abs.step=scaled-direction,walk,normalised-gradient", preset="paper"), ROOT
    )
    assert [cell.settings.variant for cell in cells] == [
        "step=scaled-direction",
        "step=walk",
        "step=normalised-gradient",
    ]
    preset = local(search_config("abs", "hopper", "paper"))
    assert [local(cell.settings.search_config).step for cell in cells] == [preset.step, Walk(), NormalisedGradient()]
    (walk,) = make_cells(grid("hopper", "abs", "0", abs__step__length="0.02", abs__step="walk"), ROOT)
    assert local(walk.settings.search_config).step == Walk(length=0.02)


def test_settings_that_change_together() -> None:
    text = "mpd.gp.lengthscale_low+mpd.gp.lengthscale_high=0.001:0.002,0.1:0.2"
    cells = make_cells(grid("hopper", "mpd", "0", text), ROOT)
    gps = [local(cell.settings.search_config).gp for cell in cells]
    bounds = [(gp.lengthscale_low, gp.lengthscale_high) for gp in gps]
    assert bounds == [(0.001, 0.002), (0.1, 0.2)]  # Set one by one, (0.1, 0.05) would have been refused on the way.


def test_the_papers_table_1_is_one_grid() -> None:
    tasks = tuple(PAPER_TASKS)
    cells = make_cells(
        Grid(tasks, ("abs", "mpd"), (0,), dict.fromkeys(tasks, 10), GRIDS["paper-table-1"].preset, PAPER_TABLE_1), ROOT
    )  # fmt: skip
    per_task = {task: [c.settings for c in cells if c.settings.task.name == task] for task in tasks}
    for task, settings in per_task.items():
        assert [s.search for s in settings] == ["abs"] * 4 + ["mpd"] * 2, task
        # The values that the paper chose in the end (its Table 2) must be among those it tried, ABS on every task.
        chosen = local(search_config("abs", task, "paper"))
        tried = {
            (c.step.factor, c.gp.lengthscale_high)
            for c in (local(s.search_config) for s in settings if s.search == "abs")
        }
        assert (chosen.step.factor, chosen.gp.lengthscale_high) in tried
        assert {local(s.search_config).step.length for s in settings if s.search == "mpd"} == {0.01}
    assert {local(s.search_config).step.factor for s in per_task["hopper"] if s.search == "abs"} == {0.0025, 0.005}
    assert {local(s.search_config).step.factor for s in per_task["ant"] if s.search == "abs"} == {0.00125, 0.0025}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (lambda: grid("pendulum", "ars", "0", "ars.stepp=1,2"), "did you mean 'step'"),
        (lambda: grid("pendulum", "ars", "0", "ars.gp.starts=1,2"), "unknown setting ars.gp"),
        (lambda: grid("pendulum", "mpd", "0", "mpd.gp=1"), "mpd.gp is a group of settings: kernel, "),
        (lambda: grid("pendulum", "mpd", "0", "mpd.reward_shift.x=1"), "not a group"),
        (lambda: grid("pendulum", "mpd", "0", "mpd.step.x=1"), "unknown setting mpd.step.x"),
        (lambda: grid("pendulum", "mpd", "0", "mpd.step=wlak"), "did you mean 'walk'"),
        (lambda: grid("pendulum", "mpd", "0", "mpd.step=walk", mpd__step__factor="0.1"), "unknown setting mpd.step.f"),
        (lambda: grid("pendulum", "ars", "0", "ars.step=big,small"), "must be of type float"),
        (lambda: grid("pendulum", "ars", "0", "ars.step=-1,2"), "must be positive"),
        (lambda: grid("pendulum", "ars", "0", "abs.step=1,2"), "not among the searches"),
        (lambda: grid("pendulum", "ars", "0", "step=1,2"), "cannot tell whose setting"),
        (lambda: grid("pendulum", "ars", "0", "ars.step=1,1"), "a value twice"),
        (lambda: grid("pendulum", "ars", "0", "ars.step=1,2", ars__step="3"), "both fixed and an axis"),
        (lambda: grid("pendulum", "ars", "0", "preset=cpu,gpu"), "unknown preset"),
        (lambda: grid("pendulum", "ars", "0", budget__episodes="3"), "--episodes"),
        (lambda: grid("pendulum", "ars", "0", "run.workers=1,2"), "makes no axis"),
        (lambda: grid("pendulum", "tabu", "0"), "unknown search"),
        (lambda: grid("", "ars", "0"), "at least one task"),
        (lambda: grid("a:b,a-b", "ars", "0"), "two different cells"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wanted, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_cells(wanted(), ROOT)


@pytest.mark.parametrize("text", ["", "abs.step", "=1,2", "abs.step=", "abs.step=1,,2", "a.x+a.y=1:2,3"])
def test_an_axis_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_axis(text)


def test_parsing() -> None:
    assert parse_axis("a.x + a.y = 1:2, 3:4") == Axis(("a.x", "a.y"), (("1", "2"), ("3", "4")))
    assert parse_assignment("mpd.plan.probes = 8") == ("mpd.plan.probes", "8")
    assert parse_names("a, b,,a") == ("a", "b")
    assert parse_seeds("3,0-2, 2") == (3, 0, 1, 2)
    for text in ("", "a", "1-", "-1", "3-1", "0-99999999", "1.5"):
        with pytest.raises(ConfigError):
            parse_seeds(text)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20)), min_size=1, max_size=6))
def test_ranges_of_seeds_are_what_they_say(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" for first, more in ranges)
    assert set(parse_seeds(text)) == {seed for first, more in ranges for seed in range(first, first + more + 1)}
