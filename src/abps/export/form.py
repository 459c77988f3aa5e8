"""What every exporter writes down: a policy as plain numbers, and the check that an exported one acts the same.

Shapes: s observation size, a action size, m test observations, k knots. Both policy classes of the project have one
form: z = weights · (observation − mean) / std + bias, then `tanh` squashing (low + (high − low) · (1 + tanh z) / 2,
written centre + half · tanh z) or clipping (centre + z cut off at the bounds). Along a path, weights and bias are
interpolated linearly between knots. Where the rate of the actions is limited, each is brought within reach of the one
before. The normaliser is kept apart from the weights: folding 1/std into them is the same
in exact arithmetic, but loses digits for a sensor that hardly moves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError, NumericsError
from abps.policies import Policy
from abps.policies.base import LinearForm, PolicyClass
from abps.registry import kind_of
from abps.seeding import generator
from abps.tasks.spec import TaskSpec

__all__ = ["TOLERANCE", "LinearPath", "LinearPolicyArrays", "check", "literal", "safe_text", "sample_observations"]

TOLERANCE = 1e-6
"""Largest difference of an action, in units of half its range when that is larger than one."""
LONGEST_CHECK = 20_000
"""Steps of a path that are compared, at most; no episode is longer."""


@dataclass(frozen=True, eq=False)
class LinearPath:
    """A path as numbers: the knots' weights and biases, and the steps between two knots."""

    weights: Array
    """(k, a, s)"""
    bias: Array
    """(k, a)"""
    interval: int


@dataclass(frozen=True, eq=False)
class LinearPolicyArrays:
    """A policy as numbers; `weights` and `bias` are those at rest, `path` says where they go during an episode."""

    task: str
    squash: str
    """"tanh" or "clip"."""
    weights: Array
    """(a, s)"""
    mean: Array
    """(s,)"""
    std: Array
    """(s,)"""
    low: Array
    """(a,)"""
    high: Array
    """(a,)"""
    bias: Array | None = None
    """(a,); None: zero."""
    path: LinearPath | None = None
    """None: the policy is at rest."""
    rate: Array | None = None
    """(a,): the largest change of every action per step; None: no limit."""
    start: Array | None = None
    """(a,): the action before the first step, where there is a rate."""

    def __post_init__(self) -> None:
        if self.bias is None:
            object.__setattr__(self, "bias", np.zeros(len(self.low)))

    @classmethod
    def of(cls, policy: Policy) -> "LinearPolicyArrays":
        """Read a policy's numbers.

        Raises:
            ConfigError: its class is one that no exporter knows.
        """
        spec, policy_class = policy.spec, policy.space.policy_class
        if not isinstance(policy_class, LinearForm):
            kind = kind_of(type(policy_class))
            raise ConfigError(f"policies of kind {kind!r} cannot be exported: they are not linear before a squashing")
        weights, bias = _linear(policy_class, spec, policy.parameters)
        path = None
        if policy.path is not None:
            knots = [_linear(policy_class, spec, knot) for knot in policy.path.knots]
            path = LinearPath(np.stack([w for w, _ in knots]), np.stack([b for _, b in knots]), policy.path.interval)
        return cls(
            task=spec.name,
            squash=policy_class.squash,
            weights=weights,
            bias=bias,
            path=path,
            mean=policy.normaliser.mean,
            std=policy.normaliser.std,
            low=np.array(spec.action_low),
            high=np.array(spec.action_high),
            rate=spec.action_rates,
            start=None if spec.action_rates is None else spec.action_start,
        )

    @property
    def has_state(self) -> bool:
        """Whether an action depends on more than the observation: on the step, or on the action before."""
        return self.path is not None or self.rate is not None

    @property
    def knots(self) -> LinearPath:
        """The path; of a policy at rest, one knot."""
        return self.path or LinearPath(self.weights[None], np.asarray(self.bias)[None], 1)

    @property
    def centre(self) -> Array:
        """Middle of the action bounds, (a,)."""
        return (self.high + self.low) / 2.0

    @property
    def half(self) -> Array:
        """Half the width of the action bounds, (a,)."""
        return (self.high - self.low) / 2.0


def _linear(policy_class: PolicyClass, spec: TaskSpec, parameters: Array) -> tuple[Array, Array]:
    """Weights (a, s) and bias (a,) of parameters."""
    arrays = policy_class.to_arrays(spec, parameters)
    return arrays["weights"], arrays.get("bias", np.zeros(spec.action_dim))


def sample_observations(form: LinearPolicyArrays, count: int = 200) -> Array:
    """Random observations around those the policy has seen, some far outside, and all zeros; (m, s)."""
    rng = generator(0, "export", form.task)
    near = form.mean + 3.0 * form.std * rng.standard_normal((count, form.mean.size))
    far = rng.normal(scale=100.0, size=(count // 4, form.mean.size))
    return np.concatenate([near, far, np.zeros((1, form.mean.size))])


def check(policy: Policy, act: Callable[[Array], Array], what: str) -> float:
    """Compare an exported policy with the original on random observations; return the largest difference.

    A policy that moves along a path, or whose rate is limited, is compared step by step over one episode, until after
    its last knot.

    Args:
        policy: the original.
        act: the exported one, (m, s) → (m, a), in the order of an episode.
        what: how to speak of it in the error.

    Raises:
        NumericsError: an action differs by more than `TOLERANCE`.
    """
    form = LinearPolicyArrays.of(policy)
    observations = _check_observations(form)
    original = policy.start()
    expected = np.stack([original(observation) for observation in observations])
    actions = np.asarray(act(observations), dtype=np.float64)
    if actions.shape != expected.shape:
        raise NumericsError(f"{what} returned actions of shape {actions.shape}, expected {expected.shape}")
    error = float(np.max(np.abs(actions - expected) / np.maximum(1.0, form.half)))
    if not error <= TOLERANCE:
        raise NumericsError(
            f"{what} differs from the policy by {error:.3g}; at most {TOLERANCE:g} is allowed. Do not use it"
        )
    return error


def _check_observations(form: LinearPolicyArrays) -> Array:
    """Observations to compare on; for a path as many as it has steps, and some more, near and far ones mixed."""
    if not form.has_state:
        return sample_observations(form)
    steps = min(len(form.knots.weights) * form.knots.interval, LONGEST_CHECK)
    observations = sample_observations(form, max(200, steps))
    return generator(0, "export order", form.task).permutation(observations)


def safe_text(text: str) -> str:
    """A stranger's name as part of generated source: letters, digits and a few signs, nothing that ends a comment."""
    return "".join(char if char.isascii() and (char.isalnum() or char in " ._-") else "?" for char in text)[:80]


def literal(value: float) -> str:
    """A number as source text that reads back as the same float64."""
    return repr(float(value))
