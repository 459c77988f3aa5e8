"""A linear-quadratic task with probes around a centre: everything the critics should learn is known exactly."""

from typing import NamedTuple

import numpy as np
import pytest

from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.normaliser import Normaliser
from abps.policies import Policy, PolicySpace
from abps.policies.linear import ClippedLinear
from abps.tasks.lqr import LqrSystem, random_gain, random_system
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

GAMMA, STEPS, CENTRES, PROBES = 0.9, 24, 3, 120


class Problem(NamedTuple):
    system: LqrSystem
    gain: np.ndarray
    spec: TaskSpec
    centre: Policy
    objective: Objective
    replay: Replay
    points: np.ndarray
    returns: np.ndarray
    visits: list[Visits]
    scale: float


def rollout(system: LqrSystem, gain, rng: np.random.Generator) -> Trajectory:
    states, actions, rewards = [system.initial_mean], [], []
    spread = np.linalg.cholesky(system.noise) if np.any(system.noise) else np.zeros_like(system.noise)
    for _ in range(STEPS):
        state, action = states[-1], gain @ states[-1]
        actions.append(action)
        rewards.append(-(state @ system.state_cost @ state + action @ system.action_cost @ action))
        noise = spread @ rng.standard_normal(system.states)
        states.append(system.transition @ state + system.control @ action + noise)
    return Trajectory.build(np.array(states), np.array(actions), rewards, terminated=False, truncated=True)


def make_problem(noise: float) -> Problem:
    rng = np.random.default_rng(5)
    system = random_system(rng, 3, 2, gamma=GAMMA, radius=0.8, noise=noise, fixed_start=True)
    gain = random_gain(rng, system)
    spec = TaskSpec("lqr", 3, 2, (-1.0,) * 2, (1.0,) * 2, gamma=GAMMA, horizon=STEPS)
    centre = Policy(PolicySpace(ClippedLinear(), spec), gain.ravel(), Normaliser.empty(3))
    gains = [gain] * CENTRES + [gain + 0.1 * rng.standard_normal(gain.shape) for _ in range(PROBES)]
    episodes = [rollout(system, item, rng) for item in gains]
    assert max(np.abs(item.actions).max() for item in episodes) < 2.0  # No action is clipped: the policies stay linear.
    replay = Replay(50_000, 3, 2)
    for item in episodes:
        replay.append(item)
    scale = 2.0 * max(-item.total(GAMMA) for item in episodes)
    returns = np.array([item.total(GAMMA) / scale for item in episodes])
    visits = [Visits.collect([item], GAMMA) for item in episodes]
    points = np.array(gains).reshape(len(gains), -1)
    return Problem(system, gain, spec, centre, Objective(GAMMA), replay, points, returns, visits, scale)


@pytest.fixture(scope="session")
def quiet() -> Problem:
    """Deterministic dynamics."""
    return make_problem(0.0)


@pytest.fixture(scope="session")
def noisy() -> Problem:
    """Process noise, which also makes the visited states cover the space."""
    return make_problem(0.02)
