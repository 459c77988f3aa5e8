"""Kernels: radial profiles κ of the whitened squared distance, and what the posterior needs of them (paper Section
5.1).

k(x, x') = σ_f² κ(Σ_i ((x_i − x'_i) / L_i)²), with *effective* lengthscales L_i = ℓ_i·√d (or ℓ_i when the scaling is
off). The √d keeps the typical correlation of two points of a cloud independent of the number of parameters d. Profiles
are normalised to κ(0) = 1 and κ'(0) = −½: whatever the kernel, the prior covariance of ∇J is diag(σ_f²/L_i²).

Shapes: n points, m candidates, d parameters. Inside the engine everything is *whitened*: points become t = (x − θ)/L,
values are divided by σ_f, so that ∇J(θ) has prior covariance I. With u = |t|² and the weight w(u) = −2κ'(u),

    cov(J(θ), J(t)) = κ(u),    cov(∇J(θ), J(t)) = w(u)·t,
    remainder C(t, t') = κ(|t − t'|²) − κ(u)κ(u') − w(u)w(u')·t·t',

where the remainder is what is left of the covariance once J(θ) and ∇J(θ) are known.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.settings import Part

if TYPE_CHECKING:
    from abps.model.neighbourhood import Neighbourhood

__all__ = [
    "Embedding",
    "FastKernel",
    "Hyper",
    "Kernel",
    "Matern52",
    "OwnDistance",
    "Profile",
    "Remainder",
    "SquaredExponential",
    "one_minus_weight",
    "remainder",
    "scaled",
    "variance_left",
]

_PLAIN = 8.0
"""Up to this ½|t|² + ½|t'|² the squared exponential's remainder is computed by one plain formula."""


class Profile(NamedTuple):
    """A kernel at squared whitened distances u."""

    value: Array
    """κ(u)"""
    weight: Array
    """w(u) = −2κ'(u)"""
    weight_slope: Array
    """w'(u)"""


class Remainder(NamedTuple):
    """C(t, t') and its gradient in t, which is along·t' + radial·t."""

    value: Array
    along: Array
    radial: Array


class Kernel(Part, ABC):
    """A radial profile, twice differentiable, with κ(0) = 1 and κ'(0) = −½."""

    family: ClassVar[str] = "kernel"

    @abstractmethod
    def profile(self, squared: Array) -> Profile:
        """κ, w = −2κ' and w' at squared whitened distances, of any shape."""


@runtime_checkable
class FastKernel(Protocol):
    """What a kernel may offer beside its profile: remainders that are not differences of nearly equal numbers."""

    def scaled(self, squared: Array, log_variance: float) -> Profile: ...

    def remainder(
        self, products: Array, left: Array | float, right: Array, squares: Callable[[], Array]
    ) -> Remainder: ...

    def variance_left(self, squared: Array) -> tuple[Array, Array]: ...

    def one_minus_weight(self, squared: Array) -> Array: ...


class Embedding(NamedTuple):
    """Where a kernel with a distance of its own sees points."""

    along: Array
    """(n, d): coordinates with derivative one in the chart at θ, where they are θ's."""
    beside: Array
    """(n, q): further coordinates, zero with derivative zero at θ."""

    def together(self) -> Array:
        """(n, d + q); the very array `along` where there is nothing beside it."""
        return np.hstack([self.along, self.beside]) if self.beside.size else self.along


@runtime_checkable
class OwnDistance(Protocol):
    """What a kernel may offer beside its profile: a distance that is not the chart's, as points of a larger space.

    It is the radial kernel `radial` of those points, with one lengthscale for all their coordinates.
    """

    radial: Kernel

    def embed(self, near: "Neighbourhood", parameters: Array) -> Embedding:
        """Policies (n, d), not in the chart."""
        ...


def scaled(kernel: Kernel, squared: Array, log_variance: float) -> Profile:
    """σ_f² times the profile, with log_variance = log σ_f²."""
    if isinstance(kernel, FastKernel):
        return kernel.scaled(squared, log_variance)
    variance = np.exp(log_variance)
    value, weight, slope = kernel.profile(squared)
    return Profile(variance * value, variance * weight, variance * slope)


def remainder(
    kernel: Kernel, products: Array, left: Array | float, right: Array, squares: Callable[[], Array]
) -> Remainder:
    """The remainder of pairs of whitened points (unit signal).

    Args:
        kernel: the kernel.
        products: t·t', (m, n) or (n,).
        left: ½|t|² of the left points, broadcastable: (m, 1) or a number.
        right: ½|t'|² of the right points, (n,).
        squares: gives the squared distances |t − t'|², shaped like `products`.
    """
    if isinstance(kernel, FastKernel):
        return kernel.remainder(products, left, right, squares)
    pair, one, two = kernel.profile(squares()), kernel.profile(2.0 * np.asarray(left)), kernel.profile(2.0 * right)
    return Remainder(
        pair.value - one.value * two.value - one.weight * two.weight * products,
        pair.weight - one.weight * two.weight,
        one.weight * two.value - pair.weight - 2.0 * one.weight_slope * two.weight * products,
    )


def variance_left(kernel: Kernel, squared: Array) -> tuple[Array, Array]:
    """C(t, t) at u = |t|², and its derivative in u."""
    if isinstance(kernel, FastKernel):
        return kernel.variance_left(squared)
    value, weight, slope = kernel.profile(squared)
    return (
        1.0 - value**2 - weight**2 * squared,
        value * weight - weight**2 - 2.0 * weight * slope * squared,
    )


def one_minus_weight(kernel: Kernel, squared: Array) -> Array:
    """1 − w(u)."""
    if isinstance(kernel, FastKernel):
        return kernel.one_minus_weight(squared)
    return 1.0 - kernel.profile(squared).weight


@dataclass(frozen=True)
class SquaredExponential(Kernel):
    """κ(u) = exp(−u/2); remainders are computed without cancellation."""

    def profile(self, squared: Array) -> Profile:
        value = np.exp(-0.5 * squared)
        return Profile(value, value, -0.5 * value)

    def scaled(self, squared: Array, log_variance: float) -> Profile:
        """One exponential instead of a product."""
        value = np.exp(log_variance - 0.5 * squared)
        return Profile(value, value, -0.5 * value)

    def remainder(self, products: Array, left: Array | float, right: Array, squares: Callable[[], Array]) -> Remainder:
        """e·e'·(exp(p) − 1 − p) with e = exp(−½|t|²) and p = t·t': a power series in p with positive coefficients.

        No catastrophic cancellation, and no overflow where p is large and e·e' tiny. The squared distances are asked
        for only when points are far from θ.
        """
        halves = left + right
        both = np.exp(-halves)
        if halves.max() <= _PLAIN:  # No overflow, and no loss of relative accuracy in `both`: p ≤ ½|t|² + ½|t'|².
            powers = np.expm1(products)
            value = both * (powers - products)
            return Remainder(value, both * powers, -value)
        near = np.minimum(products, 1.0)
        powers = np.expm1(near)
        full = np.exp(-0.5 * squares())
        large = products > 1.0
        value = np.where(large, full - both * (1.0 + products), both * (powers - near))
        return Remainder(value, np.where(large, full - both, both * powers), -value)

    def variance_left(self, squared: Array) -> tuple[Array, Array]:
        """1 − (1 + u)exp(−u), which for small u is all cancellation; there exp(−u)(exp(u) − 1 − u) is not."""
        squared_value = np.exp(-squared)
        slope = squared * squared_value
        near = np.minimum(squared, 1.0)
        value = np.where(squared > 1.0, 1.0 - squared_value - slope, squared_value * (np.expm1(near) - near))
        return value, slope

    def one_minus_weight(self, squared: Array) -> Array:
        """Accurate for small u."""
        return -np.expm1(-0.5 * squared)


@dataclass(frozen=True)
class Matern52(Kernel):
    """κ(u) = (1 + ρ + ρ²/3)·exp(−ρ) with ρ = √(3u); its ℓ is √(5/3) times shorter than where ρ = √5·r/ℓ."""

    def profile(self, squared: Array) -> Profile:
        distance = np.sqrt(3.0 * np.maximum(squared, 0.0))
        fall = np.exp(-distance)
        return Profile((1.0 + distance + distance**2 / 3.0) * fall, (1.0 + distance) * fall, -1.5 * fall)


@dataclass(frozen=True, eq=False)
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
    """Constant added to the mean function (0 when the prior has a mean function of its own)."""
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
                "need signal > 0, noise >= 0 and feature_scale >= 0, all finite; "
                f"got {self.signal}, {self.noise}, {self.feature_scale}"
            )
        if not np.isfinite(self.mean):
            raise ConfigError(f"the constant mean must be finite, got {self.mean}")

    @property
    def effective(self) -> Array:
        """(d,) L_i = ℓ_i·√d, or ℓ_i when the scaling is off."""
        return self.lengthscales * np.sqrt(len(self.lengthscales)) if self.scale_by_dimension else self.lengthscales
