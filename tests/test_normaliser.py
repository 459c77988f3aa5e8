"""Running statistics: exact under any split of the data, mergeable, stable far from zero."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from abps.errors import ShapeError
from abps.normaliser import STD_FLOOR, Normaliser
from abps.seeding import generator

DATA = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 4)),
    elements=st.floats(-1e3, 1e3, allow_subnormal=False),
)


def assert_same(first: Normaliser, second: Normaliser) -> None:
    assert first.count == second.count
    scale = 1.0 + np.abs(second.mean)
    np.testing.assert_allclose(first.mean / scale, second.mean / scale, atol=1e-12)
    # m2 of data of size 1e3 carries rounding of about 1e6 · n · eps, whatever the order of the additions.
    np.testing.assert_allclose(first.m2, second.m2, rtol=1e-10, atol=1e-7)


@given(data=DATA, cuts=st.lists(st.integers(0, 40), max_size=6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_split_gives_the_moments_of_the_whole(data, cuts):
    pieces = np.split(data, sorted(min(cut, len(data)) for cut in cuts))
    added = Normaliser.empty(data.shape[1])
    merged = Normaliser.empty(data.shape[1])
    for piece in pieces:
        added = added.add(piece)
        merged = Normaliser.empty(data.shape[1]).add(piece).merge(merged)
    whole = Normaliser(len(data), data.mean(axis=0), np.square(data - data.mean(axis=0)).sum(axis=0))
    assert_same(added, whole)
    assert_same(merged, whole)
    np.testing.assert_allclose(added.std, np.maximum(data.std(axis=0), STD_FLOOR), rtol=1e-6, atol=1e-5)


@given(data=DATA)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_rows_one_by_one_and_in_any_order(data):
    one_by_one = Normaliser.empty(data.shape[1])
    for row in data[::-1]:
        one_by_one = one_by_one.add(row[None])
    assert_same(one_by_one, Normaliser.empty(data.shape[1]).add(data))


def test_the_check_notices_a_lost_row_and_a_naive_merge():
    data = generator(0, "normaliser").standard_normal((20, 3))
    whole = Normaliser.empty(3).add(data)
    with pytest.raises(AssertionError):
        assert_same(Normaliser.empty(3).add(data[1:]), whole)
    first, second = Normaliser.empty(3).add(data[:5] + 1.0), Normaliser.empty(3).add(data[5:])
    # Adding the squared deviations without the distance of the two means loses variance.
    naive = Normaliser(20, first.merge(second).mean, first.m2 + second.m2)
    with pytest.raises(AssertionError):
        assert_same(naive, first.merge(second))


def test_stable_far_from_zero_where_the_textbook_formula_is_not():
    rows = 1e8 + generator(1, "normaliser").standard_normal((2000, 2))
    running = Normaliser.empty(2)
    for row in rows:
        running = running.add(row[None])
    np.testing.assert_allclose(running.std, rows.std(axis=0), rtol=1e-5)
    textbook = np.sqrt(np.abs(np.mean(rows**2, axis=0) - np.mean(rows, axis=0) ** 2))
    assert np.max(np.abs(textbook - rows.std(axis=0))) > 0.1


def test_apply_standardises_and_nothing_is_changed_in_place():
    data = 3.0 + 2.0 * generator(2, "normaliser").standard_normal((500, 2))
    empty = Normaliser.empty(2)
    full = empty.add(data)
    standard = full.apply(data)
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(standard.std(axis=0), 1.0, rtol=1e-12)
    assert empty.count == 0
    np.testing.assert_array_equal(empty.apply(data), data)
    assert full.add(np.zeros((0, 2))) is full


def test_a_sensor_that_never_moves_is_harmless():
    still = Normaliser.empty(1).add(np.full((10, 1), 7.0))
    assert still.std[0] == STD_FLOOR
    assert still.apply(np.array([7.0]))[0] == 0.0


def test_wrong_width_is_named():
    with pytest.raises(ShapeError, match=r"\(n, 2\), got \(3, 4\)"):
        Normaliser.empty(2).add(np.zeros((3, 4)))


@given(data=DATA, cut=st.integers(1, 40))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_widened_normaliser_keeps_its_mean_and_measures_all_deviations_from_it(data, cut):
    first, second = data[:cut], data[cut:]
    start = Normaliser.empty(data.shape[1]).add(first)
    widened = start.widen(Normaliser.empty(data.shape[1]).add(second))
    np.testing.assert_array_equal(widened.mean, start.mean)
    about = Normaliser(len(data), start.mean, np.square(data - first.mean(axis=0)).sum(axis=0))
    assert_same(widened, about)


def test_widening_is_no_merge_unless_there_was_nothing():
    data = generator(0, "normaliser").standard_normal((20, 3))
    near, far = Normaliser.empty(3).add(data[:10]), Normaliser.empty(3).add(data[10:] + 5.0)
    assert (near.widen(far).std > near.merge(far).std).all()
    assert_same(Normaliser.empty(3).widen(far), far)
    assert_same(near.widen(Normaliser.empty(3)), near)
