"""Bayesian optimisation in a box: optimisers of any function on the unit cube; `search/box.py` gives them policies."""

from abps.optimisers.base import Batch as Batch
from abps.optimisers.base import Learned as Learned
from abps.optimisers.base import Measured as Measured
from abps.optimisers.base import Optimiser as Optimiser
from abps.optimisers.base import maximise as maximise

__all__ = ["Batch", "Learned", "Measured", "Optimiser", "maximise"]
