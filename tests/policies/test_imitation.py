"""Controllers and recorded actions as parameters: exact where a policy can be exact, least squares elsewhere."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

from abps.arrays import Array
from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies.base import PolicyClass
from abps.policies.imitation import from_gains, imitate
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("arm", 3, 2, (-1.0, -2.0), (1.0, 6.0))
SYMMETRIC = TaskSpec("arm", 3, 2, (-1.0, -4.0), (1.0, 4.0))


@dataclass(frozen=True)
class Waves(PolicyClass):
    """Not linear before a squashing: amplitude and phase of a sine per action; gradients by hand."""

    def initial(self, spec: TaskSpec) -> Array:
        return np.full(2 * spec.action_dim, 0.1)

    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        size, phase = parameters.reshape(2, -1)
        return size * np.sin(inputs[:, :1] + phase)

    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: Any) -> Array:
        size, phase = parameters.reshape(2, -1)
        angle = inputs[:, :1] + phase
        return np.concatenate([(cotangents * np.sin(angle)).sum(0), (cotangents * size * np.cos(angle)).sum(0)])

    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        return np.eye(parameters.size)[None]

    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        return {"waves": parameters}

    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        return arrays["waves"]


def states(count: int = 300, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal([0.0, 5.0, 0.0], [1.0, 2.0, 0.01], (count, 3))


def normaliser() -> Normaliser:
    return Normaliser.empty(3).add(states(seed=9))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("kind", [LinearTanh, ClippedLinear])
def test_a_policy_of_the_class_is_found_again(kind: Any, normalised: bool) -> None:
    space, seen = PolicySpace(kind(bias=True), SPEC), normaliser() if normalised else Normaliser.empty(3)
    truth = np.random.default_rng(1).normal(scale=0.1, size=space.size)
    shown = space.policy(truth, seen).actions(states())
    found = imitate(space, states(), shown, normaliser=seen, ridge=0.0)
    assert found.largest < 1e-5
    again = space.policy(found.parameters, seen).actions(states(seed=3))
    np.testing.assert_allclose(again, space.policy(truth, seen).actions(states(seed=3)), atol=1e-4)


def test_noisy_and_saturated_actions_against_another_optimiser() -> None:
    """The oracle is scipy's least_squares with numerical derivatives; the latent solution alone is far worse."""
    space, rng = PolicySpace(LinearTanh(bias=True), SPEC), np.random.default_rng(2)
    seen = states()
    shown = SPEC.action_centre + SPEC.action_half * np.sign(np.tanh(seen @ rng.normal(size=(3, 2))))
    shown[::3] *= 0.5
    ridge = 1e-3
    scale = np.append(np.sqrt(np.square(seen).mean(axis=0)), 0.0)

    def residuals(parameters: Any) -> Any:
        miss = (space.policy_class.actions(SPEC, parameters, seen) - shown) / SPEC.action_half
        return np.append(miss.ravel() / np.sqrt(len(seen)), np.sqrt(ridge) * np.tile(scale, 2) * parameters)

    found = imitate(space, seen, shown, ridge=ridge)
    best = least_squares(residuals, found.parameters, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert np.square(residuals(found.parameters)).sum() == pytest.approx(2 * best.cost, rel=1e-6)
    assert found.error == pytest.approx(np.sqrt(np.square(residuals(found.parameters)[: shown.size]).sum() / 2))
    shifted = found.parameters + 0.01
    assert np.square(residuals(shifted)).sum() > 2 * best.cost * (1 + 1e-4), "the comparison can see a difference"


def test_more_ridge_gives_smaller_weights_and_leaves_the_bias() -> None:
    space = PolicySpace(ClippedLinear(bias=True), SPEC)
    shown = np.column_stack([0.2 * states()[:, 0] + 0.3, states()[:, 1] - 4.0])
    sizes = [np.abs(imitate(space, states(), shown, ridge=ridge).parameters.reshape(2, 4)) for ridge in (0.0, 1.0, 1e4)]
    assert sizes[0][0, 0] > sizes[1][0, 0] > sizes[2][0, 0]
    assert sizes[2][:, :3].max() < 1e-2
    assert sizes[2][0, 3] == pytest.approx(abs(shown[:, 0].mean() - SPEC.action_centre[0]), rel=0.05)


def test_any_class_is_polished_by_its_pullback() -> None:
    space = PolicySpace(Waves(), SYMMETRIC)
    shown = space.policy(np.array([0.7, 2.0, 0.4, -0.3]), Normaliser.empty(3)).actions(states())
    assert imitate(space, states(), shown, ridge=0.0).largest < 1e-6


GAINS, CONSTANT = [[0.3, 0.0, -2.0], [1.0, -0.5, 0.0]], [0.1, 1.0]


@pytest.mark.parametrize("normalised", [False, True])
def test_a_clipped_policy_is_the_controller_itself(normalised: bool) -> None:
    space, seen = PolicySpace(ClippedLinear(bias=True), SPEC), normaliser() if normalised else Normaliser.empty(3)
    found = from_gains(space, GAINS, CONSTANT, normaliser=seen)
    expected = np.clip(states() @ np.array(GAINS).T + CONSTANT, SPEC.action_low, SPEC.action_high)
    np.testing.assert_allclose(space.policy(found.parameters, seen).actions(states()), expected, atol=1e-12)
    assert found.error < 1e-12


@pytest.mark.parametrize("normalised", [False, True])
def test_a_tanh_policy_has_the_controllers_slope_and_level(normalised: bool) -> None:
    space, seen = PolicySpace(LinearTanh(bias=True), SPEC), normaliser() if normalised else Normaliser.empty(3)
    policy = space.policy(from_gains(space, GAINS, CONSTANT, normaliser=seen).parameters, seen)
    np.testing.assert_allclose(policy(np.zeros(3)), CONSTANT, atol=1e-12)
    slopes = [(policy(step) - policy(-step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(np.transpose(slopes), GAINS, atol=1e-6)


def test_a_policy_of_another_class_imitates_the_controller() -> None:
    found = from_gains(PolicySpace(Waves(), SYMMETRIC), [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert 0.0 < found.error < 0.5
    assert found.largest >= found.error


def test_what_a_class_cannot_express_is_said() -> None:
    with pytest.raises(ConfigError, match=r"take --policy\.bias"):
        from_gains(PolicySpace(LinearTanh(), SYMMETRIC), GAINS, CONSTANT)
    with pytest.raises(ConfigError, match=r"take --policy\.bias"):
        from_gains(PolicySpace(LinearTanh(), SPEC), GAINS)  # Its middle is not zero.
    assert from_gains(PolicySpace(LinearTanh(), SYMMETRIC), GAINS).parameters.shape == (6,)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda space: imitate(space, np.zeros((4, 2)), np.zeros((4, 2))), r"shape \(4, 2\), expected \(m, 3\)"),
        (lambda space: imitate(space, np.zeros((4, 3)), np.zeros((5, 2))), "4 observations and 5 actions"),
        (lambda space: imitate(space, np.zeros((0, 3)), np.zeros((0, 2))), "0 observations and 0 actions"),
        (lambda space: imitate(space, np.full((4, 3), np.nan), np.zeros((4, 2))), "not finite, first in row 0"),
        (lambda space: imitate(space, "abc", np.zeros((4, 2))), "expected 3 numbers in every row"),
        (lambda space: from_gains(space, np.zeros((3, 2))), r"shape \(3, 2\), expected \(2, 3\)"),
        (lambda space: from_gains(space, GAINS, [1.0]), r"shape \(1, 1\), expected \(m, 2\)"),
    ],
)
def test_wrong_shapes_are_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence) as caught:
        call(PolicySpace(LinearTanh(bias=True), SPEC))
    assert "\n" not in str(caught.value)
