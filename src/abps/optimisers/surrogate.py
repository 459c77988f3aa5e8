"""The process that optimisers put over the unit cube: values standardised, hyper-parameters by `GP.fit_hyper`.

Shapes: n measured points, d parameters.
"""

import numpy as np

from abps.arrays import Array
from abps.model.gp import GP, Measurements, PriorMean
from abps.model.kernel import Hyper, Matern52
from abps.model.regression import Regression
from abps.optimisers.base import Measured

__all__ = ["Scaled", "box_gp", "fitted", "regression"]

CLIP = 3.0
"""Values are raised to no less than so many interquartile ranges below the lower quartile: how bad the worst points are
does not matter, and would squeeze all others together. Good ones are never clipped."""
MEAN_BOUND = 2.0
"""The constant mean is fitted within ± this, in standard deviations of the values."""
MATERN = float(np.sqrt(3.0 / 5.0))
"""Our Matérn-5/2 lengthscale over that of ρ = √5·r/ℓ, in which published bounds are given."""


def box_gp(low: float, high: float) -> GP:
    """Matérn-5/2 with one lengthscale per parameter within published bounds (shares of the cube's side).

    σ_f² within [0.05, 20] and σ_n² within [5e-4, 0.2] of standardised values, as TuRBO has them.
    """
    return GP(
        kernel=Matern52(),
        lengthscale_low=low * MATERN,
        lengthscale_high=high * MATERN,
        scale_by_dimension=False,
        signal_factor=4.4721,
        noise_factor=4.4721,
        noise_floor=0.1,
        refit="few",
    )


class Scaled:
    """Measured points with clipped and standardised values."""

    def __init__(self, measured: Measured) -> None:
        self.points = measured.points
        low, high = np.quantile(measured.values, [0.25, 0.75])
        clipped = np.maximum(measured.values, low - CLIP * (high - low))
        spread = float(np.std(clipped))
        self.location = float(np.mean(clipped))
        self.scale = spread if spread > 1e-12 * max(abs(self.location), 1e-300) else 1.0
        """What one standard deviation of the standardised values is in values."""
        self.returns = (clipped - self.location) / self.scale

    def values(self, standardised: Array) -> Array:
        """Back to the function's own units."""
        return self.location + self.scale * standardised


def fitted(gp: GP, scaled: Scaled, rng: np.random.Generator, previous: Hyper | None) -> Hyper:
    """The hyper-parameters; from the previous ones, if there are any, else from many starts."""
    n, d = scaled.points.shape
    constant = PriorMean(np.zeros(n), 0.0, np.zeros(d), mean_bound=MEAN_BOUND)
    measured = Measurements(scaled.points, scaled.returns, np.ones(n), [])  # No point is measured twice.
    return gp.fit_hyper(measured, constant, rng, previous, warm=previous is not None).hyper


def regression(gp: GP, scaled: Scaled, hyper: Hyper) -> Regression:
    """The posterior of the standardised function."""
    return Regression(scaled.points, scaled.returns, hyper, gp.kernel)
