"""Every kind of aggregation: its weights, and the mean function made of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abps.errors import ConfigError
from abps.model.aggregation import Aggregation, Best, Marginal, Mean, Single, Softmax
from abps.registry import KINDS, find

FIXED = [Softmax(), Mean(), Best(), Single()]
VALUES = np.array([0.5, 0.2, 0.9])


def test_all_registered_kinds_are_looked_at():
    kinds = {find("aggregation", kind) for kind in KINDS["aggregation"]}
    assert kinds == {Softmax, Mean, Best, Single, Marginal}
    assert all(issubclass(kind, Aggregation) for kind in kinds)


@pytest.mark.parametrize("aggregation", FIXED, ids=lambda part: type(part).__name__)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8))
def test_weights_are_a_distribution(aggregation, values):
    weights = aggregation.weights(np.array(values))
    assert weights.shape == (len(values),)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0)


def test_weights_by_kind():
    np.testing.assert_allclose(Softmax().weights(VALUES), np.exp(VALUES) / np.exp(VALUES).sum())
    np.testing.assert_array_equal(Best().weights(VALUES), [0, 0, 1])
    np.testing.assert_array_equal(Single().weights(VALUES), [1, 0, 0])
    np.testing.assert_allclose(Mean().weights(VALUES), 1 / 3)
    np.testing.assert_allclose(Marginal(total=0.6).weights(VALUES), 0.2)
    np.testing.assert_array_equal(Softmax().weights(np.array([-np.inf, 0.3])), [0, 1])
    for aggregation in (Softmax(), Best()):
        np.testing.assert_allclose(aggregation.weights(np.array([-np.inf, -np.inf])), 0.5)


def arrays():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), np.array([0.2, 0.3, 0.5])


@pytest.mark.parametrize("aggregation", FIXED, ids=lambda part: type(part).__name__)
def test_fixed_weights_give_one_mean_function(aggregation):
    features, gradients, weights = arrays()
    prior = aggregation.prior_mean(0.7, features, gradients, weights)
    expected = [0.7 + sum(w * f for w, f in zip(weights, row, strict=True)) for row in features]
    np.testing.assert_allclose(prior.at_points, expected)
    np.testing.assert_allclose(prior.gradient, [sum(weights * row) for row in gradients])
    assert (prior.at_theta, prior.features, prior.mean_bound) == (0.7, None, None)
    assert not np.allclose(aggregation.prior_mean(0.7, features, gradients, weights[::-1]).at_points, expected)


def test_marginal_leaves_the_weights_to_the_process():
    features, gradients, weights = arrays()
    prior = Marginal(total=0.6, scale_low=0.01, scale_high=2.0).prior_mean(0.7, features, gradients, weights)
    np.testing.assert_array_equal(prior.at_points, np.full(5, 0.7))
    np.testing.assert_array_equal(prior.gradient, np.zeros(4))
    assert prior.features is not None
    np.testing.assert_array_equal(prior.features.values, features)
    np.testing.assert_array_equal(prior.features.gradient, gradients)
    assert prior.features.prior == pytest.approx(0.2)
    assert prior.feature_scale == (0.01, 2.0)
    with pytest.raises(ConfigError, match="scale_low"):
        Marginal(scale_low=1.0, scale_high=0.5)
