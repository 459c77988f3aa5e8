"""The window of points: what it keeps, and that re-mapped points keep their meaning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.data.visits import Visits
from abps.data.window import Point, Window
from abps.normaliser import Normaliser
from abps.policies import policy_class
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 3, 2, (-1.0, -2.0), (1.0, 0.5))
POLICIES = policy_class(SPEC)
PLAIN = Normaliser.empty(3)


def point(number: float, role: str = "probe", returns=(0.0,), normaliser: Normaliser = PLAIN, visits=None) -> Point:
    return Point(np.full(POLICIES.size, float(number)), normaliser, np.array(returns, dtype=float), role, 0, visits)


def numbers(window: Window) -> list[float]:
    return [item.parameters[0] for item in window.points]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(capacity=st.integers(1, 6), roles=st.lists(st.booleans(), max_size=14))
def test_keeps_the_newest_points_and_always_the_newest_centre(capacity, roles):
    window = Window(capacity, POLICIES, remap=False)
    for number, is_centre in enumerate(roles):
        window.add(point(number, "centre" if is_centre else "probe"))
    newest = max((n for n, is_centre in enumerate(roles) if is_centre), default=None)
    expected = list(range(len(roles)))[-capacity:]
    if newest is not None and newest not in expected:
        expected = [newest, *expected[1:]]
    assert numbers(window) == expected
    assert len(window) == min(capacity, len(roles))


def test_values_counts_and_repeats():
    window = Window(5, POLICIES, remap=False)
    for item in (point(0, "centre", (1.0, 3.0)), point(1, returns=(5.0,)), point(2, "centre", (2.0, 2.0, 8.0))):
        window.add(item)
    assert window.values().tolist() == [2.0, 5.0, 4.0]
    assert window.counts().tolist() == [2.0, 1.0, 3.0]
    assert [part.tolist() for part in window.repeated()] == [[1.0, 3.0], [2.0, 2.0, 8.0]]


def normalisers(rng: np.random.Generator, *, same_mean: bool) -> tuple[Normaliser, Normaliser]:
    first, second = (Normaliser(50, rng.normal(size=3), rng.uniform(1.0, 90.0, 3)) for _ in range(2))
    return first, Normaliser(80, first.mean, second.m2) if same_mean else second


@pytest.mark.parametrize("seed", range(5))
def test_remapped_points_keep_their_meaning(seed):
    """Without a bias only the slope can be carried over: equal means give equal actions, others a constant shift before tanh."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(40, 3))
    for same_mean in (True, False):
        old, new = normalisers(rng, same_mean=same_mean)
        tried = Point(0.1 * rng.normal(size=POLICIES.size), old, np.ones(1), "probe", 0)
        before = POLICIES.actions(tried.parameters, states, old)
        for remap in (True, False):
            window = Window(3, POLICIES, remap)
            window.add(tried)
            after = POLICIES.actions(window.coordinates(new)[0], states, new)
            inner = [np.arctanh((actions - POLICIES.centre) / POLICIES.half) for actions in (before, after)]
            steady = bool(np.ptp(inner[1] - inner[0], axis=0).max() < 1e-8)
            assert steady == remap  # Off is the control: then the slope is another one.
            if same_mean:
                assert np.allclose(after, before, rtol=0, atol=1e-12) == remap


def test_without_remap_coordinates_are_what_was_tried():
    rng = np.random.default_rng(0)
    old, new = normalisers(rng, same_mean=False)
    window = Window(3, POLICIES, remap=False)
    window.add(point(2.0, normaliser=old))
    assert np.array_equal(window.coordinates(new), [np.full(POLICIES.size, 2.0)])


def test_state_round_trips_bit_for_bit():
    rng = np.random.default_rng(1)
    old, _ = normalisers(rng, same_mean=False)
    visits = Visits(
        rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32), rng.random(4)
    )
    window = Window(3, POLICIES, remap=True)
    window.add(Point(rng.normal(size=POLICIES.size), old, rng.normal(size=2), "centre", 3, visits))
    window.add(point(1.0))
    other = Window(3, POLICIES, remap=True)
    other.load(window.state())
    for mine, theirs in zip(window.points, other.points, strict=True):
        assert (mine.role, mine.iteration) == (theirs.role, theirs.iteration)
        assert mine.parameters.tobytes() == theirs.parameters.tobytes()
        assert mine.returns.tobytes() == theirs.returns.tobytes()
        assert mine.normaliser.m2.tobytes() == theirs.normaliser.m2.tobytes()
    assert other.points[1].visits is None
    loaded = other.points[0].visits
    assert loaded is not None
    assert loaded.weights.tobytes() == visits.weights.tobytes()
    assert loaded.states.dtype == np.float32
