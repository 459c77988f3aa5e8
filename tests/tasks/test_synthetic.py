"""Synthetic functions: drawn as documented, reproducible, with right gradients and optima, seen through one step."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies import Policy, PolicySpace
from abps.policies.linear import ClippedLinear
from abps.seeding import generator
from abps.tasks import synthetic
from abps.tasks.gym import make_task
from abps.tasks.synthetic import SyntheticEnv, SyntheticFunction, mean_distance, synthetic_task

DIMENSIONS = [4, 12, 36]


def test_mean_distance_bounds_the_mean_of_uniform_pairs():
    rng = generator(0, "distance")
    for dimension in (1, 4, 36):
        pairs = rng.uniform(size=(2, 20_000, dimension))
        mean = np.linalg.norm(pairs[0] - pairs[1], axis=1).mean()
        assert mean < mean_distance(dimension) < 1.25 * mean
    assert mean_distance(36) == pytest.approx(np.sqrt(6.0), rel=0.01)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_function_is_the_posterior_mean_through_noisy_draws(dimension):
    """Against textbook formulas with a dense solve; y is recovered as (K + σ²) weights."""
    function = SyntheticFunction(dimension, 3, support=60)
    scaled = function._points / function.lengthscales
    gram = np.exp(-0.5 * np.square(scaled[:, None] - scaled[None]).sum(axis=2))
    observed = (gram + 0.01 * np.eye(60)) @ function._weights
    points = generator(1, "points").uniform(size=(9, dimension))
    cross = np.exp(-0.5 * np.square((points / function.lengthscales)[:, None] - scaled[None]).sum(axis=2))
    np.testing.assert_allclose(function.value(points), cross @ np.linalg.solve(gram + 0.01 * np.eye(60), observed))
    assert function.value(points[0]) == pytest.approx(function.value(points)[0])
    assert function.value(points[0]).shape == ()


def test_the_draws_have_the_covariance_of_the_prior():
    """yᵀ(K + σ²)⁻¹y of a true draw is χ²(n); a wrong noise or kernel would shift it."""
    statistic, wrong = [], []
    for seed in range(200):
        function = SyntheticFunction(4, seed, support=50)
        scaled = function._points / function.lengthscales
        gram = np.exp(-0.5 * np.square(scaled[:, None] - scaled[None]).sum(axis=2))
        observed = (gram + 0.01 * np.eye(50)) @ function._weights
        statistic.append(observed @ function._weights)
        wrong.append(observed @ np.linalg.solve(gram + 0.02 * np.eye(50), observed))
    error = np.sqrt(2 * 50 / 200)
    assert abs(np.mean(statistic) - 50) < 4 * error
    assert abs(np.mean(wrong) - 50) > 4 * error


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_gradient_agrees_with_finite_differences(dimension):
    function = SyntheticFunction(dimension, 0)
    point = generator(2, "gradient").uniform(size=dimension)
    value, slope = function.value_and_gradient(point)
    steps = 1e-5 * np.eye(dimension)
    numeric = (function.value(point + steps) - function.value(point - steps)) / 2e-5
    assert value == pytest.approx(float(function.value(point)), rel=1e-9)
    np.testing.assert_allclose(slope, numeric, atol=1e-6)
    assert np.max(np.abs(slope * function.lengthscales - numeric)) > 1e-2  # negative control: a forgotten 1/ℓ


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_functions_are_worth_optimising(dimension):
    """Visible over the noise at random points and in the slope at the middle, optimum far above typical values."""
    for seed in range(2):
        function = SyntheticFunction(dimension, seed)
        values = function.value(generator(seed, "cube").uniform(size=(300, dimension)))
        slope = function.value_and_gradient(np.full(dimension, 0.5))[1]
        assert values.std() > 3 * np.sqrt(function.noise_variance)
        assert np.linalg.norm(slope * function.lengthscales) > 3 * np.sqrt(function.noise_variance)
        assert function.optimum[1] > values.max()
    # The published lengthscale factor leaves the cube flat at d = 36 (module docstring).
    if dimension == 36:
        flat = SyntheticFunction(36, 0, smoothness=0.18)
        assert flat.value(generator(0, "cube").uniform(size=(300, 36))).std() < 0.01


@pytest.mark.parametrize("dimension", [1, 4, 12])
def test_optimum_is_not_beaten_by_a_dense_search(dimension):
    function = SyntheticFunction(dimension, 5)
    point, value = function.optimum
    assert np.all((point >= 0) & (point <= 1))
    assert float(function.value(point)) == pytest.approx(value)
    crowd = generator(3, "crowd").uniform(size=(20_000, dimension))
    near = np.clip(point + 0.02 * generator(4, "near").standard_normal((2000, dimension)), 0, 1)
    assert function.value(crowd).max() <= value + 1e-9
    assert function.value(near).max() <= value + 1e-9
    assert function.relative_error(point) == pytest.approx(0.0, abs=1e-12)
    assert function.relative_error(crowd).min() >= 0.0
    assert function.optimum is function.optimum  # computed once


def test_same_seed_same_function_two_seeds_differ():
    first, again, other = SyntheticFunction(6, 1), SyntheticFunction(6, 1), SyntheticFunction(6, 2)
    points = generator(5, "points").uniform(size=(20, 6))
    np.testing.assert_array_equal(first.value(points), again.value(points))
    assert first == again
    assert first != other
    assert not np.allclose(first.value(points), other.value(points))
    low, high = 0.5 * mean_distance(6) * np.array([0.7, 1.3])
    assert np.all((first.lengthscales >= low) & (first.lengthscales <= high))


@pytest.mark.filterwarnings("ignore:.*maximum and minimum values are equal.*")
def test_env_obeys_gymnasium():
    check_env(SyntheticEnv(SyntheticFunction(4, 0)), skip_render_check=True)


def test_reward_is_the_value_plus_noise_of_the_stated_variance():
    function = SyntheticFunction(4, 0)
    env, quiet = SyntheticEnv(function), SyntheticEnv(function, noisy=False)
    point = np.array([0.2, 0.9, 0.4, 0.5])
    env.reset(seed=0)
    rewards = np.array([env.step(point)[1] for _ in range(4000)])
    value = float(function.value(point))
    assert abs(rewards.mean() - value) < 4 * 0.1 / np.sqrt(4000)
    assert rewards.var() == pytest.approx(0.01, rel=4 * np.sqrt(2 / 4000))
    quiet.reset(seed=0)
    observation, reward, terminated, truncated, info = quiet.step(point + 7.0)
    assert (terminated, truncated) == (True, False)
    assert reward == info["value"] == float(function.value(np.ones(4)))
    np.testing.assert_array_equal(observation, [1.0])


def test_parameters_of_a_clipped_linear_policy_are_the_point():
    task = make_task(synthetic_task(5, 2))
    assert (task.spec.horizon, task.spec.gamma, task.spec.action_dim) == (1, 1.0, 5)
    env = task.make_env()
    assert isinstance(env, SyntheticEnv)
    assert env.function == SyntheticFunction(5, 2)
    parameters = np.array([0.0, 0.1, -0.4, 0.5, 0.9])
    observation, _ = env.reset(seed=0)
    action = Policy(PolicySpace(ClippedLinear(), task.spec), parameters, Normaliser.empty(1))(observation)
    np.testing.assert_allclose(action, [0.5, 0.6, 0.1, 1.0, 1.0])
    _, reward, *_ = env.step(action)
    assert abs(reward - float(env.function.value(action))) < 0.6


def test_bad_settings_are_named():
    with pytest.raises(ConfigError, match="dimension"):
        SyntheticFunction(0, 0)
    with pytest.raises(ConfigError, match="smoothness"):
        SyntheticFunction(2, 0, smoothness=0.0)
    with pytest.raises(ShapeError, match=r"\(m, 2\)"):
        SyntheticFunction(2, 0, support=10).value(np.zeros(3))
    with pytest.raises(AttributeError, match="d12_seed3"):
        _ = synthetic.nonsense
