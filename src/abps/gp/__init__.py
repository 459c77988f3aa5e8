"""The Gaussian process over policy parameters: kernel, posterior of J and ∇J, hyper-parameters."""

from abps.gp.fit import Fit as Fit
from abps.gp.fit import fit as fit
from abps.gp.fit import noise_estimate as noise_estimate
from abps.gp.kernel import Hyper as Hyper
from abps.gp.posterior import Features as Features
from abps.gp.posterior import GradientPosterior as GradientPosterior
from abps.gp.posterior import Weights as Weights
from abps.gp.posterior import condition as condition

__all__ = ["Features", "Fit", "GradientPosterior", "Hyper", "Weights", "condition", "fit", "noise_estimate"]
