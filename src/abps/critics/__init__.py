"""Critics: estimates of the centre's action values, and how good they are."""

from abps.critics.base import Critics as Critics
from abps.critics.base import CriticsPart as CriticsPart
from abps.critics.base import FitReport as FitReport

__all__ = ["Critics", "CriticsPart", "FitReport"]
