"""Where to measure next: criteria of one more measurement, and how a probe is chosen."""

from abps.acquisition.base import Criterion as Criterion
from abps.acquisition.expected_ascent import ExpectedAscent as ExpectedAscent
from abps.acquisition.lookahead import Lookahead as Lookahead
from abps.acquisition.maximise import Maximum as Maximum
from abps.acquisition.maximise import maximise as maximise
from abps.acquisition.probing import GaussianProbes as GaussianProbes
from abps.acquisition.probing import MaximiseCriterion as MaximiseCriterion
from abps.acquisition.probing import Probe as Probe
from abps.acquisition.probing import Probing as Probing
from abps.acquisition.trace_reduction import TraceReduction as TraceReduction

__all__ = ["Criterion", "ExpectedAscent", "GaussianProbes", "Lookahead", "MaximiseCriterion", "Maximum", "Probe"]
__all__ += ["Probing", "TraceReduction", "maximise"]
