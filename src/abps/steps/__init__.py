"""Step rules: where the centre goes once the outer iteration has been modelled."""

from abps.steps.base import Move as Move
from abps.steps.base import StepInput as StepInput
from abps.steps.base import StepRule as StepRule

__all__ = ["Move", "StepInput", "StepRule"]
