"""Policies on random features: formulas by hand, derivatives, files that carry their features, lengths beforehand.

Covers `features` and `linear_output`; the derivatives are compared in `test_classes`.
"""

import math

import numpy as np
import pytest

from abps.errors import ConfigError, ShapeError
from abps.policies.features import Fourier, Radial
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))
CENTRE, HALF = np.array([-1.0, 2.5]), np.array([2.0, 2.5])
CLASSES = [
    Fourier(features=7),
    Fourier(features=4, linear=False, bias=False),
    Radial(features=6),
    Radial(features=5, linear=False, bias=True, seed=3),
]
every = pytest.mark.parametrize("policy_class", CLASSES, ids=repr)


def by_hand(policy_class, parameters, state):
    """One action, feature by feature."""
    arrays, features = policy_class.to_arrays(SPEC, parameters), []
    for k in range(policy_class.features):
        if isinstance(policy_class, Fourier):
            value = math.sin(sum(arrays["frequencies"][k, j] * state[j] for j in range(3)) + arrays["phases"][k])
        else:
            distance = sum((state[j] - arrays["centres"][k, j]) ** 2 for j in range(3))
            value = math.exp(-distance / (2.0 * 3.0 * arrays["widths"][k] ** 2))
        features.append(math.sqrt(2.0 / policy_class.features) * value)
    features += list(state) if policy_class.linear else []
    features += [1.0] if policy_class.bias else []
    latent = [sum(w * f for w, f in zip(row, features, strict=True)) for row in arrays["output"]]
    return CENTRE + HALF * np.tanh(latent)


@every
def test_actions_are_those_of_the_formula(policy_class):
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=policy_class.initial(SPEC).size)
    inputs = rng.normal(scale=2.0, size=(9, 3))
    expected = [by_hand(policy_class, parameters, state) for state in inputs]
    np.testing.assert_allclose(policy_class.actions(SPEC, parameters, inputs), expected, rtol=1e-10)
    other = type(policy_class)(**{**vars(policy_class), "seed": policy_class.seed + 1})
    assert np.abs(other.actions(SPEC, parameters, inputs) - expected).max() > 0.1


@every
def test_actions_stay_finite_far_away(policy_class):
    parameters = np.random.default_rng(1).normal(size=policy_class.initial(SPEC).size)
    far = np.array([[1e9, -1e9, 0.0], [1e100, 1.0, 1.0]])
    assert np.isfinite(policy_class.actions(SPEC, parameters, far)).all()


def test_lengthscales_are_spread_between_the_bounds_and_mean_the_same_for_many_sensors():
    widths = Radial(features=2000, shortest=0.5, longest=8.0)._drawn(SPEC)["widths"]
    assert widths.min() >= 0.5
    assert widths.max() <= 8.0
    assert np.mean(widths < 2.0) == pytest.approx(0.5, abs=0.05)  # Half of them below the geometric mean.
    for size in (2, 200):
        spec = TaskSpec("wide", size, 1, (-1.0,), (1.0,))
        waves = Fourier(features=2000, shortest=1.0, longest=1.0)._drawn(spec)["frequencies"]
        angles = waves @ np.random.default_rng(0).normal(size=(size, 50))
        assert angles.std() == pytest.approx(1.0, abs=0.2)


@every
def test_a_file_with_other_features_is_refused(policy_class):
    parameters = np.random.default_rng(2).normal(size=policy_class.initial(SPEC).size)
    arrays = policy_class.to_arrays(SPEC, parameters)
    np.testing.assert_array_equal(policy_class.from_arrays(SPEC, arrays), parameters)
    drawn = next(name for name in arrays if name != "output")
    changed = arrays[drawn].copy()
    changed[0] += 1e-3
    with pytest.raises(ConfigError, match=f"{drawn} are not those that the policy's seed gives"):
        policy_class.from_arrays(SPEC, {**arrays, drawn: changed})
    with pytest.raises(ShapeError, match=r"output has shape \(2, 2\)"):
        policy_class.from_arrays(SPEC, {**arrays, "output": np.zeros((2, 2))})
    with pytest.raises(ShapeError, match=f"'{drawn}' is missing"):
        policy_class.from_arrays(SPEC, {"output": arrays["output"]})
    with pytest.raises(ShapeError, match=f"this policy has {parameters.size} "):
        policy_class.actions(SPEC, parameters[:-1], np.zeros((1, 3)))


@every
def test_beforehand_random_features_count_as_independent(policy_class):
    rng, count = np.random.default_rng(3), policy_class.features
    inputs, weights = rng.normal(size=(40, 3)), np.full(40, 1 / 40)
    prior = policy_class.prior_metric(SPEC, inputs, weights)
    plain = policy_class.metric(SPEC, policy_class.initial(SPEC), inputs, weights)
    np.testing.assert_allclose(np.einsum("bii->bi", prior), np.einsum("bii->bi", plain))
    np.testing.assert_allclose(prior[:, count:, count:], plain[:, count:, count:])
    feature_part = (
        prior[:, :count] - np.einsum("bi,ij->bij", np.einsum("bii->bi", prior), np.eye(prior.shape[1]))[:, :count]
    )
    assert np.abs(feature_part).max() == 0.0
    assert np.linalg.cond(prior[0]) < 0.1 * np.linalg.cond(plain[0])


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="features >= 1"):
        Fourier(features=0)
    with pytest.raises(ConfigError, match="shortest <= longest"):
        Radial(shortest=2.0, longest=1.0)
