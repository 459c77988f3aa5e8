"""Additive processes: J(x) = Σ_c f_c(x_c) over groups of coordinates, each f_c a process of its own (Rolland et al. 2018).

Components share the lengthscale and have the variance σ_f²/C each, so that κ(x, x') is the mean over components of the
kernel's profile of |x_c − x'_c|². `ComponentDistances` and `AdditiveKernel` let the one hyper-parameter fit of `fit.py`
work on it: a stack of squared distances (C, n, n) takes the place of one matrix. Shapes: C components, n measured
points, g points of a grid, d parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.model.kernel import Hyper, Kernel, Profile
from abps.model.linalg import squared_distances
from abps.model.regression import Marginals, factored

__all__ = ["AdditiveKernel", "AdditiveRegression", "ComponentDistances", "Components"]

Components = Sequence[tuple[int, ...]]
"""Which coordinates belong to each component."""

_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class AdditiveKernel(Kernel):
    """The mean of a kernel over components, for squared distances stacked along the first axis."""

    kernel: Kernel

    def profile(self, squared: Array) -> Profile:
        """κ (n, n), and the components' weights and slopes (C, n, n), from squared distances (C, n, n)."""
        value, weight, slope = self.kernel.profile(squared)
        count = len(squared)
        return Profile(value.mean(axis=0), weight / count, slope / count)


class ComponentDistances:
    """One lengthscale for all components: squared distances (C, n, n) as a function of log ℓ (1,)."""

    def __init__(self, points: Array, components: Components) -> None:
        self.count, self.d = 1, points.shape[1]
        self.distances = np.stack([squared_distances(points[:, list(group)]) for group in components])

    def squared(self, logarithms: Array) -> Array:
        """|t_j − t_k|² of every component."""
        return self.distances * np.exp(-2.0 * logarithms[0])

    def gradient(self, outer: Array, logarithms: Array) -> Array:
        """½ Σ_cjk A_cjk |t_j − t_k|²_c (1,) for a stack of symmetric A (C, n, n)."""
        return np.array([0.5 * float((outer * self.squared(logarithms)).sum())])

    def expanded(self, logarithms: Array) -> Array:
        """ℓ (d,)."""
        return np.full(self.d, np.exp(logarithms[0]))

    def reduced(self, hyper: Hyper) -> Array:
        """log ℓ (1,) of hyper-parameters."""
        return np.log(hyper.lengthscales[:1])


class AdditiveRegression:
    """The posterior of every component given noisy values (n,) of their sum at points (n, d)."""

    def __init__(self, points: Array, values: Array, hyper: Hyper, kernel: Kernel, components: Components) -> None:
        self.kernel, self.components = kernel, components
        self.whitened = points / hyper.effective
        self._scale = hyper.effective
        squares = np.stack([squared_distances(self.whitened[:, list(group)]) for group in components])
        self._factor, self.hyper = factored(AdditiveKernel(kernel).profile(squares).value, hyper)
        self.weights = self._factor.solve((values - hyper.mean) / hyper.signal)

    def component(self, number: int, grid: Array) -> Marginals:
        """Mean and standard deviation (g,) of f_c at points (g, |c|) of its own coordinates; no constant is added."""
        group, count = list(self.components[number]), len(self.components)
        squares = squared_distances(grid / self._scale[group], self.whitened[:, group])
        cross = self.kernel.profile(squares).value / count
        reduced = self._factor.whiten(cross.T)
        variance = np.maximum(1.0 / count - np.einsum("ng,ng->g", reduced, reduced), _LEAST_VARIANCE)
        return Marginals(self.hyper.signal * (cross @ self.weights), self.hyper.signal * np.sqrt(variance))

    def mean(self, points: Array) -> Array:
        """Posterior mean (m,) of the sum at points (m, d)."""
        parts = [self.component(number, points[:, list(group)]).mean for number, group in enumerate(self.components)]
        return self.hyper.mean + np.sum(parts, axis=0)
