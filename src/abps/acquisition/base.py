"""The contract of a criterion: what one more measurement somewhere would be worth.

Shapes: m candidates, d parameters. Candidates are one point (d,) or rows (m, d), each judged as if it were measured
alone. `Lookahead` computes what a measurement there would do to the posterior, and turns derivatives in these
quantities into gradients in the candidates; most criteria are a few lines around it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from abps.arrays import Array
from abps.model.posterior import GradientPosterior
from abps.settings import Part

__all__ = ["Criterion"]


class Criterion(Part, ABC):
    """A function of a posterior and of where it would be measured next; larger is better."""

    family: ClassVar[str] = "criterion"

    @abstractmethod
    def values(self, posterior: GradientPosterior, candidates: Array) -> Array:
        """(d,) → a number, (m, d) → (m,); NaN for a candidate that rounding made unusable."""

    @abstractmethod
    def values_and_gradients(self, posterior: GradientPosterior, candidates: Array) -> tuple[Array, Array]:
        """Values as above, and their gradients in the candidates: (d,) or (m, d)."""
