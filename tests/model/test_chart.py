"""Charts: lengths are changes of actions, the maps are inverse to each other, and gradients follow them."""

import numpy as np
import pytest
from plain_policy import ByContract

from abps.data.visits import Visits
from abps.errors import ConfigError
from abps.model.chart import ActionMetric, Identity
from abps.normaliser import Normaliser
from abps.policies import PolicySpace
from abps.policies.base import PriorMetric
from abps.policies.features import Fourier
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.mlp import Mlp
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))
CLASSES = [LinearTanh(), ClippedLinear(), LinearTanh(bias=True), Mlp(hidden=(2,)), Mlp(hidden=(3,), output_only=True)]
TINY = ActionMetric(ridge=1e-7)
"""So little ridge that lengths are those of the metric alone."""

every = pytest.mark.parametrize("policy_class", CLASSES, ids=repr)


def draw(policy_class, seed=0, states=200):
    rng = np.random.default_rng(seed)
    space = PolicySpace(policy_class, SPEC)
    normaliser = Normaliser.empty(3).add(5.0 + np.array([0.1, 1.0, 10.0]) * rng.standard_normal((50, 3)))
    centre = space.policy(0.3 * rng.standard_normal(space.size), normaliser)
    observations = normaliser.mean + normaliser.std * rng.standard_normal((states, 3))
    return rng, centre, Visits(observations, centre.actions(observations), rng.uniform(0.1, 1.0, states))


def action_change(centre, visits, parameters):
    """Root-mean-square change of the actions in halves of their ranges, by acting."""
    changes = (centre.space.actions(parameters, visits.states, centre.normaliser) - centre.actions(visits.states)) / (
        np.array([2.0, 2.5])
    )
    return np.sqrt(np.square(changes).mean(axis=1) @ (visits.weights / visits.weights.sum()))


@every
def test_lengths_are_changes_of_actions_to_first_order(policy_class):
    rng, centre, visits = draw(policy_class)
    coordinates = TINY.at(centre, visits)
    for _ in range(20):
        move = rng.standard_normal(centre.space.size)
        small = centre.parameters + 1e-5 * move
        changed = action_change(centre, visits, small)
        assert np.linalg.norm(coordinates.to_chart(small)) == pytest.approx(changed, rel=1e-3)
        assert np.linalg.norm(1e-5 * move) != pytest.approx(changed, rel=0.1)  # parameters are no lengths


@every
def test_a_change_in_the_chart_changes_actions_by_its_length(policy_class):
    rng, centre, visits = draw(policy_class, 1)
    coordinates = TINY.at(centre, visits)
    for _ in range(20):
        z = rng.standard_normal(centre.space.size)
        z *= 1e-4 / np.linalg.norm(z)
        assert action_change(centre, visits, coordinates.to_parameters(z)) == pytest.approx(1e-4, rel=1e-2)


@every
@pytest.mark.parametrize("ridge", [1e-7, 0.1, 3.0])
def test_a_ridge_only_lengthens(policy_class, ridge):
    rng, centre, visits = draw(policy_class, 2)
    plain, stiff = (ActionMetric(r).at(centre, visits) for r in (1e-8, ridge))
    points = centre.parameters + rng.standard_normal((30, centre.space.size))
    lengths, longer = (np.linalg.norm(coordinates.to_chart(points), axis=1) for coordinates in (plain, stiff))
    assert (longer >= lengths * (1 - 1e-9)).all()
    assert ridge < 1.0 or (longer > 1.05 * lengths).any()


@every
@pytest.mark.parametrize("chart", [Identity(), ActionMetric()], ids=repr)
def test_the_maps_are_inverse_to_each_other(policy_class, chart):
    rng, centre, visits = draw(policy_class, 3)
    coordinates = chart.at(centre, visits)
    points = centre.parameters + rng.standard_normal((5, centre.space.size))
    np.testing.assert_allclose(coordinates.to_parameters(coordinates.to_chart(points)), points, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(coordinates.to_chart(centre.parameters), coordinates.centre, atol=1e-15)
    np.testing.assert_allclose(coordinates.to_parameters(coordinates.centre), centre.parameters, atol=1e-12)
    for point in points:  # One vector as well as rows.
        matching = points[:, 0] == point[0]
        np.testing.assert_allclose(coordinates.to_chart(point), coordinates.to_chart(points)[matching][0])


@every
@pytest.mark.parametrize("chart", [Identity(), ActionMetric()], ids=repr)
def test_a_gradient_times_a_step_is_the_same_in_every_chart(policy_class, chart):
    rng, centre, visits = draw(policy_class, 4)
    coordinates = chart.at(centre, visits)
    gradients, steps = rng.standard_normal((2, 6, centre.space.size))
    moved = coordinates.to_chart(centre.parameters + steps) - coordinates.centre
    expected = np.einsum("ij,ij->i", gradients, steps)
    np.testing.assert_allclose(np.einsum("ij,ij->i", coordinates.gradients(gradients), moved), expected, rtol=1e-9)
    np.testing.assert_allclose(coordinates.gradients(gradients[0]), coordinates.gradients(gradients)[0])
    if chart != Identity():  # Negative control: gradients do not transform as steps do.
        wrong = coordinates.to_chart(centre.parameters + gradients) - coordinates.centre
        assert np.abs(np.einsum("ij,ij->i", wrong, moved) - expected).max() > 1e-2


def test_gradients_are_those_of_a_function_seen_through_the_chart():
    rng, centre, visits = draw(LinearTanh(), 5)
    coordinates = ActionMetric().at(centre, visits)
    slope, curve = rng.standard_normal((2, 6))
    value = lambda x: np.sin(x @ slope) + (x @ curve) ** 2  # noqa: E731
    gradient = np.cos(centre.parameters @ slope) * slope + 2 * (centre.parameters @ curve) * curve
    h = 1e-6
    numeric = [
        (value(coordinates.to_parameters(step)) - value(coordinates.to_parameters(-step))) / (2 * h)
        for step in h * np.eye(6)
    ]
    np.testing.assert_allclose(coordinates.gradients(gradient), numeric, rtol=1e-5, atol=1e-6)


def test_the_scale_of_a_sensor_does_not_matter():
    """The same policy seen through a sensor in other units has the same coordinates, whatever the ridge."""
    rng, centre, _ = draw(LinearTanh(), 6)
    units = np.array([10.0, 0.1, 3.0])
    plain = Normaliser.empty(3)
    space = centre.space
    states = rng.standard_normal((100, 3))
    one = space.policy(centre.parameters, plain)
    two = space.policy((centre.parameters.reshape(2, 3) / units).ravel(), plain)
    step = 0.1 * rng.standard_normal((2, 3))
    lengths = []
    for policy, seen, move in ((one, states, step), (two, states * units, step / units)):
        coordinates = TINY.at(policy, Visits(seen, policy.actions(seen), np.ones(100)))
        lengths.append(np.linalg.norm(coordinates.to_chart(policy.parameters + move.ravel())))
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-4)
    assert np.linalg.norm(step) != pytest.approx(np.linalg.norm(step / units), rel=0.1)


def test_saturated_policies_and_still_sensors_have_a_chart():
    _, centre, visits = draw(LinearTanh(), 7)
    wild = centre.space.policy(1e4 * np.ones(6), centre.normaliser)
    still = Visits(np.ones_like(visits.states), visits.actions, visits.weights)
    for policy, seen in ((wild, visits), (centre, still)):
        coordinates = ActionMetric().at(policy, seen)
        z = np.full(6, 0.1)
        back = coordinates.to_chart(coordinates.to_parameters(z))
        assert np.isfinite(back).all()
        np.testing.assert_allclose(back, z, rtol=1e-4)


def test_the_identity_needs_no_states_and_the_metric_says_that_it_does():
    _, centre, _ = draw(LinearTanh())
    assert Identity().at(centre, None).centre is centre.parameters
    with pytest.raises(RuntimeError, match="states"):
        ActionMetric().at(centre, None)
    with pytest.raises(ConfigError, match="ridge must be positive"):
        ActionMetric(ridge=0.0)


# ---- features and networks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy_class",
    [Fourier(features=40), Mlp(hidden=(16,)), Mlp(hidden=(8, 8)), Mlp(output_only=True)],
    ids=lambda item: f"{type(item).__name__} {getattr(item, 'hidden', '')}",
)
def test_moves_change_the_actions_by_their_length_and_stay_tame(policy_class):
    """At the start a network's hidden layers have no effect, and neighbouring features nearly the same one: without
    lengths of their own such parameters go astray, and the actions with them."""
    rng = np.random.default_rng(8)
    states = rng.standard_normal((400, 3))
    moves = rng.standard_normal((30, policy_class.initial(SPEC).size))
    changes, sizes = [], []
    for kind in (policy_class, ByContract(policy_class)):
        assert isinstance(kind, PriorMetric) == (kind is policy_class)
        centre = PolicySpace(kind, SPEC).policy(policy_class.initial(SPEC), Normaliser.empty(3))
        visits = Visits(states, centre.actions(states), np.ones(400))
        moved = ActionMetric().at(centre, visits).to_parameters(0.12 * moves / np.sqrt(moves.shape[1]))
        changes.append(np.sqrt(np.mean([action_change(centre, visits, point) ** 2 for point in moved])))
        sizes.append(np.abs(moved - centre.parameters).max())
    assert 0.03 < changes[0] < 0.15
    assert sizes[0] < 6.0
    assert sizes[1] > 2.0 * sizes[0]  # Negative control: the metric of the initial policy as ridge.
