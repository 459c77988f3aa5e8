"""The residual bound: it holds on tasks with known constants, and constants that are too small are caught."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.errors import ConfigError
from abps.seeding import generator
from abps.tasks.lqr import LqrSystem
from abps.theory import LipschitzProblem, linear_policy_lipschitz

RADIUS = 2.0


def scaled(rng: np.random.Generator, rows: int, columns: int, norm: float) -> np.ndarray:
    """A random matrix of the given spectral norm."""
    matrix = rng.standard_normal((rows, columns))
    return matrix * (norm / np.linalg.norm(matrix, 2))


def bounded_lqr(seed: int, policy: float, gamma: float) -> tuple[np.random.Generator, LqrSystem, LipschitzProblem]:
    """An LQR that keeps the ball ‖s‖ ≤ RADIUS: ‖A‖ = ‖B‖ = L_p and L_p (1 + L_π) = 1, no noise, a start on its edge.

    On ‖s‖ ≤ RADIUS, ‖a‖ ≤ L_π·RADIUS the quadratic reward has the slope 2‖C‖RADIUS in s and 2‖D‖L_π·RADIUS in a.
    """
    rng = generator(seed, "bounded-lqr")
    states, actions = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    transition = 1.0 / (1.0 + policy)
    roots = rng.standard_normal((states, states)), rng.standard_normal((actions, actions))
    start = rng.standard_normal(states)
    system = LqrSystem(
        transition=scaled(rng, states, states, transition),
        control=scaled(rng, states, actions, transition),
        state_cost=roots[0] @ roots[0].T,
        action_cost=roots[1] @ roots[1].T + 0.1 * np.eye(actions),
        gamma=gamma,
        initial_mean=RADIUS * start / np.linalg.norm(start),
        initial_covariance=np.zeros((states, states)),
        noise=np.zeros((states, states)),
    )
    slopes = np.linalg.norm(system.state_cost, 2), policy * np.linalg.norm(system.action_cost, 2)
    reward = 2.0 * RADIUS * float(max(slopes))
    return rng, system, LipschitzProblem(reward, transition, policy, gamma)


def residual(system: LqrSystem, centre: np.ndarray, other: np.ndarray) -> float:
    """|J(x) − J(θ) − ⟨d^θ, A^θ(·, π_x)⟩|, exactly."""
    difference = system.expected_return(other) - system.expected_return(centre)
    return abs(difference - system.expected_advantage(visited_by=centre, critic_of=centre, policy=other))


@given(seed=st.integers(0, 100_000), policy=st.floats(0.01, 3.0), gamma=st.floats(0.05, 0.99))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_measured_residual_obeys_both_forms(seed, policy, gamma):
    rng, system, problem = bounded_lqr(seed, policy, gamma)
    for _ in range(5):
        centre, other = (scaled(rng, system.actions, system.states, rng.uniform() * policy) for _ in range(2))
        assert linear_policy_lipschitz(centre, other) <= policy
        measured, distance = residual(system, centre, other), float(np.linalg.norm(other - centre, 2))
        # sup over the ball of ‖(x − θ) s‖ is the radius times the spectral norm, so both forms are the same number
        # here.
        assert measured <= problem.residual_bound(RADIUS * distance) * (1 + 1e-9)
        assert measured <= problem.linear_residual_bound(RADIUS, float(np.linalg.norm(other - centre)))
        assert measured <= problem.coarse_constant * RADIUS * distance * (1 + 1e-9)


@given(seed=st.integers(0, 100_000), policy=st.floats(0.01, 3.0), gamma=st.floats(0.05, 0.99))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_pieces_of_the_proof_hold(seed, policy, gamma):
    """Slopes of Q and of the advantage between random pairs of states and actions."""
    rng, system, problem = bounded_lqr(seed, policy, gamma)
    centre, other = (scaled(rng, system.actions, system.states, policy) for _ in range(2))
    states, others = (ball(rng, 40, system.states, RADIUS) for _ in range(2))
    actions, moves = (ball(rng, 40, system.actions, policy * RADIUS) for _ in range(2))
    change = np.abs(system.action_value(centre, states, actions) - system.action_value(centre, others, moves))
    apart = np.linalg.norm(states - others, axis=1) + np.linalg.norm(actions - moves, axis=1)
    assert np.all(change <= problem.action_value * apart * (1 + 1e-9))
    advantages = [system.advantage(centre, points, points @ other.T) for points in (states, others)]
    steps = np.linalg.norm(states - others, axis=1)
    assert np.all(np.abs(advantages[0] - advantages[1]) <= problem.advantage * steps * (1 + 1e-9))


def ball(rng: np.random.Generator, points: int, size: int, radius: float) -> np.ndarray:
    directions = rng.standard_normal((points, size))
    return radius * rng.uniform(size=(points, 1)) * directions / np.linalg.norm(directions, axis=1, keepdims=True)


# -- a task on which the bound is nearly attained -------------------------------------------------------------------


def bilinear_residual(gamma: float, steps: int = 4000) -> float:
    """s' = s/2 + a/2, r = s·a on |s|, |a| ≤ 1 from s₀ = 0, for the constant policies θ = 1 and x = −1; by summation.

    L_r = 1, L_p = 1/2, L_π = 0, sup‖π_x − π_θ‖ = 2. Advantages are differences of two simulated action values.
    """
    discounts = gamma ** np.arange(steps)

    def visited(start: np.ndarray, action: float, length: int) -> np.ndarray:
        states = [start]
        for _ in range(length - 1):
            states.append(0.5 * states[-1] + 0.5 * action)
        return np.array(states)

    def centre_value(start: np.ndarray) -> np.ndarray:
        return discounts @ visited(start, 1.0, steps)

    def advantage(states: np.ndarray) -> np.ndarray:
        values = [states * a + gamma * centre_value(0.5 * states + 0.5 * a) for a in (-1.0, 1.0)]
        return values[0] - values[1]

    paths = [visited(np.zeros(1), action, steps)[:, 0] for action in (-1.0, 1.0)]
    seen = [np.unique(path, return_inverse=True) for path in paths]  # few distinct states: the path converges
    sums = [float(discounts @ advantage(states)[index]) for states, index in seen]
    return abs(sums[0] - sums[1])


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_the_bilinear_task_comes_close_to_the_bound(gamma):
    problem = LipschitzProblem(reward=1.0, transition=0.5, policy=0.0, gamma=gamma)
    ratio = bilinear_residual(gamma) / problem.residual_bound(2.0)
    assert ratio == pytest.approx(1.0 - gamma / 2.0, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_understated_constants_are_caught(gamma):
    """Negative control: halve a constant of the bilinear task, and its residual is no longer covered."""
    measured = bilinear_residual(gamma)
    assert measured > LipschitzProblem(1.0, 0.25, 0.0, gamma).residual_bound(2.0)
    assert measured > LipschitzProblem(0.5, 0.5, 0.0, gamma).residual_bound(2.0)


def test_the_printed_constant_is_violated():
    """L_π in place of L_p is wrong (constant policies move the state too), and so is leaving out 1/(1−γ)."""
    measured = bilinear_residual(0.9)
    for policy in (0.0, 0.1):  # constant policies are L_π-Lipschitz for every L_π ≥ 0
        problem = LipschitzProblem(1.0, 0.5, policy, 0.9)
        assert measured > problem.residual_bound(2.0, form="paper")
        assert measured <= problem.residual_bound(2.0)
    exact = LipschitzProblem(1.0, 0.5, 0.0, 0.9)
    assert exact.constant("paper") == 0.0
    # With L_p put right but the mass of the improper measures forgotten:
    assert measured > (1.0 - 0.9) * exact.residual_bound(2.0)


def test_the_visitation_constant_is_attained_and_understated_ones_are_caught():
    """Wasserstein-1 of the two visitation measures; in one dimension with ordered paths it is Σ γᵗ |s_t − s'_t|."""
    gamma, state, total = 0.9, 0.0, 0.0
    for t in range(2000):
        total, state = total + gamma**t * 2.0 * abs(state), 0.5 * state + 0.5
    problem = LipschitzProblem(1.0, 0.5, 0.0, gamma)
    assert total == pytest.approx(problem.visitation * 2.0, rel=1e-9)
    assert total > LipschitzProblem(1.0, 0.49, 0.0, gamma).visitation * 2.0


def test_constants_by_hand():
    problem = LipschitzProblem(reward=3.0, transition=0.5, policy=0.5, gamma=0.8)
    assert problem.contraction == pytest.approx(0.6)
    assert problem.action_value == pytest.approx(7.5)
    assert problem.constant() == pytest.approx(2 * 0.8 * 0.5 * 3 * 1.5 / (0.2 * 0.4**2))
    assert problem.constant("paper") == pytest.approx(2 * 0.8 * 0.5 * 3 * 1.5 / 0.4**2)
    assert problem.coarse_constant == pytest.approx(75.0)
    assert problem.coarse_constant < problem.constant()  # κ > 1/2
    assert problem.linear_residual_bound(2.0, 0.25) == problem.residual_bound(0.5)
    assert linear_policy_lipschitz([[3.0, 4.0]], [[1.0, 0.0]]) == pytest.approx(5.0)


def test_preconditions_are_named():
    with pytest.raises(ConfigError, match=r"γ·L_p·\(1 \+ L_π\) < 1, got 1.8"):
        LipschitzProblem(1.0, 1.0, 1.0, 0.9)
    with pytest.raises(ConfigError, match="gamma"):
        LipschitzProblem(1.0, 0.1, 0.1, 1.0)
    for bad in ((-1.0, 0.1, 0.1), (1.0, np.nan, 0.1), (1.0, 0.1, np.inf)):
        with pytest.raises(ConfigError, match="Lipschitz constant"):
            LipschitzProblem(*bad, 0.9)
    problem = LipschitzProblem(1.0, 0.1, 0.1, 0.9)
    for call in (
        lambda: problem.constant("published"),
        lambda: problem.residual_bound(-1.0),
        lambda: problem.linear_residual_bound(-1.0, 1.0),
        lambda: problem.residual_bound(np.nan),
        linear_policy_lipschitz,
    ):
        with pytest.raises(ConfigError):
            call()
