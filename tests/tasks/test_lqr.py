"""The project's oracle against simulation, finite differences and identities; every check is also seen to fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies import Policy, PolicySpace
from abps.policies.linear import ClippedLinear
from abps.seeding import generator
from abps.tasks import lqr
from abps.tasks.gym import make_task
from abps.tasks.lqr import LqrEnv, LqrSystem, lqr_task, make_env, random_gain, random_system

SIZES = [(1, 1), (2, 1), (3, 2), (6, 3)]


def draw(seed: int, states: int = 3, actions: int = 2, **options) -> tuple[LqrSystem, np.ndarray]:
    rng = generator(seed, "test-lqr")
    system = random_system(rng, states, actions, **options)
    return system, random_gain(rng, system)


def simulate(system: LqrSystem, gain: np.ndarray, episodes: int, horizon: int, start=None, first=None):
    """Discounted returns (episodes,) and Σ γᵗ s sᵀ per episode, by stepping the equations; no closed form inside."""
    rng = generator(5, "simulation")
    state = rng.multivariate_normal(system.initial_mean, system.initial_covariance, episodes)
    if start is not None:
        state = np.tile(start, (episodes, 1))
    returns, moments = np.zeros(episodes), np.zeros((episodes, system.states, system.states))
    for t in range(horizon):
        action = state @ gain.T if t or first is None else np.tile(first, (episodes, 1))
        reward = -np.einsum("ei,ij,ej->e", state, system.state_cost, state)
        reward -= np.einsum("ei,ij,ej->e", action, system.action_cost, action)
        returns += system.gamma**t * reward
        moments += system.gamma**t * np.einsum("ei,ej->eij", state, state)
        state = state @ system.transition.T + action @ system.control.T
        if np.any(system.noise):
            state = state + rng.multivariate_normal(np.zeros(system.states), system.noise, episodes)
    return returns, moments


def z_score(samples: np.ndarray, expected) -> float:
    """Largest distance between the sample mean and `expected`, in standard errors."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return float(np.max(np.abs(samples.mean(axis=0) - expected) / error))


def differences(function: Callable[[np.ndarray], float], point: np.ndarray, step: float = 1e-5) -> np.ndarray:
    slope = np.zeros_like(point)
    for index in np.ndindex(*point.shape):
        shift = np.zeros_like(point)
        shift[index] = step
        slope[index] = (function(point + shift) - function(point - shift)) / (2 * step)
    return slope


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_return_and_moments_agree_with_long_simulations(noise):
    system, gain = draw(1, gamma=0.9, noise=noise)
    returns, moments = simulate(system, gain, episodes=20_000, horizon=200)
    assert z_score(returns, system.expected_return(gain)) < 4.0
    assert z_score(moments, system.visitation_moments(gain)) < 4.5


def test_simulation_notices_a_wrong_discount_and_a_dropped_noise():
    system, gain = draw(1, gamma=0.9, noise=0.4)
    returns, moments = simulate(system, gain, episodes=20_000, horizon=200)
    silent = replace(system, noise=np.zeros((3, 3)))
    for wrong in (replace(system, gamma=0.88), silent):
        assert z_score(returns, wrong.expected_return(gain)) > 6.0
        assert z_score(moments, wrong.visitation_moments(gain)) > 6.0


def test_action_value_agrees_with_simulation_from_a_state_and_an_action():
    system, gain = draw(2, gamma=0.9, noise=0.4)
    start, first = np.array([1.0, -2.0, 0.5]), np.array([0.7, -0.3])
    returns, _ = simulate(system, gain, episodes=20_000, horizon=200, start=start, first=first)
    assert z_score(returns, system.action_value(gain, start, first)) < 4.0
    assert z_score(returns, system.value(gain, start)) > 6.0


@pytest.mark.parametrize(("states", "actions"), SIZES)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_return_is_the_mean_reward_under_the_visitation_measure(states, actions, noise):
    system, gain = draw(3, states, actions, noise=noise)
    by_states = -np.sum(system.running_cost(gain) * system.visitation_moments(gain))
    assert system.expected_return(gain) == pytest.approx(by_states, rel=1e-10)


@pytest.mark.parametrize(("states", "actions"), SIZES)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_gradient_agrees_with_finite_differences(states, actions, noise):
    system, gain = draw(4, states, actions, noise=noise)
    numeric = differences(system.expected_return, gain)
    scale = np.max(np.abs(numeric))
    np.testing.assert_allclose(system.gradient(gain), numeric, atol=1e-6 * scale)
    wrong = replace(system, gamma=system.gamma - 0.01)
    assert np.max(np.abs(wrong.gradient(gain) - numeric)) > 1e-3 * scale
    finite = differences(lambda point: system.finite_return(point, 7), gain)
    np.testing.assert_allclose(system.finite_gradient(gain, 7), finite, atol=1e-6 * np.max(np.abs(finite)))
    # Negative control: the infinite horizon's gradient is not that of seven steps.
    assert np.max(np.abs(system.gradient(gain) - finite)) > 1e-3 * scale


def test_gradient_is_the_deterministic_policy_gradient():
    """Σ_s γᵗ ∇_a Q · sᵀ over the states of a long deterministic episode."""
    system, gain = draw(5, fixed_start=True, gamma=0.9)
    states = [system.initial_mean]
    for _ in range(400):
        states.append(system.closed_loop(gain) @ states[-1])
    visited = np.array(states)
    slopes = system.action_value_gradient(gain, visited, visited @ gain.T)
    estimate = (slopes * (0.9 ** np.arange(401))[:, None]).T @ visited
    np.testing.assert_allclose(estimate, system.gradient(gain), rtol=1e-9)


def test_action_value_gradient_agrees_with_finite_differences():
    system, gain = draw(6, noise=0.3)
    state, action = np.array([0.3, -1.0, 2.0]), np.array([0.5, 1.5])
    numeric = differences(lambda a: float(system.action_value(gain, state, a)), action)
    np.testing.assert_allclose(system.action_value_gradient(gain, state, action), numeric, rtol=1e-6)


def bellman_error(system: LqrSystem, gain: np.ndarray, noise: np.ndarray) -> float:
    """Largest |Q(s, a) − r − γ E V(s')|; E over w = ±√s·(columns of Ω's root), which has the right two moments."""
    rng = generator(7, "bellman")
    states, actions = rng.standard_normal((20, system.states)), rng.standard_normal((20, system.actions))
    values, vectors = np.linalg.eigh(noise)
    columns = (vectors * np.sqrt(np.maximum(values, 0.0))).T * np.sqrt(system.states)
    after = states @ system.transition.T + actions @ system.control.T
    future = np.mean([system.value(gain, after + sign * w) for w in columns for sign in (1, -1)], axis=0)
    reward = -np.sum((states @ system.state_cost) * states, 1) - np.sum((actions @ system.action_cost) * actions, 1)
    return float(np.max(np.abs(system.action_value(gain, states, actions) - reward - system.gamma * future)))


@given(
    seed=st.integers(0, 10_000), states=st.integers(1, 7), actions=st.integers(1, 4), noise=st.sampled_from([0, 0.5])
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_bellman_equation_and_performance_difference_lemma(seed, states, actions, noise):
    rng = generator(seed, "identities")
    system = random_system(rng, states, actions, noise=noise)
    centre, other = random_gain(rng, system), random_gain(rng, system)
    scale = abs(system.expected_return(centre)) + abs(system.expected_return(other))
    assert bellman_error(system, centre, system.noise) < 1e-9 * scale
    difference = system.expected_return(other) - system.expected_return(centre)
    lemma = system.expected_advantage(visited_by=other, critic_of=centre, policy=other)
    assert lemma == pytest.approx(difference, abs=1e-9 * scale)
    # A policy has no advantage over itself, wherever it is looked at.
    assert system.expected_advantage(other, centre, centre) == pytest.approx(0.0, abs=1e-9 * scale)
    points = rng.standard_normal((5, states))
    np.testing.assert_allclose(system.advantage(centre, points, points @ centre.T), 0.0, atol=1e-9 * scale)


def test_the_identities_notice_a_mistake():
    system, centre = draw(8, noise=0.5)
    other = random_gain(generator(9, "other"), system)
    assert bellman_error(system, centre, np.zeros((3, 3))) > 1e-3
    difference = system.expected_return(other) - system.expected_return(centre)
    with_wrong_states = system.expected_advantage(visited_by=centre, critic_of=centre, policy=other)
    assert abs(with_wrong_states - difference) > 1e-3
    silent = replace(system, noise=np.zeros((3, 3)))
    assert abs(silent.expected_advantage(other, centre, other) - difference) > 1e-3


def test_expected_advantage_is_the_sum_over_visited_states():
    system, centre = draw(10, fixed_start=True, gamma=0.9)
    other = random_gain(generator(11, "other"), system)
    state, total = system.initial_mean, 0.0
    for t in range(400):
        total += 0.9**t * float(system.advantage(centre, state, other @ state))
        state = system.closed_loop(centre) @ state
    assert system.expected_advantage(centre, centre, other) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(("states", "actions"), SIZES)
def test_optimal_gain_is_a_maximum(states, actions):
    system, _ = draw(12, states, actions, noise=0.3)
    best = system.optimal_gain()
    value = system.expected_return(best)
    np.testing.assert_allclose(system.gradient(best), 0.0, atol=1e-8 * abs(value))
    rng = generator(13, "around")
    for _ in range(20):
        assert system.expected_return(best + 0.05 * rng.standard_normal(best.shape)) < value
    assert np.max(np.abs(system.gradient(0.9 * best))) > 1e-3


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_finite_horizon_tends_to_the_infinite_one_and_matches_simulation(noise):
    system, gain = draw(14, gamma=0.9, noise=noise)
    assert system.finite_return(gain, 600) == pytest.approx(system.expected_return(gain), rel=1e-10)
    np.testing.assert_allclose(system.finite_moments(gain, 600), system.visitation_moments(gain), rtol=1e-8)
    returns, moments = simulate(system, gain, episodes=20_000, horizon=5)
    assert z_score(returns, system.finite_return(gain, 5)) < 4.0
    assert z_score(moments, system.finite_moments(gain, 5)) < 4.5
    assert z_score(returns, system.finite_return(gain, 4)) > 6.0
    by_states = -np.sum(system.running_cost(gain) * system.finite_moments(gain, 9))
    assert system.finite_return(gain, 9) == pytest.approx(by_states, rel=1e-10)


def test_visitation_mean_by_summation():
    system, gain = draw(15, gamma=0.9, noise=0.5)
    state, total = system.initial_mean, np.zeros(3)
    for t in range(500):
        total, state = total + 0.9**t * state, system.closed_loop(gain) @ state
    np.testing.assert_allclose(system.visitation_mean(gain), total, rtol=1e-10)


def test_an_infinite_return_is_refused_and_truncation_makes_it_finite():
    system, _ = draw(16, 2, 1, gamma=0.95)
    unstable = replace(system, transition=1.2 * np.eye(2))
    zero = np.zeros((1, 2))
    assert not unstable.is_finite(zero)
    for method in (unstable.expected_return, unstable.gradient, unstable.visitation_moments, unstable.visitation_mean):
        with pytest.raises(ConfigError, match="infinite"):
            method(zero)
    assert np.isfinite(unstable.finite_return(zero, 10))
    # √γ·ρ decides, not ρ: a slowly growing state is fine under a strong discount.
    assert np.isfinite(replace(unstable, gamma=0.6).expected_return(zero))
    undiscounted = replace(system, gamma=1.0)
    assert np.isfinite(undiscounted.expected_return(zero))
    with pytest.raises(ConfigError, match="process noise"):
        replace(undiscounted, noise=np.eye(2)).expected_return(zero)
    with pytest.raises(ConfigError, match="stable"):
        random_system(generator(0), 2, 1, gamma=0.99, radius=1.1)
    with pytest.raises(ConfigError, match="no gain stabilises"):
        replace(unstable, control=np.zeros((2, 1))).optimal_gain()


def test_bad_matrices_are_named():
    system, gain = draw(17)
    with pytest.raises(ShapeError, match="transition"):
        replace(system, transition=np.eye(2))
    with pytest.raises(ConfigError, match="action_cost must be positive definite"):
        replace(system, action_cost=np.zeros((2, 2)))
    with pytest.raises(ConfigError, match="noise must be positive semi-definite"):
        replace(system, noise=-np.eye(3))
    with pytest.raises(ConfigError, match="state_cost must be symmetric"):
        replace(system, state_cost=np.triu(np.ones((3, 3))))
    with pytest.raises(ConfigError, match="gamma"):
        replace(system, gamma=0.0)
    with pytest.raises(ShapeError, match="gain"):
        system.expected_return(gain.T)
    with pytest.raises(ShapeError, match="columns"):
        system.value(gain, np.zeros(4))
    assert system.expected_return(gain.reshape(-1)) == system.expected_return(gain)


def episode(env: LqrEnv, gain: np.ndarray, seed: int) -> float:
    state, _ = env.reset(seed=seed)
    total, discount, truncated = 0.0, 1.0, False
    while not truncated:
        state, reward, terminated, truncated, info = env.step(gain @ state)
        assert not terminated
        assert not info["clipped"]
        total, discount = total + discount * reward, discount * env.system.gamma
    return total


@pytest.mark.filterwarnings("ignore:.*WARN.*infinity.*")
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space.*")
def test_env_obeys_gymnasium():
    check_env(make_env(noise=0.1), skip_render_check=True)


def test_env_returns_agree_with_the_finite_horizon():
    system, gain = draw(18, gamma=0.9, noise=0.4)
    env = LqrEnv(system, horizon=20)
    returns = np.array([episode(env, gain, seed) for seed in range(2000)])
    assert z_score(returns, system.finite_return(gain, 20)) < 4.0
    silent = replace(system, noise=np.zeros((3, 3)))
    assert z_score(returns, silent.finite_return(gain, 20)) > 6.0
    assert episode(env, gain, 3) == episode(env, gain, 3)
    assert episode(env, gain, 3) != episode(env, gain, 4)


def test_deterministic_env_gives_the_return_exactly_and_actions_are_clipped_openly():
    system, gain = draw(19, fixed_start=True)
    env = LqrEnv(system, horizon=30)
    assert episode(env, gain, 0) == pytest.approx(system.finite_return(gain, 30), rel=1e-12)
    narrow = LqrEnv(system, horizon=30, action_bound=0.5)
    start, _ = narrow.reset(seed=0)
    after, reward, _, truncated, info = narrow.step(np.array([9.0, 0.1]))
    assert info["clipped"]
    assert not truncated
    action = np.array([0.5, 0.1])
    np.testing.assert_allclose(after, system.transition @ start + system.control @ action)
    assert reward == pytest.approx(-start @ system.state_cost @ start - action @ system.action_cost @ action)
    state, _ = narrow.reset(seed=0, options={"state": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(state, [1.0, 2.0, 3.0])
    wrong: list[dict[str, Any]] = [{"horizon": 0}, {"action_bound": np.inf}]
    for bad in wrong:
        with pytest.raises(ConfigError):
            LqrEnv(system, **bad)


def test_parameters_of_a_clipped_linear_policy_are_the_gain():
    task = make_task(lqr_task(3, 2, 4))
    env = task.make_env()
    assert isinstance(env, LqrEnv)
    assert (task.spec.horizon, task.spec.gamma) == (env.horizon, env.system.gamma)
    np.testing.assert_array_equal(env.system.transition, make_env(3, 2, 4).system.transition)
    gain = random_gain(generator(20, "gain"), env.system)
    policy = Policy(PolicySpace(ClippedLinear(), task.spec), gain.reshape(-1), Normaliser.empty(3))
    state, _ = env.reset(seed=0)
    total = 0.0
    for t in range(env.horizon):
        state, reward, *_ = env.step(policy(state))
        total += env.system.gamma**t * reward
    assert total == pytest.approx(env.system.finite_return(gain, env.horizon), rel=1e-12)
    assert total == pytest.approx(env.system.expected_return(gain), rel=1e-4)
    with pytest.raises(AttributeError, match="s3_a2_seed0"):
        _ = lqr.nonsense
