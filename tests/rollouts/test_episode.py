"""One episode: rewards kept, ends told apart, nothing shared with the environment, failures turned into data."""

from typing import Any

import numpy as np
import pytest

from abps.errors import ShapeError, TaskError
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts import attempt_episode, run_episode
from abps.tasks.gym import make_task
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

SPEC = TaskSpec("counting", 2, 1, (-1.0,), (1.0,), horizon=6)


class Counting:
    """Observation (t, seed), reward t + 1; ends where it is told to. It reuses one array, as some simulators do."""

    def __init__(self, *, terminate_at: int = 0, truncate_at: int = 0, fault: str = "") -> None:
        self.terminate_at, self.truncate_at, self.fault = terminate_at, truncate_at, fault
        self.observation = np.zeros(2)
        self.actions: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.time = 0
        self.observation[:] = (0.0, -1.0 if seed is None else seed)
        return (np.zeros(3), {}) if self.fault == "shape" else (self.observation, {})

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.actions.append(np.array(action))
        self.time += 1
        self.observation[0] = np.nan if self.fault == "nan" and self.time == 2 else self.time
        if self.fault == "crash" and self.time == 3:
            raise RuntimeError("the arm is on fire")
        return self.observation, float(self.time), self.time == self.terminate_at, self.time == self.truncate_at, {}


def policy(parameters: tuple[float, float] = (0.1, 0.0)) -> Policy:
    return PolicySpace(LinearTanh(), SPEC).policy(np.array(parameters), Normaliser.empty(2))


def test_everything_is_recorded() -> None:
    env = Counting(terminate_at=4)
    trajectory = run_episode(env, policy(), seed=7)
    assert np.array_equal(trajectory.observations, [[t, 7] for t in range(5)])
    assert np.array_equal(trajectory.rewards, [1.0, 2.0, 3.0, 4.0])  # The terminating step's reward is kept.
    assert np.array_equal(trajectory.actions, np.array(env.actions, np.float32))
    assert np.allclose(trajectory.actions[:, 0], np.tanh(0.1 * np.arange(4)))


@pytest.mark.parametrize(
    ("env", "steps", "terminated"),
    [
        (Counting(terminate_at=3), 3, True),
        (Counting(truncate_at=3), 3, False),
        (Counting(terminate_at=3, truncate_at=3), 3, True),
        (Counting(), 6, False),  # The horizon is a truncation.
        (Counting(terminate_at=6), 6, True),
        (Counting(terminate_at=7), 6, False),
    ],
)
def test_terminated_and_truncated_are_apart(env: Counting, steps: int, terminated: bool) -> None:
    trajectory = run_episode(env, policy())
    assert (len(trajectory), trajectory.terminated, trajectory.truncated) == (steps, terminated, not terminated)


def test_without_a_seed_the_environment_goes_on_by_itself() -> None:
    assert run_episode(Counting(), policy()).observations[0, 1] == -1.0


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(TaskError, match="the seed of an episode is a whole number that is not negative"):
        run_episode(Counting(), policy(), seed)


def test_faults_of_the_environment_are_named() -> None:
    with pytest.raises(TaskError, match=r"observation of shape \(3,\); its space says \(2,\)"):
        run_episode(Counting(fault="shape"), policy())
    with pytest.raises(ShapeError, match="not finite, first at step 2"):
        run_episode(Counting(fault="nan"), policy())
    with pytest.raises(RuntimeError, match="on fire"):
        run_episode(Counting(fault="crash"), policy())


@pytest.mark.parametrize(
    ("fault", "reason"), [("shape", "shape (3,)"), ("nan", "not finite"), ("crash", "RuntimeError: the arm")]
)
def test_an_attempt_turns_faults_into_data(fault: str, reason: str) -> None:
    outcome = attempt_episode(Counting(fault=fault), policy())
    assert isinstance(outcome, Failed)
    assert reason in outcome.reason
    assert isinstance(attempt_episode(Counting(), policy()), Trajectory)


def test_a_mujoco_episode_repeats_bit_for_bit_and_equals_a_plain_loop() -> None:
    task = make_task("hopper", horizon=60)
    rng = np.random.default_rng(0)
    moments = Normaliser.empty(11).add(rng.standard_normal((50, 11)))
    hopper = PolicySpace(LinearTanh(), task.spec).policy(0.3 * rng.standard_normal(33), moments)
    env = task.make_env()
    first, second = run_episode(env, hopper, seed=5), run_episode(env, hopper, seed=5)
    assert np.array_equal(first.observations, second.observations)
    assert not np.array_equal(first.observations, run_episode(env, hopper, seed=6).observations)
    observation, _ = env.reset(seed=5)
    rewards = []
    weights = hopper.parameters.reshape(3, 11)
    for _ in range(len(first)):
        observation, reward, *_ = env.step(np.tanh(weights @ ((observation - moments.mean) / moments.std)))
        rewards.append(reward)
    env.close()
    assert np.allclose(first.rewards, rewards, rtol=1e-7)
