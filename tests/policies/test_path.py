"""Paths of parameters: linear between knots, at rest after the last."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abps.errors import ShapeError
from abps.policies.path import ParameterPath


@given(knots=st.integers(1, 5), interval=st.integers(1, 7), step=st.integers(0, 60))
def test_parameters_are_interpolated_linearly(knots, interval, step):
    path = ParameterPath(np.random.default_rng(0).normal(size=(knots, 3)), interval)
    expected = [np.interp(step, interval * np.arange(knots), column) for column in path.knots.T]
    np.testing.assert_allclose(path.at(step), expected, rtol=1e-12, atol=1e-14)
    if step >= interval * (knots - 1):
        np.testing.assert_allclose(path.at(step), path.knots[-1])


@pytest.mark.parametrize(
    ("knots", "interval", "message"),
    [
        (np.zeros(3), 1, "knots have shape"),
        (np.zeros((0, 3)), 1, "at least one knot"),
        (np.full((2, 3), np.nan), 1, "finite"),
        (np.zeros((2, 3)), 0, "at least one step"),
    ],
)
def test_mistakes_are_named(knots, interval, message):
    with pytest.raises(ShapeError, match=message):
        ParameterPath(knots, interval)
