"""The ring against a list that simply grows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abps.data import Replay
from abps.errors import ConfigError, ShapeError
from abps.trajectory import Trajectory


def episode(steps: int, start: int, *, terminated: bool = False) -> Trajectory:
    """An episode whose every number tells where it comes from."""
    clock = np.arange(start, start + steps + 1, dtype=np.float64)
    return Trajectory.build(
        np.stack([clock, -clock], axis=1),
        clock[:-1, None] + 0.5,
        clock[:-1] * 2,
        terminated=terminated,
        truncated=not terminated,
    )


def rows(transitions) -> list[tuple[float, ...]]:
    return [
        (*s, *a, float(r), *n, bool(t), bool(e))
        for s, a, r, n, t, e in zip(*(part.tolist() for part in transitions), strict=True)
    ]


def expected(trajectory: Trajectory) -> list[tuple[float, ...]]:
    last = len(trajectory) - 1
    return [
        (
            *trajectory.observations[t].tolist(),
            *trajectory.actions[t].tolist(),
            float(trajectory.rewards[t]),
            *trajectory.observations[t + 1].tolist(),
            trajectory.terminated and t == last,
            t == last,
        )
        for t in range(last + 1)
    ]


@settings(max_examples=200, deadline=None)
@given(
    capacity=st.integers(1, 12),
    episodes=st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=8),
    count=st.integers(0, 20),
    reload_at=st.integers(0, 8),
)
def test_ring_is_the_tail_of_a_list(capacity, episodes, count, reload_at):
    replay, model = Replay(capacity, 2, 1), []
    for number, (steps, terminated) in enumerate(episodes):
        if number == reload_at:
            state = {
                key: np.array(value) if isinstance(value, np.ndarray) else value
                for key, value in replay.contents().items()
            }
            replay = Replay(capacity, 2, 1)
            replay.fill(state)
        trajectory = episode(steps, 100 * number, terminated=terminated)
        assert replay.append(trajectory) == steps
        model += expected(trajectory)
        kept = model[-capacity:]
        assert replay.total == len(model)
        assert len(replay) == len(kept)
        assert rows(replay.newest(count)) == (kept[-count:] if count else [])
        assert sorted(rows(replay.gather(np.arange(len(replay))))) == sorted(kept)


@settings(max_examples=300, deadline=None)
@given(
    capacity=st.integers(1, 30),
    lengths=st.lists(st.integers(1, 9), max_size=8),
    count=st.integers(1, 30),
    steps=st.integers(1, 10),
    newest=st.one_of(st.none(), st.integers(1, 8)),
)
def test_beginnings_are_those_of_a_list_of_episodes(capacity, lengths, count, steps, newest):
    """`newest`: only so many of the last episodes are looked at."""
    replay, episodes = Replay(capacity, 2, 1), []
    for number, length in enumerate(lengths):
        replay.append(episode(length, 100 * number, terminated=True))
        episodes.append(expected(episode(length, 100 * number, terminated=True)))
    among = None if newest is None else sum(len(item) for item in episodes[-newest:])
    remembered, room = [], capacity
    for item in reversed(episodes if newest is None else episodes[-newest:]):
        kept = item[max(0, len(item) - room) :]
        room -= len(kept)
        if kept:
            remembered.insert(0, kept)
    wanted, room = [], count
    for item in reversed(remembered):
        cut = item[: min(steps, count)]
        if len(cut) > room:
            break
        room -= len(cut)
        wanted = [*cut[:-1], (*cut[-1][:-1], True), *wanted]  # The last of them is marked as an end.
    assert rows(replay.beginnings(count, steps, among)) == wanted


def test_only_termination_is_stored_as_termination():
    replay = Replay(10, 2, 1)
    replay.append(episode(3, 0, terminated=False))
    replay.append(episode(3, 10, terminated=True))
    assert replay.newest(10).terminated.tolist() == [False] * 5 + [True]


def test_samples_cover_what_is_stored_and_nothing_else():
    replay = Replay(8, 2, 1)
    with pytest.raises(ShapeError, match="empty replay"):
        replay.indices(np.random.default_rng(0), 4)
    replay.append(episode(5, 0))
    drawn = replay.indices(np.random.default_rng(0), (50, 4))
    assert drawn.shape == (50, 4)
    assert set(drawn.ravel()) == set(range(5))
    assert replay.gather(drawn).states.shape == (50, 4, 2)


def test_memory_is_taken_when_it_is_used():
    replay = Replay(1_000_000, 105, 8)  # Ant's size: 0.9 GB if it were written.
    before = _resident_megabytes()
    replay.append(episode_of_size(1000, 105, 8))
    assert _resident_megabytes() - before < 50


def episode_of_size(steps: int, s: int, a: int) -> Trajectory:
    return Trajectory.build(
        np.ones((steps + 1, s)), np.ones((steps, a)), np.ones(steps), terminated=False, truncated=True
    )


def _resident_megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def test_newest_is_a_view_and_wrong_sizes_are_refused():
    replay = Replay(10, 2, 1)
    replay.append(episode(4, 0))
    assert np.shares_memory(replay.newest(2).states, replay.newest(4).states)
    with pytest.raises(ShapeError, match="same task"):
        replay.append(episode_of_size(3, 3, 1))
    with pytest.raises(ShapeError, match="capacity"):
        Replay(11, 2, 1).fill(replay.contents())
    with pytest.raises(ConfigError, match="capacity"):
        Replay(0, 2, 1)
