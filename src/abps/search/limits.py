"""Keeping a search within the limits of its task: no query leaves them, whatever the search proposes.

Every policy that is asked for, probes and all of a path included, obeys two limits: no parameter is larger than
`weights`, and no action at a visited state differs from that of the *reference* by more than `action_change`. The
reference is the centre of the last outer iteration that was run, before that the policy that the search starts from. A
proposal outside is brought back along the straight line to the reference. Shapes: d parameters, n policies, m states, a
action size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.normaliser import Normaliser
from abps.policies.path import ParameterPath, between
from abps.policies.policy import Policy, PolicySpace
from abps.trajectory import Trajectory

__all__ = ["LimitKeeper", "LimitMemory", "same_normaliser"]

EPISODES, STATES = 8, 256
"""Newest episodes whose states count as visited, and how many states of each are kept, evenly spaced."""
HALVINGS = 40
"""Of the interval in which the allowed share of a move is looked for."""
ROUNDING = 1e-9
"""Share of a limit by which rounding may exceed it."""


@dataclass
class LimitMemory:
    """What the keeper remembers: two policies, each with the normaliser that it was run under, and visited states."""

    reference: Array
    """(d,)"""
    reference_normaliser: Normaliser
    centre: Array
    """(d,): of this outer iteration; it becomes the reference when it was run."""
    centre_normaliser: Normaliser
    states: list[Array] = field(default_factory=list)
    """(m, s) of each of the newest episodes."""
    ran: bool = False
    """Whether an episode of this outer iteration's centre, or one around it, has worked."""


class LimitKeeper:
    """Brings policies within the limits; made by `of`, only where there are limits to keep."""

    def __init__(self, space: PolicySpace, start: Array, normaliser: Normaliser) -> None:
        self._space, self._bound = space, space.spec.limits.weights
        self._changes = space.spec.limits.changes(space.spec.action_half)
        if self._bound is not None and float(np.abs(start).max()) > self._bound:
            raise ConfigError(
                f"the policy to start from has a parameter of {float(np.abs(start).max()):.4g}, but limits.weights is "
                f"{self._bound:.4g}; start from another one, or raise the limit"
            )
        self.memory = LimitMemory(start, normaliser, start, normaliser)

    @classmethod
    def of(cls, space: PolicySpace, start: Array, normaliser: Normaliser) -> "LimitKeeper | None":
        """The keeper of a task's limits; None when it has none.

        Raises:
            ConfigError: the policy to start from is outside.
        """
        limits = space.spec.limits
        return None if limits.weights is None and not limits.action_change else cls(space, start, normaliser)

    @property
    def reference(self) -> Policy:
        """The policy that actions are compared with."""
        return self._space.policy(self.memory.reference, self.memory.reference_normaliser)

    def must_look(self, policies: Sequence[Policy]) -> bool:
        """Whether these policies cannot be judged: they are not the reference, and no state was visited yet."""
        if self._changes is None or self.memory.states:
            return False
        still = self.memory.reference
        return any(policy.path is not None or not np.array_equal(policy.parameters, still) for policy in policies)

    def within(self, policy: Policy, centre: Array) -> Policy:
        """The policy, or the nearest one within the limits on the way from the reference to it.

        Args:
            policy: what the search proposes.
            centre: (d,) the search's centre under the same normaliser, from which the way starts if the reference
                cannot be expressed under it.
        """
        normaliser = policy.normaliser
        anchor = self._anchor(normaliser, centre)
        if anchor is None:
            return self.reference
        parameters = self._nearest(policy.parameters, anchor, normaliser)
        path = None if policy.path is None else self._path(policy.path, anchor, normaliser)
        return self._space.policy(parameters, normaliser, path)

    def saw(self, trajectories: Sequence[Trajectory], *, around_centre: bool) -> None:
        """Take in the states of episodes of one query."""
        for trajectory in trajectories:
            # The last state counts as well, unless the task ended there: no policy acts in it again.
            visited = trajectory.observations[:-1] if trajectory.terminated else trajectory.observations
            rows = np.unique(np.linspace(0, len(visited) - 1, STATES).astype(int))
            self.memory.states = [*self.memory.states, np.array(visited[rows], dtype=np.float64)][-EPISODES:]
        self.memory.ran = self.memory.ran or (around_centre and len(trajectories) > 0)

    def move(self, wanted: Policy) -> tuple[Policy, float]:
        """End an outer iteration: the centre that was run is the new reference.

        Returns:
            The new centre, within the limits, and the share of the wanted move that it is.
        """
        memory = self.memory
        if memory.ran:
            memory.reference, memory.reference_normaliser, memory.ran = memory.centre, memory.centre_normaliser, False
        anchor = self._anchor(wanted.normaliser, self._remapped(wanted.normaliser))
        share, centre = 0.0, self.reference
        if anchor is not None:
            share = self._share(self._clipped(wanted.parameters), anchor, wanted.normaliser)
            centre = self._space.policy(self._nearest(wanted.parameters, anchor, wanted.normaliser), wanted.normaliser)
        memory.centre, memory.centre_normaliser = centre.parameters, centre.normaliser
        return centre, share

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _remapped(self, normaliser: Normaliser) -> Array:
        """The reference under another normaliser, as nearly as parameters can express it."""
        memory = self.memory
        if same_normaliser(memory.reference_normaliser, normaliser):
            return memory.reference
        return self._clipped(self._space.remapped(memory.reference, memory.reference_normaliser, normaliser))

    def _anchor(self, normaliser: Normaliser, centre: Array) -> Array | None:
        """Parameters within the limits to start from under a normaliser; None: there are none."""
        for anchor in (self._remapped(normaliser), self._clipped(centre)):
            if self._allowed(anchor[None], normaliser)[0]:
                return anchor
        return None

    def _nearest(self, wanted: Array, anchor: Array, normaliser: Normaliser) -> Array:
        clipped = self._clipped(wanted)
        share = self._share(clipped, anchor, normaliser)
        return clipped if share == 1.0 else anchor + share * (clipped - anchor)

    def _share(self, wanted: Array, anchor: Array, normaliser: Normaliser) -> float:
        """The largest share of the way that is allowed, by halving; one that is allowed for certain."""
        if self._allowed(wanted[None], normaliser)[0]:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            inside = self._allowed((anchor + middle * (wanted - anchor))[None], normaliser)[0]
            low, high = (middle, high) if inside else (low, middle)
        return low

    def _path(self, path: ParameterPath, anchor: Array, normaliser: Normaliser) -> ParameterPath:
        """Every knot within the limits; then all drawn in, while a place between two knots is not."""
        knots = np.stack([self._nearest(knot, anchor, normaliser) for knot in path.knots])
        for _ in range(HALVINGS):
            if np.all(self._allowed(between(knots), normaliser)):
                return ParameterPath(knots, path.interval)
            knots = anchor + 0.5 * (knots - anchor)
        return ParameterPath(np.repeat(anchor[None], len(knots), axis=0), path.interval)

    def _clipped(self, parameters: Array) -> Array:
        return parameters if self._bound is None else np.clip(parameters, -self._bound, self._bound)

    def _allowed(self, parameters: Array, normaliser: Normaliser) -> list[bool]:
        """Whether policies (n, d) are within the limits."""
        allowed = np.full(len(parameters), True)
        if self._bound is not None:
            allowed &= np.abs(parameters).max(axis=1) <= self._bound * (1.0 + ROUNDING)
        if self._changes is not None and self.memory.states:
            states = np.concatenate(self.memory.states)
            before, after = self.reference.actions(states), self._space.actions(parameters, states, normaliser)
            inside = np.abs(after - before) <= self._changes * (1.0 + ROUNDING)
            allowed &= inside.all(axis=(1, 2))
        return allowed.tolist()


def same_normaliser(one: Normaliser, other: Normaliser) -> bool:
    """Whether two normalisers are the same numbers; a restored one is another object."""
    same = one.count == other.count and np.array_equal(one.mean, other.mean) and np.array_equal(one.m2, other.m2)
    return one is other or same
