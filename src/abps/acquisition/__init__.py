"""Where to measure next: criteria of one more measurement and their maximiser."""

from abps.acquisition.descent_probability import DescentProbability as DescentProbability
from abps.acquisition.gradient_information import GradientInformation as GradientInformation
from abps.acquisition.maximise import Joint as Joint
from abps.acquisition.maximise import Maximum as Maximum
from abps.acquisition.maximise import maximise as maximise

__all__ = ["DescentProbability", "GradientInformation", "Joint", "Maximum", "maximise"]
