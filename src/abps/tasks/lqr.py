"""Linear-quadratic tasks: a Gymnasium environment and, apart from it, everything about it in closed form.

This is the oracle of the project: returns, action values, visitation moments and policy gradients that other parts
estimate are known here exactly, from Lyapunov and Riccati equations.

    s' = A s + B a + w,  w ~ N(0, Ω),    r = −(sᵀ C s + aᵀ D a),    s₀ ~ N(mean, covariance),    a = W s.

**Convention**: a policy is its gain W with a = + W s, so that W.reshape(-1) is the parameter vector of the library's
`clipped-linear` policy class (control texts write a = −K s, W = −K). Symbols: F = A + B W the closed loop, P the
cost-to-go matrix, S = Σ_t γᵗ E[s sᵀ] the visitation moments. Shapes: s state size, a action size, m points; A (s, s), B
(s, a), W (a, s).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.seeding import generator
from abps.tasks.config import TaskConfig

__all__ = ["LqrEnv", "LqrSystem", "lqr_task", "make_env", "random_gain", "random_system"]


GAMMA = 0.95
HORIZON = 200
"""What is cut off carries the weight 0.95²⁰⁰ ≈ 4e-5; `finite_return` is exact for the truncated episode anyway."""
FACTORY = re.compile(r"s(\d+)_a(\d+)_seed(\d+)")


@dataclass(frozen=True, eq=False)
class LqrSystem:
    """A discounted linear-quadratic problem and its closed forms for linear policies a = W s.

    Methods without the word `finite` are about the infinite discounted horizon; they raise a `ConfigError` when the
    return is infinite, that is, when √γ·ρ(A + B W) ≥ 1, or γ = 1 together with process noise.
    """

    transition: Array
    """A (s, s)"""
    control: Array
    """B (s, a)"""
    state_cost: Array
    """C (s, s), symmetric positive semi-definite"""
    action_cost: Array
    """D (a, a), symmetric positive definite"""
    gamma: float
    initial_mean: Array
    """(s,)"""
    initial_covariance: Array
    """(s, s); zeros: every episode starts at `initial_mean`"""
    noise: Array
    """Ω (s, s), the process noise covariance; zeros: the dynamics are deterministic"""

    def __post_init__(self) -> None:
        states, actions = np.shape(self.control) if np.ndim(self.control) == 2 else (0, 0)
        if states < 1 or actions < 1:
            raise ShapeError(f"control must have shape (states, actions), got {np.shape(self.control)}")
        shapes = {
            "transition": (states, states),
            "control": (states, actions),
            "state_cost": (states, states),
            "action_cost": (actions, actions),
            "initial_mean": (states,),
            "initial_covariance": (states, states),
            "noise": (states, states),
        }
        for name, shape in shapes.items():
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != shape or not np.all(np.isfinite(array)):
                raise ShapeError(f"{name} must be finite with shape {shape}, got shape {array.shape}")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        for name in ("state_cost", "action_cost", "initial_covariance", "noise"):
            _require_semidefinite(name, getattr(self, name), strict=name == "action_cost")
        if not 0.0 < self.gamma <= 1.0:
            raise ConfigError(f"gamma must be in (0, 1], got {self.gamma}")

    @property
    def states(self) -> int:
        return self.control.shape[0]

    @property
    def actions(self) -> int:
        return self.control.shape[1]

    @property
    def initial_moments(self) -> Array:
        """E[s₀ s₀ᵀ] (s, s)."""
        return self.initial_covariance + np.outer(self.initial_mean, self.initial_mean)

    # -- one policy: pieces ------------------------------------------------------------------------------------------

    def closed_loop(self, gain: ArrayLike) -> Array:
        """F = A + B W."""
        return self.transition + self.control @ self._gain(gain)

    def running_cost(self, gain: ArrayLike) -> Array:
        """M = C + Wᵀ D W, so that the policy's reward at s is −sᵀ M s."""
        weights = self._gain(gain)
        return self.state_cost + weights.T @ self.action_cost @ weights

    def discounted_radius(self, gain: ArrayLike) -> float:
        """√γ·ρ(A + B W); below one exactly when every initial state has a finite return."""
        return float(np.sqrt(self.gamma) * np.max(np.abs(np.linalg.eigvals(self.closed_loop(gain)))))

    def is_finite(self, gain: ArrayLike) -> bool:
        """Whether the infinite-horizon return of the policy is finite from every initial state."""
        noisy = bool(np.any(self.noise))
        return self.discounted_radius(gain) < 1.0 and not (noisy and self.gamma == 1.0)

    def cost_to_go(self, gain: ArrayLike) -> Array:
        """P (s, s) with P = M + γ Fᵀ P F: the infinite-horizon cost from s is sᵀ P s plus the noise's share.

        Raises:
            ConfigError: the return is infinite.
        """
        self._require_finite(gain)
        loop = np.sqrt(self.gamma) * self.closed_loop(gain)
        return _symmetric(solve_discrete_lyapunov(loop.T, self.running_cost(gain)))

    def visitation_moments(self, gain: ArrayLike) -> Array:
        """S = Σ_t γᵗ E[s_t s_tᵀ] (s, s), second moments of the improper visitation measure d^π.

        Raises:
            ConfigError: the return is infinite.
        """
        self._require_finite(gain)
        loop = np.sqrt(self.gamma) * self.closed_loop(gain)
        return _symmetric(solve_discrete_lyapunov(loop, self.initial_moments + self._discounted_noise()))

    def visitation_mean(self, gain: ArrayLike) -> Array:
        """Σ_t γᵗ E[s_t] (s,)."""
        self._require_finite(gain)
        operator: Array = np.eye(self.states) - self.gamma * self.closed_loop(gain)
        return np.asarray(np.linalg.solve(operator, self.initial_mean), dtype=np.float64)

    # -- one policy: values ------------------------------------------------------------------------------------------

    def expected_return(self, gain: ArrayLike) -> float:
        """J(W) = −tr(P E[s₀s₀ᵀ]) − γ/(1−γ)·tr(P Ω)."""
        cost = self.cost_to_go(gain)
        return -float(np.sum(cost * (self.initial_moments + self._discounted_noise())))

    def value(self, gain: ArrayLike, observations: ArrayLike) -> Array:
        """V(s) for states (m, s) or (s,): (m,) or a scalar array."""
        cost = self.cost_to_go(gain)
        return -(_quadratic(self._points(observations, self.states), cost) + self._noise_share(cost))

    def action_value(self, gain: ArrayLike, observations: ArrayLike, actions: ArrayLike) -> Array:
        """Q(s, a): the return of taking a in s and following W afterwards; (m, s), (m, a) → (m,)."""
        cost = self.cost_to_go(gain)
        points, moves = self._points(observations, self.states), self._points(actions, self.actions)
        after = points @ self.transition.T + moves @ self.control.T
        now = _quadratic(points, self.state_cost) + _quadratic(moves, self.action_cost)
        # One step of noise costs γ·tr(PΩ), all later ones γ·(the share of V): together again the share of V.
        return -(now + self.gamma * _quadratic(after, cost) + self._noise_share(cost))

    def action_value_gradient(self, gain: ArrayLike, observations: ArrayLike, actions: ArrayLike) -> Array:
        """∂Q(s, a)/∂a: (m, s), (m, a) → (m, a)."""
        cost = self.cost_to_go(gain)
        points, moves = self._points(observations, self.states), self._points(actions, self.actions)
        after = points @ self.transition.T + moves @ self.control.T
        return -2.0 * (moves @ self.action_cost + self.gamma * after @ cost @ self.control)

    def advantage(self, gain: ArrayLike, observations: ArrayLike, actions: ArrayLike) -> Array:
        """A(s, a) = Q(s, a) − V(s)."""
        return self.action_value(gain, observations, actions) - self.value(gain, observations)

    def gradient(self, gain: ArrayLike) -> Array:
        """∇J(W) (a, s), the deterministic policy gradient −2 (D W + γ Bᵀ P F) S."""
        weights = self._gain(gain)
        future = self.gamma * self.control.T @ self.cost_to_go(gain) @ self.closed_loop(gain)
        return -2.0 * (self.action_cost @ weights + future) @ self.visitation_moments(gain)

    # -- two policies ------------------------------------------------------------------------------------------------

    def expected_advantage(self, visited_by: ArrayLike, critic_of: ArrayLike, policy: ArrayLike) -> float:
        """⟨d^{visited_by}, A^{critic_of}(·, policy(·))⟩, the inner product of the paper's Eqs. (pdl) and (adv_mean).

        With `visited_by` = `policy` it is J(policy) − J(critic_of), the performance-difference lemma; with
        `visited_by` = `critic_of` it is the part of that difference that the advantage mean function sees.
        """
        cost, loop = self.cost_to_go(critic_of), self.closed_loop(policy)
        excess = self.running_cost(policy) + self.gamma * loop.T @ cost @ loop - cost
        return -float(np.sum(excess * self.visitation_moments(visited_by)))

    def optimal_gain(self) -> Array:
        """The gain W* (a, s) that maximises J, from the discounted Riccati equation.

        Raises:
            ConfigError: no gain stabilises the discounted system.
        """
        root = np.sqrt(self.gamma)
        try:
            cost = solve_discrete_are(root * self.transition, root * self.control, self.state_cost, self.action_cost)
        except np.linalg.LinAlgError as error:
            raise ConfigError(
                f"the discounted Riccati equation has no solution ({error}): no gain stabilises it; check A and B"
            ) from error
        inner = self.action_cost + self.gamma * self.control.T @ cost @ self.control
        return -np.linalg.solve(inner, self.gamma * self.control.T @ cost @ self.transition)

    # -- truncated episodes ------------------------------------------------------------------------------------------

    def finite_return(self, gain: ArrayLike, horizon: int) -> float:
        """E[Σ_{t<T} γᵗ r_t] of an episode truncated after `horizon` steps; finite for unstable policies too."""
        cost, share = self._finite_costs(gain, horizon)
        return -float(np.sum(cost[0] * self.initial_moments) + share)

    def finite_moments(self, gain: ArrayLike, horizon: int) -> Array:
        """Σ_{t<T} γᵗ E[s_t s_tᵀ] (s, s)."""
        return np.tensordot(self.gamma ** np.arange(horizon), self._state_moments(gain, horizon), axes=1)

    def finite_gradient(self, gain: ArrayLike, horizon: int) -> Array:
        """Gradient of `finite_return` (a, s)."""
        weights, loop = self._gain(gain), self.closed_loop(gain)
        cost, _ = self._finite_costs(gain, horizon)
        slope = self.action_cost @ weights + self.gamma * self.control.T @ cost[1:] @ loop
        weighted = self.gamma ** np.arange(horizon)[:, None, None] * self._state_moments(gain, horizon)
        return -2.0 * np.sum(slope @ weighted, axis=0)

    # -- private -----------------------------------------------------------------------------------------------------

    def _finite_costs(self, gain: ArrayLike, horizon: int) -> tuple[Array, float]:
        """Backward recursion: P_t for t = 0…T (T + 1, s, s) with P_T = 0, and the noise's cost over the episode."""
        if horizon < 1:
            raise ConfigError(f"horizon must be at least 1, got {horizon}")
        running, loop = self.running_cost(gain), self.closed_loop(gain)
        cost, share = np.zeros((horizon + 1, self.states, self.states)), 0.0
        for t in range(horizon - 1, -1, -1):
            share = self.gamma * (share + float(np.sum(cost[t + 1] * self.noise)))
            cost[t] = running + self.gamma * loop.T @ cost[t + 1] @ loop
        return cost, share

    def _state_moments(self, gain: ArrayLike, horizon: int) -> Array:
        """E[s_t s_tᵀ] for t < T, undiscounted: (T, s, s)."""
        if horizon < 1:
            raise ConfigError(f"horizon must be at least 1, got {horizon}")
        loop = self.closed_loop(gain)
        moments = np.empty((horizon, self.states, self.states))
        moments[0] = self.initial_moments
        for t in range(1, horizon):
            moments[t] = loop @ moments[t - 1] @ loop.T + self.noise
        return moments

    def _discounted_noise(self) -> Array:
        """γ/(1−γ)·Ω: what the noise of all steps adds to the initial moments."""
        if not np.any(self.noise):
            return np.zeros_like(self.noise)
        return self.gamma / (1.0 - self.gamma) * self.noise

    def _noise_share(self, cost: Array) -> float:
        return float(np.sum(cost * self._discounted_noise()))

    def _gain(self, gain: ArrayLike) -> Array:
        """W as (a, s); the flat parameter vector (a·s,) of a policy is taken too."""
        weights = np.asarray(gain, dtype=np.float64)
        if weights.shape == (self.actions * self.states,):
            weights = weights.reshape(self.actions, self.states)
        if weights.shape != (self.actions, self.states):
            raise ShapeError(f"gain must have shape ({self.actions}, {self.states}), got {weights.shape}")
        return weights

    def _points(self, points: ArrayLike, size: int) -> Array:
        array = np.asarray(points, dtype=np.float64)
        if array.ndim < 1 or array.shape[-1] != size:
            raise ShapeError(f"points must have {size} columns, got shape {array.shape}")
        return array

    def _require_finite(self, gain: ArrayLike) -> None:
        radius = self.discounted_radius(gain)
        if radius >= 1.0:
            raise ConfigError(
                f"the discounted return is infinite: √γ·ρ(A + BW) = {radius:.6g}, must be below 1; "
                "use a stabilising gain, a smaller gamma, or the finite_* functions"
            )
        if self.gamma == 1.0 and np.any(self.noise):
            raise ConfigError("the undiscounted return is infinite under process noise; use gamma < 1 or finite_*")


class LqrEnv(gymnasium.Env[NDArray[np.float64], NDArray[Any]]):
    """The system as an environment: observations are states, episodes never terminate, only the horizon truncates.

    Actions beyond ±`action_bound` are clipped, as an actuator would, and then `info["clipped"]` is true. The bound must
    be wide enough that the policies of interest stay inside it, for only those are linear and obey the closed forms.
    """

    def __init__(self, system: LqrSystem, *, horizon: int = HORIZON, action_bound: float = 1e3) -> None:
        if horizon < 1:
            raise ConfigError(f"horizon must be at least 1, got {horizon}")
        if not (np.isfinite(action_bound) and action_bound > 0):
            raise ConfigError(f"action_bound must be positive and finite, got {action_bound}")
        self.system, self.horizon = system, horizon
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (system.states,), np.float64)
        self.action_space = gymnasium.spaces.Box(-action_bound, action_bound, (system.actions,), np.float64)
        self._bound = float(action_bound)
        self._initial_root = _root(system.initial_covariance)
        self._noise_root = _root(system.noise) if np.any(system.noise) else None
        self._state, self._steps = system.initial_mean, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Draw an initial state; `options={"state": s}` starts there instead."""
        super().reset(seed=seed)
        draw = self.np_random.standard_normal(self.system.states)
        self._state = self.system.initial_mean + self._initial_root @ draw
        if options is not None and "state" in options:
            self._state = np.array(options["state"], dtype=np.float64).reshape(self.system.states)
        self._steps = 0
        return self._state.copy(), {}

    def step(self, action: NDArray[Any]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        system, state = self.system, self._state
        wanted = np.asarray(action, dtype=np.float64)
        applied = np.clip(wanted, -self._bound, self._bound)
        reward = -float(state @ system.state_cost @ state + applied @ system.action_cost @ applied)
        state = system.transition @ state + system.control @ applied
        if self._noise_root is not None:
            state = state + self._noise_root @ self.np_random.standard_normal(system.states)
        self._state, self._steps = state, self._steps + 1
        return state.copy(), reward, False, self._steps >= self.horizon, {"clipped": bool(np.any(applied != wanted))}


def random_system(
    rng: np.random.Generator,
    states: int,
    actions: int,
    *,
    gamma: float = GAMMA,
    radius: float = 0.9,
    noise: float = 0.0,
    fixed_start: bool = False,
) -> LqrSystem:
    """Draw a system of any size that is stable without control, so that W = 0 is a legal policy.

    Args:
        rng: where the numbers come from.
        states: s.
        actions: a.
        gamma: discount.
        radius: spectral radius of A; √γ·radius must be below one.
        noise: standard deviation scale of the process noise; 0: deterministic dynamics.
        fixed_start: start every episode at one random state instead of drawing it.

    Raises:
        ConfigError: sizes below one, or the open loop would have an infinite return.
    """
    if states < 1 or actions < 1:
        raise ConfigError(f"a system needs at least one state and one action, got {states} and {actions}")
    if not 0.0 <= np.sqrt(gamma) * radius < 1.0:
        raise ConfigError(f"√gamma·radius must be in [0, 1) for a stable open loop, got {np.sqrt(gamma) * radius:.6g}")
    transition = rng.standard_normal((states, states))
    transition *= radius / max(float(np.max(np.abs(np.linalg.eigvals(transition)))), 1e-12)
    return LqrSystem(
        transition=transition,
        control=rng.standard_normal((states, actions)) / np.sqrt(states),
        state_cost=_random_covariance(rng, states),
        action_cost=_random_covariance(rng, actions),
        gamma=gamma,
        initial_mean=rng.standard_normal(states),
        initial_covariance=np.zeros((states, states)) if fixed_start else _random_covariance(rng, states),
        noise=noise**2 * _random_covariance(rng, states),
    )


def random_gain(rng: np.random.Generator, system: LqrSystem, *, scale: float = 0.3) -> Array:
    """Draw a gain W (a, s) with a finite return: a Gaussian one, halved until the closed loop is stable."""
    gain = scale * rng.standard_normal((system.actions, system.states)) / np.sqrt(system.states)
    for _ in range(60):
        if system.is_finite(gain):
            return gain
        gain = gain / 2.0
    raise ConfigError("no stable gain near zero: the open loop itself has an infinite return")


def make_env(
    states: int = 3,
    actions: int = 2,
    seed: int = 0,
    *,
    gamma: float = GAMMA,
    noise: float = 0.0,
    fixed_start: bool = False,
    horizon: int = HORIZON,
    action_bound: float = 1e3,
) -> LqrEnv:
    """A random LQR environment named by a seed; usable as the task `abps.tasks.lqr:make_env`."""
    rng = generator(seed, "lqr", states, actions)
    system = random_system(rng, states, actions, gamma=gamma, noise=noise, fixed_start=fixed_start)
    return LqrEnv(system, horizon=horizon, action_bound=action_bound)


def lqr_task(states: int, actions: int, seed: int) -> TaskConfig:
    """Settings under which a search solves a random deterministic LQR: its parameters are W.reshape(-1), exactly."""
    return TaskConfig(
        id=f"{__name__}:s{states}_a{actions}_seed{seed}",
        name=f"lqr-s{states}-a{actions}-s{seed}",
        gamma=GAMMA,
        horizon=HORIZON,
    )


def __getattr__(name: str) -> Callable[[], LqrEnv]:
    """Factories by name, for `module:factory` tasks: `abps.tasks.lqr:s3_a2_seed0`, without noise and with a fixed
    start."""
    match = FACTORY.fullmatch(name)
    if match is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; factories are named like s3_a2_seed0")
    states, actions, seed = (int(part) for part in match.groups())
    return lambda: make_env(states, actions, seed, fixed_start=True)


def _quadratic(points: Array, matrix: Array) -> Array:
    return np.sum((points @ matrix) * points, axis=-1)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2.0


def _root(covariance: Array) -> Array:
    """A square root of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _random_covariance(rng: np.random.Generator, size: int) -> Array:
    """A well-conditioned random covariance with mean eigenvalue near one."""
    factor = rng.standard_normal((size, size)) / np.sqrt(size)
    return _symmetric(0.5 * factor @ factor.T + 0.5 * np.eye(size))


def _require_semidefinite(name: str, matrix: Array, *, strict: bool) -> None:
    scale = max(float(np.max(np.abs(matrix))), 1e-300)
    if np.max(np.abs(matrix - matrix.T)) > 1e-10 * scale:
        raise ConfigError(f"{name} must be symmetric")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if (strict and smallest <= 0.0) or smallest < -1e-10 * scale:
        wanted = "positive definite" if strict else "positive semi-definite"
        raise ConfigError(f"{name} must be {wanted}, its smallest eigenvalue is {smallest:.3g}")
