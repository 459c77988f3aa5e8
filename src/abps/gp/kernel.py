"""The squared-exponential kernel with one lengthscale per parameter, and its derivatives (paper Section 5.1).

k(x, x') = σ_f² exp(−½ Σ_i ((x_i − x'_i) / L_i)²), with *effective* lengthscales L_i = ℓ_i·√d (or ℓ_i when the scaling is off).
The √d keeps the typical correlation of two points of a cloud independent of the number of parameters d.

Shapes: n points, m candidates, d parameters. Inside the engine everything is *whitened*: points become t = (x − θ)/L, values are
divided by σ_f, so that ∇J(θ) has prior covariance I. The functions here are in raw units and serve prediction, tests and readers;
`remainder` is the one the whitened posterior is built on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.errors import ConfigError, ShapeError
from abps.gp.linalg import squared_distances

__all__ = [
    "Hyper",
    "covariance",
    "derivative_at",
    "derivative_in",
    "gradient_prior",
    "gram",
    "mixed_second_derivative",
    "remainder",
]

Array = NDArray[np.float64]

_PLAIN = 8.0
"""Up to this ½|t|² + ½|t'|² the remainder kernel is computed by one plain formula."""


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters of the Gaussian process over J.

    `lengthscales` holds ℓ as bounded by the settings; `effective` is what divides differences of parameters.
    """

    lengthscales: Array
    """(d,) ℓ_i, before the √d factor."""
    signal: float
    """σ_f: prior standard deviation of J around its mean."""
    noise: float
    """σ_n: standard deviation of one measured return."""
    mean: float = 0.0
    """Constant added to the mean function (0 when the search has a mean function of its own)."""
    feature_scale: float = 0.0
    """σ_β: prior standard deviation of the weights of linear features; 0 switches their uncertainty off."""
    scale_by_dimension: bool = True
    """Whether L = ℓ·√d (the published experiments) or L = ℓ."""

    def __post_init__(self) -> None:
        lengthscales = np.array(self.lengthscales, dtype=np.float64)
        lengthscales.flags.writeable = False
        object.__setattr__(self, "lengthscales", lengthscales)
        if lengthscales.ndim != 1 or not len(lengthscales):
            raise ShapeError(f"lengthscales have shape {lengthscales.shape}; expected (d,), one per parameter")
        if not (np.isfinite(lengthscales).all() and (lengthscales > 0).all()):
            raise ConfigError("every lengthscale must be a positive finite number")
        if not (0 < self.signal < np.inf and 0 <= self.noise < np.inf and 0 <= self.feature_scale < np.inf):
            raise ConfigError(
                f"need signal > 0, noise >= 0 and feature_scale >= 0, all finite; got {self.signal}, {self.noise}, {self.feature_scale}"
            )
        if not np.isfinite(self.mean):
            raise ConfigError(f"the constant mean must be finite, got {self.mean}")

    @property
    def effective(self) -> Array:
        """(d,) L_i = ℓ_i·√d, or ℓ_i when the scaling is off."""
        return self.lengthscales * np.sqrt(len(self.lengthscales)) if self.scale_by_dimension else self.lengthscales

    def state(self) -> dict[str, Any]:
        """Plain values that `from_state` turns back into the same hyper-parameters, bit for bit."""
        return {
            "lengthscales": np.array(self.lengthscales),
            "signal": float(self.signal),
            "noise": float(self.noise),
            "mean": float(self.mean),
            "feature_scale": float(self.feature_scale),
            "scale_by_dimension": bool(self.scale_by_dimension),
        }

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> "Hyper":
        """The inverse of `state`."""
        return Hyper(
            np.asarray(state["lengthscales"], dtype=np.float64),
            float(state["signal"]),
            float(state["noise"]),
            float(state["mean"]),
            float(state["feature_scale"]),
            bool(state["scale_by_dimension"]),
        )


def covariance(left: Array, right: Array, hyper: Hyper) -> Array:
    """k(x, x') for the rows of (m, d) and (n, d), as (m, n); no noise."""
    scale = hyper.effective
    return hyper.signal**2 * np.exp(-0.5 * squared_distances(left / scale, right / scale))


def gram(points: Array, hyper: Hyper, counts: Array | None = None) -> Array:
    """K(X, X) (n, n) with noise σ_n²/counts on the diagonal; `counts` (n,) are measurements averaged per point."""
    matrix = hyper.signal**2 * np.exp(-0.5 * squared_distances(points / hyper.effective))
    matrix[np.diag_indices(len(points))] += hyper.noise**2 / (1.0 if counts is None else counts)
    return matrix


def derivative_at(theta: Array, points: Array, hyper: Hyper) -> Array:
    """G = ∂k(θ, X)/∂θ as (d, n): the covariance of ∇J(θ) with J(X)."""
    scale = hyper.effective
    values = covariance(theta[None], points, hyper)[0]
    return ((points - theta) / scale**2 * values[:, None]).T


def derivative_in(candidates: Array, points: Array, hyper: Hyper) -> Array:
    """∂k(z, x)/∂z for candidates (m, d) and points (n, d), as (m, n, d)."""
    scale = hyper.effective
    values = covariance(candidates, points, hyper)
    return (points[None] - candidates[:, None]) / scale**2 * values[..., None]


def gradient_prior(hyper: Hyper) -> Array:
    """The diagonal (d,) of D = ∂²k(θ, θ')/∂θ∂θ' at θ' = θ: σ_f²/L_i². It is the prior covariance of ∇J."""
    return hyper.signal**2 / hyper.effective**2


def mixed_second_derivative(theta: Array, other: Array, hyper: Hyper) -> Array:
    """∂²k(θ, x)/∂θ∂x as (d, d): the prior covariance of ∇J(θ) with ∇J(x)."""
    scale = hyper.effective
    step = (theta - other) / scale**2
    value = covariance(theta[None], other[None], hyper)[0, 0]
    return value * (np.diag(1.0 / scale**2) - np.outer(step, step))


def remainder(
    products: Array, left_half: Array | float, right_half: Array, squares: Callable[[], Array]
) -> tuple[Array, Array]:
    """Covariance that is left of J at two whitened points once J(θ) and ∇J(θ) are known (unit signal).

    With e = exp(−½|t|²) and p = t·t', the kernel is e·e'·exp(p) and the part explained by value and gradient at θ is e·e'·(1 + p).
    The difference e·e'·(exp(p) − 1 − p) is a positive definite kernel (a power series in p with positive coefficients). It is computed
    without catastrophic cancellation, and without overflow where p is large and e·e' tiny.

    Args:
        products: p, the inner products of whitened points, (m, n) or (n,).
        left_half: ½|t|² of the left points, broadcastable: (m, 1) or a number.
        right_half: ½|t'|² of the right points, (n,).
        squares: gives the squared distances |t − t'|², shaped like `products`; called only when points are far from θ.

    Returns:
        The remainder, and its derivative with respect to p at fixed |t|, |t'|, both shaped like `products`.
    """
    halves = left_half + right_half
    both = np.exp(-halves)
    if (
        halves.max() <= _PLAIN
    ):  # Neither overflow nor loss of relative accuracy in `both` to fear, since p ≤ ½|t|² + ½|t'|².
        grown = np.expm1(products)
        return both * (grown - products), both * grown
    near = np.minimum(products, 1.0)
    grown = np.expm1(near)
    full = np.exp(-0.5 * squares())
    large = products > 1.0
    value = np.where(large, full - both * (1.0 + products), both * (grown - near))
    return value, np.where(large, full - both, both * grown)
