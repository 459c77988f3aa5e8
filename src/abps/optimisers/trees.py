"""Additive processes over random trees, maximised by message passing (Ziomek & Bou-Ammar 2023, RDUCB).

Every stage draws a random forest over the coordinates: an additive process with one component per edge, and one per
coordinate without an edge. Its upper confidence bound Σ_c (μ_c + b·σ_c) is a sum over edges and vertices of a forest,
so that the maximum over a grid is exact by passing messages from the leaves to the roots and back; the grid is then
zoomed in around it. No decomposition is learned: a random one is never misled for long.

Global, and bound to the box, hence no natural choice for policies, whose useful parameters are few and far between; a
random projection would embed them in a subspace that need not hold a good policy at all. Shapes: d parameters, r grid
points per coordinate, e edges.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.model.additive import AdditiveKernel, AdditiveRegression, component_squares
from abps.model.fit import SHARED, WARM, Bounds, SharedLengthscale, fit
from abps.model.kernel import Hyper, Kernel, Matern52
from abps.optimisers.base import Batch, Learned, Measured, Optimiser, newest_and_best
from abps.optimisers.surrogate import MEAN_BOUND, Scaled
from abps.seeding import sobol
from abps.settings import require, setting

__all__ = ["RandomTrees", "TreesMemory", "forest_components", "maximise_over_forest", "random_forest"]

ZOOMS = 3
"""Grids one inside the other: the whole side, then twice the neighbours of the best point."""
SPREAD_FACTOR = 4.4721
"""σ_f² within [0.05, 20], σ_n² within [5e-4, 0.2] of standardised values."""
NOISE = 0.1


@dataclass
class TreesMemory:
    """What the optimiser remembers."""

    hyper: Hyper | None = None
    """None: the first points are still being measured."""
    told: int = 0
    """Values told so far."""
    fitted: int = 0
    """How many there were at the last fit."""


def random_forest(d: int, edges: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Random edges over d vertices without a cycle, at most d − 1 of them."""
    parent = list(range(d))

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex

    chosen = list[tuple[int, int]]()
    while len(chosen) < min(edges, d - 1):
        one, two = (int(vertex) for vertex in rng.choice(d, 2, replace=False))
        if root(one) != root(two):
            parent[root(one)] = root(two)
            chosen.append((min(one, two), max(one, two)))
    return chosen


def forest_components(d: int, edges: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The edges, then every vertex without one."""
    covered = {vertex for edge in edges for vertex in edge}
    return [*edges, *((vertex,) for vertex in range(d) if vertex not in covered)]


def maximise_over_forest(vertices: Array, edges: list[tuple[int, int]], scores: Array) -> list[int]:
    """The choice k_i for every vertex that maximises Σ_i v[i, k_i] + Σ_(i,j) s[e, k_i, k_j], by message passing.

    Args:
        vertices: scores of every vertex's r choices (d, r).
        edges: pairs of vertices without a cycle.
        scores: scores of every edge's choices (e, r, r), its first vertex first.
    """
    d = len(vertices)
    neighbours: list[list[tuple[int, Array]]] = [[] for _ in range(d)]
    for (one, two), score in zip(edges, scores, strict=True):
        neighbours[one].append((two, score.T))
        neighbours[two].append((one, score))  # Rows: the neighbour's choice, columns: the own vertex's.
    total, chosen, seen = vertices.copy(), [-1] * d, [False] * d
    for root in range(d):
        if seen[root]:
            continue
        order, parents = [root], {root: (-1, np.zeros((0, 0)))}
        seen[root] = True
        for vertex in order:
            for other, score in neighbours[vertex]:
                if not seen[other]:
                    seen[other], parents[other] = True, (vertex, score)
                    order.append(other)
        for vertex in reversed(order[1:]):  # Upwards: the best of the subtree for each choice of the parent.
            parent, score = parents[vertex]
            total[parent] += (total[vertex][:, None] + score).max(axis=0)
        for vertex in order:  # Downwards: the best choice given the parent's.
            parent, score = parents[vertex]
            along = total[vertex] if parent < 0 else total[vertex] + score[:, chosen[parent]]
            chosen[vertex] = int(along.argmax())
    return chosen


@dataclass(frozen=True)
class RandomTrees(Optimiser):
    """Upper confidence bounds of additive processes over random trees (Ziomek & Bou-Ammar 2023)."""

    kernel: Kernel = setting(Matern52(), "kernel of every component")
    lengthscale_low: float = setting(0.05, "lower bound of the components' lengthscale, in sides of the box")
    lengthscale_high: float = setting(2.0, "upper bound of the components' lengthscale, in sides of the box")
    edges: float = setting(0.2, "edges of a random forest, as a share of the parameters; at least one", common=True)
    exploration: float = setting(0.5, "the std's weight is this times log(2t) after t values", common=True)
    grid: int = setting(8, "grid points per coordinate and zoom")
    first_points: int = setting(10, "points before the first fit")
    refit: int = setting(16, "values between two fits of the hyper-parameters")
    window: int = setting(150, "points that are kept: the best, and the newest others")

    def __post_init__(self) -> None:
        require(0 < self.lengthscale_low <= self.lengthscale_high, "need 0 < lengthscale_low <= lengthscale_high")
        require(0 <= self.edges <= 1, "edges must be between 0 and 1")
        require(self.exploration >= 0, "exploration must not be negative")
        require(self.grid >= 3, "grid must be at least 3")
        require(self.first_points >= 2 and self.refit >= 1, "need first_points >= 2 and refit >= 1")
        require(self.window >= 4, "window must be at least 4")

    def start(self, d: int) -> TreesMemory:
        return TreesMemory()

    def propose(self, memory: TreesMemory, measured: Measured, rng: np.random.Generator) -> Batch:
        d = measured.points.shape[1]
        if memory.hyper is None:
            return Batch.of(sobol(rng, d, max(self.first_points - len(measured), 1)))
        edges = self._forest(d, rng)
        model = self._model(measured, memory.hyper, edges)
        weight = self.exploration * float(np.log(2.0 * memory.told))
        return Batch.of(self._maximum(model, edges, d, weight)[None])

    def learn(self, memory: TreesMemory, measured: Measured, fresh: int, rng: np.random.Generator) -> Learned:
        d = measured.points.shape[1]
        keep = newest_and_best(measured, self.window)
        own, told = measured.where(keep), memory.told + fresh
        hyper, when = memory.hyper, memory.fitted
        edges = self._forest(d, rng)
        if told >= self.first_points and (hyper is None or told - when >= self.refit):
            hyper, when = self._fitted(own, edges, hyper, rng), told
        best = own.points[int(own.values.argmax())]
        if hyper is not None:
            best = own.points[int(self._model(own, hyper, edges).at_measured().argmax())]
        metrics = {"forest_edges": len(edges)}
        return Learned(TreesMemory(hyper, told, when), best, keep, metrics)

    def _forest(self, d: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        return random_forest(d, max(int(self.edges * d), 1), rng)

    def _model(self, measured: Measured, hyper: Hyper, edges: list[tuple[int, int]]) -> AdditiveRegression:
        scaled = Scaled(measured)
        components = forest_components(scaled.points.shape[1], edges)
        return AdditiveRegression(scaled.points, scaled.returns, hyper, self.kernel, components)

    def _fitted(
        self, measured: Measured, edges: list[tuple[int, int]], previous: Hyper | None, rng: np.random.Generator
    ) -> Hyper:
        scaled = Scaled(measured)
        components = forest_components(scaled.points.shape[1], edges)
        squares = component_squares(scaled.points, scaled.points, components)
        bounds = Bounds((self.lengthscale_low, self.lengthscale_high), SPREAD_FACTOR, SPREAD_FACTOR, NOISE)
        return fit(
            scaled.points,
            scaled.returns,
            bounds,
            rng,
            noise=NOISE,
            kernel=AdditiveKernel(self.kernel),
            scale_by_dimension=False,
            effort=SHARED if previous is None else WARM,
            mean_bound=MEAN_BOUND,
            previous=previous,
            lengthscales=SharedLengthscale(scaled.points, False, squares),
        ).hyper

    def _maximum(self, model: AdditiveRegression, edges: list[tuple[int, int]], d: int, weight: float) -> Array:
        """The point (d,) of the largest upper confidence bound, grid after grid."""
        low, high = np.zeros(d), np.ones(d)
        point = np.full(d, 0.5)
        for _ in range(ZOOMS):
            axes = np.linspace(low, high, self.grid, axis=1)  # (d, r)
            vertices, pairs = self._scores(model, edges, axes, weight)
            chosen = maximise_over_forest(vertices, edges, pairs)
            point = axes[np.arange(d), chosen]
            step = (high - low) / (self.grid - 1)
            low, high = np.clip(point - step, 0.0, 1.0), np.clip(point + step, 0.0, 1.0)
        return point

    def _scores(
        self, model: AdditiveRegression, edges: list[tuple[int, int]], axes: Array, weight: float
    ) -> tuple[Array, Array]:
        """μ_c + b·σ_c over the grid axes (d, r): of vertices (d, r), zero with an edge, and edges (e, r, r)."""
        d, r = axes.shape
        vertices, count = np.zeros((d, r)), len(model.components)
        single = range(len(edges), count)
        if single:
            places = [model.components[number][0] for number in single]
            found = model.components_at(single, axes[places][:, :, None])
            vertices[places] = found.mean + weight * found.std
        if not edges:  # One parameter.
            return vertices, np.zeros((0, r, r))
        one, two = np.array(edges).T
        pairs = np.stack(
            [np.repeat(axes[one], r, axis=1), np.tile(axes[two], (1, r))], axis=-1
        )  # (e, r², 2): the first vertex's choice changes slowest.
        found = model.components_at(range(len(edges)), pairs)
        return vertices, (found.mean + weight * found.std).reshape(-1, r, r)
