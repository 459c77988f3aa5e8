"""`centre_return_estimate` of `model/advantage.py`: path episodes as unbiased estimates of J(θ), on a noisy LQR."""

from typing import Any

import numpy as np
import pytest
from lqr_lab import Exact

from abps.data.objective import Objective
from abps.model.advantage import centre_return_estimate
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear
from abps.policies.path import ParameterPath
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts.episode import run_episode
from abps.tasks.lqr import LqrEnv, LqrSystem, random_system
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

GAMMA, HORIZON, EPISODES, SIZE, SHIFT = 0.85, 60, 200, 0.05, 0.15
"""What is cut off carries the weight 0.85⁶⁰ ≈ 6e-5."""


def system_and_centre(noise: float) -> tuple[LqrSystem, Policy]:
    rng = np.random.default_rng(3)
    system = random_system(rng, 3, 2, gamma=GAMMA, radius=0.6, noise=noise, fixed_start=True)
    spec = TaskSpec("lqr", 3, 2, (-1e3,) * 2, (1e3,) * 2, gamma=GAMMA, horizon=HORIZON)
    return system, PolicySpace(ClippedLinear(), spec).policy(0.5 * system.optimal_gain().ravel(), Normaliser.empty(3))


def path_episodes(system: LqrSystem, centre: Policy, count: int = EPISODES) -> list[Trajectory]:
    """Episodes along paths through knots around a worse place beside the centre: departures do not average out."""
    rng, env = np.random.default_rng(4), LqrEnv(system, horizon=HORIZON, action_bound=1e3)
    down, found = -system.gradient(centre.parameters).ravel(), []
    worse = centre.parameters + SHIFT * down / np.linalg.norm(down)
    for number in range(count):
        knots = worse + SIZE * rng.normal(size=(7, worse.size))
        policy = centre.space.policy(centre.parameters, centre.normaliser, ParameterPath(knots, 10))
        found.append(run_episode(env, policy, number))
    return found


def critics_of(system: LqrSystem, centre: Policy, scale: float, **changes: Any) -> Any:
    part: Any = Exact(system, errors=(0.0,), **changes)
    critics = part.make(centre.space, Objective(GAMMA), 0)
    critics.start_centre(centre, [], scale)
    return critics


def test_exact_critics_make_a_path_an_unbiased_estimate_of_the_centre() -> None:
    """Against J(θ) by Lyapunov; without the advantages (critics that forget the action) the mean is far off."""
    system, centre = system_and_centre(noise=0.05)
    episodes, objective, scale = path_episodes(system, centre), Objective(GAMMA), 64.0
    exact = critics_of(system, centre, scale)
    estimates = np.array([centre_return_estimate(exact, centre, item, objective, scale)[0] for item in episodes])
    truth = system.finite_return(centre.parameters, HORIZON)
    error = estimates.std() / np.sqrt(len(estimates))
    assert abs(estimates.mean() - truth) < 3.0 * error
    plain = np.array([objective.total(item) for item in episodes])
    flat = critics_of(system, centre, scale, flat=True)
    dropped = np.array([centre_return_estimate(flat, centre, item, objective, scale)[0] for item in episodes])
    np.testing.assert_allclose(dropped, plain)
    assert abs(plain.mean() - truth) > 6.0 * plain.std() / np.sqrt(len(plain))
    assert estimates.std() < plain.std()


def test_without_noise_every_single_episode_is_exact() -> None:
    """The sum telescopes: G − Σ γᵗ A = V(s₀) − γᵀ V(s_T), whatever was done."""
    system, centre = system_and_centre(noise=0.0)
    critics = critics_of(system, centre, 1.0)
    for item in path_episodes(system, centre, 5):
        estimate = centre_return_estimate(critics, centre, item, Objective(GAMMA))[0]
        ends = system.value(centre.parameters, item.observations[[0, -1]].astype(float))
        assert estimate == pytest.approx(ends[0] - GAMMA**HORIZON * ends[1], rel=1e-4)


def test_the_shift_is_taken_off() -> None:
    system, centre = system_and_centre(noise=0.0)
    critics, item = critics_of(system, centre, 1.0), path_episodes(system, centre, 1)[0]
    plain = centre_return_estimate(critics, centre, item, Objective(GAMMA))
    shifted = centre_return_estimate(critics, centre, item, Objective(GAMMA, shift=2.0))
    np.testing.assert_allclose(plain - shifted, 2.0 * (1.0 - GAMMA**HORIZON) / (1.0 - GAMMA))
