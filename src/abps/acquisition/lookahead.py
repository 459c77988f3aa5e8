"""What one more measurement would do to the posterior of ∇J(θ): the quantities all criteria are made of, and their
gradient.

Shapes: one candidate (d,), or m candidates (m, d) each on its own; n points, d parameters, r directions of the
posterior. Quantities "per candidate" are numbers for (d,) and (m,) for (m, d): one code serves the optimiser's single
candidate and the screening of many.

For a candidate z with whitened coordinates t = (z − θ)/L let a = cov(γ, y_z | data) and s² = var(y_z | data). The
engine never forms a and s² by subtraction. It computes, from the single factorisation inside the posterior (docs/gp.md,
"One step ahead"),

    b = Σ⁻¹a            the weight of γ in the prediction of y_z from data *and* gradient,
    w = s² − aᵀΣ⁻¹a     the variance of y_z given data *and* gradient: a sum of positive terms, at least the noise,
    q = aᵀΣ⁻¹a = bᵀΣb   and  u = μᵀΣ⁻¹a = μᵀb,

so the guard s² − q > 0 that other formulas need holds by construction; `Lookahead.healthy` reports the candidates for
which rounding broke it. A criterion is a function of these; it hands its cotangents to `pullback` and receives the
gradient in z.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.model.kernel import one_minus_weight, remainder, variance_left
from abps.model.posterior import GradientPosterior

__all__ = ["Cotangents", "Lookahead", "column", "dot"]

_NEAR = 1e-2
"""Squared distances below this fraction of the squared norms are recomputed from differences."""


def dot(left: Array, right: Array) -> Array:
    """Inner products along the last axis: a number for vectors, (m,) for (m, d)."""
    return left @ right if left.ndim == 1 else np.einsum("ij,ij->i", left, right)


def column(values: Array) -> Array:
    """Per-candidate numbers, shaped to multiply per-candidate vectors."""
    return values[:, None] if values.ndim else values


@dataclass
class Cotangents:
    """Derivatives of the sum of criteria with respect to a look-ahead's quantities, per candidate."""

    inside: Array
    """With respect to b inside the span of U, (…, r)."""
    weight: Array
    """With respect to w(|t|²)."""
    outside: Array
    """With respect to t orthogonal to U, (…, d); the part through |t| is not included."""
    deviation: Array
    """With respect to the whitened remainder covariances κ, (…, n)."""
    eta: Array
    """With respect to η."""
    own: Array
    """With respect to the candidate's own remainder variance."""


class Lookahead:
    """Forward pass for candidates (d,) or (m, d), each measured once."""

    def __init__(self, posterior: GradientPosterior, candidates: Array) -> None:
        self.posterior = posterior
        self.whitened = (candidates - posterior.theta) * posterior.inverse_scale
        self.inside, self.outside = posterior.split(
            self.whitened
        )  # t in the basis U (…, r), and orthogonal to it (…, d)
        self.outside_square = dot(self.outside, self.outside)
        self.square = dot(self.inside, self.inside) + self.outside_square
        self.half_square = 0.5 * self.square
        # e_z = κ(|t|²), w_z and w'_z
        self.decay, self.weight, self.weight_slope = posterior.kernel.profile(2.0 * self.half_square)
        self._remainders()
        self.deviation = self.cross @ posterior.lower_inverse.T  # κ = L⁻¹k̂
        self.eta = self.decay - self.deviation @ posterior.solved_decay  # η = e_z − eᵀC⁻¹k̂
        full = self.deviation + column(self.eta / posterior.value_precision) * posterior.solved_decay
        self.response = self._prior_cross() - full @ posterior.gain.T  # b inside (…, r); outside it is w_z·t
        self.reduced = self.response * posterior.inverse_precision  # a = Σb inside
        self.explained = dot(self.response, self.reduced) + self.weight**2 * self.outside_square  # q
        variance = self.own - dot(self.deviation, self.deviation)
        self.residual = variance + self.eta**2 / posterior.value_precision + posterior.unit_noise  # w
        self.outside_mean = self.outside @ posterior.mean_outside
        self.slope = self.response @ posterior.mean_inside + self.weight * self.outside_mean  # u

    @property
    def healthy(self) -> NDArray[np.bool_]:
        """Whether w is a positive finite number, as it is in exact arithmetic, per candidate."""
        return np.isfinite(self.explained) & (self.residual > 0.0) & (self.residual < np.inf)

    def _remainders(self) -> None:
        """Remainder covariances with the points, k̂ (…, n), and of each candidate with itself."""
        posterior = self.posterior
        products = self.inside @ posterior.inner.T
        self.curve = remainder(
            posterior.kernel,
            products,
            column(self.half_square),
            posterior.half_squares,
            lambda: self._distances(products),
        )
        self.own, self.own_slope = variance_left(posterior.kernel, self.square)
        self.cross = self.curve.value
        if posterior.has_features:
            self.feature_slope = self.inside @ posterior.inner_curvature  # (…, k)
            self.unweighted = one_minus_weight(posterior.kernel, self.square)  # 1 − w_z
            left = column(self.unweighted) * self.feature_slope
            self.cross = self.curve.value + left @ posterior.curvature.T
            self.own = self.own + dot(left, left)

    def _distances(self, products: Array) -> Array:
        """Squared distances to the points (…, n), accurate also next to a point."""
        scale = column(self.square) + 2.0 * self.posterior.half_squares
        distances = scale - 2.0 * products
        near = distances < _NEAR * scale
        if near.any():
            *rows, columns = np.nonzero(near)
            chosen = self.inside[rows[0]] if rows else self.inside
            difference = chosen - self.posterior.inner[columns]
            beside = self.outside_square[rows[0]] if rows else self.outside_square
            distances[near] = np.einsum("ij,ij->i", difference, difference) + beside
            distances[near] += self.posterior.beside_squares[columns]
        return distances

    def _prior_cross(self) -> Array:
        """cov(γ, y_z) under the prior, in the basis U."""
        posterior = self.posterior
        cross = column(self.weight) * self.inside
        if posterior.has_features:
            cross = posterior.contract(cross + (self.inside @ posterior.inner_slopes) @ posterior.inner_slopes.T)
        return cross

    def independent(self, slope: Array, explained: Array, residual: Array) -> Cotangents:
        """Cotangents of criteria that are functions of u, q and w of each candidate alone, from ∂/∂u, ∂/∂q, ∂/∂w."""
        posterior = self.posterior
        twice = 2.0 * explained * self.weight
        return Cotangents(
            inside=column(slope) * posterior.mean_inside + column(2.0 * explained) * self.reduced,
            weight=twice * self.outside_square + slope * self.outside_mean,
            outside=column(slope * self.weight) * posterior.mean_outside + column(twice * self.weight) * self.outside,
            deviation=column(-2.0 * residual) * self.deviation,
            eta=2.0 * residual * self.eta / posterior.value_precision,
            own=residual,
        )

    def pullback(self, cotangents: Cotangents) -> Array:
        """The gradient with respect to the candidates, in raw coordinates, shaped like them."""
        posterior = self.posterior
        full = -(cotangents.inside @ posterior.gain)
        eta = cotangents.eta + full @ posterior.solved_decay / posterior.value_precision
        cross = (cotangents.deviation + full - column(eta) * posterior.solved_decay) @ posterior.lower_inverse
        contracted = posterior.contract(cotangents.inside)
        inside = column(self.weight) * contracted + (cross * self.curve.along) @ posterior.inner
        features = None
        if posterior.has_features:
            inside += (contracted @ posterior.inner_slopes) @ posterior.inner_slopes.T
            left = cross @ posterior.curvature + column(2.0 * cotangents.own * self.unweighted) * self.feature_slope
            features = dot(left, self.feature_slope)
            inside += (column(self.unweighted) * left) @ posterior.inner_curvature.T
        # The derivatives in |t| at fixed inner products, times t.
        square = 2.0 * cotangents.own * self.own_slope + dot(cross, self.curve.radial)
        square = square + self._radial(cotangents.weight, eta, dot(contracted, self.inside), features)
        inside += column(square) * self.inside
        total = inside @ posterior.basis.T
        if not posterior.complete:
            total += cotangents.outside + column(square) * self.outside
        return total * posterior.inverse_scale

    def _radial(self, weight: Array, value: Array, inside: Array, features: Array | None) -> Array:
        """Twice the derivative in |t|² through κ and w, whose cotangents are `value` and `weight` + `inside` −
        `features`."""
        if self.weight is self.decay:  # The squared exponential: κ = w, and both fall at the rate ½.
            both = weight + value + inside
            return -((both if features is None else both - features) * self.decay)
        through_weight = weight + inside if features is None else weight + inside - features
        return 2.0 * self.weight_slope * through_weight - self.weight * value
