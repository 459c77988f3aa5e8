"""A neighbourhood: the window's points in one normaliser's coordinates and one chart's, returns scaled."""

import numpy as np
import pytest

from abps.data.visits import Visits
from abps.data.window import Point
from abps.model import ActionMetric, Neighbourhood
from abps.normaliser import Normaliser
from abps.policies import PolicySpace
from abps.policies.linear import LinearTanh
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 3, 2, (-1.0, -2.0), (1.0, 0.5))
SPACES = {bias: PolicySpace(LinearTanh(bias), SPEC) for bias in (False, True)}
SPACE = SPACES[False]
PLAIN = Normaliser.empty(3)


def point(number, role="probe", returns=(0.0,), normaliser=PLAIN, visits=None, iteration=0) -> Point:
    return Point(np.full(6, float(number)), normaliser, np.array(returns, dtype=float), role, iteration, visits)


def visits(seed, steps=5, scale=1.0) -> Visits:
    rng = np.random.default_rng(seed)
    return Visits(rng.normal(size=(steps, 3)), rng.normal(size=(steps, 2)), scale * rng.uniform(0.5, 1.0, steps))


def around(*points, **options) -> Neighbourhood:
    return Neighbourhood(SPACE.policy(points[-1].parameters, PLAIN), tuple(points), **options)


def test_values_counts_and_repeats_in_scaled_units():
    near = around(
        point(0, "centre", (1.0, 3.0)), point(1, returns=(5.0,)), point(2, "centre", (2.0, 2.0, 8.0)), scale=2.0
    )
    assert near.returns.tolist() == [1.0, 2.5, 2.0]
    assert near.counts.tolist() == [2.0, 1.0, 3.0]
    assert [part.tolist() for part in near.repeats] == [[0.5, 1.5], [1.0, 1.0, 4.0]]
    assert near.newest_centre is near.entries[2]
    assert near.centre_value == 2.0
    np.testing.assert_array_equal(near.points, [np.full(6, float(k)) for k in range(3)])
    np.testing.assert_array_equal(near.theta, np.full(6, 2.0))


def test_a_later_probe_is_no_centre():
    near = around(point(0, "centre", (1.0,)), point(1, "centre", (4.0,)), point(2, returns=(9.0,)))
    assert near.centre_value == 4.0


def normalisers(rng, *, same_mean):
    first, second = (Normaliser(50, rng.normal(size=3), rng.uniform(1.0, 90.0, 3)) for _ in range(2))
    return first, Normaliser(80, first.mean, second.m2) if same_mean else second


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_remapped_points_keep_their_meaning(seed, bias):
    """Without a bias only slopes can be carried over: other means give a constant shift before tanh."""
    rng = np.random.default_rng(seed)
    states, space = rng.normal(size=(40, 3)), SPACES[bias]
    for same_mean in (True, False):
        old, new = normalisers(rng, same_mean=same_mean)
        tried = Point(0.1 * rng.normal(size=space.size), old, np.ones(1), "centre", 0)
        before = space.actions(tried.parameters, states, old)
        for remap in (True, False):
            near = Neighbourhood(space.policy(space.initial(), new), (tried,), remap=remap)
            after = space.actions(near.parameters[0], states, new)
            inner = [np.arctanh((actions - SPEC.action_centre) / SPEC.action_half) for actions in (before, after)]
            steady = bool(np.ptp(inner[1] - inner[0], axis=0).max() < 1e-8)
            assert steady == remap  # Off is the control: then the slope is another one.
            if same_mean or bias:
                assert np.allclose(after, before, rtol=0, atol=1e-12) == remap


def test_without_remap_coordinates_are_what_was_tried():
    old, new = normalisers(np.random.default_rng(0), same_mean=False)
    near = Neighbourhood(SPACE.policy(SPACE.initial(), new), (point(2.0, "centre", normaliser=old),))
    assert np.array_equal(near.parameters, [np.full(6, 2.0)])


def test_points_of_a_chart_are_the_points_seen_from_the_centre():
    entries = tuple(point(0.1 * k, "centre" if k == 2 else "probe", visits=visits(k)) for k in range(4))
    near = Neighbourhood(SPACE.policy(entries[2].parameters, PLAIN), entries, chart=ActionMetric())
    np.testing.assert_array_equal(near.theta, np.zeros(6))
    np.testing.assert_allclose(near.points[2], np.zeros(6), atol=1e-15)
    np.testing.assert_allclose(near.coordinates.to_parameters(near.points), near.parameters, atol=1e-12)
    assert not np.allclose(near.points, near.parameters - near.parameters[2])


@pytest.mark.parametrize("recent", [None, 2])
def test_the_chart_is_that_of_the_newest_points_states(recent):
    entries = tuple(point(0.1 * k, "centre" if k == 2 else "probe", visits=visits(k, steps=4 + k)) for k in range(4))
    centre = SPACE.policy(entries[2].parameters, PLAIN)
    near = Neighbourhood(centre, entries, chart=ActionMetric(), recent=recent)

    def chart_of(chosen):
        names = ("states", "actions", "weights")
        parts = {name: np.concatenate([getattr(item.visits, name) for item in chosen]) for name in names}
        return ActionMetric().at(centre, Visits(**parts))

    chosen, other = (entries, entries[-2:]) if recent is None else (entries[-2:], entries)
    np.testing.assert_allclose(near.points, chart_of(chosen).to_chart(near.parameters), rtol=1e-10, atol=1e-14)
    assert not np.allclose(near.points, chart_of(other).to_chart(near.parameters), rtol=1e-3)


def test_clipped_returns_keep_a_runaway_from_outweighing_all_others():
    values = [*np.linspace(-1.0, 1.0, 9), -500.0]
    entries = [point(k, returns=(value,)) for k, value in enumerate(values)] + [point(99, "centre", (0.0,))]
    plain, clipped = (around(*entries, clip_returns=clip) for clip in (False, True))
    assert plain.returns.min() == -500.0
    np.testing.assert_array_equal(clipped.returns[:9], plain.returns[:9])
    low, high = np.quantile([*values, 0.0], [0.25, 0.75])
    assert clipped.returns.min() == pytest.approx(low - 3.0 * (high - low))
    equal = around(*(point(k, "centre", (7.0,)) for k in range(3)), clip_returns=True)
    np.testing.assert_array_equal(equal.returns, np.full(3, 7.0))


def test_probes_do_not_say_what_is_usual_where_enough_episodes_ran_around_centres():
    """Probes elsewhere of a regulated system return a thousand times less: in the quartiles they hide the rest."""
    near = [point(k, "centre", (-0.3 - 0.02 * k,)) for k in range(8)]
    far = [point(20 + k, "probe", (-1000.0 - k,)) for k in range(8)]
    low, high = np.quantile([-0.3 - 0.02 * k for k in range(8)], [0.25, 0.75])
    assert around(*near, *far, clip_returns=True).returns.min() == pytest.approx(low - 3.0 * (high - low))
    few = around(*near[:4], *far, clip_returns=True).returns  # Too few to say.
    assert few.min() == -1007.0


def test_clipping_does_not_hide_falls_when_most_episodes_last_to_the_end():
    """With the interquartile range at 0 the others set the scale; a single runaway among them is still cut."""
    held = [point(k, "centre", (1000.0,)) for k in range(12)]
    falls = [point(12 + k, "probe", (value,)) for k, value in enumerate((10.0, 60.0, -90_000.0))]
    clipped = around(*held, *falls, clip_returns=True).returns
    np.testing.assert_array_equal(clipped[:14], [1000.0] * 12 + [10.0, 60.0])
    assert clipped[14] == 1000.0 - 3.0 * 990.0


def test_the_change_of_actions_is_the_weighted_root_mean_square():
    seen = visits(0)
    near = around(point(0.2, "centre", visits=seen))
    other = np.linspace(-0.3, 0.4, 6)
    now, then = (np.tanh(seen.states @ parameters.reshape(2, 3).T) for parameters in (np.full(6, 0.2), other))
    expected = np.sqrt(sum(w * ((b - a) ** 2).mean() for w, a, b in zip(seen.weights, now, then, strict=True)))
    assert near.action_change(other) == pytest.approx(expected / np.sqrt(seen.weights.sum()), rel=1e-10)
    assert near.action_change(near.centre.parameters) == 0.0


def test_what_is_not_there_is_named():
    near = around(point(0, "centre"))
    with pytest.raises(RuntimeError, match="`states`"):
        _ = near.centre_visits
    with pytest.raises(RuntimeError, match="states"):
        _ = around(point(0, "centre"), chart=ActionMetric()).points
