"""MPD's criterion: the expected evidence of ascent after one more measurement (paper Section 2.2).

α(z) = E_y[μ'ᵀΣ'⁻¹μ'] = c₀ + (u² + q)/w, in the notation of `lookahead`; its maximiser is the probe after which the most probable ascent
direction is expected to be most probable. For a joint batch of m candidates with w, q matrices W, Q and u a vector: c₀ + uᵀW⁻¹u + tr(W⁻¹Q).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.lookahead import Cotangents, Lookahead
from abps.gp.kernel import remainder
from abps.gp.linalg import cholesky, squared_distances
from abps.gp.posterior import GradientPosterior

__all__ = ["DescentProbability"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DescentProbability:
    """The criterion for one posterior. Candidates are rows; a candidate that rounding made unusable has the value NaN."""

    posterior: GradientPosterior
    episodes: int = 1
    """Measurements that would be averaged at a candidate."""

    def values(self, candidates: Array) -> Array:
        """α of one candidate (d,), or of every row of (m, d) as if it were measured alone, (m,)."""
        ahead = Lookahead(self.posterior, candidates, self.episodes)
        return self.posterior.evidence_of_ascent + (ahead.slope**2 + ahead.explained) * _inverse(ahead)

    def values_and_gradients(self, candidates: Array) -> tuple[Array, Array]:
        """α and ∂α/∂z: a number and (d,) for one candidate (d,), (m,) and (m, d) for (m, d)."""
        ahead = Lookahead(self.posterior, candidates, self.episodes)
        inverse = _inverse(ahead)
        gain = (ahead.slope**2 + ahead.explained) * inverse
        cotangents = ahead.independent(2.0 * ahead.slope * inverse, inverse, -gain * inverse)
        return self.posterior.evidence_of_ascent + gain, ahead.pullback(cotangents)

    def joint(self, candidates: Array) -> float:
        """α of the rows of (m, d) measured together."""
        return self._joint(candidates, gradient=False)[0]

    def joint_and_gradient(self, candidates: Array) -> tuple[float, Array]:
        """α of the rows of (m, d) measured together, and its gradient (m, d)."""
        return self._joint(candidates, gradient=True)

    def _joint(self, candidates: Array, gradient: bool) -> tuple[float, Array]:
        posterior = self.posterior
        ahead = Lookahead(posterior, candidates, self.episodes)
        joint = _Pairs(ahead)
        inverse = cholesky(joint.residual).inverse()
        slope = inverse @ ahead.slope
        value = posterior.evidence_of_ascent + float(ahead.slope @ slope + (inverse * joint.explained).sum())
        if not gradient:
            return value, np.zeros((0, 0))
        residual = -(np.outer(slope, slope) + inverse @ joint.explained @ inverse)
        return value, ahead.pullback(joint.cotangents(2.0 * slope, inverse, residual))


def _inverse(ahead: Lookahead) -> Array:
    """1/w, NaN where rounding left no positive w: such a candidate is reported, not clipped."""
    return 1.0 / np.where(ahead.healthy, ahead.residual, np.nan)


class _Pairs:
    """Joint covariances of a batch: W (m, m) given data and gradient, Q (m, m) explained by the gradient."""

    def __init__(self, ahead: Lookahead) -> None:
        self.ahead, posterior = ahead, ahead.posterior
        half = ahead.half_square
        self.curve, self.curve_slope = remainder(
            ahead.whitened @ ahead.whitened.T, half[:, None], half, lambda: squared_distances(ahead.whitened)
        )
        own = self.curve
        if posterior.has_features:
            bent = ahead.grown[:, None] * ahead.bend
            own = own + bent @ bent.T
        self.residual = (
            own - ahead.deviation @ ahead.deviation.T + np.outer(ahead.miss, ahead.miss) / posterior.pull_norm
        )
        self.residual[np.diag_indices(len(half))] += ahead.noise
        self.outer = ahead.decay[:, None] * ahead.outside  # b outside the span
        self.explained = ahead.response @ ahead.reduced.T + self.outer @ self.outer.T

    def cotangents(self, slope: Array, explained: Array, residual: Array) -> Cotangents:
        """From ∂/∂u (m,), ∂/∂Q and ∂/∂W (m, m), both symmetric."""
        ahead, posterior = self.ahead, self.ahead.posterior
        outer = slope[:, None] * posterior.mean_outside + 2.0 * explained @ self.outer
        products = 2.0 * residual * self.curve_slope
        # p_ij = t_i·t_j; the dependence of the pair's remainder on |t_i|² and |t_j|² falls at the rate ½ each.
        whitened = products @ ahead.whitened - 2.0 * (residual * self.curve).sum(1)[:, None] * ahead.whitened
        decay = np.einsum("ij,ij->i", outer, ahead.outside)
        if posterior.has_features:
            bent = 2.0 * residual @ (ahead.grown[:, None] * ahead.bend)
            decay = decay - np.einsum("ij,ij->i", bent, ahead.bend)
            inside = (ahead.grown[:, None] * bent) @ posterior.inner_curvature.T
            whitened = whitened + inside @ posterior.basis.T
        return Cotangents(
            inside=slope[:, None] * posterior.mean_inside + 2.0 * explained @ ahead.reduced,
            decay=decay,
            outside=ahead.decay[:, None] * outer,
            deviation=-2.0 * residual @ ahead.deviation,
            miss=2.0 * residual @ ahead.miss / posterior.pull_norm,
            own=np.zeros_like(ahead.decay),
            whitened=whitened,
        )
