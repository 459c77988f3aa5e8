"""Random trees: forests without cycles, message passing against all choices, and the bound's maximum."""

import itertools

import numpy as np
import pytest

from abps.model.additive import AdditiveRegression
from abps.model.kernel import Hyper, Matern52
from abps.optimisers.base import maximise
from abps.optimisers.trees import RandomTrees, forest_components, maximise_over_forest, random_forest


def acyclic(d: int, edges: list[tuple[int, int]]) -> bool:
    """By the rank of the incidence matrix, which a cycle lowers."""
    matrix = np.zeros((len(edges), d))
    for row, (one, two) in zip(matrix, edges, strict=True):
        row[one], row[two] = 1.0, -1.0
    return not len(edges) or int(np.linalg.matrix_rank(matrix)) == len(edges)


@pytest.mark.parametrize(("d", "edges"), [(1, 3), (2, 1), (6, 5), (30, 6), (30, 99)])
def test_a_forest_has_no_cycle_and_as_many_edges_as_asked(d: int, edges: int) -> None:
    found = random_forest(d, edges, np.random.default_rng(0))
    assert len(found) == min(edges, d - 1)
    assert acyclic(d, found)
    assert not acyclic(3, [(0, 1), (1, 2), (0, 2)])
    covered = sorted(vertex for group in forest_components(d, found) for vertex in set(group))
    assert set(covered) == set(range(d))


def test_every_tree_of_three_vertices_is_equally_frequent() -> None:
    rng = np.random.default_rng(0)
    seen = [frozenset(random_forest(3, 2, rng)) for _ in range(3000)]
    counts = [seen.count(tree) for tree in set(seen)]
    assert len(counts) == 3
    assert max(abs(count - 1000) for count in counts) < 4.5 * np.sqrt(3000 * 2 / 9)


@pytest.mark.parametrize("seed", range(12))
def test_message_passing_finds_what_trying_all_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, r = int(rng.integers(1, 7)), 3
    edges = random_forest(d, int(rng.integers(0, d + 1)), rng)
    vertices, scores = rng.standard_normal((d, r)), rng.standard_normal((len(edges), r, r))

    def total(choice: tuple[int, ...]) -> float:
        value = sum(vertices[i, k] for i, k in enumerate(choice))
        pairs = zip(edges, scores, strict=True)
        return float(value + sum(score[choice[one], choice[two]] for (one, two), score in pairs))

    best = max(itertools.product(range(r), repeat=d), key=total)
    assert tuple(maximise_over_forest(vertices, edges, scores)) == best


def test_trying_all_would_notice_a_transposed_edge() -> None:
    scores = np.array([[[0.0, 5.0], [0.0, 0.0]]])
    assert maximise_over_forest(np.zeros((2, 2)), [(0, 1)], scores) == [0, 1]
    assert maximise_over_forest(np.zeros((2, 2)), [(0, 1)], scores.transpose(0, 2, 1)) == [1, 0]


def test_the_bound_s_maximum_is_that_of_a_fine_grid() -> None:
    """Two coordinates, one edge: the zoomed grid against 201² points."""
    rng = np.random.default_rng(1)
    points = rng.uniform(size=(12, 2))
    hyper = Hyper(np.full(2, 0.5), 1.0, 0.1, scale_by_dimension=False)
    optimiser = RandomTrees(grid=12)
    model = AdditiveRegression(points, np.sin(4 * points).sum(axis=1), hyper, Matern52(), [(0, 1)])
    point = optimiser._maximum(model, [(0, 1)], 2, 1.0)  # pyright: ignore[reportPrivateUsage]
    axis = np.linspace(0, 1, 201)
    grid = np.stack([part.reshape(-1) for part in np.meshgrid(axis, axis)], axis=1)
    everywhere, mine = model.components_at([0], grid[None]), model.components_at([0], point[None, None])
    assert mine.mean[0, 0] + mine.std[0, 0] > (everywhere.mean + everywhere.std).max() - 1e-3


def test_an_additive_function_of_many_coordinates_is_climbed() -> None:
    def additive(x: np.ndarray) -> np.ndarray:
        return -np.square(x - 0.3).sum(axis=1)

    _told, learned = maximise(RandomTrees(), additive, 20, 80)
    assert additive(learned[-1].best[None])[0] > -0.25
    assert additive(np.random.default_rng(0).uniform(size=(80, 20))).max() < -1.0
