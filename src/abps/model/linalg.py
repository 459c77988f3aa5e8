"""Small dense linear algebra with one numerics policy: this is the only place where jitter is ever added.

Everything here is float64, for matrices of at most a few hundred rows, where the overhead of a wrapper counts as much
as the arithmetic: LAPACK is called directly. Shapes: n rows of a covariance matrix, m right-hand sides.

**Jitter.** A covariance matrix A with noise on its diagonal is factored as it is. Only when the factorisation breaks
down (a pivot is negative or has no digit left) is jitter τ·I added, starting at a few rounding errors of A and growing
tenfold, and it is *reported* with the factor. Because A ≼ A + τI ≼ (1 + τ/λ)A, where λ is the smallest eigenvalue of A,
every quadratic form vᵀA⁻¹v (hence every posterior mean coefficient and variance reduction) changes by a factor within
[1/(1 + τ/λ), 1]. With noise ν on the diagonal λ ≥ ν, so the relative change is at most τ/ν; docs/gp.md derives it.
Jitter beyond `MAX_RELATIVE_JITTER` is an error, not a repair.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs

from abps.arrays import Array
from abps.errors import NumericsError

__all__ = ["MAX_RELATIVE_JITTER", "Factor", "cholesky", "squared_distances"]

MAX_RELATIVE_JITTER = 1e-6
"""Largest jitter, as a fraction of the largest diagonal entry, that is tried before giving up."""

_potrf, _potrs, _potri, _trtrs, _trtri = get_lapack_funcs(
    ("potrf", "potrs", "potri", "trtrs", "trtri"), dtype=np.float64
)

_EPS = float(np.finfo(float).eps)

_NEAR = 1e-2
"""Squared distances below this fraction of the squared norms are recomputed from differences, without cancellation."""


class Factor(NamedTuple):
    """Cholesky factor of A + jitter·I."""

    lower: Array
    """(n, n) lower triangular, zeros above the diagonal."""
    jitter: float
    """What was added to the diagonal; 0.0 whenever the matrix could be factored as it was."""

    def whiten(self, vectors: Array) -> Array:
        """L⁻¹v for (n,) or (n, m)."""
        return _trtrs(self.lower, vectors, lower=1)[0]

    def solve(self, vectors: Array) -> Array:
        """A⁻¹v for (n,) or (n, m)."""
        return _potrs(self.lower, vectors, lower=1)[0]

    def inverse(self) -> Array:
        """A⁻¹ (n, n), both triangles filled."""
        half = _potri(self.lower, lower=1)[0]  # The zeros above the diagonal of `lower` are still there.
        inverse = half + half.T
        inverse.flat[:: len(inverse) + 1] *= 0.5
        return inverse

    def inverse_lower(self) -> Array:
        """L⁻¹ (n, n), lower triangular."""
        return np.tril(_trtri(self.lower, lower=1)[0])

    def log_determinant(self) -> float:
        """log det A."""
        return 2.0 * float(np.log(np.diagonal(self.lower)).sum())


def cholesky(matrix: Array) -> Factor:
    """Factor a symmetric positive definite matrix (n, n), with the least jitter that makes it possible.

    Raises:
        NumericsError: entries are not finite, or no admissible jitter helps.
    """
    diagonal = np.diagonal(matrix)
    lower, failure = _potrf(matrix, lower=1, clean=1)
    if failure == 0 and _sound(lower, diagonal):
        return Factor(lower, 0.0)
    if not np.isfinite(matrix).all():
        raise NumericsError(
            f"the covariance matrix ({matrix.shape[0]}×{matrix.shape[0]}) has entries that are not finite; "
            "check the points, the lengthscales and σ_f, σ_n for overflow"
        )
    largest = float(diagonal.max())
    jitter = 4.0 * matrix.shape[0] * _EPS * max(largest, np.finfo(float).tiny / _EPS)
    while jitter <= MAX_RELATIVE_JITTER * largest:
        lower, failure = _potrf(matrix + jitter * np.eye(len(matrix)), lower=1, clean=1)
        if failure == 0 and _sound(lower, diagonal):
            return Factor(lower, jitter)
        jitter *= 10.0
    spectrum = np.linalg.eigvalsh(matrix)
    raise NumericsError(
        f"a covariance matrix of {len(matrix)} points cannot be factored: eigenvalues from {spectrum[0]:.3g} to "
        f"{spectrum[-1]:.3g}, "
        f"jitter tried up to {jitter / 10.0:.3g}; raise the noise σ_n or drop repeated points"
    )


def _sound(lower: Array, diagonal: Array) -> bool:
    """Whether every pivot has at least one digit left: a smaller one is rounding error, and its inverse noise."""
    return bool((np.diagonal(lower) ** 2 > len(lower) * _EPS * diagonal).all())


def squared_distances(left: Array, right: Array | None = None) -> Array:
    """Squared Euclidean distances between the rows of (m, d) and (n, d) as (m, n), accurate also for near-duplicates.

    One matrix product gives |a|² + |b|² − 2a·b; pairs for which that cancels are recomputed from their differences.
    """
    own = right is None
    right = left if right is None else right
    left_square = np.einsum("ij,ij->i", left, left)
    right_square = left_square if own else np.einsum("ij,ij->i", right, right)
    scale = left_square[:, None] + right_square
    distances = scale - 2.0 * (left @ right.T)
    rows, columns = np.nonzero(distances < _NEAR * scale)
    if len(rows):
        if own:  # Each pair once; the diagonal is exactly zero.
            keep = rows < columns
            rows, columns = rows[keep], columns[keep]
        difference = left[rows] - right[columns]
        exact = np.einsum("ij,ij->i", difference, difference)
        distances[rows, columns] = exact
        if own:
            distances[columns, rows] = exact
    if own:
        np.fill_diagonal(distances, 0.0)
    return distances
