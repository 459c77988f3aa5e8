"""What one more measurement would do to the posterior of ∇J(θ): the quantities all criteria are made of, and their gradient.

Shapes: one candidate (d,), or m candidates (m, d) each on its own; n points, d parameters, r directions of the posterior. Quantities
"per candidate" are numbers for (d,) and (m,) for (m, d): one code serves the optimiser's single candidate and the screening of many.

For a candidate z with whitened coordinates t = (z − θ)/L let a = cov(γ, y_z | data) and s² = var(y_z | data). The engine never forms a and s² by
subtraction. It computes, from the single factorisation inside the posterior (docs/gp.md, "One step ahead"),

    b = Σ⁻¹a            the weight of γ in the prediction of y_z from data *and* gradient,
    w = s² − aᵀΣ⁻¹a     the variance of y_z given data *and* gradient: a sum of positive terms, at least the noise variance,
    q = aᵀΣ⁻¹a = bᵀΣb   and  u = μᵀΣ⁻¹a = μᵀb,

so the guard s² − q > 0 that other formulas need holds by construction; `Lookahead.healthy` reports the candidates for which rounding broke it.
A criterion is a function of these; it hands its cotangents to `pullback` and receives the gradient in z.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.errors import ConfigError
from abps.gp.kernel import remainder
from abps.gp.posterior import GradientPosterior

__all__ = ["Cotangents", "Lookahead", "column", "dot"]

Array = NDArray[np.float64]

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
    decay: Array
    """With respect to e = exp(−½|t|²)."""
    outside: Array
    """With respect to t orthogonal to U, (…, d); the part through |t| is not included."""
    deviation: Array
    """With respect to the whitened remainder covariances κ, (…, n)."""
    miss: Array
    """With respect to η."""
    own: Array
    """With respect to the candidate's own remainder variance."""
    whitened: Array | None = None
    """Further terms with respect to t itself, (…, d)."""


class Lookahead:
    """Forward pass for candidates (d,) or (m, d); `episodes` is how many measurements of a candidate would be averaged."""

    def __init__(self, posterior: GradientPosterior, candidates: Array, episodes: int = 1) -> None:
        if episodes < 1:
            raise ConfigError(f"a candidate is measured at least once, got episodes={episodes}")
        self.posterior = posterior
        self.whitened = (candidates - posterior.theta) * posterior.inverse_scale
        self.inside, self.outside = posterior.split(
            self.whitened
        )  # t in the basis U (…, r), and orthogonal to it (…, d)
        self.outside_square = dot(self.outside, self.outside)
        self.square = dot(self.inside, self.inside) + self.outside_square
        self.half_square = 0.5 * self.square
        self.decay = np.exp(-self.half_square)  # e_z
        self.noise = posterior.unit_noise / episodes
        self._remainders()
        self.deviation = self.cross @ posterior.lower_inverse.T  # κ = L⁻¹k̂
        self.miss = self.decay - self.deviation @ posterior.pull  # η = e_z − eᵀC⁻¹k̂
        full = self.deviation + column(self.miss / posterior.pull_norm) * posterior.pull
        self.response = self._prior_cross() - full @ posterior.gain.T  # b inside (…, r); outside it is e_z·t
        self.reduced = self.response * posterior.inverse_precision  # a = Σb inside
        self.explained = dot(self.response, self.reduced) + self.decay**2 * self.outside_square  # q
        variance = self.own - dot(self.deviation, self.deviation)
        self.residual = variance + self.miss**2 / posterior.pull_norm + self.noise  # w
        self.lean = self.outside @ posterior.mean_outside
        self.slope = self.response @ posterior.mean_inside + self.decay * self.lean  # u

    @property
    def healthy(self) -> NDArray[np.bool_]:
        """Whether w is a positive finite number, as it is in exact arithmetic, per candidate."""
        return np.isfinite(self.explained) & (self.residual > 0.0) & (self.residual < np.inf)

    def _remainders(self) -> None:
        """Remainder covariances with the points, k̂ (…, n), and of each candidate with itself."""
        posterior, square = self.posterior, self.square
        products = self.inside @ posterior.inner.T
        self.curve, self.curve_slope = remainder(
            products, column(self.half_square), posterior.half_squares, lambda: self._distances(products)
        )
        gone = np.exp(-square)
        self.own_slope = square * gone
        # 1 − (1 + |t|²)exp(−|t|²), which for small |t| is all cancellation; there exp(−|t|²)(exp(|t|²) − 1 − |t|²) is not.
        grown = np.minimum(square, 1.0)
        self.own = np.where(square > 1.0, 1.0 - gone - self.own_slope, gone * (np.expm1(grown) - grown))
        self.cross = self.curve
        if posterior.has_features:
            self.bend = self.inside @ posterior.inner_curvature  # (…, k)
            self.grown = -np.expm1(-self.half_square)  # 1 − e_z
            bent = column(self.grown) * self.bend
            self.cross = self.curve + bent @ posterior.curvature.T
            self.own = self.own + dot(bent, bent)

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
        return distances

    def _prior_cross(self) -> Array:
        """cov(γ, y_z) under the prior, in the basis U."""
        posterior = self.posterior
        cross = column(self.decay) * self.inside
        if posterior.has_features:
            cross = posterior.contract(cross + (self.inside @ posterior.inner_slopes) @ posterior.inner_slopes.T)
        return cross

    def independent(self, slope: Array, explained: Array, residual: Array) -> Cotangents:
        """Cotangents of criteria that are functions of u, q and w of each candidate alone, from ∂/∂u, ∂/∂q, ∂/∂w."""
        posterior = self.posterior
        twice = 2.0 * explained * self.decay
        return Cotangents(
            inside=column(slope) * posterior.mean_inside + column(2.0 * explained) * self.reduced,
            decay=twice * self.outside_square + slope * self.lean,
            outside=column(slope * self.decay) * posterior.mean_outside + column(twice * self.decay) * self.outside,
            deviation=column(-2.0 * residual) * self.deviation,
            miss=2.0 * residual * self.miss / posterior.pull_norm,
            own=residual,
        )

    def pullback(self, cotangents: Cotangents) -> Array:
        """The gradient with respect to the candidates, in raw coordinates, shaped like them."""
        posterior = self.posterior
        full = -(cotangents.inside @ posterior.gain)
        miss = cotangents.miss + full @ posterior.pull / posterior.pull_norm
        cross = (cotangents.deviation + full - column(miss) * posterior.pull) @ posterior.lower_inverse
        contracted = posterior.contract(cotangents.inside)
        decay = cotangents.decay + miss + dot(contracted, self.inside)
        inside = column(self.decay) * contracted + (cross * self.curve_slope) @ posterior.inner
        if posterior.has_features:
            inside += (contracted @ posterior.inner_slopes) @ posterior.inner_slopes.T
            bent = cross @ posterior.curvature + column(2.0 * cotangents.own * self.grown) * self.bend
            decay = decay - dot(bent, self.bend)
            inside += (column(self.grown) * bent) @ posterior.inner_curvature.T
        # Twice the derivative in |t|² at fixed inner products: e_z falls at the rate ½, and so does every remainder covariance.
        square = 2.0 * cotangents.own * self.own_slope - dot(cross, self.curve) - decay * self.decay
        inside += column(square) * self.inside
        total = inside @ posterior.basis.T
        if not posterior.complete:
            total += cotangents.outside + column(square) * self.outside
        if cotangents.whitened is not None:
            total = total + cotangents.whitened
        return total * posterior.inverse_scale
