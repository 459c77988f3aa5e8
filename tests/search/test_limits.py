"""Limits of a task (`search/limits.py`, `tasks/limits.py`): no query of any search leaves them, whatever is told."""

from dataclasses import fields, is_dataclass
from typing import Any

import lqr_lab
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.errors import ConfigError
from abps.policies.linear import LinearTanh
from abps.policies.observations import RunningNormaliser
from abps.search import limits as limits_module
from abps.search.registry import SEARCHES, make_search, search_config
from abps.settings import replace
from abps.tasks.limits import Limits
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

SMALLER = {"probes": 2, "centre_episodes": 1, "window": 4, "directions": 3, "top": 2, "starts": 2, "first_paths": 2}
SMALLER |= {"population": 4, "first_points": 3, "candidates": 12, "functions": 10, "scouts": 1}
CHANGE, BOUND, HORIZON = 0.3, 0.7, 12
SPEC = TaskSpec(
    "arm", 3, 2, (-1.0, -4.0), (2.0, 4.0), horizon=HORIZON,
    limits=Limits(action_change=(CHANGE,), unit="half-range", weights=BOUND),
)  # fmt: skip


def smaller(part: Any) -> Any:
    changes: dict[str, Any] = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if is_dataclass(value):
            changes[item.name] = smaller(value)
        elif item.name in SMALLER:
            changes[item.name] = SMALLER[item.name]
    return replace(part, **changes)


def eager(name: str, spec: TaskSpec = SPEC, **changes: Any) -> Any:
    """A search whose probes and steps are far larger than the limits."""
    config = smaller(search_config(name, spec.name))
    if hasattr(config, "noise"):
        config = replace(config, noise=5.0, step=5.0)
    elif hasattr(config, "plan"):
        size = "design_std" if hasattr(config.plan, "design_std") else "path_size"
        config = replace(config, plan=replace(config.plan, **{size: 5.0}))
    if name == "ddpgn":
        config = replace(config, prior=replace(config.prior, critics=lqr_lab.SMALL_LSTD))
    if hasattr(config, "step") and hasattr(config.step, "first_length"):
        config = replace(config, step=replace(config.step, first_length=4.0, longest=9.0))
    return make_search(name, spec, replace(config, **changes), seed=3)


def told(query: Any, rng: np.random.Generator, spread: float, fails: float) -> list[Any]:
    outcomes: list[Any] = []
    for _ in range(query.episodes):
        if rng.random() < fails:
            outcomes.append(Failed("told to"))
            continue
        steps = int(rng.integers(1, HORIZON + 1))
        shift = spread * rng.normal(size=3)
        observations = shift + spread * rng.normal(size=(steps + 1, 3))
        act = query.policy.start()
        actions = [act(row) for row in observations[:-1]]
        rewards = spread * rng.normal(size=steps)
        over = rng.random() < 0.3
        outcomes.append(Trajectory.build(observations, actions, rewards, terminated=over, truncated=not over))
    return outcomes


class Witness:
    """Knows the limits independently: keeps all episodes itself, and computes actions by hand from policy files."""

    def __init__(self, search: Any) -> None:
        self.search, self.episodes = search, list[Any]()
        self.reference = self.centre = search.incumbent
        self.worked = False

    def actions(self, policy: Any, matrix: Any, states: Any) -> Any:
        arrays = policy.arrays()
        seen = (states - arrays["observation_mean"]) / arrays["observation_std"]
        if "bias" in arrays:
            seen = np.column_stack([seen, np.ones(len(seen))])
        low, high = arrays["action_low"], arrays["action_high"]
        latent = seen @ matrix.T
        if str(arrays["kind"]) == "linear-tanh":
            return (low + high) / 2 + (high - low) / 2 * np.tanh(latent)
        return np.clip((low + high) / 2 + latent, low, high)

    def matrices(self, policy: Any) -> list[Any]:
        """Every matrix that an episode of the policy uses."""
        arrays = policy.arrays()
        rest = np.column_stack([arrays["weights"], arrays["bias"]]) if "bias" in arrays else arrays["weights"]
        if policy.path is None:
            return [rest]
        return [policy.path.at(step).reshape(rest.shape) for step in range(HORIZON + 1)]

    def check(self, query: Any) -> None:
        half = np.array([1.5, 4.0])
        for matrix in self.matrices(query.policy):
            assert np.abs(matrix).max() <= BOUND * (1 + 1e-6)
            for episode in self.episodes[-limits_module.EPISODES :]:
                states = episode.observations[: -1 if episode.terminated else None].astype(float)
                before = self.actions(self.reference, self.matrices(self.reference)[0], states)
                after = self.actions(query.policy, matrix, states)
                assert np.max(np.abs(after - before) / half) <= CHANGE * (1 + 1e-6)

    def stages(self, count: int, rng: np.random.Generator, spread: float, fails: float) -> None:
        for _ in range(count):
            self.stage(rng, spread, fails)

    def stage(self, rng: np.random.Generator, spread: float, fails: float) -> None:
        queries, metrics = self.search.open_queries(), None
        if not self.episodes:  # Before any state is known only the reference itself may run.
            assert [np.array_equal(q.parameters, self.reference.parameters) for q in queries] == [True]
        for query in queries:
            self.check(query)
        answers = {query.id: told(query, rng, spread, fails) for query in queries}
        for query in queries:
            metrics = self.search.tell(query, answers[query.id])
            worked = [outcome for outcome in answers[query.id] if isinstance(outcome, Trajectory)]
            self.episodes += worked
            alone = {query.role for query in queries} == {"probe"}
            self.worked = self.worked or (bool(worked) and (alone or query.role != "probe"))
        if metrics is not None:
            if self.worked:
                self.reference = self.centre
            self.centre = self.search.policies.policy(self.search.centre, self.search.normaliser)
            self.worked = False


@pytest.mark.parametrize("name", SEARCHES)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.01, 1.0, 30.0]), fails=st.sampled_from([0.0, 0.4]))
def test_no_query_leaves_the_limits_whatever_is_told(name: str, seed: int, spread: float, fails: float) -> None:
    rng, search = np.random.default_rng(seed), eager(name)
    witness = Witness(search)
    witness.stages(6, rng, spread, fails)


@pytest.mark.parametrize("name", SEARCHES)
def test_the_witness_notices_a_search_without_its_keeper(name: str) -> None:
    """The negative control: the same searches, and nobody who keeps the limits."""
    search = eager(name, replace(SPEC, limits=Limits()))
    witness, rng = Witness(search), np.random.default_rng(0)
    with pytest.raises(AssertionError):
        witness.stages(6, rng, 1.0, 0.0)


@pytest.mark.parametrize("remap", [False, True])
def test_a_normaliser_that_moves_cannot_change_actions_beyond_the_limit(remap: bool) -> None:
    """Observations of another mean every time: without a bias no parameters can keep a policy's meaning."""
    config = {"observations": RunningNormaliser(remap=remap), "policy": LinearTanh(bias=remap)}
    search = eager("mpd", **config)
    witness, rng = Witness(search), np.random.default_rng(1)
    for number in range(12):
        witness.stage(rng, 10.0 ** (number % 3), 0.0)


def test_limits_that_do_not_bind_change_no_bit(lab: Any) -> None:
    def run(limits: Limits) -> list[Any]:
        search, rng = make_search("abs", replace(SPEC, limits=limits), seed=1), np.random.default_rng(0)
        seen = []
        for _ in range(12):
            for query in search.open_queries():
                seen.append(query.parameters if query.policy.path is None else query.policy.path.knots)
                search.tell(query, told(query, rng, 1.0, 0.0))
        return seen

    free, wide = run(Limits()), run(Limits(action_change=(2.0,), unit="half-range", weights=1e9))
    assert all(np.array_equal(one, other) for one, other in zip(free, wide, strict=True))
    tight = run(Limits(action_change=(0.01,), unit="half-range"))
    assert not all(np.array_equal(one, other) for one, other in zip(free, tight, strict=True))


@pytest.mark.parametrize("name", ["abs", "ars"])
def test_a_saved_state_goes_on_within_the_same_limits_bit_for_bit(name: str, lab: Any) -> None:
    search, copy = eager(name), eager(name)
    rng = np.random.default_rng(2)
    for _ in range(3):
        for query in search.open_queries():
            search.tell(query, told(query, rng, 1.0, 0.2))
    copy.load(lab.saved(search))
    for other in (search, copy):
        again = np.random.default_rng(3)
        for _ in range(3):
            for query in other.open_queries():
                other.tell(query, told(query, again, 1.0, 0.2))
    assert lab.difference(lab.saved(search), lab.saved(copy)) == ""


def test_the_share_of_a_step_is_a_metric() -> None:
    search, rng, shares = eager("ars"), np.random.default_rng(4), list[float]()
    while len(shares) < 2:
        for query in search.open_queries():
            metrics = search.tell(query, told(query, rng, 1.0, 0.0))
            shares += [] if metrics is None else [metrics["step_limited"]]
    assert all(0.0 < share < 1.0 for share in shares)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"action_rate": (0.0,)}, "action_rate must be positive numbers, got 0.0"),
        ({"action_change": (float("nan"),)}, "action_change must be positive numbers"),
        ({"weights": -1.0}, "weights must be positive"),
        ({"action_rate": (1.0, 1.0, 1.0)}, "limits.action_rate must be one number, or one for each of 2 actions"),
        ({"action_change": (1.0, 1.0, 1.0)}, "limits.action_change must be one number, or one for each of 2 actions"),
        ({"action_start": (0.0,)}, "limits.action_start must be 2 numbers inside the action bounds"),
        ({"action_start": (0.0, 9.0)}, "limits.action_start must be 2 numbers inside the action bounds"),
    ],
)
def test_wrong_limits_are_refused(limits: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        replace(SPEC, limits=Limits(**limits))


def test_units() -> None:
    half = np.array([1.5, 4.0])
    assert Limits(action_change=(0.5,), unit="half-range").changes(half) == pytest.approx([0.75, 2.0])
    assert Limits(action_change=(0.5, 1.0)).changes(half) == pytest.approx([0.5, 1.0])
    assert Limits().rates(half) is None
