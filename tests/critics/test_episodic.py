"""`EpisodicLstd` on linear-quadratic tasks with path episodes, where Q and the policy gradient are known exactly."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov

from abps.critics import episodic
from abps.critics.episodic import EpisodicCritics, EpisodicLstd
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.errors import ConfigError, NumericsError
from abps.model.advantage import advantage_gradients
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear
from abps.policies.path import ParameterPath
from abps.policies.policy import Policy, PolicySpace
from abps.settings import replace
from abps.state import restore, save
from abps.tasks.lqr import LqrSystem
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

GAMMA, STEPS, INTERVAL, HALF = 0.9, 25, 5, 2.0
SHARP = EpisodicLstd(
    episodes=1000,
    gammas=(GAMMA,),
    traces=(0.0, 0.8),
    value_ridges=(1e-6,),
    slope_ridge=1e-6,
    quadratic_ridge=1e-6,
    features=8,
    off_policy_scale=0.3,
    rows=10**6,
)
"""So little ridge that only the data limit what is learned; every member has the task's own γ."""
USUAL = EpisodicLstd(
    episodes=24, gammas=(0.8, 0.9), traces=(0.4, 0.7), value_ridges=(0.01, 1.0), slope_ridge=0.01, quadratic_ridge=0.1,
    features=32, rows=2000,
)  # fmt: skip


class Problem(NamedTuple):
    system: LqrSystem
    gain: np.ndarray
    centre: Policy


TRANSITION = np.array([[0.7, 0.2, 0.0], [-0.1, 0.6, 0.1], [0.0, 0.1, 0.5]])
CONTROL = np.array([[0.6, 0.0], [0.0, 0.5], [0.3, 0.3]])
GAIN = 0.2 * np.array([[1.0, 0.0, 0.5], [-0.5, 1.0, 0.0]])


def problem(noise: float = 0.09) -> Problem:
    """A stable system with a poor gain as centre, whose starts are as spread as its later states.

    Critics clip what is far outside the usual; the closed forms hold where nothing is.
    """
    covariance = solve_discrete_lyapunov(TRANSITION + CONTROL @ GAIN, 0.09 * np.eye(3))
    system = LqrSystem(
        TRANSITION, CONTROL, np.diag([1.0, 0.5, 2.0]), 0.1 * np.eye(2), GAMMA, np.zeros(3),
        (covariance + covariance.T) / 2.0, noise * np.eye(3),
    )  # fmt: skip
    spec = TaskSpec("lqr", 3, 2, (-HALF,) * 2, (HALF,) * 2, gamma=GAMMA, horizon=STEPS)
    matrix = np.column_stack([GAIN, np.zeros(2)])  # No bias: the centre obeys the closed forms.
    return Problem(
        system, GAIN, PolicySpace(ClippedLinear(bias=True), spec).policy(matrix.ravel(), Normaliser.empty(3))
    )


def episode(case: Problem, rng: np.random.Generator, size: float = 0.1, steps: int = STEPS) -> Trajectory:
    """One path episode, simulated here: gains and biases move along knots around the centre."""
    system, shape = case.system, (case.system.actions, case.system.states + 1)
    knots = case.centre.parameters + size * rng.normal(size=(steps // INTERVAL + 2, shape[0] * shape[1]))
    path, root = ParameterPath(knots, INTERVAL), np.linalg.cholesky(system.noise + 1e-18 * np.eye(system.states))
    states = [rng.multivariate_normal(system.initial_mean, system.initial_covariance)]
    actions, rewards = [], []
    for t in range(steps):
        state = states[-1]
        action = path.at(t).reshape(shape) @ np.append(state, 1.0)
        actions.append(action)
        rewards.append(-(state @ system.state_cost @ state + action @ system.action_cost @ action))
        noise = root @ rng.standard_normal(system.states)
        states.append(system.transition @ state + system.control @ action + noise)
    return Trajectory.build(np.array(states), np.array(actions), rewards, terminated=False, truncated=True)


def replay_of(case: Problem, count: int, seed: int = 0, **options: Any) -> Replay:
    rng, replay = np.random.default_rng(seed), Replay(100_000, case.system.states, case.system.actions)
    for _ in range(count):
        replay.append(episode(case, rng, **options))
    return replay


def fitted(case: Problem, replay: Replay, part: EpisodicLstd = SHARP, scale: float = 1.0) -> Any:
    critics = part.make(case.centre.space, Objective(GAMMA), 0)
    report = critics.start_centre(case.centre, replay, scale)
    assert report.diverged == ()
    return critics


def visits_of(case: Problem, count: int = 60) -> Visits:
    """States of the centre itself, without any path."""
    rng = np.random.default_rng(99)
    return Visits.collect([episode(case, rng, size=0.0, steps=60) for _ in range(count)], GAMMA)


def errors(case: Problem, critics: Any, visits: Visits) -> np.ndarray:
    """Relative errors (k,) of the members' policy gradients on the same states."""
    states = visits.states.astype(float)
    slopes = case.system.action_value_gradient(case.gain, states, case.centre.actions(states))
    true = case.centre.space.pullback(
        case.centre.parameters, states, case.centre.normaliser, slopes * visits.weights[:, None]
    )
    found = advantage_gradients(critics, case.centre, visits).T
    return np.linalg.norm(found - true, axis=1) / np.linalg.norm(true)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


# ---- what is learned -----------------------------------------------------


def test_the_gradient_approaches_the_true_one_as_data_grow() -> None:
    case = problem()
    visits = visits_of(case)
    found = [errors(case, fitted(case, replay_of(case, count)), visits).mean() for count in (10, 60, 400)]
    assert found[1] < 0.4 * found[0]
    assert found[2] < 0.6 * found[1]
    assert found[2] < 0.2


def test_the_gradient_is_that_of_the_lyapunov_equation() -> None:
    """Not only on the sampled states: against ∇J itself, which no sample enters. At another gain it is not."""
    case = problem()
    true = case.system.gradient(case.gain)
    found = advantage_gradients(fitted(case, replay_of(case, 400)), case.centre, visits_of(case, 200)).T
    for member in found.reshape(-1, 2, 4)[:, :, :3]:
        assert cosine(member.ravel(), true.ravel()) > 0.98
        assert np.linalg.norm(member) == pytest.approx(np.linalg.norm(true), rel=0.2)
    beyond = case.system.gradient(2.0 * case.system.optimal_gain())
    assert cosine(true.ravel(), beyond.ravel()) < 0.5


def test_smaller_ridges_are_nearer_to_the_truth_when_data_abound() -> None:
    case = problem()
    visits, replay, found = visits_of(case), replay_of(case, 400), []
    for ridge in (1.0, 0.1, 1e-6):
        part = EpisodicLstd(
            episodes=1000, gammas=(GAMMA,), traces=(0.8,), value_ridges=(ridge,), slope_ridge=ridge,
            quadratic_ridge=ridge, features=8, rows=10**6,
        )  # fmt: skip
        found.append(errors(case, fitted(case, replay, part), visits)[0])
    assert found[0] > 1.5 * found[2]


def test_without_noise_and_clipping_q_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q of an LQR is a quadratic, which the features hold; a start far away is no runaway here."""
    for name in ("REWARD_REACH", "STATE_CLIP", "ACTION_CLIP"):
        monkeypatch.setattr(episodic, name, 1e9)
    case = problem(noise=0.0)
    critics = fitted(case, replay_of(case, 60))
    rng = np.random.default_rng(5)
    states = rng.normal(scale=0.5, size=(50, 3)) @ np.linalg.cholesky(case.system.initial_covariance).T
    actions = case.centre.actions(states) + 0.3 * rng.normal(size=(50, 2))
    true = case.system.action_value(case.gain, states, actions)
    for member in critics.q(states, actions):
        np.testing.assert_allclose(member, true, atol=0.02 * np.abs(true).max())
    wrong = case.system.action_value(0.5 * case.system.optimal_gain(), states, actions)
    assert np.abs(true - wrong).max() > 0.03 * np.abs(true).max()


@pytest.mark.parametrize("part", [SHARP, USUAL])
def test_slopes_advantages_and_values_fit_together(part: EpisodicLstd) -> None:
    """∂Q/∂a by finite differences; A = Q(s, a) − Q(s, π(s)), V = Q(s, π(s)); the linear part is that at the centre."""
    case = problem()
    critics = fitted(case, replay_of(case, 20), part, scale=4.0)
    rng, h = np.random.default_rng(6), 1e-5
    states = rng.normal(size=(7, 3))
    actions = 0.3 * rng.normal(size=(7, 2))
    resting = case.centre.actions(states)
    numeric = [(critics.q(states, actions + s) - critics.q(states, actions - s)) / (2 * h) for s in h * np.eye(2)]
    np.testing.assert_allclose(
        critics.action_gradients(states, actions), np.stack(numeric, axis=-1), rtol=1e-5, atol=1e-8
    )
    np.testing.assert_allclose(critics.values(states), critics.q(states, resting), atol=1e-12)
    advantages = critics.advantages(case.centre, states, actions[None])[:, 0]
    np.testing.assert_allclose(advantages, critics.q(states, actions) - critics.q(states, resting), atol=1e-10)
    linear = critics.linearised_advantages(case.centre, states, actions[None])[:, 0]
    expected = np.einsum("kma,ma->km", critics.action_gradients(states, resting), actions - resting)
    np.testing.assert_allclose(linear, expected, atol=1e-10)


def test_the_scale_divides_what_is_learned() -> None:
    case = problem()
    replay, states = replay_of(case, 12), np.random.default_rng(7).normal(size=(5, 3))
    one, other = fitted(case, replay, USUAL, scale=1.0), fitted(case, replay, USUAL, scale=8.0)
    np.testing.assert_allclose(one.values(states), 8.0 * other.values(states), rtol=1e-4)


# ---- what must not disturb it --------------------------------------------


def runaway(case: Problem) -> Trajectory:
    normal = episode(case, np.random.default_rng(8))
    rewards = normal.rewards.copy()
    rewards[10:13] = -1e6
    return Trajectory.build(normal.observations, normal.actions, rewards, terminated=False, truncated=True)


def test_runaway_rewards_do_not_move_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    case, visits = problem(), visits_of(problem(), 20)
    replay, disturbed = replay_of(case, 20), replay_of(case, 20)
    disturbed.append(runaway(case))

    def gradient(data: Replay) -> np.ndarray:
        return advantage_gradients(fitted(case, data, USUAL), case.centre, visits).mean(axis=1)

    before, after = gradient(replay), gradient(disturbed)
    assert cosine(before, after) > 0.8
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before), rel=0.5)
    monkeypatch.setattr(episodic, "REWARD_REACH", 1e12)  # Negative control: nothing is clipped.
    wild = gradient(disturbed)
    assert np.linalg.norm(wild - before) > 10.0 * np.linalg.norm(before)


def test_runaway_states_do_not_flatten_the_others() -> None:
    case = problem()
    replay, disturbed = replay_of(case, 40), replay_of(case, 40)
    normal = episode(case, np.random.default_rng(8))
    far = normal.observations.copy()
    far[15:] *= 1e5
    disturbed.append(Trajectory.build(far, normal.actions, normal.rewards, terminated=True, truncated=False))
    found = [fitted(case, data, USUAL) for data in (replay, disturbed)]
    np.testing.assert_allclose(found[1].memory.std, found[0].memory.std, rtol=0.3)
    assert np.isfinite(found[1].values(far.astype(float))).all()
    assert np.std(np.concatenate([replay.newest(10**6).states, far]), axis=0).min() > 100.0 * found[1].memory.std.max()


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (1, {"steps": 1}),
        (1, {"steps": 3}),
        (2, {"steps": 12}),
        (3, {"steps": 24, "size": 0.0}),  # No departures at all: the centre alone was run.
    ],
)
@pytest.mark.parametrize("part", [SHARP, USUAL])
def test_a_few_dozen_transitions_are_enough_to_go_on(part: EpisodicLstd, count: int, options: dict[str, Any]) -> None:
    case = problem()
    critics = part.make(case.centre.space, Objective(GAMMA), 0)
    assert isinstance(critics, EpisodicCritics)
    critics.start_centre(case.centre, replay_of(case, count, **options), 1.0)
    states = np.random.default_rng(9).normal(size=(6, 3))
    for found in (
        critics.q(states, case.centre.actions(states) + 0.1),
        critics.values(states),
        critics.action_gradients(states, case.centre.actions(states)),
    ):
        assert np.isfinite(found).all()


def test_what_most_episodes_end_with_is_no_runaway(monkeypatch: pytest.MonkeyPatch) -> None:
    """A goal or a crash is one reward of an episode: in most of them it counts in full, in one of eight it is cut."""
    rewards, last = np.zeros(400), np.zeros(400, dtype=bool)
    last[49::50] = True
    rewards[last] = -100.0
    low, high, unit = episodic._reward_range(rewards, rewards, last)
    assert low <= -100.0
    assert high == -low
    assert unit < 1e-3  # Nearly all rewards are alike: without the ends they would be cut at three of these.
    rewards[last] = 0.0
    rewards[399] = -1e6
    assert episodic._reward_range(rewards, rewards, last)[0] > -1e-3
    monkeypatch.setattr(episodic, "RUNAWAYS", 0.0)  # Negative control: every episode is believed.
    assert episodic._reward_range(rewards, rewards, last)[0] == -1e6


def test_rewards_that_never_change() -> None:
    """Nothing to learn from rewards of zero; a constant one teaches values that are finite."""
    case, rng = problem(), np.random.default_rng(10)
    states = 0.3 * np.random.default_rng(11).normal(size=(6, 3))
    for rewards in (0.0, 1.0):
        replay = Replay(10_000, 3, 2)
        for _ in range(5):
            item = episode(case, rng)
            constant = np.full(len(item), rewards)
            replay.append(Trajectory.build(item.observations, item.actions, constant, terminated=False, truncated=True))
        critics = fitted(case, replay, USUAL)
        slopes = critics.action_gradients(states, case.centre.actions(states))
        assert np.isfinite(critics.values(states)).all()
        assert np.isfinite(slopes).all()
        assert rewards != 0.0 or (slopes == 0.0).all()


# ---- memory --------------------------------------------------------------


def test_the_memory_is_all_there_is() -> None:
    case, replay = problem(), replay_of(problem(), 8)
    one = fitted(case, replay, USUAL)
    other: Any = USUAL.make(case.centre.space, Objective(GAMMA), 0)
    other.memory = restore(other.memory, save(one.memory))
    states = np.random.default_rng(12).normal(size=(6, 3))
    np.testing.assert_array_equal(one.q(states, states[:, :2]), other.q(states, states[:, :2]))
    for critics in (one, other):
        critics.update(replay)
    np.testing.assert_array_equal(one.q(states, states[:, :2]), other.q(states, states[:, :2]))
    assert one.memory.fits == 2


def test_other_seeds_draw_other_features_and_the_newest_episodes_count() -> None:
    case, replay = problem(), replay_of(problem(), 30)
    states = np.random.default_rng(13).normal(size=(6, 3))

    def values(part: EpisodicLstd, seed: int = 0) -> np.ndarray:
        critics = part.make(case.centre.space, Objective(GAMMA), seed)
        critics.start_centre(case.centre, replay, 1.0)
        return critics.q(states, states[:, :2])

    usual = values(USUAL)
    np.testing.assert_array_equal(usual, values(USUAL))
    assert not np.allclose(usual, values(USUAL, seed=1))
    for changed in (
        EpisodicLstd(episodes=5, gammas=USUAL.gammas, traces=USUAL.traces, features=32, rows=2000),
        EpisodicLstd(episodes=24, gammas=USUAL.gammas, traces=USUAL.traces, features=32, rows=100),
        EpisodicLstd(
            episodes=24, gammas=USUAL.gammas, traces=USUAL.traces, features=32, rows=2000, off_policy_scale=0.01
        ),
    ):
        assert not np.allclose(usual, values(changed))


def test_members_are_all_pairs_of_reach_and_ridge() -> None:
    case = problem()
    critics = USUAL.make(case.centre.space, Objective(GAMMA), 0)
    assert critics.members == 2 * 2 * 2
    assert isinstance(critics, EpisodicCritics)
    with pytest.raises(NumericsError, match="start_centre first"):
        critics.q(np.zeros((1, 3)), np.zeros((1, 2)))
    fitted_critics = fitted(case, replay_of(case, 8), USUAL)
    distinct = {row.tobytes() for row in fitted_critics.memory.value}
    assert len(distinct) == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"episodes": 0},
        {"features": 0},
        {"gammas": ()},
        {"gammas": (1.1,)},
        {"traces": (-0.1,)},
        {"gammas": (0.9, 0.99), "traces": (0.95,)},  # A decay γλ beyond γ would be a λ above one.
        {"value_ridges": (0.0,)},
        {"value_ridges": ()},
        {"slope_ridge": 0.0},
        {"off_policy_scale": 0.0},
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="critics"):
        EpisodicLstd(**changes)


# ---- blocks of steps ---------------------------------------------------------


@given(lengths=st.lists(st.integers(1, 450), min_size=1, max_size=8), most=st.integers(1, 2000), seed=st.integers(0, 9))
def test_blocks_hold_every_step_once_or_leave_out_whole_blocks(lengths: list[int], most: int, seed: int) -> None:
    last = np.zeros(sum(lengths), dtype=bool)
    ends = np.cumsum(lengths)
    last[ends - 1] = True
    places, real = episodic._blocks(last, most, np.random.default_rng(seed))
    steps = places[real]
    assert len(np.unique(steps)) == len(steps)
    assert np.isin(ends - 1, steps).all()
    for row, kept in zip(places, real, strict=True):
        assert np.all(np.diff(row[kept]) == 1)
        assert not last[row[kept][:-1]].any()  # A block never crosses the end of an episode.
    if len(last) <= most:
        assert len(steps) == len(last)
    else:
        assert len(steps) <= max(most, episodic.BLOCK * len(lengths))


def test_the_systems_are_those_of_a_naive_loop() -> None:
    """Traces, sums and targets step by step, in Python; a wrong decay is told apart."""
    critics = fitted(problem(), replay_of(problem(), 5), USUAL)
    rng = np.random.default_rng(3)
    m, B, P, F = 4, episodic.BLOCK, 7, 3
    shapes = [(m, B, P), (m, B, F), (m, B), (m, B)]
    rows = episodic._Rows(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    systems, targets, squares = critics._sums(rows, critics.reach)

    def naive(gamma: float, decay: float) -> tuple[np.ndarray, np.ndarray]:
        system, target = np.zeros((P, P)), np.zeros(P)
        for block in range(m):
            trace = np.zeros(P)
            for step in range(B):
                trace = rows.now[block, step] + decay * trace
                difference = rows.now[block, step].astype(np.float64)
                difference[:F] -= gamma * rows.following[block, step]
                system += rows.weights[block, step] * np.outer(trace, difference)
                target += rows.weights[block, step] * trace * rows.rewards[block, step]
        return system, target

    for number, (gamma, trace) in enumerate(critics.reach):
        system, target = naive(gamma, trace)
        np.testing.assert_allclose(systems[number], system, atol=2e-3)
        np.testing.assert_allclose(targets[number], target, atol=2e-3)
        assert np.abs(systems[number] - naive(gamma, 0.8 * trace)[0]).max() > 0.1
    np.testing.assert_allclose(squares, np.einsum("mbp,mbp,mb->p", rows.now, rows.now, rows.weights), atol=2e-3)


def test_more_steps_than_rows_are_left_out_of_the_fit() -> None:
    case = problem()
    replay = replay_of(case, 2, steps=3 * episodic.BLOCK)
    parts = [replace(USUAL, rows=rows) for rows in (10**6, 600, 400)]
    slopes = [fitted(case, replay, part).memory.slopes for part in parts]
    np.testing.assert_array_equal(slopes[0], slopes[1])
    assert not np.allclose(slopes[0], slopes[2])


def test_with_more_steps_than_rows_the_first_decay_stands_for_all() -> None:
    """Where steps are left out, one-step targets have enough of them; members keep their places."""
    case = problem()
    replay = replay_of(case, 2, steps=3 * episodic.BLOCK)
    both, one = replace(USUAL, traces=(0.0, 0.7), rows=400), replace(USUAL, traces=(0.0,), rows=400)
    many, few = fitted(case, replay, both), fitted(case, replay, one)
    ridges = len(USUAL.value_ridges)
    for gamma in range(len(USUAL.gammas)):
        expected = few.memory.slopes[gamma * ridges : (gamma + 1) * ridges]
        for trace in range(2):
            start = (2 * gamma + trace) * ridges
            np.testing.assert_array_equal(many.memory.slopes[start : start + ridges], expected)
    whole = fitted(case, replay, replace(both, rows=600)).memory.slopes
    assert not np.allclose(whole[:ridges], whole[ridges : 2 * ridges])
