"""How good critics are, and how they are combined (paper Section 4.2, Eqs. (R2_validation) and (weighting)).

Shapes: k critics, n points. The *validation* score R̃² judges m̃, which uses the states that each point itself visited;
the *test* score R̂² judges m̂, which uses the centre's. Both are the share of the returns' variance that is explained.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abps.errors import ConfigError, ShapeError

__all__ = ["aggregate", "r2", "scores", "worst_member"]

Array = NDArray[np.float64]


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


def aggregate(kind: str, values: ArrayLike) -> Array:
    """Weights (k,) of the critics from their validation scores (k,); they are not negative and sum to one.

    Raises:
        ConfigError: the kind is none of softmax, mean, best, single.
    """
    score = np.asarray(values, dtype=np.float64)
    count = score.size
    if kind == "mean" or (kind in ("softmax", "best") and not np.any(np.isfinite(score))):
        return np.full(count, 1.0 / count)
    if kind == "softmax":
        odds = np.exp(score - score.max())  # Eq. (weighting)
        return odds / odds.sum()
    if kind in ("best", "single"):
        return np.eye(count)[int(np.argmax(score)) if kind == "best" else 0]
    raise ConfigError(f"critics are aggregated by softmax, mean, best or single here, got {kind!r}")


def worst_member(values: ArrayLike, *, only_negative: bool = False) -> int | None:
    """The critic with the lowest score (k,); None if it is not negative and only negative ones are wanted."""
    score = np.asarray(values, dtype=np.float64)
    worst = int(np.argmin(score))
    return None if only_negative and score[worst] >= 0 else worst
