"""The learned model of a task and what is simulated in it (covers dynamics.py and simulation.py)."""

from typing import Any

import numpy as np
import pytest

from abps.data.replay import Transitions
from abps.model.dynamics import RAMP, RIDGES, Capacity, Dynamics, fit_dynamics
from abps.model.simulation import Episodes, simulated_gradients, simulated_returns
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.lqr import LqrSystem
from abps.tasks.spec import TaskSpec

GAMMA = 0.9
SPEC = TaskSpec("lqr", 2, 1, (-1.0,), (1.0,), gamma=GAMMA, horizon=60)
SYSTEM = LqrSystem(
    np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([[0.3], [0.6]]), np.eye(2), 0.3 * np.eye(1), GAMMA, np.zeros(2),
    np.eye(2), np.zeros((2, 2)),
)  # fmt: skip
EXACT, ROUGH = Capacity(0, 2, 1.0), Capacity(30, 3, 1.0)
EMPTY, BEST = Normaliser.empty(2), SYSTEM.optimal_gain().ravel()


def single(one: Any, two: Any, three: Any, four: Any) -> tuple[Any, Any, Any, Any]:
    """As a replay stores them."""
    return one.astype(np.float32), two.astype(np.float32), three.astype(np.float32), four.astype(np.float32)


def lqr_data(count: int = 300, noise: float = 0.0) -> Transitions:
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(count, 2)), rng.uniform(-1, 1, (count, 1))
    after = states @ SYSTEM.transition.T + actions @ SYSTEM.control.T + noise * rng.normal(size=(count, 2))
    rewards = -np.square(states).sum(1) - 0.3 * np.square(actions).sum(1)
    never = np.zeros(count, dtype=bool)
    return Transitions(*single(states, actions, rewards, after), never, never)


def falling_data(count: int = 500) -> Transitions:
    """A nonlinear task that ends when the first coordinate is large."""
    rng = np.random.default_rng(1)
    states, actions = rng.normal(size=(count, 2)), rng.uniform(-1, 1, (count, 1))
    after = states + 0.2 * np.sin(2 * states[:, ::-1]) + 0.3 * actions
    ended = np.abs(after[:, 0]) > 1.6
    rewards = 1.0 - 0.1 * np.cos(states[:, 1])
    return Transitions(*single(states, actions, rewards, after), ended, ended)


def model(data: Transitions, capacity: Capacity = ROUGH) -> Dynamics:
    return fit_dynamics(data, SPEC, capacity, np.random.default_rng(2))


# ---- the fit -------------------------------------------------------------


def test_a_linear_quadratic_task_is_found_exactly() -> None:
    dynamics, rng = model(lqr_data(), EXACT), np.random.default_rng(3)
    states, actions = 0.7 * rng.normal(size=(20, 2)), rng.uniform(-1, 1, (20, 1))
    step = dynamics.step(states, actions)
    np.testing.assert_allclose(step.next_states, states @ SYSTEM.transition.T + actions @ SYSTEM.control.T, atol=1e-5)
    np.testing.assert_allclose(step.rewards, -np.square(states).sum(1) - 0.3 * actions[:, 0] ** 2, atol=1e-5)
    np.testing.assert_array_equal(step.going_on, 1.0)
    assert dynamics.scores.min() > 0.999999


def test_capacity_follows_the_data() -> None:
    few, some, many = (model(Transitions._make(part[:count] for part in lqr_data())) for count in (20, 40, 300))
    assert (few.products, few.phases.size) == (False, 3)
    assert (some.products, some.phases.size) == (True, 4)
    assert (many.products, many.phases.size) == (True, 30)
    assert few.scores[-1] < 0.9  # Without products no square is found.


def test_scores_are_those_of_a_naive_loop_over_left_out_transitions() -> None:
    data = lqr_data(30, noise=0.3)
    dynamics = model(data, Capacity(4, 1, 1.0))
    scaled = np.column_stack([(data.states - dynamics.mean) / dynamics.std, data.actions])
    rows, columns = np.triu_indices(3)
    waves = np.cos(scaled @ dynamics.frequencies + dynamics.phases)
    features = np.column_stack([scaled, scaled[:, rows] * scaled[:, columns], waves])
    targets = np.column_stack([(data.next_states.astype(float) - data.states) / dynamics.std, data.rewards])
    unit, errors = np.linalg.eigvalsh(np.cov(features.T, bias=True)).mean(), []
    for ridge in RIDGES:
        missed = np.empty_like(targets)
        for left in range(30):
            kept = np.arange(30) != left
            design = np.column_stack([np.ones(29), features[kept]])
            penalty = 30 * ridge * unit * np.diag([0.0, *np.ones(features.shape[1])])
            found = np.linalg.solve(design.T @ design + penalty, design.T @ targets[kept])
            missed[left] = targets[left] - np.append(1.0, features[left]) @ found
        errors.append(np.square(missed).mean(0))
    np.testing.assert_allclose(dynamics.scores, 1.0 - np.min(errors, axis=0) / targets.var(axis=0), rtol=1e-6)


def test_predictions_stay_near_what_was_seen() -> None:
    data = lqr_data()
    dynamics = model(data, EXACT)
    step = dynamics.step(np.array([[1e3, -1e3]]), np.array([[1.0]]))
    both = np.concatenate([data.states, data.next_states])
    span = both.max(0) - both.min(0)
    np.testing.assert_allclose(step.next_states[0], [both.max(0)[0] + 0.2 * span[0], both.min(0)[1] - 0.2 * span[1]])
    assert step.rewards[0] == pytest.approx(dynamics.low[-1])
    pulled = dynamics.pullback(step, np.ones((1, 2)), np.ones(1), np.ones(1))
    assert not np.any(pulled[0])
    assert not np.any(pulled[1])


def test_an_ending_is_learned_from_episodes_that_ended() -> None:
    dynamics = model(falling_data())
    rng = np.random.default_rng(4)
    states, actions = rng.normal(size=(400, 2)), rng.uniform(-1, 1, (400, 1))
    step = dynamics.step(states, actions)
    outside = np.abs(step.next_states[:, 0])
    assert step.going_on[outside > 2.2].max() < 0.1
    assert step.going_on[outside < 0.8].min() == 1.0
    assert 0.0 < np.mean((step.going_on > 0) & (step.going_on < 1)) < 0.4
    assert RAMP[0] < RAMP[1]


def test_the_pullback_of_a_step_is_its_derivative() -> None:
    dynamics, rng = model(falling_data()), np.random.default_rng(5)
    states, actions = 0.9 * rng.normal(size=(60, 2)), rng.uniform(-1, 1, (60, 1))
    back = rng.normal(size=(60, 2)), rng.normal(size=60), rng.normal(size=60)

    def total(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        step = dynamics.step(states, actions)
        return (back[0] * step.next_states).sum(1) + back[1] * step.rewards + back[2] * step.going_on

    step = dynamics.step(states, actions)
    assert np.any((step.going_on > 0) & (step.going_on < 1))
    to_states, to_actions = dynamics.pullback(step, *back)
    for k, unit in enumerate(1e-6 * np.eye(2)):
        numeric = (total(states + unit, actions) - total(states - unit, actions)) / 2e-6
        np.testing.assert_allclose(to_states[:, k], numeric, atol=1e-6)
    numeric = (total(states, actions + 1e-6) - total(states, actions - 1e-6)) / 2e-6
    np.testing.assert_allclose(to_actions[:, 0], numeric, atol=1e-6)


# ---- simulation ----------------------------------------------------------


def real_returns(gains: np.ndarray, starts: np.ndarray, steps: int, shift: float = 0.0) -> np.ndarray:
    """Naive twin: the system itself, from every start."""
    found = np.zeros((len(gains), len(starts)))
    for i, gain in enumerate(gains):
        for j, start in enumerate(starts):
            state = start
            for t in range(steps):
                action = gain.reshape(1, 2) @ state
                found[i, j] += GAMMA**t * (-state @ state - 0.3 * action @ action - shift)
                state = SYSTEM.transition @ state + SYSTEM.control @ action
    return found


def test_returns_in_an_exact_model_are_those_of_the_task() -> None:
    space, rng = PolicySpace(ClippedLinear(), SPEC), np.random.default_rng(6)
    gains, starts = BEST + 0.1 * rng.normal(size=(4, 2)), 0.4 * rng.normal(size=(5, 2))
    episodes = Episodes(starts, 25, GAMMA, shift=0.2)
    found = simulated_returns(model(lqr_data(), EXACT), space, gains, EMPTY, episodes)
    np.testing.assert_allclose(found, real_returns(gains, starts, 25, 0.2).mean(1), rtol=1e-4)
    biased = simulated_returns(model(lqr_data(), EXACT), space, gains, EMPTY, episodes._replace(shift=0.0))
    assert np.abs(biased - found).min() > 1.0  # Without the shift it would be noticed.


def test_gradients_in_an_exact_model_are_those_of_the_task() -> None:
    space, rng = PolicySpace(ClippedLinear(), SPEC), np.random.default_rng(7)
    gain, starts = 0.5 * BEST, 0.4 * rng.normal(size=(5, 2))
    values, gradients = simulated_gradients(
        model(lqr_data(), EXACT), space.policy(gain, EMPTY), Episodes(starts, 40, GAMMA)
    )
    np.testing.assert_allclose(values, real_returns(gain[None], starts, 40)[0], rtol=1e-4)
    for k, unit in enumerate(1e-5 * np.eye(2)):
        up, down = (real_returns((gain + sign * unit)[None], starts, 40)[0] for sign in (1, -1))
        np.testing.assert_allclose(gradients[:, k], (up - down) / 2e-5, rtol=1e-3, atol=1e-4)


def test_gradients_through_endings_are_those_of_differences() -> None:
    space, dynamics = PolicySpace(LinearTanh(bias=True), SPEC), model(falling_data())
    policy = space.policy(np.array([0.4, -0.3, 0.1]), EMPTY)
    episodes = Episodes(0.8 * np.random.default_rng(8).normal(size=(6, 2)), 30, 0.97, shift=0.1)
    values, gradients = simulated_gradients(dynamics, policy, episodes)
    assert np.isfinite(gradients).all()
    assert values.max() < 0.95 * (1 - 0.97**30) / 0.03  # Some episodes end before their time.

    def returns(parameters: np.ndarray) -> np.ndarray:
        single = [episodes._replace(starts=start[None]) for start in episodes.starts]
        return np.array([simulated_returns(dynamics, space, parameters[None], EMPTY, one)[0] for one in single])

    np.testing.assert_allclose(returns(policy.parameters), values, rtol=1e-10)
    for k, unit in enumerate(1e-6 * np.eye(3)):
        numeric = (returns(policy.parameters + unit) - returns(policy.parameters - unit)) / 2e-6
        np.testing.assert_allclose(gradients[:, k], numeric, rtol=1e-4, atol=1e-5)
