"""The network policy: unit by unit by hand, its start, its dense metric, and the output layer alone."""

import math

import numpy as np
import pytest

from abps.errors import ConfigError, ShapeError
from abps.policies import mlp
from abps.policies.mlp import Mlp
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))
CENTRE, HALF = np.array([-1.0, 2.5]), np.array([2.0, 2.5])
CLASSES = [Mlp(hidden=(4,)), Mlp(hidden=(5, 3), seed=2), Mlp(hidden=(4, 3), output_only=True)]
every = pytest.mark.parametrize("policy_class", CLASSES, ids=repr)


def by_hand(policy_class, parameters, state):
    """One action, unit by unit."""
    arrays, values = policy_class.to_arrays(SPEC, parameters), list(state)
    names = [f"hidden_{number}" for number in range(1, len(policy_class.hidden) + 1)]
    for name in [*names, "output"]:
        weights, bias = arrays[f"{name}_weights"], arrays[f"{name}_bias"]
        values = [
            math.tanh(sum(w * v for w, v in zip(row, values, strict=True)) + b)
            for row, b in zip(weights, bias, strict=True)
        ]
    return CENTRE + HALF * np.array(values)


@every
def test_actions_are_those_of_the_network(policy_class):
    rng = np.random.default_rng(0)
    parameters = policy_class.initial(SPEC) + rng.normal(size=policy_class.initial(SPEC).size)
    inputs = rng.normal(scale=2.0, size=(9, 3))
    expected = [by_hand(policy_class, parameters, state) for state in inputs]
    np.testing.assert_allclose(policy_class.actions(SPEC, parameters, inputs), expected, rtol=1e-12)
    many = policy_class.actions(SPEC, np.stack([0.5 * parameters, parameters]), inputs)
    np.testing.assert_allclose(many[1], expected, rtol=1e-12)
    assert np.abs(many[0] - many[1]).max() > 0.1


def test_sizes_are_those_of_the_layers():
    assert Mlp(hidden=(4,)).initial(SPEC).size == 4 * (3 + 1) + 2 * (4 + 1)
    assert Mlp(hidden=(5, 3)).initial(SPEC).size == 5 * 4 + 3 * 6 + 2 * 4
    assert Mlp(hidden=(5, 3), output_only=True).initial(SPEC).size == 2 * 4
    with pytest.raises(ShapeError, match=r"this policy has 26 \(layers of 3, 4, 2\)"):
        Mlp(hidden=(4,)).actions(SPEC, np.zeros(25), np.zeros((1, 3)))
    with pytest.raises(ConfigError, match="hidden must be"):
        Mlp(hidden=())


def test_the_start_is_no_saddle_but_zero_parameters_are():
    """From zero parameters only the output's bias has a slope; from the start, all of the output layer."""
    policy_class, rng = Mlp(hidden=(4,)), np.random.default_rng(1)
    inputs, cotangents = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    start = policy_class.initial(SPEC)
    np.testing.assert_allclose(policy_class.actions(SPEC, start, inputs), np.tile(CENTRE, (20, 1)))
    pulled = policy_class.pullback(SPEC, start, inputs, cotangents)
    assert (np.abs(pulled[-10:]) > 1e-3).all()
    stuck = policy_class.pullback(SPEC, np.zeros_like(start), inputs, cotangents)
    assert np.flatnonzero(stuck).tolist() == [20, 25]  # The biases of the two outputs.


def test_the_metric_is_dense_and_the_same_in_any_portions(monkeypatch):
    policy_class, rng = Mlp(hidden=(4,)), np.random.default_rng(2)
    parameters = policy_class.initial(SPEC) + 0.5 * rng.normal(size=26)
    inputs, weights = rng.normal(size=(50, 3)), rng.uniform(size=50)
    whole, prior = policy_class.metric(SPEC, parameters, inputs, weights), None
    assert whole.shape == (1, 26, 26)
    assert np.abs(whole[0, :16, 16:]).max() > 1e-3  # Hidden and output parameters are not independent.
    prior = policy_class.prior_metric(SPEC, inputs, weights)
    monkeypatch.setattr(mlp, "NUMBERS", 150)
    np.testing.assert_allclose(policy_class.metric(SPEC, parameters, inputs, weights), whole, rtol=1e-12)
    np.testing.assert_allclose(policy_class.prior_metric(SPEC, inputs, weights), prior, rtol=1e-12)


@every
def test_beforehand_every_parameter_has_a_length_though_at_the_start_some_have_none(policy_class):
    rng = np.random.default_rng(3)
    inputs, weights = rng.normal(size=(60, 3)), np.full(60, 1 / 60)
    prior = np.einsum("bii->bi", policy_class.prior_metric(SPEC, inputs, weights)).ravel()
    assert prior.min() > 1e-4
    start = policy_class.metric(SPEC, policy_class.initial(SPEC), inputs, weights)
    without = np.einsum("bii->bi", start).ravel() == 0.0
    assert without.any() == (not policy_class.output_only)


def test_the_output_layer_alone_is_the_last_part_of_the_whole():
    rng, whole, last = np.random.default_rng(4), Mlp(hidden=(4, 3)), Mlp(hidden=(4, 3), output_only=True)
    output, inputs, weights = rng.normal(size=8), rng.normal(size=(30, 3)), np.full(30, 1 / 30)
    parameters = np.concatenate([whole.initial(SPEC)[:-8], output])
    cotangents = rng.normal(size=(5, 30, 2))
    np.testing.assert_allclose(last.actions(SPEC, output, inputs), whole.actions(SPEC, parameters, inputs))
    pulled = whole.pullback(SPEC, parameters, inputs, cotangents)
    np.testing.assert_allclose(last.pullback(SPEC, output, inputs, cotangents), pulled[:, -8:])
    blocks, dense = last.metric(SPEC, output, inputs, weights), whole.metric(SPEC, parameters, inputs, weights)[0]
    for place in (0, 1):
        part = slice(len(dense) - 8 + 4 * place, len(dense) - 4 + 4 * place)
        np.testing.assert_allclose(blocks[place], dense[part, part])


def test_files_hold_all_layers_and_drawn_ones_are_compared():
    rng, last = np.random.default_rng(5), Mlp(hidden=(4,), output_only=True)
    arrays = last.to_arrays(SPEC, rng.normal(size=10))
    changed = {**arrays, "hidden_1_bias": arrays["hidden_1_bias"] + 0.01}
    with pytest.raises(ConfigError, match="hidden_1_bias are not those"):
        last.from_arrays(SPEC, changed)
    Mlp(hidden=(4,)).from_arrays(SPEC, changed)  # There they are parameters.
    with pytest.raises(ShapeError, match="output_weights has shape"):
        Mlp(hidden=(5,)).from_arrays(SPEC, arrays)
