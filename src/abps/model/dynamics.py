"""A model of the task learned from recorded transitions, in closed form: next state, reward, and whether it goes on.

Changes of state and rewards are ridge regressions on features of standardised states and actions x = (ŝ, â): x itself,
its squares and products, and random cosines cos(ωᵀx + b). How many, the data decide: a feature needs a number of
transitions. The strength of the ridge is chosen for every output by the leave-one-out error, which has a closed form
too. Predictions are clipped a little outside what was seen: a model is no better there.

Episodes that ended by themselves teach an ending: a balanced regression g(s') of "ended here" on the next state and its
squares, 0 inside and 1 outside; the share that goes on falls from 1 to 0 where g rises over a ramp.

Shapes: N transitions, m rows, s observation size, a action size, i = s + a, F features, K cosines.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import InputScale
from abps.data.replay import Transitions
from abps.tasks.spec import TaskSpec

__all__ = ["Capacity", "Dynamics", "Step", "fit_dynamics"]

RIDGES = (1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Strengths that are tried, relative to the features' mean square."""
MARGIN = 0.2
"""Predictions may leave the seen range by this share of it."""
RAMP = (0.4, 0.8)
"""Where g of an ending rises from "goes on" to "ended"."""
ENDING_RIDGE = 1e-3
MOST_LEVERAGE = 0.999
"""A transition that determines its own prediction has no leave-one-out error."""
FAR = 10.0
"""Standardised next states are clipped here before the ending looks at them."""


class Capacity(NamedTuple):
    """How large a model may be."""

    cosines: int
    """K, at most."""
    per_feature: int
    """Transitions that every feature needs."""
    lengthscale: float
    """Of the cosines, in standard deviations of the inputs times √i."""


class Step(NamedTuple):
    """One step of m simulated episodes, with what its derivatives need."""

    next_states: Array
    """(m, s)"""
    rewards: Array
    """(m,)"""
    going_on: Array
    """(m,): 1 where the episode goes on, 0 where it ended."""
    inputs: Array
    """x (m, i)"""
    free: NDArray[np.bool_]
    """(m, s + 1): predictions that were not clipped."""
    slope: Array
    """∂going_on/∂next state (m, s)"""


@dataclass(frozen=True, eq=False)
class Dynamics:
    """A learned model: a value of arrays, which a search can save."""

    mean: Array
    """(s,) of the states"""
    std: Array
    """(s,)"""
    action_centre: Array
    action_half: Array
    frequencies: Array
    """Ω (i, K)"""
    phases: Array
    """b (K,)"""
    products: bool
    """Whether squares and products of the inputs are features."""
    intercept: Array
    """(s + 1,): of standardised changes of state and of rewards"""
    weights: Array
    """(F, s + 1)"""
    low: Array
    """(s + 1,): of next states and rewards"""
    high: Array
    ending: Array
    """(1 + 2s,): regression of the ending; empty where no episode ended by itself"""
    scores: Array
    """(s + 1,): share of the outputs' variance explained, each transition left out in turn"""

    def step(self, states: Array, actions: Array) -> Step:
        """(m, s) states, (m, a) actions."""
        inputs = np.concatenate([(states - self.mean) / self.std, (actions - self.action_centre) / self.action_half], 1)
        raw = self.intercept + _features(inputs, self) @ self.weights
        raw[:, :-1] = states + self.std * raw[:, :-1]
        clipped = np.clip(raw, self.low, self.high)
        going_on, slope = self._going_on(clipped[:, :-1])
        return Step(clipped[:, :-1], clipped[:, -1], going_on, inputs, raw == clipped, slope)

    def pullback(self, step: Step, states: Array, rewards: Array, going_on: Array) -> tuple[Array, Array]:
        """From cotangents of a step's next states (m, s), rewards (m,) and going_on (m,) to those of its states (m, s)
        and actions (m, a)."""
        back = np.concatenate([states + going_on[:, None] * step.slope, rewards[:, None]], axis=1) * step.free
        direct = back[:, :-1]
        scaled = np.concatenate([direct * self.std, back[:, -1:]], axis=1)
        inputs = _features_pullback(step.inputs, self, scaled @ self.weights.T)
        size = len(self.mean)
        return direct + inputs[:, :size] / self.std, inputs[:, size:] / self.action_half

    def _going_on(self, states: Array) -> tuple[Array, Array]:
        """Share of the episode that goes on (m,), and its slope in the next state (m, s)."""
        if not self.ending.size:
            return np.ones(len(states)), np.zeros_like(states)
        standard = (states - self.mean) / self.std
        inside = np.abs(standard) < FAR
        standard = np.clip(standard, -FAR, FAR)
        size = len(self.mean)
        linear, square = self.ending[1 : 1 + size], self.ending[1 + size :]
        value = self.ending[0] + standard @ linear + standard**2 @ square
        start, end = RAMP
        share = (end - value) / (end - start)
        steep = ((share > 0) & (share < 1))[:, None] & inside
        slope = -(linear + 2.0 * standard * square) / (self.std * (end - start))
        return np.clip(share, 0.0, 1.0), np.where(steep, slope, 0.0)


def fit_dynamics(data: Transitions, spec: TaskSpec, capacity: Capacity, rng: np.random.Generator) -> Dynamics:
    """Fit a model to transitions; `rng` draws the cosines."""
    scale = InputScale.measure(spec, data.states, 0.0)
    inputs = scale(data.states, data.actions)
    count, size = inputs.shape
    room = count // capacity.per_feature - size
    products = room >= size * (size + 1) // 2
    cosines = int(np.clip(room - (size * (size + 1) // 2 if products else 0), 0, capacity.cosines))
    frequencies = rng.standard_normal((size, cosines)) / (capacity.lengthscale * np.sqrt(size))
    phases = rng.uniform(0.0, 2.0 * np.pi, cosines)
    form = _Form(frequencies, phases, products)
    before, after = data.states.astype(np.float64), data.next_states.astype(np.float64)
    rewards = data.rewards.astype(np.float64)
    targets = np.column_stack([(after - before) / scale.std, rewards])
    intercept, weights, scores = _ridge(_features(inputs, form), targets)
    seen = np.column_stack([np.concatenate([before, after]), np.concatenate([rewards, rewards])])
    low, high = seen.min(axis=0), seen.max(axis=0)
    room_outside = MARGIN * (high - low)
    ending = _fit_ending((after - scale.mean) / scale.std, data.terminated)
    return Dynamics(
        scale.mean, scale.std, scale.action_centre, scale.action_half, frequencies, phases, products, intercept,
        weights, low - room_outside, high + room_outside, ending, scores,
    )  # fmt: skip


class _Form(NamedTuple):
    """What the features are made of."""

    frequencies: Array
    phases: Array
    products: bool


def _features(inputs: Array, form: "_Form | Dynamics") -> Array:
    """(m, i) → (m, F)"""
    size, pairs = inputs.shape[1], inputs.shape[1] * (inputs.shape[1] + 1) // 2 if form.products else 0
    features = np.empty((len(inputs), size + pairs + form.phases.size))
    features[:, :size] = inputs
    place = size
    if form.products:  # In the order of `np.triu_indices`.
        for k in range(size):
            np.multiply(inputs[:, k:], inputs[:, k : k + 1], out=features[:, place : place + size - k])
            place += size - k
    if form.phases.size:
        np.cos(inputs @ form.frequencies + form.phases, out=features[:, place:])
    return features


def _features_pullback(inputs: Array, form: "_Form | Dynamics", cotangents: Array) -> Array:
    """From cotangents of the features (m, F) to those of the inputs (m, i)."""
    size = inputs.shape[1]
    total, place = cotangents[:, :size].copy(), size
    if form.products:
        rows, columns = np.triu_indices(size)
        matrix = np.zeros((len(inputs), size, size))
        matrix[:, rows, columns] = cotangents[:, place : place + rows.size]
        total += np.einsum("mij,mj->mi", matrix + matrix.transpose(0, 2, 1), inputs)
        place += rows.size
    if form.phases.size:
        total -= (cotangents[:, place:] * np.sin(inputs @ form.frequencies + form.phases)) @ form.frequencies.T
    return total


def _ridge(features: Array, targets: Array) -> tuple[Array, Array, Array]:
    """Intercept (o,), weights (F, o), explained shares (o,): each output with the ridge of least leave-one-out error.

    With centred features Ψ/√N = UΣVᵀ the residual without transition i is r_i / (1 − h_i), h_i its leverage.
    """
    count = len(features)
    middle, level = features.mean(axis=0), targets.mean(axis=0)
    centred, residual = features - middle, targets - level
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred / count)
    rotated = centred @ vectors
    squares, moments = rotated**2 / count, rotated.T @ residual / count
    unit = max(float(eigenvalues.mean()), np.finfo(np.float64).tiny)
    best = np.full(targets.shape[1], np.inf)
    weights = np.zeros_like(moments)
    for ridge in RIDGES:
        inverse = 1.0 / (np.maximum(eigenvalues, 0.0) + ridge * unit)
        leverage = np.minimum(1.0 / count + squares @ inverse, MOST_LEVERAGE)
        errors = np.square((residual - rotated @ (inverse[:, None] * moments)) / (1.0 - leverage)[:, None]).mean(axis=0)
        better = errors < best
        best[better], weights[:, better] = errors[better], (inverse[:, None] * moments)[:, better]
    weights = vectors @ weights
    variance = residual.var(axis=0)
    scores = 1.0 - np.divide(best, variance, out=np.zeros_like(best), where=variance > 0)
    return level - middle @ weights, weights, scores


def _fit_ending(states: Array, ended: NDArray[np.bool_]) -> Array:
    """Balanced ridge regression of `ended` on standardised next states (N, s) and their squares; empty without any."""
    if not ended.any() or ended.all():
        return np.zeros(0)
    states = np.clip(states, -FAR, FAR)
    features = np.column_stack([np.ones(len(states)), states, states**2])
    shares = np.where(ended, 0.5 / ended.sum(), 0.5 / (~ended).sum())
    gram = (features * shares[:, None]).T @ features
    penalty = ENDING_RIDGE * (1.0 + np.diag(gram))
    penalty[0] = 0.0
    return np.linalg.solve(gram + np.diag(penalty), features.T @ (shares * ended))
