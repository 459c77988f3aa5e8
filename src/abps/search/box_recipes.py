"""Bayesian optimisers that the paper names, as recipes: which optimiser searches the box, for a task and a preset.

Both presets are the same: none of these methods has settings in the paper's tables. Policies and observations are those
of ABS's preset `cpu` (tanh policies with a bias on raw observations), so that a comparison is one of searches.
"""

from abps.optimisers.base import Optimiser
from abps.optimisers.confidence import ConfidenceRegion
from abps.optimisers.distribution import SearchDistribution
from abps.optimisers.trees import RandomTrees
from abps.optimisers.turbo import Turbo
from abps.policies.linear import LinearTanh
from abps.search.box import BoxSearchConfig

__all__ = ["crbo", "klbo", "rducb", "turbo"]


def turbo(task: str, preset: str) -> BoxSearchConfig:
    """Trust regions that grow and shrink (Eriksson et al. 2019)."""
    return _box(Turbo())


def crbo(task: str, preset: str) -> BoxSearchConfig:
    """Upper confidence bound where the process knows enough (Fröhlich et al. 2021)."""
    return _box(ConfidenceRegion())


def klbo(task: str, preset: str) -> BoxSearchConfig:
    """A Gaussian search distribution under KL and entropy bounds (Akrour et al. 2017)."""
    return _box(SearchDistribution())


def rducb(task: str, preset: str) -> BoxSearchConfig:
    """Additive processes over random trees (Ziomek & Bou-Ammar 2023)."""
    return _box(RandomTrees())


def _box(optimiser: Optimiser) -> BoxSearchConfig:
    return BoxSearchConfig(policy=LinearTanh(bias=True), optimiser=optimiser)
