"""Scores, with their defined answers where the formula has none."""

import numpy as np
import pytest

from abps.critics.scores import r2, scores, worst_member
from abps.errors import ShapeError


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
    np.testing.assert_allclose(scores(1.0, advantages, returns), [1.0, float(r2(np.full(3, 2.0), returns))])


def test_worst_member():
    assert worst_member([0.5, 0.2, 0.9]) == 1
    assert worst_member([0.5, 0.2, 0.9], only_negative=True) is None
    assert worst_member([0.5, -0.2, -np.inf], only_negative=True) == 2
