"""Every setting of every search changes what the search does (covers all settings classes of parts).

Each field of each part of each recipe is changed alone, in a short run on a small linear-quadratic task; the queries
and the metrics must differ from those of the unchanged run. A setting whose effect such a run cannot show is named with
the test that shows it.
"""

import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from abps.critics.improvement import TwinNetworks
from abps.critics.lstd_config import Lstd, Quadratic, Relu
from abps.errors import AbpsError
from abps.model.aggregation import Marginal
from abps.model.chart import ActionMetric
from abps.model.model_prior import ModelBasedPrior
from abps.policies.observations import RunningNormaliser
from abps.search.base import SearchConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import search_config
from abps.search.restarts import RestartWhenStuck
from abps.settings import Part, replace
from abps.state import save

SHOWN_ELSEWHERE = {
    "MaximiseCriterion.avoid_radius": "tests/search/test_local.py, probes keep away from failed ones",
    "RunningNormaliser.freeze_mean": "tests/policies/test_observations.py",
    "AdvantagePrior.reset_only_negative": "tests/model/test_prior.py",
    "Droq": "tests/critics/test_droq.py",
    "GP.noise_floor": "tests/model/test_gp.py",
    "EpisodicLstd.rows": "tests/critics/test_episodic.py, more steps than rows",
    "GP.refit": "tests/search/test_local.py, refits after a probe",
    "Walk.max_steps": "tests/steps/test_walk.py",
    "ScaledDirection.cap": "tests/steps/test_direction.py",
    "AdaptiveAscent.shortest": "tests/steps/test_adaptive.py, lengths stay within their bounds",
    "AdaptiveAscent.longest": "tests/steps/test_adaptive.py, lengths stay within their bounds",
    "PopulationConfig.reward_shift": "tests/search/test_population.py, what is compared",
    "CmaEs.population": "tests/strategies/test_cma_es.py",
    "CmaEs.restarts": "tests/strategies/test_cma_es.py",
    "AdaptiveAscent.doubt_many": "tests/steps/test_adaptive.py, many parameters want more certainty",
    "RestartWhenStuck.rise": "tests/search/test_restarts.py, a finer rise",
    "RestartWhenStuck.sight": "tests/search/test_restarts.py, a share of the horizon",
    "RestartWhenStuck.certainty": "tests/search/test_restarts.py, the champion stays",
    "TwinNetworks.transitions_nonlinear": "tests/critics/test_improvement.py, curved policies are led sooner",
    "AdaptiveAscent.candidates": "tests/steps/test_adaptive.py, only the newest policies are candidates",
}
STAGES = 9


def small(config: Any) -> Any:
    """A composition with few probes, so that some outer iterations fit into a test."""
    if isinstance(getattr(config, "plan", None), CentreThenProbes):
        return replace(config, plan=replace(config.plan, centre_episodes=2, probes=2, window=6, design_std=0.05))
    return config


def box(name: str, **changes: Any) -> Any:
    """A Bayesian optimiser in a box that does everything it can within a few stages."""
    config: Any = search_config(name, "x", "cpu")
    return replace(config, optimiser=replace(config.optimiser, **changes))


def compositions() -> dict[str, SearchConfig]:
    """Recipes and variants of them that together hold every kind of part."""
    mpd: Any = small(search_config("mpd", "x", "paper"))
    ddpgn: Any = small(search_config("ddpgn", "x", "cpu"))
    lstd = replace(ddpgn.prior, critics=Lstd(members=3, transitions=150))
    paper = replace(ddpgn, prior=lstd, step=small(search_config("abs", "x", "paper")).step, probing=mpd.probing)
    marginal = replace(paper, prior=replace(lstd, aggregation=Marginal()), chart=ActionMetric(), gp=mpd.gp)
    fast: Any = search_config("abs", "x", "cpu")
    return {
        "mpd": mpd,
        "gibo": small(search_config("gibo", "x", "cpu")),
        "ddpgn": replace(ddpgn, prior=lstd, observations=RunningNormaliser(remap=False)),
        "paper": paper,
        "marginal": marginal,
        "relu": replace(paper, prior=replace(lstd, critics=replace(lstd.critics, features=Relu(size=16)))),
        "quadratic": replace(paper, prior=replace(lstd, critics=replace(lstd.critics, features=Quadratic()))),
        "fast": replace(
            fast, plan=replace(fast.plan, first_paths=3, window=8, path_scale_low=0.95, path_scale_high=1.05)
        ),
        "networks": replace(
            fast,
            prior=replace(
                fast.prior,
                improvement=TwinNetworks(few_parameters=5, transitions=80, steps_first=64, steps=64, width=8, batch=8),
            ),
            plan=replace(fast.plan, first_paths=3, window=8),
            restarts=RestartWhenStuck(patience=3, rise=0.5),
        ),
        "model": replace(
            fast,
            prior=ModelBasedPrior(per_feature=5, transitions=250, trust_spread=0.3, starts=4, steps=20, cosines=20),
            plan=replace(fast.plan, first_paths=3, path_shift=0.12, quick_shift=0.0, window=8),
        ),
        **{name: search_config(name, "x", "cpu") for name in ("ars", "cma", "es", "snes", "pso")},
        "turbo": box("turbo", first_points=4, candidates=64, window=8, failures=1, successes=1, shortest=0.45),
        "crbo": box("crbo", first_points=3, window=6),
        "klbo": box("klbo", first_points=3, window=4, candidates=32, functions=16),
        "rducb": box("rducb", first_points=3, window=6, refit=2, edges=0.5, lengthscale_high=0.1),
    }


def leaves(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """(path, value, Class.field) of every setting."""
    for item in fields(part):
        value = getattr(part, item.name)
        if is_dataclass(value):
            yield from leaves(value, (*path, item.name))
        else:
            yield (
                (*path, item.name),
                (value, typing.get_type_hints(type(part))[item.name]),
                f"{type(part).__name__}.{item.name}",
            )


def others(value: Any, hint: Any) -> list[Any]:
    """Other values of a setting, the first ones first to be tried."""
    if isinstance(value, bool):
        return [not value]
    if typing.get_origin(hint) is typing.Literal:
        return [choice for choice in typing.get_args(hint) if choice != value]
    if isinstance(value, int):
        return [max(value // 2, 1) if value > 1 else value + 1, value + 1, 2]
    if isinstance(value, float):
        return [0.6 * value, 1.7 * value, 0.5, 2.0] if value else [0.5, 0.05]
    if isinstance(value, tuple):
        return [tuple(0.7 * part + 0.05 for part in value), value[:1]]
    return [5, 0.9]  # None: a number switches it on.


def changed(part: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    return replace(part, **{first: changed(getattr(part, first), tuple(rest), value) if rest else value})


def cases() -> list[Any]:
    """Every setting once, with the compositions that have it."""
    found: dict[str, list[tuple[str, tuple[str, ...], Any, Any]]] = {}
    for name, config in compositions().items():
        for path, (value, hint), label in leaves(config):
            if not any(label == shown or label.startswith(f"{shown}.") for shown in SHOWN_ELSEWHERE):
                found.setdefault(label, []).append((name, path, value, hint))
    return [pytest.param(places, id=label) for label, places in found.items()]


BASES: dict[str, Any] = {}


def signature(lab: Any, config: SearchConfig) -> list[Any]:
    """What is asked in every stage, and the metrics at the end."""
    return list(stages(lab, config))


def stages(lab: Any, config: SearchConfig) -> Iterator[Any]:
    task = lab.lqr(2, 2, noise=0.05, horizon=30)
    search = config.make(task.spec, seed=0)
    for _ in range(STAGES):
        yield [query.parameters for query in lab.stage(search, task)[0]]
    yield save(search.progress)["history"]


def differs(lab: Any, base: list[Any], config: SearchConfig) -> bool:
    """Whether something of the signature is another one; what comes after the first difference is not run."""
    return any(lab.difference(mine, other) for mine, other in zip(base, stages(lab, config), strict=True))


@pytest.mark.parametrize("places", cases())
def test_a_setting_changes_what_the_search_does(lab: Any, places: list[tuple[str, tuple[str, ...], Any, Any]]) -> None:
    for name, path, value, hint in places:
        config = compositions()[name]
        if name not in BASES:
            BASES[name] = signature(lab, config)
        for other in others(value, hint):
            try:
                if differs(lab, BASES[name], changed(config, path, other)):
                    return
            except AbpsError:
                continue  # Not valid beside the other settings: the next value.
    pytest.fail(f"{'.'.join(places[0][1])} has no effect in {', '.join(place[0] for place in places)}")


def test_what_is_shown_elsewhere_is_shown_there() -> None:
    """The files exist, and speak of the setting."""
    root = Path(__file__).parents[2]
    for label, where in SHOWN_ELSEWHERE.items():
        assert label.rpartition(".")[2] in (root / where.partition(",")[0]).read_text()


def test_every_part_of_the_package_is_looked_at() -> None:
    """But those that are shown elsewhere, parts without settings, and other choices of the same family."""
    seen = {label.partition(".")[0] for config in compositions().values() for _, _, label in leaves(config)}
    for part in ("Walk", "NormalisedGradient", "MeanGradient", "ScaledDirection", "AdaptiveAscent", "CentreThenProbes"):
        assert part in seen
    for part in (
        "PathsAroundCentre",
        "AscentPrior",
        "AdvantagePrior",
        "ConstantPrior",
        "EpisodicLstd",
        "ModelBasedPrior",
        "Lstd",
        "Split",
        "CmaEs",
        "OpenAiEs",
        "Snes",
        "ParticleSwarm",
    ):
        assert part in seen
    assert issubclass(ActionMetric, Part)
