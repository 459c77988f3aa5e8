"""Additive processes: J(x) = Σ_c f_c(x_c) over groups of coordinates, every f_c a process (Rolland et al. 2018).

Components share the lengthscale and have the variance σ_f²/C each, so that κ(x, x') is the mean over components of the
kernel's profile of |x_c − x'_c|². `AdditiveKernel` lets the one hyper-parameter fit of `fit.py` work on it: a stack of
squared distances (C, n, n) takes the place of one matrix. Shapes: C components, n measured points, g points of a grid,
d parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.model.kernel import Hyper, Kernel, Profile
from abps.model.regression import Marginals, factored

__all__ = ["AdditiveKernel", "AdditiveRegression", "Components", "component_squares"]

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


def component_squares(left: Array, right: Array, components: Components) -> Array:
    """|a_c − b_c|² (C, m, n) of points (m, d) and (n, d), for every component."""
    squares = np.empty((len(components), len(left), len(right)))
    for row, group in zip(squares, components, strict=True):
        np.square(left[:, None, group[0]] - right[:, group[0]], out=row)
        for place in group[1:]:
            row += np.square(left[:, None, place] - right[:, place])
    return squares


class AdditiveRegression:
    """The posterior of every component given noisy values (n,) of their sum at points (n, d)."""

    def __init__(self, points: Array, values: Array, hyper: Hyper, kernel: Kernel, components: Components) -> None:
        self.kernel, self.components = kernel, components
        self.scale = hyper.effective
        self.whitened = points / self.scale
        squares = component_squares(self.whitened, self.whitened, components)
        self._gram = AdditiveKernel(kernel).profile(squares).value
        self._factor, self.hyper = factored(self._gram, hyper)
        self.weights = self._factor.solve((values - hyper.mean) / hyper.signal)

    def components_at(self, numbers: Sequence[int], grids: Array) -> Marginals:
        """Mean and standard deviation (k, g) of components of one size, each at points (k, g, size) of its own.

        The constant mean is not in them.
        """
        groups, count = np.array([self.components[number] for number in numbers]), len(self.components)
        own = self.whitened[:, groups].transpose(1, 0, 2)  # (k, n, size)
        squares = np.square((grids / self.scale[groups][:, None])[:, :, None] - own[:, None]).sum(axis=-1)
        cross = self.kernel.profile(squares).value / count  # (k, g, n)
        reduced = self._factor.whiten(cross.reshape(-1, cross.shape[-1]).T)
        variance = np.maximum(1.0 / count - np.einsum("ng,ng->g", reduced, reduced), _LEAST_VARIANCE)
        std = self.hyper.signal * np.sqrt(variance).reshape(cross.shape[:2])
        return Marginals(self.hyper.signal * (cross @ self.weights), std)

    def at_measured(self) -> Array:
        """Posterior mean (n,) of the sum where it was measured."""
        return self.hyper.mean + self.hyper.signal * (self._gram @ self.weights)
