"""Naive twins of three Bayesian optimisers in a box: explicit inverses, loops and trying everything, textbook formulas.

They share nothing with the package but the numbers they are given: points, values, lengthscales, signal and noise. The
kernel is the textbooks' Matérn-5/2, (1 + √5r/ℓ + 5r²/3ℓ²)·exp(−√5r/ℓ); the package's lengthscale is √(3/5)·ℓ.
"""

import itertools
import math

import numpy as np


def standardised(values):
    """Values raised to three interquartile ranges below the lower quartile, then with mean 0 and variance 1."""
    low, high = np.percentile(values, 25), np.percentile(values, 75)
    raised = np.array([max(value, low - 3 * (high - low)) for value in values])
    return (raised - raised.mean()) / raised.std()


def matern(a, b, lengthscales):
    """Of two points, or two parts of them."""
    scaled = [(x - y) / (scale * math.sqrt(5 / 3)) for x, y, scale in zip(a, b, lengthscales, strict=True)]
    r = math.sqrt(sum(value**2 for value in scaled))
    root = math.sqrt(5) * r
    return (1 + root + root**2 / 3) * math.exp(-root)


class DenseProcess:
    """J = Σ_c f_c over components (groups of coordinates) of equal variance; one component of all: a plain process."""

    def __init__(self, points, values, hyper, components=None):
        self.points, self.hyper = points, hyper
        self.components = components or [tuple(range(points.shape[1]))]
        gram = [[self.kernel(a, b) for b in points] for a in points]
        self.inverse = np.linalg.inv(np.array(gram) + hyper.noise**2 * np.eye(len(points)))
        self.residual = standardised(values) - hyper.mean

    def part(self, component, a, b):
        """cov(f_c(a), f_c(b)), of whole points."""
        places = self.components[component]
        scales = [self.hyper.lengthscales[place] for place in places]
        value = matern([a[place] for place in places], [b[place] for place in places], scales)
        return self.hyper.signal**2 / len(self.components) * value

    def kernel(self, a, b):
        return sum(self.part(component, a, b) for component in range(len(self.components)))

    def component_at(self, component, x):
        """Mean and standard deviation of f_c at a point, given values of the sum."""
        cross = np.array([self.part(component, x, other) for other in self.points])
        variance = self.part(component, x, x) - cross @ self.inverse @ cross
        return cross @ self.inverse @ self.residual, math.sqrt(max(variance, 0.0))

    def at(self, x):
        """Mean and standard deviation of J at a point."""
        cross = np.array([self.kernel(x, other) for other in self.points])
        variance = self.kernel(x, x) - cross @ self.inverse @ cross
        return self.hyper.mean + cross @ self.inverse @ self.residual, math.sqrt(max(variance, 0.0))

    def joint(self, points):
        """Mean (m,) and covariance (m, m) of J at points."""
        cross = np.array([[self.kernel(x, other) for other in self.points] for x in points])
        own = np.array([[self.kernel(x, y) for y in points] for x in points])
        return self.hyper.mean + cross @ self.inverse @ self.residual, own - cross @ self.inverse @ cross.T


def confident_bound(process, x, beta, gamma):
    """μ + βσ where σ ≤ γσ_f; elsewhere −∞."""
    mean, std = process.at(x)
    return mean + beta * std if std <= gamma * process.hyper.signal else -math.inf


def best_confident_bound(process, d, beta, gamma, count):
    """The largest over a grid of `count` points per coordinate."""
    axis = np.linspace(0, 1, count)
    return max(confident_bound(process, x, beta, gamma) for x in itertools.product(axis, repeat=d))


def tree_bound(process, x, weight):
    """Σ_c (μ_c + bσ_c) at a point."""
    found = [process.component_at(component, x) for component in range(len(process.components))]
    return sum(mean + weight * std for mean, std in found)


def best_of_zoomed_grids(process, d, weight, count, zooms):
    """The point that trying all of every grid finds, each grid between the neighbours of the last best point."""
    low, high, best = np.zeros(d), np.ones(d), np.full(d, 0.5)
    for _ in range(zooms):
        axes = [np.linspace(low[i], high[i], count) for i in range(d)]
        best = np.array(max(itertools.product(*axes), key=lambda x: tree_bound(process, x, weight)))
        step = (high - low) / (count - 1)
        low, high = np.maximum(best - step, 0), np.minimum(best + step, 1)
    return best


def optimum_shares(process, candidates, functions, rng):
    """How often each candidate is the best of a drawn function; functions by the covariance's eigenvectors."""
    mean, covariance = process.joint(candidates)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    counts = np.zeros(len(candidates))
    for _ in range(functions):
        counts[np.argmax(mean + root @ rng.standard_normal(len(candidates)))] += 1
    return counts / functions
