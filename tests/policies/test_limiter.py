"""The limiter of the rate of actions, in the policy object and in its file."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from abps.normaliser import Normaliser
from abps.policies import load_policy
from abps.policies.limiter import RateLimiter
from abps.policies.linear import ClippedLinear
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts.episode import run_episode
from abps.tasks.limits import Limits
from abps.tasks.spec import TaskSpec


def limited(parameters: Any, limits: Limits, horizon: int = 30) -> Policy:
    spec = TaskSpec("arm", 2, 2, (-1.0, 0.5), (1.0, 4.0), horizon=horizon, limits=limits)
    return PolicySpace(ClippedLinear(), spec).policy(np.array(parameters, dtype=float), Normaliser.empty(2))


def test_actions_follow_as_fast_as_they_may_and_no_faster() -> None:
    """By hand: a jump from the start to 1 and 4 in steps of 0.25 and 2, and back."""
    act = limited([9.0, 0.0, 0.0, 9.0], Limits(action_rate=(0.25, 2.0))).start()
    there = [act(np.array([1.0, 1.0])) for _ in range(5)]
    np.testing.assert_allclose(there, [[0.25, 2.5], [0.5, 4.0], [0.75, 4.0], [1.0, 4.0], [1.0, 4.0]])
    np.testing.assert_allclose(act(np.array([-1.0, -1.0])), [0.75, 2.0])


def test_what_is_within_reach_is_not_changed_by_a_bit() -> None:
    policy, rng = limited([0.3, 0.1, -0.2, 0.4], Limits(action_rate=(5.0,))), np.random.default_rng(0)
    act = policy.start()
    for observation in rng.normal(size=(50, 2)):
        assert np.array_equal(act(observation), policy.act(observation))


def test_every_episode_starts_anew_and_nobody_can_write_to_the_memory() -> None:
    act = RateLimiter(lambda observation: np.ones(2), np.full(2, 0.1), np.zeros(2))
    act(np.zeros(2))[:] = 50.0
    np.testing.assert_allclose(act(np.zeros(2)), [0.2, 0.2])
    policy = limited([9.0, 0.0, 0.0, 9.0], Limits(action_rate=(0.25, 2.0), action_start=(-1.0, 0.5)))
    first = [policy.start()(np.ones(2)) for _ in range(2)]
    np.testing.assert_allclose(first, [[-0.75, 2.5]] * 2)


@pytest.mark.parametrize("limits", [Limits(), Limits(action_rate=(0.1,), unit="half-range", action_start=(0.5, 1.0))])
def test_a_file_keeps_the_rate(limits: Limits, tmp_path: Path) -> None:
    policy, rng = limited([2.0, 1.0, -1.0, 3.0], limits), np.random.default_rng(1)
    policy.save(tmp_path / "policy.npz")
    one, other = policy.start(), load_policy(tmp_path / "policy.npz").start()
    for observation in rng.normal(size=(40, 2)):
        assert np.array_equal(one(observation), other(observation))
    assert ("action_rate" in np.load(tmp_path / "policy.npz")) == bool(limits.action_rate)


class Echo(gymnasium.Env[Any, Any]):
    """Asks for a jump every fifth step, and keeps what was applied."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(np.array([-1.0, 0.5]), np.array([1.0, 4.0]), dtype=np.float64)
        self.applied: list[Any] = []

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.ones(2), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.applied.append(np.array(action))
        sign = -1.0 if len(self.applied) // 5 % 2 else 1.0
        action[:] = 99.0  # Some environments write to what they are given.
        return np.full(2, sign), 0.0, False, False, {}


def test_a_trajectory_holds_what_was_applied() -> None:
    env, policy = Echo(), limited([9.0, 0.0, 0.0, 9.0], Limits(action_rate=(0.25, 1.0)))
    trajectory = run_episode(env, policy)
    np.testing.assert_array_equal(trajectory.actions, np.array(env.applied, dtype=np.float32))
    steps = np.abs(np.diff(np.vstack([[0.0, 0.5], env.applied]), axis=0))
    assert np.all(steps <= np.array([0.25, 1.0]) + 1e-12)
    free = run_episode(Echo(), limited([9.0, 0.0, 0.0, 9.0], Limits()))
    assert np.abs(np.diff(free.actions, axis=0)).max() > 1.0, "without a limit it jumps: the negative control"
