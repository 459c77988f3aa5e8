"""Factorisation, jitter and distances."""

import numpy as np
import pytest

from abps.errors import NumericsError
from abps.model.linalg import MAX_RELATIVE_JITTER, cholesky, squared_distances


def spd(rng, n, condition):
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (basis * np.logspace(0, -np.log10(condition), n)) @ basis.T


def test_factor_solves_without_jitter():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        matrix, v = spd(rng, n, 1e5), rng.normal(size=(n, 3))
        factor = cholesky(matrix)
        assert factor.jitter == 0.0
        inverse = np.linalg.inv(matrix)
        np.testing.assert_allclose(factor.solve(v), inverse @ v, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(factor.inverse(), inverse, rtol=1e-8, atol=1e-6)
        np.testing.assert_allclose(factor.inverse_lower() @ factor.lower, np.eye(n), atol=1e-9)
        np.testing.assert_allclose(factor.lower @ factor.whiten(v), v, atol=1e-9)
        assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-8)


def test_singular_matrix_gets_reported_jitter_and_the_bound_holds():
    rng = np.random.default_rng(1)
    half = rng.normal(size=(8, 4))
    matrix = half @ half.T - 1e-15 * np.eye(8)
    factor = cholesky(matrix)
    assert 0 < factor.jitter <= MAX_RELATIVE_JITTER * matrix.max()
    np.testing.assert_allclose(factor.lower @ factor.lower.T, matrix + factor.jitter * np.eye(8), atol=1e-13)


def test_jitter_bound_of_quadratic_forms():
    """v'(A + τI)⁻¹v lies within [1/(1 + τ/λ), 1] of v'A⁻¹v; a bound ten times tighter does not hold."""
    rng = np.random.default_rng(2)
    matrix = spd(rng, 12, 1e4)
    smallest = np.linalg.eigvalsh(matrix)[0]
    tau = 0.1 * smallest
    vectors = np.vstack([rng.normal(size=(200, 12)), np.linalg.eigh(matrix)[1].T])
    exact = np.einsum("ij,jk,ik->i", vectors, np.linalg.inv(matrix), vectors)
    changed = np.einsum("ij,jk,ik->i", vectors, np.linalg.inv(matrix + tau * np.eye(12)), vectors)
    ratio = changed / exact
    assert (ratio <= 1 + 1e-12).all()
    assert (ratio >= 1 / (1 + tau / smallest) - 1e-12).all()
    assert (ratio < 1 / (1 + 0.1 * tau / smallest)).any()


def test_hopeless_matrices_are_errors():
    with pytest.raises(NumericsError, match="eigenvalues"):
        cholesky(np.diag([1.0, -1.0]))
    with pytest.raises(NumericsError, match="not finite"):
        cholesky(np.array([[np.nan, 0.0], [0.0, 1.0]]))


def test_distances_of_near_duplicates_keep_their_digits():
    rng = np.random.default_rng(3)
    points = 1e3 + rng.normal(size=(6, 5))
    points[1] = points[0] * (1 + 1e-12)
    points[3] = points[2]
    naive = ((points[:, None] - points) ** 2).sum(-1)
    np.testing.assert_allclose(squared_distances(points), naive, rtol=1e-9)
    np.testing.assert_allclose(squared_distances(points[:4], points[3:]), naive[:4, 3:], rtol=1e-9)
    product = (points**2).sum(1)[:, None] + (points**2).sum(1) - 2 * points @ points.T
    assert abs(product[0, 1] / naive[0, 1] - 1) > 1e-3  # The plain product formula would not pass this test.
