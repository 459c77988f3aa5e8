"""Episodes as data: dtypes, shapes, returns, and what is refused."""

import numpy as np
import pytest

from abps.errors import ShapeError
from abps.trajectory import Trajectory, discounts


def episode(steps: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "observations": rng.standard_normal((steps + 1, 3)),
        "actions": rng.standard_normal((steps, 2)),
        "rewards": rng.standard_normal(steps),
    }


def build(**changes: np.ndarray) -> Trajectory:
    return Trajectory.build(**{**episode(), **changes}, terminated=True, truncated=False)


def test_arrays_get_the_contracts_types() -> None:
    trajectory = build()
    assert trajectory.observations.dtype == np.float32
    assert trajectory.actions.dtype == np.float32
    assert trajectory.rewards.dtype == np.float64
    assert len(trajectory) == 4
    assert trajectory.terminated
    assert not trajectory.truncated


def test_returns_are_the_sums_they_say() -> None:
    trajectory = build(rewards=np.array([1.0, 2.0, 4.0, 8.0]))
    assert trajectory.total() == 15.0
    assert trajectory.total(0.5) == 1.0 + 1.0 + 1.0 + 1.0
    assert trajectory.total(1.0, 1.0) == 11.0
    assert trajectory.total(0.5, 1.0) == pytest.approx(0.0 + 0.5 * 1.0 + 0.25 * 3.0 + 0.125 * 7.0)


def test_discounts_start_at_one() -> None:
    assert np.allclose(discounts(0.9, 3), [1.0, 0.9, 0.81])
    assert np.array_equal(discounts(1.0, 3), np.ones(3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.empty(0)}, "at least one step"),
        ({"rewards": np.zeros((4, 1))}, "must be a vector"),
        ({"observations": np.zeros((4, 3))}, r"\(5, s\), one more than the 4 rewards, got \(4, 3\)"),
        ({"actions": np.zeros((5, 2))}, r"\(4, a\), one per reward, got \(5, 2\)"),
        ({"actions": np.zeros(4)}, "one per reward"),
        ({"rewards": np.array([0.0, 1.0, np.nan, 0.0])}, "rewards contain .* not finite, first at step 2"),
        ({"observations": np.full((5, 3), np.inf)}, "observations contain .* first at step 0"),
    ],
)
def test_what_is_no_episode_is_refused_with_the_reason(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        build(**changes)
