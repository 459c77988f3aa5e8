"""Critics in closed form: least-squares temporal differences (LSTD) over fixed random features.

The centre's policy does not change while its critics learn, so the task is policy evaluation, which is linear in the
weights w of Q = φ(s, a)·w:

    (ZᵀD(Φ − γ(1 − terminated)Φ') + ridge·tr(ΦᵀDΦ)/F·I) w = ZᵀDr,    Φ' at (s', π_θ(s')),    D = diag of the weights.

The rows of Z are eligibility traces, z_t = φ_t + γλ z_{t−1} within an episode (LSTD(λ), Boyan 2002; λ = 0 gives Z = Φ):
they carry rewards back over many steps at once. They serve as instruments: r + γQ(s', π_θ(s')) − Q(s, a) has mean zero
for the centre's Q whatever policy chose a, so any function of what came before may multiply it, and probes' episodes
need no importance weights for any λ. For the same reason the equation of step t may count γᵗ, as the step does in J,
and less the farther its action is from the centre's: w can only fit Q approximately, and should where it matters.

A *group* is one draw of random features with its F×F system, its λ and its value ridge; members of a group differ in
the ridge strength only and cost one solve more each. A probe's transitions are added to the systems; a new centre
changes Φ', so everything is accumulated anew. Shapes: k members, F features, n transitions, g members of a group.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import Critics, FitReport, InputScale, value_differences
from abps.critics.features import Features
from abps.critics.lstd_config import Lstd
from abps.critics.split import SplitFeatures, SplitInputs
from abps.data.objective import Objective
from abps.data.replay import Replay, Transitions
from abps.errors import NumericsError, ShapeError
from abps.normaliser import Normaliser
from abps.policies.policy import Policy, PolicySpace
from abps.seeding import generator

__all__ = ["ClosedFormCritics"]

CHUNK = 2048
"""Rows per matrix product while accumulating: features of a chunk stay near the processor's cache."""
PREDICTION_CHUNK = 256
"""Rows per product in predictions, where no large output is written."""
SLOPE_CHUNK = 16_384
"""Rows per product of split critics' slopes, which need no random features."""
TRACE_BLOCK = 64
"""Rows of one product with the decay matrix that makes eligibility traces."""
HUGE = 1e8
"""Weights beyond this are of no use: the system was singular to working precision."""


class _Prepared(NamedTuple):
    """Transitions as the systems take them."""

    inputs: NDArray[Any]
    """(n, i) at (s, a)."""
    next_inputs: NDArray[Any]
    """(n, i) at (s', π_θ(s'))."""
    rewards: Array
    """(n,) scaled."""
    discounts: Array
    """(n,) γ(1 − terminated)."""
    weights: Array
    """(n,) of the equations."""
    last: NDArray[np.bool_]
    """(n,) where episodes end."""


def _eligibility(
    features: NDArray[Any], last: NDArray[np.bool_], decay: float, carried: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Traces z_t = φ_t + γλ z_{t−1} (n, F), starting anew after every end; and the trace to carry on with, if any."""
    traces = np.empty_like(features)
    for start in range(0, len(last), TRACE_BLOCK):
        block = features[start : start + TRACE_BLOCK]
        ends = np.cumsum(last[start : start + TRACE_BLOCK])
        # Rows of one episode share a number; those that go on with the carried trace have 0.
        episode = np.concatenate([[0], ends[:-1]])
        lag = np.subtract.outer(np.arange(len(block)), np.arange(len(block)))
        reach = np.where((lag >= 0) & (episode[:, None] == episode), decay ** np.maximum(lag, 0), 0.0)
        part = reach.astype(features.dtype) @ block
        if carried is not None:
            going_on = int((episode == 0).sum())
            part[:going_on] += np.outer(decay ** np.arange(1, going_on + 1), carried).astype(features.dtype)
        traces[start : start + TRACE_BLOCK] = part
        carried = None if last[min(start + TRACE_BLOCK, len(last)) - 1] else part[-1].copy()
    return traces, carried


def _steps(last: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Which step of its episode every transition is (n,), counted from 0; the first episode is taken to be whole."""
    places = np.arange(len(last))
    starts = np.where(np.concatenate([[True], last[:-1]]), places, 0) if len(last) else places
    return places - np.maximum.accumulate(starts)


@dataclass(eq=False)
class _Group:
    """One feature map and the sums over transitions that its members share."""

    features: Features
    ridges: tuple[float, ...]
    """Ridge strength of each of the g members."""
    decay: float
    """γλ"""
    draws: int = 0
    """How often the features were drawn: names the random stream of the next draw."""

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        size = self.features.size
        self.system = np.zeros((size, size))
        self.target = np.zeros(size)
        self.squares = np.zeros(size)
        self.weights = np.zeros((size, len(self.ridges)))

    def add(self, data: "_Prepared") -> None:
        """Add n transitions, in the order in which they happened."""
        dtype = self.features.dtype
        carried = None
        for start in range(0, len(data.rewards), CHUNK):
            part = slice(start, start + CHUNK)
            now = self.features(data.inputs[part])
            difference = self.features(data.next_inputs[part])
            difference *= -data.discounts[part, None].astype(dtype)
            difference += now
            weights = data.weights[part, None].astype(dtype)
            self.squares += np.einsum("nf,nf->f", now * weights, now)
            traces = now
            if self.decay > 0:
                traces, carried = _eligibility(now, data.last[part], self.decay, carried)
            traces = traces * weights
            self.system += traces.T @ difference
            self.target += traces.T @ data.rewards[part].astype(dtype)

    def solve(self) -> list[int]:
        """Find the weights of every member; return the places in the group of those without a usable solution."""
        failed = []
        for place, ridge in enumerate(self.ridges):
            try:
                # Relative to the features' mean square, a ridge strength is independent of their scale and of n.
                weights = np.linalg.solve(self._regularised(ridge), self.target)
            except np.linalg.LinAlgError:
                weights = np.full_like(self.target, np.nan)
            if not np.all(np.abs(weights) < HUGE):
                failed.append(place)
                weights = np.zeros_like(self.target)
            self.weights[:, place] = weights
        return failed

    def _regularised(self, ridge: float) -> Array:
        """The system with ridge times the mean squared feature of each block on its diagonal."""
        penalty = np.empty_like(self.squares)
        for place, own in self.features.blocks:
            penalty[place] = (ridge if own is None else own) * self.squares[place].mean()
        matrix = self.system.copy()
        matrix.flat[:: matrix.shape[0] + 1] += penalty
        return matrix


@dataclass
class InputMemory:
    """Frozen input statistics."""

    mean: Array
    std: Array
    spread: Array
    """(a,) of split inputs; empty for others."""


@dataclass
class GroupMemory:
    """One group's random features, its sums and its solutions."""

    draws: int
    random_numbers: NDArray[np.float32]
    system: Array
    target: Array
    squares: Array
    weights: Array


@dataclass
class LstdMemory:
    """Everything that closed-form critics need to go on."""

    reward_scale: float
    seen: int
    groups: list[GroupMemory]
    parameters: Array | None = None
    """θ of the centre."""
    normaliser: Normaliser | None = None
    inputs: InputMemory | None = None


class ClosedFormCritics(Critics):
    """An ensemble of LSTD critics over `groups` draws of random features and the ridge strengths `ridges`."""

    def __init__(self, config: Lstd, space: PolicySpace, objective: Objective, seed: int) -> None:
        self.config, self.members = config, config.members
        self.space, self.spec, self.objective, self._seed = space, space.spec, objective, seed
        self._centre: Policy | None = None
        self._encoder: InputScale | SplitInputs | None = None
        self._reward_scale, self._seen = 1.0, 0
        groups = min(config.groups, config.members)
        owner = [member * groups // config.members for member in range(config.members)]
        self._places = [[member for member in range(self.members) if owner[member] == g] for g in range(groups)]
        """Members of every group, in order."""
        self._groups = [
            _Group(
                self._draw(g, 0),
                tuple(config.ridges[member % len(config.ridges)] for member in places),
                objective.gamma * config.traces[g % len(config.traces)],
                draws=1,
            )
            for g, places in enumerate(self._places)
        ]

    def start_centre(self, centre: Policy, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        """See `Critics.start_centre`; the whole group of the worst member gets new random features."""
        if worst is not None:
            self._redraw(next(g for g, places in enumerate(self._places) if worst in places))
        data = self._recent(replay)
        self._centre, self._reward_scale = centre, float(reward_scale)
        self._encoder = self.config.features.measure(self.spec, centre, data, self.config.clip)
        for group in self._groups:
            group.clear()
        return self._fit(data, replay)

    def update(self, replay: Replay) -> FitReport:
        new = replay.total - self._seen
        return self._fit(self._newest(replay, new, among=new), replay)

    def q(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        values = np.empty((self.members, states.shape[0]))
        inputs = self._ready()(states, actions)
        for group, places in zip(self._groups, self._places, strict=True):
            weights = group.weights.astype(group.features.dtype)
            for start in range(0, states.shape[0], PREDICTION_CHUNK):
                part = slice(start, start + PREDICTION_CHUNK)
                values[places, part] = (group.features(inputs[part]) @ weights).T
        return values

    def action_gradients(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        encode = self._ready()
        return self._slopes(encode(states, actions)) / encode.action_unit

    def advantages(self, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        """See `DirectAdvantages`; split critics need no value of the state for it."""
        encode = self._ready()
        if not isinstance(encode, SplitInputs):
            return value_differences(self, centre, states, actions)
        departures = encode.departures(actions, encode.centre.actions(states))
        advantages = self._first_order(encode, states, departures)
        products = None
        for group, features, places in self._split_groups():
            products = features.departure_products(departures) if products is None else products  # The same for all.
            advantages[places] += np.moveaxis(products @ group.weights[features.products], -1, 0)
        return advantages

    def linearised_advantages(
        self, centre: Policy, states: NDArray[np.floating], actions: NDArray[np.floating]
    ) -> Array:
        """See `DirectAdvantages`; split critics leave the quadratic terms out.

        m̂ errs to second order anyway, because it stays on the centre's states (Section 3.1): there the quadratic terms
        are noise more than knowledge.
        """
        encode = self._ready()
        if not isinstance(encode, SplitInputs):
            return value_differences(self, centre, states, actions)
        return self._first_order(encode, states, encode.departures(actions, encode.centre.actions(states)))

    def _first_order(self, encode: SplitInputs, states: NDArray[np.floating], departures: Array) -> Array:
        """Slopes at the centre's actions times departures: (m, s), (n, m, a) → (k, n, m)."""
        inputs = encode.at_centre(states)
        slopes = np.empty((self.members, *departures.shape[1:]))
        for start in range(0, len(states), SLOPE_CHUNK):
            part = slice(start, start + SLOPE_CHUNK)
            for group, features, places in self._split_groups():
                slopes[places, part] = features.slopes(inputs[part], group.weights)
        return np.einsum("kma,nma->knm", slopes, departures, optimize=True)

    def _split_groups(self) -> list[tuple[_Group, SplitFeatures, list[int]]]:
        """Groups of split critics, with their features and members."""
        pairs = zip(self._groups, self._places, strict=True)
        return [(group, group.features, own) for group, own in pairs if isinstance(group.features, SplitFeatures)]

    def _slopes(self, inputs: NDArray[Any]) -> Array:
        """∂Q_i/∂(the action's inputs) at (m, i) inputs → (k, m, a)."""
        slopes = np.empty((self.members, inputs.shape[0], self.spec.action_dim))
        for group, places in zip(self._groups, self._places, strict=True):
            for start in range(0, inputs.shape[0], PREDICTION_CHUNK):
                part = slice(start, start + PREDICTION_CHUNK)
                slopes[places, part] = group.features.gradients(inputs[part], group.weights, self.spec.observation_dim)
        return slopes

    @property
    def memory(self) -> LstdMemory:  # type: ignore[override]
        """The sums over transitions, the solutions, and the centre they belong to."""
        centre, encoder = self._centre, self._encoder
        return LstdMemory(
            self._reward_scale,
            self._seen,
            [
                GroupMemory(g.draws, g.features.random_numbers, g.system, g.target, g.squares, g.weights)
                for g in self._groups
            ],
            None if centre is None else centre.parameters,
            None if centre is None else centre.normaliser,
            None if encoder is None else InputMemory(encoder.mean, encoder.std, encoder.spread),
        )

    @memory.setter
    def memory(self, memory: LstdMemory) -> None:
        self._reward_scale, self._seen = memory.reward_scale, memory.seen
        if memory.parameters is not None and memory.normaliser is not None and memory.inputs is not None:
            self._centre = self.space.policy(memory.parameters, memory.normaliser)
            scale = InputScale.known(self.spec, memory.inputs.mean, memory.inputs.std, self.config.clip)
            self._encoder = self.config.features.encoder(scale, self._centre, memory.inputs.spread)
        for number, (group, saved) in enumerate(zip(self._groups, memory.groups, strict=True)):
            if saved.system.shape != group.system.shape:
                raise ShapeError(
                    f"saved critics have {len(saved.system)} features, these {len(group.system)}; "
                    "load them with the settings they were saved with"
                )
            group.draws = saved.draws
            group.features = self.config.features.known(self.spec, number, saved.random_numbers)
            group.system, group.target = saved.system, saved.target
            group.squares, group.weights = saved.squares, saved.weights

    def _fit(self, data: Transitions, replay: Replay) -> FitReport:
        prepared, diverged = self._prepared(data), []
        for g, (group, places) in enumerate(zip(self._groups, self._places, strict=True)):
            group.add(prepared)
            failed = group.solve()
            if failed:  # New features and all the data: the group must not go on with a singular system.
                self._redraw(g)
                group.add(self._prepared(self._recent(replay)))
                group.solve()
            diverged += [places[place] for place in failed]
        self._seen = replay.total
        return FitReport(len(data.rewards), 0, tuple(diverged))

    def _recent(self, replay: Replay) -> Transitions:
        return self._newest(replay, self.config.transitions)

    def _newest(self, replay: Replay, count: int, among: int | None = None) -> Transitions:
        """The newest transitions, without those that come so late in an episode that their discount makes them
        worthless."""
        cut, gamma = self.config.discount_cut, self.objective.gamma
        if cut == 0.0 or gamma == 1.0:
            return replay.newest(count)
        return replay.beginnings(count, math.ceil(math.log(cut) / math.log(gamma)), among)

    def _prepared(self, data: Transitions) -> _Prepared:
        centre = self._centre
        if centre is None:
            raise NumericsError("these critics have learned nothing yet; call start_centre first")
        rewards = (data.rewards.astype(np.float64) - self.objective.shift) / self._reward_scale
        discounts = np.where(data.terminated, 0.0, self.objective.gamma)  # Truncation bootstraps, termination does not.
        encode = self._ready()
        inputs = encode(data.states, data.actions)
        next_inputs = encode(data.next_states, centre.actions(data.next_states))
        return _Prepared(inputs, next_inputs, rewards, discounts, self._equation_weights(data, inputs), data.last)

    def _equation_weights(self, data: Transitions, inputs: NDArray[Any]) -> Array:
        """(n,): γᵗ for the step's place in J, and less far from the centre's actions, where the features fit worse."""
        exponents = self.config.discount_weight * _steps(data.last)
        weights = np.power(self.objective.gamma, exponents, dtype=np.float64)
        return self.config.features.weighted(self.spec, inputs, weights)

    def _ready(self) -> InputScale | SplitInputs:
        if self._encoder is None:
            raise NumericsError("these critics have learned nothing yet; call start_centre first")
        return self._encoder

    def _draw(self, g: int, draws: int) -> Features:
        return self.config.features.draw(self.spec, g, generator(self._seed, "critics", "features", g, draws))

    def _redraw(self, g: int) -> None:
        group = self._groups[g]
        group.features = self._draw(g, group.draws)
        group.draws += 1
        group.clear()
