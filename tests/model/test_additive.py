"""Additive processes: against a dense inverse of the summed kernel, and finite differences of the likelihood."""

import numpy as np

from abps.model.additive import AdditiveKernel, AdditiveRegression, component_squares
from abps.model.fit import SHARED, Bounds, MarginalLikelihood, OwnLengthscales, SharedLengthscale, fit
from abps.model.kernel import Hyper, Matern52

N, D = 9, 4
RNG = np.random.default_rng(3)
POINTS, VALUES = RNG.uniform(size=(N, D)), RNG.standard_normal(N)
COMPONENTS = [(0, 2), (1,), (3,)]
HYPER = Hyper(np.full(D, 0.4), 1.2, 0.15, 0.1, scale_by_dimension=False)


def part(group: tuple[int, ...], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Prior covariance of one component (m, n), by its definition."""
    squared = np.array([[sum((x[i] - y[i]) ** 2 for i in group) for y in b] for x in a]) / 0.4**2
    return HYPER.signal**2 / len(COMPONENTS) * Matern52().profile(squared).value


def test_every_component_is_that_of_a_dense_inverse() -> None:
    gram = np.sum([part(group, POINTS, POINTS) for group in COMPONENTS], axis=0)
    inverse = np.linalg.inv(gram + HYPER.noise**2 * np.eye(N))
    model = AdditiveRegression(POINTS, VALUES, HYPER, Matern52(), COMPONENTS)
    at = RNG.uniform(size=(5, D))
    total = np.full(5, HYPER.mean)
    for number, group in enumerate(COMPONENTS):
        cross = part(group, at, POINTS)
        found = model.components_at([number], at[None, :, list(group)])
        mean = cross @ inverse @ (VALUES - HYPER.mean)
        variance = np.diag(part(group, at, at) - cross @ inverse @ cross.T)
        assert np.allclose(found.mean[0], mean, rtol=1e-9)
        assert np.allclose(found.std[0], np.sqrt(variance), rtol=1e-9)
        total += found.mean[0]
    cross = np.sum([part(group, at, POINTS) for group in COMPONENTS], axis=0)
    assert np.allclose(total, HYPER.mean + cross @ inverse @ (VALUES - HYPER.mean))
    assert np.allclose(model.at_measured(), HYPER.mean + gram @ inverse @ (VALUES - HYPER.mean))


def test_components_of_one_size_at_once_are_those_one_by_one() -> None:
    model = AdditiveRegression(POINTS, VALUES, HYPER, Matern52(), COMPONENTS)
    grids = RNG.uniform(size=(2, 6, 1))
    both = model.components_at([1, 2], grids)
    for row, number in enumerate((1, 2)):
        alone = model.components_at([number], grids[row : row + 1])
        assert np.allclose(both.mean[row], alone.mean[0])
        assert np.allclose(both.std[row], alone.std[0])


def likelihood() -> MarginalLikelihood:
    distances = SharedLengthscale(POINTS, False, component_squares(POINTS, POINTS, COMPONENTS))
    return MarginalLikelihood(distances, VALUES, scale_by_dimension=False, kernel=AdditiveKernel(Matern52()))


def test_the_likelihood_of_the_one_fit_takes_a_stack_of_distances() -> None:
    parameters = np.log([0.4, 1.2, 0.15])
    gram = np.sum([part(group, POINTS, POINTS) for group in COMPONENTS], axis=0) + 0.15**2 * np.eye(N)
    expected = -0.5 * (VALUES @ np.linalg.solve(gram, VALUES) + np.linalg.slogdet(gram)[1] + N * np.log(2 * np.pi))
    value, gradient = likelihood().value_and_gradient(parameters)
    assert np.isclose(value, expected, rtol=1e-10)
    for i in range(3):
        move = 1e-6 * np.eye(3)[i]
        slope = (likelihood().value(parameters + move) - likelihood().value(parameters - move)) / 2e-6
        assert np.isclose(gradient[i], slope, rtol=1e-5)
    together = MarginalLikelihood(OwnLengthscales(POINTS, False), VALUES, scale_by_dimension=False, kernel=Matern52())
    assert not np.isclose(
        together.value(np.log([0.4] * 4 + [1.2, 0.15])), expected
    )  # Another kernel is another number.


def test_a_fit_finds_the_lengthscale_of_an_additive_function() -> None:
    rng = np.random.default_rng(5)
    points = rng.uniform(size=(60, D))
    gram = AdditiveKernel(Matern52()).profile(component_squares(points, points, COMPONENTS) / 0.3**2).value
    values = np.linalg.cholesky(gram + 1e-4 * np.eye(60)) @ rng.standard_normal(60)
    found = fit(
        points, values, Bounds((0.05, 2.0)), rng, noise=0.01, kernel=AdditiveKernel(Matern52()),
        scale_by_dimension=False, effort=SHARED,
        lengthscales=SharedLengthscale(points, False, component_squares(points, points, COMPONENTS)),
    )  # fmt: skip
    assert 0.2 < found.hyper.lengthscales[0] < 0.45
    assert len(set(found.hyper.lengthscales)) == 1
