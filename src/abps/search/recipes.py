"""The searches as recipes: which parts each of them is made of, for a task and a preset.

`paper` follows the paper's tables. `cpu` is for ordinary computers: GIBO takes longer lengthscales, ARS is the original
one (clipped linear policies, undiscounted returns less the survival bonus), and ABS is the one that learns fastest
here.
"""

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import GaussianProbes, MaximiseCriterion
from abps.acquisition.trace_reduction import TraceReduction
from abps.critics.droq_config import Droq
from abps.critics.episodic import EpisodicLstd
from abps.critics.lstd_config import Lstd
from abps.model.aggregation import Softmax
from abps.model.ascent_prior import AscentPrior
from abps.model.chart import ActionMetric, Identity
from abps.model.gp import GP
from abps.model.prior import AdvantagePrior, ConstantPrior
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.observations import Observations, RawObservations, RunningNormaliser
from abps.search.ars import ArsConfig
from abps.search.local import LocalSearchConfig
from abps.search.paper_tables import PaperRow, paper_row
from abps.search.plan import CentreThenProbes, PathsAroundCentre
from abps.search.population import PopulationConfig
from abps.search.restarts import RestartWhenStuck
from abps.settings import replace
from abps.steps.adaptive import AdaptiveAscent
from abps.steps.direction import ScaledDirection
from abps.steps.gradient import MeanGradient, NormalisedGradient
from abps.steps.walk import Walk
from abps.strategies.cma_es import CmaEs
from abps.strategies.openai_es import OpenAiEs
from abps.strategies.particle_swarm import ParticleSwarm
from abps.strategies.snes import Snes
from abps.tasks.catalogue import PAPER_TASKS, paper_task

__all__ = ["abs_recipe", "ars", "cma", "ddpgn", "es", "gibo", "mpd", "pso", "snes"]

GIBO_LENGTHSCALES, GIBO_STEP = (0.8, 4.0), 0.7
"""The `cpu` preset's GIBO: lengthscale bounds relative to the upper one of the paper's tables, and the step in
lengthscales. GIBO's step shrinks with a coordinate's lengthscale, so that a coordinate fitted at a very low one, as
those that matter most are, would hardly move."""

STATES = 256
"""Visited states kept per point by searches with critics."""

FAST_STATES, CHART_POINTS = 256, 8
"""The fast ABS: visited states kept per point, and newest points whose states the chart is measured on."""

LONG_SIGHTED, LONG_DISCOUNTS = ("swimmer",), (0.999,)
"""Tasks whose critics must look far ahead, and their discount: with 0.99 Swimmer drifts at a tenth of its speed."""


def abs_recipe(task: str, preset: str) -> LocalSearchConfig:
    """Augmented Bayesian Search: as published (`paper`), or the one that learns on any task in tens of episodes."""
    return _paper_abs(task, preset) if preset == "paper" else fast_abs(task)


def fast_abs(task: str = "") -> LocalSearchConfig:
    """ABS with the same dimensionless numbers for every task: chart of the actions, paths, critics of few episodes."""
    critics = EpisodicLstd(gammas=LONG_DISCOUNTS) if paper_task(task) in LONG_SIGHTED else EpisodicLstd()
    return LocalSearchConfig(
        policy=LinearTanh(bias=True),
        observations=RawObservations(),
        chart=ActionMetric(),
        prior=AscentPrior(critics=critics),
        gp=GP(
            lengthscale_low=0.13,
            lengthscale_high=1.2,
            shared_lengthscale=True,
            scale_by_dimension=False,
            noise="spread",
            hyper_priors=True,
        ),
        step=AdaptiveAscent(),
        plan=PathsAroundCentre(),
        restarts=RestartWhenStuck(),
        states=FAST_STATES,
        chart_points=CHART_POINTS,
        clip_returns=True,
        discount=1.0,
    )


def _paper_abs(task: str, preset: str) -> LocalSearchConfig:
    row = paper_row(task)
    return LocalSearchConfig(
        policy=LinearTanh(),
        observations=_observations(task),
        chart=Identity(),
        prior=AdvantagePrior(critics=Droq() if preset == "paper" else Lstd(), aggregation=Softmax()),
        gp=_gp(row.abs_lengthscales, row, preset),
        probing=MaximiseCriterion(ExpectedAscent(), start_std=_std(row, preset)),
        step=ScaledDirection(row.abs_step * _widening(row, preset)),
        plan=_plan(row, preset),
        states=STATES,
    )


def ddpgn(task: str, preset: str) -> LocalSearchConfig:
    """Ablation: the same critics as ABS, but Gaussian probes and a step along ∇m̂ alone."""
    probing = GaussianProbes(_std(paper_row(task), preset))
    return replace(_paper_abs(task, preset), probing=probing, step=MeanGradient())


def mpd(task: str, preset: str) -> LocalSearchConfig:
    """Most probable descent: a constant mean, probes of largest expected ascent, a walk along Σ⁻¹μ."""
    row = paper_row(task)
    return LocalSearchConfig(
        policy=LinearTanh(),
        observations=_observations(task),
        chart=Identity(),
        prior=ConstantPrior(),
        gp=_gp(row.mpd_lengthscales, row, preset),
        probing=MaximiseCriterion(ExpectedAscent(), start_std=_std(row, preset)),
        step=Walk(),
        plan=_plan(row, preset),
    )


def gibo(task: str, preset: str) -> LocalSearchConfig:
    """Gradient information: a constant mean, probes that shrink tr Σ most, a normalised step along μ."""
    row = paper_row(task)
    bounds, step = row.mpd_lengthscales, NormalisedGradient()
    gp = _gp(bounds, row, preset)
    if preset == "cpu":
        low, high = (factor * bounds[1] for factor in GIBO_LENGTHSCALES)
        gp, step = GP(lengthscale_low=low, lengthscale_high=high), NormalisedGradient(GIBO_STEP)
    return LocalSearchConfig(
        policy=LinearTanh(),
        observations=_observations(task),
        chart=Identity(),
        prior=ConstantPrior(),
        gp=gp,
        probing=MaximiseCriterion(TraceReduction(), start_std=_std(row, preset)),
        step=step,
        plan=_plan(row, preset),
    )


def ars(task: str, preset: str) -> ArsConfig:
    """Augmented random search: the original one, or the ABS paper's variant."""
    row = paper_row(task)
    original = preset == "cpu"
    step, noise, directions, top = row.ars if original else row.paper_ars
    return ArsConfig(
        policy=ClippedLinear() if original else LinearTanh(),
        observations=_observations(task),
        reward_shift=row.ars_shift if original else 0.0,
        step=step,
        noise=noise,
        directions=directions,
        top=top,
        discounted=not original,
    )


def cma(task: str, preset: str) -> PopulationConfig:
    """CMA-ES, by pycma: adapts a whole covariance matrix."""
    return PopulationConfig(strategy=CmaEs())


def es(task: str, preset: str) -> PopulationConfig:
    """OpenAI-ES: mirrored perturbations, centred ranks, Adam."""
    return PopulationConfig(strategy=OpenAiEs())


def snes(task: str, preset: str) -> PopulationConfig:
    """Separable natural evolution strategy: adapts one spread per parameter."""
    return PopulationConfig(strategy=Snes())


def pso(task: str, preset: str) -> PopulationConfig:
    """Particle swarm."""
    return PopulationConfig(strategy=ParticleSwarm())


def _observations(task: str) -> Observations:
    short = paper_task(task)
    return RunningNormaliser() if not short or PAPER_TASKS[short].normalise else RawObservations()


def _widening(row: PaperRow, preset: str) -> float:
    return row.widening if preset == "cpu" else 1.0


def _std(row: PaperRow, preset: str) -> float:
    return row.design_std * _widening(row, preset)


def _gp(lengthscales: tuple[float, float], row: PaperRow, preset: str) -> GP:
    factor = _widening(row, preset)
    return GP(lengthscale_low=lengthscales[0] * factor, lengthscale_high=lengthscales[1] * factor)


def _plan(row: PaperRow, preset: str) -> CentreThenProbes:
    centre_episodes, probes, window = row.counts
    return CentreThenProbes(centre_episodes, probes, window, _std(row, preset))
