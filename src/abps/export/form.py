"""What every exporter writes down: a policy as plain numbers, and the check that an exported one acts the same.

Shapes: s observation size, a action size, m test observations, k knots, o outputs and i inputs of a layer. The form is
that of `policies.layers`: (observation − mean) / std, affine maps with a function after each, then `tanh` squashing
(low + (high − low) · (1 + tanh z) / 2, written centre + half · tanh z) or clipping (centre + z cut off at the bounds).
Along a path, weights and biases are interpolated linearly between knots. Where the rate of the actions is limited, each
is brought within reach of the one before. The normaliser is kept apart from the weights:
folding 1/std into them is the same in exact arithmetic, but loses digits for a sensor that hardly moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError, NumericsError
from abps.policies import Policy
from abps.policies.base import Layered
from abps.policies.layers import Layer, Layers, stacked
from abps.registry import kind_of
from abps.seeding import generator

__all__ = ["TOLERANCE", "PolicyArrays", "check", "literal", "moves", "safe_text", "sample_observations"]

TOLERANCE = 1e-6
"""Largest difference of an action, in units of half its range when that is larger than one."""
LONGEST_CHECK = 20_000
"""Steps of a path that are compared, at most; no episode is longer."""


@dataclass(frozen=True, eq=False)
class PolicyArrays:
    """A policy as numbers: its layers, the normaliser before them and the action bounds after them."""

    task: str
    squash: str
    """"tanh" or "clip"."""
    layers: tuple[Layer, ...]
    """Along a path, a layer that moves has an axis of knots in front: weights (k, o, i) and bias (k, o)."""
    mean: Array
    """(s,)"""
    std: Array
    """(s,)"""
    low: Array
    """(a,)"""
    high: Array
    """(a,)"""
    knots: int = 0
    """k; 0: the policy is at rest, and its actions depend on the observation alone."""
    interval: int = 1
    """Steps between two knots."""
    rate: Array | None = None
    """(a,): the largest change of every action per step; None: no limit."""
    start: Array | None = None
    """(a,): the action before the first step, where there is a rate."""

    @classmethod
    def of(cls, policy: Policy) -> "PolicyArrays":
        """Read a policy's numbers.

        Raises:
            ConfigError: its class is one that no exporter knows.
        """
        spec, policy_class, path = policy.spec, policy.space.policy_class, policy.path
        if not isinstance(policy_class, Layered):
            kind = kind_of(type(policy_class))
            raise ConfigError(f"policies of kind {kind!r} cannot be exported: their class has no method `layers`")
        knots = [policy_class.layers(spec, knot) for knot in ([policy.parameters] if path is None else path.knots)]
        stateful = (
            path is not None or spec.action_rates is not None
        )  # A limited rate is a path of one knot with memory.
        return cls(
            task=spec.name,
            squash=knots[0].squash,
            layers=_along(knots) if stateful else knots[0].layers,
            mean=policy.normaliser.mean,
            std=policy.normaliser.std,
            low=np.array(spec.action_low),
            high=np.array(spec.action_high),
            knots=len(knots) if stateful else 0,
            interval=1 if path is None else path.interval,
            rate=spec.action_rates,
            start=None if spec.action_rates is None else spec.action_start,
        )

    @property
    def why_state(self) -> str:
        """Why an action depends on more than the observation; "": it does not."""
        if not self.knots:
            return ""
        moving = self.knots > 1 or self.rate is None
        return "its weights move along a path" if moving else "the rate of its actions is limited"

    @property
    def centre(self) -> Array:
        """Middle of the action bounds, (a,)."""
        return (self.high + self.low) / 2.0

    @property
    def half(self) -> Array:
        """Half the width of the action bounds, (a,)."""
        return (self.high - self.low) / 2.0


def moves(layer: Layer) -> bool:
    """Whether a layer has an axis of knots."""
    return layer.weights.ndim == 3


def _along(knots: Sequence[Layers]) -> tuple[Layer, ...]:
    """The layers of a path; the last one has an axis of knots in any case."""
    found: list[Layer] = []
    for number, layer in enumerate(knots[0].layers):
        weights, bias = stacked([item.layers[number] for item in knots])
        found.append(layer._replace(weights=weights, bias=bias))
    if not moves(found[-1]):
        last = found[-1]
        weights, bias = (np.stack([part] * len(knots)) for part in (last.weights, last.bias))
        found[-1] = last._replace(weights=weights, bias=bias)
    return tuple(found)


def sample_observations(form: PolicyArrays, count: int = 200) -> Array:
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
    form = PolicyArrays.of(policy)
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


def _check_observations(form: PolicyArrays) -> Array:
    """Observations to compare on; for a path as many as it has steps, and some more, near and far ones mixed."""
    if not form.knots:
        return sample_observations(form)
    steps = min(form.knots * form.interval, LONGEST_CHECK)
    observations = sample_observations(form, max(200, steps))
    return generator(0, "export order", form.task).permutation(observations)


def safe_text(text: str) -> str:
    """A stranger's name as part of generated source: letters, digits and a few signs, nothing that ends a comment."""
    return "".join(char if char.isascii() and (char.isalnum() or char in " ._-") else "?" for char in text)[:80]


def literal(value: float) -> str:
    """A number as source text that reads back as the same float64."""
    return repr(float(value))
