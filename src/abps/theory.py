"""How far the advantage mean function can be from the return: the residual bound of Section 3.1 and Appendix C.

The return of a policy π_x is J(π_θ) + ⟨d^θ, A^θ(·, π_x)⟩ + residual, and only the first two terms are estimated. For
Lipschitz problems the residual is at most C · sup_s ‖π_x(s) − π_θ(s)‖. The constant printed in the paper does not
follow from its proof, and there are tasks that violate it; `docs/theorem.md` derives the one used here, and the printed
one remains available as `form="paper"`.

Symbols: L_r, L_p, L_π Lipschitz constants of reward, transition and policies, each with respect to ‖s−s'‖ + ‖a−a'‖;
κ = γ L_p (1 + L_π); d^π the improper visitation measure Σ_t γᵗ P(s_t = ·), whose mass is 1/(1−γ).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from abps.errors import ConfigError

__all__ = ["LipschitzProblem", "linear_policy_lipschitz"]

FORMS = ("proved", "paper")


@dataclass(frozen=True)
class LipschitzProblem:
    """The constants of a Lipschitz MDP with deterministic Lipschitz policies, and the bounds that follow from them.

    Raises:
        ConfigError: a constant is negative or not finite, γ is not in [0, 1), or κ = γ L_p (1 + L_π) ≥ 1.
    """

    reward: float
    """L_r: |r(s,a) − r(s',a')| ≤ L_r (‖s−s'‖ + ‖a−a'‖)"""
    transition: float
    """L_p: W(p(·|s,a), p(·|s',a')) ≤ L_p (‖s−s'‖ + ‖a−a'‖)"""
    policy: float
    """L_π: ‖π(s) − π(s')‖ ≤ L_π ‖s−s'‖ for every policy that is compared"""
    gamma: float

    def __post_init__(self) -> None:
        for name in ("reward", "transition", "policy"):
            constant = getattr(self, name)
            if not (np.isfinite(constant) and constant >= 0.0):
                raise ConfigError(f"the Lipschitz constant {name} must be finite and not negative, got {constant}")
        if not 0.0 <= self.gamma < 1.0:
            raise ConfigError(f"gamma must be in [0, 1) for a finite bound, got {self.gamma}")
        if self.contraction >= 1.0:
            raise ConfigError(
                f"the bound needs γ·L_p·(1 + L_π) < 1, got {self.contraction:.6g} "
                f"(γ = {self.gamma}, L_p = {self.transition}, L_π = {self.policy}): nearby states drift apart faster "
                "than they are discounted; use a smaller gamma or smoother policies"
            )

    @property
    def contraction(self) -> float:
        """κ = γ L_p (1 + L_π), the discounted growth of a difference of states in one step."""
        return self.gamma * self.transition * (1.0 + self.policy)

    @property
    def action_value(self) -> float:
        """L_Q = L_r / (1 − κ), the Lipschitz constant of every Q^π."""
        return self.reward / (1.0 - self.contraction)

    @property
    def advantage(self) -> float:
        """2 L_Q (1 + L_π), the Lipschitz constant of s ↦ A^θ(s, π_x(s))."""
        return 2.0 * self.action_value * (1.0 + self.policy)

    @property
    def visitation(self) -> float:
        """γ L_p / ((1−γ)(1−κ)): the visitation measures are at most this times sup‖π_x − π_θ‖ apart (Wasserstein-1)."""
        return self.gamma * self.transition / ((1.0 - self.gamma) * (1.0 - self.contraction))

    def constant(self, form: str = "proved") -> float:
        """C of the residual bound.

        Args:
            form: `proved` for 2γ L_p L_r (1+L_π) / ((1−γ)(1−κ)²), which holds; `paper` for the printed
                2γ L_π L_r (1+L_π) / (1−κ)², which does not in general.

        Raises:
            ConfigError: there is no such form.
        """
        if form == "proved":
            return self.visitation * self.advantage  # Eq. (bound1), corrected
        if form == "paper":
            lead = 2.0 * self.gamma * self.policy * self.reward * (1.0 + self.policy)
            return lead / (1.0 - self.contraction) ** 2  # Eq. (bound1), as printed
        raise ConfigError(f"form must be one of {', '.join(FORMS)}, got {form!r}")

    @property
    def coarse_constant(self) -> float:
        """2 L_Q / (1−γ): what |A| ≤ L_Q·sup‖π_x − π_θ‖ and the mass of the measures give alone; below C when κ > ½."""
        return 2.0 * self.action_value / (1.0 - self.gamma)

    def residual_bound(self, policy_distance: float, form: str = "proved") -> float:
        """Bound on |⟨d^x − d^θ, A^θ(·, π_x)⟩| from sup_s ‖π_x(s) − π_θ(s)‖."""
        if not policy_distance >= 0.0:
            raise ConfigError(f"policy_distance must not be negative, got {policy_distance}")
        return self.constant(form) * policy_distance  # Eq. (bound1)

    def linear_residual_bound(self, state_radius: float, parameter_distance: float, form: str = "proved") -> float:
        """The same for linear policies π_x(s) = x s on a bounded state set.

        Args:
            state_radius: sup_s ‖s‖.
            parameter_distance: ‖x − θ‖, spectral or, more coarsely, the Euclidean norm of the flat parameters.
            form: as in `constant`.
        """
        if not (state_radius >= 0.0 and parameter_distance >= 0.0):
            raise ConfigError(
                f"state_radius and parameter_distance must not be negative, got {state_radius} and {parameter_distance}"
            )
        return self.residual_bound(state_radius * parameter_distance, form)  # Eq. (bound2)


def linear_policy_lipschitz(*gains: ArrayLike) -> float:
    """L_π of a set of linear policies: the largest spectral norm of their (a, s) matrices."""
    if not gains:
        raise ConfigError("linear_policy_lipschitz needs at least one gain matrix")
    return max(float(np.linalg.norm(np.atleast_2d(np.asarray(gain, dtype=np.float64)), 2)) for gain in gains)
