"""Scores and weights, with their defined answers where the formula has none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abps.critics.scores import aggregate, r2, scores, worst_member
from abps.errors import ConfigError, ShapeError

numbers = st.floats(-1e3, 1e3)


def test_r2_is_the_share_of_explained_variance():
    returns = np.array([1.0, 2.0, 4.0, 5.0])
    assert r2(returns, returns) == 1.0
    assert r2(np.full(4, 3.0), returns) == 0.0
    assert r2(-returns, returns) < -10
    sklearn = pytest.importorskip("sklearn.metrics")
    guess = np.array([1.5, 1.0, 4.5, 4.0])
    assert r2(guess, returns) == pytest.approx(sklearn.r2_score(returns, guess))
    np.testing.assert_allclose(r2(np.stack([returns, guess]), returns), [1.0, sklearn.r2_score(returns, guess)])


def test_nothing_to_explain_scores_nothing():
    assert r2([3.0, 4.0], [2.0, 2.0]) == 0.0
    assert r2([3.0], [2.0]) == 0.0
    np.testing.assert_array_equal(r2([[0.1, 0.1, 0.1]], [0.1, 0.1, 0.1]), [0.0])
    np.testing.assert_array_equal(r2([[1.0, np.nan], [1.0, 2.0]], [1.0, 2.0]), [-np.inf, 1.0])
    assert r2([np.inf, 1.0], [2.0, 2.0]) == -np.inf
    with pytest.raises(ShapeError, match="last axis"):
        r2([1.0, 2.0, 3.0], [1.0, 2.0])


def test_scores_add_the_centre_return():
    returns, advantages = np.array([1.0, 2.0, 4.0]), np.array([[0.0, 1.0], [1.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(scores(1.0, advantages, returns), [1.0, r2(np.full(3, 2.0), returns)])


@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from(["softmax", "mean", "best", "single"]))
def test_weights_are_a_distribution(values, kind):
    weights = aggregate(kind, values)
    assert weights.shape == (len(values),)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0)


def test_weights_by_kind():
    values = np.array([0.5, 0.2, 0.9])
    np.testing.assert_allclose(aggregate("softmax", values), np.exp(values) / np.exp(values).sum())
    np.testing.assert_array_equal(aggregate("best", values), [0, 0, 1])
    np.testing.assert_array_equal(aggregate("single", values), [1, 0, 0])
    np.testing.assert_allclose(aggregate("mean", values), 1 / 3)
    np.testing.assert_array_equal(aggregate("softmax", [-np.inf, 0.3]), [0, 1])
    np.testing.assert_allclose(aggregate("softmax", [-np.inf, -np.inf]), 0.5)
    with pytest.raises(ConfigError, match="'evidence'"):
        aggregate("evidence", values)


def test_worst_member():
    assert worst_member([0.5, 0.2, 0.9]) == 1
    assert worst_member([0.5, 0.2, 0.9], only_negative=True) is None
    assert worst_member([0.5, -0.2, -np.inf], only_negative=True) == 2
