"""Every setting of the project: frozen dataclasses of Python scalars.

The string under a field's name in `setting(default, help)` is what `--help` and docs/settings.md print: meaning, unit, and the paper's symbol.
`__post_init__` only validates. A config is saved with its run as YAML and read back with `from_dict`, which refuses what it does not know.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from abps.errors import ConfigError

__all__ = [
    "AbsConfig",
    "AcquisitionConfig",
    "AdvantageConfig",
    "ArsConfig",
    "BudgetConfig",
    "CriticsConfig",
    "DdpgnConfig",
    "GiboConfig",
    "GpConfig",
    "HardwareConfig",
    "LocalSearchConfig",
    "MpdConfig",
    "RunConfig",
    "TaskConfig",
    "from_dict",
    "setting",
    "to_dict",
]

T = TypeVar("T")


def setting(default: Any, help: str, *, choices: tuple[str, ...] = ()) -> Any:
    """A documented field of a config; nested configs are given as their class."""
    metadata = {"help": help, "choices": choices}
    if isinstance(default, type) and is_dataclass(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _check_choices(config: Any) -> None:
    for item in fields(config):
        choices = item.metadata.get("choices", ())
        value = getattr(config, item.name)
        if choices and value not in choices:
            raise ConfigError(f"{item.name} must be one of {', '.join(choices)}, got {value!r}")


@dataclass(frozen=True)
class GpConfig:
    """The Gaussian process over policy parameters (paper Section 5.1, Appendix A)."""

    lengthscale_low: float = setting(0.0025, "lower bound of every lengthscale ℓ_i (the paper's U(a, b))")
    lengthscale_high: float = setting(0.05, "upper bound of every lengthscale ℓ_i (the paper's U(a, b))")
    scale_by_dimension: bool = setting(True, "multiply every lengthscale by √d, as the published experiments did")
    signal_factor: float = setting(3.0, "σ_f is searched in [σ̂_f / factor, σ̂_f · factor]")
    noise_factor: float = setting(3.0, "σ_n is searched in [σ̂_n / factor, σ̂_n · factor]")
    noise_floor: float = setting(1e-4, "σ̂_n when all repeated returns are equal")
    starts: int = setting(14, "hyper-parameter starts that are compared by their evidence")
    polished: int = setting(8, "how many of the best starts set out on an L-BFGS")
    leg: int = setting(
        8, "after every so many steps a start may give up: without hope, or following a better one to the same optimum"
    )
    hope: float = setting(4.0, "a start has none when so many more legs like its last would not bring it to the best")
    hops: int = setting(
        4,
        "rounds of new starts around the best optimum so far, at most; they end when almost all fall back to known ones",
    )
    hop_starts: int = setting(4, "new starts of one such round")
    iterations: int = setting(200, "L-BFGS iterations of one start, at most")
    refit: str = setting(
        "warm",
        "after a probe: warm, polish the last optimum only; full, all starts again (always done at a new centre)",
        choices=("warm", "full"),
    )
    feature_scale_low: float = setting(
        1e-4, "lower bound of σ_β, the prior std of critics' weights (aggregation evidence)"
    )
    feature_scale_high: float = setting(
        3.0, "upper bound of σ_β, the prior std of critics' weights (aggregation evidence)"
    )
    weigh_repeats: bool = setting(
        False, "divide the noise variance of the centre by its number of episodes N_c (the paper does not)"
    )

    @property
    def warm(self) -> "GpConfig":
        """The same settings with the last optimum as the only start."""
        return replace(self, starts=1, polished=1, hops=0)

    def __post_init__(self) -> None:
        _check_choices(self)
        _require(0 < self.lengthscale_low <= self.lengthscale_high, "need 0 < lengthscale_low <= lengthscale_high")
        _require(
            self.signal_factor >= 1 and self.noise_factor >= 1, "signal_factor and noise_factor must be at least 1"
        )
        _require(self.noise_floor > 0, "noise_floor must be positive")
        _require(1 <= self.polished <= self.starts, "need 1 <= polished <= starts")
        _require(
            min(self.iterations, self.leg, self.hop_starts) >= 1, "iterations, leg and hop_starts must be at least 1"
        )
        _require(min(self.hope, self.hops) >= 0, "hope and hops must not be negative")
        _require(
            0 < self.feature_scale_low <= self.feature_scale_high, "need 0 < feature_scale_low <= feature_scale_high"
        )


@dataclass(frozen=True)
class AcquisitionConfig:
    """Where the next probe is looked for (Appendix A)."""

    radius: float = setting(0.1, "half width of the box around the centre θ that probes stay in")
    starts: int = setting(32, "starting points drawn from N(θ, design_std²)")
    polished: int = setting(8, "how many of the best starts are polished by a bounded L-BFGS")
    iterations: int = setting(100, "L-BFGS iterations of one polished start, at most")
    avoid_radius: float = setting(0.1, "no probe closer than this to a failed one, in lengthscales; 0 switches it off")

    def __post_init__(self) -> None:
        _require(self.radius > 0, "acquisition radius must be positive")
        _require(1 <= self.polished <= self.starts, "need 1 <= polished <= starts")
        _require(self.iterations >= 1, "iterations must be at least 1")
        _require(self.avoid_radius >= 0, "avoid_radius must not be negative")


@dataclass(frozen=True)
class LocalSearchConfig:
    """What MPD, GIBO, ABS and their relatives share: a centre, probes around it, a window of points."""

    centre_episodes: int = setting(3, "N_c: episodes of every new centre")
    probes: int = setting(16, "N_acq: probes of one outer iteration")
    window: int = setting(51, "N_max: points the GP keeps")
    design_std: float = setting(
        0.025, "std of the Gaussian probes of the first outer iteration and of the acquisition's starts"
    )
    backtrack: float = setting(
        0.0,
        "give up a new centre whose mean return is so many standard deviations of the window's returns below the last "
        "one's, for the point half-way back; 0: never (the paper)",
    )
    remap: bool = setting(
        False, "keep old points' meaning when the normaliser changes, by re-mapping them into its new coordinates"
    )
    anchor: bool = setting(
        False,
        "keep the normaliser's mean as it was after the first outer iteration and learn only its scale: with `remap`, no "
        "policy of a later one changes when the normaliser does",
    )
    gp: GpConfig = setting(GpConfig, "Gaussian process")
    acquisition: AcquisitionConfig = setting(AcquisitionConfig, "acquisition")

    def __post_init__(self) -> None:
        _require(self.centre_episodes >= 1, "centre_episodes must be at least 1")
        _require(self.probes >= 1, "probes must be at least 1")
        _require(self.window >= 1, "window must be at least 1")
        _require(self.design_std > 0, "design_std must be positive")
        _require(self.backtrack >= 0, "backtrack must not be negative")
        _check_choices(self)


@dataclass(frozen=True)
class MpdConfig(LocalSearchConfig):
    """MPD: constant mean, normalised steps repeated while ascent is probable (paper Appendix A, Table 3)."""

    step: float = setting(0.01, "δ: length of one small step along Σ⁻¹μ / ‖Σ⁻¹μ‖")
    probability: float = setting(0.65, "steps are repeated while P(ascent) exceeds this")
    max_steps: int = setting(1000, "at most so many small steps in one move")
    mean_bound: float = setting(1.0, "the constant mean is fitted in [−bound, bound] (in scaled returns)")

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.step > 0, "step must be positive")
        _require(0 < self.probability < 1, "probability must be in (0, 1)")
        _require(self.max_steps >= 1, "max_steps must be at least 1")


@dataclass(frozen=True)
class GiboConfig(LocalSearchConfig):
    """GIBO: probes that shrink the trace of Σ, steps along the normalised gradient times the lengthscales."""

    step: float = setting(1.0, "length of the step in lengthscales")
    normalise_gradient: bool = setting(True, "divide μ by its L2 norm before the step")
    mean_bound: float = setting(1.0, "the constant mean is fitted in [−bound, bound] (in scaled returns)")

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.step > 0, "step must be positive")


@dataclass(frozen=True)
class CriticsConfig:
    """The ensemble of action-value functions of the centre: DroQ pairs (the paper) or closed-form LSTD."""

    kind: str = setting(
        "lstd", "droq: the paper's networks; lstd: least squares on random features", choices=("droq", "lstd")
    )
    members: int = setting(4, "n: critics in the ensemble (the paper: 5)")
    replay: int = setting(1_000_000, "capacity of the replay ring in transitions")
    width: int = setting(256, "droq: units per hidden layer")
    depth: int = setting(2, "droq: hidden layers")
    dropout: float = setting(0.01, "droq: dropout rate in the TD loss")
    dropout_target: bool = setting(True, "droq: dropout in the target networks of the TD loss too, as in DroQ")
    learning_rate: float = setting(3e-4, "droq: Adam's step size")
    batch: int = setting(256, "droq: transitions per gradient step and critic")
    polyak: float = setting(0.005, "droq: τ of the target networks")
    polyak_every: int = setting(2, "droq: gradient steps between two target updates")
    steps_first: int = setting(1000, "droq: gradient steps the very first time")
    steps_probe: int = setting(5000, "droq: gradient steps after a probe")
    steps_centre: int = setting(10_000, "droq: gradient steps after a new centre")
    target: str = setting("min", "droq: min (the paper) or mean of the pair in the TD target", choices=("min", "mean"))
    features: int = setting(512, "lstd: random ReLU features per critic")
    transitions: int = setting(20_000, "lstd: at most so many of the newest transitions are used")
    discount_cut: float = setting(
        0.05, "lstd: only the steps t of an episode with γᵗ above this are used, of more episodes therefore; 0: all"
    )
    discount_weight: float = setting(
        1.0, "lstd: the equation of step t of an episode counts γ^(t times this), as the step does in J; 0: all alike"
    )
    traces: tuple[float, ...] = setting(
        (0.8, 0.0), "lstd: λ of the eligibility traces, LSTD(λ), dealt out over the groups in turn; 0: one-step targets"
    )
    ridges: tuple[float, ...] = setting((1.0, 3.0), "lstd: ridge strengths, dealt out over the members in turn")
    groups: int = setting(
        2,
        "lstd: independent draws of random features, at most one per critic; the members of a group differ in the ridge only",
    )
    feature_kind: str = setting(
        "split",
        "lstd: split: a value of the state plus an advantage quadratic in the departure from the centre's action; relu: "
        "random features of state and action together; quadratic: all monomials up to degree two",
        choices=("split", "relu", "quadratic"),
    )
    value_ridges: tuple[float, ...] = setting(
        (0.001,), "lstd, split: ridge strengths of the state's value, dealt out over the groups in turn"
    )
    bend_ridge: float = setting(
        0.5,
        "lstd, split: ridge strength of the products of departures, by which the advantage bends; 0 leaves them out",
    )
    proximity: float = setting(
        0.3,
        "lstd, split: the equation of a step counts 1/(1 + u²/this), u² its mean squared departure in std; 0: all alike",
    )
    action_clip: float = setting(3.0, "lstd, split: departures from the centre's action are clipped at ± this many std")
    feature_bias: float = setting(1.0, "lstd: std of the random features' biases")
    layer_norm: bool = setting(False, "lstd: layer-normalise the random features")
    clip: float = setting(5.0, "standardised observations are clipped at ± this; 0: never")

    def __post_init__(self) -> None:
        _check_choices(self)
        for name in (
            "members",
            "replay",
            "width",
            "depth",
            "batch",
            "polyak_every",
            "features",
            "transitions",
            "groups",
        ):
            _require(getattr(self, name) >= 1, f"critics.{name} must be at least 1")
        _require(0 <= self.dropout < 1, "critics.dropout must be in [0, 1)")
        _require(self.learning_rate > 0 and 0 < self.polyak <= 1, "critics.learning_rate and polyak must be positive")
        _require(
            len(self.traces) >= 1 and all(0 <= trace <= 1 for trace in self.traces),
            "critics.traces must be numbers in [0, 1]",
        )
        _require(self.discount_weight >= 0, "critics.discount_weight must not be negative")
        _require(0 <= self.discount_cut < 1, "critics.discount_cut must be in [0, 1)")
        _require(self.bend_ridge >= 0 and self.proximity >= 0, "critics.bend_ridge and proximity must not be negative")
        _require(self.clip >= 0 and self.feature_bias >= 0, "critics.clip and feature_bias must not be negative")
        _require(self.action_clip > 0, "critics.action_clip must be positive")
        for name in ("ridges", "value_ridges"):
            values = getattr(self, name)
            _require(len(values) >= 1 and min(values) > 0, f"critics.{name} must be positive numbers")


AGGREGATIONS = ("softmax", "mean", "best", "single", "evidence")


@dataclass(frozen=True)
class AdvantageConfig(LocalSearchConfig):
    """What searches with critics share: the advantage mean function, scores, weights, resets (Algorithm 1)."""

    aggregation: str = setting(
        "softmax",
        "how critics become one mean function (Eq. 12; evidence: weights integrated out)",
        choices=AGGREGATIONS,
    )
    evidence_prior: float = setting(
        0.0, "evidence: prior mean of the critics' weights added up (0: trust nobody, 1: an average critic)"
    )
    reset_worst: bool = setting(True, "give the worst critic new weights at a new centre")
    reset_only_negative: bool = setting(
        False, "reset the worst critic only when its R̃² is negative (the published guard)"
    )
    score_iterations: int = setting(3, "outer iterations whose points enter R̃²")
    states: int = setting(256, "visited states kept per point for m̂ and m̃ (γᵗ-weighted systematic subsample; 0: all)")
    critics: CriticsConfig = setting(CriticsConfig, "critics")

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.score_iterations >= 1, "score_iterations must be at least 1")
        _require(self.states >= 0, "states must not be negative")


@dataclass(frozen=True)
class AbsConfig(AdvantageConfig):
    """ABS: the advantage mean function, one step δ·Σ⁻¹μ per outer iteration (Algorithms 1 and 2, Table 2)."""

    step: float = setting(0.0025, "δ: the step is δ·Σ⁻¹μ, not normalised")
    step_cap: bool = setting(True, "rescale the step when mean |step| exceeds the upper lengthscale bound")
    action_cap: float = setting(
        0.0,
        "shrink a step that changes the actions on visited states by more than this root mean square, in halves of "
        "their ranges; 0: never (the paper)",
    )
    curvature: bool = setting(
        False,
        "subtract c·(change of the actions)² from the mean function, c fitted to what it promises too much in the window, and "
        "shorten a step to where gain less loss is largest; off: the paper",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.step > 0, "step must be positive")
        _require(self.action_cap >= 0, "action_cap must not be negative")


@dataclass(frozen=True)
class DdpgnConfig(AdvantageConfig):
    """Ablation: the critics' gradient alone, Gaussian probes, a normalised step."""

    step: float = setting(0.05, "length of the step along ∇m̂ / ‖∇m̂‖")

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.step > 0, "step must be positive")


@dataclass(frozen=True)
class ArsConfig:
    """Augmented Random Search (Mania et al. 2018): V1, V1-t, V2, V2-t."""

    step: float = setting(0.02, "α: step size")
    noise: float = setting(0.02, "ν: std of the exploration directions")
    directions: int = setting(8, "N: directions per iteration, two episodes each")
    top: int = setting(4, "b: directions used in the step (top = directions: the plain variant)")
    discounted: bool = setting(False, "compare discounted returns, as the ABS paper's ARS does")

    def __post_init__(self) -> None:
        _require(self.step > 0 and self.noise > 0, "step and noise must be positive")
        _require(
            1 <= self.top <= self.directions,
            f"need 1 <= top <= directions, got top {self.top} of {self.directions} directions",
        )


@dataclass(frozen=True)
class TaskConfig:
    """What is to be controlled, and how its episodes are scored."""

    id: str = setting("", "Gymnasium id or module:factory that makes the environment")
    name: str = setting("", "short name used in paths and reports")
    gamma: float = setting(0.99, "γ: discount factor of the return the search maximises; 1 for undiscounted")
    horizon: int = setting(0, "longest episode in steps; 0: the environment's own limit, or 1000")
    reward_scale: float | None = setting(
        None, "rewards are divided by this; none: found automatically, so that |J| stays near 1"
    )
    reward_shift: float = setting(
        0.0, "subtracted from every reward before scaling (the survival bonus that ARS removes)"
    )
    normalise: bool = setting(True, "standardise observations with running statistics")
    policy: str = setting(
        "linear-tanh", "policy class: linear-tanh (the paper) or direct (linear, clipped to the bounds)"
    )


@dataclass(frozen=True)
class HardwareConfig:
    """A real system in place of an environment: the sizes and bounds that a simulator would have told us."""

    observations: int = setting(0, "numbers in one observation")
    action_low: tuple[float, ...] = setting((), "smallest value of every action")
    action_high: tuple[float, ...] = setting((), "largest value of every action")

    def __post_init__(self) -> None:
        _require(self.observations >= 1, "observations must be at least 1: how many numbers does the robot observe?")
        _require(len(self.action_low) >= 1, "action_low must list the smallest value of every action")
        _require(
            len(self.action_low) == len(self.action_high), "action_low and action_high must list equally many numbers"
        )


@dataclass(frozen=True)
class BudgetConfig:
    """When a search stops; 0 or 0.0 switches a condition off. The query under way is always finished."""

    episodes: int = setting(0, "training episodes, the initial design included")
    steps: int = setting(0, "training environment steps")
    target: float | None = setting(None, "stop when a centre's mean undiscounted return reaches this")
    plateau: int = setting(0, "stop after so many outer iterations without a better centre")

    def __post_init__(self) -> None:
        for name in ("episodes", "steps", "plateau"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative")


@dataclass(frozen=True)
class RunConfig:
    """How a run is carried out; nothing here changes what is learned."""

    workers: int = setting(1, "processes that run episodes; the results do not depend on it")
    minutes: float = setting(0.0, "stop after so much wall time; 0: no limit")
    evaluate_every: int = setting(1, "outer iterations between two evaluations; 0: never")
    evaluation_episodes: int = setting(5, "episodes of one evaluation, on their own environment and random stream")
    evaluate_probes: str = setting(
        "best", "which probes are evaluated beside the centre for the maximum so far", choices=("none", "best", "all")
    )
    timeout: float = setting(0.0, "seconds after which an episode counts as hung; 0: no limit")
    retries: int = setting(1, "times a failed episode is tried again with another seed")
    max_failures: int = setting(10, "failed episodes in a row after which the run stops")
    checkpoint_every: int = setting(1, "outer iterations between two checkpoints")
    checkpoint_stages: bool = setting(
        False, "also save a checkpoint after every stage inside an outer iteration (hardware runs do)"
    )

    def __post_init__(self) -> None:
        _check_choices(self)
        _require(self.workers >= 1, "workers must be at least 1")
        for name in ("minutes", "evaluate_every", "evaluation_episodes", "timeout", "retries"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative")
        _require(
            self.max_failures >= 1 and self.checkpoint_every >= 1,
            "max_failures and checkpoint_every must be at least 1",
        )


def to_dict(config: Any) -> dict[str, Any]:
    """Return a config as nested dictionaries of YAML scalars and lists."""

    def plain(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
        return list(value) if isinstance(value, tuple) else value

    return plain(config)


def from_dict(cls: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """Build a config from nested dictionaries; a field that is missing keeps its default.

    Raises:
        ConfigError: an unknown name, or a value of the wrong type.
    """
    known = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
            raise ConfigError(f"unknown setting {where}{name}{hint}")
        arguments[name] = _typed(hints[name], value, f"{where}{name}")
    return cls(**arguments)


def _typed(hint: Any, value: Any, where: str) -> Any:
    """Check `value` against a field's type, converting lists to tuples and integers to floats."""
    if is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a group of settings, got {value!r}")
        return from_dict(typing.cast(type, hint), value, where=f"{where}.")
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _typed(next(arm for arm in typing.get_args(hint) if arm is not types.NoneType), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, got {value!r}")
        return tuple(_typed(typing.get_args(hint)[0], part, where) for part in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is not Any and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise ConfigError(f"{where} must be of type {getattr(hint, '__name__', hint)}, got {value!r}")
    return value


def replace(config: T, **changes: Any) -> T:
    """`dataclasses.replace` under the project's roof, so that callers need one import."""
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]
