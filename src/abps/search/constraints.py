"""Keeping the constraints of a task: every policy that is asked for is, under the model, within them with probability
p.

Each constraint has a process of its own (`model/costs.py`) over all policies that were tried, in the chart of the
actions, with critics of its own; a failed episode is a measurement above the limit. A proposal is brought back, along
the straight line, towards the *anchor*: the search's centre, or, when that is not safe enough, the nearest tried policy
that is, or the most probably safe one when none is. Of a path every knot, and places between, are kept on their own,
and so is the path as a whole, moving included. Before anything was measured only the policy that the search starts from
is run. When not even the anchor is safe, what is asked for is nearly as safe as it at least, and the centre goes where
it becomes safer. Shapes: d parameters, m policies, c constraints.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from abps.arrays import Array
from abps.data.visits import Visits
from abps.data.window import Point
from abps.model.chart import ActionMetric
from abps.model.costs import CRASH, CostProcess, margin_unit
from abps.model.gp import Model
from abps.model.neighbourhood import Neighbourhood
from abps.normaliser import Normaliser
from abps.policies.path import ParameterPath, between
from abps.policies.policy import Policy, PolicySpace
from abps.search.limits import same_normaliser
from abps.seeding import generator
from abps.settings import replace
from abps.tasks.constraints import Constraint
from abps.trajectory import Failed, Outcome, Trajectory

__all__ = ["ConstraintKeeper", "ConstraintMemory", "Kept", "Tried", "Verdict"]

WINDOW = 60
"""Newest tried policies that the processes keep."""
EPISODES = 24
"""Newest episodes whose steps the critics learn from."""
CHART_POINTS, STATES = 8, 256
"""Newest policies whose states the chart is measured on, and how many of each."""
SHARES = 32
"""Evenly spaced shares of a move at which its safety is looked at."""
LEEWAY = 0.25
"""When nothing known is safe: by how much, in standard deviations, a query may be less safe than the anchor."""
RECOVERY = 0.3
"""Longest step down the expected cost when every known policy probably breaks a limit, in the chart."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Tried:
    """A policy that was run, and what it cost."""

    parameters: Array
    """(d,), in the coordinates of `normaliser`."""
    normaliser: Normaliser
    costs: Array
    """(e, c): of every episode that worked."""
    crashes: int
    """Episodes that failed."""
    role: str
    iteration: int
    visits: Visits | None
    """Where its episodes went; kept of the newest few."""
    excitation: float = 0.0
    """Of the path that it moved along: root-mean-square distance of the knots from the parameters, in the chart."""


@dataclass
class ConstraintMemory:
    """What the keeper remembers; the processes remember the rest."""

    centre: Array
    """(d,): the search's centre when it was told last."""
    normaliser: Normaliser
    tried: list[Tried] = field(default_factory=list)
    recent: list[Trajectory] = field(default_factory=list)
    violations: int = 0
    """Episodes so far whose cost was above a limit."""


class Kept(NamedTuple):
    """A move of the centre, as far as the constraints let it through."""

    centre: Array
    """(d,)"""
    share: float
    """Of the wanted move; 0 where it goes somewhere else."""
    probability: float
    """The smallest P(cost ≤ limit) of all constraints at the new centre."""


class Verdict(NamedTuple):
    """What was thought of a policy before its episodes were told."""

    excitation: float = 0.0
    """Of its path; 0: at rest."""
    safe: bool = False


class _Anchor(NamedTuple):
    parameters: Array
    level: float
    """Safety that a policy must have: 0, or nearly the anchor's own when that is below."""


class ConstraintKeeper:
    """Brings policies within the constraints; made by `of`, only where there are some."""

    def __init__(self, space: PolicySpace, start: Array, normaliser: Normaliser, seed: int) -> None:
        self._space, self._seed = space, seed
        self._constraints = space.spec.constraints
        self.processes = [CostProcess(item, space, seed) for item in self._constraints]
        self.memory = ConstraintMemory(start, normaliser)
        self._models: tuple[ConstraintMemory, Normaliser, list[Model]] | None = None

    @classmethod
    def of(cls, space: PolicySpace, start: Array, normaliser: Normaliser, seed: int) -> "ConstraintKeeper | None":
        """The keeper of a task's constraints; None when it has none."""
        return cls(space, start, normaliser, seed) if space.spec.constraints else None

    def violated(self, outcome: Outcome) -> bool:
        """Whether an episode broke a constraint; one that failed did not tell."""
        if isinstance(outcome, Failed):
            return False
        return bool(np.any(_costs(outcome, self._constraints) > [item.limit for item in self._constraints]))

    def must_look(self, policies: Sequence[Policy]) -> bool:
        """Whether these policies cannot be judged: they are not the start, and no episode has worked yet."""
        start = self.memory.centre
        moved = [item.path is not None or not np.array_equal(item.parameters, start) for item in policies]
        return not self.memory.recent and any(moved)

    def judged(self, policy: Policy) -> Verdict:
        """What the processes think of a policy; the first ones are judged by nobody, and count as not safe."""
        if not self.memory.recent:
            return Verdict()
        excitation = self._excitation(policy)
        safety = self.safety(policy.parameters[None], policy.normaliser, excitation)
        return Verdict(excitation, bool(safety[0] >= -ROUNDING))

    def saw(
        self, number: int, policy: Policy, outcomes: Sequence[Outcome], verdict: Verdict, role: str, iteration: int
    ) -> None:
        """Take in the episodes of one query, by its number; `learn` follows when all of a stage are taken in."""
        memory, worked = self.memory, [item for item in outcomes if isinstance(item, Trajectory)]
        memory.violations += sum(map(self.violated, worked))
        costs = np.array([_costs(item, self._constraints) for item in worked]).reshape(-1, len(self._constraints))
        crashes, visits = len(outcomes) - len(worked), None
        for column, process in enumerate(self.processes):
            above = int(np.sum(costs[:, column] > process.constraint.limit))
            process.note(above + crashes if verdict.safe else 0, len(worked) - above)
        if worked:
            rng = generator(self._seed, "constraint visits", number)
            visits = Visits.collect(worked, 1.0, STATES, rng)
        place = (policy.parameters, policy.normaliser)
        tried = Tried(*place, costs, crashes, role, iteration, visits, verdict.excitation)
        memory.tried = _newest([*memory.tried, tried])
        memory.recent = [*memory.recent, *worked][-EPISODES:]

    def learn(self, centre: Policy) -> None:
        """Fit all processes around the search's centre."""
        self.memory.centre, self.memory.normaliser, self._models = centre.parameters, centre.normaliser, None
        if self.memory.recent:
            for column, process in enumerate(self.processes):
                process.learn(*self._near(column, centre.normaliser), column, self.memory.recent)

    def within(self, policy: Policy, centre: Array) -> Policy:
        """The policy, or the last one on the way from the anchor to it up to which all are safe.

        Args:
            policy: what the search proposes.
            centre: (d,) the search's centre under the same normaliser.
        """
        if not self.memory.recent:
            return policy  # The start itself: `must_look` has seen to it.
        normaliser, path = policy.normaliser, policy.path
        anchor = self._anchor(centre, normaliser)
        parameters = self._nearest(policy.parameters[None], anchor, normaliser)[0]
        middle = self._space.policy(parameters, normaliser)
        return middle if path is None else self._along(path, middle, anchor)

    def move(self, wanted: Policy) -> Kept | None:
        """The next centre: the wanted one, as far as it is safe; None: nothing is known yet."""
        if not self.memory.recent:
            return None
        normaliser = wanted.normaliser
        anchor = self._anchor(self._remapped(self.memory.centre, self.memory.normaliser, normaliser), normaliser)
        share = float(self._shares(wanted.parameters[None], anchor, normaliser)[0])
        centre = wanted.parameters if share == 1.0 else _part(anchor.parameters, wanted.parameters, share)
        if anchor.level < 0.0:
            centre, share = self._safest(anchor, normaliser), 0.0
        return Kept(centre, share, self.probability(centre, normaliser))

    def probability(self, parameters: Array, normaliser: Normaliser) -> float:
        """The smallest P(cost ≤ limit) of all constraints for parameters (d,)."""
        return float(ndtr(self._scores(parameters[None], normaliser)).min())

    def safety(self, parameters: Array, normaliser: Normaliser, excitation: float = 0.0) -> Array:
        """How safe policies (m, d) are (m,), in standard deviations: not negative when all constraints are kept.

        Args:
            parameters: of the policies, or the middles of paths.
            normaliser: that they are to be run with.
            excitation: of the paths; 0: at rest.
        """
        wanted = [process.threshold for process in self.processes]
        return (self._scores(parameters, normaliser, excitation) - wanted).min(axis=1)

    def trusts(self, parameters: Array, normaliser: Normaliser) -> bool:
        """Whether a policy (d,) is at least as safe as queries must be."""
        anchor = self._anchor(self._remapped(self.memory.centre, self.memory.normaliser, normaliser), normaliser)
        return bool(self.safety(parameters[None], normaliser)[0] >= anchor.level - ROUNDING)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _scores(self, parameters: Array, normaliser: Normaliser, excitation: float = 0.0) -> Array:
        """z (m, c): Φ(z) is the probability of every constraint."""
        models = self._fitted(normaliser)
        pairs = zip(self.processes, models, strict=True)
        return np.stack([process.score(model, parameters, excitation) for process, model in pairs], axis=1)

    def _excitation(self, policy: Policy) -> float:
        """Root-mean-square distance of the knots of a policy's path from its middle, in the chart; 0 at rest."""
        if policy.path is None:
            return 0.0
        chart = self._fitted(policy.normaliser)[0].neighbourhood.coordinates
        distances = chart.to_chart(policy.path.knots) - chart.to_chart(policy.parameters)
        return float(np.sqrt(np.square(distances).sum(axis=1).mean()))

    def _fitted(self, normaliser: Normaliser) -> list[Model]:
        """The processes under a normaliser, computed anew when it, or what is remembered, is another."""
        known = self._models
        if known is None or known[0] is not self.memory or known[1] is not normaliser:
            made = [item.model(*self._near(column, normaliser)) for column, item in enumerate(self.processes)]
            self._models = known = (self.memory, normaliser, made)
        return known[2]

    def _near(self, column: int, normaliser: Normaliser) -> tuple[Neighbourhood, Array]:
        """The tried policies around the centre as one process sees them (returns are costs above the limit), and their
        excitations."""
        memory, limit = self.memory, self._constraints[column].limit
        measured = np.concatenate([item.costs[:, column] for item in memory.tried])
        unit = margin_unit(measured, limit)
        entries = [
            Point(
                item.parameters,
                item.normaliser,
                np.append(np.minimum(item.costs[:, column] - limit, CRASH * unit), [CRASH * unit] * item.crashes),
                item.role,
                item.iteration,
                item.visits,
            )
            for item in memory.tried
        ]
        centre = self._space.policy(self._remapped(memory.centre, memory.normaliser, normaliser), normaliser)
        near = Neighbourhood(centre, tuple(entries), unit, ActionMetric(), remap=True)
        return near, np.array([item.excitation for item in memory.tried])

    def _remapped(self, parameters: Array, old: Normaliser, new: Normaliser) -> Array:
        return parameters if same_normaliser(old, new) else self._space.remapped(parameters, old, new)

    def _anchor(self, centre: Array, normaliser: Normaliser) -> _Anchor:
        """The centre, if it is safe, or else the nearest tried policy that is; the safest of all when none is."""
        near = self._fitted(normaliser)[0].neighbourhood
        candidates = np.vstack([centre[None], near.parameters])
        safety = self.safety(candidates, normaliser)
        highest = float(safety.max())
        if highest < 0.0:
            return _Anchor(candidates[int(np.argmax(safety))], highest - LEEWAY)
        places = near.coordinates.to_chart(candidates)
        distances = np.linalg.norm(places - places[0], axis=1)
        return _Anchor(candidates[int(np.argmin(np.where(safety >= 0.0, distances, np.inf)))], 0.0)

    def _shares(self, wanted: Array, anchor: _Anchor, normaliser: Normaliser) -> Array:
        """The largest shares (m,) of the ways from the anchor to policies (m, d) up to which all are safe."""
        shares = np.arange(1, SHARES + 1) / SHARES
        ways = anchor.parameters + shares[:, None, None] * (wanted - anchor.parameters)
        safety = self.safety(ways.reshape(-1, wanted.shape[1]), normaliser).reshape(SHARES, -1)
        inside = np.logical_and.accumulate(safety >= anchor.level - ROUNDING, axis=0)
        return inside.sum(axis=0) / SHARES

    def _nearest(self, wanted: Array, anchor: _Anchor, normaliser: Normaliser) -> Array:
        """The policies (m, d), each brought back as far as it must be."""
        shares = self._shares(wanted, anchor, normaliser)[:, None]
        return np.where(shares == 1.0, wanted, _part(anchor.parameters, wanted, shares))

    def _along(self, path: ParameterPath, middle: Policy, anchor: _Anchor) -> Policy:
        """The middle with a path: every knot is brought back, then all are drawn in to the middle while a place between
        two knots, or moving along them, is not safe."""
        normaliser, here = middle.normaliser, middle.parameters
        knots, least = self._nearest(path.knots, anchor, normaliser), anchor.level - ROUNDING
        for share in np.arange(SHARES, -1, -1) / SHARES:
            drawn = _part(here, knots, share)
            moving = self._space.policy(here, normaliser, ParameterPath(drawn, path.interval))
            safe = self.safety(here[None], normaliser, self._excitation(moving))[0] >= least
            if share == 0.0 or (safe and np.all(self.safety(between(drawn), normaliser) >= least)):
                return moving
        raise RuntimeError("a path without any length is always let through")

    def _safest(self, anchor: _Anchor, normaliser: Normaliser) -> Array:
        """The anchor, to be measured again; or, where that probably breaks a limit, a step down its expected cost."""
        scores = self._scores(anchor.parameters[None], normaliser)[0]
        if scores.min() > 0.0:
            return anchor.parameters
        model = self._fitted(normaliser)[int(np.argmin(scores))]
        chart, slope = model.neighbourhood.coordinates, model.posterior.mu
        lengths = RECOVERY * np.arange(SHARES + 1) / SHARES
        steps = -lengths[:, None] * slope / max(float(np.linalg.norm(slope)), ROUNDING)
        ways = chart.to_parameters(chart.to_chart(anchor.parameters) + steps)
        return ways[int(np.argmax(self.safety(ways, normaliser)))]


def _part(start: Array, end: Array, share: float | Array) -> Array:
    return start + share * (end - start)


def _costs(trajectory: Trajectory, constraints: Sequence[Constraint]) -> Array:
    """An episode's cost of every constraint (c,)."""
    return np.array([item.episode_cost(trajectory.costs[:, place]) for place, item in enumerate(constraints)])


def _newest(tried: list[Tried]) -> list[Tried]:
    """The newest of them; visited states are kept of the newest few that have some."""
    kept, known = list[Tried](), 0
    for item in reversed(tried[-WINDOW:]):
        known += item.visits is not None
        kept.append(item if known <= CHART_POINTS else replace(item, visits=None))
    return kept[::-1]
