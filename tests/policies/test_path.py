"""Paths of parameters: interpolation, controllers, episodes, files and checksums (`policies/path.py`, `policy.py`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies import load_policy
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.path import ParameterPath
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts.episode import run_episode
from abps.rollouts.pool import Job, make_pool
from abps.run.run import parameters_crc
from abps.search.base import Query
from abps.tasks.config import TaskConfig
from abps.tasks.gym import make_task
from abps.tasks.spec import TaskSpec

TASK = TaskConfig(id="abps.tasks.lqr:make_env", name="lqr", gamma=0.95, horizon=25)


@given(knots=st.integers(1, 5), interval=st.integers(1, 7), step=st.integers(0, 60))
def test_parameters_are_interpolated_linearly(knots: int, interval: int, step: int) -> None:
    path = ParameterPath(np.random.default_rng(0).normal(size=(knots, 3)), interval)
    expected = [np.interp(step, interval * np.arange(knots), column) for column in path.knots.T]
    np.testing.assert_allclose(path.at(step), expected, rtol=1e-12, atol=1e-14)
    if step >= interval * (knots - 1):
        np.testing.assert_allclose(path.at(step), path.knots[-1])


@pytest.mark.parametrize(
    ("knots", "interval", "message"),
    [
        (np.zeros(3), 1, "knots have shape"),
        (np.zeros((0, 3)), 1, "at least one knot"),
        (np.full((2, 3), np.nan), 1, "finite"),
        (np.zeros((2, 3)), 0, "at least one step"),
    ],
)
def test_mistakes_are_named(knots: np.ndarray, interval: int, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        ParameterPath(knots, interval)


# ---- controllers ---------------------------------------------------------


@dataclass(frozen=True)
class Slow:
    """A policy class as the generic controller sees it: what `FastControl` and `Layered` offer is hidden."""

    inner: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("controller", "path_controller", "layers"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def moving(
    policy_class: Any, *, spec: TaskSpec | None = None, knots: int = 4, interval: int = 6, seed: int = 0
) -> Policy:
    spec = spec or TaskSpec("arm", 5, 2, (-1.0, -2.0), (0.5, 3.0))
    rng = np.random.default_rng(seed)
    space = PolicySpace(policy_class, spec)
    normaliser = Normaliser.empty(spec.observation_dim).add(rng.normal(3.0, 2.0, (50, spec.observation_dim)))
    places = 0.4 * rng.normal(size=(knots, space.size))
    return space.policy(places.mean(axis=0), normaliser, ParameterPath(places, interval))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [LinearTanh, ClippedLinear])
def test_the_fast_controller_is_the_generic_one(kind: Any, bias: bool) -> None:
    """Both against the actions of the interpolated parameters; a step late they would differ."""
    fast, slow = moving(kind(bias=bias)), moving(Slow(kind(bias=bias)))
    rng = np.random.default_rng(1)
    observations = rng.normal(3.0, 2.0, (40, 5))
    one, other, path = fast.start(), slow.start(), fast.path
    assert path is not None
    assert type(one) is not type(other)
    got = np.array([one(observation) for observation in observations])
    generic = np.array([other(observation) for observation in observations])
    plain = [fast.space.actions(path.at(t), observations[t : t + 1], fast.normaliser)[0] for t in range(40)]
    np.testing.assert_allclose(got, plain, atol=1e-12)
    np.testing.assert_allclose(generic, plain, atol=1e-12)
    late = [fast.space.actions(path.at(t + 1), observations[t : t + 1], fast.normaliser)[0] for t in range(40)]
    assert np.abs(got - late).max() > 1e-3


def test_every_episode_starts_at_the_first_knot_and_the_rest_is_at_rest() -> None:
    policy = moving(LinearTanh())
    observation = np.ones(5)
    one, two = policy.start(), policy.start()
    first = one(observation)
    assert not np.allclose(one(observation), first)
    np.testing.assert_array_equal(two(observation), first)
    resting = policy.space.policy(policy.parameters, policy.normaliser)
    np.testing.assert_array_equal(policy(observation), resting(observation))
    assert resting.start() is resting.act


# ---- episodes ------------------------------------------------------------


def test_an_episode_follows_its_path() -> None:
    """The recorded actions are those of the moving parameters, in the environment that they moved."""
    task = make_task(TASK)
    policy = moving(LinearTanh(bias=True), spec=task.spec)
    trajectory, path = run_episode(task.make_env(), policy, seed=0), policy.path
    assert path is not None
    expected = [
        policy.space.actions(path.at(t), trajectory.observations[t : t + 1], policy.normaliser)[0]
        for t in range(len(trajectory))
    ]
    np.testing.assert_allclose(trajectory.actions, expected, rtol=1e-4, atol=1e-3)
    resting = policy.actions(trajectory.observations[:-1])
    assert np.abs(trajectory.actions - resting).max() > 1.0


def test_workers_run_paths_as_this_process_does() -> None:
    task = make_task(TASK)
    jobs = [Job(moving(LinearTanh(bias=True), spec=task.spec, seed=seed), seed) for seed in range(4)]
    episodes = []
    for workers in (1, 2):
        pool = make_pool(task, workers=workers)
        try:
            episodes.append(dict(pool.run(jobs)))
        finally:
            pool.close()
    for number in range(4):
        alone, away = (found[number] for found in episodes)
        assert alone.observations.tobytes() == away.observations.tobytes()
        assert alone.actions.tobytes() == away.actions.tobytes()
    assert episodes[0][0].actions.tobytes() != episodes[0][1].actions.tobytes()


# ---- files and checksums -------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
def test_a_policy_file_keeps_the_path(bias: bool, tmp_path: Path) -> None:
    policy = moving(LinearTanh(bias=bias))
    policy.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    assert policy.path is not None
    assert loaded.path is not None
    np.testing.assert_array_equal(loaded.path.knots, policy.path.knots)
    assert loaded.path.interval == policy.path.interval
    np.testing.assert_array_equal(loaded.parameters, policy.parameters)
    one, other = policy.start(), loaded.start()
    for observation in np.random.default_rng(2).normal(size=(30, 5)):
        np.testing.assert_array_equal(one(observation), other(observation))
    assert "path_knots" not in policy.space.policy(policy.parameters, policy.normaliser).arrays()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path_knots": np.zeros((3, 4))}, "knots have 4 parameters, the policy 10"),
        ({"path_knots": np.full((3, 10), np.inf)}, "finite"),
        ({"path_knots": np.zeros(10)}, "knots have shape"),
        ({"path_interval": np.array(0)}, "at least one step"),
    ],
)
def test_a_file_with_a_wrong_path_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "policy.npz", **{**moving(LinearTanh()).arrays(), **changes})
    with pytest.raises(ConfigError, match=message):
        load_policy(tmp_path / "policy.npz")


def test_a_querys_checksum_covers_the_knots() -> None:
    policy = moving(LinearTanh())
    assert policy.path is not None

    def crc(path: ParameterPath | None) -> int:
        again = policy.space.policy(policy.parameters, policy.normaliser, path)
        return parameters_crc(Query(0, "path", 0, 1, policy.parameters, again))

    changed = policy.path.knots.copy()
    changed[-1, -1] = np.nextafter(changed[-1, -1], np.inf)
    found = {crc(policy.path), crc(None), crc(ParameterPath(changed, policy.path.interval))}
    assert len(found) == 3
    assert crc(policy.path) == crc(ParameterPath(policy.path.knots.copy(), policy.path.interval))
