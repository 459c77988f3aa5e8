"""`ActionMetric` whatever the sensors' units and offsets are, with sensors that stand still, and saturated policies."""

import numpy as np
import pytest

from abps.data.visits import Visits
from abps.model.chart import ActionMetric
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import Policy, PolicySpace
from abps.tasks.spec import TaskSpec

SPEC, RIDGE = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0)), 0.05
CHART = ActionMetric(ridge=RIDGE)


def policy_of(matrix: np.ndarray) -> Policy:
    """From [W | b]."""
    space = PolicySpace(LinearTanh(bias=matrix.shape[1] == 4), SPEC)
    return space.policy(matrix.ravel(), Normaliser.empty(3))


def visits_of(states: np.ndarray, policy: Policy) -> Visits:
    weights = np.random.default_rng(9).uniform(0.1, 1.0, len(states))
    return Visits(states, policy.actions(states), weights)


def lengths(policy: Policy, states: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Inner products in the chart (n, n) of moves of the parameters (n, d)."""
    z = CHART.at(policy, visits_of(states, policy)).to_chart(policy.parameters + moves)
    return z @ z.T


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (10.0, 0.1, 3.0), (1e3, 1e-2, 1.0)])
@pytest.mark.parametrize("offsets", [(0.0, 0.0, 0.0), (5.0, -2.0, 100.0)])
def test_units_and_offsets_of_sensors_do_not_matter(units: tuple[float, ...], offsets: tuple[float, ...]) -> None:
    """Sensors read u·s + c; the same policies have W/u and b − W c/u. Lengths and angles stay, ridge included."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.8], [0.0, 0.0, 1.0]])
    scale, shift = np.array(units), np.array(offsets)

    def translated(matrix: np.ndarray) -> np.ndarray:
        weights = matrix[..., :3] / scale
        return np.concatenate([weights, (matrix[..., 3] - weights @ shift)[..., None]], axis=-1)

    centre, moves = 0.5 * rng.normal(size=(2, 4)), 0.1 * rng.normal(size=(5, 2, 4))
    one, other = policy_of(centre), policy_of(translated(centre))
    seen = scale * states + shift
    np.testing.assert_allclose(other.actions(seen), one.actions(states), rtol=1e-6, atol=1e-9)
    plain = lengths(one, states, moves.reshape(5, -1))
    changed = lengths(other, seen, (translated(centre + moves) - translated(centre)).reshape(5, -1))
    np.testing.assert_allclose(changed, plain, rtol=2e-3, atol=2e-3 * np.abs(plain).max())
    if units != (1.0, 1.0, 1.0):  # Negative control: the same numbers are other policies.
        untranslated = lengths(other, seen, moves.reshape(5, -1))
        assert np.abs(untranslated - plain).max() > 0.1 * np.abs(plain).max()


@pytest.mark.parametrize("value", [0.0, 1.0, 7.0])
@pytest.mark.parametrize("bias", [False, True])
def test_a_still_sensor_gets_a_bounded_weight(bias: bool, value: float) -> None:
    """A move of length one changes its weight by no more than √(a / ridge), however little the data say about it."""
    rng = np.random.default_rng(1)
    states = rng.normal(size=(200, 3))
    states[:, 1] = value
    policy = policy_of(0.3 * rng.normal(size=(2, 3 + bias)))
    coordinates = CHART.at(policy, visits_of(states, policy))
    largest = np.sqrt(2.0 / RIDGE)
    z = rng.normal(size=(500, policy.parameters.size))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    moves = (coordinates.to_parameters(z) - policy.parameters).reshape(-1, 2, 3 + bias)
    assert np.abs(moves[:, :, 1]).max() < 1.1 * largest
    assert np.abs(moves[:, :, 1]).max() > 0.05 * largest


@pytest.mark.parametrize("gain", [0.5, 30.0, 1e4])
def test_saturated_policies_stay_bounded(gain: float) -> None:
    """A move of length one changes the untrained policy's actions by no more than 1/√ridge on independent states."""
    rng = np.random.default_rng(2)
    states = rng.normal(size=(400, 3)) + np.array([0.0, 1.0, -2.0])
    policy = policy_of(gain * np.array([[1.0, -1.0, 0.5, 0.2], [0.3, 1.0, 1.0, -0.1]]))
    coordinates = CHART.at(policy, visits_of(states, policy))
    z = rng.normal(size=(300, 8))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    moves = (coordinates.to_parameters(z) - policy.parameters).reshape(-1, 2, 4)
    fresh = np.column_stack([rng.normal(size=(2000, 3)) + np.array([0.0, 1.0, -2.0]), np.ones(2000)])
    changes = np.sqrt(np.square(moves @ fresh.T).mean(axis=(1, 2)))
    assert np.isfinite(moves).all()
    assert changes.max() < 1.15 / np.sqrt(RIDGE)
    assert changes.max() > 0.1


def test_a_larger_ridge_bounds_more() -> None:
    rng = np.random.default_rng(3)
    states = rng.normal(size=(100, 3))
    policy = policy_of(1e3 * np.ones((2, 4)))
    sizes = []
    for ridge in (0.01, 0.1, 1.0):
        coordinates = ActionMetric(ridge).at(policy, visits_of(states, policy))
        sizes.append(np.linalg.norm(coordinates.to_parameters(np.eye(8)) - policy.parameters))
    assert sizes[0] > 2.0 * sizes[1] > 4.0 * sizes[2]
