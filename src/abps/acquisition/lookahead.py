"""What one more measurement would do to the posterior of ∇J(θ): the quantities all criteria are made of, and their gradient.

Shapes: m candidates (each on its own, or one joint batch), n points, d parameters, r directions of the posterior.

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

__all__ = ["Cotangents", "Lookahead"]

Array = NDArray[np.float64]

_NEAR = 1e-2
"""Squared distances below this fraction of the squared norms are recomputed from differences."""


@dataclass
class Cotangents:
    """Derivatives of the sum of criteria with respect to a look-ahead's quantities."""

    inside: Array
    """With respect to b inside the span of U, (m, r)."""
    decay: Array
    """With respect to e = exp(−½|t|²), (m,)."""
    outside: Array
    """With respect to t orthogonal to U, (m, d); the part through |t| is not included."""
    deviation: Array
    """With respect to the whitened remainder covariances κ, (m, n)."""
    miss: Array
    """With respect to η, (m,)."""
    own: Array
    """With respect to the candidate's own remainder variance, (m,)."""
    whitened: Array | None = None
    """Further terms with respect to t itself, (m, d)."""


class Lookahead:
    """Forward pass for candidates (m, d); `episodes` is how many measurements of a candidate would be averaged."""

    def __init__(self, posterior: GradientPosterior, candidates: Array, episodes: int = 1) -> None:
        if episodes < 1:
            raise ConfigError(f"a candidate is measured at least once, got episodes={episodes}")
        self.posterior = posterior
        whitened = (candidates - posterior.theta) / posterior.scale
        self.whitened = whitened
        self.inside, self.outside = posterior.split(whitened)  # t in the basis U (m, r), and orthogonal to it (m, d)
        self.outside_square = np.einsum("ij,ij->i", self.outside, self.outside)
        square = np.einsum("ij,ij->i", self.inside, self.inside) + self.outside_square
        self.half_square = 0.5 * square
        self.decay = np.exp(-self.half_square)  # e_z
        self.noise = posterior.unit_noise / episodes
        self._remainders(square)
        self.deviation = self.cross @ posterior.lower_inverse.T  # κ = L⁻¹k̂ (m, n)
        self.miss = self.decay - self.deviation @ posterior.pull  # η = e_z − eᵀC⁻¹k̂
        full = self.deviation + self.miss[:, None] * (posterior.pull / posterior.pull_norm)
        self.inner_cross = self._inner_cross()  # cov(γ, y_z) in the basis U
        self.response = self.inner_cross - full @ posterior.gain.T  # b inside (m, r); outside it is e_z·t
        self.reduced = self.response / posterior.precision  # a = Σb inside
        self.explained = np.einsum("ij,ij->i", self.response, self.reduced) + self.decay**2 * self.outside_square  # q
        self.residual = (
            (self.own - np.einsum("ij,ij->i", self.deviation, self.deviation)) + self.miss**2 / posterior.pull_norm
        ) + self.noise  # w
        self.slope = self.response @ posterior.mean_inside + self.decay * (self.outside @ posterior.mean_outside)  # u

    @property
    def healthy(self) -> NDArray[np.bool_]:
        """(m,) whether w is a positive finite number, as it is in exact arithmetic."""
        return np.isfinite(self.residual) & (self.residual > 0.0) & np.isfinite(self.explained)

    def _remainders(self, square: Array) -> None:
        """Remainder covariances with the points, k̂ (m, n), and of each candidate with itself (m,)."""
        posterior = self.posterior
        products = self.inside @ posterior.inner.T
        scale = square[:, None] + 2.0 * posterior.half_squares
        distances = scale - 2.0 * products
        rows, columns = np.nonzero(distances < _NEAR * scale)
        if len(rows):
            difference = self.inside[rows] - posterior.inner[columns]
            distances[rows, columns] = np.einsum("ij,ij->i", difference, difference) + self.outside_square[rows]
        self.curve, self.curve_slope = remainder(products, distances, self.half_square[:, None], posterior.half_squares)
        grown = np.minimum(square, 1.0)
        small = np.exp(-square) * (np.expm1(grown) - grown)
        self.own = np.where(square > 1.0, 1.0 - (1.0 + square) * np.exp(-square), small)
        self.square = square
        self.cross = self.curve
        if posterior.inner_curvature.shape[1]:
            self.bend = self.inside @ posterior.inner_curvature  # (m, k)
            self.grown = -np.expm1(-self.half_square)  # 1 − e_z
            bent = self.grown[:, None] * self.bend
            self.cross = self.curve + bent @ posterior.curvature.T
            self.own = self.own + np.einsum("ij,ij->i", bent, bent)

    def _inner_cross(self) -> Array:
        posterior = self.posterior
        cross = self.decay[:, None] * self.inside
        if posterior.inner_slopes.shape[1]:
            cross = posterior.contract(cross + (self.inside @ posterior.inner_slopes) @ posterior.inner_slopes.T)
        return cross

    def independent(self, slope: Array, explained: Array, residual: Array) -> Cotangents:
        """Cotangents of criteria that are functions of u, q and w of each candidate alone, from ∂/∂u, ∂/∂q, ∂/∂w (m,)."""
        posterior = self.posterior
        outside = (slope * self.decay)[:, None] * posterior.mean_outside
        outside += (2.0 * explained * self.decay**2)[:, None] * self.outside
        return Cotangents(
            inside=slope[:, None] * posterior.mean_inside + 2.0 * explained[:, None] * self.reduced,
            decay=2.0 * explained * self.decay * self.outside_square + slope * (self.outside @ posterior.mean_outside),
            outside=outside,
            deviation=-2.0 * residual[:, None] * self.deviation,
            miss=2.0 * residual * self.miss / posterior.pull_norm,
            own=residual,
        )

    def pullback(self, cotangents: Cotangents) -> Array:
        """The gradient (m, d) with respect to the candidates, in raw coordinates."""
        posterior = self.posterior
        inside_bar = cotangents.inside
        contracted = posterior.contract(inside_bar)
        decay = cotangents.decay + np.einsum("ij,ij->i", contracted, self.inside)
        grad = self.decay[:, None] * contracted
        if posterior.inner_slopes.shape[1]:
            grad += (contracted @ posterior.inner_slopes) @ posterior.inner_slopes.T
        full = -inside_bar @ posterior.gain
        miss = cotangents.miss + full @ posterior.pull / posterior.pull_norm
        decay = decay + miss
        deviation = cotangents.deviation + full - miss[:, None] * posterior.pull
        cross = deviation @ posterior.lower_inverse
        if posterior.inner_curvature.shape[1]:
            bent = cross @ posterior.curvature + (2.0 * cotangents.own * self.grown)[:, None] * self.bend
            decay = decay - np.einsum("ij,ij->i", bent, self.bend)
            grad += (self.grown[:, None] * bent) @ posterior.inner_curvature.T
        grad += (cross * self.curve_slope) @ posterior.inner
        # With respect to |t|² at fixed inner products: e_z falls at the rate ½, and so does every remainder covariance.
        square = -0.5 * (np.einsum("ij,ij->i", cross, self.curve) + decay * self.decay)
        square += cotangents.own * self.square * np.exp(-self.square)
        grad += (2.0 * square)[:, None] * self.inside
        outside = cotangents.outside + (2.0 * square)[:, None] * self.outside
        total = grad @ posterior.basis.T
        if not posterior.complete:
            total += outside
        if cotangents.whitened is not None:
            total = total + cotangents.whitened
        return total / posterior.scale
