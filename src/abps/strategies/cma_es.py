"""CMA-ES (Hansen & Ostermeier 2001) by pycma, whose state is kept as arrays, and its restarts.

pycma's object holds functions, timers and archives that no file should hold. What it computes with is a mean, a
covariance matrix with its axes, two paths and a few numbers: `CmaMemory`. A fresh object is filled with them in every
generation, with random numbers that are handed in, so that a resumed run does exactly what an uninterrupted one does
(and what one object of pycma would do: the tests compare them bit for bit). The time, 1.3 ms a generation at d = 20,
does not grow with the length of a run.

pycma's defaults hold but for four options that would need more of its inside: step sizes follow the path length at any
d (pycma: two-point adaptation from d = 300), no mirrored samples in populations below 6, no change of coordinates at
condition numbers above 1e8, and no stop after a mean that has not moved. Shapes: d parameters, m points.
"""

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.settings import require, setting
from abps.strategies.base import Strategy

__all__ = ["CmaEs", "CmaMemory"]

GROWTH, DOUBLINGS = 2, 9
"""A restart with a larger population multiplies it by this, at most so often; pycma's users restart nine times."""


@dataclass
class CmaRestarts:
    """The runs of a strategy that restarts: what decides the next one, and the best that finished."""

    start: Array
    """(d,): where every run begins."""
    first_population: int
    doublings: int = 0
    small_evaluations: int = 0
    """Evaluations of all runs with small populations, the first run among them."""
    large_evaluations: int = 0
    is_large: bool = False
    best: Array | None = None
    """(d,): the last mean of the best finished run; None: no run has finished."""
    best_level: float = -np.inf
    """Median value of that run's last generation."""


@dataclass
class CmaMemory:
    """What pycma computes with; its own names stand in brackets."""

    population: int
    first_sigma: float
    """(sigma0)"""
    generation_limit: float
    """Generations after which this run ends at the latest (maxiter)."""
    mean: Array
    """(d,)"""
    sigma: float
    covariance: Array
    """(sm.C) (d, d)"""
    axes: Array
    """(sm.B, transposed) (d, d): a row per principal axis of the last decomposition, which may be older."""
    scales: Array
    """(sm.D) (d,): standard deviations along them."""
    rank_one_path: Array
    """(pc) (d,)"""
    sigma_path: Array
    """(adapt_sigma.ps) (d,)"""
    recent_bests: Array
    """(fit.hist): lowest losses of the last generations, newest first; pycma minimises."""
    bests: Array
    """(fit.histbest): of every fifth generation, 20 000 at most."""
    medians: Array
    """(fit.histmedian)"""
    restarts: CmaRestarts
    first_median: float | None = None
    lowest_median: float = np.inf
    lowest: float = np.inf
    """Lowest loss of this run (best.f), and after how many evaluations it came (best.evals)."""
    lowest_at: int = 0
    flat_generations: int = 0
    generation: int = 0
    """(countiter)"""
    decomposed: int = 0
    """(sm.last_update): generation of the last decomposition."""
    evaluations: int = 0
    """(countevals)"""
    level: float = -np.inf
    """Median value of the newest generation."""


@dataclass(frozen=True)
class CmaEs(Strategy):
    """CMA-ES by pycma, with its default settings: adapts a whole covariance matrix."""

    population: int = setting(0, "candidates per generation; 0: 4 + 3 ln d", common=True)
    sigma: float = setting(0.5, "σ₀: first standard deviation of every parameter", common=True)
    restarts: Literal["none", "ipop", "bipop"] = setting(
        "none", "begin again when pycma would stop: with a doubled population (ipop), or now large, now small (bipop)"
    )

    def __post_init__(self) -> None:
        require(self.population == 0 or self.population >= 3, "population must be 0 or at least 3")
        require(self.sigma > 0, "sigma must be positive")

    def start(self, mean: Array, rng: np.random.Generator) -> CmaMemory:
        _pycma()  # A missing package is told even if this process had it before.
        restarts = CmaRestarts(mean, self.population)
        memory = _fresh(mean, self.sigma, self.population, np.inf, restarts)
        return replace(memory, restarts=replace(restarts, first_population=memory.population))

    def ask(self, memory: CmaMemory, rng: np.random.Generator) -> Array:
        with warnings.catch_warnings(action="ignore"):
            return np.array(_loaded(memory, rng).ask())

    def tell(self, memory: CmaMemory, points: Array, values: Array, rng: np.random.Generator) -> CmaMemory:
        with warnings.catch_warnings(action="ignore"):
            optimiser = _loaded(memory, rng)
            optimiser.tell(optimiser.ask(), [float(-value) for value in values])
            ended = bool(optimiser.stop())
        memory = replace(_saved(optimiser, memory), level=float(np.median(values)))
        return self._restarted(memory, rng) if ended and self.restarts != "none" else memory

    def current(self, memory: CmaMemory) -> Array:
        """The mean; after a restart the last mean of the best run, as long as its generation was better."""
        finished = memory.restarts
        return memory.mean if finished.best is None or memory.level >= finished.best_level else finished.best

    def _restarted(self, memory: CmaMemory, rng: np.random.Generator) -> CmaMemory:
        """The first memory of the next run. Hansen (2009) for BIPOP: the kind with fewer evaluations is next."""
        old = memory.restarts
        better = memory.level > old.best_level
        restarts = replace(
            old,
            small_evaluations=old.small_evaluations + (0 if old.is_large else memory.evaluations),
            large_evaluations=old.large_evaluations + (memory.evaluations if old.is_large else 0),
            best=memory.mean if better else old.best,
            best_level=memory.level if better else old.best_level,
        )
        sigma, limit = self.sigma, np.inf
        if self.restarts == "bipop" and restarts.small_evaluations < restarts.large_evaluations:
            restarts = replace(restarts, is_large=False)
            sigma *= 0.01 ** rng.random()
            population = int(old.first_population * (GROWTH**old.doublings) ** (rng.random() ** 2))
            limit = 0.5 * restarts.large_evaluations / population
        else:
            restarts = replace(restarts, is_large=True, doublings=min(old.doublings + 1, DOUBLINGS))
            population = old.first_population * GROWTH**restarts.doublings
        return _fresh(old.start, sigma, population, limit, restarts)


def _pycma() -> Any:
    try:
        import cma
    except ImportError as error:
        raise ConfigError("CMA-ES needs the package cma (pycma): pip install 'abps[peers]'") from error
    return cma


@lru_cache(maxsize=32)
def _pristine(dimension: int, sigma: float, population: int) -> Any:
    """pycma's object at the beginning of a run from zero; kept, because reading its options takes the longest."""
    cma = _pycma()
    options: dict[str, Any] = {
        "verbose": -10,  # Silent, and deaf to a file `cma_signals.in` in the working directory.
        "seed": np.nan,  # numpy's global random state is neither used nor touched.
        "randn": _no_numbers,
        "AdaptSigma": cma.sigma_adaptation.CMAAdaptSigmaCSA,
        "CMA_mirrors": 0,
        "conditioncov_alleviate": False,
        "tolxstagnation": False,
    }
    options |= {"popsize": population} if population else {}
    with warnings.catch_warnings(action="ignore"):
        return cma.CMAEvolutionStrategy(np.zeros(dimension), sigma, options)


def _no_numbers(*shape: int) -> Array:
    raise AssertionError("pycma has drawn numbers before it was given a generator")


def _fresh(mean: Array, sigma: float, population: int, limit: float, restarts: CmaRestarts) -> CmaMemory:
    """The memory at the beginning of a run."""
    optimiser, none = _pristine(len(mean), sigma, population), np.zeros(0)
    empty = CmaMemory(
        optimiser.popsize, sigma, limit, mean, sigma, none, none, none, none, none, none, none, none, restarts
    )
    return replace(_saved(optimiser, empty), mean=mean)


def _loaded(memory: CmaMemory, rng: np.random.Generator) -> Any:
    """pycma's object as it was when `_saved` read it."""
    optimiser = deepcopy(_pristine(len(memory.mean), memory.first_sigma, memory.population))
    optimiser.opts["maxiter"] = min(optimiser.opts["maxiter"], memory.generation_limit)
    optimiser.mean, optimiser.sigma, optimiser.pc = memory.mean.copy(), memory.sigma, memory.rank_one_path.copy()
    optimiser.countiter, optimiser.countevals = memory.generation, memory.evaluations
    optimiser.mean_old, optimiser.timer = optimiser.mean, _pycma().utilities.utils.ElapsedWCTime()
    optimiser.adapt_sigma.ps = memory.sigma_path.copy()
    model, fit = optimiser.sm, optimiser.fit
    model.C, model.B, model.D = memory.covariance.copy(), memory.axes.copy().T, memory.scales.copy()
    model.randn = lambda *shape: rng.standard_normal(shape)
    model.count_tell, model.last_update = memory.generation, memory.decomposed
    optimiser.C, optimiser.B, optimiser.D, optimiser.dC = model.C, model.B, model.D, model.variances
    fit.hist, fit.histbest, fit.histmedian = (
        list(history) for history in (memory.recent_bests, memory.bests, memory.medians)
    )
    fit.median0, fit.median_min = memory.first_median, memory.lowest_median
    fit.flatfit_iterations = memory.flat_generations
    optimiser.best.f, optimiser.best.evals = memory.lowest, memory.lowest_at
    return optimiser


def _saved(optimiser: Any, memory: CmaMemory) -> CmaMemory:
    """What pycma's object holds; the rest as in `memory`."""
    model, fit = optimiser.sm, optimiser.fit
    return replace(
        memory,
        mean=np.array(optimiser.mean),
        sigma=float(optimiser.sigma),
        covariance=np.array(model.C),
        axes=np.array(model.B.T),  # Transposed, pycma's matrix lies in a file as it lies in memory, to the last bit.
        scales=np.array(model.D),
        rank_one_path=np.array(optimiser.pc),
        sigma_path=np.array(optimiser.adapt_sigma.ps),
        recent_bests=np.array(fit.hist, dtype=np.float64),
        bests=np.array(fit.histbest, dtype=np.float64),
        medians=np.array(fit.histmedian, dtype=np.float64),
        first_median=fit.median0,
        lowest_median=float(fit.median_min),
        lowest=float(optimiser.best.f),
        lowest_at=int(optimiser.best.evals or 0),
        flat_generations=int(fit.flatfit_iterations),
        generation=int(optimiser.countiter),
        decomposed=int(model.last_update),
        evaluations=int(optimiser.countevals),
    )
