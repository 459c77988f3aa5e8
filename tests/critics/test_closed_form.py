"""Closed-form critics against the exact action values of linear-quadratic tasks and against a naive twin.

Covers `closed_form`, `lstd_config`, `features`, `split` and `base`.
"""

import copy

import numpy as np
import pytest

from abps.critics import closed_form
from abps.critics.base import DirectAdvantages, advantages, mean_advantages, value_differences
from abps.critics.closed_form import ClosedFormCritics
from abps.critics.lstd_config import Lstd, Quadratic, Relu, Split
from abps.critics.scores import scores
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.errors import NumericsError, ShapeError
from abps.model.advantage import advantage_gradients, validation_advantages
from abps.settings import replace
from abps.state import restore, save
from abps.trajectory import Trajectory

QUADRATIC = Lstd(features=Quadratic(), members=2, groups=1, ridges=(1e-14, 1e-13), clip=0.0)
SMALL = Lstd(features=Relu(size=24), members=3, groups=2, ridges=(1e-3, 1e-2, 1e-1))


def make_critics(problem, config: Lstd, seed: int = 0) -> ClosedFormCritics:
    critics = config.make(problem.centre.space, problem.objective, seed)
    assert isinstance(critics, ClosedFormCritics)
    return critics


def trained(problem, config: Lstd, seed: int = 0) -> ClosedFormCritics:
    critics = make_critics(problem, config, seed)
    critics.start_centre(problem.centre, problem.replay, problem.scale)
    return critics


def cosines(problem, critics) -> np.ndarray:
    visits = Visits(
        *(np.concatenate([getattr(v, n) for v in problem.visits[:3]]) for n in ("states", "actions", "weights"))
    )
    gradients, truth = (
        advantage_gradients(critics, problem.centre, visits),
        problem.system.gradient(problem.gain).ravel(),
    )
    return truth @ gradients / np.linalg.norm(truth) / np.linalg.norm(gradients, axis=0)


def validation(problem, critics) -> np.ndarray:
    advantages = validation_advantages(critics, problem.centre, problem.visits)
    return scores(problem.returns[:3].mean(), advantages, problem.returns)


def exact_errors(problem, critics) -> np.ndarray:
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((500, 3)), rng.uniform(-1, 1, (500, 2))
    truth = problem.system.action_value(problem.gain, states, actions) / problem.scale
    return np.abs(critics.q(states, actions) - truth).max(axis=1)


def test_quadratic_features_recover_the_exact_action_values(quiet):
    critics = trained(quiet, QUADRATIC)
    assert exact_errors(quiet, critics).max() < 1e-6
    assert cosines(quiet, critics).min() > 0.9999
    assert validation(quiet, critics).min() > 0.9999


@pytest.mark.parametrize("broken", ["gamma", "shift", "termination", "policy", "reward scale"])
def test_the_oracle_notices_what_is_broken(quiet, broken):
    problem, scale = quiet, quiet.scale
    if broken == "gamma":
        problem = quiet._replace(objective=Objective(0.85))
    if broken == "shift":
        problem = quiet._replace(objective=Objective(quiet.objective.gamma, 0.1))
    if broken == "policy":
        problem = quiet._replace(centre=quiet.centre.space.policy(quiet.points[5], quiet.centre.normaliser))
    if broken == "termination":  # Truncated episodes taken for terminated ones do not bootstrap.
        replay = Replay(50_000, 3, 2)
        for start in range(0, len(quiet.replay), 8):
            part = quiet.replay.gather(np.arange(start, start + 8))
            states = np.concatenate([part.states, part.next_states[-1:]])
            replay.append(Trajectory.build(states, part.actions, part.rewards, terminated=True, truncated=False))
        problem = quiet._replace(replay=replay)
    if broken == "reward scale":
        problem = quiet._replace(scale=2 * scale)
    critics = trained(problem, QUADRATIC)
    assert exact_errors(quiet, critics).min() > 1e-4


@pytest.mark.parametrize("layer_norm", [False, True])
def test_random_features_learn_values_and_gradients(noisy, layer_norm):
    """The stated budget: 2952 transitions, 512 features, below a second; exact values score 0.977 here."""
    ridges = (1e-6, 1e-5, 1e-4, 1e-3)
    critics = trained(
        noisy,
        Lstd(features=Relu(512, layer_norm=layer_norm), members=4, groups=1, ridges=ridges, traces=(0.9,)),
    )
    best = int(np.argmax(validation(noisy, critics)))
    assert validation(noisy, critics)[best] >= 0.9
    assert cosines(noisy, critics)[best] >= 0.9


def naive_system(problem, data, feature, trace_decay, weigh):
    """LSTD(λ) one transition at a time: the matrix, the right-hand side, and the weighted sum of squared features."""
    size = len(feature(data.states[0], data.actions[0]))
    system, target, squares = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    eligibility, step = np.zeros(size), 0
    for state, action, reward, following, _, last in zip(*data, strict=True):
        now, then = feature(state, action), feature(following, problem.gain @ following.astype(np.float64))
        eligibility = now + 0.9 * trace_decay * eligibility
        weight = weigh(step, state, action)
        system += weight * np.outer(eligibility, now - 0.9 * then)
        target += weight * eligibility * reward / problem.scale
        squares += weight * now**2
        step += 1
        if last:
            eligibility, step = np.zeros(size), 0
    return system, target, squares


@pytest.mark.parametrize(
    ("layer_norm", "trace_decay", "steps", "power"),
    [
        (False, 0.0, None, 0.0),
        (True, 0.0, None, 1.0),
        (False, 0.9, None, 0.0),
        (True, 1.0, None, 0.5),
        (False, 0.9, 7, 1.0),
    ],
)
def test_systems_are_those_of_a_naive_twin(noisy, layer_norm, trace_decay, steps, power, monkeypatch):
    """LSTD(λ) written once more, in float64, transition by transition, for one member."""
    monkeypatch.setattr(closed_form, "CHUNK", 50)  # So that traces are carried from one product to the next.
    config = Lstd(
        features=Relu(24, layer_norm=layer_norm),
        members=1,
        groups=1,
        ridges=(1e-2,),
        transitions=200,
        traces=(trace_decay,),
        discount_weight=power,
        discount_cut=0.0 if steps is None else 0.9**steps * 1.0001,
    )
    critics = trained(noisy, config)
    data = noisy.replay.newest(200) if steps is None else noisy.replay.beginnings(200, steps)
    matrix = critics.memory.groups[0].random_numbers.astype(np.float64)
    mean, std = data.states.mean(axis=0, dtype=np.float64), data.states.std(axis=0, dtype=np.float64)

    def feature(state, action):
        inputs = np.concatenate([np.clip((state - mean) / std, -5, 5), action, [1.0]])
        hidden = inputs @ matrix
        if layer_norm:
            hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-6)
        return np.maximum(hidden, 0.0)

    system, target, squares = naive_system(noisy, data, feature, trace_decay, lambda step, *_: 0.9 ** (power * step))
    weights = np.linalg.solve(system + 1e-2 * squares.mean() * np.eye(24), target)
    values = np.array([feature(s, a) @ weights for s, a in zip(data.states, data.actions, strict=True)])
    np.testing.assert_allclose(
        critics.q(data.states, data.actions)[0], values, rtol=0, atol=2e-4 * np.abs(values).max()
    )


@pytest.mark.parametrize(
    "features",
    [Relu(64), Relu(64, layer_norm=True), Quadratic(), Split(64, action_clip=100.0)],
    ids=["relu", "relu-norm", "quadratic", "split"],
)
def test_action_gradients_are_derivatives(noisy, features):
    critics = trained(noisy, Lstd(members=3, groups=2, features=features, ridges=(1e-3, 1e-2)))
    rng = np.random.default_rng(0)
    states, actions, step = rng.standard_normal((400, 3)), rng.uniform(-1, 1, (400, 2)), 2e-3
    slopes = critics.action_gradients(states, actions)
    assert slopes.shape == (3, 400, 2)
    for place in range(2):
        shift = step * np.eye(2)[place]
        numeric = (critics.q(states, actions + shift) - critics.q(states, actions - shift)) / (2 * step)
        # A ReLU's kink inside the difference spoils single points, rounding in float32 blurs all of them.
        errors = np.abs(numeric - slopes[..., place]) / np.abs(slopes).max()
        assert np.median(errors) < 2e-3
        assert np.quantile(errors, 0.9) < 0.02
    assert np.abs(slopes).max() > 0


def episodes_of(problem, count: int) -> list[Trajectory]:
    data = problem.replay.newest(len(problem.replay))
    parts = [slice(start, start + 24) for start in range(0, 24 * count, 24)]
    return [
        Trajectory.build(
            np.concatenate([data.states[part], data.next_states[part][-1:]]),
            data.actions[part],
            data.rewards[part],
            terminated=False,
            truncated=True,
        )
        for part in parts
    ]


def test_updates_one_by_one_give_the_system_of_all_at_once(noisy):
    episodes, replay = episodes_of(noisy, 10), Replay(50_000, 3, 2)
    for episode in episodes[:5]:
        replay.append(episode)
    grown = make_critics(noisy, SMALL)
    grown.start_centre(noisy.centre, replay, noisy.scale)
    start = copy.deepcopy(grown.memory)
    for episode in episodes[5:]:
        replay.append(episode)
        report = grown.update(replay)
        assert report == (24, 0, ())
    at_once = make_critics(noisy, SMALL)
    at_once.memory = copy.deepcopy(start)
    at_once.update(replay)
    for group, other, first in zip(at_once.memory.groups, grown.memory.groups, start.groups, strict=True):
        np.testing.assert_allclose(group.system, other.system, rtol=1e-4, atol=1e-2)
        assert np.abs(group.system - first.system).max() > 1.0


def test_memory_loads_bit_for_bit_and_goes_on_alike(noisy):
    critics = trained(noisy, SMALL)
    again = make_critics(noisy, SMALL)
    again.memory = restore(again.memory, save(critics.memory))
    assert_same(save(critics.memory), save(again.memory))
    replay = Replay(50_000, 3, 2)
    replay.fill(noisy.replay.contents())
    replay.append(Trajectory.build(np.ones((6, 3)), np.ones((5, 2)), np.ones(5), terminated=True, truncated=False))
    assert critics.update(replay) == again.update(replay)
    assert critics.start_centre(noisy.centre, replay, 3.0, worst=1) == again.start_centre(
        noisy.centre, replay, 3.0, worst=1
    )
    assert_same(save(critics.memory), save(again.memory))
    other = make_critics(noisy, replace(SMALL, features=Relu(25)))
    with pytest.raises(ShapeError, match="settings they were saved with"):
        other.memory = critics.memory


def assert_same(one, other) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_same(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_the_worst_member_gets_new_features_and_the_others_keep_theirs(noisy):
    critics = trained(noisy, Lstd(features=Relu(24), members=3, groups=3))
    before = [group.random_numbers for group in critics.memory.groups]
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale, worst=1)
    after = [group.random_numbers for group in critics.memory.groups]
    assert [np.array_equal(a, b) for a, b in zip(before, after, strict=True)] == [True, False, True]
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale, worst=1)
    third = critics.memory.groups[1].random_numbers
    assert not np.array_equal(third, before[1])
    assert not np.array_equal(third, after[1])


def test_members_are_cycled_over_groups_and_ridges(noisy):
    critics = trained(noisy, Lstd(features=Relu(16), members=4, groups=2, ridges=(1e-3, 1e-1)))
    assert [group.weights.shape[1] for group in critics.memory.groups] == [2, 2]
    norms = np.concatenate([np.linalg.norm(group.weights, axis=0) for group in critics.memory.groups])
    assert norms[0] > norms[1]
    assert norms[2] > norms[3]
    few = trained(noisy, Lstd(members=2, groups=5, features=Split(16)))
    assert len(few.memory.groups) == 2


@pytest.mark.parametrize("name", ["traces", "value_ridges"])
def test_groups_differ_in_what_is_cycled_over_them(noisy, name):
    """The second group of a mixed ensemble is that of one in which all groups have its value, and the first is not."""
    features = Split(16, value_ridges=(1e-1, 1e-5))
    mixed = Lstd(members=4, groups=2, features=features, traces=(0.9, 0.1))
    changes = {"traces": (0.1,)} if name == "traces" else {"features": replace(features, value_ridges=(1e-5,))}
    one, other = (trained(noisy, config).memory.groups for config in (mixed, replace(mixed, **changes)))
    np.testing.assert_array_equal(one[1].weights, other[1].weights)
    assert not np.allclose(one[0].weights, other[0].weights)


def test_two_seeds_differ_and_one_does_not(noisy):
    values = [trained(noisy, SMALL, seed).q(noisy.visits[0].states, noisy.visits[0].actions) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(values[0], values[1])
    assert not np.allclose(values[0], values[2])


def test_absurd_weights_are_reported_and_do_no_harm(noisy):
    replay = Replay(10, 3, 2)
    replay.append(Trajectory.build(np.zeros((2, 3)), np.zeros((1, 2)), [1e30], terminated=True, truncated=False))
    critics = make_critics(noisy, Lstd(features=Quadratic(), members=2, groups=1))
    report = critics.start_centre(noisy.centre, replay, 1.0)
    assert report.diverged == (0, 1)
    np.testing.assert_array_equal(critics.q(np.ones((4, 3)), np.ones((4, 2))), 0.0)


def test_use_before_learning_and_wrong_shapes_are_refused(noisy):
    critics = make_critics(noisy, SMALL)
    with pytest.raises(NumericsError, match="start_centre"):
        critics.q(np.zeros((1, 3)), np.zeros((1, 2)))
    with pytest.raises(NumericsError, match="start_centre"):
        critics.update(noisy.replay)
    with pytest.raises(ShapeError, match="at least one stored transition"):
        critics.start_centre(noisy.centre, Replay(10, 3, 2), 1.0)
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale)
    with pytest.raises(ShapeError, match="3 observations and 2 actions got 4 and 2"):
        critics.q(np.zeros((1, 4)), np.zeros((1, 2)))
    with pytest.raises(ShapeError, match="states and"):
        critics.q(np.zeros((2, 3)), np.zeros((1, 2)))


FEATURES = Split(128, value_ridges=(1e-5, 1e-4))
SPLIT = Lstd(members=4, groups=2, features=FEATURES, ridges=(1e-4, 1e-3), traces=(0.8, 0.0))


def curved(quadratic_ridge: float) -> Lstd:
    return replace(SPLIT, features=replace(FEATURES, quadratic_ridge=quadratic_ridge))


def test_split_critics_learn_values_and_gradients(noisy):
    """The stated budget: 2952 transitions, 128 features of the state and 11 of the departure, below a second."""
    critics, linear = trained(noisy, SPLIT), trained(noisy, curved(0.0))
    assert validation(noisy, critics).max() >= 0.9
    assert cosines(noisy, critics).min() >= 0.95
    # An advantage linear in the action leaves the curvature out.
    assert validation(noisy, linear).max() < validation(noisy, critics).max() - 0.02


@pytest.mark.parametrize("quadratic_ridge", [0.0, 1e-3])
def test_split_advantages_are_quadratic_in_the_departure(noisy, quadratic_ridge):
    """The difference of a quadratic between two points is the mean of its slopes there times the way."""
    critics = trained(noisy, curved(quadratic_ridge))
    rng = np.random.default_rng(1)
    states = rng.standard_normal((50, 3))
    actions = noisy.centre.actions(states)
    moved = actions + 1e-2 * rng.standard_normal(actions.shape)
    first, second = (critics.action_gradients(states, a) for a in (actions, moved))
    expected = np.einsum("kma,ma->km", 0.5 * (first + second), moved - actions)
    np.testing.assert_allclose(critics.q(states, moved) - critics.q(states, actions), expected, atol=1e-5)
    assert np.abs(expected).max() > 1e-3
    assert np.allclose(first, second) == (quadratic_ridge == 0.0)


def test_split_critics_look_at_the_centre_they_were_given(noisy):
    critics = trained(noisy, SPLIT)
    other = noisy.centre.space.policy(noisy.points[9], noisy.centre.normaliser)
    elsewhere = make_critics(noisy, SPLIT)
    elsewhere.start_centre(other, noisy.replay, noisy.scale)
    assert np.abs(cosines(noisy, elsewhere) - cosines(noisy, critics)).max() > 1e-6  # Another centre, other values.


@pytest.mark.parametrize("features", [Split(64), Relu(64)], ids=["split", "relu"])
def test_advantages_are_differences_of_action_values(noisy, features):
    critics = trained(noisy, Lstd(features=features))
    rng = np.random.default_rng(1)
    states, actions = rng.standard_normal((20, 3)), rng.uniform(-1, 1, (5, 20, 2))
    at_centre = critics.q(states, noisy.centre.actions(states))
    expected = np.stack([critics.q(states, part) - at_centre for part in actions], axis=1)
    found = advantages(critics, noisy.centre, states, actions)
    assert isinstance(critics, DirectAdvantages)
    np.testing.assert_array_equal(found, critics.advantages(noisy.centre, states, actions))
    plain = value_differences(critics, noisy.centre, states, actions)  # What critics without the extra would give.
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert (
        np.abs(critics.advantages(noisy.centre, states, actions[::-1]) - expected).max() > 0.1 * np.abs(expected).max()
    )


def test_linearised_advantages_are_advantages_to_first_order(noisy):
    critics = trained(noisy, curved(1e-3))
    rng = np.random.default_rng(1)
    states = rng.standard_normal((20, 3))
    at_centre = noisy.centre.actions(states)
    moves = 1e-2 * rng.standard_normal((5, 20, 2))
    linear = mean_advantages(critics, noisy.centre, states, at_centre + moves)
    slopes = critics.action_gradients(states, at_centre)
    np.testing.assert_allclose(linear, np.einsum("kma,nma->knm", slopes, moves), atol=1e-6)
    products = critics.advantages(noisy.centre, states, at_centre + moves) - linear
    half = critics.advantages(noisy.centre, states, at_centre + moves / 2) - linear / 2
    np.testing.assert_allclose(half, products / 4, atol=1e-6)  # What is left out is of second order,
    assert np.abs(products).max() > 1e-5  # and is there.


def test_split_critics_save_and_load_bit_for_bit(noisy):
    critics = trained(noisy, SPLIT)
    copied = make_critics(noisy, SPLIT)
    copied.memory = restore(copied.memory, save(critics.memory))
    states, actions = np.random.default_rng(2).standard_normal((2, 30, 3))[0], np.zeros((30, 2))
    assert np.array_equal(critics.q(states, actions), copied.q(states, actions))
    for item in (critics, copied):
        item.update(noisy.replay)
    assert np.array_equal(critics.q(states, actions), copied.q(states, actions))


@pytest.mark.parametrize(
    ("trace_decay", "quadratic_ridge", "off_policy_scale"), [(0.0, 0.0, 0.0), (0.8, 0.5, 0.3), (0.0, 0.1, 1.0)]
)
def test_split_systems_are_those_of_a_naive_twin(noisy, trace_decay, quadratic_ridge, off_policy_scale):
    """V(s) + A(s, u) fitted once more, in float64, transition by transition."""
    features = Split(24, value_ridges=(1e-3,), quadratic_ridge=quadratic_ridge, off_policy_scale=off_policy_scale)
    config = Lstd(
        members=1,
        groups=1,
        features=features,
        transitions=200,
        ridges=(1e-2,),
        traces=(trace_decay,),
        discount_cut=0.0,
    )
    critics, data = trained(noisy, config), noisy.replay.newest(200)
    matrix = critics.memory.groups[0].random_numbers.astype(np.float64)
    mean, std = data.states.mean(axis=0, dtype=np.float64), data.states.std(axis=0, dtype=np.float64)
    departures = data.actions - data.states.astype(np.float64) @ noisy.gain.T
    spread = departures.std(axis=0)

    def departure(state, action):
        return np.clip((action - noisy.gain @ state.astype(np.float64)) / spread, -3, 3)

    def feature(state, action):
        seen, u = np.clip((state - mean) / std, -5, 5), departure(state, action)
        value = np.maximum(np.concatenate([seen, [1.0]]) @ matrix, 0.0)
        products = [u[0] * u[0], u[0] * u[1], u[1] * u[1]] if quadratic_ridge else []
        return np.concatenate([value, np.outer(u, np.concatenate([[1.0], seen])).ravel(), products])

    def weigh(step, state, action):
        squared = np.square(departure(state, action)).mean()
        return 0.9**step / (1 + (squared / off_policy_scale if off_policy_scale else 0.0))

    system, target, squares = naive_system(noisy, data, feature, trace_decay, weigh)
    penalty = np.concatenate([np.full(24, 1e-3 * squares[:24].mean()), np.full(8, 1e-2 * squares[24:32].mean())])
    if quadratic_ridge:
        penalty = np.concatenate([penalty, np.full(3, quadratic_ridge * squares[32:].mean())])
    weights = np.linalg.solve(system + np.diag(penalty), target)
    values = np.array([feature(s, a) @ weights for s, a in zip(data.states, data.actions, strict=True)])
    found = critics.q(data.states, data.actions)[0]
    np.testing.assert_allclose(found, values, rtol=0, atol=2e-4 * np.abs(values).max())
    changed = replace(config, features=replace(features, quadratic_ridge=0.2, off_policy_scale=2.0))
    other = trained(noisy, changed).q(data.states, data.actions)[0]
    assert np.abs(other - values).max() > 2e-3 * np.abs(values).max()
