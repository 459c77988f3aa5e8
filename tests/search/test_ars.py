"""ARS against a computation by hand, in its four variants and the ABS paper's."""

from typing import Any

import numpy as np
import pytest

from abps.policies.observations import Observations, RawObservations, RunningNormaliser
from abps.search.ars import ArsConfig, ars_step
from abps.search.registry import make_search
from abps.settings import replace
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory

SPEC = TaskSpec("toy", 2, 1, (-1.0,), (1.0,), gamma=0.5, horizon=2)
CONFIG = ArsConfig(observations=RawObservations(), step=0.1, noise=0.05, directions=3, top=2)


def episode(rewards: tuple[float, float], scale: float = 1.0) -> Trajectory:
    observations = scale * np.array([[1.0, 2.0], [3.0, 4.0], [50.0, 60.0]])
    return Trajectory.build(observations, np.zeros((2, 1)), rewards, terminated=False, truncated=True)


def short_episode(reward: float) -> Trajectory:
    return Trajectory.build(np.ones((2, 2)), np.zeros((1, 1)), [reward], terminated=True, truncated=False)


def tell_all(search: Any, outcomes: list[Outcome]) -> Any:
    metrics = None
    for query, outcome in zip(search.open_queries(), outcomes, strict=True):
        metrics = search.tell(query, [outcome])
    return metrics


def test_the_step_by_hand() -> None:
    directions = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    plus, minus = np.array([3.0, 1.0, 0.0]), np.array([1.0, 5.0, 0.5])
    # max(+, −) is 3, 5, 0.5: the two best are the second and the first. Their returns 1, 5, 3, 1 have the mean 2.5 and
    # the variance (2.25 + 6.25 + 0.25 + 2.25) / 4 = 2.75.
    # The move is α / (2 √2.75) · [(1 − 5)·(0, 2) + (3 − 1)·(1, 0)].
    expected = 0.1 / (2.0 * np.sqrt(2.75)) * np.array([2.0, -8.0])
    assert np.allclose(ars_step(directions, plus, minus, 0.1, 2), expected, rtol=1e-14)
    # With all three directions, the plain variant: returns 3, 1, 0, 1, 5, 0.5 and one more term.
    spread = np.std([3.0, 1.0, 0.0, 1.0, 5.0, 0.5])
    expected = 0.1 / (3.0 * spread) * (np.array([2.0, -8.0]) - 0.5 * np.array([1.0, 1.0]))
    assert np.allclose(ars_step(directions, plus, minus, 0.1, 3), expected, rtol=1e-14)


def test_the_hand_computation_would_notice_a_wrong_sign_or_scale() -> None:
    directions, plus, minus = np.eye(2), np.array([3.0, 1.0]), np.array([1.0, 2.0])
    right = ars_step(directions, plus, minus, 0.1, 2)
    assert not np.allclose(right, ars_step(directions, minus, plus, 0.1, 2))
    assert not np.allclose(right, ars_step(directions, plus, minus, 0.1, 1))


def test_equal_returns_do_not_move() -> None:
    assert np.array_equal(ars_step(np.eye(2), np.ones(2), np.ones(2), 0.1, 2), np.zeros(2))


def test_the_step_does_not_depend_on_the_returns_scale() -> None:
    rng = np.random.default_rng(0)
    directions, plus, minus = rng.standard_normal((5, 3)), rng.standard_normal(5), rng.standard_normal(5)
    move = ars_step(directions, plus, minus, 0.1, 3)
    assert np.allclose(move, ars_step(directions, 1000.0 * plus + 7.0, 1000.0 * minus + 7.0, 0.1, 3))


def test_directions_are_tried_forwards_and_backwards() -> None:
    search = make_search("ars", SPEC, CONFIG, seed=4)
    queries = search.open_queries()
    assert len(queries) == 6
    assert {query.role for query in queries} == {"direction"}
    for forward, backward in zip(queries[::2], queries[1::2], strict=True):
        assert np.allclose(forward.parameters + backward.parameters, 0.0)
        assert np.linalg.norm(forward.parameters) > 0.0


def test_one_iteration_is_the_step_of_its_returns() -> None:
    search = make_search("ars", SPEC, CONFIG, seed=4)
    moves = np.array([query.parameters for query in search.open_queries()[::2]]) / CONFIG.noise
    totals = np.array([[4.0, 1.0], [2.0, 3.0], [0.0, 9.0]])
    metrics = tell_all(search, [episode((total - 1.0, 1.0)) for total in totals.reshape(-1)])
    expected = ars_step(moves, totals[:, 0], totals[:, 1], CONFIG.step, CONFIG.top)
    assert np.allclose(search.incumbent.parameters, expected)
    assert metrics["step_length"] == pytest.approx(np.linalg.norm(expected))
    assert (metrics["direction_return_mean"], metrics["direction_return_max"]) == (pytest.approx(19.0 / 6.0), 9.0)


@pytest.mark.parametrize("top", [2, 3])
@pytest.mark.parametrize("observations", [RawObservations(), RunningNormaliser()])
def test_the_four_variants(observations: Observations, top: int) -> None:
    """V1 and V2 are without and with the normaliser; "-t" (top < N) ignores the worst direction, whatever it says."""

    def centre(worst: float) -> tuple[np.ndarray, Any]:
        search = make_search("ars", SPEC, replace(CONFIG, observations=observations, top=top), seed=1)
        totals = [4.0, 1.0, 2.0, 3.0, worst, -2.0]
        tell_all(search, [episode((total, 0.0)) for total in totals])
        return search.incumbent.parameters, search

    (first, search), (second, _) = centre(-1.0), centre(-0.5)
    assert np.array_equal(first, second) == (top == 2)
    if (
        observations == RunningNormaliser()
    ):  # The statistics of the visited states, without each episode's last one, which no action followed.
        assert search.normaliser.count == 12
        assert np.allclose(search.normaliser.mean, [2.0, 3.0])
        assert np.allclose(search.normaliser.std, [1.0, 1.0])
    else:
        assert search.normaliser.count == 0
    assert np.array_equal(search.ask().policy.normaliser.mean, search.normaliser.mean)


def test_the_normaliser_changes_between_iterations_only() -> None:
    search = make_search("ars", SPEC, replace(CONFIG, observations=RunningNormaliser()), seed=1)
    first = search.open_queries()
    tell_all(search, [episode((float(number), 0.0)) for number in range(6)])
    assert all(query.policy.normaliser.count == 0 for query in first)
    assert all(query.policy.normaliser.count == 12 for query in search.open_queries())


@pytest.mark.parametrize("freeze", [True, False])
def test_a_frozen_mean_is_that_of_the_whole_first_iteration(freeze: bool) -> None:
    """The first iteration's episodes have the sizes 1 to 6, so that no single one has the mean of all."""
    config = replace(CONFIG, observations=RunningNormaliser(freeze_mean=freeze))
    search = make_search("ars", SPEC, config, seed=1)
    tell_all(search, [episode((float(number), 0.0), scale=1.0 + number) for number in range(6)])
    first = search.normaliser
    assert np.allclose(first.mean, 3.5 * np.array([2.0, 3.0]))
    tell_all(search, [episode((float(number), 0.0), scale=9.0) for number in range(6)])
    assert np.array_equal(search.normaliser.mean, first.mean) == freeze
    assert search.normaliser.count == 24
    states = np.concatenate([scale * np.array([[1.0, 2.0], [3.0, 4.0]]) for scale in (1, 2, 3, 4, 5, 6, *[9] * 6)])
    mean = first.mean if freeze else states.mean(axis=0)
    assert np.allclose(search.normaliser.std, np.sqrt(np.square(states - mean).mean(axis=0)))


@pytest.mark.parametrize("remap", [True, False])
def test_remapping_keeps_what_the_centre_does(remap: bool) -> None:
    """With a frozen mean exactly: the step alone, not the new normaliser, changes the policy."""
    config = replace(CONFIG, observations=RunningNormaliser(remap=remap, freeze_mean=True))
    search = make_search("ars", SPEC, config, seed=1)
    tell_all(search, [episode((float(number), 0.0)) for number in range(6)])
    before = search.incumbent
    metrics = tell_all(search, [episode((1.0, 0.0), scale=9.0)] * 6)  # Equal returns: no step.
    assert metrics["step_length"] == 0.0
    states = 0.1 * np.random.default_rng(0).standard_normal((20, 2)) + search.normaliser.mean
    assert np.allclose(search.incumbent.actions(states), before.actions(states), rtol=1e-9) == remap


def test_the_survival_shift_and_the_discount_decide_what_is_compared() -> None:
    """Rewards (1, 4) against (3, 1.5) are better undiscounted, worse discounted; a shift favours short episodes."""

    def centre(plus: list[Trajectory], minus: list[Trajectory], **changes: Any) -> np.ndarray:
        search = make_search("ars", SPEC, replace(CONFIG, directions=2, top=2, **changes), seed=1)
        tell_all(search, [item for pair in zip(plus, minus, strict=True) for item in pair])
        return search.incumbent.parameters

    search = make_search("ars", SPEC, replace(CONFIG, directions=2, top=2), seed=1)
    moves = np.array([query.parameters for query in search.open_queries()[::2]]) / CONFIG.noise
    plus, minus = [episode((1.0, 4.0)), episode((2.0, 2.0))], [episode((3.0, 1.5)), short_episode(2.0)]
    for changes, values in (
        ({}, ((5.0, 4.5), (4.0, 2.0))),
        ({"reward_shift": 1.0}, ((3.0, 2.5), (2.0, 1.0))),
        ({"discounted": True}, ((3.0, 3.75), (3.0, 2.0))),
        ({"discounted": True, "reward_shift": 1.0}, ((1.5, 2.25), (1.5, 1.0))),
    ):
        table = np.array(values)
        expected = ars_step(moves, table[:, 0], table[:, 1], CONFIG.step, 2)
        assert np.allclose(centre(plus, minus, **changes), expected, rtol=1e-12)
    found = [centre(plus, minus, discounted=discounted) for discounted in (True, False)]
    assert not np.allclose(*found, rtol=1e-3)  # The control: what is compared matters.


def test_a_direction_with_a_failed_episode_is_left_out() -> None:
    search = make_search("ars", SPEC, CONFIG, seed=4)
    moves = np.array([query.parameters for query in search.open_queries()[::2]]) / CONFIG.noise
    outcomes: list[Outcome] = [episode((total, 0.0)) for total in (4.0, 1.0, 2.0, 3.0, 100.0, 0.0)]
    outcomes[5] = Failed("fell off the table")
    metrics = tell_all(search, outcomes)
    expected = ars_step(moves[:2], np.array([4.0, 2.0]), np.array([1.0, 3.0]), CONFIG.step, CONFIG.top)
    assert np.allclose(search.incumbent.parameters, expected)
    assert metrics["directions_failed"] == 1
    assert metrics["failures"] == 1


def test_when_everything_fails_it_stays_where_it_is() -> None:
    search = make_search("ars", SPEC, CONFIG, seed=4)
    metrics = tell_all(search, [Failed("no power")] * 6)
    assert np.array_equal(search.incumbent.parameters, np.zeros(2))
    assert metrics["direction_return_mean"] is None


def test_it_climbs() -> None:
    """Maximise −‖θ − (0.5, −0.3)‖² told as one-step episodes."""
    search = make_search("ars", SPEC, replace(CONFIG, step=0.05, directions=4, top=4), seed=0)
    goal = np.array([0.5, -0.3])
    for _ in range(60):
        queries = search.open_queries()
        tell_all(search, [episode((-float(np.sum((query.parameters - goal) ** 2)), 0.0)) for query in queries])
    assert np.linalg.norm(search.incumbent.parameters - goal) < 0.15
