"""Policies with a bias and policies that move along a path, exported and followed by the robot's own numpy."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError, NumericsError
from abps.export import FORMATS, c_policy, export_policy, numpy_policy
from abps.export.form import PolicyArrays, check
from abps.normaliser import Normaliser
from abps.policies import load_policy
from abps.policies.features import Fourier, Radial
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.mlp import Mlp
from abps.policies.path import ParameterPath
from abps.policies.policy import Policy, PolicySpace
from abps.run.hardware import create_hardware_run, open_hardware_run
from abps.search.budget import BudgetConfig
from abps.search.plan import PathsAroundCentre
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

ROOT = Path(__file__).resolve().parents[2]
ACT = {"numpy": numpy_policy.act_numpy, "c": c_policy.act_c}
CLASSES = [LinearTanh, ClippedLinear]
LAYERED = [Fourier(features=6), Radial(features=5, linear=False), Mlp(hidden=(4, 3)), Mlp(output_only=True)]
KNOTS, INTERVAL = 5, 7


def make_policy(kind: Any = LinearTanh, *, bias: bool = True, knots: int = KNOTS, interval: int = INTERVAL) -> Policy:
    """A random policy with skewed bounds and a normaliser; `knots` 0 leaves it at rest."""
    rng = np.random.default_rng([knots, interval])
    policy_class = kind(bias=bias) if isinstance(kind, type) else kind
    space = PolicySpace(policy_class, TaskSpec("arm", 4, 2, (-1.0, -2.0), (0.5, 3.0)))
    normaliser = Normaliser.empty(4).add(rng.normal(2.0, 0.5, (100, 4)))
    moves = space.initial() + rng.normal(scale=0.4, size=(max(knots, 1), space.size))
    return space.policy(moves[0], normaliser, ParameterPath(moves, interval) if knots else None)


def episode(policy: Policy, steps: int = KNOTS * INTERVAL + 10, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Observations of an episode, and the actions of the original."""
    rng, act = np.random.default_rng(seed), policy.start()
    observations = policy.normaliser.mean + policy.normaliser.std * rng.normal(size=(steps, 4))
    return observations, np.stack([act(observation) for observation in observations])


def module_from(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("target", FORMATS)
def test_a_bias_is_exported(target: str, kind: Any, tmp_path: Path) -> None:
    policy = make_policy(kind, knots=0)
    assert np.abs(policy.arrays()["bias"]).min() > 0.01
    done = export_policy(policy, target, tmp_path)
    assert done.error is not None
    assert done.error < 1e-12


@pytest.mark.parametrize(("knots", "interval"), [(KNOTS, INTERVAL), (1, 1), (2, 1), (3, 50)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("target", list(ACT))
def test_exported_paths_act_the_same(
    target: str, kind: Any, bias: bool, knots: int, interval: int, tmp_path: Path
) -> None:
    policy = make_policy(kind, bias=bias, knots=knots, interval=interval)
    done = export_policy(policy, target, tmp_path)
    assert done.error is not None
    assert done.error < 1e-12
    observations, expected = episode(policy, knots * interval + 10)
    np.testing.assert_allclose(ACT[target](tmp_path, observations), expected, atol=1e-12)


@pytest.mark.parametrize("damage", ["weights", "bias", "interval", "shift", "no path"])
@pytest.mark.parametrize("target", list(ACT))
def test_the_check_notices_every_wrong_number_of_a_path(target: str, damage: str, tmp_path: Path) -> None:
    """Negative control; `shift` starts the path at its second knot."""
    policy = make_policy()
    right = PolicyArrays.of(policy)
    layer, changes = right.layers[0], dict[str, Any]()
    weights, bias = layer.weights.copy(), layer.bias.copy()
    if damage == "weights":
        weights[-1, 1, 2] += 0.001
    elif damage == "bias":
        bias[2] += 0.001
    elif damage == "interval":
        changes["interval"] = right.interval + 1
    elif damage == "shift":
        weights, bias, changes["knots"] = weights[1:], bias[1:], right.knots - 1
    else:
        weights, bias, changes["knots"] = weights[0], bias[0], 0
    changes["layers"] = (layer._replace(weights=weights, bias=bias),)
    write = {"numpy": numpy_policy.write_numpy, "c": c_policy.write_c}[target]
    write(replace(right, **changes), tmp_path)
    with pytest.raises(NumericsError, match="differs from the policy"):
        check(policy, lambda observations: ACT[target](tmp_path, observations), target)


@pytest.mark.parametrize("policy_class", LAYERED, ids=lambda policy_class: type(policy_class).__name__)
@pytest.mark.parametrize("target", list(ACT))
def test_paths_of_features_and_networks_are_exported(target: str, policy_class: Any, tmp_path: Path) -> None:
    policy = make_policy(policy_class)
    done = export_policy(policy, target, tmp_path)
    assert done.error is not None
    assert done.error < 1e-12
    observations, expected = episode(policy)
    np.testing.assert_allclose(ACT[target](tmp_path, observations), expected, atol=1e-12)
    assert np.abs(expected - episode(make_policy(policy_class, knots=0))[1]).max() > 0.1


def test_a_path_cannot_be_onnx(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="along a path cannot be exported as ONNX") as caught:
        export_policy(make_policy(), "onnx", tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_every_numpy_controller_counts_for_itself(tmp_path: Path) -> None:
    policy = make_policy()
    exported = module_from(export_policy(policy, "numpy", tmp_path).files[0])
    observations, expected = episode(policy)
    one, other = exported.start(), exported.start()
    for k, observation in enumerate(observations):
        np.testing.assert_allclose(one(observation), expected[k], atol=1e-12)
        if k % 2 == 0:
            np.testing.assert_allclose(other(observations[k // 2]), expected[k // 2], atol=1e-12)
    with pytest.raises(ValueError, match="expected 4 numbers"):
        one(observations)  # A batch has no place on a path.
    assert not hasattr(exported, "act"), "a policy that moves has no action without a time"


def test_a_numpy_file_at_rest_starts_too(tmp_path: Path) -> None:
    policy = make_policy(knots=0)
    exported = module_from(export_policy(policy, "numpy", tmp_path).files[0])
    observations, expected = episode(policy)
    np.testing.assert_allclose(exported.start()(observations), expected, atol=1e-12)


USE = """
#include "policy.h"
#include <stdio.h>

int main(void) {
    abps_policy_state states[2];
    double action[2][ABPS_ACTION_SIZE], observation[ABPS_OBSERVATION_SIZE] = {0.5, 1.0, 1.5, 2.0};
    abps_policy_start(&states[0]);
    for (int t = 0; t < 60; t++) {
        if (t == 9) {
            abps_policy_start(&states[1]);
        }
        abps_policy_step(&states[0], observation, action[0]);
        printf("%.17g %.17g", action[0][0], action[0][1]);
        if (t >= 9) {
            abps_policy_step(&states[1], observation, action[1]);
            printf(" %.17g %.17g", action[1][0], action[1][1]);
        }
        printf("\\n");
    }
    return 0;
}
"""


def test_c_states_are_apart_and_nothing_is_allocated(tmp_path: Path) -> None:
    """Two episodes run interleaved; the object file calls nothing but tanh."""
    compiler, policy = c_policy.compiler(), make_policy()
    assert compiler is not None, "the tests need a C compiler"
    export_policy(policy, "c", tmp_path)
    (tmp_path / "use.c").write_text(USE)
    options = [compiler, "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run([*options, "use.c", "policy.c", "-o", "use", "-lm"], cwd=tmp_path, check=True)
    lines = subprocess.run([str(tmp_path / "use")], capture_output=True, text=True, check=True).stdout.splitlines()
    observation, one = np.array([0.5, 1.0, 1.5, 2.0]), policy.start()
    expected = np.array([one(observation) for _ in range(60)])
    got = [[float(word) for word in line.split()] for line in lines]
    np.testing.assert_allclose([row[:2] for row in got], expected, atol=1e-12)
    np.testing.assert_allclose([row[2:] for row in got[9:]], expected[:51], atol=1e-12)
    source = (tmp_path / "policy.c").read_text()
    assert not re.search(r"alloc|static (?!const)", source)


# ---- the robot's own numpy -----------------------------------------------


def robot_start(policy_file: Path) -> Any:
    """`start` of the example, as the robot's computer has it."""
    robot = module_from(ROOT / "examples" / "hardware_robot.py")
    return robot.start(dict(np.load(policy_file, allow_pickle=False)))


def page_start(policy_file: Path) -> Any:
    """`start` of docs/hardware.md."""
    text = (ROOT / "docs" / "hardware.md").read_text()
    code = next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def start()" in block)
    space: dict[str, Any] = {}
    exec(code.replace('"query.npz"', repr(str(policy_file))), space)  # noqa: S102 - our own page
    return space["start"]()


@pytest.mark.parametrize("knots", [0, KNOTS])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (robot_start, LinearTanh),
        (robot_start, ClippedLinear),
        (page_start, LinearTanh),
        *((robot_start, policy_class) for policy_class in LAYERED),
    ],
)
def test_the_robots_numpy_follows_the_policy_file(
    start: Any, kind: Any, bias: bool, knots: int, tmp_path: Path
) -> None:
    policy = make_policy(kind, bias=bias, knots=knots)
    policy.save(tmp_path / "query.npz")
    observations, expected = episode(policy)
    act = start(tmp_path / "query.npz")
    np.testing.assert_allclose([act(observation) for observation in observations], expected, atol=1e-12)
    loaded = load_policy(tmp_path / "query.npz")
    np.testing.assert_array_equal(episode(loaded)[1], expected)


def test_a_robot_that_knows_numpy_only_trains_with_abs(tmp_path: Path) -> None:
    """Ask, robot script, tell, fourteen times, in a run opened anew for each: paths are followed."""
    config = replace(search_config("abs", "pendulum-robot"), plan=PathsAroundCentre(first_paths=4, paths=1, window=12))
    create_hardware_run(
        tmp_path / "run",
        TaskConfig(name="pendulum-robot", horizon=40, gamma=0.98),
        HardwareConfig(observations=3, action_low=(-2.0,), action_high=(2.0,)),
        search="abs",
        config=config,
        budget=BudgetConfig(episodes=14),
    )
    robot = module_from(ROOT / "examples" / "hardware_robot.py")
    roles, iterations = [], set()
    while True:
        with open_hardware_run(tmp_path / "run") as run:
            request = run.ask()
            if request is None:
                break
            query = run.write_policy(request)
            with np.load(query, allow_pickle=False) as arrays:
                assert ("path_knots" in arrays) == (request.policy.path is not None)
            told = tmp_path / "episode.npz"
            arguments, sys.argv = sys.argv, ["robot", str(query), str(told)]
            try:
                assert robot.main() == 0
            finally:
                sys.argv = arguments
            recorded = run.tell_file(told)
            assert recorded.warnings == []
            roles.append("path" if request.policy.path is not None else request.role)
            iterations.add(request.iteration)
    assert len(roles) == 14
    assert roles.count("path") >= 4
    assert len(iterations) >= 4


def test_an_episode_that_ignores_the_path_is_remarked_on(tmp_path: Path) -> None:
    """Negative control of the run above: a robot that acts with the centre's weights all along."""
    policy_class = LinearTanh(bias=True)
    config = replace(
        search_config("abs", "arm"),
        policy=policy_class,
        plan=PathsAroundCentre(first_paths=2, path_size=2.0, window=12),
    )
    create_hardware_run(
        tmp_path / "run",
        TaskConfig(name="arm", horizon=30),
        HardwareConfig(observations=4, action_low=(-1.0, -1.0), action_high=(1.0, 1.0)),
        search="abs",
        config=config,
        budget=BudgetConfig(episodes=3),
    )
    rng = np.random.default_rng(0)
    with open_hardware_run(tmp_path / "run") as run:
        request = run.ask()
        while request is not None:
            observations = rng.normal(size=(31, 4))
            actions = np.array([request.policy.act(observation) for observation in observations[:-1]])
            told = run.tell(
                Trajectory.build(observations, actions, rng.normal(size=30), terminated=False, truncated=True)
            )
            assert bool(told.warnings) == (request.policy.path is not None)
            request = run.ask()
