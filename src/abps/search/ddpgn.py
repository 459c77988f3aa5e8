"""Ablation: the critics' gradient alone, with Gaussian probes and a normalised step.

It answers what the Gaussian process adds to the critics: the same critics, scores and weights as ABS, but the probes are drawn at random and
the step follows ∇m̂ as it is, uncorrected by the returns. The process is fitted for the diagnostics only.
"""

import numpy as np
from numpy.typing import NDArray

from abps.config import DdpgnConfig
from abps.search.advantage import AdvantageSearch
from abps.search.local import Move

__all__ = ["Ddpgn"]

Array = NDArray[np.float64]


class Ddpgn(AdvantageSearch[DdpgnConfig]):
    """Random probes; one step of fixed length along ∇m̂(θ)."""

    name = "ddpgn"

    def _choose_probe(self, rng: np.random.Generator) -> Array:
        return self.centre + self.config.design_std * rng.standard_normal(self.policies.size)

    def _move(self) -> Move:
        gradient = self.mean_gradient()
        length = float(np.linalg.norm(gradient))
        if length == 0.0 or not np.isfinite(length):
            return Move(self.centre, {})
        return Move(self.centre + self.config.step * gradient / length, {})
