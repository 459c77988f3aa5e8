"""The behaviour kernel: its distance is that of actions, its derivatives at the centre have closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.data.visits import Visits
from abps.data.window import Point
from abps.errors import ConfigError
from abps.model import GP, Hyper, Neighbourhood, PriorMean
from abps.model.behaviour import Behaviour
from abps.model.chart import ActionMetric
from abps.model.kernel import Kernel, Matern52, SquaredExponential
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec
from abps.testing import check_kernel

SPEC = TaskSpec("none", 3, 2, (-1.0, 0.0), (1.0, 4.0))
SPACE, EMPTY = PolicySpace(LinearTanh(bias=True), SPEC), Normaliser.empty(3)
N, D = 9, SPACE.size
HYPER = Hyper(np.full(D, 0.8), 1.3, 0.2, 0.1, 0.0, False)


def neighbourhood(size: float = 0.7) -> Neighbourhood:
    """Policies far enough from the centre that their actions saturate."""
    rng = np.random.default_rng(0)
    theta = 0.4 * rng.normal(size=D)
    entries = []
    for k in range(N):
        gain = theta if k == N - 1 else theta + size * rng.normal(size=D)
        states = rng.normal(size=(7, 3))
        visits = Visits(states, SPACE.actions(gain, states, EMPTY), rng.uniform(0.2, 1.0, 7))
        entries.append(Point(gain, EMPTY, rng.normal(size=1), "centre" if k == N - 1 else "probe", 0, visits))
    return Neighbourhood(SPACE.policy(theta, EMPTY), tuple(entries), 1.0, ActionMetric(ridge=0.05))


def naive_distance(near: Neighbourhood, one: np.ndarray, two: np.ndarray) -> float:
    """D² state by state, and the chart's ridge: what of its metric is not that of the actions at the centre."""
    visits = near.recent_visits
    assert visits is not None
    total = 0.0
    for state, weight in zip(visits.states, visits.weights / visits.weights.sum(), strict=True):
        change = SPACE.actions(one, state[None], EMPTY)[0] - SPACE.actions(two, state[None], EMPTY)[0]
        total += weight * np.square(change / SPEC.action_half).mean()
    chart, move = near.coordinates, one - two
    blocks = SPACE.metric(near.centre.parameters, visits.states, EMPTY, visits.weights)
    straight = sum(part @ block @ part for part, block in zip(move.reshape(len(blocks), -1), blocks, strict=True))
    return total + np.square(chart.to_chart(one) - chart.to_chart(two)).sum() - straight


def test_it_keeps_the_contract_of_kernels() -> None:
    check_kernel(Behaviour())
    check_kernel(Behaviour(Matern52()))


def test_the_distance_is_that_of_the_actions() -> None:
    near = neighbourhood()
    along, beside = Behaviour().embed(near, near.parameters)
    points = np.hstack([along, beside])
    found = np.square(points[:, None] - points[None]).sum(-1)
    expected = [[naive_distance(near, one, two) for two in near.parameters] for one in near.parameters]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    straight = np.square(near.points[:, None] - near.points[None]).sum(-1)
    assert np.abs(straight - expected).max() > 0.2 * np.max(expected)  # The chart's straight lines are not.
    np.testing.assert_allclose(along[-1], near.theta, atol=1e-12)
    np.testing.assert_allclose(beside[-1], 0.0, atol=1e-6)


def test_the_chart_is_its_first_order() -> None:
    """Halving the moves quarters what the chart misses."""
    near = neighbourhood()
    moves = np.random.default_rng(1).normal(size=(4, D))
    missed = []
    for size in (1e-2, 5e-3):
        parameters = near.centre.parameters + size * moves
        along, beside = Behaviour().embed(near, parameters)
        missed.append([np.linalg.norm(along - near.coordinates.to_chart(parameters)), np.linalg.norm(beside)])
    np.testing.assert_allclose(np.divide(*missed), 4.0, rtol=0.05)


@pytest.mark.parametrize("radial", [SquaredExponential(), Matern52()])
def test_the_gradient_posterior_is_that_of_differences_of_the_naive_kernel(radial: Kernel) -> None:
    near, length, h = neighbourhood(), 0.8, 1e-5
    chart, theta = near.coordinates, near.theta

    def kernel(one: np.ndarray, two: np.ndarray) -> float:
        squared = np.array(max(naive_distance(near, one, two), 0.0)) / length**2
        return float(1.3**2 * radial.profile(squared).value)

    gram = np.array([[kernel(one, two) for two in near.parameters] for one in near.parameters]) + 0.04 * np.eye(N)
    ahead = [[chart.to_parameters(theta + sign * h * unit) for sign in (1, -1)] for unit in np.eye(D)]
    cross = np.array([[(kernel(up, x) - kernel(down, x)) / (2 * h) for x in near.parameters] for up, down in ahead])
    solved = np.linalg.solve(gram, near.returns - 0.1)
    gp = GP(kernel=Behaviour(radial), shared_lengthscale=True, scale_by_dimension=False)
    model = gp.model(near, PriorMean(np.zeros(N), 0.0, np.zeros(D)), HYPER)
    np.testing.assert_allclose(model.posterior.mu, cross @ solved, rtol=1e-5, atol=1e-7)
    covariance = 1.3**2 / length**2 * np.eye(D) - cross @ np.linalg.solve(gram, cross.T)
    np.testing.assert_allclose(model.posterior.multiply(np.eye(D)), covariance, rtol=1e-5, atol=1e-6)
    # Negative control: the chart's own distance gives another gradient.
    plain = GP(kernel=radial, shared_lengthscale=True, scale_by_dimension=False)
    other = plain.model(near, PriorMean(np.zeros(N), 0.0, np.zeros(D)), HYPER).posterior.mu
    assert np.linalg.norm(other - cross @ solved) > 0.05 * np.linalg.norm(cross @ solved)


def test_known_policies_are_judged_where_they_are() -> None:
    near = neighbourhood()
    gp = GP(kernel=Behaviour(), shared_lengthscale=True, scale_by_dimension=False)
    model = gp.model(near, PriorMean(np.zeros(N), 0.0, np.zeros(D)), HYPER)
    mean, _ = model.better(near.points)
    gram = np.array(
        [
            [1.69 * np.exp(-0.5 * naive_distance(near, one, two) / 0.64) for two in near.parameters]
            for one in near.parameters
        ]
    )
    expected = 0.1 + gram @ np.linalg.solve(gram + 0.04 * np.eye(N), near.returns - 0.1)
    np.testing.assert_allclose(mean, expected, rtol=1e-7, atol=1e-9)


def test_it_is_fitted_and_probed_like_any_kernel() -> None:
    near = neighbourhood()
    gp = GP(
        kernel=Behaviour(), lengthscale_low=0.1, lengthscale_high=3.0, shared_lengthscale=True, scale_by_dimension=False
    )
    model = gp.fit(near, PriorMean(np.zeros(N), 0.0, np.zeros(D), mean_bound=1.0), np.random.default_rng(0))
    assert model.hyper.lengthscales.shape == (D,)
    along, beside = Behaviour().embed(near, near.parameters)
    points = np.hstack([along, beside]) / model.hyper.lengthscales[0]
    gram = model.hyper.signal**2 * np.exp(-0.5 * np.square(points[:, None] - points[None]).sum(-1))
    gram += model.hyper.noise**2 * np.eye(N)
    residual = near.returns - model.hyper.mean
    likelihood = -0.5 * (residual @ np.linalg.solve(gram, residual) + np.linalg.slogdet(2 * np.pi * gram)[1])
    assert model.log_marginal_likelihood == pytest.approx(likelihood)
    candidates = near.theta + 0.3 * np.random.default_rng(1).normal(size=(5, D))
    criterion = ExpectedAscent()
    values, gradients = criterion.values_and_gradients(model.posterior, candidates)
    for k, unit in enumerate(1e-6 * np.eye(D)):
        up, down = (criterion.values(model.posterior, candidates + sign * unit) for sign in (1, -1))
        np.testing.assert_allclose(gradients[:, k], (up - down) / 2e-6, rtol=1e-4, atol=1e-6)
    assert np.isfinite(values).all()


def test_it_needs_one_lengthscale_and_visited_states() -> None:
    with pytest.raises(ConfigError, match="needs shared_lengthscale"):
        GP(kernel=Behaviour())
    near = neighbourhood()
    blind = Neighbourhood(near.centre, tuple(replace(point, visits=None) for point in near.entries))
    with pytest.raises(RuntimeError, match="visited states"):
        Behaviour().embed(blind, near.parameters)
