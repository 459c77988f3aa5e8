"""The behaviour kernel: policies are alike when they act alike (after Wilson, Fern & Tadepalli 2014).

For deterministic policies the distance is that of their actions on visited states, in halves of the actions' ranges,

    D²(x, x') = E_s |π_x(s) − π_x'(s)|² / (a·half²)  +  ridge,    k(x, x') = σ_f² κ(D²/ℓ²),

a radial kernel of the vectors of actions φ(x), and therefore positive semi-definite. The chart `action-metric` is its
first order at the centre: with Φ = ∂φ/∂θ and e(x) = φ(x) − φ(θ) − Φ(x − θ), what the chart's straight lines miss,

    along(x) = z(x) + L⁻¹Φᵀe(x),        beside(x) = what of e(x) no change of parameters makes at θ,

D² is the squared distance of the points (along, beside). The gradient at θ is about the first d coordinates only, where
along has the derivative one: cov(∇J(θ), J(x)) = w(u)·along(x)/ℓ² with u = (|along|² + |beside|²)/ℓ², in closed form.
Products of e need no tangent: eᵢ·eⱼ = Δᵢ·Δⱼ − pᵢ·δⱼ − δᵢ·pⱼ + δᵢᵀFδⱼ, with Δ = φ(x) − φ(θ), δ = x − θ and p = ΦᵀΔ, one
`pullback`. The ridge of D² is the chart's. Shapes: n points, d parameters, S states, q ≤ n coordinates beside.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.model.kernel import Embedding, Kernel, Profile, SquaredExponential
from abps.model.neighbourhood import Neighbourhood
from abps.settings import setting

__all__ = ["Behaviour"]

NEGLIGIBLE = 1e-12
"""Directions beside the parameters whose share of the largest is below this are rounding."""


@dataclass(frozen=True)
class Behaviour(Kernel):
    """Distance of policies by their actions on visited states; needs the chart `action-metric` and one lengthscale."""

    radial: Kernel = setting(SquaredExponential(), "kernel of that distance")

    def profile(self, squared: Array) -> Profile:
        return self.radial.profile(squared)

    def embed(self, near: Neighbourhood, parameters: Array) -> Embedding:
        """See `OwnDistance`."""
        visits, centre = near.recent_visits, near.centre
        if visits is None:
            raise RuntimeError("the behaviour kernel needs the visited states of points; keep them (states)")
        space, theta, normaliser = centre.space, centre.parameters, centre.normaliser
        states = np.asarray(visits.states, dtype=np.float64)
        # Per state and action: what turns a change of action into a coordinate of φ.
        unit = (
            np.sqrt(visits.weights / (visits.weights.sum() * space.spec.action_dim))[:, None] / space.spec.action_half
        )
        changes = (space.actions(parameters, states, normaliser) - centre.actions(states)) * unit  # Δ (n, S, a)
        moves = parameters - theta  # δ
        pulled = space.pullback(theta, states, normaliser, changes * unit)  # p = ΦᵀΔ
        blocks = space.metric(theta, states, normaliser, visits.weights)
        parts = moves.reshape(len(moves), len(blocks), -1)
        straight = np.einsum("nbi,bij->nbj", parts, blocks).reshape(moves.shape)  # Fδ
        bent = near.coordinates.gradients(pulled - straight)  # L⁻¹Φᵀe
        flat, across = changes.reshape(len(changes), -1), pulled @ moves.T
        products = flat @ flat.T - across - across.T + straight @ moves.T  # e·e
        return Embedding(near.coordinates.to_chart(parameters) + bent, _coordinates(products - bent @ bent.T))


def _coordinates(products: Array) -> Array:
    """Points (n, q) with these inner products (n, n)."""
    values, vectors = np.linalg.eigh(0.5 * (products + products.T))
    kept = values > NEGLIGIBLE * max(float(values[-1]), NEGLIGIBLE)
    return vectors[:, kept] * np.sqrt(values[kept])
