"""Replay: a ring of the newest transitions, the data that critics learn from (paper Algorithm 1).

Shapes: c capacity, n transitions asked for, s observation size, a action size. Everything is float32; rewards are
stored as the environment gave them and scaled by whoever uses them. The arrays are reserved at once but their memory is
handed out by the operating system page by page when first written, so a small run stays small and nothing is ever
copied to grow.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abps.errors import ConfigError, ShapeError
from abps.trajectory import Trajectory

__all__ = ["Replay", "Transitions"]


class Transitions(NamedTuple):
    """n transitions; `terminated` is true only where the MDP ended, so a truncated episode's last s' bootstraps."""

    states: NDArray[np.float32]
    """(n, s)"""
    actions: NDArray[np.float32]
    """(n, a)"""
    rewards: NDArray[np.float32]
    """(n,): unscaled."""
    next_states: NDArray[np.float32]
    """(n, s)"""
    terminated: NDArray[np.bool_]
    """(n,)"""
    last: NDArray[np.bool_]
    """(n,): whether an episode ended here, by termination or truncation."""


class Replay:
    """The newest `capacity` transitions; appending costs O(episode), reading the newest n costs O(n)."""

    def __init__(self, capacity: int, observation_dim: int, action_dim: int) -> None:
        """Reserve room for `capacity` transitions.

        Raises:
            ConfigError: the capacity is not positive.
        """
        if capacity < 1:
            raise ConfigError(f"replay capacity must be at least 1 transition, got {capacity}")
        self.capacity = int(capacity)
        self.total = 0
        """Transitions ever appended; those before `total - len(self)` are forgotten."""
        self._ring = Transitions(
            np.empty((capacity, observation_dim), dtype=np.float32),
            np.empty((capacity, action_dim), dtype=np.float32),
            np.empty(capacity, dtype=np.float32),
            np.empty((capacity, observation_dim), dtype=np.float32),
            np.empty(capacity, dtype=np.bool_),
            np.empty(capacity, dtype=np.bool_),
        )

    def __len__(self) -> int:
        return min(self.total, self.capacity)

    def append(self, trajectory: Trajectory) -> int:
        """Store an episode's transitions, forgetting the oldest ones if there is no room; return how many it had.

        Raises:
            ShapeError: the episode's observations or actions have another size than this replay's.
        """
        for name, given, ring in (
            ("observations", trajectory.observations, self._ring.states),
            ("actions", trajectory.actions, self._ring.actions),
        ):
            if given.shape[1] != ring.shape[1]:
                raise ShapeError(
                    f"{name} have size {given.shape[1]}, this replay stores {ring.shape[1]}; is it the same task?"
                )
        steps = len(trajectory)
        terminated = np.zeros(steps, dtype=np.bool_)
        terminated[-1] = trajectory.terminated
        last = np.zeros(steps, dtype=np.bool_)
        last[-1] = True
        self._write(
            Transitions(
                trajectory.observations[:-1],
                trajectory.actions,
                trajectory.rewards.astype(np.float32),
                trajectory.observations[1:],
                terminated,
                last,
            )
        )
        return steps

    def newest(self, count: int) -> Transitions:
        """Return the newest `count` transitions (fewer if there are fewer), oldest first.

        The arrays are views of the ring where the stretch does not wrap round: read them before the next append.
        """
        return Transitions._make(self._stretch(part, count) for part in self._ring)

    def beginnings(self, count: int, steps: int, among: int | None = None) -> Transitions:
        """Return the first `steps` transitions (`count` at most) of each of the newest episodes, as many as make no
        more than `count` in all, oldest first.

        `last` is true where an episode is cut off, too; nothing else tells such an end from a time limit's. Only the
        newest `among` transitions are looked at, by default all. An episode whose own beginning is forgotten begins
        where memory does.
        """
        span = len(self) if among is None else min(int(among), len(self))
        ends = np.flatnonzero(self._stretch(self._ring.last, span)) + 1
        if count < 1 or not len(ends):
            return self.newest(0)
        starts = np.concatenate([[0], ends[:-1]])
        lengths = np.minimum(ends - starts, min(steps, count))
        episodes = int(np.searchsorted(np.cumsum(lengths[::-1]), count, side="right"))
        starts, lengths = starts[-episodes:], lengths[-episodes:]
        stops = np.cumsum(lengths)
        rows = np.repeat(starts - (stops - lengths), lengths) + np.arange(lengths.sum())
        data = self.gather((self.total - span + rows) % self.capacity)
        data.last[stops - 1] = True
        return data

    def newest_episodes(self, count: int) -> Transitions:
        """Return the transitions of the newest `count` whole episodes (fewer if there are fewer), oldest first.

        An episode whose own beginning is forgotten is left out, unless it is the only one.
        """
        ends = np.flatnonzero(self._stretch(self._ring.last, len(self))) + 1
        whole = len(ends) - (self.total > self.capacity and len(ends) > 1)
        kept = min(count, whole)
        if kept < 1:
            return self.newest(0)
        first = int(ends[-kept - 1]) if kept < len(ends) else 0
        return self.newest(len(self) - first)

    def _stretch(self, part: NDArray[Any], count: int) -> NDArray[Any]:
        """The newest `count` rows of one of the ring's arrays, oldest first; a view where they do not wrap round."""
        count = min(int(count), len(self))
        start = (self.total - count) % self.capacity
        if start + count <= self.capacity:
            return part[start : start + count]
        return np.concatenate([part[start:], part[: start + count - self.capacity]])

    def indices(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw positions uniformly with replacement, to be given to `gather`.

        Raises:
            ShapeError: nothing is stored yet.
        """
        if self.total == 0:
            raise ShapeError("cannot sample from an empty replay; append an episode first")
        return rng.integers(0, len(self), size=shape)

    def gather(self, indices: NDArray[np.integer]) -> Transitions:
        """Return the transitions at positions of any shape (…): arrays (…, s), (…, a), (…), (…, s), (…)."""
        return Transitions._make(part.take(indices, axis=0) for part in self._ring)

    def contents(self) -> dict[str, Any]:
        """Everything stored; the arrays are views of what is filled, in ring order."""
        filled = {name: part[: len(self)] for name, part in self._ring._asdict().items()}
        return {"capacity": self.capacity, "total": self.total, **filled}

    def fill(self, state: dict[str, Any]) -> None:
        """Take over what `contents` returned.

        Raises:
            ShapeError: the state belongs to a replay of another capacity or task.
        """
        if int(state["capacity"]) != self.capacity:
            raise ShapeError(f"saved replay has capacity {state['capacity']}, this one {self.capacity}")
        filled = min(int(state["total"]), self.capacity)
        for name, part in self._ring._asdict().items():
            given = np.asarray(state[name])
            if given.shape != (filled, *part.shape[1:]):
                raise ShapeError(
                    f"saved replay's {name} have shape {given.shape}, expected {(filled, *part.shape[1:])}"
                )
            part[:filled] = given
        self.total = int(state["total"])

    def refill(self, trajectories: Sequence[Trajectory], total: int) -> None:
        """Bring back the ring as it was after `total` transitions, every transition at its old place.

        Args:
            trajectories: the last appended episodes, oldest first; together they must fill the ring as it was.
            total: transitions ever appended, those of the trajectories included.

        Raises:
            ShapeError: the trajectories hold too few transitions.
        """
        given = sum(len(trajectory) for trajectory in trajectories)
        if given < min(total, self.capacity):
            raise ShapeError(f"{given} transitions cannot bring back a replay of {min(total, self.capacity)}")
        self.total = total - given
        for trajectory in trajectories:
            self.append(trajectory)

    def _write(self, new: Transitions) -> None:
        count = len(new.rewards)
        kept = min(count, self.capacity)  # An episode longer than the ring leaves only its end.
        start = (self.total + count - kept) % self.capacity
        first = min(kept, self.capacity - start)
        for part, given in zip(self._ring, new, strict=True):
            part[start : start + first] = given[count - kept : count - kept + first]
            part[: kept - first] = given[count - kept + first :]
        self.total += count
