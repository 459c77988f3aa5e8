"""The tasks by name: the paper's numbers, versions, and every other name."""

import gymnasium
import pytest

from abps.errors import ConfigError
from abps.tasks.catalogue import PAPER_TASKS, paper_task, task_config
from abps.tasks.config import HardwareConfig

TABLE = {
    # name: environment, γ, reward scale, normalised, episodes
    "pendulum": ("InvertedPendulum-v4", 0.99, 100.0, False, 1000),
    "swimmer": ("Swimmer-v4", 0.995, 65.0, False, 1000),
    "hopper": ("Hopper-v4", 0.99, 270.0, True, 5000),
    "cheetah": ("HalfCheetah-v4", 0.99, 400.0, True, 5000),
    "walker": ("Walker2d-v4", 0.99, 300.0, True, 14000),
    "ant": ("Ant-v4", 0.99, 400.0, True, 14000),
}


@pytest.mark.parametrize("name", TABLE)
def test_tasks_of_the_paper(name: str) -> None:
    env, gamma, scale, normalise, episodes = TABLE[name]
    config = task_config(name)
    assert (config.id, config.gamma, config.reward_scale) == (env, gamma, scale)
    assert (PAPER_TASKS[name].normalise, PAPER_TASKS[name].episodes) == (normalise, episodes)
    assert set(TABLE) == set(PAPER_TASKS)


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
    assert [paper_task(name) for name in ("ant-v5", "ant", "ant-v3", "Ant-v4")] == ["ant", "ant", "", ""]
    with pytest.raises(ConfigError, match="a task needs a name"):
        task_config("")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, (-1.0,), (1.0,)), "observations must be at least 1"),
        ((2, (), ()), "action_low must list"),
        ((2, (-1.0,), (1.0, 2.0)), "equally many"),
    ],
)
def test_a_real_system_must_be_described(arguments, message) -> None:
    with pytest.raises(ConfigError, match=message):
        HardwareConfig(*arguments)
