"""The Gaussian process over policy parameters: charts, priors, kernel, posterior of J and ∇J, hyper-parameters."""

from abps.model.chart import ActionMetric as ActionMetric
from abps.model.chart import Chart as Chart
from abps.model.chart import Identity as Identity
from abps.model.gp import GP as GP
from abps.model.gp import Model as Model
from abps.model.gp import PriorMean as PriorMean
from abps.model.kernel import Hyper as Hyper
from abps.model.kernel import Kernel as Kernel
from abps.model.neighbourhood import Neighbourhood as Neighbourhood
from abps.model.posterior import Features as Features
from abps.model.posterior import GradientPosterior as GradientPosterior
from abps.model.posterior import condition as condition

__all__ = ["GP", "ActionMetric", "Chart", "Features", "GradientPosterior", "Hyper", "Identity", "Kernel", "Model"]
__all__ += ["Neighbourhood", "PriorMean", "condition"]
