"""The window of points: what it keeps, and that it is saved bit for bit."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.data.visits import Visits
from abps.data.window import KEPT, Point, added
from abps.normaliser import Normaliser
from abps.state import restore, save

SIZE = 6
PLAIN = Normaliser.empty(3)


def point(number: float, role: str = "probe", returns=(0.0,), normaliser: Normaliser = PLAIN, visits=None) -> Point:
    return Point(np.full(SIZE, float(number)), normaliser, np.array(returns, dtype=float), role, 0, visits)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(capacity=st.integers(1, 6), roles=st.lists(st.booleans(), max_size=14))
def test_keeps_the_newest_points_and_always_the_newest_centre(capacity, roles):
    window: list[Point] = []
    for number, is_centre in enumerate(roles):
        before = list(window)
        grown = added(window, point(number, "centre" if is_centre else "probe"), capacity)
        assert window == before  # A new list: nothing is changed in place.
        window = grown
    newest = max((n for n, is_centre in enumerate(roles) if is_centre), default=None)
    expected = list(range(len(roles)))[-capacity:]
    if newest is not None and newest not in expected:
        expected = [newest, *expected[1:]]
    assert [item.parameters[0] for item in window] == expected
    assert len(window) == min(capacity, len(roles))


def test_the_value_is_the_mean_return():
    assert [point(0, returns=returns).value for returns in ((1.0, 3.0), (5.0,), (2.0, 2.0, 8.0))] == [2.0, 5.0, 4.0]


@dataclass
class Memory:
    window: list[Point] = field(default_factory=list)


def test_points_are_saved_and_restored_bit_for_bit():
    rng = np.random.default_rng(1)
    old = Normaliser(50, rng.normal(size=3), rng.uniform(1.0, 90.0, 3))
    visits = Visits(
        rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32), rng.random(4)
    )
    memory = Memory([Point(rng.normal(size=SIZE), old, rng.normal(size=2), "centre", 3, visits), point(1.0)])
    other = restore(Memory(), save(memory))
    for mine, theirs in zip(memory.window, other.window, strict=True):
        assert (mine.role, mine.iteration) == (theirs.role, theirs.iteration)
        assert mine.parameters.tobytes() == theirs.parameters.tobytes()
        assert mine.parameters is not theirs.parameters
        assert mine.returns.tobytes() == theirs.returns.tobytes()
        assert mine.normaliser.m2.tobytes() == theirs.normaliser.m2.tobytes()
    assert other.window[1].visits is None
    loaded = other.window[0].visits
    assert loaded is not None
    assert loaded.weights.tobytes() == visits.weights.tobytes()
    assert loaded.states.dtype == np.float32


def test_the_believed_policy_stays_in_the_window() -> None:
    """Its newest points never leave, whatever else comes; without the belief they do: the control."""
    believed = np.full(SIZE, 7.0)
    for keep in (believed, None):
        window: list[Point] = []
        for _ in range(KEPT + 2):
            window = added(window, point(7, "path"), 10, keep)
        for number in range(100, 130):
            window = added(window, point(number, "probe" if number % 2 else "path"), 10, keep)
        same = [item for item in window if np.array_equal(item.parameters, believed)]
        assert len(window) == 10
        assert len(same) == (KEPT if keep is not None else 0)
        assert any(item.role == "path" and item.parameters[0] >= 100 for item in window)
