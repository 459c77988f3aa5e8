"""Posterior of J at any points and of ∇J at one centre θ, with Σ kept as diagonal plus low rank (paper Section 2.2).

Shapes: n points, d parameters, k features, r ≤ min(d, n + k) directions the data speak about.

**Route** (docs/gp.md derives it). In whitened coordinates t = (x − θ)/L and values divided by σ_f, the gradient γ at θ
has prior N(0, I), and

    y | J(θ), γ  ~  N( e·J(θ) + Ḡᵀγ,  C ),     e_j = exp(−½|t_j|²),  Ḡ = cov(γ, y),  C = remainder kernel + noise.

C is built directly, by a formula without cancellation (`kernel.remainder`), never as a difference of Gram matrices, and
one Cholesky of C is the only factorisation. Adding J(θ)'s prior variance back is the rank-one S = C + eeᵀ, so that by
Bayes' rule the posterior precision of γ is

    P = Σ⁻¹ = I + Ḡ S⁻¹ Ḡᵀ = I + W Wᵀ,        P μ = Ḡ S⁻¹ y.

A singular value decomposition W = U s Vᵀ in the r-dimensional span of the data then gives P = I + U s² Uᵀ and Σ = I − U
s²/(1+s²) Uᵀ: sums of non-negative terms both, so Σ, Σ⁻¹, their quadratic forms and square roots are all accurate and
cost O(rd).

**Linear features** (aggregation `evidence`): J(x) = SE part + φ(x)·β with φ(θ) = 0, ∂φ/∂θ = B and β ~ N(β₀, σ_β² I)
integrated out. The prior covariance of the whitened gradient becomes H² = I + B̄B̄ᵀ; γ is whitened by H as well, and C
gains the positive term R Rᵀ. Without features H = I.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from abps.arrays import Array
from abps.errors import NumericsError, ShapeError
from abps.model.kernel import Embedding, Hyper, Kernel, SquaredExponential, remainder
from abps.model.linalg import Factor, cholesky, squared_distances

__all__ = ["Features", "GradientPosterior", "Weights", "condition"]

SQUARED_EXPONENTIAL = SquaredExponential()


class Features(NamedTuple):
    """Linear features of the prior: critics' advantages at the points and their gradient at θ, where they vanish."""

    values: Array
    """Φ (n, k): φ at the n points."""
    gradient: Array
    """B (d, k): ∂φ/∂θ at θ."""
    prior: float | Array = 0.0
    """β₀: prior mean of the weights, one number for all or (k,)."""


class Weights(NamedTuple):
    """Posterior of the features' weights β."""

    mean: Array
    """(k,)"""
    covariance: Array
    """(k, k)"""


def condition(
    points: ArrayLike,
    returns: ArrayLike,
    theta: ArrayLike,
    hyper: Hyper,
    *,
    mean_at_points: ArrayLike | None = None,
    mean_at_theta: float = 0.0,
    mean_gradient: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    features: Features | None = None,
    kernel: Kernel = SQUARED_EXPONENTIAL,
    beside: ArrayLike | None = None,
) -> "GradientPosterior":
    """Condition the Gaussian process on measured returns, at the centre θ.

    Args:
        points: X (n, d); repeated points are legal, n may be 1.
        returns: y (n,), the (mean) measured return of every point.
        theta: the centre (d,).
        hyper: hyper-parameters; `hyper.mean` is added to the mean function.
        mean_at_points: prior mean function at X (n,); zeros when absent.
        mean_at_theta: prior mean function at θ.
        mean_gradient: gradient of the prior mean function at θ (d,); zeros when absent.
        counts: how many measurements each return averages (n,); ones when absent.
        features: linear features whose weights are integrated out.
        kernel: the kernel.
        beside: further coordinates of the points (n, q) that count for distances, zero with derivative zero at θ;
            they have the first lengthscale.

    Raises:
        ShapeError: arrays do not fit together or are not finite.
        NumericsError: the covariance cannot be factored with admissible jitter.
    """
    points, theta = _matrix(points, "points"), _vector(theta, "theta")
    n, d = points.shape
    if n < 1:
        raise ShapeError("at least one measured point is needed to condition on")
    if hyper.lengthscales.shape != (d,):
        raise ShapeError(
            f"points have {d} parameters but the hyper-parameters have {len(hyper.lengthscales)} lengthscales"
        )
    _expect(theta, (d,), "theta")
    returns = _vector(returns, "returns", n)
    mean_at_points = np.zeros(n) if mean_at_points is None else _vector(mean_at_points, "mean_at_points", n)
    mean_gradient = np.zeros(d) if mean_gradient is None else _vector(mean_gradient, "mean_gradient", d)
    counts = np.ones(n) if counts is None else _vector(counts, "counts", n)
    if (counts < 1).any():
        raise ShapeError("counts must be at least 1 for every point")
    residual = returns - mean_at_points - hyper.mean
    if features is not None:
        values, slope = _matrix(features.values, "features.values"), _matrix(features.gradient, "features.gradient")
        _expect(values, (n, values.shape[1]), "features.values")
        _expect(slope, (d, values.shape[1]), "features.gradient")
        prior = np.broadcast_to(np.asarray(features.prior, dtype=np.float64), (values.shape[1],))
        features = Features(values, slope, prior)
        residual = residual - values @ prior
        mean_gradient = mean_gradient + slope @ prior
    beside = np.zeros((n, 0)) if beside is None else _matrix(beside, "beside")
    _expect(beside, (n, beside.shape[1]), "beside")
    return GradientPosterior(
        points, residual, theta, hyper, float(mean_at_theta), mean_gradient, counts, features, kernel, beside
    )


class GradientPosterior:
    """The posterior of J and of ∇J(θ); made by `condition`. Vectors are given as (d,) or, many at once, as (m, d)."""

    def __init__(
        self,
        points: Array,
        residual: Array,
        theta: Array,
        hyper: Hyper,
        mean_at_theta: float,
        mean_gradient: Array,
        counts: Array,
        features: Features | None,
        kernel: Kernel,
        beside: Array,
    ) -> None:
        self.kernel = kernel
        self.beside = beside / hyper.effective[0]
        self.beside_squares = np.einsum("ij,ij->i", self.beside, self.beside)
        self.points, self.residual, self.theta, self.hyper = points, residual, theta, hyper
        self.mean_at_theta, self.mean_gradient, self.counts, self.features = (
            mean_at_theta,
            mean_gradient,
            counts,
            features,
        )
        self.scale = hyper.effective
        self.inverse_scale = 1.0 / self.scale
        self.gradient_variance = (hyper.signal * self.inverse_scale) ** 2  # diagonal of D
        self.unit_noise = (hyper.noise / hyper.signal) ** 2
        self._unit_residual = residual / hyper.signal
        self._span()
        self._factor()
        self._mean()

    # ------------------------------------------------------------------ set-up

    def _span(self) -> None:
        """Whiten, and find the r directions that points and features speak about."""
        whitened = (self.points - self.theta) * self.inverse_scale
        n, d = whitened.shape
        columns = whitened.T
        self.slopes = np.zeros((d, 0))  # B̄ (d, k)
        self.feature_values = np.zeros((n, 0))  # Φ̄ (n, k)
        if self.features is not None and self.hyper.feature_scale > 0:
            ratio = self.hyper.feature_scale / self.hyper.signal
            self.slopes = self.features.gradient * self.scale[:, None] * ratio
            self.feature_values = self.features.values * ratio
            columns = np.hstack([columns, self.slopes])
        self.has_features = bool(self.slopes.shape[1])
        self.whitened = whitened
        self.complete = d <= columns.shape[1]
        """Whether the directions span the whole space, so that nothing is orthogonal to them."""
        self.basis = np.eye(d) if self.complete else np.linalg.qr(columns)[0]

    def _factor(self) -> None:
        """Build C, factor it, and decompose W; afterwards `basis` is U."""
        whitened = self.whitened
        matrix = self._remainder_matrix(whitened)
        cross = (self.weight[:, None] * whitened) @ self.basis  # Ḡᵀ in the basis (n, r)
        slopes = self.basis.T @ self.slopes  # B̂ (r, k)
        left, singular, right = _thin_svd(slopes)
        stretch = np.sqrt(1.0 + singular**2)
        inverse_root = np.eye(slopes.shape[1]) - (right.T * (1.0 - 1.0 / stretch)) @ right  # (I + B̄ᵀB̄)^(−½)
        self.curvature = (self.feature_values - cross @ slopes) @ inverse_root  # R (n, k)
        cross = cross + self.feature_values @ slopes.T
        cross = cross - ((cross @ left) * (1.0 - 1.0 / stretch)) @ left.T  # Ḡᵀ = (Ḡ_SE + B̄Φ̄ᵀ)ᵀ H⁻¹
        matrix = matrix + self.curvature @ self.curvature.T
        factor = cholesky(matrix)
        self.factor: Factor = factor
        self.jitter = factor.jitter * self.hyper.signal**2
        """Jitter in units of J², 0.0 unless the factorisation broke down without it."""
        self.lower_inverse = factor.inverse_lower()
        self.solved_decay = self.lower_inverse @ self.decay  # L⁻¹e
        self.value_precision = 1.0 + float(self.solved_decay @ self.solved_decay)  # 1 + eᵀC⁻¹e
        gain = cross.T @ self.lower_inverse.T  # Z = Ḡ L⁻ᵀ (r, n)
        # W = Z (I − c·ŵŵᵀ) is a square root of Ḡ S⁻¹ Ḡᵀ, with ŵ = L⁻¹e/|L⁻¹e| and (1 − c)² = 1/(1 + |L⁻¹e|²).
        squared = self.value_precision - 1.0
        shrink = 0.0 if squared == 0.0 else (1.0 - 1.0 / np.sqrt(self.value_precision)) / squared
        root = gain - np.outer(gain @ self.solved_decay, shrink * self.solved_decay)
        rotate, gains, _ = np.linalg.svd(root, full_matrices=True)
        self.precision = np.ones(self.basis.shape[1])  # 1 + s² along U
        self.precision[: len(gains)] += gains**2
        self.inverse_precision = 1.0 / self.precision  # eigenvalues of Σ along U
        self.gain = rotate.T @ gain  # Z in the basis U
        self.basis = self.basis @ rotate  # U (d, r)
        self.inner = whitened @ self.basis  # T̂ (n, r)
        self.inner_slopes = rotate.T @ slopes  # B̂ in the basis U
        self.inner_curvature = self.inner_slopes @ inverse_root  # (r, k)
        self._stretch_basis = rotate.T @ left  # left singular vectors of B̄ in the basis U
        self._stretch = stretch

    def _remainder_matrix(self, whitened: Array) -> Array:
        """The kernel's part of C (n, n) with noise; sets e = κ(|t|²) (n,), w(|t|²) (n,) and ½|t|² (n,)."""
        beside, both = self.beside, Embedding(whitened, self.beside).together()
        self.half_squares = half = 0.5 * np.einsum("ij,ij->i", both, both)
        squares = lambda: squared_distances(both)  # noqa: E731
        matrix = remainder(self.kernel, both @ both.T, half[:, None], half, squares).value
        matrix[np.diag_indices(len(matrix))] += self.unit_noise / self.counts
        profile = self.kernel.profile(2.0 * half)
        self.decay, self.weight = profile.value, profile.weight
        if beside.size:  # ∇J is along the chart only: what it would say beside it stays in the remainder.
            slopes = self.weight[:, None] * beside
            matrix += slopes @ slopes.T
        return matrix

    def _mean(self) -> None:
        """μ in whitened coordinates, split into its part in the span of U and the rest."""
        signal = self.hyper.signal
        whitened = self.lower_inverse @ self._unit_residual
        projected = whitened - self.solved_decay * (float(self.solved_decay @ whitened) / self.value_precision)
        score = self.gain @ projected  # Pμ = Ḡ S⁻¹ y, in the basis U
        prior = self.mean_gradient * self.scale / signal
        inside = self.basis.T @ prior
        self.mean_outside = np.zeros_like(prior) if self.complete else prior - self.basis @ inside
        shrunk = self.contract(inside)  # H⁻¹ acts inside the span only.
        self.mean_inside = shrunk + score / self.precision
        self.score_inside = shrunk * self.precision + score
        self.ascent_score = float(self.mean_inside @ self.score_inside + self.mean_outside @ self.mean_outside)
        """c₀ = μᵀΣ⁻¹μ."""
        if not np.isfinite(self.ascent_score):
            raise NumericsError(
                "the gradient's posterior is not finite; check returns, mean function and hyper-parameters"
            )

    # ------------------------------------------------------------------ whitening of gradients

    def expand(self, inside: Array) -> Array:
        """H v for v (…, r) in the basis U."""
        if not self.has_features:
            return inside
        return inside + ((inside @ self._stretch_basis) * (self._stretch - 1.0)) @ self._stretch_basis.T

    def contract(self, inside: Array) -> Array:
        """H⁻¹ v for v (…, r) in the basis U."""
        if not self.has_features:
            return inside
        return inside + ((inside @ self._stretch_basis) * (1.0 / self._stretch - 1.0)) @ self._stretch_basis.T

    def split(self, vectors: Array) -> tuple[Array, Array]:
        """Coordinates (…, r) in the basis U, and what is orthogonal to it (…, d)."""
        inside = vectors @ self.basis
        return inside, (np.zeros_like(vectors) if self.complete else vectors - inside @ self.basis.T)

    def join(self, inside: Array, outside: Array) -> Array:
        return inside @ self.basis.T + outside

    # ------------------------------------------------------------------ the gradient at θ

    @cached_property
    def mu(self) -> Array:
        """μ (d,): posterior mean of ∇J(θ)."""
        return self.join(self.expand(self.mean_inside), self.mean_outside) * (self.hyper.signal / self.scale)

    @cached_property
    def direction(self) -> Array:
        """Σ⁻¹μ (d,): the direction of most probable ascent, not normalised."""
        return self.join(self.contract(self.score_inside), self.mean_outside) * (self.scale / self.hyper.signal)

    def solve(self, vectors: ArrayLike) -> Array:
        """Σ⁻¹v for (d,) or (m, d)."""
        weights = self.scale / self.hyper.signal
        inside, outside = self.split(self._vectors(vectors) * weights)
        return self.join(self.contract(self.contract(inside) * self.precision), outside) * weights

    def multiply(self, vectors: ArrayLike) -> Array:
        """Σv for (d,) or (m, d)."""
        weights = self.hyper.signal / self.scale
        inside, outside = self.split(self._vectors(vectors) * weights)
        return self.join(self.expand(self.expand(inside) * self.inverse_precision), outside) * weights

    def quadratic(self, vectors: ArrayLike) -> float | Array:
        """vᵀΣv: a float for (d,), (m,) for (m, d). A sum of squares, never negative."""
        inside, outside = self.split(self._vectors(vectors) * (self.hyper.signal / self.scale))
        value = (self.expand(inside) ** 2 * self.inverse_precision).sum(-1) + (outside**2).sum(-1)
        return float(value) if np.ndim(value) == 0 else value

    def _ascent(self, vectors: ArrayLike) -> Array:
        """vᵀμ / √(vᵀΣv), 0 for v = 0."""
        weighted = self._vectors(vectors) * (self.hyper.signal / self.scale)
        largest = np.abs(weighted).max(axis=-1, keepdims=True)
        inside, outside = self.split(weighted / np.where(largest > 0, largest, 1.0))
        inside = self.expand(inside)
        spread = np.sqrt((inside**2 * self.inverse_precision).sum(-1) + (outside**2).sum(-1))
        slope = inside @ self.mean_inside + outside @ self.mean_outside
        return np.divide(slope, spread, out=np.zeros_like(slope), where=spread > 0)

    def probability_of_ascent(self, vectors: ArrayLike) -> float | Array:
        """P(vᵀ∇J(θ) > 0): a float for (d,), (m,) for (m, d)."""
        value = ndtr(self._ascent(vectors))
        return float(value) if np.ndim(value) == 0 else value

    def log_probability_of_ascent(self, vectors: ArrayLike) -> float | Array:
        """log P(vᵀ∇J(θ) > 0), accurate in both tails."""
        value = log_ndtr(self._ascent(vectors))
        return float(value) if np.ndim(value) == 0 else value

    @property
    def max_probability(self) -> float:
        """Φ(√(μᵀΣ⁻¹μ)): the probability of ascent along `direction`, the largest of all."""
        return float(ndtr(np.sqrt(max(self.ascent_score, 0.0))))

    def _stretched(self) -> Array:
        """U H (d, r)."""
        return self.expand(self.basis)

    def trace(self) -> float:
        """tr Σ."""
        inside = (self._stretched() ** 2 * self.inverse_precision).sum(-1)
        outside = 0.0 if self.complete else np.maximum(1.0 - (self.basis**2).sum(-1), 0.0)
        return float(((inside + outside) * (self.hyper.signal / self.scale) ** 2).sum())

    # ------------------------------------------------------------------ J at points, weights of features

    @cached_property
    def _gram(self) -> Factor:
        """Cholesky of the Gram matrix with noise, without features (unit signal)."""
        matrix = self.kernel.profile(squared_distances(Embedding(self.whitened, self.beside).together())).value
        matrix[np.diag_indices(len(matrix))] += self.unit_noise / self.counts
        return cholesky(matrix)

    @cached_property
    def _unit_weights(self) -> tuple[Array, Factor, Array]:
        """Posterior of β̄ = (β − β₀)/σ_β: mean (k,), factor of its precision, and K_SE⁻¹Φ̄ (n, k)."""
        solved = self._gram.solve(self.feature_values) if self.feature_values.size else self.feature_values
        precision = np.eye(self.feature_values.shape[1]) + self.feature_values.T @ solved
        factor = cholesky(precision) if precision.size else Factor(precision, 0.0)
        score = solved.T @ self._unit_residual
        return (factor.solve(score) if score.size else score), factor, solved

    @property
    def weights(self) -> Weights:
        """Posterior of the features' weights β."""
        if self.features is None:
            raise ShapeError("this posterior has no features, so it has no weights; pass features= to condition")
        prior = np.asarray(self.features.prior)
        if self.hyper.feature_scale == 0:
            return Weights(np.array(prior), np.zeros((len(prior), len(prior))))
        mean, factor, _ = self._unit_weights
        scale = self.hyper.feature_scale
        return Weights(prior + scale * mean, scale**2 * factor.inverse())

    def joint(
        self, points: ArrayLike, features: Array | None = None, embedded: Embedding | None = None
    ) -> tuple[Array, Array]:
        """Posterior mean (m,) and covariance (m, m) of J (without noise) at points (m, d).

        The prior mean function is taken to first order around θ, and so are features unless their values there (m, k)
        are given. Distances are those of `embedded`, by default of the points themselves.
        """
        points = _matrix(points, "points")
        along, beside = embedded or Embedding(points, np.zeros((len(points), self.beside.shape[1])))
        scaled = Embedding(along * self.inverse_scale, beside / self.scale[0]).together()
        measured = Embedding(self.points * self.inverse_scale, self.beside).together()
        cross = self.kernel.profile(squared_distances(measured, scaled)).value  # (n, m)
        reduced = self._gram.whiten(cross)
        covariance = self.kernel.profile(squared_distances(scaled)).value - reduced.T @ reduced
        mean = self.mean_at_theta + self.hyper.mean + (points - self.theta) @ self.mean_gradient
        residual = self._unit_residual
        if self.has_features:
            values = features
            if values is None:
                values = (points - self.theta) @ self.features.gradient  # type: ignore[union-attr]
            else:  # The mean above has them to first order, at their prior weights.
                first = (points - self.theta) @ self.features.gradient  # type: ignore[union-attr]
                mean = mean + (values - first) @ np.asarray(self.features.prior)  # type: ignore[union-attr]
            weight, factor, solved = self._unit_weights
            gap = values * (self.hyper.feature_scale / self.hyper.signal) - cross.T @ solved
            residual = residual - self.feature_values @ weight
            mean = mean + self.hyper.signal * ((gap + cross.T @ solved) @ weight)
            left = factor.whiten(gap.T)
            covariance = covariance + left.T @ left
        mean = mean + self.hyper.signal * (cross.T @ self._gram.solve(residual))
        return mean, self.hyper.signal**2 * covariance

    @cached_property
    def jitter_bound(self) -> float:
        """Largest relative change that jitter can have made to any variance reduction: τ/ν, 0.0 without jitter."""
        least = self.unit_noise / float(self.counts.max())
        if self.factor.jitter == 0.0:
            return 0.0
        return self.factor.jitter / least if least > 0 else float("inf")

    def _vectors(self, vectors: ArrayLike) -> Array:
        array = np.asarray(vectors, dtype=np.float64)
        if array.ndim not in (1, 2) or array.shape[-1] != len(self.theta):
            raise ShapeError(
                f"vectors have shape {array.shape}; expected ({len(self.theta)},) or (m, {len(self.theta)})"
            )
        return array


def _thin_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition that also takes matrices without columns."""
    rows, columns = matrix.shape
    if columns == 0:
        return np.zeros((rows, 0)), np.zeros(0), np.zeros((0, 0))
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    return left, singular, right


def _matrix(values: ArrayLike, name: str) -> Array:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ShapeError(f"{name} has shape {array.shape}; expected two dimensions")
    return _finite(array, name)


def _vector(values: ArrayLike, name: str, size: int | None = None) -> Array:
    array = np.ascontiguousarray(values, dtype=np.float64)
    _expect(array, (array.size if size is None else size,), name)
    return _finite(array, name)


def _expect(array: Array, shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; expected {shape}")


def _finite(array: Array, name: str) -> Array:
    if not np.isfinite(array).all():
        raise ShapeError(
            f"{name} holds {int((~np.isfinite(array)).sum())} values that are not finite; drop failed episodes first"
        )
    return array
