"""Hyper-parameters by maximum evidence within dynamic bounds (paper Appendix A).

Shapes: n points, d parameters, k features; the optimiser's vector is (log ℓ (d), log σ_f, log σ_n[, log σ_β]).

The bounds follow the data: σ_f within a factor of the residuals' standard deviation, σ_n within a factor of the spread of the centre's repeated
returns, ℓ within the settings. A constant mean, where the search has one, is maximised in closed form inside the evidence (and clipped to its bound;
the gradient stays right, because at the maximum the derivative in the mean is zero or points out of the bounds). The gradient in all d lengthscales
costs two n×n×d matrix products:

    Σ_jk A_jk (x_ji − x_ki)² = 2 (Σ_j x_ji² Σ_k A_jk − x_iᵀ A x_i).

Many starts are compared by evidence and the best set out together (`lbfgs`); after every leg those without hope give up, and so does a start that is
about to reach the optimum of a better one. The previous optimum is always among those that set out. Optima differ in which lengthscales are long, that is
in which parameters matter, and the best is often near a good one: so the search goes on around the best so far (`_neighbour`), until it only finds optima
it knows. The winner is polished.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abps.config import GpConfig
from abps.errors import NumericsError, ShapeError
from abps.gp.kernel import Hyper
from abps.gp.lbfgs import Descent, minimise_lanes
from abps.gp.linalg import cholesky, squared_distances

__all__ = ["Evidence", "Fit", "fit", "noise_estimate"]

Array = NDArray[np.float64]

_ROUNDING = 1e-10
"""Repeated returns whose spread is below this fraction of their size are equal but for rounding."""


_PROGRESS = 1e-6
"""The winner has converged when a step improves the evidence by less than this, relative to it."""


_COARSE = 1e-5
"""The same for those that compete; the evidence is then within a few hundredths of the optimum's."""


_PAIRS = 20
"""Pairs that the optimiser remembers: with 10 it needs an eighth more evaluations."""


_MERGE = 0.2
"""Starts closer than this fraction of the bounds' width in every parameter are taken to be on the way to the same optimum."""


_LONG = 0.98
"""Lengthscales above this position within the bounds (logarithmic, 0 to 1) are long: their parameters hardly matter."""


_SWAPPED = 0.8
"""Fraction of the other lengthscales that a swap makes long."""


_SPREAD = 0.4
"""Standard deviation of a random move, as a fraction of the bounds' width."""


class Fit(NamedTuple):
    """Fitted hyper-parameters and how they were found."""

    hyper: Hyper
    evidence: float
    """Log marginal likelihood of the window."""
    winner: str
    """Where the best optimum started: "warm", "centre", "grid", "random" or "hop"; "none" for a fallback."""
    fallback: str
    """Why nothing was fitted ("single point", "equal returns", "no finite start"), or ""."""
    evaluations: int
    """Evidence evaluations, screening included."""
    jitter: float
    """Jitter of the Gram matrix at the optimum; 0.0 when none was needed."""


def noise_estimate(repeats: Sequence[ArrayLike], floor: float) -> float:
    """σ̂_n: the mean of the non-zero standard deviations of the centres' repeated returns, `floor` when there is none.

    A spread that is only rounding counts as zero, as does a centre with a single episode.
    """
    spreads = []
    for returns in repeats:
        array = np.asarray(returns, dtype=np.float64)
        if array.size > 1:
            spread = float(np.std(array))
            if spread > _ROUNDING * float(np.abs(array).max()):
                spreads.append(spread)
    return float(np.mean(spreads)) if spreads else float(floor)


class Evidence:
    """Log marginal likelihood of one window as a function of (log ℓ, log σ_f, log σ_n[, log σ_β]), with its gradient."""

    def __init__(
        self,
        points: Array,
        residual: Array,
        *,
        scale_by_dimension: bool = True,
        mean_bound: float | None = None,
        counts: Array | None = None,
        feature_values: Array | None = None,
    ) -> None:
        self.n, self.d = points.shape
        self.points = points - points.mean(axis=0)  # Centred, so that the products above cancel as little as possible.
        self.squares = self.points**2
        self.residual = residual
        self.mean_bound = mean_bound
        self.root_dimension = np.sqrt(self.d) if scale_by_dimension else 1.0
        self.scale_by_dimension = scale_by_dimension
        self.inverse_counts = np.ones(self.n) if counts is None else 1.0 / counts
        self.features = feature_values
        self.evaluations = 0

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.d + 2 + (self.features is not None)

    def hyper(self, parameters: Array) -> Hyper:
        """The hyper-parameters at `parameters`, the best constant mean included."""
        mean = self._solve(parameters)[0]
        scale = float(np.exp(parameters[self.d + 2])) if self.features is not None else 0.0
        return Hyper(
            np.exp(parameters[: self.d]),
            float(np.exp(parameters[self.d])),
            float(np.exp(parameters[self.d + 1])),
            mean,
            scale,
            self.scale_by_dimension,
        )

    def value(self, parameters: Array) -> float:
        """Log evidence."""
        return self._solve(parameters)[1]

    def jitter(self, parameters: Array) -> float:
        """Jitter that the Gram matrix needs at `parameters`."""
        return self._solve(parameters)[2].jitter

    def _solve(self, parameters: Array):
        self.evaluations += 1
        inverse_scale = np.exp(-parameters[: self.d]) / self.root_dimension
        kernel = np.exp(2.0 * parameters[self.d] - 0.5 * squared_distances(self.points * inverse_scale))
        matrix = kernel.copy()
        matrix.flat[:: self.n + 1] += np.exp(2.0 * parameters[self.d + 1]) * self.inverse_counts
        if self.features is not None:
            matrix += np.exp(2.0 * parameters[self.d + 2]) * (self.features @ self.features.T)
        factor = cholesky(matrix)
        weights = factor.solve(self.residual)
        mean, residual = 0.0, self.residual
        if self.mean_bound is not None:
            ones = factor.solve(np.ones(self.n))
            mean = float(np.clip(weights.sum() / ones.sum(), -self.mean_bound, self.mean_bound))
            weights, residual = weights - mean * ones, self.residual - mean
        value = -0.5 * (float(residual @ weights) + factor.log_determinant() + self.n * np.log(2.0 * np.pi))
        return mean, value, factor, kernel, weights, inverse_scale

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Log evidence and its gradient."""
        _, value, factor, kernel, weights, inverse_scale = self._solve(parameters)
        outer = np.outer(weights, weights) - factor.inverse()  # ∂evidence/∂K = ½ (ααᵀ − K⁻¹)
        gradient = np.empty(self.size)
        noise = np.exp(2.0 * parameters[self.d + 1])
        gradient[self.d + 1] = noise * float(np.diagonal(outer) @ self.inverse_counts)
        if self.features is not None:
            scale = np.exp(2.0 * parameters[self.d + 2])
            gradient[self.d + 2] = scale * float(((outer @ self.features) * self.features).sum())
        outer *= kernel
        rows = outer.sum(axis=1)
        gradient[self.d] = float(rows.sum())
        bent = rows @ self.squares - np.einsum("ij,ij->j", self.points, outer @ self.points)
        gradient[: self.d] = bent * inverse_scale**2
        return value, gradient


def fit(
    points: ArrayLike,
    returns: ArrayLike,
    config: GpConfig,
    rng: np.random.Generator,
    *,
    noise: float,
    mean_at_points: ArrayLike | None = None,
    mean_bound: float | None = None,
    counts: ArrayLike | None = None,
    feature_values: ArrayLike | None = None,
    feature_prior: float | ArrayLike = 0.0,
    previous: Hyper | None = None,
) -> Fit:
    """Fit the hyper-parameters to a window of points.

    Args:
        points: X (n, d).
        returns: y (n,).
        config: bounds and numbers of starts.
        rng: for the random starts.
        noise: σ̂_n, see `noise_estimate`.
        mean_at_points: the search's own mean function at X (n,), subtracted from the returns.
        mean_bound: a constant mean is fitted within ± this; None: no constant mean.
        counts: measurements averaged per point (n,).
        feature_values: Φ (n, k), when linear features are used.
        feature_prior: β₀ of the features' weights.
        previous: the last optimum, for a warm start.
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    residual = np.array(returns, dtype=np.float64)
    if points.ndim != 2 or len(points) < 1 or residual.shape != (len(points),):
        raise ShapeError(
            f"points {points.shape} and returns {residual.shape} do not fit; expected (n, d) and (n,), n >= 1"
        )
    if mean_at_points is not None:
        residual -= np.asarray(mean_at_points, dtype=np.float64)
    features = None if feature_values is None else np.ascontiguousarray(feature_values, dtype=np.float64)
    if features is not None:
        residual -= features @ np.broadcast_to(np.asarray(feature_prior, dtype=np.float64), (features.shape[1],))
    if not (np.isfinite(points).all() and np.isfinite(residual).all() and np.isfinite(noise) and noise > 0):
        raise ShapeError("points, returns, mean function and noise must be finite, and the noise positive")
    evidence = Evidence(
        points,
        residual,
        scale_by_dimension=config.scale_by_dimension,
        mean_bound=mean_bound,
        counts=None if counts is None else np.asarray(counts, dtype=np.float64),
        feature_values=features,
    )
    signal = float(np.std(residual))
    equal = signal <= _ROUNDING * max(float(np.abs(residual).max()), config.noise_floor)
    lower, upper = _bounds(evidence, config, noise if equal else signal, noise)
    if equal:
        reason = "single point" if len(points) == 1 else "equal returns"
        return _fallback(evidence, lower, upper, previous, reason)
    return _search(evidence, lower, upper, config, rng, previous)


def _bounds(evidence: Evidence, config: GpConfig, signal: float, noise: float) -> tuple[Array, Array]:
    d = evidence.d
    lower, upper = np.empty(evidence.size), np.empty(evidence.size)
    lower[:d], upper[:d] = np.log(config.lengthscale_low), np.log(config.lengthscale_high)
    lower[d], upper[d] = np.log(signal / config.signal_factor), np.log(signal * config.signal_factor)
    lower[d + 1], upper[d + 1] = np.log(noise / config.noise_factor), np.log(noise * config.noise_factor)
    if evidence.features is not None:
        lower[d + 2], upper[d + 2] = np.log(config.feature_scale_low), np.log(config.feature_scale_high)
    return lower, upper


def _vector(evidence: Evidence, hyper: Hyper, lower: Array, upper: Array) -> Array:
    """A previous optimum as a start, moved into the bounds."""
    parts = [np.log(hyper.lengthscales), [np.log(hyper.signal), np.log(max(hyper.noise, 1e-300))]]
    if evidence.features is not None:
        parts.append([np.log(max(hyper.feature_scale, 1e-300))])
    return np.clip(np.concatenate(parts), lower, upper)


def _fallback(evidence: Evidence, lower: Array, upper: Array, previous: Hyper | None, reason: str) -> Fit:
    """Data that say nothing about the lengthscales: keep the previous ones, or take the middle of the bounds."""
    parameters = 0.5 * (lower + upper)
    if previous is not None and len(previous.lengthscales) == evidence.d:
        parameters[: evidence.d] = _vector(evidence, previous, lower, upper)[: evidence.d]
    return Fit(
        evidence.hyper(parameters),
        float(evidence.value(parameters)),
        "none",
        reason,
        evidence.evaluations,
        evidence.jitter(parameters),
    )


def _starts(
    evidence: Evidence, lower: Array, upper: Array, config: GpConfig, rng: np.random.Generator, previous: Hyper | None
) -> tuple[Array, list[str]]:
    """Starts (m, size) and their names: warm, the centre of the bounds, then in turn equal, nearly equal and mostly long lengthscales.

    A window has too few points for all lengthscales: at most optima many of them are long and the noise is small. Independent uniform
    lengthscales, often too short for any two points to be correlated, find the best optimum about half as often (docs/gp.md).
    """
    rows, names = [0.5 * (lower + upper)], ["centre"]
    if previous is not None and len(previous.lengthscales) == evidence.d:
        rows.insert(0, _vector(evidence, previous, lower, upper))
        names.insert(0, "warm")
    while len(rows) < config.starts:
        kind = len(rows) % 4
        position = rng.uniform(size=evidence.size)
        if kind == 3:
            position[: evidence.d] **= 0.4
        else:
            spread = 0.1 if kind == 1 else 0.0
            position[: evidence.d] = rng.uniform(0.3, 1.0) + spread * rng.standard_normal(evidence.d)
        position[evidence.d] = 0.3 + 0.4 * position[evidence.d]
        position[evidence.d + 1] *= 0.5
        rows.append(lower + np.clip(position, 0.0, 1.0) * (upper - lower))
        names.append(("grid", "random", "grid", "random")[kind])
    return np.array(rows[: config.starts]), names[: config.starts]


def _search(
    evidence: Evidence, lower: Array, upper: Array, config: GpConfig, rng: np.random.Generator, previous: Hyper | None
) -> Fit:
    starts, names = _starts(evidence, lower, upper, config, rng, previous)
    values = np.array([_value(evidence, start) for start in starts])
    order = [index for index in np.argsort(-values, kind="stable") if np.isfinite(values[index])]
    if not order:
        return _fallback(evidence, lower, upper, previous, "no finite start")
    chosen = order[: config.polished]
    if "warm" in names and 0 not in chosen and 0 in order:
        chosen[-1] = 0
    best, winner = starts[chosen[0]], names[chosen[0]]
    if len(chosen) > 1:
        best, lane = _explore(evidence, starts[chosen], lower, upper, config, rng)
        winner = names[chosen[lane]] if lane < len(chosen) else "hop"
    found = _descend(evidence, best[None], lower, upper, config, _PROGRESS)
    parameters, value = found.points[0], -float(found.losses[0])
    if not value >= values[order[0]]:  # Every lane was bad.
        parameters, value, winner = starts[order[0]], float(values[order[0]]), names[order[0]]
    return Fit(evidence.hyper(parameters), float(value), winner, "", evidence.evaluations, evidence.jitter(parameters))


def _explore(
    evidence: Evidence, starts: Array, lower: Array, upper: Array, config: GpConfig, rng: np.random.Generator
) -> tuple[Array, int]:
    """The best optimum reached from `starts` and from around the best so far, and the number of its start."""
    found = _descend(evidence, starts, lower, upper, config, _COARSE)
    points, losses, ended = found.points, found.losses, found.ended
    for _ in range(config.hops):
        # When all, or all but one, were on the way to known optima, there is little left to find.
        if not ended.any() or found.merged.sum() >= max(len(found.merged) - 1, 1):
            break
        best = points[np.argmin(np.where(ended, losses, np.inf))]
        around = [_neighbour(best, evidence.d, lower, upper, rng, swap=k % 2 == 1) for k in range(config.hop_starts)]
        found = _descend(
            evidence, np.array(around), lower, upper, config, _COARSE, known=(points[ended], losses[ended])
        )
        points, losses = np.concatenate([points, found.points]), np.concatenate([losses, found.losses])
        ended = np.concatenate([ended, found.ended])
    lane = int(np.argmin(np.where(ended, losses, np.inf)))
    return points[lane], lane


def _neighbour(optimum: Array, d: int, lower: Array, upper: Array, rng: np.random.Generator, *, swap: bool) -> Array:
    """A start from which another optimum near `optimum` may be reached.

    Either all lengthscales are moved at random, or most of those that are not long (the parameters that matter) become long and as many others short.
    """
    width = upper - lower
    position = (optimum - lower) / np.where(width > 0.0, width, 1.0)
    lengths = position[:d]
    if swap:
        short = lengths < _LONG
        others = rng.permutation(np.flatnonzero(~short))[: round(_SWAPPED * int(short.sum()))]
        lengths[short & (rng.uniform(size=d) < _SWAPPED)] = 1.0
        lengths[others] = 0.5
    else:
        lengths += _SPREAD * rng.standard_normal(d)
    return lower + np.clip(position, 0.0, 1.0) * width


def _descend(
    evidence: Evidence,
    starts: Array,
    lower: Array,
    upper: Array,
    config: GpConfig,
    progress: float,
    known: tuple[Array, Array] | None = None,
) -> Descent:
    return minimise_lanes(
        lambda parameters: _losses(evidence, parameters),
        starts,
        lower,
        upper,
        iterations=config.iterations,
        progress=progress,
        flatness=1e-4,
        pairs=_PAIRS,
        leg=config.leg,
        hope=config.hope,
        merge=_MERGE,
        known=known,
    )


def _losses(evidence: Evidence, parameters: Array) -> tuple[Array, Array]:
    """Negative evidence (m,) and its gradient (m, size) of every row; NaN where the Gram matrix cannot be factored."""
    losses, gradients = np.empty(len(parameters)), np.empty(parameters.shape)
    for row, vector in enumerate(parameters):
        try:
            value, gradient = evidence.value_and_gradient(vector)
        except NumericsError:
            value, gradient = np.nan, np.nan
        losses[row], gradients[row] = -value, -np.asarray(gradient)
    return losses, gradients


def _value(evidence: Evidence, parameters: Array) -> float:
    try:
        with np.errstate(all="ignore"):
            value = evidence.value(parameters)
    except NumericsError:
        return -np.inf
    return value if np.isfinite(value) else -np.inf
