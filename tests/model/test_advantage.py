"""The advantage mean against linear-quadratic tasks, where returns, gradients and action values are known exactly."""

import numpy as np
import pytest

from abps.critics import Critics, FitReport
from abps.data.visits import Visits, systematic_sample
from abps.model.advantage import advantage_features, advantage_gradients, validation_advantages
from abps.normaliser import Normaliser
from abps.policies import Policy, PolicySpace
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.tasks.lqr import LqrSystem, random_gain, random_system
from abps.tasks.spec import TaskSpec
from abps.trajectory import discounts

GAMMA, STEPS = 0.9, 400  # γ^400 is below 1e-18: an infinite horizon to working precision.


class ExactCritics(Critics):
    """Q of the centre from Lyapunov equations; a second member is a scaled copy, so that members can be told apart."""

    members = 2

    def __init__(self, system: LqrSystem, gain) -> None:
        self.system, self.gain, self.factors = system, gain, np.array([1.0, 0.5])

    def q(self, states, actions):
        return self.factors[:, None] * self.system.action_value(self.gain, states, actions)

    def action_gradients(self, states, actions):
        return self.factors[:, None, None] * self.system.action_value_gradient(self.gain, states, actions)

    def start_centre(self, centre, replay, reward_scale, worst=None) -> FitReport:
        raise NotImplementedError

    def update(self, replay) -> FitReport:
        raise NotImplementedError


def exact_visits(system: LqrSystem, gain, weights=None) -> Visits:
    """The deterministic trajectory of a gain from the fixed start, in float64."""
    states = [system.initial_mean]
    loop = system.closed_loop(gain)
    for _ in range(STEPS - 1):
        states.append(loop @ states[-1])
    visited = np.array(states)
    return Visits(visited, visited @ np.asarray(gain).T, discounts(GAMMA, STEPS) if weights is None else weights)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(7)
    system = random_system(rng, 4, 2, gamma=GAMMA, radius=0.8, fixed_start=True)
    gain = random_gain(rng, system)
    spec = TaskSpec("lqr", 4, 2, (-1e3,) * 2, (1e3,) * 2, gamma=GAMMA)
    centre = Policy(PolicySpace(ClippedLinear(), spec), gain.ravel(), Normaliser.empty(4))
    points = gain + 0.1 * rng.standard_normal((6, 2, 4))
    assert all(system.is_finite(point) for point in points)
    return system, gain, centre, points


def test_validation_predictor_is_the_return_of_any_point(problem):
    system, gain, centre, points = problem
    critics = ExactCritics(system, gain)
    advantages = validation_advantages(critics, centre, [exact_visits(system, point) for point in points])
    returns = np.array([system.expected_return(point) for point in points])
    assert np.ptp(returns) > 0.1
    np.testing.assert_allclose(system.expected_return(gain) + advantages[:, 0], returns, rtol=0, atol=1e-6)
    np.testing.assert_allclose(advantages[:, 1], 0.5 * advantages[:, 0])


@pytest.mark.parametrize("broken", ["undiscounted", "own-policy"])
def test_validation_oracle_notices_a_broken_predictor(problem, broken):
    system, gain, centre, points = problem
    weights = np.ones(STEPS) if broken == "undiscounted" else None
    visited = exact_visits(system, gain if broken == "own-policy" else points[0], weights)
    if broken == "own-policy":  # The states of θ instead of x: m̂, which is only equal at θ.
        visited = Visits(visited.states, visited.states @ points[0].T, visited.weights)
    advantage = validation_advantages(ExactCritics(system, gain), centre, [visited])[0, 0]
    error = abs(system.expected_return(gain) + advantage - system.expected_return(points[0]))
    assert error > 1e-3


def test_mean_function_is_exact_at_the_centre_and_quadratic_around_it(problem):
    system, gain, centre, points = problem
    critics, visits = ExactCritics(system, gain), exact_visits(system, gain)
    gradients = advantage_gradients(critics, centre, visits)
    np.testing.assert_allclose(gradients[:, 0], system.gradient(gain).ravel(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(gradients[:, 1], 0.5 * gradients[:, 0])
    np.testing.assert_array_equal(advantage_features(critics, centre, visits, gain.reshape(1, -1)), 0.0)

    direction, sizes = (points[0] - gain) / 0.1, np.array([1e-3, 1e-2])
    nearby = np.array([gain + size * direction for size in sizes])
    features = advantage_features(critics, centre, visits, nearby.reshape(2, -1))[:, 0]
    errors = np.abs(system.expected_return(gain) + features - [system.expected_return(point) for point in nearby])
    assert np.log(errors[1] / errors[0]) / np.log(sizes[1] / sizes[0]) >= 1.8


def test_gradient_oracle_notices_wrong_weights(problem):
    system, gain, centre, _ = problem
    wrong = exact_visits(system, gain, np.ones(STEPS))
    gradients = advantage_gradients(ExactCritics(system, gain), centre, wrong)
    assert np.abs(gradients[:, 0] - system.gradient(gain).ravel()).max() > 1e-3


def test_features_do_not_depend_on_how_points_are_batched(problem, monkeypatch):
    system, gain, centre, points = problem
    critics, visits = ExactCritics(system, gain), exact_visits(system, gain)
    others = [exact_visits(system, point) for point in points]
    whole = (
        advantage_features(critics, centre, visits, points.reshape(6, -1)),
        validation_advantages(critics, centre, others),
    )
    for user in ("abps.model.advantage", "abps.critics.base"):
        monkeypatch.setattr(f"{user}.ROWS", 2 * STEPS + 1)
    parts = (
        advantage_features(critics, centre, visits, points.reshape(6, -1)),
        validation_advantages(critics, centre, others),
    )
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_gradients_agree_with_finite_differences_for_tanh_policies(problem):
    system, gain, _, _ = problem
    spec = TaskSpec("lqr", 4, 2, (-2.0,) * 2, (3.0,) * 2, gamma=GAMMA)
    normaliser = Normaliser.empty(4).add(np.random.default_rng(0).standard_normal((50, 4)))
    centre = Policy(PolicySpace(LinearTanh(), spec), 0.3 * gain.ravel(), normaliser)
    critics, visits = ExactCritics(system, gain), exact_visits(system, gain)
    step = 1e-5 * np.eye(8)
    ahead = advantage_features(critics, centre, visits, centre.parameters + step)
    behind = advantage_features(critics, centre, visits, centre.parameters - step)
    np.testing.assert_allclose(
        advantage_gradients(critics, centre, visits), (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-8
    )


def test_subsample_error_of_features_is_small(problem):
    system, gain, centre, points = problem
    rng = np.random.default_rng(1)
    long = [exact_visits(system, gain)]
    full = advantage_features(ExactCritics(system, gain), centre, long[0], points.reshape(6, -1))[:, 0]
    places, weights = systematic_sample(long[0].weights, 64, rng)
    part = Visits(long[0].states[places], long[0].actions[places], weights)
    sampled = advantage_features(ExactCritics(system, gain), centre, part, points.reshape(6, -1))[:, 0]
    assert np.abs(sampled - full).max() < 0.01 * np.ptp(full)
