"""Hyper-parameters by maximum marginal likelihood within dynamic bounds (paper Appendix A).

Shapes: n points, d parameters, l lengthscales (d, or one for all), k features; the optimiser's vector is
(log ℓ (l), log σ_f, log σ_n[, log σ_β]).

The bounds follow the data: σ_f within a factor of the residuals' standard deviation, σ_n within a factor of the spread
of the centre's repeated returns, ℓ within the settings. A constant mean, where the prior has one, is maximised in
closed form inside the likelihood (and clipped to its bound; the gradient stays right, because at the maximum the
derivative in the mean is zero or points out of the bounds). The gradient in all d lengthscales costs two n×n×d matrix
products:

    Σ_jk A_jk (x_ji − x_ki)² = 2 (Σ_j x_ji² Σ_k A_jk − x_iᵀ A x_i).

Many starts are compared by likelihood and the best set out together (`lbfgs`); at regular checks those that cannot
catch up give up, and so does a start that is about to reach the optimum of a better one. The previous optimum is always
among those that set out. Optima differ in which lengthscales are long, that is in which parameters matter, and the best
is often near a good one: so the search goes on with new starts around the best so far (`_neighbour`), until it only
finds optima it knows. The winner is polished.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from abps.arrays import Array
from abps.errors import NumericsError, ShapeError
from abps.model.kernel import Hyper, Kernel, scaled
from abps.model.lbfgs import Descent, minimise_starts
from abps.model.linalg import cholesky, squared_distances
from abps.model.posterior import SQUARED_EXPONENTIAL

__all__ = [
    "FEW",
    "SHARED",
    "THOROUGH",
    "WARM",
    "Bounds",
    "Effort",
    "Fit",
    "Lengthscales",
    "MarginalLikelihood",
    "OwnLengthscales",
    "SharedLengthscale",
]
__all__ += ["fit", "noise_estimate"]

_ROUNDING = 1e-10
"""Repeated returns whose spread is below this fraction of their size are equal but for rounding."""


_PROGRESS = 1e-6
"""The winner has converged when a step improves the evidence by less than this, relative to it."""


_COARSE = 1e-5
"""The same for those that compete; the evidence is then within a few hundredths of the optimum's."""


_PAIRS = 20
"""Pairs that the optimiser remembers: with 10 it needs an eighth more evaluations."""


_MERGE = 0.2
"""Starts closer than this fraction of the bounds' width in every parameter are taken to be on the way to the same
optimum."""


_LONG = 0.98
"""Lengthscales above this position within the bounds (logarithmic, 0 to 1) are long."""


_SWAPPED = 0.8
"""Fraction of the other lengthscales that a swap makes long."""


_SPREAD = 0.4
"""Standard deviation of a random move, as a fraction of the bounds' width."""


class Effort(NamedTuple):
    """How hard the optimiser works; constants of this module, not settings (docs/gp.md says how they were found)."""

    starts: int = 14
    """Starts that are compared by their likelihood."""
    polished: int = 8
    """How many of the best set out on an L-BFGS."""
    check_every: int = 8
    """Iterations after which a start may give up: behind for good, or following a better one to the same optimum."""
    catch_up_legs: float = 4.0
    """A start is behind for good when so many more legs like its last would not bring it to the best."""
    rounds: int = 4
    """Rounds of new starts around the best optimum so far, at most."""
    round_starts: int = 4
    """New starts of one such round."""
    iterations: int = 200
    """L-BFGS iterations of one start, at most."""


THOROUGH = Effort()
SHARED = Effort(starts=6, polished=2, rounds=0)
"""For one shared lengthscale: three or four hyper-parameters have few optima."""
FEW = Effort(starts=4, polished=2, rounds=0)
"""The last optimum and the best of some other starts: for optimisers that start from very few points, whose first
optimum says little."""
WARM = Effort(starts=1, polished=1, rounds=0)
"""Only the last optimum is polished: after a probe the window has changed by one point."""


class Bounds(NamedTuple):
    """Where hyper-parameters are looked for."""

    lengthscale: tuple[float, float]
    signal_factor: float = 3.0
    """σ_f is searched within this factor of the residuals' standard deviation."""
    noise_factor: float = 3.0
    """σ_n is searched within this factor of σ̂_n."""
    noise_floor: float = 1e-4
    """σ̂_n when all repeated returns are equal."""
    feature_scale: tuple[float, float] = (1e-4, 3.0)
    """σ_β, the prior std of the features' weights."""
    lengthscale_prior: tuple[float, float] | None = None
    """Median and log-std of a log-normal prior of every lengthscale; None: uniform within the bounds."""
    noise_prior: float | None = None
    """Log-std of a log-normal prior of σ_n around σ̂_n; None: uniform within the bounds."""
    noise_least: float = 0.0
    """σ_n is never below this, such as what repeated episodes show, if it is below the upper bound."""


class Fit(NamedTuple):
    """Fitted hyper-parameters and how they were found."""

    hyper: Hyper
    log_likelihood: float
    """Log marginal likelihood of the window."""
    winner: str
    """Where the best optimum started: "warm", "centre", "grid", "random" or "around"; "none" for a fallback."""
    fallback: str
    """Why nothing was fitted ("single point", "equal returns", "no finite start"), or ""."""
    evaluations: int
    """Likelihood evaluations, screening included."""
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


class OwnLengthscales:
    """One lengthscale per parameter (ARD): squared distances of n points (n, d) as a function of log ℓ (d,)."""

    def __init__(self, points: Array, scale_by_dimension: bool) -> None:
        self.points = points - points.mean(axis=0)  # Centred, so that the products of the gradient cancel little.
        self.squares = self.points**2
        self.count = self.d = points.shape[1]
        self.root_dimension = np.sqrt(self.d) if scale_by_dimension else 1.0

    def squared(self, logarithms: Array) -> Array:
        """|t_j − t_k|² (n, n)."""
        return squared_distances(self.points * self._inverse_scale(logarithms))

    def gradient(self, outer: Array, logarithms: Array) -> Array:
        """½ Σ_jk A_jk (t_ji − t_ki)² (d,) for a symmetric A (n, n): ∂κ/∂(log ℓ_i) is w·(t_ji − t_ki)²."""
        sums = outer.sum(axis=1) @ self.squares - np.einsum("ij,ij->j", self.points, outer @ self.points)
        return sums * self._inverse_scale(logarithms) ** 2

    def expanded(self, logarithms: Array) -> Array:
        """ℓ (d,)."""
        return np.exp(logarithms)

    def reduced(self, hyper: Hyper) -> Array:
        """log ℓ (l,) of hyper-parameters."""
        return np.log(hyper.lengthscales)

    def _inverse_scale(self, logarithms: Array) -> Array:
        return np.exp(-logarithms) / self.root_dimension


class SharedLengthscale:
    """One lengthscale for all parameters: the distances are computed once, and a fit costs milliseconds."""

    def __init__(self, points: Array, scale_by_dimension: bool, squares: Array | None = None) -> None:
        """`squares` take the place of |x_j − x_k|², such as those of an additive kernel's components (C, n, n)."""
        self.count, self.d = 1, points.shape[1]
        squares = squared_distances(points) if squares is None else squares
        self.distances = squares / (self.d if scale_by_dimension else 1.0)

    def squared(self, logarithms: Array) -> Array:
        """|t_j − t_k|² (n, n)."""
        return self.distances * np.exp(-2.0 * logarithms[0])

    def gradient(self, outer: Array, logarithms: Array) -> Array:
        """½ Σ_jk A_jk |t_j − t_k|² (1,) for a symmetric A (n, n): the sum of the own lengthscales' gradients."""
        return np.array([0.5 * float((outer * self.squared(logarithms)).sum())])

    def expanded(self, logarithms: Array) -> Array:
        """ℓ (d,)."""
        return np.full(self.d, np.exp(logarithms[0]))

    def reduced(self, hyper: Hyper) -> Array:
        """log ℓ (1,) of hyper-parameters."""
        return np.log(hyper.lengthscales[:1])


class Lengthscales(Protocol):
    """Squared distances of a window as a function of log ℓ (l,), and what their gradient needs."""

    @property
    def count(self) -> int:
        """l"""
        ...

    @property
    def d(self) -> int:
        """Parameters."""
        ...

    def squared(self, logarithms: Array) -> Array: ...

    def gradient(self, outer: Array, logarithms: Array) -> Array: ...

    def expanded(self, logarithms: Array) -> Array: ...

    def reduced(self, hyper: Hyper) -> Array: ...


class MarginalLikelihood:
    """Log marginal likelihood of a window as a function of (log ℓ, log σ_f, log σ_n[, log σ_β]), with its gradient."""

    def __init__(
        self,
        lengthscales: Lengthscales,
        residual: Array,
        *,
        scale_by_dimension: bool = True,
        mean_bound: float | None = None,
        counts: Array | None = None,
        feature_values: Array | None = None,
        kernel: Kernel = SQUARED_EXPONENTIAL,
        prior: tuple[Array, Array] | None = None,
    ) -> None:
        """`prior` holds the mean and the precision of a Gaussian prior of the parameters; None: flat."""
        self.lengthscales, self.kernel, self.prior = lengthscales, kernel, prior
        self.n, self.count = len(residual), lengthscales.count
        self.residual = residual
        self.mean_bound = mean_bound
        self.scale_by_dimension = scale_by_dimension
        self.inverse_counts = np.ones(self.n) if counts is None else 1.0 / counts
        self.features = feature_values
        self.evaluations = 0

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.count + 2 + (self.features is not None)

    def hyper(self, parameters: Array) -> Hyper:
        """The hyper-parameters at `parameters`, the best constant mean included."""
        mean = self._solve(parameters)[0]
        scale = float(np.exp(parameters[self.count + 2])) if self.features is not None else 0.0
        return Hyper(
            self.lengthscales.expanded(parameters[: self.count]),
            float(np.exp(parameters[self.count])),
            float(np.exp(parameters[self.count + 1])),
            mean,
            scale,
            self.scale_by_dimension,
        )

    def value(self, parameters: Array) -> float:
        """Log marginal likelihood."""
        return self._solve(parameters)[1]

    def jitter(self, parameters: Array) -> float:
        """Jitter that the Gram matrix needs at `parameters`."""
        return self._solve(parameters)[2].jitter

    def _solve(self, parameters: Array):
        self.evaluations += 1
        profile = scaled(self.kernel, self.lengthscales.squared(parameters[: self.count]), 2.0 * parameters[self.count])
        matrix = profile.value.copy()
        matrix.flat[:: self.n + 1] += np.exp(2.0 * parameters[self.count + 1]) * self.inverse_counts
        if self.features is not None:
            matrix += np.exp(2.0 * parameters[self.count + 2]) * (self.features @ self.features.T)
        factor = cholesky(matrix)
        weights = factor.solve(self.residual)
        mean, residual = 0.0, self.residual
        if self.mean_bound is not None:
            ones = factor.solve(np.ones(self.n))
            mean = float(np.clip(weights.sum() / ones.sum(), -self.mean_bound, self.mean_bound))
            weights, residual = weights - mean * ones, self.residual - mean
        value = -0.5 * (float(residual @ weights) + factor.log_determinant() + self.n * np.log(2.0 * np.pi))
        if self.prior is not None:
            value -= 0.5 * float(self.prior[1] @ np.square(parameters - self.prior[0]))
        return mean, value, factor, profile, weights

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Log marginal likelihood and its gradient."""
        _, value, factor, profile, weights = self._solve(parameters)
        outer = np.outer(weights, weights) - factor.inverse()  # ∂likelihood/∂K = ½ (ααᵀ − K⁻¹)
        gradient = np.empty(self.size)
        noise = np.exp(2.0 * parameters[self.count + 1])
        gradient[self.count + 1] = noise * float(np.diagonal(outer) @ self.inverse_counts)
        if self.features is not None:
            scale = np.exp(2.0 * parameters[self.count + 2])
            gradient[self.count + 2] = scale * float(((outer @ self.features) * self.features).sum())
        weighted = outer * profile.weight
        valued = weighted if profile.weight is profile.value else outer * profile.value
        gradient[self.count] = float(valued.sum(axis=1).sum())
        gradient[: self.count] = self.lengthscales.gradient(weighted, parameters[: self.count])
        if self.prior is not None:
            gradient -= self.prior[1] * (parameters - self.prior[0])
        return value, gradient


def fit(
    points: ArrayLike,
    returns: ArrayLike,
    bounds: Bounds,
    rng: np.random.Generator,
    *,
    noise: float,
    kernel: Kernel = SQUARED_EXPONENTIAL,
    shared_lengthscale: bool = False,
    scale_by_dimension: bool = True,
    effort: Effort = THOROUGH,
    mean_at_points: ArrayLike | None = None,
    mean_bound: float | None = None,
    counts: ArrayLike | None = None,
    feature_values: ArrayLike | None = None,
    feature_prior: float | ArrayLike = 0.0,
    previous: Hyper | None = None,
    lengthscales: Lengthscales | None = None,
) -> Fit:
    """Fit the hyper-parameters to a window of points.

    Args:
        points: X (n, d).
        returns: y (n,).
        bounds: where hyper-parameters are looked for.
        rng: for the random starts.
        noise: σ̂_n, see `noise_estimate`.
        kernel: the kernel.
        shared_lengthscale: one lengthscale for all parameters instead of one each.
        scale_by_dimension: whether the effective lengthscales are ℓ·√d.
        effort: numbers of starts and iterations.
        mean_at_points: the prior's own mean function at X (n,), subtracted from the returns.
        mean_bound: a constant mean is fitted within ± this; None: no constant mean.
        counts: measurements averaged per point (n,).
        feature_values: Φ (n, k), when linear features are used.
        feature_prior: β₀ of the features' weights.
        previous: the last optimum, for a warm start.
        lengthscales: the distances of the points, where they are of another kind than the two above.
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
    if lengthscales is None:
        lengthscales = (SharedLengthscale if shared_lengthscale else OwnLengthscales)(points, scale_by_dimension)
    likelihood = MarginalLikelihood(
        lengthscales,
        residual,
        scale_by_dimension=scale_by_dimension,
        mean_bound=mean_bound,
        counts=None if counts is None else np.asarray(counts, dtype=np.float64),
        feature_values=features,
        kernel=kernel,
    )
    likelihood.prior = _hyper_prior(likelihood, bounds, noise)
    signal = float(np.std(residual))
    equal = signal <= _ROUNDING * max(float(np.abs(residual).max()), bounds.noise_floor)
    lower, upper = _box(likelihood, bounds, noise if equal else signal, noise)
    if equal:
        reason = "single point" if len(points) == 1 else "equal returns"
        return _fallback(likelihood, lower, upper, previous, reason)
    return _search(likelihood, lower, upper, effort, rng, previous)


def _hyper_prior(likelihood: MarginalLikelihood, bounds: Bounds, noise: float) -> tuple[Array, Array] | None:
    """Mean and precision of the log-normal hyper-priors that the bounds ask for."""
    if bounds.lengthscale_prior is None and bounds.noise_prior is None:
        return None
    mean, precision, count = np.zeros(likelihood.size), np.zeros(likelihood.size), likelihood.count
    if bounds.lengthscale_prior is not None:
        mean[:count], precision[:count] = np.log(bounds.lengthscale_prior[0]), bounds.lengthscale_prior[1] ** -2.0
    if bounds.noise_prior is not None:
        mean[count + 1], precision[count + 1] = np.log(noise), bounds.noise_prior**-2.0
    return mean, precision


def _box(likelihood: MarginalLikelihood, bounds: Bounds, signal: float, noise: float) -> tuple[Array, Array]:
    count = likelihood.count
    lower, upper = np.empty(likelihood.size), np.empty(likelihood.size)
    lower[:count], upper[:count] = np.log(bounds.lengthscale[0]), np.log(bounds.lengthscale[1])
    lower[count], upper[count] = np.log(signal / bounds.signal_factor), np.log(signal * bounds.signal_factor)
    largest = noise * bounds.noise_factor
    lower[count + 1] = np.log(min(max(noise / bounds.noise_factor, bounds.noise_least), largest))
    upper[count + 1] = np.log(largest)
    if likelihood.features is not None:
        lower[count + 2], upper[count + 2] = np.log(bounds.feature_scale[0]), np.log(bounds.feature_scale[1])
    return lower, upper


def _vector(likelihood: MarginalLikelihood, hyper: Hyper, lower: Array, upper: Array) -> Array:
    """A previous optimum as a start, moved into the bounds."""
    parts = [likelihood.lengthscales.reduced(hyper), [np.log(hyper.signal), np.log(max(hyper.noise, 1e-300))]]
    if likelihood.features is not None:
        parts.append([np.log(max(hyper.feature_scale, 1e-300))])
    return np.clip(np.concatenate(parts), lower, upper)


def _fallback(likelihood: MarginalLikelihood, lower: Array, upper: Array, previous: Hyper | None, reason: str) -> Fit:
    """Data that say nothing about the lengthscales: keep the previous ones, or take the middle of the bounds."""
    parameters = 0.5 * (lower + upper)
    if previous is not None and len(previous.lengthscales) == likelihood.lengthscales.d:
        parameters[: likelihood.count] = _vector(likelihood, previous, lower, upper)[: likelihood.count]
    return Fit(
        likelihood.hyper(parameters),
        float(likelihood.value(parameters)),
        "none",
        reason,
        likelihood.evaluations,
        likelihood.jitter(parameters),
    )


def _starts(
    likelihood: MarginalLikelihood,
    lower: Array,
    upper: Array,
    effort: Effort,
    rng: np.random.Generator,
    previous: Hyper | None,
) -> tuple[Array, list[str]]:
    """Starts (m, size) and their names: warm, the centre of the bounds, then in turn equal, nearly equal and mostly
    long lengthscales.

    A window has too few points for all lengthscales: at most optima many of them are long and the noise is small.
    Independent uniform lengthscales, often too short for any two points to be correlated, find the best optimum about
    half as often (docs/gp.md).
    """
    rows, names = [0.5 * (lower + upper)], ["centre"]
    if previous is not None and len(previous.lengthscales) == likelihood.lengthscales.d:
        rows.insert(0, _vector(likelihood, previous, lower, upper))
        names.insert(0, "warm")
    while len(rows) < effort.starts:
        kind = len(rows) % 4
        position = rng.uniform(size=likelihood.size)
        if kind == 3:
            position[: likelihood.count] **= 0.4
        else:
            spread = 0.1 if kind == 1 else 0.0
            position[: likelihood.count] = rng.uniform(0.3, 1.0) + spread * rng.standard_normal(likelihood.count)
        position[likelihood.count] = 0.3 + 0.4 * position[likelihood.count]
        position[likelihood.count + 1] *= 0.5
        rows.append(lower + np.clip(position, 0.0, 1.0) * (upper - lower))
        names.append(("grid", "random", "grid", "random")[kind])
    return np.array(rows[: effort.starts]), names[: effort.starts]


def _search(
    likelihood: MarginalLikelihood,
    lower: Array,
    upper: Array,
    effort: Effort,
    rng: np.random.Generator,
    previous: Hyper | None,
) -> Fit:
    starts, names = _starts(likelihood, lower, upper, effort, rng, previous)
    values = np.array([_value(likelihood, start) for start in starts])
    order = [index for index in np.argsort(-values, kind="stable") if np.isfinite(values[index])]
    if not order:
        return _fallback(likelihood, lower, upper, previous, "no finite start")
    chosen = order[: effort.polished]
    if "warm" in names and 0 not in chosen and 0 in order:
        chosen[-1] = 0
    best, winner = starts[chosen[0]], names[chosen[0]]
    if len(chosen) > 1:
        best, place = _explore(likelihood, starts[chosen], lower, upper, effort, rng)
        winner = names[chosen[place]] if place < len(chosen) else "around"
    found = _descend(likelihood, best[None], lower, upper, effort, _PROGRESS)
    parameters, value = found.points[0], -float(found.losses[0])
    if not value >= values[order[0]]:  # Every place was bad.
        parameters, value, winner = starts[order[0]], float(values[order[0]]), names[order[0]]
    return Fit(
        likelihood.hyper(parameters), float(value), winner, "", likelihood.evaluations, likelihood.jitter(parameters)
    )


def _explore(
    likelihood: MarginalLikelihood, starts: Array, lower: Array, upper: Array, effort: Effort, rng: np.random.Generator
) -> tuple[Array, int]:
    """The best optimum reached from `starts` and from around the best so far, and the number of its start."""
    found = _descend(likelihood, starts, lower, upper, effort, _COARSE)
    points, losses, ended = found.points, found.losses, found.ended
    for _ in range(effort.rounds):
        # When all, or all but one, were on the way to known optima, there is little left to find.
        if not ended.any() or found.merged.sum() >= max(len(found.merged) - 1, 1):
            break
        best = points[np.argmin(np.where(ended, losses, np.inf))]
        around = [
            _neighbour(best, likelihood.count, lower, upper, rng, swap=k % 2 == 1) for k in range(effort.round_starts)
        ]
        found = _descend(
            likelihood, np.array(around), lower, upper, effort, _COARSE, known=(points[ended], losses[ended])
        )
        points, losses = np.concatenate([points, found.points]), np.concatenate([losses, found.losses])
        ended = np.concatenate([ended, found.ended])
    place = int(np.argmin(np.where(ended, losses, np.inf)))
    return points[place], place


def _neighbour(optimum: Array, d: int, lower: Array, upper: Array, rng: np.random.Generator, *, swap: bool) -> Array:
    """A start from which another optimum near `optimum` may be reached.

    Either all lengthscales are moved at random, or most of those that are not long (the parameters that matter) become
    long and as many others short.
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
    likelihood: MarginalLikelihood,
    starts: Array,
    lower: Array,
    upper: Array,
    effort: Effort,
    progress: float,
    known: tuple[Array, Array] | None = None,
) -> Descent:
    return minimise_starts(
        lambda parameters: _losses(likelihood, parameters),
        starts,
        lower,
        upper,
        iterations=effort.iterations,
        progress=progress,
        flatness=1e-4,
        pairs=_PAIRS,
        check_every=effort.check_every,
        catch_up_legs=effort.catch_up_legs,
        merge=_MERGE,
        known=known,
    )


def _losses(likelihood: MarginalLikelihood, parameters: Array) -> tuple[Array, Array]:
    """Negative likelihood (m,) and its gradient (m, size) of every row; NaN where the Gram matrix has no factor."""
    losses, gradients = np.empty(len(parameters)), np.empty(parameters.shape)
    for row, vector in enumerate(parameters):
        try:
            value, gradient = likelihood.value_and_gradient(vector)
        except NumericsError:
            value, gradient = np.nan, np.nan
        losses[row], gradients[row] = -value, -np.asarray(gradient)
    return losses, gradients


def _value(likelihood: MarginalLikelihood, parameters: Array) -> float:
    try:
        with np.errstate(all="ignore"):
            value = likelihood.value(parameters)
    except NumericsError:
        return -np.inf
    return value if np.isfinite(value) else -np.inf
