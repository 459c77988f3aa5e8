"""The process of a constraint against a dense twin, its limits, and the smooth maximum behind its critics."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from abps.data.visits import Visits
from abps.data.window import Point
from abps.model import costs
from abps.model.chart import ActionMetric
from abps.model.costs import CostProcess, cost_rewards, margin_unit
from abps.model.neighbourhood import Neighbourhood
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.constraints import Constraint
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

LIMIT = 3.0


def make(reduce: Any = "max", count: int = 9, probability: float = 0.95) -> Any:
    """A process that has learned of policies whose cost is linear in their first weight, and what it was told."""
    constraint = Constraint("torque", LIMIT, probability, reduce)
    spec = TaskSpec("arm", 2, 1, (-1.0,), (1.0,), horizon=20, constraints=(constraint,))
    space = PolicySpace(LinearTanh(bias=True), spec)
    rng, nothing = np.random.default_rng(0), Normaliser.empty(2)
    episodes, entries = [], []
    for number in range(count):
        parameters = 0.3 * rng.normal(size=space.size) * (number > 0)
        observations = rng.normal(size=(21, 2))
        actions = space.actions(parameters[None], observations[:-1], nothing)[0]
        steps = np.abs(rng.normal(size=20)) * 0.1 + 0.05 + 0.5 * np.abs(actions[:, 0])
        episode = Trajectory.build(
            observations, actions, -steps, terminated=False, truncated=True, costs=steps[:, None]
        )
        episodes.append(episode)
        cost = 1.0 + 4.0 * parameters[0] + 0.1 * rng.normal()
        visits = Visits.collect([episode], 1.0)
        entries.append(Point(parameters, nothing, np.array([cost - LIMIT]), "probe", 0, visits))
    unit = margin_unit(np.array([point.value + LIMIT for point in entries]), LIMIT)
    near = Neighbourhood(space.policy(space.initial(), nothing), tuple(entries), unit, ActionMetric(), remap=True)
    process = CostProcess(constraint, space, seed=1)
    excitations = np.where(np.arange(count) % 3 == 1, 0.1, 0.0)
    process.learn(near, excitations, 0, episodes)
    return process, near, excitations


def dense_score(model, parameters, excitations, excitation, *, noise=True):
    """z by explicit inverses and the textbook's formulas."""
    near, hyper, features = model.neighbourhood, model.hyper, model.prior.features
    z, points = near.coordinates.to_chart(parameters), near.points

    def kernel(a, b):
        squares = ((a[:, None] - b[None]) ** 2).sum(-1)
        return hyper.signal**2 * np.exp(-0.5 * squares / hyper.lengthscales[0] ** 2)

    known = np.column_stack([points @ features.gradient[:, 0], costs.EXCITATION * excitations])
    asked = np.column_stack([z @ features.gradient[:, 0], np.full(len(z), costs.EXCITATION * excitation)])
    gram = kernel(points, points) + hyper.noise**2 * np.eye(len(points)) + known @ known.T
    cross = kernel(z, points) + asked @ known.T
    inverse = np.linalg.inv(gram)
    residual = near.returns - hyper.mean - known @ features.prior
    mean = hyper.mean + asked @ features.prior + cross @ inverse @ residual
    variance = hyper.signal**2 + (asked**2).sum(1) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    return -mean / np.sqrt(variance + (hyper.noise**2 if noise else 0.0))


@pytest.mark.parametrize("reduce", ["max", "sum"])
@pytest.mark.parametrize("excitation", [0.0, 0.07])
def test_the_probability_is_that_of_a_dense_twin(reduce, excitation):
    process, near, excitations = make(reduce)
    model = process.model(near, excitations)
    parameters = 0.5 * np.random.default_rng(3).normal(size=(300, 3))
    found = process.score(model, parameters, excitation)
    np.testing.assert_allclose(found, dense_score(model, parameters, excitations, excitation), rtol=1e-6, atol=1e-9)
    # Negative control: the twin notices when the noise of an episode, or what moving costs, is forgotten.
    assert np.abs(found - dense_score(model, parameters, excitations, excitation, noise=False)).max() > 0.1
    assert np.abs(found - dense_score(model, parameters, excitations, excitation + 0.05)).max() > 0.1


def test_it_knows_which_way_is_dangerous():
    process, near, excitations = make(count=20)
    model = process.model(near, excitations)
    low, here, high = process.score(model, np.array([[-0.2, 0, 0], [0.0, 0, 0], [0.6, 0, 0]]))
    assert low > high
    assert here > ndtri(0.95) > high


@pytest.mark.parametrize("probability", [0.6, 0.9, 0.99])
def test_nothing_is_safe_where_the_kernel_knows_nothing(probability):
    process = make(probability=probability)[0]
    hyper = process.memory.hyper
    assert hyper is not None
    far = max(0.0, -hyper.mean) / np.sqrt(hyper.signal**2 + hyper.noise**2)
    assert far < ndtri(probability)


@given(st.lists(st.booleans(), max_size=200), st.floats(0.55, 0.99))
def test_violations_are_bounded_by_the_caution_whatever_happens(broken, probability):
    """The inequality on paper: V ≤ (1 − p)·N + log(κ)/η, unless κ has reached its largest value."""
    spec = TaskSpec("arm", 2, 1, (-1.0,), (1.0,))
    process = CostProcess(Constraint("a", 1.0, probability), PolicySpace(LinearTanh(), spec), 0)
    for violated in broken:
        process.note(int(violated), int(not violated))
        assert 1.0 <= process.memory.caution <= costs.MOST_CAUTION
        if process.memory.caution == costs.MOST_CAUTION:
            return
    bound = (1.0 - probability) * len(broken) + np.log(process.memory.caution) / costs.CAUTION_RATE
    assert sum(broken) <= bound + 1e-9


def test_rewards_of_a_maximum_have_the_slope_of_its_smooth_form():
    rng = np.random.default_rng(5)
    steps, direction = rng.normal(size=30), rng.normal(size=30)
    constraint, size = Constraint("a", 1.0), 1e-5
    spread = float(np.std(steps))

    def smooth(values):
        return spread * np.log(np.exp(values / spread).sum())

    expected = (smooth(steps + size * direction) - smooth(steps - size * direction)) / (2 * size)
    weights = cost_rewards([steps], constraint)[0] / spread  # Rewards r = τ·softmax(c): dr/dc along each step is r/τ.
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ direction == pytest.approx(expected, rel=1e-6)
    assert cost_rewards([steps], Constraint("a", 1.0, reduce="sum"))[0] is steps
    assert not cost_rewards([np.ones(4)], constraint)[0].any()


def test_the_unit_is_the_distance_to_the_limit_or_the_spread():
    assert margin_unit(np.array([1.0, 1.0, 1.0]), 3.0) == 2.0
    assert margin_unit(np.array([1.0, 9.0]), 3.0) == 4.0
    assert margin_unit(np.zeros(0), -2.0) == 2.0
    assert margin_unit(np.zeros(3), 0.0) > 0.0
