"""Where networks on stored data lead a policy: on linear-quadratic tasks, whose return is known exactly."""

from typing import Any

import numpy as np
import pytest

from abps.critics import improvement
from abps.critics.improvement import CHUNK, NoImprovement, TwinNetworks
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.errors import ConfigError
from abps.normaliser import Normaliser
from abps.policies.features import Fourier, Radial
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.mlp import Mlp
from abps.policies.policy import Policy, PolicySpace
from abps.settings import replace
from abps.state import restore, save
from abps.tasks.lqr import LqrSystem
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

GAMMA, STEPS, HALF = 0.9, 40, 2.0
SYSTEM = LqrSystem(
    np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([[0.3], [0.6]]), np.eye(2), 0.3 * np.eye(1), GAMMA, np.zeros(2),
    np.eye(2), np.zeros((2, 2)),
)  # fmt: skip
SPACE = PolicySpace(ClippedLinear(), TaskSpec("lqr", 2, 1, (-HALF,), (HALF,), gamma=GAMMA, horizon=STEPS))
PART = TwinNetworks(few_parameters=1, transitions=100, gamma=GAMMA, steps_first=1500, steps=512, stride=0.02)
START = np.zeros(2)


def policy(parameters: np.ndarray) -> Policy:
    return SPACE.policy(parameters, Normaliser.empty(2))


def stored(episodes: int = 40, sign: float = 1.0, seed: int = 0) -> Replay:
    """Episodes of START with noisy actions; `sign` −1 turns what is good into what is bad."""
    rng, replay = np.random.default_rng(seed), Replay(10_000, 2, 1)
    for _ in range(episodes):
        states, actions, rewards = [rng.normal(size=2)], [], []
        for _ in range(STEPS):
            state, action = states[-1], 0.5 * rng.normal(size=1)
            actions.append(action)
            rewards.append(-sign * (state @ SYSTEM.state_cost @ state + action @ SYSTEM.action_cost @ action))
            states.append(SYSTEM.transition @ state + SYSTEM.control @ action)
        replay.append(Trajectory.build(np.array(states), np.array(actions), rewards, terminated=False, truncated=True))
    return replay


def natural(gradient: np.ndarray) -> np.ndarray | None:
    norm = float(np.linalg.norm(gradient))
    return gradient / norm if norm > 0 else None


def improver(part: Any = PART) -> Any:
    return part.make(SPACE, Objective(GAMMA), 0)


def exact(parameters: np.ndarray) -> float:
    return float(SYSTEM.finite_return(parameters.reshape(1, 2), 200))


def test_the_policy_that_the_networks_lead_to_returns_more() -> None:
    """By the cost-to-go, which no sample enters: most of what the optimal gain has over the start."""
    found = improver().improve(policy(START), stored(), natural)
    best = SYSTEM.optimal_gain().ravel()
    assert exact(found) > exact(START) + 0.6 * (exact(best) - exact(START))


def test_turned_rewards_lead_the_other_way() -> None:
    """The negative control of the test above."""
    assert exact(improver().improve(policy(START), stored(sign=-1.0), natural)) < exact(START)


def test_the_policy_moves_a_stride_every_chunk_and_no_farther() -> None:
    for stride, steps in ((0.02, 4 * CHUNK), (0.001, 8 * CHUNK)):
        part = replace(PART, steps_first=CHUNK, steps=steps, stride=stride)
        found = improver(part).improve(policy(START), stored(5), natural)
        assert 0 < np.linalg.norm(found - START) <= stride * steps / CHUNK * (1 + 1e-9)


def test_few_transitions_few_parameters_or_none_wanted_give_nothing() -> None:
    replay = stored(2)
    assert improver(replace(PART, transitions=81)).improve(policy(START), replay, natural) is None
    assert improver(replace(PART, transitions=80, steps_first=CHUNK, steps=CHUNK)).improve(
        policy(START), replay, natural
    ) is not None  # fmt: skip
    assert improver(replace(PART, few_parameters=2)).improve(policy(START), replay, natural) is None
    assert improver(NoImprovement()).improve(policy(START), replay, natural) is None


def test_features_are_not_linear_although_the_inputs_are_among_them() -> None:
    """`linear` is a setting of theirs; what the networks ask for must be something else."""
    classes = (ClippedLinear(), LinearTanh(), Fourier(linear=True), Radial(linear=True), Mlp())
    assert [item.acts_linearly for item in classes] == [True, True, False, False, False]


def test_policies_that_are_not_linear_are_led_sooner_and_however_few_their_parameters() -> None:
    part = replace(PART, few_parameters=10_000, transitions_nonlinear=80, steps_first=CHUNK, steps=CHUNK)
    curved = PolicySpace(Mlp(hidden=(2,), standardise=False), SPACE.spec)
    centre = curved.policy(curved.initial(), Normaliser.empty(2))
    networks = part.make(curved, Objective(GAMMA), 0)
    assert networks.improve(centre, stored(1), natural) is None
    better = networks.improve(centre, stored(2), natural)
    assert better is not None
    assert not np.array_equal(better, centre.parameters)
    assert improver(part).improve(policy(START), stored(), natural) is None


def test_it_goes_on_from_a_saved_memory_bit_for_bit() -> None:
    part = replace(PART, steps_first=2 * CHUNK, steps=2 * CHUNK)
    replay, one, other, mine = stored(5), improver(part), improver(part), START
    for _ in range(3):
        again = improver(part)
        again.memory = restore(again.memory, save(other.memory))
        other = again
        mine, theirs = one.improve(policy(START), replay, natural), other.improve(policy(START), replay, natural)
        assert np.array_equal(mine, theirs)
        replay.append(Trajectory.build(np.ones((3, 2)), np.zeros((2, 1)), [0.0, 1.0], terminated=True, truncated=False))
    assert not np.array_equal(mine, improver(part).improve(policy(START), replay, natural))


def test_networks_that_diverge_say_nothing_and_are_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    part, replay = replace(PART, steps_first=CHUNK, steps=CHUNK), stored(5)
    found = improver(part)
    monkeypatch.setattr(improvement, "HUGE", 1e-6)
    assert found.improve(policy(START), replay, natural) is None
    monkeypatch.undo()
    assert found.improve(policy(START), replay, natural) is not None
    assert (found.memory.draws, found.memory.fits) == (2, 2)


def test_rewards_that_are_all_alike_and_gradients_of_nothing_do_no_harm() -> None:
    replay = Replay(1000, 2, 1)
    replay.append(
        Trajectory.build(np.zeros((201, 2)), np.zeros((200, 1)), np.ones(200), terminated=False, truncated=True)
    )
    part = replace(PART, steps_first=CHUNK, steps=2 * CHUNK)
    found = improver(part).improve(policy(START), replay, lambda gradient: None)
    assert np.array_equal(found, START)
    assert np.isfinite(improver(part).improve(policy(START), replay, natural)).all()


@pytest.mark.parametrize(
    "wrong", [{"transitions": 0}, {"gamma": 0.0}, {"stride": 0.0}, {"few_parameters": -1}, {"learning_rate": 0.0}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        TwinNetworks(**wrong)
