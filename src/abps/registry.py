"""The names of all parts: family → kind → where its class lives. To add a part, write its file and add one line here.

A kind is what settings files and the command line say (`step: walk`). Classes are imported when they are first needed.
From outside the package, `register` adds a kind, and `module:Name` needs no registration at all.
"""

import difflib
import importlib
from typing import Any

from abps.errors import ConfigError

__all__ = ["KINDS", "find", "kind_of", "nearest", "register"]

KINDS: dict[str, dict[str, Any]] = {
    "search": {
        "local": "abps.search.local:LocalSearchConfig",
        "ars": "abps.search.ars:ArsConfig",
    },
    "policy": {
        "linear-tanh": "abps.policies.linear:LinearTanh",
        "clipped-linear": "abps.policies.linear:ClippedLinear",
    },
    "observations": {
        "raw": "abps.policies.observations:RawObservations",
        "running": "abps.policies.observations:RunningNormaliser",
    },
    "critics": {
        "droq": "abps.critics.droq_config:Droq",
        "lstd": "abps.critics.lstd_config:Lstd",
    },
    "features": {
        "split": "abps.critics.lstd_config:Split",
        "relu": "abps.critics.lstd_config:Relu",
        "quadratic": "abps.critics.lstd_config:Quadratic",
    },
    "chart": {
        "identity": "abps.model.chart:Identity",
        "action-metric": "abps.model.chart:ActionMetric",
    },
    "kernel": {
        "squared-exponential": "abps.model.kernel:SquaredExponential",
        "matern-52": "abps.model.kernel:Matern52",
    },
    "prior": {
        "constant": "abps.model.prior:ConstantPrior",
        "advantage": "abps.model.prior:AdvantagePrior",
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
    },
    "plan": {
        "centre-then-probes": "abps.search.plan:CentreThenProbes",
    },
}

RENAMED = {("policy", "direct"): "clipped-linear"}
"""Kinds under which older files may know a part."""


def register(part: type, kind: str) -> type:
    """Make a part known by a short name: `abps.register(Momentum, "momentum")`.

    Raises:
        ConfigError: the class belongs to no family, or the name is taken by another class.
    """
    family = getattr(part, "family", "")
    if family not in KINDS:
        raise ConfigError(f"{part.__name__} belongs to no family of parts; derive it from one of {', '.join(KINDS)}")
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
    place = KINDS[family].get(kind, kind if ":" in kind else None)
    if place is None:
        raise ConfigError(f"unknown {family} {kind!r}{nearest(kind, KINDS[family])}")
    part = import_object(place) if isinstance(place, str) else place
    if not isinstance(part, type) or getattr(part, "family", None) != family:
        raise ConfigError(f"{kind!r} is no {family}: it must be a class derived from that family's base")
    return part


def kind_of(part: type) -> str:
    """The name of a part's class: its registered kind, or `module:Name`."""
    place = f"{part.__module__}:{part.__qualname__}"
    kinds = KINDS.get(getattr(part, "family", ""), {})
    return next((kind for kind, known in kinds.items() if known is part or known == place), place)


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
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise ConfigError(f"module {module!r} has no {name!r}") from error
    except Exception as error:  # Whatever a stranger's module does when it is imported.
        raise ConfigError(f"cannot import {place!r}: {type(error).__name__}: {error}") from error
