"""A hand-tuned controller, or recorded episodes, as the start of a search: policies that act like them.

    controller:  a = W·observation + b, cut off at the action bounds
    episodes:    minimise  mean over steps of |π(s) − a|² / half²  +  ridge · |θ|² in standardised inputs

For policies that are linear before a squashing function the least-squares problem is first solved in the latent
variable (atanh of the scaled actions for tanh), in closed form; then every class is polished on the actions themselves
by its own `pullback`. Shapes: m steps, s observation size, a action size, d parameters.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies.base import Layered
from abps.policies.policy import PolicySpace
from abps.seeding import generator
from abps.tasks.spec import TaskSpec

__all__ = ["Imitation", "from_gains", "imitate"]

RIDGE = 1e-4
"""Default weight of the parameters' squares: too small to be felt where the data say anything."""
SATURATED = 0.99
"""Scaled actions are clipped to ± this before atanh: beyond it the latent variable is not known."""
POLISH = 200
"""Iterations of the polishing, at most."""
GRID = 512
"""Observations at which a controller is imitated, for policies that cannot be solved for."""


class Imitation(NamedTuple):
    """Parameters that act like what was shown, and how closely."""

    parameters: Array
    """(d,)"""
    error: float
    """Root mean square of the difference of the actions, in halves of their ranges."""
    largest: float
    """The largest difference of an action, in halves of its range."""


def imitate(
    space: PolicySpace,
    observations: ArrayLike,
    actions: ArrayLike,
    *,
    normaliser: Normaliser | None = None,
    ridge: float = RIDGE,
) -> Imitation:
    """Parameters whose actions are nearest to recorded ones.

    Args:
        space: the policies.
        observations: (m, s), raw.
        actions: (m, a), what was done there.
        normaliser: what the policies' observations are standardised with; None: nothing.
        ridge: weight of the parameters' squares, with every input scaled to a root mean square of one.

    Raises:
        ShapeError: the arrays do not fit the task, or hold numbers that are not finite.

    Example:
        >>> import numpy as np
        >>> from abps import TaskSpec
        >>> from abps.policies.linear import LinearTanh
        >>> states = np.random.default_rng(0).normal(size=(200, 2))
        >>> space = PolicySpace(LinearTanh(), TaskSpec("arm", 2, 1, (-3.0,), (3.0,)))
        >>> found = imitate(space, states, 3.0 * np.tanh(states @ np.array([[0.5], [-1.0]])), ridge=0.0)
        >>> np.round(found.parameters, 6).tolist()
        [0.5, -1.0]
    """
    spec = space.spec
    seen, done = _checked(observations, spec.observation_dim), _checked(actions, spec.action_dim)
    if len(seen) != len(done) or len(seen) == 0:
        raise ShapeError(f"{len(seen)} observations and {len(done)} actions came; expected one action per observation")
    if not (np.isfinite(ridge) and ridge >= 0):
        raise ConfigError(f"ridge must not be negative, got {ridge}")
    normaliser = normaliser or Normaliser.empty(spec.observation_dim)
    inputs, done = normaliser.apply(seen), np.clip(done, spec.action_low, spec.action_high)
    start = _solved(space, inputs, done, ridge)
    return _polished(space, inputs, done, start, ridge)


def from_gains(
    space: PolicySpace, weights: ArrayLike, bias: ArrayLike | None = None, *, normaliser: Normaliser | None = None
) -> Imitation:
    """Parameters of the policy that is nearest to a linear controller a = W·observation + b.

    Clipped linear policies have it exactly; tanh policies have its slope and its action where the observation is zero,
    and bend off towards the bounds. Policies of another class imitate it on random observations, so large that each of
    them alone would move an action by about half its range.

    Args:
        space: the policies.
        weights: W (a, s), on raw observations, in units of the actions.
        bias: b (a,); None: zero.
        normaliser: what the policies' observations are standardised with; None: nothing.

    Raises:
        ShapeError: W or b do not fit the task.
        ConfigError: the policies have no bias, and the controller needs one.
    """
    spec, policy_class = space.spec, space.policy_class
    gains = _checked(weights, spec.observation_dim, rows=spec.action_dim)
    constant = np.zeros(spec.action_dim) if bias is None else _checked(np.atleast_2d(bias), spec.action_dim)[0]
    normaliser = normaliser or Normaliser.empty(spec.observation_dim)
    grid = _grid(spec, gains)
    wanted = np.clip(grid @ gains.T + constant, spec.action_low, spec.action_high)
    squash = _squash(space)
    if not squash:
        return imitate(space, grid, wanted, normaliser=normaliser)
    level = _latent(spec, squash, constant[None])[0]
    slopes = {"clip": np.ones(spec.action_dim), "tanh": spec.action_half * (1.0 - np.square(np.tanh(level)))}
    own = gains / slopes[squash][:, None]
    arrays = {"weights": own * normaliser.std, "bias": level + own @ normaliser.mean}
    if "bias" not in policy_class.to_arrays(spec, space.initial()) and np.any(arrays.pop("bias") != 0.0):
        raise ConfigError(
            "the controller has a constant part (its b, or action bounds that are not symmetric), which the policies "
            "of this search cannot have: take --policy.bias"
        )
    parameters = np.asarray(policy_class.from_arrays(spec, arrays), dtype=np.float64)
    return _judged(space, parameters, normaliser.apply(grid), wanted)


def _squash(space: PolicySpace) -> str:
    """The squashing function of policies that are linear before it, with `weights` and perhaps a `bias`; "": others."""
    spec, policy_class = space.spec, space.policy_class
    if not isinstance(policy_class, Layered) or not set(policy_class.to_arrays(spec, space.initial())) <= {
        "weights",
        "bias",
    }:
        return ""
    layers = policy_class.layers(spec, space.initial())
    return layers.squash if len(layers.layers) == 1 else ""


def _checked(values: ArrayLike, columns: int, rows: int | None = None) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"expected {columns} numbers in every row, got {values!r:.80}") from error
    if array.ndim != 2 or array.shape[1] != columns or (rows is not None and len(array) != rows):
        raise ShapeError(f"got an array of shape {array.shape}, expected ({'m' if rows is None else rows}, {columns})")
    if not np.all(np.isfinite(array)):
        raise ShapeError(f"a number is not finite, first in row {int(np.argwhere(~np.isfinite(array))[0][0])}")
    return array


def _latent(spec: TaskSpec, squash: str, actions: Array) -> Array:
    """What goes into the squashing function for these actions (m, a)."""
    if squash == "clip":
        return actions - spec.action_centre
    scaled = (actions - spec.action_centre) / spec.action_half
    return np.arctanh(np.clip(scaled, -SATURATED, SATURATED))


def _solved(space: PolicySpace, inputs: Array, actions: Array, ridge: float) -> Array:
    """Where the polishing starts: ridge regression of the latent variable, or the class's own start."""
    spec, policy_class = space.spec, space.policy_class
    squash = _squash(space)
    if not squash:
        return space.initial()
    bias = "bias" in policy_class.to_arrays(spec, space.initial())
    latent = _latent(spec, squash, actions)
    scale = _scale(inputs)
    scaled = inputs / scale
    design = np.column_stack([scaled, np.ones(len(scaled))]) if bias else scaled
    penalty = np.full(design.shape[1], ridge + 1e-12)
    penalty[scaled.shape[1] :] = 1e-12  # The constant is not shrunk.
    moments = design.T @ design / len(design) + np.diag(penalty)
    found: Array = np.linalg.solve(moments, design.T @ latent / len(design)).T.astype(np.float64)
    arrays = {"weights": found[:, : scaled.shape[1]] / scale}
    if bias:
        arrays["bias"] = found[:, -1]
    return np.asarray(policy_class.from_arrays(spec, arrays), dtype=np.float64)


def _polished(space: PolicySpace, inputs: Array, actions: Array, start: Array, ridge: float) -> Imitation:
    """Least squares of the actions from `start` on, by L-BFGS; never worse than `start`."""
    from scipy.optimize import minimize  # Slow to import, and few runs start from a controller.

    spec, policy_class, half = space.spec, space.policy_class, space.spec.action_half
    size = _sizes(space, inputs)

    def loss(parameters: Array) -> tuple[float, Array]:
        miss = (policy_class.actions(spec, parameters, inputs) - actions) / half
        pulled = policy_class.pullback(spec, parameters, inputs, 2.0 * miss / half / len(miss))
        shrunk = size * parameters
        value = float(np.square(miss).sum() / len(miss) + ridge * shrunk @ shrunk)
        return value, pulled + 2.0 * ridge * size * shrunk

    done = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": POLISH, "ftol": 1e-15, "gtol": 1e-10})
    better = np.all(np.isfinite(done.x)) and float(done.fun) <= loss(start)[0]
    return _judged(space, np.asarray(done.x, dtype=np.float64) if better else start, inputs, actions)


def _judged(space: PolicySpace, parameters: Array, inputs: Array, actions: Array) -> Imitation:
    miss = (space.policy_class.actions(space.spec, parameters, inputs) - actions) / space.spec.action_half
    return Imitation(parameters, float(np.sqrt(np.square(miss).mean())), float(np.abs(miss).max()))


def _scale(inputs: Array) -> Array:
    """Root mean square of every input; one for an input that is always zero."""
    size = np.sqrt(np.square(inputs).mean(axis=0))
    return np.where(size > 0.0, size, 1.0)


def _sizes(space: PolicySpace, inputs: Array) -> Array:
    """How large a parameter's input is (d,): that of its column for weights, zero for a bias, one for anything else."""
    spec, policy_class = space.spec, space.policy_class
    if not _squash(space):
        return np.ones(space.size)
    arrays = policy_class.to_arrays(spec, space.initial())
    sizes = {name: np.zeros_like(part) for name, part in arrays.items()}
    sizes["weights"] = np.ones_like(arrays["weights"]) * _scale(inputs)
    return np.asarray(policy_class.from_arrays(spec, sizes), dtype=np.float64)


def _grid(spec: TaskSpec, gains: Array) -> Array:
    """Observations (m, s), normal, so large that every one of them alone would move actions by half their range."""
    reach = np.max(np.abs(gains) / spec.action_half[:, None], axis=0)
    rng = generator(0, "imitation")
    return rng.standard_normal((GRID, spec.observation_dim)) / np.where(reach > 0.0, reach, 1.0)
