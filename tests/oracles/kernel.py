"""The squared-exponential kernel and its derivatives in raw units, as textbooks write them.

k(x, x') = σ_f² exp(−½ Σ_i ((x_i − x'_i) / L_i)²). Shapes: n points, m candidates, d parameters.
"""

import numpy as np

from abps.model import Hyper


def covariance(left, right, hyper: Hyper):
    """k(x, x') for the rows of (m, d) and (n, d), as (m, n); no noise."""
    return hyper.signal**2 * np.exp(-0.5 * (((left[:, None] - right[None]) / hyper.effective) ** 2).sum(-1))


def gram(points, hyper: Hyper, counts=None):
    """K(X, X) (n, n) with noise σ_n²/counts on the diagonal; `counts` (n,) are measurements averaged per point."""
    counts = np.ones(len(points)) if counts is None else counts
    return covariance(points, points, hyper) + np.diag(hyper.noise**2 / counts)


def derivative_at(theta, points, hyper: Hyper):
    """G = ∂k(θ, X)/∂θ as (d, n): the covariance of ∇J(θ) with J(X)."""
    values = covariance(theta[None], points, hyper)[0]
    return ((points - theta) / hyper.effective**2 * values[:, None]).T


def gradient_prior(hyper: Hyper):
    """The diagonal (d,) of ∂²k(θ, θ')/∂θ∂θ' at θ' = θ: σ_f²/L_i². It is the prior covariance of ∇J."""
    return hyper.signal**2 / hyper.effective**2


def mixed_second_derivative(theta, other, hyper: Hyper):
    """∂²k(θ, x)/∂θ∂x as (d, d): the prior covariance of ∇J(θ) with ∇J(x)."""
    step = (theta - other) / hyper.effective**2
    value = covariance(theta[None], other[None], hyper)[0, 0]
    return value * (np.diag(1.0 / hyper.effective**2) - np.outer(step, step))
