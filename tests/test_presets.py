"""The paper's tables as settings: the numbers themselves, and which of them a name, a search and a preset select."""

import gymnasium
import pytest

from abps.errors import ConfigError
from abps.presets import PAPER_TASKS, PRESETS, TASK_EPISODES, search_config, task_config
from abps.search.registry import SEARCHES

TABLE = {
    # name: environment, γ, N_c, N_acq, N_max, δ of ABS, lengthscale bounds of ABS (the paper's Table 2)
    "pendulum": ("InvertedPendulum-v4", 0.99, 2, 6, 21),
    "swimmer": ("Swimmer-v4", 0.995, 3, 12, 39),
    "hopper": ("Hopper-v4", 0.99, 3, 16, 51),
    "cheetah": ("HalfCheetah-v4", 0.99, 4, 20, 63),
    "walker": ("Walker2d-v4", 0.99, 4, 20, 63),
    "ant": ("Ant-v4", 0.99, 5, 24, 75),
}


@pytest.mark.parametrize("name", TABLE)
def test_tasks_of_the_paper(name: str) -> None:
    env, gamma, *counts = TABLE[name]
    config = task_config(name)
    assert (config.id, config.gamma, config.policy, config.reward_shift) == (env, gamma, "linear-tanh", 0.0)
    for search in (search_config("abs", name, "paper"), *(search_config("mpd", name, preset) for preset in PRESETS)):
        assert [search.centre_episodes, search.probes, search.window] == counts
    assert config.normalise == (name not in ("pendulum", "swimmer"))
    assert TASK_EPISODES[name] == PAPER_TASKS[name].episodes


@pytest.mark.parametrize("name", TABLE)
def test_environments_exist_in_both_versions(name: str) -> None:
    for version in ("v4", "v5"):
        assert task_config(f"{name}-{version}").id in gymnasium.registry


def test_versions_and_other_names() -> None:
    assert task_config("hopper-v5").id == "Hopper-v5"
    assert task_config("hopper-v5").name == "hopper-v5"
    assert task_config("Pendulum-v1").id == "Pendulum-v1"
    assert task_config("hopper-v9").id == "hopper-v9"  # Not ours; Gymnasium will say that it has none.
    assert task_config("Hopper-v4").reward_scale is None  # An id is not a short name: nothing is assumed.
    assert search_config("ars", "hopper-v5") == search_config("ars", "hopper")
    with pytest.raises(ConfigError, match="a task needs a name"):
        task_config("")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_has_settings_for_every_task(search: str, preset: str) -> None:
    for task in (*PAPER_TASKS, "Pendulum-v1"):
        assert type(search_config(search, task, preset)) is SEARCHES[search].config


def test_the_original_ars_and_the_papers_variant() -> None:
    original, variant = search_config("ars", "walker", "cpu"), search_config("ars", "walker", "paper")
    assert (original.step, original.noise, original.directions, original.top) == (0.03, 0.025, 40, 30)
    assert (variant.step, variant.discounted, original.discounted) == (0.02, True, False)
    task = task_config("walker", "ars", "cpu")
    assert (task.policy, task.reward_shift) == ("direct", 1.0)
    task = task_config("walker", "ars", "paper")
    assert (task.policy, task.reward_shift) == ("linear-tanh", 0.0)
    assert task_config("walker", "abs", "cpu") == task_config("walker")
    assert task_config("cheetah", "ars", "cpu").reward_shift == 0.0


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown search 'cma'; known: abs"):
        search_config("cma", "hopper")
    with pytest.raises(ConfigError, match="unknown preset 'gpu'; known: cpu, paper"):
        search_config("abs", "hopper", "gpu")


def test_only_the_cpu_preset_departs_from_the_tables_of_abs():
    cpu, paper = (search_config("abs", "hopper", preset) for preset in ("cpu", "paper"))
    assert (paper.gp.lengthscale_low, paper.gp.lengthscale_high) == (0.0025, 0.05)
    assert (cpu.gp.lengthscale_low, cpu.gp.lengthscale_high) == (0.02, 0.1)
    assert cpu.acquisition.radius == cpu.design_std < paper.acquisition.radius
    assert (cpu.centre_episodes, cpu.probes, cpu.window) == (2, 8, paper.window)
    assert (cpu.action_cap, paper.action_cap) == (0.04, 0.0)
    assert (cpu.remap, cpu.anchor, paper.remap, paper.anchor) == (True, True, False, False)
    assert (cpu.curvature, paper.curvature) == (True, False)
    assert (cpu.backtrack, paper.backtrack) == (0.5, 0.0)
    assert (cpu.aggregation, paper.aggregation) == ("evidence", "softmax")
    assert (cpu.evidence_prior, paper.evidence_prior) == (1.0, 0.0)
    pendulum = search_config("abs", "pendulum")
    assert (pendulum.centre_episodes, pendulum.probes) == (2, 6)
    assert (pendulum.curvature, pendulum.backtrack, pendulum.anchor) == (False, 0.0, False)
    assert (pendulum.gp.lengthscale_low, pendulum.gp.lengthscale_high, pendulum.action_cap) == (0.005, 0.1, 0.0)
