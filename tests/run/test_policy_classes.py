"""Runs with every policy class: stopped and resumed bit for bit, and the saved policy is the one that was trained.

Covers `policies/features.py` and `policies/mlp.py` together with `run/`, `export/` and `run/hardware.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abps.export import export_policy
from abps.policies import load_policy
from abps.policies.features import Fourier
from abps.policies.mlp import Mlp
from abps.run.directory import create_directory, read_settings
from abps.run.hardware import create_hardware_run, open_hardware_run
from abps.run.loop import train
from abps.search.plan import PathsAroundCentre
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.trajectory import Trajectory

Make = Callable[..., Any]
CLASSES = [Fourier(features=6), Mlp(hidden=(4,))]
"""The others go on bit for bit in tests/policies/test_classes.py, without the files of a run."""
every = pytest.mark.parametrize("policy_class", CLASSES, ids=lambda item: type(item).__name__)
PLAN = PathsAroundCentre(first_paths=2, window=8)


class Interrupt:
    """Presses Ctrl-C after so many episodes."""

    def __init__(self, episodes: int) -> None:
        self.left = episodes

    def begin(self, run: Any) -> None: ...

    def episode(self, run: Any, outcome: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def iteration(self, run: Any, metrics: Any) -> None: ...

    def end(self, run: Any, reasons: Any) -> None: ...


@every
def test_a_stopped_run_goes_on_bit_for_bit(
    policy_class: Any, tmp_path: Path, make_settings: Make, run_new: Make, records: Make
) -> None:
    config = replace(search_config("abs", "lqr"), policy=policy_class, plan=PLAN)
    settings = make_settings("abs", config, episodes=10, evaluation_episodes=1)
    run_new(tmp_path / "whole", settings)
    create_directory(tmp_path / "parts", settings)
    for episodes in (2, 5):  # Before the inputs were standardised for the first time, and after.
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts", read_settings(tmp_path / "parts"), (Interrupt(episodes),))
    train(tmp_path / "parts", read_settings(tmp_path / "parts"))
    for file in ("journal.jsonl", "metrics.jsonl"):
        assert records(tmp_path / "whole" / file) == records(tmp_path / "parts" / file)
    for file in ("episodes.bin", "policy/best.npz", "policy/current.npz"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()
    policy = load_policy(tmp_path / "parts" / "policy" / "current.npz")
    assert policy.space.policy_class == policy_class
    assert policy.normaliser.count == 15  # The steps of the first episode.
    assert (export_policy(policy, "numpy", tmp_path / "export").error or 0.0) < 1e-9


def test_a_robot_is_asked_for_a_network_along_paths(tmp_path: Path) -> None:
    config = replace(search_config("abs", "arm"), policy=Mlp(hidden=(4,)), plan=PLAN)
    task, robot = TaskConfig(name="arm", horizon=20), HardwareConfig(4, (-1.0, -1.0), (1.0, 1.0))
    create_hardware_run(tmp_path / "run", task, robot, search="abs", config=config)
    rng, roles = np.random.default_rng(0), []
    for _ in range(7):
        with open_hardware_run(tmp_path / "run") as run:
            request = run.ask()
            assert request is not None
            loaded = load_policy(run.write_policy(request))
            act, observations = loaded.start(), rng.normal(size=(21, 4))
            actions = np.array([act(observation) for observation in observations[:-1]])
            episode = Trajectory.build(observations, actions, rng.normal(size=20), terminated=False, truncated=True)
            assert run.tell(episode).warnings == []
            roles.append(request.role)
    assert "path" in roles
