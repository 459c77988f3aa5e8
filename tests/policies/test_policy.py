"""One policy and its file: saved and loaded, old names understood, foreign and damaged files refused."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

from abps import registry
from abps.errors import ConfigError
from abps.normaliser import Normaliser
from abps.policies import Policy, PolicySpace, load_policy
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.path import ParameterPath
from abps.seeding import generator
from abps.settings import setting
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("toy", 3, 2, (-3.0, 0.0), (1.0, 5.0))
CLASSES = [LinearTanh(), ClippedLinear(), LinearTanh(bias=True), ClippedLinear(bias=True)]


def make(policy_class=CLASSES[0], seed=0, path=False):
    rng = generator(seed, "test-policy")
    space = PolicySpace(policy_class, SPEC)
    normaliser = Normaliser.empty(3).add(5.0 + np.array([0.1, 1.0, 10.0]) * rng.standard_normal((50, 3)))
    knots = ParameterPath(rng.standard_normal((4, space.size)), 3) if path else None
    observations = normaliser.mean + normaliser.std * rng.standard_normal((12, 3))
    return space.policy(0.5 * rng.standard_normal(space.size), normaliser, knots), observations


@pytest.fixture
def saved(tmp_path):
    """Writes a good policy with some arrays replaced."""

    def save(policy_class=CLASSES[0], **changes):
        policy, _ = make(policy_class)
        np.savez(tmp_path / "policy.npz", **{**policy.arrays(), **changes})
        return tmp_path / "policy.npz"

    return save


@pytest.mark.parametrize("path", [False, True], ids=["at-rest", "along-a-path"])
@pytest.mark.parametrize("policy_class", CLASSES, ids=repr)
def test_save_and_load_round_trip(policy_class, path, tmp_path):
    policy, observations = make(policy_class, 6, path)
    policy.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    assert (loaded.space.policy_class, loaded.spec.name) == (policy_class, "toy")
    assert (loaded.spec.action_low, loaded.spec.action_high) == (SPEC.action_low, SPEC.action_high)
    for ours, theirs in (
        (policy.parameters, loaded.parameters),
        (policy.normaliser.mean, loaded.normaliser.mean),
        (policy.normaliser.m2, loaded.normaliser.m2),
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.normaliser.count == policy.normaliser.count
    first, second = policy.start(), loaded.start()
    for observation in observations:
        np.testing.assert_array_equal(policy(observation), loaded(observation))
        np.testing.assert_array_equal(first(observation), second(observation))


@pytest.mark.parametrize("policy_class", CLASSES, ids=repr)
def test_a_policy_on_a_path_acts_with_the_parameters_of_each_step(policy_class):
    policy, observations = make(policy_class, path=True)
    assert policy.path is not None
    at_rest = Policy(policy.space, policy.parameters, policy.normaliser)
    for act in (policy.start(), policy.start()):  # Every episode starts at the first knot again.
        for step, observation in enumerate(observations):
            expected = policy.space.actions(policy.path.at(step), observation[None], policy.normaliser)[0]
            np.testing.assert_allclose(act(observation), expected, rtol=1e-10, atol=1e-11)
            np.testing.assert_array_equal(policy(observation), at_rest(observation))
    assert not np.allclose(policy.start()(observations[0]), policy(observations[0]))
    assert at_rest.start() is at_rest.act


def test_files_of_older_releases_load(saved):
    """`direct` is what clipped linear policies were called."""
    loaded = load_policy(saved(ClippedLinear(), kind=np.array("direct")))
    assert loaded.space.policy_class == ClippedLinear()
    policy, observations = make(ClippedLinear())
    np.testing.assert_array_equal(loaded(observations), policy(observations))
    old = {name: array for name, array in policy.arrays().items() if name != "settings"}
    path = saved().parent / "old.npz"
    np.savez(path, **{**old, "kind": np.array("direct")})  # Older files have no settings of the class either.
    np.testing.assert_array_equal(load_policy(path)(observations), policy(observations))


@pytest.mark.parametrize("kind", ["evil", "evil_module:Policy", "abps.policies.linear:Nothing", "walk"])
def test_a_file_of_an_unknown_kind_is_refused_and_imports_nothing(saved, kind, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('a file had this imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=f"unknown policy kind '{kind}'"):
        load_policy(saved(kind=np.array(kind)))
    assert "evil_module" not in sys.modules


def test_a_file_cannot_smuggle_its_kind_through_the_settings(saved):
    settings = np.array('{"kind": "evil_module:Policy", "bias": false}')
    assert load_policy(saved(settings=settings)).space.policy_class == LinearTanh()
    assert "evil_module" not in sys.modules
    with pytest.raises(ConfigError, match="unknown setting"):
        load_policy(saved(settings=np.array('{"biass": false}')))


@dataclass(frozen=True)
class Stranger(LinearTanh):
    """A class that the package does not know."""

    gain: float = setting(1.0, "multiplies the observations")


def test_a_strangers_class_loads_when_it_is_expected_or_registered(saved, monkeypatch):
    path = saved(Stranger(gain=2.0))
    with pytest.raises(ConfigError, match="unknown policy kind"):
        load_policy(path)
    monkeypatch.setitem(sys.modules, Stranger.__module__, sys.modules[__name__])
    assert load_policy(path, Stranger()).space.policy_class == Stranger(gain=2.0)
    with pytest.raises(ConfigError, match="unknown policy kind"):
        load_policy(path, LinearTanh())
    monkeypatch.setitem(registry.KINDS["policy"], "stranger", Stranger)
    assert load_policy(path).space.policy_class == Stranger(gain=2.0)


def test_foreign_and_damaged_files_are_refused(saved, tmp_path):
    with pytest.raises(ConfigError, match="no policy file"):
        load_policy(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ConfigError, match="not a policy file"):
        load_policy(tmp_path / "text.npz")
    load_policy(saved())
    damages = {
        "kind": np.array("evil"),
        "settings": np.array("no json"),
        "weights": np.full((2, 3), np.nan),
        "observation_mean": np.zeros(4),
        "observation_m2": np.full(3, -1.0),
        "action_low": np.zeros(3),
        "action_high": np.array([-9.0, 9.0]),
        "task": np.array([{"pickled": "object"}], dtype=object),
    }
    for name, damage in damages.items():
        with pytest.raises(ConfigError, match="not a policy file"):
            load_policy(saved(**{name: damage}))
    knots = {"path_knots": np.zeros((2, 5)), "path_interval": np.array(2)}
    with pytest.raises(ConfigError, match="knots have 5 parameters, the policy 6"):
        load_policy(saved(**knots))


def test_a_class_cannot_use_the_names_of_the_file():
    class Greedy(LinearTanh):
        def to_arrays(self, spec, parameters):
            return {"task": parameters}

    with pytest.raises(ConfigError, match="reserved names task"):
        PolicySpace(Greedy(), SPEC).policy(np.zeros(6), Normaliser.empty(3)).arrays()


def test_a_policy_says_in_one_line_what_it_is():
    assert repr(make()[0]) == "<abps policy LinearTanh of toy: 3 observations, 2 actions, 6 parameters>"
    assert repr(make(path=True)[0]).endswith("6 parameters, along a path>")
