"""A policy as the start of another search: the same actions, or one sentence why not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.observations import Observations, RawObservations, RunningNormaliser
from abps.policies.policy import Policy, PolicySpace
from abps.policies.start import read_start
from abps.tasks.spec import TaskSpec

SPEC = TaskSpec("arm", 3, 2, (-1.0, -2.0), (1.0, 2.0))
RNG = np.random.default_rng(0)
STATES = RNG.standard_normal((20, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]
SEEN = Normaliser.empty(3).add(STATES)


PLAIN = LinearTanh()


def policy(policy_class: Any = PLAIN, normaliser: Normaliser = SEEN, spec: TaskSpec = SPEC) -> Policy:
    space = PolicySpace(policy_class, spec)
    return space.policy(np.random.default_rng(1).standard_normal(space.size), normaliser)


def started(source: Any, policy_class: Any, observations: Observations) -> Policy:
    space = PolicySpace(policy_class, SPEC)
    start = read_start(source, space, observations)
    return space.policy(start.parameters, start.normaliser)


@pytest.mark.parametrize(
    ("theirs", "ours", "observations"),
    [
        (LinearTanh(), LinearTanh(), RunningNormaliser()),
        (LinearTanh(), LinearTanh(bias=True), RunningNormaliser()),
        (LinearTanh(), LinearTanh(bias=True), RawObservations()),
        (LinearTanh(bias=True), LinearTanh(bias=True), RawObservations()),
        (ClippedLinear(bias=True), ClippedLinear(bias=True), RawObservations()),
    ],
)
def test_the_policy_acts_as_before(theirs: Any, ours: Any, observations: Observations, tmp_path: Path) -> None:
    given = policy(theirs)
    given.save(tmp_path / "policy.npz")
    for source in (given, tmp_path / "policy.npz"):
        np.testing.assert_allclose(started(source, ours, observations)(STATES), given(STATES), rtol=1e-9, atol=1e-12)


def test_a_search_of_raw_observations_keeps_no_statistics() -> None:
    assert started(policy(), LinearTanh(bias=True), RawObservations()).normaliser.count == 0
    assert started(policy(), LinearTanh(), RunningNormaliser()).normaliser.count == 20


def test_a_sensor_that_never_moved_is_given_no_weight() -> None:
    still = Normaliser.empty(3).add(np.array([[1.0, 2.0, 7.0], [2.0, 1.0, 7.0]]))
    given = policy(normaliser=still)
    found = started(given, LinearTanh(bias=True), RawObservations())
    seen = np.array([[0.5, 3.0, 7.0]])
    np.testing.assert_allclose(found(seen), given(seen), rtol=1e-9)
    assert np.all(found.space.policy_class.to_arrays(SPEC, found.parameters)["weights"][:, 2] == 0.0)


@pytest.mark.parametrize(
    ("source", "ours", "error", "message"),
    [
        (
            policy(),
            LinearTanh(),
            ConfigError,
            "standardises its observations.*--observations running, or --policy.bias",
        ),
        (policy(), ClippedLinear(bias=True), ConfigError, r"is linear-tanh, those of the search are clipped-linear"),
        (policy(LinearTanh(bias=True)), LinearTanh(), ConfigError, r"has a bias.*\(--policy.bias\)"),
        (
            policy(spec=TaskSpec("leg", 3, 1, (-1.0,), (1.0,))),
            LinearTanh(),
            ShapeError,
            "gives 1 action; the task has 3",
        ),
        (np.zeros(5), LinearTanh(), ShapeError, r"has 5 numbers.*6 parameters \(weights \(2, 3\)\)"),
        ([np.nan] * 6, LinearTanh(), ShapeError, "all finite"),
        ([[1.0], [2.0, 3.0]], LinearTanh(), ConfigError, "must be a policy, a run directory"),
        ("nowhere", LinearTanh(), ConfigError, "no such run directory, policy file or .npy file"),
    ],
)
def test_what_cannot_be_a_start_says_why(source: Any, ours: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        started(source, ours, RawObservations())


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "damaged.npy").write_bytes(b"nothing")
    np.save(tmp_path / "objects.npy", np.array([object()]), allow_pickle=True)
    for name, message in (("damaged.npy", "not a readable .npy file"), ("objects.npy", "not plain numbers")):
        with pytest.raises(ShapeError, match=message):
            started(tmp_path / name, LinearTanh(), RawObservations())
    with pytest.raises(ConfigError, match="no run with a policy"):
        started(tmp_path, LinearTanh(), RawObservations())
