"""Every registered policy class by the checks of `abps.testing`, and what the search does for their inputs.

Covers `layers` and `base`, and `Search._standardise` of `search/base.py`.
"""

import numpy as np
import pytest

from abps.normaliser import Normaliser
from abps.policies import PolicySpace
from abps.policies.base import Layered
from abps.policies.features import Fourier, Radial
from abps.policies.layers import SQUASHES, Layer, forward, layer_arrays, stacked
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.mlp import Mlp
from abps.policies.observations import RunningNormaliser
from abps.registry import KINDS, find
from abps.rollouts.episode import run_episode
from abps.search.ars import ArsConfig
from abps.search.plan import PathsAroundCentre
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.gym import make_task
from abps.tasks.lqr import make_env
from abps.tasks.spec import TaskSpec
from abps.testing import check_policy_class, check_search

CLASSES = [
    LinearTanh(),
    LinearTanh(bias=True),
    ClippedLinear(bias=True),
    Fourier(),
    Fourier(features=4, linear=False, bias=False),
    Radial(features=9),
    Mlp(),
    Mlp(hidden=(5, 4)),
    Mlp(hidden=(5, 4), output_only=True),
]
SMALL = [Fourier(features=5), Radial(features=5), Mlp(hidden=(3,)), Mlp(hidden=(3,), output_only=True)]
SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))


def lqr():
    return make_task(make_env(), name="lqr", gamma=0.95, horizon=20)


def test_all_registered_classes_are_tested():
    assert {find("policy", kind) for kind in KINDS["policy"]} == {type(policy_class) for policy_class in CLASSES}
    assert all(isinstance(policy_class, Layered) for policy_class in CLASSES)


@pytest.mark.parametrize("policy_class", CLASSES, ids=repr)
def test_every_class_keeps_the_contract(policy_class):
    """Derivatives and metric by central differences, files, layers, controllers at rest and along a path."""
    check_policy_class(policy_class)


class Forgetful(type(Mlp())):
    """A network whose pullback forgets the slope of the hidden units."""

    def pullback(self, spec, parameters, inputs, cotangents):
        pulled = super().pullback(spec, parameters, inputs, cotangents)
        pulled[..., 0] *= 1.01
        return pulled


class Bent(type(Mlp())):
    """A network whose layers are not its own."""

    def layers(self, spec, parameters):
        layers = super().layers(spec, parameters)
        first = layers.layers[0]
        return layers._replace(layers=(first._replace(weights=first.weights**3), *layers.layers[1:]))


class Still(type(Mlp())):
    """A network whose hidden layers have no length beforehand."""

    def prior_metric(self, spec, inputs, weights):
        return self.metric(spec, self.initial(spec), inputs, weights)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Forgetful(), "pullback must be"),
        (Bent(), "its controller must act"),
        (Still(), "prior_metric must be positive definite"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_checks_notice_what_is_wrong(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_policy_class(wrong)


# ---- layers ----------------------------------------------------------------------------------------------------------


def test_layers_go_forward_as_by_hand_and_leave_their_inputs_alone():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(6, 3))
    before = inputs.copy()
    for name, function in {"tanh": np.tanh, "sin": np.sin, "exp": np.exp, "square": np.square}.items():
        layer = Layer(rng.normal(size=(4, 3)), rng.normal(size=4), name, plain=1)
        sums = np.array([[row @ x + b for row, b in zip(layer.weights, layer.bias, strict=True)] for x in inputs])
        expected = np.concatenate([function(sums[:, :3]), sums[:, 3:]], axis=1)
        np.testing.assert_allclose(forward([layer], inputs)[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(inputs, before)


@pytest.mark.parametrize("squash", list(SQUASHES))
def test_slopes_of_a_squashing_are_its_derivative(squash):
    latent = np.random.default_rng(1).normal(size=(50, 2)) * 2.0
    numeric = (SQUASHES[squash].actions(SPEC, latent + 1e-6) - SQUASHES[squash].actions(SPEC, latent - 1e-6)) / 2e-6
    np.testing.assert_allclose(SQUASHES[squash].slopes(SPEC, latent), numeric, atol=1e-6)


def test_only_layers_that_move_have_an_axis_of_knots():
    policy_class, rng = Fourier(features=4), np.random.default_rng(2)
    knots = [policy_class.layers(SPEC, rng.normal(size=16)) for _ in range(3)]
    hidden, output = (stacked([item.layers[k] for item in knots]) for k in (0, 1))
    assert [array.shape for array in (*hidden, *output)] == [(7, 3), (7,), (3, 2, 7), (3, 2)]
    arrays = layer_arrays(knots)
    assert arrays["layer_1_weights"].shape == (3, 2, 7)
    assert str(arrays["layer_0_function"]) == "sin"


# ---- searches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy_class", SMALL, ids=lambda item: f"{type(item).__name__}-{item.seed}")
def test_searches_with_every_class_go_on_bit_for_bit(policy_class):
    """Saved and loaded between any two stages, with the state as a checkpoint has it."""
    plan = PathsAroundCentre(first_paths=2, window=8)
    check_search(replace(search_config("abs", "lqr"), policy=policy_class, plan=plan), episodes=9)
    check_search(ArsConfig(policy=policy_class, directions=2, top=1), episodes=9)


def told(policy_class, observations=None, scale=1.0):
    """An ABS after its first episode, whose observations are scaled and one of which never moves."""
    task = lqr()
    config = replace(search_config("abs", "lqr"), policy=policy_class)
    search = (config if observations is None else replace(config, observations=observations)).make(task.spec, seed=0)
    query = search.ask()
    trajectory = run_episode(task.make_env(), query.policy, seed=0)
    seen = scale * trajectory.observations
    seen[:, 1] = 40.0
    search.tell(query, [replace(trajectory, observations=seen)])
    return search, seen[:-1]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("policy_class", SMALL[:3], ids=repr)
def test_inputs_have_size_one_from_the_first_episode_on(policy_class, scale):
    search, seen = told(policy_class, scale=scale)
    inputs = search.normaliser.apply(seen)
    np.testing.assert_allclose(inputs[:, 0].mean(), 0.0, atol=1e-4)
    np.testing.assert_allclose(inputs[:, 0].std(), 1.0, rtol=1e-4)
    np.testing.assert_allclose(inputs[:, 1], 0.0)
    np.testing.assert_allclose(search.normaliser.std[1], 40.0)  # A sensor that never moved may move later.
    assert search.ask().policy.normaliser is search.normaliser
    plain, _ = told(replace(policy_class, standardise=False), scale=scale)
    assert plain.normaliser.count == 0


def test_linear_policies_and_running_statistics_are_left_alone():
    assert told(LinearTanh(bias=True))[0].normaliser.count == 0
    search, _ = told(Mlp(), RunningNormaliser())
    count, task = search.normaliser.count, lqr()
    assert count == 20
    while search.iteration == 0:
        query = search.ask()
        search.tell(query, [run_episode(task.make_env(), query.policy, seed=1)])
    assert search.normaliser.count > count
    raw, _ = told(Mlp())
    while raw.iteration == 0:
        query = raw.ask()
        raw.tell(query, [run_episode(task.make_env(), query.policy, seed=1)])
    assert raw.normaliser.count == count


def test_a_moving_policy_file_carries_its_layers(tmp_path):
    policy = PolicySpace(Fourier(features=4), SPEC).policy(np.ones(16), Normaliser.empty(3))
    assert {"layer_count", "layer_0_weights", "layer_1_bias"} <= set(policy.arrays())
    assert not any(name.startswith("layer") for name in PolicySpace(LinearTanh(), SPEC).policy(
        np.ones(6), Normaliser.empty(3)).arrays())  # fmt: skip
