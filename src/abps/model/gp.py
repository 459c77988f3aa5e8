"""The Gaussian process as a part, and a fitted process as a value (paper Sections 2.2 and 5.1, Appendix A).

    GP(kernel, bounds).fit(neighbourhood, prior) ─► Model ─► Model.at(θ) ─► GradientPosterior(μ, Σ)

Shapes: n points, d parameters, k critics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr

from abps.arrays import Array
from abps.errors import NumericsError
from abps.model.fit import FEW, SHARED, THOROUGH, WARM, Bounds, Effort, Fit, fit, noise_estimate
from abps.model.kernel import Embedding, Hyper, Kernel, OwnDistance, SquaredExponential
from abps.model.neighbourhood import Neighbourhood
from abps.model.posterior import Features, GradientPosterior, condition
from abps.settings import replace, require, setting

__all__ = ["GP", "Measurements", "Model", "PriorMean"]

NOISE_RAISES = 6
"""How often the noise may grow tenfold before a covariance that cannot be factored is an error."""


TINY = 1e-12
"""Smallest variance of a difference of two returns, in signal variances."""
NOISE_SHARE = 0.4
"""σ̂_n of `noise: spread`, as a share of the standard deviation of the window's returns."""
LENGTHSCALE_LOG_STD, NOISE_LOG_STD = 1.0, 0.7
"""Widths of the log-normal hyper-priors."""


class PriorMean(NamedTuple):
    """What is believed of J before the window's returns are looked at: scaled units, coordinates of the chart."""

    at_points: Array
    """m(X) (n,)"""
    at_theta: float
    """m(θ)"""
    gradient: Array
    """∇m(θ) (d,)"""
    features: Features | None = None
    """The critics' advantages, when their weights are integrated out."""
    mean_bound: float | None = None
    """A constant is fitted in ± this and added; None: no constant."""
    feature_scale: tuple[float, float] = (1e-4, 3.0)
    """Bounds of σ_β, when there are features."""
    features_at: Callable[[Array], Array] | None = None
    """Features at any points (m, d) of the chart → (m, k), when they are known there; None: to first order."""

    target: Array | None = None
    """Where the critics' own search went (d,), in the chart; None: no such."""

    def slope(self) -> Array:
        """∇m(θ) (d,) with features at their prior weights: what is believed of the gradient beforehand."""
        features = self.features
        if features is None:
            return self.gradient
        weights = np.broadcast_to(np.asarray(features.prior, dtype=np.float64), (features.gradient.shape[1],))
        return self.gradient + features.gradient @ weights


class Measurements(NamedTuple):
    """What hyper-parameters are fitted to: those of a neighbourhood, or of an optimiser in a box."""

    points: Array
    """(n, d)"""
    returns: Array
    """(n,)"""
    counts: Array
    """(n,): episodes behind every return."""
    repeats: list[Array]
    """The returns of every point that was measured more than once."""


@dataclass(frozen=True)
class GP:
    """The Gaussian process over policy parameters: its kernel, and where its hyper-parameters are looked for."""

    kernel: Kernel = setting(SquaredExponential(), "kernel")
    lengthscale_low: float = setting(0.0025, "lower bound of every lengthscale ℓ_i (the paper's U(a, b))", tune=True)
    lengthscale_high: float = setting(0.05, "upper bound of every lengthscale ℓ_i (the paper's U(a, b))", tune=True)
    shared_lengthscale: bool = setting(False, "one lengthscale for all coordinates instead of one each")
    scale_by_dimension: bool = setting(True, "multiply every lengthscale by √d, as the published experiments did")
    signal_factor: float = setting(3.0, "σ_f is searched in [σ̂_f / factor, σ̂_f · factor]")
    noise_factor: float = setting(3.0, "σ_n is searched in [σ̂_n / factor, σ̂_n · factor]")
    noise_floor: float = setting(1e-4, "σ̂_n when all repeated returns are equal, in scaled returns")
    noise: Literal["repeats", "spread"] = setting(
        "repeats",
        "σ̂_n: repeats, the spread of a centre's repeated episodes (the paper); spread, a share of the window's spread, "
        "never below what repeated episodes show",
    )
    hyper_priors: bool = setting(
        False, "log-normal priors: lengthscales around the middle of their bounds, σ_n around σ̂_n; off: uniform"
    )
    weigh_repeats: bool = setting(
        False, "divide the noise variance of the centre by its number of episodes N_c (the paper does not)"
    )
    refit: Literal["warm", "few", "full"] = setting(
        "warm",
        "after a probe: warm, polish the last optimum only; few, and the best of some other starts; full, all starts "
        "again (always at a new centre)",
    )

    def __post_init__(self) -> None:
        require(0 < self.lengthscale_low <= self.lengthscale_high, "need 0 < lengthscale_low <= lengthscale_high")
        require(self.signal_factor >= 1 and self.noise_factor >= 1, "signal_factor and noise_factor must be at least 1")
        require(self.noise_floor > 0, "noise_floor must be positive")
        require(
            not isinstance(self.kernel, OwnDistance) or (self.shared_lengthscale and not self.scale_by_dimension),
            "a kernel with a distance of its own needs shared_lengthscale and no scale_by_dimension",
        )

    def fit(
        self,
        neighbourhood: Neighbourhood,
        prior: PriorMean,
        rng: np.random.Generator,
        previous: Hyper | None = None,
        *,
        warm: bool = False,
    ) -> "Model":
        """Fit the hyper-parameters to a neighbourhood.

        Args:
            neighbourhood: the measured points.
            prior: the mean function there.
            rng: for the optimiser's random starts.
            previous: the last optimum, always among the starts.
            warm: whether the last optimum may be the only start (if `refit` agrees).
        """
        near, (radial, seen) = neighbourhood, self.embedded(neighbourhood)
        measured = Measurements(seen.together(), near.returns, near.counts, near.repeats)
        found = self.fit_hyper(measured, prior, rng, previous, warm=warm, kernel=radial)
        hyper = replace(found.hyper, lengthscales=found.hyper.lengthscales[: seen.along.shape[1]])
        return Model(self, neighbourhood, prior, hyper, found.log_likelihood, found.fallback)

    def fit_hyper(
        self,
        measured: Measurements,
        prior: PriorMean,
        rng: np.random.Generator,
        previous: Hyper | None = None,
        *,
        warm: bool = False,
        kernel: Kernel | None = None,
    ) -> Fit:
        """The hyper-parameters alone, for whatever was measured; arguments as of `fit`, and a radial kernel."""
        features, floor = prior.features, self.noise_floor
        noise, least = noise_estimate(measured.repeats, floor), 0.0
        if self.noise == "spread":
            least = noise if measured.repeats else 0.0
            noise = max(noise, NOISE_SHARE * float(np.std(measured.returns)), floor)
        middle = float(np.sqrt(self.lengthscale_low * self.lengthscale_high))
        return fit(
            measured.points,
            measured.returns,
            Bounds(
                (self.lengthscale_low, self.lengthscale_high),
                self.signal_factor,
                self.noise_factor,
                floor,
                prior.feature_scale,
                (middle, LENGTHSCALE_LOG_STD) if self.hyper_priors else None,
                NOISE_LOG_STD if self.hyper_priors else None,
                least,
            ),
            rng,
            noise=noise,
            kernel=kernel or self.kernel,
            shared_lengthscale=self.shared_lengthscale,
            scale_by_dimension=self.scale_by_dimension,
            effort=self._effort(warm and previous is not None),
            mean_at_points=prior.at_points,
            mean_bound=prior.mean_bound,
            counts=measured.counts if self.weigh_repeats else None,
            feature_values=None if features is None else features.values,
            feature_prior=0.0 if features is None else features.prior,
            previous=previous,
        )

    def embedded(self, neighbourhood: Neighbourhood, more: Array | None = None) -> tuple[Kernel, Embedding]:
        """The radial kernel, and where it sees the neighbourhood's points and `more` policies (m, d) after them."""
        near, kernel = neighbourhood, self.kernel
        parameters = near.parameters if more is None else np.vstack([near.parameters, more])
        if isinstance(kernel, OwnDistance):
            return kernel.radial, kernel.embed(near, parameters)
        points = near.points if more is None else near.coordinates.to_chart(parameters)
        return kernel, Embedding(points, np.zeros((len(points), 0)))

    def _effort(self, warm: bool) -> Effort:
        if warm and self.refit != "full":
            return WARM if self.refit == "warm" else FEW
        return SHARED if self.shared_lengthscale else THOROUGH

    def model(self, neighbourhood: Neighbourhood, prior: PriorMean, hyper: Hyper) -> "Model":
        """The process with hyper-parameters that are known already."""
        return Model(self, neighbourhood, prior, hyper)


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted process: a value that steps, criteria and figures ask."""

    gp: GP
    neighbourhood: Neighbourhood
    prior: PriorMean
    hyper: Hyper
    log_marginal_likelihood: float | None = None
    """Of the window; None where the hyper-parameters were not fitted here."""
    fallback: str = ""
    """Why nothing could be fitted, or ""."""

    @cached_property
    def posterior(self) -> GradientPosterior:
        """The posterior of J and of ∇J at the centre."""
        return self.at(self.neighbourhood.theta)

    def at(self, theta: Array) -> GradientPosterior:
        """The posterior at any θ (d,) of the chart; a prior mean that is not constant belongs to its own centre.

        While the covariance cannot be factored the noise is raised tenfold; `noise_raised` tells.

        Raises:
            NumericsError: it cannot be factored with a million times the noise either.
        """
        raises = 0
        while True:
            try:
                hyper = replace(self.hyper, noise=self.hyper.noise * 10.0**raises)
                return self._condition(theta, hyper, self.prior, self._seen)
            except NumericsError:
                if raises == NOISE_RAISES:
                    raise
                raises += 1

    @property
    def noise_raised(self) -> float:
        """By which factor the noise had to be raised; 1 but for nearly singular windows."""
        return self.posterior.hyper.noise / self.hyper.noise

    def weights(self, chosen: Array) -> Array:
        """The critics' weights (k,): those `chosen` beforehand, or the posterior mean of weights integrated out."""
        return chosen if self.prior.features is None else self.posterior.weights.mean

    def posterior_given_weights(self, weights: Array) -> GradientPosterior:
        """The posterior with integrated weights fixed at `weights` (k,); μ is the same, Σ only smaller.

        With weights integrated out, Σ is largest along the critics' own gradients, and Σ⁻¹μ would turn the step away
        from exactly the directions that the critics point out (measured in benchmarks/critics).
        """
        features = self.prior.features
        if features is None:
            return self.posterior
        fixed = self.prior._replace(features=Features(features.values, features.gradient, weights))
        hyper = replace(self.posterior.hyper, feature_scale=0.0)
        return self._condition(self.neighbourhood.theta, hyper, fixed, self._seen)

    def better(self, points: Array) -> tuple[Array, Array]:
        """Posterior means of J at points (m, d) of the chart, and the probabilities that each is better than θ (m,)."""
        mean, covariance = self._joint(np.vstack([points, self.neighbourhood.theta]))
        variance = np.diag(covariance) + covariance[-1, -1] - 2.0 * covariance[:, -1]
        spread = np.sqrt(np.maximum(variance, TINY * self.hyper.signal**2))
        return mean[:-1], ndtr((mean - mean[-1]) / spread)[:-1]

    def value(self, point: Array) -> tuple[float, float]:
        """Posterior mean and standard deviation of J at a point (d,) of the chart."""
        mean, covariance = self._joint(point[None])
        return float(mean[0]), float(np.sqrt(max(covariance[0, 0], 0.0)))

    def _joint(self, points: Array) -> tuple[Array, Array]:
        """Posterior of J at points (m, d) of the chart: means (m,) and covariances (m, m)."""
        known, posterior, place = self.prior.features_at, self.posterior, None
        features = None if known is None else known(points)
        if isinstance(self.gp.kernel, OwnDistance):
            near, n = self.neighbourhood, len(self.neighbourhood.points)
            kernel, seen = self.gp.embedded(near, near.coordinates.to_parameters(points))
            # Coordinates beside the chart have no axes of their own: measured and asked points share them.
            measured, place = (Embedding(*(part[rows] for part in seen)) for rows in (slice(n), slice(n, None)))
            posterior = self._condition(near.theta, posterior.hyper, self.prior, (kernel, measured))
        return posterior.joint(points, features, place)

    def mean_gradient(self) -> Array:
        """∇m(θ) (d,): the prior mean's gradient, with integrated weights at their posterior mean."""
        features = self.prior.features
        return self.prior.gradient if features is None else features.gradient @ self.posterior.weights.mean

    @cached_property
    def _seen(self) -> tuple[Kernel, Embedding]:
        return self.gp.embedded(self.neighbourhood)

    def _condition(
        self, theta: Array, hyper: Hyper, prior: PriorMean, seen: tuple[Kernel, Embedding]
    ) -> GradientPosterior:
        near, (kernel, (along, beside)) = self.neighbourhood, seen
        return condition(
            along,
            near.returns,
            theta,
            hyper,
            mean_at_points=prior.at_points,
            mean_at_theta=prior.at_theta,
            mean_gradient=prior.gradient,
            counts=near.counts if self.gp.weigh_repeats else None,
            features=prior.features,
            kernel=kernel,
            beside=beside,
        )
