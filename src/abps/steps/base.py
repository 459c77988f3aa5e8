"""The contract of a step rule: from a fitted model to the next centre.

A rule is a pure function of the model and of what it remembers; its memory is a dataclass that the search keeps and
saves. All points are in the chart of the model's neighbourhood. Shapes: d parameters.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from abps.arrays import Array
from abps.model.gp import Model
from abps.settings import Part
from abps.state import NoMemory

__all__ = ["Move", "StepInput", "StepRule"]


class StepInput(NamedTuple):
    """What a rule may look at."""

    model: Model
    weights: Array | None = None
    """The critics' chosen weights (k,); None for a prior without critics."""
    memory: Any = None
    """What the rule returned last time, or a fresh `memory_type()`."""
    rng: np.random.Generator | None = None
    """Random numbers of this outer iteration, the same every time the rule is asked in it; None where there are none.
    """


@dataclass(frozen=True, eq=False)
class Move:
    """Where the centre goes, what to write down about it, and what to remember."""

    centre: Array
    """(d,)"""
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    memory: Any = None
    """None: as before."""
    go_to: Array | None = None
    """Parameters (d,), not in the chart, of a policy that was run before: it becomes the centre, the model is made
    there, and the rule is asked again; None: the move to `centre` is final."""
    believed: Array | None = None
    """Parameters (d,) of the policy that is believed to be the best so far; None: the new centre."""
    ahead: Array | None = None
    """Parameters (d,) of a probe to run beside the new centre; None: none."""


class StepRule(Part, ABC):
    """Chooses the move that ends an outer iteration."""

    family: ClassVar[str] = "step"

    memory_type: ClassVar[type] = NoMemory
    """What the rule remembers: a dataclass of arrays and scalars, made without arguments before the first move.

    A rule whose memory depends on its settings defines a method of this name instead, which returns the first memory.
    """

    @abstractmethod
    def __call__(self, given: StepInput) -> Move:
        """The move."""
