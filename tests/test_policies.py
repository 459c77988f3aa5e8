"""Every policy class: parameters ↔ actions, derivatives, the control loop, files."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies import POLICY_CLASSES, Policy, load_policy, policy_class
from abps.seeding import generator
from abps.tasks.spec import TaskSpec

KINDS = sorted(POLICY_CLASSES)
SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))
CENTRE = np.array([-1.0, 2.5])


def draw(seed: int, points: int = 7):
    """Random parameters, observations and a normaliser that has seen shifted and scaled data."""
    rng = generator(seed, "test-policies")
    normaliser = Normaliser.empty(3).add(5.0 + np.array([0.1, 1.0, 10.0]) * rng.standard_normal((50, 3)))
    observations = normaliser.mean + normaliser.std * rng.standard_normal((points, 3))
    return rng, 0.5 * rng.standard_normal(6), observations, normaliser


def test_the_registry_names_the_classes():
    assert set(KINDS) == {"linear-tanh", "direct"}
    for kind in KINDS:
        assert POLICY_CLASSES[kind].kind == kind
        assert isinstance(policy_class(replace(SPEC, policy=kind)), POLICY_CLASSES[kind])
    with pytest.raises(ConfigError, match="linear-tanh"):
        policy_class(replace(SPEC, policy="quadratic"))


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_the_rows_of_the_weight_matrix(kind):
    policies = POLICY_CLASSES[kind](SPEC)
    _, parameters, observations, normaliser = draw(0)
    inner = ((observations - normaliser.mean) / normaliser.std) @ np.array([parameters[:3], parameters[3:]]).T
    expected = {
        "linear-tanh": CENTRE + np.array([2.0, 2.5]) * np.tanh(inner),
        "direct": np.clip(CENTRE + inner, [-3.0, 0.0], [1.0, 5.0]),
    }[kind]
    assert policies.size == 6
    np.testing.assert_allclose(policies.actions(parameters, observations, normaliser), expected, rtol=1e-14)
    swapped = parameters.reshape(3, 2).T.reshape(-1)
    assert not np.allclose(policies.actions(swapped, observations, normaliser), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_parameters_act_at_the_centre_and_bounds_are_never_left(kind):
    policies = POLICY_CLASSES[kind](SPEC)
    _, parameters, observations, normaliser = draw(1)
    np.testing.assert_allclose(policies.actions(np.zeros(6), observations, normaliser), np.tile(CENTRE, (7, 1)))
    wild = policies.actions(1e6 * parameters, observations, normaliser)
    assert np.all((wild >= SPEC.action_low) & (wild <= SPEC.action_high))


def test_direct_with_symmetric_bounds_is_linear():
    spec = TaskSpec("linear", 3, 2, (-100.0, -100.0), (100.0, 100.0))
    _, parameters, observations, _ = draw(2)
    actions = POLICY_CLASSES["direct"](spec).actions(parameters, observations, Normaliser.empty(3))
    np.testing.assert_allclose(actions, observations @ parameters.reshape(2, 3).T)


def numeric_pullback(policies, parameters, observations, normaliser, cotangents, step=1e-6):
    slope = np.zeros(6)
    for i in range(6):
        shift = np.zeros(6)
        shift[i] = step
        up, down = (policies.actions(parameters + sign * shift, observations, normaliser) for sign in (1, -1))
        slope[i] = np.sum(cotangents * (up - down)) / (2 * step)
    return slope


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 4.0]))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_pullback_agrees_with_finite_differences(kind, seed, scale):
    policies = POLICY_CLASSES[kind](SPEC)
    rng, parameters, observations, normaliser = draw(seed)
    parameters = scale * parameters
    cotangents = rng.standard_normal((4, 7, 2))
    pulled = policies.pullback(parameters, observations, normaliser, cotangents)
    assert pulled.shape == (4, 6)
    for row, cotangent in zip(pulled, cotangents, strict=True):
        np.testing.assert_allclose(
            row, numeric_pullback(policies, parameters, observations, normaliser, cotangent), atol=1e-6
        )
        single = policies.pullback(parameters, observations, normaliser, cotangent)
        np.testing.assert_allclose(single, row, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_finite_differences_notice_a_forgotten_slope(kind):
    """Negative control: a pullback that ignores tanh or the bounds is plain wrong at large parameters."""
    policies = POLICY_CLASSES[kind](SPEC)
    rng, parameters, observations, normaliser = draw(3)
    cotangents = rng.standard_normal((7, 2))
    forgetful = (cotangents.T @ normaliser.apply(observations)).reshape(-1)
    numeric = numeric_pullback(policies, 4 * parameters, observations, normaliser, cotangents)
    assert np.max(np.abs(forgetful - numeric)) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_rescaling_keeps_the_gains_of_sensors_that_moved_and_the_weights_of_those_that_had_not(kind):
    policies = POLICY_CLASSES[kind](SPEC)
    rng, parameters, _, _ = draw(5)
    data = rng.standard_normal((30, 3)) * [0.5, 0.0, 2.0] + [1.0, 7.0, 0.0]
    old = Normaliser.empty(3).add(data)
    new = old.widen(Normaliser.empty(3).add(3.0 * data + rng.standard_normal(data.shape)))
    before, after = policies.matrix(parameters), policies.matrix(policies.rescaled(parameters, old, new))
    np.testing.assert_allclose(after[:, [0, 2]] / new.std[[0, 2]], before[:, [0, 2]] / old.std[[0, 2]])
    assert not np.allclose(after[:, [0, 2]], before[:, [0, 2]])
    np.testing.assert_array_equal(after[:, 1], before[:, 1])  # Its std grew from nothing, by a factor of a million.
    assert new.std[1] > 1e5 * old.std[1]


@pytest.mark.parametrize("kind", KINDS)
def test_many_policies_act_as_each_of_them(kind):
    policies = POLICY_CLASSES[kind](SPEC)
    rng, _, observations, normaliser = draw(5)
    many = rng.standard_normal((4, 6))
    one_by_one = [policies.actions(parameters, observations, normaliser) for parameters in many]
    np.testing.assert_array_equal(policies.actions(many, observations, normaliser), one_by_one)
    with pytest.raises(ShapeError, match="this policy has 6"):
        policies.actions(many[:, :5], observations, normaliser)


@pytest.mark.parametrize("kind", KINDS)
def test_controller_and_policy_act_as_the_class_says(kind):
    policies = POLICY_CLASSES[kind](SPEC)
    _, parameters, observations, normaliser = draw(4, points=40)
    expected = policies.actions(3 * parameters, observations, normaliser)
    act = policies.controller(3 * parameters, normaliser)
    policy = Policy(replace(SPEC, policy=kind), 3 * parameters, normaliser)
    for observation, action in zip(observations, expected, strict=True):
        np.testing.assert_allclose(act(observation), action, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(policy(observation), act(observation))


@pytest.mark.parametrize("kind", KINDS)
def test_rescaled_keeps_the_gain_on_raw_observations(kind):
    """Slopes against raw observations survive; only the offset, which the class cannot express, may move."""
    policies = POLICY_CLASSES[kind](SPEC)
    rng, parameters, observations, old = draw(5)
    new = old.add(3.0 * rng.standard_normal((30, 3)))
    same_mean = Normaliser(new.count, old.mean, new.m2)
    moved = policies.rescaled(parameters, old, same_mean)
    np.testing.assert_allclose(
        policies.actions(moved, observations, same_mean), policies.actions(parameters, observations, old), rtol=1e-10
    )
    assert not np.allclose(
        policies.actions(parameters, observations, same_mean), policies.actions(parameters, observations, old)
    )
    np.testing.assert_allclose(policies.rescaled(moved, same_mean, old), parameters, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_size_is_named(kind):
    with pytest.raises(ShapeError, match=r"shape \(5,\).*6 \(2 actions × 3 observations\)"):
        POLICY_CLASSES[kind](SPEC).controller(np.zeros(5), Normaliser.empty(3))


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load_round_trip(kind, tmp_path):
    _, parameters, observations, normaliser = draw(6)
    policy = Policy(replace(SPEC, policy=kind), parameters, normaliser)
    policy.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    assert (loaded.spec.policy, loaded.spec.name) == (kind, "toy")
    assert (loaded.spec.action_low, loaded.spec.action_high) == (SPEC.action_low, SPEC.action_high)
    for ours, theirs in (
        (parameters, loaded.parameters),
        (normaliser.mean, loaded.normaliser.mean),
        (normaliser.m2, loaded.normaliser.m2),
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.normaliser.count == normaliser.count
    for observation in observations:
        np.testing.assert_array_equal(policy(observation), loaded(observation))


def test_foreign_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no policy file"):
        load_policy(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ConfigError, match="not a policy file"):
        load_policy(tmp_path / "text.npz")
    _, parameters, _, normaliser = draw(7)
    Policy(SPEC, parameters, normaliser).save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as stored:
        good = dict(stored)
    damages = {
        "kind": np.array("evil"),
        "weights": np.full((2, 3), np.nan),
        "observation_mean": np.zeros(4),
        "action_low": np.zeros(3),
        "action_high": np.array([-9.0, 9.0]),
        "task": np.array([{"pickled": "object"}], dtype=object),
    }
    for name, damage in damages.items():
        np.savez(tmp_path / "bad.npz", **{**good, name: damage})
        with pytest.raises(ConfigError, match="not a policy file"):
            load_policy(tmp_path / "bad.npz")
