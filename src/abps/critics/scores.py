"""How good critics are (paper Section 4.2, Eq. (R2_validation)).

Shapes: k critics, n points. The *validation* score R̃² judges m̃, which uses the states that each point itself visited;
the *test* score R̂² judges m̂, which uses the centre's. Both are the share of the returns' variance that is explained.
"""

import numpy as np
from numpy.typing import ArrayLike

from abps.arrays import Array
from abps.errors import ShapeError

__all__ = ["r2", "scores", "worst_member"]


def r2(predictions: ArrayLike, returns: ArrayLike) -> Array:
    """Coefficient of determination of predictions (n,) or (k, n) for returns (n,): a scalar array or (k,).

    Fewer than two points, or returns that are all equal, leave nothing to explain: the score is 0 for everybody.
    Predictions that are not finite score −inf.
    """
    predicted, observed = np.asarray(predictions, dtype=np.float64), np.asarray(returns, dtype=np.float64)
    if observed.ndim != 1 or predicted.shape[-1:] != observed.shape:
        raise ShapeError(f"predictions {predicted.shape} and returns {observed.shape} must share their last axis")
    usable = np.asarray(np.isfinite(predicted).all(axis=-1))
    spread = float(np.square(observed - observed.mean()).sum()) if observed.size > 1 else 0.0
    if spread <= np.finfo(np.float64).eps ** 2 * float(np.square(observed).sum()):
        return np.where(usable, 0.0, -np.inf)
    errors = np.square(np.where(usable[..., None], predicted, 0.0) - observed).sum(axis=-1)
    return np.where(usable, 1.0 - errors / spread, -np.inf)


def scores(centre_return: float, advantages: ArrayLike, returns: ArrayLike) -> Array:
    """R² of Ĵ(θ) + advantage for every critic: advantages (n, k), returns (n,) → (k,).

    R̃² with the advantages of `validation_advantages`, R̂² with those of `advantage_features`.
    """
    return r2(centre_return + np.asarray(advantages, dtype=np.float64).T, returns)


def worst_member(values: ArrayLike, *, only_negative: bool = False) -> int | None:
    """The critic with the lowest score (k,); None if it is not negative and only negative ones are wanted."""
    score = np.asarray(values, dtype=np.float64)
    worst = int(np.argmin(score))
    return None if only_negative and score[worst] >= 0 else worst
