"""How an ensemble of critics becomes one mean function (paper Section 4.2, Eq. (weighting)).

Shapes: n points, d parameters, k critics. Every critic gives one feature: its expected advantage of a point over the
centre. Fixed weights come from the validation scores R̃²; with `Marginal` the weights are integrated out, and the
marginal likelihood decides how much the critics are believed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from abps.arrays import Array
from abps.model.gp import PriorMean
from abps.model.posterior import Features
from abps.settings import Part, require, setting

__all__ = ["Aggregation", "Best", "Marginal", "Mean", "Single", "Softmax"]


class Aggregation(Part, ABC):
    """Combines k critics."""

    family: ClassVar[str] = "aggregation"

    @abstractmethod
    def weights(self, scores: Array) -> Array:
        """Weights (k,) of the critics before the window's returns are looked at, from their scores R̃² (k,)."""

    @abstractmethod
    def prior_mean(self, value: float, features: Array, gradients: Array, weights: Array) -> PriorMean:
        """The mean function from Ĵ(θ), the critics' advantages (n, k), their gradients (d, k) and `weights` (k,)."""


class _Fixed(Aggregation):
    """Weights that are chosen before the process is fitted; abstract."""

    def prior_mean(self, value: float, features: Array, gradients: Array, weights: Array) -> PriorMean:
        return PriorMean(value + features @ weights, value, gradients @ weights)


@dataclass(frozen=True)
class Softmax(_Fixed):
    """Weights ∝ exp(R̃²) (the paper)."""

    def weights(self, scores: Array) -> Array:
        if not np.any(np.isfinite(scores)):
            return np.full(scores.size, 1.0 / scores.size)
        odds = np.exp(scores - scores.max())  # Eq. (weighting)
        return odds / odds.sum()


@dataclass(frozen=True)
class Mean(_Fixed):
    """Every critic counts alike."""

    def weights(self, scores: Array) -> Array:
        return np.full(scores.size, 1.0 / scores.size)


@dataclass(frozen=True)
class Best(_Fixed):
    """Only the critic with the highest score counts."""

    def weights(self, scores: Array) -> Array:
        if not np.any(np.isfinite(scores)):
            return np.full(scores.size, 1.0 / scores.size)
        return np.eye(scores.size)[int(np.argmax(scores))]


@dataclass(frozen=True)
class Single(_Fixed):
    """Only the first critic counts."""

    def weights(self, scores: Array) -> Array:
        return np.eye(scores.size)[0]


@dataclass(frozen=True)
class Marginal(Aggregation):
    """Weights β ~ N(total/k, σ_β²) integrated out; σ_β is fitted with the other hyper-parameters."""

    total: float = setting(1.0, "prior mean of the weights added up: 0 the critics must prove themselves, 1 an average")
    scale_low: float = setting(1e-4, "lower bound of σ_β, the prior std of the weights")
    scale_high: float = setting(3.0, "upper bound of σ_β, the prior std of the weights")

    def __post_init__(self) -> None:
        require(0 < self.scale_low <= self.scale_high, "need 0 < scale_low <= scale_high")

    def weights(self, scores: Array) -> Array:
        return np.full(scores.size, self.total / scores.size)

    def prior_mean(self, value: float, features: Array, gradients: Array, weights: Array) -> PriorMean:
        flat = np.zeros(len(gradients))
        share = self.total / gradients.shape[1]
        bounds = (self.scale_low, self.scale_high)
        return PriorMean(
            np.full(len(features), value), value, flat, Features(features, gradients, share), feature_scale=bounds
        )
