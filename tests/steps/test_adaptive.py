"""The step of the fast ABS by hand: its first step, how its length follows agreement, when it jumps and goes back."""

from typing import Any

import numpy as np
import pytest
from lqr_lab import lqr

from abps.data.window import Point
from abps.errors import ConfigError
from abps.model import GP, Hyper, Model, Neighbourhood, PriorMean
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear
from abps.policies.policy import PolicySpace
from abps.settings import replace
from abps.state import restore, save
from abps.steps.adaptive import AdaptiveAscent, AdaptiveMemory
from abps.steps.base import StepInput

RULE = AdaptiveAscent(first_length=0.1, shortest=0.01, longest=1.0, rate=0.5, target=0.2, jump=3.0)
SLOPE = np.array([3.0, 4.0])
CENTRE = np.array([0.3, -0.2])


def model(*points: tuple[list[float], str, float], slope: Any = SLOPE, noise: float = 0.01) -> Model:
    """A process with long lengthscales over points (parameters, role, return); the last centre is θ."""
    space, normaliser = PolicySpace(ClippedLinear(), lqr().spec), Normaliser.empty(2)
    points = (*points, (list(CENTRE), "centre", 0.0))
    entries = tuple(Point(np.array(x), normaliser, np.array([value]), role, 0) for x, role, value in points)
    near = Neighbourhood(space.policy(CENTRE, normaliser), entries)
    prior = PriorMean(np.zeros(len(entries)), 0.0, np.asarray(slope, dtype=float))
    return GP().model(near, prior, Hyper(np.full(2, 0.3), 1.0, noise, scale_by_dimension=False))


def test_the_first_step_has_the_first_length_along_the_slope_and_looks_farther_ahead():
    move = RULE(StepInput(model(), memory=AdaptiveMemory()))
    step = 0.1 * SLOPE / 5.0
    assert np.allclose(move.centre, CENTRE + step)
    assert move.ahead is not None
    assert np.allclose(move.ahead, CENTRE + 3.0 * step)
    assert np.allclose(move.memory.last, step)
    assert (move.memory.length, move.memory.looked_ahead, move.go_to) == (0.1, True, None)
    assert move.metrics["step_agreement"] is None
    near = AdaptiveAscent(jump=0.0)(StepInput(model(), memory=AdaptiveMemory()))
    assert near.ahead is None
    assert not near.memory.looked_ahead


@pytest.mark.parametrize(
    ("last", "cosine"), [(SLOPE, 1.0), (-SLOPE, -1.0), (np.array([-4.0, 3.0]), 0.0), (np.array([1.0, 0.0]), 0.6)]
)
def test_the_length_follows_the_agreement_of_successive_directions(last, cosine):
    memory = AdaptiveMemory(length=0.2, last=0.7 * last)
    move = RULE(StepInput(model(), memory=memory))
    length = 0.2 * np.exp(0.5 * (cosine - 0.2))
    assert move.metrics["step_agreement"] == pytest.approx(cosine)
    assert move.metrics["step_chart"] == move.memory.length == pytest.approx(length)
    assert np.linalg.norm(move.centre - CENTRE) == pytest.approx(length)
    assert memory == AdaptiveMemory(length=0.2, last=memory.last)  # A rule changes nothing that it is given.


@pytest.mark.parametrize(("sign", "start", "end"), [(1.0, 0.95, 1.0), (-1.0, 0.011, 0.01)])
def test_the_length_stays_within_its_bounds(sign, start, end):
    move = RULE(StepInput(model(), memory=AdaptiveMemory(length=start, last=sign * SLOPE)))
    assert move.memory.length == end


def test_no_slope_no_step():
    move = RULE(StepInput(model(slope=(0.0, 0.0)), memory=AdaptiveMemory(length=0.2, last=SLOPE)))
    assert np.array_equal(move.centre, CENTRE)
    assert (move.memory.length, move.memory.last, move.ahead) == (0.2, None, None)


EARLIER = ([0.2, -0.3], "centre", 1.0)
"""A centre that returned far more than the current one."""


def test_a_centre_that_is_surely_worse_than_an_earlier_one_is_left():
    """Once; asked again there, the rule steps on with the shorter length, and has the policy it went to run again."""
    memory = AdaptiveMemory(length=0.2, last=SLOPE)
    move = RULE(StepInput(model(EARLIER, slope=(0.0, 0.0)), memory=memory))
    assert move.go_to is not None
    assert np.array_equal(move.go_to, EARLIER[0])  # Bit for bit the policy that was run.
    assert move.metrics == {"retreat": "worse"}
    assert (move.memory.length, move.memory.last, move.memory.retreated) == (0.2 * RULE.shrink, None, True)
    again = RULE(StepInput(model(EARLIER), memory=move.memory))
    assert again.go_to is None
    assert np.linalg.norm(again.centre - CENTRE) == pytest.approx(0.2 * RULE.shrink)
    assert not again.memory.retreated
    assert again.ahead is not None
    assert np.array_equal(again.ahead, CENTRE)
    assert not again.memory.looked_ahead  # It is no probe ahead: nothing jumps there.


def test_after_going_back_a_policy_that_was_run_is_left_for_a_look_elsewhere():
    """The policy itself first, as often as `repeats` says; then random directions at distances within the bounds."""
    rule = replace(RULE, repeats=1, elsewhere_low=0.3, elsewhere_high=0.6)
    back = AdaptiveMemory(length=0.2, retreated=True)

    def probe(rule: AdaptiveAscent, given: Any, seed: int) -> Any:
        return rule(StepInput(given, memory=back, rng=np.random.default_rng(seed)))

    seen = model()
    moves = [probe(rule, seen, seed) for seed in range(40)]
    assert all(move.memory.looked_ahead for move in moves)
    ways = np.array([move.ahead for move in moves]) - CENTRE
    lengths = np.linalg.norm(ways, axis=1)
    assert 0.3 <= lengths.min() < 0.35
    assert 0.55 < lengths.max() <= 0.6
    assert np.abs((ways / lengths[:, None]).mean(axis=0)).max() < 3.0 / np.sqrt(len(ways))  # No direction is favoured.
    assert np.array_equal(moves[3].ahead, probe(rule, seen, 3).ahead)
    for other in (replace(rule, repeats=2), replace(rule, few_parameters=1)):
        again = probe(other, seen, 0)
        assert np.array_equal(again.ahead, CENTRE)
        assert not again.memory.looked_ahead


def test_a_length_worn_down_by_going_back_starts_anew():
    """Above the bound it only shrinks; at the bound short steps have led nowhere."""
    for length, expected in ((0.02, 0.02 * RULE.shrink), (0.012, RULE.first_length), (0.01, RULE.first_length)):
        move = RULE(StepInput(model(EARLIER, slope=(0.0, 0.0)), memory=AdaptiveMemory(length=length, last=SLOPE)))
        assert move.go_to is not None
        assert move.memory.length == expected


def test_noise_is_no_reason_to_go_back_and_neither_is_a_probe():
    """The same returns under large noise leave it in doubt; one lucky probe is no centre."""
    for given in (model(EARLIER, slope=(0.0, 0.0), noise=3.0), model((EARLIER[0], "probe", 1.0), slope=(0.0, 0.0))):
        move = RULE(StepInput(given, memory=AdaptiveMemory(length=0.2, last=SLOPE)))
        assert move.go_to is None
        assert np.array_equal(move.centre, CENTRE)


def test_what_is_believed_to_be_the_best_is_the_policy_with_the_highest_posterior_mean():
    """Below the doubt at which it goes back; without a better one it is the centre itself."""
    rule = AdaptiveAscent(doubt=0.999999)
    move = rule(StepInput(model(([0.2, -0.3], "centre", 0.1), slope=(0.0, 0.0), noise=0.2), memory=AdaptiveMemory()))
    assert move.believed is not None
    assert np.allclose(move.believed, [0.2, -0.3])
    move = rule(StepInput(model(([0.2, -0.3], "centre", -0.1), slope=(0.0, 0.0), noise=0.2), memory=AdaptiveMemory()))
    assert move.believed is not None
    assert np.allclose(move.believed, CENTRE)


@pytest.mark.parametrize(("value", "jumps"), [(1.0, True), (-1.0, False)])
def test_a_probe_ahead_that_is_probably_better_becomes_the_centre(value, jumps):
    ahead = ([0.45, 0.0], "probe", value)
    memory = AdaptiveMemory(length=0.2, last=SLOPE / 50.0, looked_ahead=True)
    move = RULE(StepInput(model(ahead, slope=(0.0, 0.0)), memory=memory))
    assert (move.go_to is not None) == jumps
    assert move.metrics.get("jump", False) == jumps
    if move.go_to is not None:
        assert np.array_equal(move.go_to, ahead[0])
        assert move.memory.length == pytest.approx(0.2 * np.sqrt(3.0))
        assert np.allclose(move.memory.last, np.array(ahead[0]) - CENTRE)
    assert not move.memory.looked_ahead
    judged = RULE(StepInput(model(ahead, slope=(0.0, 0.0)), memory=AdaptiveMemory(length=0.2, last=SLOPE / 50.0)))
    assert judged.go_to is None  # A probe is judged once.


def test_lengths_grow_along_a_straight_way_and_shrink_when_directions_turn():
    """Many steps: with agreeing directions up to the upper bound, with turning ones down to the lower."""
    for turn, end in ((0.0, 1.0), (np.pi, 0.01), (np.pi / 2, 0.01)):
        memory, lengths = AdaptiveMemory(), []
        for number in range(60):
            slope = np.array([np.cos(number * turn), np.sin(number * turn)])
            memory = RULE(StepInput(model(slope=slope), memory=memory)).memory
            memory = replace(memory, looked_ahead=False)
            lengths.append(memory.length)
        assert np.all(np.diff(lengths) * (1.0 if turn == 0.0 else -1.0) >= 0.0)
        assert lengths[-1] == pytest.approx(end)


@pytest.mark.parametrize("doubt", [0.5, 0.9, 0.99])
def test_it_goes_back_only_above_the_doubt(doubt):
    """Returns between none and a large difference: the posterior's own probability decides, on either side."""
    rule, gone = replace(RULE, doubt=doubt), []
    for value in np.linspace(-0.5, 2.0, 26):
        given = model(([0.2, -0.3], "centre", float(value)), slope=(0.0, 0.0), noise=0.5)
        probability = float(given.better(np.array([[0.2, -0.3]]))[1][0])
        move = rule(StepInput(given, memory=AdaptiveMemory(length=0.2, last=SLOPE)))
        gone.append(move.go_to is not None)
        assert gone[-1] == (probability > doubt)
    assert gone[0] is False
    assert any(gone) == (doubt < 0.99)


def test_many_parameters_want_more_certainty_before_it_goes_back():
    """The same window: gone back from as one of few parameters, not as one of many, unless that is surer still."""
    given = model(([0.2, -0.3], "centre", 0.9), slope=(0.0, 0.0), noise=0.5)
    probability = float(given.better(np.array([[0.2, -0.3]]))[1][0])
    for few, many, back in ((2, 0.999, True), (1, 0.999, False), (1, probability - 1e-6, True)):
        rule = replace(RULE, doubt=probability - 1e-6, doubt_many=many, few_parameters=few)
        move = rule(StepInput(given, memory=AdaptiveMemory(length=0.2, last=SLOPE)))
        assert (move.go_to is not None) == back


def test_only_the_newest_policies_and_the_best_so_far_are_candidates():
    """Beside the centre so many others; an older one only when it is remembered as the best."""
    old, newer = EARLIER, ([0.25, -0.25], "centre", -0.5)
    for candidates, believed, goes in ((1, None, False), (2, None, True), (1, EARLIER[0], True)):
        given = model(old, newer, slope=(0.0, 0.0))
        memory = AdaptiveMemory(believed=None if believed is None else np.array(believed))
        move = replace(RULE, candidates=candidates)(StepInput(given, memory=memory))
        assert (move.go_to is not None) == goes


@pytest.mark.parametrize("slope", [(0.0, 0.0), (1e-300, 0.0), (1e-160, 1e-160), (1e100, 1e100)])
@pytest.mark.parametrize("last", [None, (0.0, 0.0), (1e-200, 0.0), (1e200, 0.0)])
def test_never_a_number_that_is_not_one(slope, last):
    memory = AdaptiveMemory(length=0.2, last=None if last is None else np.array(last))
    with np.errstate(all="ignore"):
        move = RULE(StepInput(model(slope=slope), memory=memory))
    assert np.isfinite(move.centre).all()
    assert np.isfinite(move.memory.length)
    assert move.ahead is None or np.isfinite(move.ahead).all()
    assert move.memory.last is None or np.isfinite(move.memory.last).all()


def test_the_memory_is_saved_and_restored():
    first = RULE(StepInput(model(), memory=AdaptiveMemory())).memory
    again = restore(AdaptiveMemory(), save(first))
    assert save(again).keys() == save(first).keys()
    one, other = (RULE(StepInput(model(slope=(1.0, 2.0)), memory=memory)) for memory in (first, again))
    assert np.array_equal(one.centre, other.centre)
    assert one.metrics == other.metrics
    fresh = restore(AdaptiveMemory(), save(AdaptiveMemory()))
    assert (fresh.length, fresh.last, fresh.looked_ahead, fresh.retreated) == (0.0, None, False, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"repeats": -1},
        {"elsewhere_low": 2.0},
        {"shortest": 0.5},
        {"longest": 0.05},
        {"doubt": 0.4},
        {"doubt_many": 1.0},
        {"shrink": 0.0},
        {"candidates": 0},
        {"jump": 0.5},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        AdaptiveAscent(**wrong)
