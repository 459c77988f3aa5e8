"""Confidence-region BO: the constraint is obeyed, and the maximum under it is the one a fine grid finds."""

import numpy as np
import pytest

from abps.model.kernel import Hyper, Matern52
from abps.model.regression import Regression
from abps.optimisers.base import Measured
from abps.optimisers.confidence import ConfidenceMemory, ConfidenceRegion, constrained_maximum, inside
from abps.settings import replace

GAMMA, BETA = 0.6, 2.0


def process(d: int, seed: int = 0, noise: float = 0.1) -> tuple[Measured, Hyper]:
    rng = np.random.default_rng(seed)
    points = np.clip(0.5 + 0.1 * rng.standard_normal((5 + d, d)), 0, 1)
    values = -np.square(points - 0.9).sum(axis=1)
    hyper = Hyper(np.full(d, 0.3), 1.0, noise, scale_by_dimension=False)
    return Measured(points, values, np.zeros(len(points), dtype=np.int64)), hyper


@pytest.mark.parametrize("d", [1, 2, 8, 40])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_proposed_point_obeys_the_constraint(d: int, seed: int) -> None:
    optimiser = ConfidenceRegion()
    data, hyper = process(d, seed)
    point = optimiser.propose(ConfidenceMemory(hyper), data, np.random.default_rng(seed)).points
    model = optimiser.model(hyper, data)
    assert model.at(point).std[0] <= GAMMA * model.hyper.signal
    assert point.min() >= 0.0
    assert point.max() <= 1.0
    # And it uses the room it has: the bound is (nearly) reached, where σ would grow beyond it.
    assert model.at(point).std[0] > 0.9 * GAMMA * model.hyper.signal


def test_without_the_constraint_it_would_be_broken() -> None:
    data, hyper = process(2)
    optimiser = replace(ConfidenceRegion(), gamma=0.99999)
    point = optimiser.propose(ConfidenceMemory(hyper), data, np.random.default_rng(0)).points
    assert ConfidenceRegion().model(hyper, data).at(point).std[0] > GAMMA * hyper.signal


def test_the_maximum_is_that_of_a_fine_grid() -> None:
    data, hyper = process(2)
    optimiser = ConfidenceRegion()
    model = optimiser.model(hyper, data)
    axis = np.linspace(0, 1, 201)
    grid = np.stack([part.reshape(-1) for part in np.meshgrid(axis, axis)], axis=1)
    found = model.at(grid)
    bound = np.where(found.std <= GAMMA * model.hyper.signal, found.mean + BETA * found.std, -np.inf)
    point = optimiser.propose(ConfidenceMemory(hyper), data, np.random.default_rng(0)).points
    mine = model.at(point)
    assert mine.mean[0] + BETA * mine.std[0] > bound.max() - 0.01
    free = found.mean + BETA * found.std
    assert free.max() > bound.max() + 0.02  # The constraint matters here.


def test_every_start_stays_strictly_inside() -> None:
    data, hyper = process(3)
    model = Regression(data.points, data.values, hyper, Matern52())
    starts = data.points[inside(model, data.points, GAMMA) > 0]
    assert len(starts)
    assert inside(model, constrained_maximum(model, starts, BETA, GAMMA)[None], GAMMA)[0] > 0


def test_the_signal_is_raised_where_noise_leaves_no_region() -> None:
    data, hyper = process(2, noise=3.0)
    lonely = Measured(data.points[:1], data.values[:1], data.groups[:1])
    optimiser = ConfidenceRegion()
    model = optimiser.model(hyper, lonely)
    steps = 2.0 * np.log(model.hyper.signal / hyper.signal) / np.log(1.2)
    assert steps >= 1.0
    assert np.isclose(steps, round(steps))
    assert inside(model, lonely.points, GAMMA)[0] > 0
    # One step less would not have been enough: one point leaves σ²/σ_f² = ν/(1 + ν) with ν = σ_n²/σ_f².
    ratio = hyper.noise**2 / (model.hyper.signal**2 / 1.2)
    assert ratio / (1.0 + ratio) > (0.999 * GAMMA) ** 2
    assert optimiser.model(process(2)[1], process(2)[0]).hyper.signal == 1.0  # Otherwise it stays.


def test_the_first_points_are_the_middle_and_a_sphere_around_it() -> None:
    optimiser = ConfidenceRegion()
    points = optimiser.propose(ConfidenceMemory(), Measured.nothing(9), np.random.default_rng(0)).points
    assert np.array_equal(points[0], np.full(9, 0.5))
    assert len(points) == 1 + 3
    scale = np.sqrt(optimiser.gp.lengthscale_low * optimiser.gp.lengthscale_high)
    assert np.allclose(np.linalg.norm(points[1:] - 0.5, axis=1), scale * np.sqrt(-np.log(1 - 0.36)))
