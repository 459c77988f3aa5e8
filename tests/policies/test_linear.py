"""Every policy class: parameters ↔ actions, derivatives, metric, the control loop, re-mapping.

Covers `linear`, `base`, and `PolicySpace` of `policy`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_policy import ByContract

from abps.errors import ShapeError
from abps.normaliser import Normaliser
from abps.policies import Policy, PolicyClass, PolicySpace
from abps.policies.base import FastControl, Layered
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.seeding import generator
from abps.tasks.spec import TaskSpec

CLASSES = [LinearTanh(), ClippedLinear(), LinearTanh(bias=True), ClippedLinear(bias=True)]
SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))
CENTRE, HALF = np.array([-1.0, 2.5]), np.array([2.0, 2.5])

every = pytest.mark.parametrize("policy_class", CLASSES, ids=repr)
unbiased = pytest.mark.parametrize("policy_class", CLASSES[:2], ids=repr)


def draw(seed: int, policy_class: PolicyClass, points: int = 7):
    """A space, random parameters, observations and a normaliser that has seen shifted and scaled data."""
    rng = generator(seed, "test-policies")
    normaliser = Normaliser.empty(3).add(5.0 + np.array([0.1, 1.0, 10.0]) * rng.standard_normal((50, 3)))
    observations = normaliser.mean + normaliser.std * rng.standard_normal((points, 3))
    space = PolicySpace(policy_class, SPEC)
    return rng, space, 0.5 * rng.standard_normal(space.size), observations, normaliser


@every
def test_linear_classes_act_fast_and_can_be_exported(policy_class):
    assert isinstance(policy_class, FastControl)
    assert isinstance(policy_class, Layered)


@every
def test_parameters_are_the_rows_of_the_weight_matrix(policy_class):
    _, space, parameters, observations, normaliser = draw(0, policy_class)
    rows = parameters.reshape(2, -1)
    inner = ((observations - normaliser.mean) / normaliser.std) @ rows[:, :3].T
    if policy_class.bias:
        inner = inner + rows[:, 3]
    expected = {
        LinearTanh: CENTRE + HALF * np.tanh(inner),
        ClippedLinear: np.clip(CENTRE + inner, [-3.0, 0.0], [1.0, 5.0]),
    }[type(policy_class)]
    assert space.size == (8 if policy_class.bias else 6)
    np.testing.assert_array_equal(space.initial(), np.zeros(space.size))
    np.testing.assert_allclose(space.actions(parameters, observations, normaliser), expected, rtol=1e-14)
    swapped = parameters.reshape(-1, 2).T.reshape(-1)
    assert not np.allclose(space.actions(swapped, observations, normaliser), expected)


@every
def test_zero_parameters_act_at_the_centre_and_bounds_are_never_left(policy_class):
    _, space, parameters, observations, normaliser = draw(1, policy_class)
    np.testing.assert_allclose(space.actions(space.initial(), observations, normaliser), np.tile(CENTRE, (7, 1)))
    wild = space.actions(1e6 * parameters, observations, normaliser)
    assert np.all((wild >= SPEC.action_low) & (wild <= SPEC.action_high))


def test_clipped_linear_with_symmetric_bounds_is_linear():
    spec = TaskSpec("linear", 3, 2, (-100.0, -100.0), (100.0, 100.0))
    _, _, parameters, observations, _ = draw(2, ClippedLinear())
    actions = PolicySpace(ClippedLinear(), spec).actions(parameters, observations, Normaliser.empty(3))
    np.testing.assert_allclose(actions, observations @ parameters.reshape(2, 3).T)


def jacobian(space, parameters, observations, normaliser, step=1e-6):
    """∂π(s_m)/∂parameters (m, a, d) by central differences."""
    shifts = step * np.eye(space.size)
    ups, downs = (
        np.stack([space.actions(parameters + sign * shift, observations, normaliser) for shift in shifts], axis=-1)
        for sign in (1, -1)
    )
    return (ups - downs) / (2 * step)


@every
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 4.0]))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_pullback_agrees_with_finite_differences(policy_class, seed, scale):
    rng, space, parameters, observations, normaliser = draw(seed, policy_class)
    parameters = scale * parameters
    cotangents = rng.standard_normal((4, 7, 2))
    pulled = space.pullback(parameters, observations, normaliser, cotangents)
    assert pulled.shape == (4, space.size)
    slopes = jacobian(space, parameters, observations, normaliser)
    for row, cotangent in zip(pulled, cotangents, strict=True):
        np.testing.assert_allclose(row, np.einsum("ma,mad->d", cotangent, slopes), atol=1e-6)
        single = space.pullback(parameters, observations, normaliser, cotangent)
        np.testing.assert_allclose(single, row, rtol=1e-12, atol=1e-12)


@unbiased
def test_finite_differences_notice_a_forgotten_slope(policy_class):
    """Negative control: a pullback that ignores tanh or the bounds is plain wrong at large parameters."""
    rng, space, parameters, observations, normaliser = draw(3, policy_class)
    cotangents = rng.standard_normal((7, 2))
    forgetful = (cotangents.T @ normaliser.apply(observations)).reshape(-1)
    slopes = jacobian(space, 4 * parameters, observations, normaliser)
    assert np.max(np.abs(forgetful - np.einsum("ma,mad->d", cotangents, slopes))) > 0.1


@every
@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_the_metric_is_that_of_finite_differences(policy_class, scale):
    """F = Σ w (∂π/∂x)ᵀ diag(1/half²) (∂π/∂x) / a with weights that add up to one, block by block."""
    rng, space, parameters, observations, normaliser = draw(4, policy_class, points=30)
    weights = rng.uniform(0.1, 1.0, 30)
    slopes = jacobian(space, scale * parameters, observations, normaliser)
    expected = np.einsum("m,mad,mae->de", weights / weights.sum(), slopes / HALF[:, None] ** 2, slopes) / 2
    blocks = space.metric(scale * parameters, observations, normaliser, weights)
    p = space.size // len(blocks)
    found = np.zeros((space.size, space.size))
    for number, block in enumerate(blocks):
        found[number * p : (number + 1) * p, number * p : (number + 1) * p] = block
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(blocks, space.metric(scale * parameters, observations, normaliser, 7.0 * weights))
    assert np.abs(found - expected * 2).max() > 1e-3  # not divided by the number of actions
    even = space.metric(scale * parameters, observations, normaliser, np.ones(30))
    assert np.abs(even - blocks).max() > 1e-4  # the weights count


@every
def test_many_policies_act_as_each_of_them(policy_class):
    rng, space, _, observations, normaliser = draw(5, policy_class)
    many = rng.standard_normal((4, space.size))
    one_by_one = [space.actions(parameters, observations, normaliser) for parameters in many]
    np.testing.assert_array_equal(space.actions(many, observations, normaliser), one_by_one)
    with pytest.raises(ShapeError, match=f"this policy has {space.size}"):
        space.actions(many[:, :5], observations, normaliser)


@every
def test_controller_and_policy_act_as_the_class_says(policy_class):
    _, space, parameters, observations, normaliser = draw(4, policy_class, points=40)
    expected = space.actions(3 * parameters, observations, normaliser)
    act = policy_class.controller(SPEC, 3 * parameters, normaliser)
    policy = Policy(space, 3 * parameters, normaliser)
    np.testing.assert_array_equal(policy(observations), expected)
    for observation, action in zip(observations, expected, strict=True):
        np.testing.assert_allclose(act(observation), action, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(policy(observation), act(observation))


def test_a_class_without_a_fast_controller_acts_through_the_batch():
    _, _, parameters, observations, normaliser = draw(6, LinearTanh())
    slow, fast = (
        Policy(PolicySpace(kind, SPEC), parameters, normaliser) for kind in (ByContract(LinearTanh()), LinearTanh())
    )
    assert not isinstance(slow.space.policy_class, FastControl)
    for observation in observations:
        np.testing.assert_allclose(slow(observation), fast(observation), rtol=1e-11, atol=1e-11)
        assert slow(observation).shape == (2,)


# ---- re-mapping ------------------------------------------------------------------------------------------------------


@every
def test_remapping_keeps_the_gains_of_sensors_that_moved_and_the_weights_of_those_that_had_not(policy_class):
    rng, space, parameters, _, _ = draw(5, policy_class)
    data = rng.standard_normal((30, 3)) * [0.5, 0.0, 2.0] + [1.0, 7.0, 0.0]
    old = Normaliser.empty(3).add(data)
    new = old.widen(Normaliser.empty(3).add(3.0 * data + rng.standard_normal(data.shape)))
    weights = lambda given: policy_class.to_arrays(SPEC, given)["weights"]  # noqa: E731
    before, after = weights(parameters), weights(space.remapped(parameters, old, new))
    np.testing.assert_allclose(after[:, [0, 2]] / new.std[[0, 2]], before[:, [0, 2]] / old.std[[0, 2]])
    assert not np.allclose(after[:, [0, 2]], before[:, [0, 2]])
    np.testing.assert_array_equal(after[:, 1], before[:, 1])  # Its std grew from nothing, by a factor of a million.
    assert new.std[1] > 1e5 * old.std[1]


@every
def test_remapping_keeps_every_action_where_the_mean_stays_or_there_is_a_bias(policy_class):
    """Without a bias, slopes against raw observations survive; the offset, which the class cannot express, may move."""
    rng, space, parameters, observations, old = draw(5, policy_class)
    new = old.add(3.0 * rng.standard_normal((30, 3)))
    same_mean = Normaliser(new.count, old.mean, new.m2)
    before = space.actions(parameters, observations, old)
    moved = space.remapped(parameters, old, same_mean)
    np.testing.assert_allclose(space.actions(moved, observations, same_mean), before, rtol=1e-10)
    assert not np.allclose(space.actions(parameters, observations, same_mean), before)
    np.testing.assert_allclose(space.remapped(moved, same_mean, old), parameters, rtol=1e-12)
    shifted = space.actions(space.remapped(parameters, old, new), observations, new)
    assert np.allclose(shifted, before, rtol=1e-10) == policy_class.bias


def test_remapping_leaves_classes_without_weights_alone():
    class Other(LinearTanh):
        def to_arrays(self, spec, parameters):
            return {"something": parameters}

    space, old = PolicySpace(Other(), SPEC), Normaliser(5, np.zeros(3), np.full(3, 20.0))
    np.testing.assert_array_equal(space.remapped(np.arange(6.0), old, Normaliser.empty(3)), np.arange(6.0))


# ---- arrays ----------------------------------------------------------------------------------------------------------


@every
def test_arrays_round_trip_and_wrong_ones_are_named(policy_class):
    _, _, parameters, _, _ = draw(7, policy_class)
    arrays = policy_class.to_arrays(SPEC, parameters)
    assert set(arrays) == ({"weights", "bias"} if policy_class.bias else {"weights"})
    np.testing.assert_array_equal(policy_class.from_arrays(SPEC, arrays), parameters)
    with pytest.raises(ShapeError, match=r"weights has shape \(3, 2\)"):
        policy_class.from_arrays(SPEC, {**arrays, "weights": np.zeros((3, 2))})
    if policy_class.bias:
        with pytest.raises(ShapeError, match=r"bias has shape \(3,\)"):
            policy_class.from_arrays(SPEC, {**arrays, "bias": np.zeros(3)})


@unbiased
def test_wrong_size_is_named(policy_class):
    with pytest.raises(ShapeError, match=r"shape \(5,\).*6 \(2 actions × 3 features"):
        policy_class.controller(SPEC, np.zeros(5), Normaliser.empty(3))
