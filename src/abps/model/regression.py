"""Posterior of a function at many points of a box: what Bayesian optimisers ask for (GPML, Section 2.2).

`posterior.py` is about ∇J at one centre; here the whole function is of interest, at thousands of points and without a
centre. In units of σ_f, with κ the kernel's profile, u = |x − x'|² in effective lengthscales and K the Gram matrix with
noise,

    mean(x) = m + σ_f·k(x)ᵀK⁻¹r,    cov(x, x') = σ_f²·(κ(u) − k(x)ᵀK⁻¹k(x')),

and since ∂κ/∂x = −w(u)·(x − x')/L², gradients in x cost two matrix products. Shapes: n measured points, m points, d
parameters.
"""

from typing import NamedTuple

import numpy as np

from abps.arrays import Array
from abps.errors import NumericsError, ShapeError
from abps.model.gp import NOISE_RAISES
from abps.model.kernel import Hyper, Kernel, Profile
from abps.model.linalg import Factor, cholesky, squared_distances
from abps.settings import replace

__all__ = ["Marginals", "Regression", "Slopes", "factored"]

_LEAST_VARIANCE = 1e-12
"""Smallest posterior variance, in signal variances: a difference of nearly equal numbers has no more digits."""


class Marginals(NamedTuple):
    """Mean and standard deviation of the function at points, each (m,)."""

    mean: Array
    std: Array


class Slopes(NamedTuple):
    """Gradients of mean and standard deviation in the point, each (m, d)."""

    mean: Array
    std: Array


def factored(gram: Array, hyper: Hyper) -> tuple[Factor, Hyper]:
    """The factor of a Gram matrix (n, n, unit signal) with noise, and the hyper-parameters with the noise it needed.

    While the matrix cannot be factored the noise is raised tenfold, as `Model.at` does.

    Raises:
        NumericsError: it cannot be factored with a million times the noise either.
    """
    raises = 0
    while True:
        raised = hyper if raises == 0 else replace(hyper, noise=hyper.noise * 10.0**raises)
        matrix = gram.copy()
        matrix.flat[:: len(matrix) + 1] += (raised.noise / raised.signal) ** 2
        try:
            return cholesky(matrix), raised
        except NumericsError:
            if raises == NOISE_RAISES:
                raise
            raises += 1


class Regression:
    """The process given noisy values (n,) at points (n, d); everything is asked of it without noise."""

    def __init__(self, points: Array, values: Array, hyper: Hyper, kernel: Kernel) -> None:
        if points.ndim != 2 or values.shape != (len(points),) or hyper.lengthscales.shape != points.shape[1:]:
            raise ShapeError(
                f"points {points.shape}, values {values.shape} and lengthscales {hyper.lengthscales.shape} do not fit; "
                "expected (n, d), (n,) and (d,)"
            )
        self.kernel = kernel
        self.inverse_scale = 1.0 / hyper.effective
        self.middle = points.mean(axis=0)
        """Points are seen from here, so that the squared distances of a tight cloud cancel no digits."""
        self.whitened = self._whiten(points)
        gram = kernel.profile(squared_distances(self.whitened)).value
        self._factor, self.hyper = factored(gram, hyper)
        self.weights = self._factor.solve((values - hyper.mean) / hyper.signal)
        """K⁻¹r (n,), in units of σ_f."""

    def at(self, points: Array) -> Marginals:
        """Mean and standard deviation at points (m, d)."""
        cross = self._profile(points).value
        return self._marginals(cross, self._factor.whiten(cross.T))

    def with_slopes(self, points: Array) -> tuple[Marginals, Slopes]:
        """Mean and standard deviation at points (m, d), and their gradients."""
        profile = self._profile(points)
        solved = self._factor.solve(profile.value.T).T  # K⁻¹k(x) (m, n)
        marginals = self._marginals(profile.value, self._factor.whiten(profile.value.T))
        mean = -self.hyper.signal * self._weighted_differences(points, profile.weight * self.weights)
        # ∇σ = ∇σ²/(2σ), and ∇σ² = −2σ_f²·(K⁻¹k)ᵀ∇k.
        spread = self._weighted_differences(points, profile.weight * solved)
        return marginals, Slopes(mean, self.hyper.signal**2 * spread / marginals.std[:, None])

    def joint(self, points: Array) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) at points (m, d)."""
        cross = self._profile(points).value
        reduced = self._factor.whiten(cross.T)
        own = squared_distances((points - points.mean(axis=0)) * self.inverse_scale)
        covariance = self.kernel.profile(own).value - reduced.T @ reduced
        return self._mean(cross), self.hyper.signal**2 * covariance

    def sample(self, points: Array, rng: np.random.Generator, count: int) -> Array:
        """`count` functions drawn from the posterior, at points (m, d): (count, m)."""
        mean, covariance = self.joint(points)
        # Points close to each other make the matrix singular to rounding: a millionth of the signal is no signal.
        covariance.flat[:: len(covariance) + 1] += 1e-6 * self.hyper.signal**2
        lower = cholesky(covariance).lower
        return mean + rng.standard_normal((count, len(points))) @ lower.T

    def _whiten(self, points: Array) -> Array:
        return (points - self.middle) * self.inverse_scale

    def _profile(self, points: Array) -> Profile:
        return self.kernel.profile(squared_distances(self._whiten(points), self.whitened))

    def _mean(self, cross: Array) -> Array:
        return self.hyper.mean + self.hyper.signal * (cross @ self.weights)

    def _marginals(self, cross: Array, reduced: Array) -> Marginals:
        variance = np.maximum(1.0 - np.einsum("nm,nm->m", reduced, reduced), _LEAST_VARIANCE)
        return Marginals(self._mean(cross), self.hyper.signal * np.sqrt(variance))

    def _weighted_differences(self, points: Array, coefficients: Array) -> Array:
        """Σ_j a_mj (x_m − x_j)/L² (m, d) for coefficients (m, n)."""
        summed = coefficients.sum(axis=1)[:, None] * self._whiten(points) - coefficients @ self.whitened
        return summed * self.inverse_scale
