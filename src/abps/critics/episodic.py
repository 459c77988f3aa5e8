"""Critics in closed form, fitted to the newest whole episodes: an ensemble over reach and ridge.

Q(s, a) = V(s) + A(s, u), with u the departure from the centre's action in halves of the range:

    V = [1 | x | relu(Wx) | x_i x_j]·v,        A = u ⊗ (1, x)·w + u_i u_j·q,        x the standardised, clipped state.

Each pair of a discount γ and a decay γλ of the traces gives one system of LSTD(λ) (Boyan 2002), solved with each of the
value ridges; systems with the same decay share their products. Short and long reaches err on different tasks: a short γ
sees the next second without noise, a long one what follows. Traces see what an action does some steps later, which a
delay hides from one-step targets; where steps must be left out, one-step targets have enough of them, and their members
take the place of the others. The number of random features grows with the number of steps. Rewards are clipped to a few
times their usual spread, or to what a quarter of the episodes go beyond, so that one runaway episode does not outweigh
all others; steps far from the centre's actions count less, as a quadratic fits them worse.

Shapes: k members, n steps, s and a sizes, p = s + 1, F value features.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import Critics, CriticsPart, FitReport
from abps.data.objective import Objective
from abps.data.replay import Replay, Transitions
from abps.errors import NumericsError
from abps.normaliser import Normaliser
from abps.policies.policy import Policy, PolicySpace
from abps.seeding import generator
from abps.settings import require, setting

__all__ = ["EpisodicCritics", "EpisodicLstd"]

STATE_CLIP, ACTION_CLIP = 5.0, 5.0
"""Standardised states and departures are clipped at ± this."""
SPREAD_FLOOR = 1e-3
"""Smallest spread of the departures: where data hardly leave the centre's actions, differences are not blown up."""
MOST_SQUARES = 20
"""Products of states are used up to so many observations."""
STEPS_PER_FEATURE, FEWEST_FEATURES = 12, 8
CONSTANT_RIDGE = 1e-6
"""The value's constant is as good as free: a constant reward must not turn up in the slopes."""
BLOCK = 100
"""Steps in a row that are taken or left out together; eligibility traces begin anew with every block."""
TRIM, STILL = 0.02, 1e-6
"""Quantiles at which states are trimmed before their scale is measured; spreads below `STILL` count as one."""
REWARD_QUANTILE, REWARD_REACH = 0.05, 3.0
"""Rewards are clipped at their median ± `REWARD_REACH` times the range between these quantiles, or farther away."""
RUNAWAYS = 0.25
"""Share of the episodes whose largest departures from the median reward may be clipped."""


@dataclass(frozen=True)
class EpisodicLstd(CriticsPart):
    """Least squares on the newest episodes, an ensemble over discount, trace and ridge."""

    episodes: int = setting(24, "newest episodes that are learned from", common=True)
    gammas: tuple[float, ...] = setting((0.95, 0.99), "discounts γ of the members")
    traces: tuple[float, ...] = setting(
        (0.0, 0.7), "decays γλ of the eligibility traces of the members; with more steps than `rows` the first alone"
    )
    value_ridges: tuple[float, ...] = setting(
        (3.0, 300.0), "ridge strengths of the state's value, in steps' worth of data: weaker the more steps there are"
    )
    slope_ridge: float = setting(0.3, "ridge strength of the advantage's slopes")
    quadratic_ridge: float = setting(1.0, "ridge strength of the advantage's quadratic terms")
    features: int = setting(128, "random features of the state's value, at most")
    off_policy_scale: float = setting(0.15, "departure, in halves of the range, at which a step counts half")
    rows: int = setting(8000, "steps that are used, about; of more, blocks in a row are left out evenly")
    replay: int = setting(300_000, "capacity of the replay ring in transitions")

    def __post_init__(self) -> None:
        for name in ("episodes", "features", "rows", "replay"):
            require(getattr(self, name) >= 1, f"critics.{name} must be at least 1")
        require(bool(self.gammas) and all(0 < g <= 1 for g in self.gammas), "critics.gammas must be in (0, 1]")
        reach = min(self.gammas)
        require(
            bool(self.traces) and all(0 <= t <= reach for t in self.traces),
            f"critics.traces are decays γλ, so from 0 to the smallest of critics.gammas ({reach:g})",
        )
        ridges = (*self.value_ridges, self.slope_ridge, self.quadratic_ridge, self.off_policy_scale)
        require(bool(self.value_ridges) and min(ridges) > 0, "critics' ridges and off_policy_scale must be positive")

    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Critics:
        return EpisodicCritics(self, space, objective, seed)


@dataclass
class EpisodicMemory:
    """The fitted ensemble, and the centre it belongs to."""

    fits: int = 0
    parameters: Array | None = None
    normaliser: Normaliser | None = None
    reward_scale: float = 1.0
    mean: Array = field(default_factory=lambda: np.zeros(0))
    std: Array = field(default_factory=lambda: np.ones(0))
    features: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """(p, F') random numbers of the value's ReLU features."""
    value: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """v (k, F), in scaled rewards."""
    slopes: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """w (k, a, p): ∂Q/∂u at u = 0 is w·(1, x), in scaled rewards."""
    quadratic: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """q (k, a(a+1)/2), in scaled rewards."""


class _Rows(NamedTuple):
    """Steps as the systems take them, in m blocks of B in a row; rows beyond the end of a block have weight 0."""

    now: NDArray[np.float32]
    """(m, B, P): features of (s, a)."""
    following: NDArray[np.float32]
    """(m, B, F): value features of the next state, 0 where the episode terminated."""
    rewards: NDArray[np.float32]
    """(m, B)"""
    weights: NDArray[np.float32]
    """(m, B)"""


class EpisodicCritics(Critics):
    """The ensemble of `EpisodicLstd`; everything follows from the replay, the centre and the seed."""

    def __init__(self, config: EpisodicLstd, space: PolicySpace, objective: Objective, seed: int) -> None:
        self.config, self.space, self.objective, self._seed = config, space, objective, seed
        self.reach = [(gamma, trace) for gamma in config.gammas for trace in config.traces]
        self.members = len(self.reach) * len(config.value_ridges)
        self.memory = EpisodicMemory()
        self._pairs = np.triu_indices(space.spec.action_dim)

    def start_centre(self, centre: Policy, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        """See `Critics.start_centre`; all random features are drawn anew at every fit, so that no member is special."""
        self.memory.parameters, self.memory.normaliser = centre.parameters, centre.normaliser
        self.memory.reward_scale = float(reward_scale)
        return self.update(replay)

    def update(self, replay: Replay) -> FitReport:
        data = replay.newest_episodes(self.config.episodes)
        failed = self._fit(data)
        self.memory.fits += 1
        return FitReport(len(data.rewards), 0, tuple(failed))

    def q(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        departures = self._departures(states, actions)
        slopes = np.einsum("kma,ma->km", self._slopes(states), departures)
        products = departures[:, self._pairs[0]] * departures[:, self._pairs[1]]
        return self.values(states) + slopes + self.memory.quadratic @ products.T

    def values(self, states: NDArray[np.floating]) -> Array:
        """V_i(s) of every member (k, m), in scaled rewards."""
        return self.memory.value @ self._value_features(self._standardised(states)).T

    def action_gradients(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        departures, (rows, columns) = self._departures(states, actions), self._pairs
        forms = np.zeros((self.members, departures.shape[1], departures.shape[1]))
        forms[:, rows, columns] = self.memory.quadratic
        curved = departures @ (forms + forms.transpose(0, 2, 1))
        return (self._slopes(states) + curved) / self.space.spec.action_half

    def advantages(self, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """See `DirectAdvantages`."""
        departures = self._departures(states, actions)
        products = departures[..., self._pairs[0]] * departures[..., self._pairs[1]]
        quadratic = np.moveaxis(products @ self.memory.quadratic.T, -1, 0)
        return self._first_order(states, departures) + quadratic

    def linearised_advantages(
        self, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]
    ) -> Array:
        """See `DirectAdvantages`."""
        return self._first_order(states, self._departures(states, actions))

    def _first_order(self, states: NDArray[np.floating], departures: Array) -> Array:
        return np.einsum("kma,nma->knm", self._slopes(states), departures, optimize=True)

    def _departures(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """(a − π_θ(s)) / half, for (…, m, a) actions at (m, s) states."""
        return (actions - self._centre().actions(states)) / self.space.spec.action_half

    def _slopes(self, states: NDArray[np.floating]) -> Array:
        """∂Q/∂u at the centre's actions (k, m, a)."""
        inputs = self._standardised(states)
        return np.matmul(inputs, self.memory.slopes.transpose(0, 2, 1))

    def _standardised(self, states: NDArray[np.floating]) -> Array:
        """(1, x) (m, p)."""
        memory = self.memory
        x = np.clip((np.asarray(states, dtype=np.float64) - memory.mean) / memory.std, -STATE_CLIP, STATE_CLIP)
        return np.concatenate([np.ones((len(x), 1)), x], axis=1)

    def _value_features(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """[1 | x | relu(Wx) | x_i x_j / 2] (m, F)."""
        x = inputs[:, 1:]
        size = x.shape[1] if x.shape[1] <= MOST_SQUARES else 0
        rows, columns = np.triu_indices(size)
        hidden = np.maximum(inputs @ self.memory.features.astype(inputs.dtype), 0.0)
        return np.concatenate([inputs, hidden, 0.5 * x[:, rows] * x[:, columns]], axis=1)

    def _centre(self) -> Policy:
        memory = self.memory
        if memory.parameters is None or memory.normaliser is None:
            raise NumericsError("these critics have learned nothing yet; call start_centre first")
        return self.space.policy(memory.parameters, memory.normaliser)

    # ---- fitting --------------------------------------------------------------------------------------------------

    def _fit(self, data: Transitions) -> list[int]:
        memory, config = self.memory, self.config
        n = len(data.rewards)
        rng = generator(self._seed, "critics", "features", memory.fits)
        count = min(config.features, max(FEWEST_FEATURES, n // STEPS_PER_FEATURE))
        matrix = rng.standard_normal((data.states.shape[1] + 1, count))
        memory.features = matrix / np.linalg.norm(matrix, axis=0)
        places, real = _blocks(data.last, config.rows, rng)
        taken = Transitions._make(part[places.ravel()] for part in data)
        used = real.ravel()
        memory.mean, memory.std = _robust_scale(taken.states[used])
        rewards = self._scaled(taken.rewards)
        low, high, unit = _reward_range(rewards[used], self._scaled(data.rewards), data.last)
        departures = self._departures(taken.states, taken.actions)
        spread = np.maximum(np.sqrt(np.mean(np.square(departures[used]), axis=0)), SPREAD_FLOOR)
        rows = self._rows(taken, departures, spread, np.clip(rewards, low, high) / unit, real)
        reach = self.reach if n <= config.rows else [pair for pair in self.reach if pair[1] == config.traces[0]]
        systems, targets, squares = self._sums(rows, reach)
        return self._solve(systems, targets, squares, spread, unit, rows.following.shape[2], int(used.sum()))

    def _scaled(self, rewards: NDArray[np.floating]) -> Array:
        return (rewards.astype(np.float64) - self.objective.shift) / self.memory.reward_scale

    def _rows(
        self, taken: Transitions, departures: Array, spread: Array, rewards: Array, real: NDArray[np.bool_]
    ) -> _Rows:
        """The features of the steps that were taken, in blocks of the shape of `real`."""
        inputs = self._standardised(taken.states).astype(np.float32)
        following = self._value_features(self._standardised(taken.next_states).astype(np.float32))
        following *= (~taken.terminated).astype(np.float32)[:, None]
        u = np.clip(departures / spread, -ACTION_CLIP, ACTION_CLIP).astype(np.float32)
        linear = (u[:, :, None] * inputs[:, None, :]).reshape(len(u), -1)
        first, second = self._pairs
        now = np.concatenate([self._value_features(inputs), linear, u[:, first] * u[:, second]], axis=1)
        far = np.square(departures).mean(axis=1) / self.config.off_policy_scale**2
        weights = (real.ravel() / (1.0 + far)).astype(np.float32)
        shape = real.shape
        values = rewards.astype(np.float32).reshape(shape)
        return _Rows(now.reshape(*shape, -1), following.reshape(*shape, -1), values, weights.reshape(shape))

    def _sums(self, rows: _Rows, reach: list[tuple[float, float]]) -> tuple[Array, Array, Array]:
        """The systems (g, P, P), targets (g, P) and squares (P,) summed over steps, g pairs of γ and a decay γλ.

        Every system is Zᵀ(Φ − γΦ'), Z the traces; both products are shared by the pairs with the same decay.
        """
        size, values = rows.now.shape[2], rows.following.shape[2]
        now, following = rows.now.reshape(-1, size), rows.following.reshape(-1, values)
        weights, rewards = rows.weights.reshape(-1, 1), rows.rewards.ravel()
        systems, targets = np.zeros((len(reach), size, size)), np.zeros((len(reach), size))
        for decay in dict.fromkeys(trace for _, trace in reach):
            traces = now if decay == 0 else np.matmul(_decay_matrix(decay), rows.now).reshape(-1, size)
            weighted = (traces * weights).T
            here, ahead, target = weighted @ now, weighted @ following, weighted @ rewards
            for number, (gamma, trace) in enumerate(reach):
                if trace == decay:
                    systems[number], targets[number] = here, target
                    systems[number][:, :values] -= gamma * ahead
        return systems, targets, (weights.T @ np.square(now))[0].astype(np.float64)

    def _solve(
        self, systems: Array, targets: Array, squares: Array, spread: Array, unit: float, values: int, rows: int
    ) -> list[int]:
        """Solve every member; return those without a usable solution, whose weights are then zero.

        With one decay instead of several its members stand for all.
        """
        config, spec = self.config, self.space.spec
        a, p = spec.action_dim, spec.observation_dim + 1
        linear = slice(values, values + a * p)
        penalty = np.empty_like(squares)
        penalty[linear] = config.slope_ridge * squares[linear].mean()
        if linear.stop < len(squares):
            penalty[linear.stop :] = config.quadratic_ridge * squares[linear.stop :].mean()
        solutions, failed = np.zeros((len(systems) * len(config.value_ridges), len(squares))), []
        for member in range(len(solutions)):
            pair, ridge = divmod(member, len(config.value_ridges))
            penalty[:values] = config.value_ridges[ridge] / rows * squares[:values].mean()
            penalty[0] = CONSTANT_RIDGE * squares[0]
            matrix = systems[pair].copy()
            matrix.flat[:: len(matrix) + 1] += penalty + 1e-9
            try:
                solutions[member] = np.linalg.solve(matrix, targets[pair])
            except np.linalg.LinAlgError:
                solutions[member] = np.nan
            if not np.all(np.isfinite(solutions[member])):
                failed.append(member)
                solutions[member] = 0.0
        shape = (len(config.gammas), len(config.traces), len(config.value_ridges), len(squares))
        by_reach = solutions.reshape(shape[0], -1, *shape[2:])
        solutions = np.broadcast_to(by_reach, shape).reshape(self.members, -1)
        memory, (first, second) = self.memory, self._pairs
        memory.value = solutions[:, :values] * unit
        memory.slopes = solutions[:, linear].reshape(self.members, a, p) * unit / spread[:, None]
        memory.quadratic = solutions[:, linear.stop :] * unit / (spread[first] * spread[second])
        return failed


def _blocks(last: NDArray[np.bool_], most: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Steps in blocks of `BLOCK` in a row: their places (m, BLOCK), and which of them are real.

    Episodes are cut from their ends backwards, so that every last block holds the end. With more than `most` steps,
    blocks are left out evenly, but never the last one of an episode.
    """
    ends = np.flatnonzero(last) + 1
    starts = np.concatenate([[0], ends[:-1]])
    cuts = [np.arange(end, start, -BLOCK) for start, end in zip(starts, ends, strict=True)]
    stops, firsts = np.concatenate(cuts), np.repeat(starts, [len(cut) for cut in cuts])
    if stops.sum() and len(last) > most:
        kept = np.isin(stops, ends)
        others = np.flatnonzero(~kept)
        wanted = max(most // BLOCK - int(kept.sum()), 0)
        if wanted < len(others):
            chosen = np.floor((np.arange(wanted) + rng.random()) * len(others) / max(wanted, 1)).astype(int)
            kept[others[chosen]] = True
            stops, firsts = stops[kept], firsts[kept]
    places = np.maximum(stops - BLOCK, firsts)[:, None] + np.arange(BLOCK)
    real = places < stops[:, None]
    return np.where(real, places, stops[:, None] - 1), real


@lru_cache(maxsize=64)
def _decay_matrix(decay: float) -> NDArray[np.float32]:
    """(BLOCK, BLOCK): its product with the features of a block are their eligibility traces z_t = φ_t + γλ z_{t−1}."""
    lags = np.subtract.outer(np.arange(BLOCK), np.arange(BLOCK))
    return np.where(lags >= 0, decay ** np.maximum(lags, 0), 0.0).astype(np.float32)


def _robust_scale(states: NDArray[np.floating]) -> tuple[Array, Array]:
    """Mean and standard deviation of states whose extremes are trimmed: a runaway must not flatten all the rest."""
    low, high = np.quantile(states, [TRIM, 1.0 - TRIM], axis=0)
    trimmed = np.clip(np.asarray(states, dtype=np.float64), low, high)
    mean, std = trimmed.mean(axis=0), trimmed.std(axis=0)
    return mean, np.where(std > STILL * np.maximum(1.0, np.abs(mean)), std, 1.0)


def _reward_range(usual: Array, rewards: Array, last: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Where rewards are clipped, and their unit, the range of the usual ones.

    What more than a quarter of the episodes have is not clipped, however rare it is within them: a goal, a crash.
    """
    low, middle, high = np.quantile(usual, [REWARD_QUANTILE, 0.5, 1.0 - REWARD_QUANTILE])
    unit = max(float(high - low), 1e-6 * max(1.0, abs(float(middle))))
    starts = np.flatnonzero(np.concatenate([[True], last[:-1]]))
    rarest = np.maximum.reduceat(np.abs(rewards - middle), starts)
    reach = max(REWARD_REACH * unit, float(np.quantile(rarest, 1.0 - RUNAWAYS)))
    return float(middle) - reach, float(middle) + reach, unit
