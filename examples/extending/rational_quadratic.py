"""A kernel: the rational quadratic, a mixture of squared exponentials of all lengthscales."""

from dataclasses import dataclass

from abps.arrays import Array
from abps.model.kernel import Kernel, Profile
from abps.settings import require, setting


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """κ(u) = (1 + u/2α)^(−α)."""

    alpha: float = setting(1.0, "α: large is nearly a squared exponential, small has heavy tails")

    def __post_init__(self) -> None:
        require(self.alpha > 0, "alpha must be positive")

    def profile(self, squared: Array) -> Profile:
        alpha = self.alpha
        base = 1.0 + squared / (2.0 * alpha)
        return Profile(
            value=base**-alpha,  # κ(u)
            weight=base ** (-alpha - 1.0),  # w(u) = −2κ'(u)
            weight_slope=-(alpha + 1.0) / (2.0 * alpha) * base ** (-alpha - 2.0),  # w'(u)
        )
