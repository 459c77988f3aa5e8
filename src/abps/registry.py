"""The names of all parts: family → kind → where its class lives. To add a part, write its file and add one line here.

A kind is what settings files and the command line say (`step: walk`). Classes are imported when they are first needed.
From outside the package, `register` adds a kind, and `module:Name` needs no registration at all.
"""

import difflib
import importlib
from dataclasses import is_dataclass
from functools import reduce
from typing import Any

from abps.errors import ConfigError

__all__ = ["BASES", "KINDS", "check_part", "find", "is_known", "kind_of", "nearest", "register"]

BASES = {
    "search": "abps.search.base.SearchConfig",
    "policy": "abps.policies.base.PolicyClass",
    "observations": "abps.policies.observations.Observations",
    "critics": "abps.critics.base.CriticsPart",
    "features": "abps.critics.lstd_config.FeatureMap",
    "improvement": "abps.critics.improvement.Improvement",
    "chart": "abps.model.chart.Chart",
    "kernel": "abps.model.kernel.Kernel",
    "prior": "abps.model.prior.Prior",
    "aggregation": "abps.model.aggregation.Aggregation",
    "criterion": "abps.acquisition.base.Criterion",
    "probing": "abps.acquisition.probing.Probing",
    "step": "abps.steps.base.StepRule",
    "plan": "abps.search.plan.Plan",
    "restarts": "abps.search.restarts.Restarts",
    "strategy": "abps.strategies.base.Strategy",
    "optimiser": "abps.optimisers.base.Optimiser",
}
"""What a part of each family derives from."""

KINDS: dict[str, dict[str, Any]] = {
    "search": {
        "local": "abps.search.local:LocalSearchConfig",
        "ars": "abps.search.ars:ArsConfig",
        "population": "abps.search.population:PopulationConfig",
        "box": "abps.search.box:BoxSearchConfig",
    },
    "policy": {
        "linear-tanh": "abps.policies.linear:LinearTanh",
        "clipped-linear": "abps.policies.linear:ClippedLinear",
        "fourier": "abps.policies.features:Fourier",
        "radial": "abps.policies.features:Radial",
        "mlp": "abps.policies.mlp:Mlp",
    },
    "observations": {
        "raw": "abps.policies.observations:RawObservations",
        "running": "abps.policies.observations:RunningNormaliser",
    },
    "critics": {
        "droq": "abps.critics.droq_config:Droq",
        "lstd": "abps.critics.lstd_config:Lstd",
        "episodic": "abps.critics.episodic:EpisodicLstd",
    },
    "features": {
        "split": "abps.critics.lstd_config:Split",
        "relu": "abps.critics.lstd_config:Relu",
        "quadratic": "abps.critics.lstd_config:Quadratic",
    },
    "improvement": {
        "none": "abps.critics.improvement:NoImprovement",
        "networks": "abps.critics.improvement:TwinNetworks",
    },
    "chart": {
        "identity": "abps.model.chart:Identity",
        "action-metric": "abps.model.chart:ActionMetric",
    },
    "kernel": {
        "squared-exponential": "abps.model.kernel:SquaredExponential",
        "matern-52": "abps.model.kernel:Matern52",
        "behaviour": "abps.model.behaviour:Behaviour",
    },
    "prior": {
        "constant": "abps.model.prior:ConstantPrior",
        "advantage": "abps.model.prior:AdvantagePrior",
        "ascent": "abps.model.ascent_prior:AscentPrior",
        "model-based": "abps.model.model_prior:ModelBasedPrior",
    },
    "aggregation": {
        "softmax": "abps.model.aggregation:Softmax",
        "mean": "abps.model.aggregation:Mean",
        "best": "abps.model.aggregation:Best",
        "single": "abps.model.aggregation:Single",
        "marginal": "abps.model.aggregation:Marginal",
    },
    "criterion": {
        "expected-ascent": "abps.acquisition.expected_ascent:ExpectedAscent",
        "trace-reduction": "abps.acquisition.trace_reduction:TraceReduction",
    },
    "probing": {
        "maximise": "abps.acquisition.probing:MaximiseCriterion",
        "gaussian": "abps.acquisition.probing:GaussianProbes",
    },
    "step": {
        "walk": "abps.steps.walk:Walk",
        "normalised-gradient": "abps.steps.gradient:NormalisedGradient",
        "scaled-direction": "abps.steps.direction:ScaledDirection",
        "mean-gradient": "abps.steps.gradient:MeanGradient",
        "adaptive": "abps.steps.adaptive:AdaptiveAscent",
    },
    "plan": {
        "centre-then-probes": "abps.search.plan:CentreThenProbes",
        "paths": "abps.search.plan:PathsAroundCentre",
    },
    "restarts": {
        "none": "abps.search.restarts:NoRestarts",
        "when-stuck": "abps.search.restarts:RestartWhenStuck",
    },
    "strategy": {
        "cma": "abps.strategies.cma_es:CmaEs",
        "openai-es": "abps.strategies.openai_es:OpenAiEs",
        "snes": "abps.strategies.snes:Snes",
        "particle-swarm": "abps.strategies.particle_swarm:ParticleSwarm",
    },
    "optimiser": {
        "turbo": "abps.optimisers.turbo:Turbo",
        "confidence-region": "abps.optimisers.confidence:ConfidenceRegion",
        "search-distribution": "abps.optimisers.distribution:SearchDistribution",
        "random-trees": "abps.optimisers.trees:RandomTrees",
    },
}

RENAMED = {("policy", "direct"): "clipped-linear"}
"""Kinds under which older files may know a part."""


def register(part: type, kind: str) -> type:
    """Make a part known by a short name: `abps.register(Momentum, "momentum")`.

    Files name it by `module:Name` all the same, so that a process that has not registered it can still read them.

    Raises:
        ConfigError: the class is no part, or the name is taken by another class.

    Example:
        >>> from dataclasses import dataclass
        >>> import abps
        >>> from abps.steps.base import Move, StepRule
        >>> @dataclass(frozen=True)
        ... class Stay(StepRule):
        ...     def __call__(self, given):
        ...         return Move(given.model.neighbourhood.theta)
        >>> abps.register(Stay, "stay").family
        'step'
    """
    family = getattr(part, "family", "")
    if family not in KINDS:
        raise ConfigError(f"{part!r} belongs to no family of parts; derive it from one of {', '.join(BASES.values())}")
    check_part(part, family, part.__qualname__)
    known = KINDS[family].get(kind)
    if known is not None and known is not part:
        raise ConfigError(f"the {family} {kind!r} is registered already; choose another name")
    KINDS[family][kind] = part
    return part


def find(family: str, kind: Any) -> type[Any]:
    """Return the class of a kind: a registered name, or `module:Name`, which is imported.

    Raises:
        ConfigError: there is no such part, or it belongs to another family.
    """
    if not isinstance(kind, str):
        raise ConfigError(f"the kind of a {family} is a name, got {kind!r}")
    kind = RENAMED.get((family, kind), kind)
    place = _registered(family, kind) or (kind if ":" in kind else None)
    if place is None:
        raise ConfigError(f"unknown {family} {kind!r}{nearest(kind, [*KINDS[family], 'module:Name'])}")
    part = import_object(place) if isinstance(place, str) else place
    check_part(part, family, kind)
    return part


def is_known(family: str, kind: str) -> bool:
    """Whether a kind can be found without importing anything but abps itself."""
    return _registered(family, RENAMED.get((family, kind), kind)) is not None


def kind_of(part: type) -> str:
    """What files call a part's class: the package's name for it, or `module:Name`.

    A class that no file could name so (one made inside a function) keeps the name it was registered under.
    """
    place = f"{part.__module__}:{part.__qualname__}"
    kinds = KINDS.get(getattr(part, "family", ""), {})
    own = next((kind for kind, known in kinds.items() if known == place), None)
    if own is None and "<locals>" in place:
        own = next((kind for kind, known in kinds.items() if known is part), None)
    return own or place


def _registered(family: str, kind: str) -> Any:
    """What is registered under a name, or the registered class that lives at `module:Name`; None: nothing."""
    known = KINDS[family].get(kind)
    if known is not None:
        return known
    return next((part for part in KINDS[family].values() if isinstance(part, type) and kind_of(part) == kind), None)


def check_part(part: Any, family: str, kind: str) -> None:
    """Refuse what is no concrete part of a family, and say what is missing."""
    base = BASES[family]
    if not isinstance(part, type):
        raise ConfigError(
            f"{kind!r} is no {family} but a {type(part).__name__}; a {family} is a class derived from {base}"
        )
    other = getattr(part, "family", None)
    if other != family:
        what = f"a {other}" if other in KINDS else "no part"
        raise ConfigError(f"{kind!r} is {what}, not a {family}; a {family} derives from {base}")
    missing = sorted(getattr(part, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(f"the {family} {kind!r} lacks {', '.join(missing)}; {base} says what it must do")
    if not is_dataclass(part):
        raise ConfigError(f"the {family} {kind!r} must be a dataclass: write @dataclass(frozen=True) above its class")


def nearest(name: str, known: Any) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def import_object(place: str) -> Any:
    """Import `module:Name`.

    Raises:
        ConfigError: the module cannot be imported, or has no such name.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ConfigError(f"{place!r} is not of the form module:Name")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise ConfigError(f"cannot import {place!r}: {error}") from error
        raise ConfigError(
            f"cannot import {place!r}: there is no module {error.name!r} here; go to the folder it is in, "
            "or set PYTHONPATH"
        ) from error
    except Exception as error:  # Whatever a stranger's module does when it is imported.
        raise ConfigError(f"cannot import {place!r}: {type(error).__name__}: {error}") from error
    try:
        return reduce(getattr, name.split("."), loaded)
    except AttributeError as error:
        if "<locals>" in name or module == "__main__":
            raise ConfigError(
                f"{place!r} cannot be imported: define the class at the top of a module of its own"
            ) from error
        names = [known for known in vars(loaded) if not known.startswith("_")]
        raise ConfigError(f"module {module!r} has no {name!r}{nearest(name, names)}") from error
