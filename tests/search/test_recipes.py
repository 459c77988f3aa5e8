"""The searches as recipes: the paper's tables, and which parts a name, a task and a preset select.

Covers `recipes` and `paper_tables`.
"""

import pytest

from abps.acquisition import ExpectedAscent, GaussianProbes, MaximiseCriterion, TraceReduction
from abps.critics.droq_config import Droq
from abps.critics.lstd_config import Lstd
from abps.errors import ConfigError
from abps.model.aggregation import Softmax
from abps.model.ascent_prior import AscentPrior
from abps.model.chart import Identity
from abps.model.prior import AdvantagePrior, ConstantPrior
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.observations import RawObservations, RunningNormaliser
from abps.search.ars import ArsConfig
from abps.search.box import BoxSearchConfig
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.search.population import PopulationConfig
from abps.search.registry import PRESETS, SEARCHES, search_config
from abps.settings import replace
from abps.steps.direction import ScaledDirection
from abps.steps.gradient import MeanGradient, NormalisedGradient
from abps.steps.walk import Walk
from abps.tasks.catalogue import PAPER_TASKS

TABLE = {
    # name: N_c, N_acq, N_max, design std, δ of ABS, lengthscale bounds of ABS and of MPD (the paper's Tables 2 and 3)
    "pendulum": ((2, 6, 21), 0.02, 0.005, (0.0025, 0.05), (0.0025, 0.05)),
    "swimmer": ((3, 12, 39), 0.01, 0.0025, (0.0025, 0.05), (0.0025, 0.05)),
    "hopper": ((3, 16, 51), 0.025, 0.0025, (0.0025, 0.05), (0.0025, 0.025)),
    "cheetah": ((4, 20, 63), 0.03, 0.0025, (0.00125, 0.025), (0.00125, 0.025)),
    "walker": ((4, 20, 63), 0.025, 0.0025, (0.000625, 0.0125), (0.000625, 0.0125)),
    "ant": ((5, 24, 75), 0.025, 0.0025, (0.000625, 0.0125), (0.000625, 0.0125)),
}


def local(search: str, task: str, preset: str) -> LocalSearchConfig:
    config = search_config(search, task, preset)
    assert isinstance(config, LocalSearchConfig)
    return config


def bounds(config: LocalSearchConfig) -> tuple[float, float]:
    return config.gp.lengthscale_low, config.gp.lengthscale_high


@pytest.mark.parametrize("name", TABLE)
def test_the_papers_abs(name):
    counts, std, step, lengthscales, _ = TABLE[name]
    config = local("abs", name, "paper")
    plan, probing = config.plan, config.probing
    assert isinstance(plan, CentreThenProbes)
    assert isinstance(probing, MaximiseCriterion)
    assert (plan.centre_episodes, plan.probes, plan.window) == counts
    assert plan.design_std == probing.start_std == std
    assert config.step == ScaledDirection(step)
    assert bounds(config) == lengthscales
    assert config.prior == AdvantagePrior(critics=Droq(), aggregation=Softmax())
    assert (config.policy, config.chart, config.reward_shift) == (LinearTanh(), Identity(), 0.0)
    assert probing == MaximiseCriterion(ExpectedAscent(), start_std=std)
    raw = name in ("pendulum", "swimmer")
    assert config.observations == (RawObservations() if raw else RunningNormaliser())


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", TABLE)
def test_mpd_and_gibo(name, preset):
    counts, std, _, _, lengthscales = TABLE[name]
    factor = 2.0 if preset == "cpu" and name in ("pendulum", "swimmer") else 1.0
    mpd, gibo = (local(search, name, preset) for search in ("mpd", "gibo"))
    for config, criterion in ((mpd, ExpectedAscent()), (gibo, TraceReduction())):
        plan, probing = config.plan, config.probing
        assert isinstance(plan, CentreThenProbes)
        assert isinstance(probing, MaximiseCriterion)
        assert probing.criterion == criterion
        assert (plan.centre_episodes, plan.probes, plan.window) == counts
        assert plan.design_std == probing.start_std == std * factor
        assert (config.prior, config.states) == (ConstantPrior(), None)
    assert mpd.step == Walk()
    assert bounds(mpd) == tuple(factor * bound for bound in lengthscales)
    if preset == "paper":
        assert (bounds(gibo), gibo.step) == (lengthscales, NormalisedGradient(1.0))
    else:
        assert bounds(gibo) == pytest.approx((0.8 * lengthscales[1], 4.0 * lengthscales[1]))
        assert gibo.step == NormalisedGradient(0.7)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", TABLE)
def test_the_ablation_has_the_papers_parts_but_probing_and_step(name, preset):
    config = local("ddpgn", name, preset)
    assert config.step == MeanGradient()
    assert isinstance(config.probing, GaussianProbes)
    assert isinstance(config.prior, AdvantagePrior)
    assert config.prior.critics == (Droq() if preset == "paper" else Lstd())
    if preset == "paper":
        paper = search_config("abs", name, "paper")
        for part in ("policy", "observations", "chart", "prior", "gp", "plan", "states"):
            assert getattr(config, part) == getattr(paper, part)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_has_settings_for_every_task(search, preset):
    others = {"ars": ArsConfig, **dict.fromkeys(("cma", "es", "snes", "pso"), PopulationConfig)}
    others |= dict.fromkeys(("turbo", "crbo", "klbo", "rducb"), BoxSearchConfig)
    expected = others.get(search, LocalSearchConfig)
    for task in (*PAPER_TASKS, "Pendulum-v1", ""):
        assert type(search_config(search, task, preset)) is expected
    assert search_config(search, "hopper-v5", preset) == search_config(search, "hopper", preset)


def test_the_original_ars_and_the_papers_variant():
    original, variant = search_config("ars", "walker", "cpu"), search_config("ars", "walker", "paper")
    assert isinstance(original, ArsConfig)
    assert isinstance(variant, ArsConfig)
    assert (original.step, original.noise, original.directions, original.top) == (0.03, 0.025, 40, 30)
    assert (variant.step, variant.discounted, original.discounted) == (0.02, True, False)
    assert (original.policy, original.reward_shift) == (ClippedLinear(), 1.0)
    assert (variant.policy, variant.reward_shift) == (LinearTanh(), 0.0)
    assert search_config("ars", "cheetah", "cpu").reward_shift == 0.0


def test_the_fast_abs_is_the_same_for_every_task():
    """Dimensionless numbers: nothing of the paper's tables is in them."""
    configs = {search_config("abs", task, "cpu") for task in (*PAPER_TASKS, "Pendulum-v1", "") if task != "swimmer"}
    assert len(configs) == 1
    usual, swimmer = search_config("abs", "", "cpu"), search_config("abs", "swimmer", "cpu")
    assert isinstance(usual, LocalSearchConfig)
    assert isinstance(usual.prior, AscentPrior)
    farther = replace(usual.prior.critics, gammas=(0.999,))
    assert swimmer == replace(usual, prior=replace(usual.prior, critics=farther))  # The discounts, and nothing else.
    assert configs.isdisjoint({search_config("abs", task, "paper") for task in PAPER_TASKS})


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match=r"unknown search 'bayes'; known: .*abs"):
        search_config("bayes", "hopper")
    with pytest.raises(ConfigError, match="unknown search 'gibbo'; did you mean 'gibo'"):
        search_config("gibbo", "hopper")
    with pytest.raises(ConfigError, match="unknown preset 'gpu'; did you mean 'cpu'"):
        search_config("abs", "hopper", "gpu")
