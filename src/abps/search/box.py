"""Bayesian optimisation of policies in a box: any optimiser of the unit cube, on the parameters of a policy class.

Policies are unbounded, optimisers of a cube are not. The box is ± `box` around the initial parameters in every
coordinate (for linear policies: around zero), in units of the parameters: with tanh policies and observations of the
size of one, a weight of one lets one observation move its action over most of its range.

A stage is a batch of the optimiser, and an outer iteration, with its evaluation, at least `EPISODES` episodes. The
current policy is the one that the optimiser believes to be the best. Shapes: n measured points, d parameters.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abps.arrays import Array
from abps.normaliser import Normaliser
from abps.optimisers.base import Batch, Measured, Optimiser
from abps.optimisers.turbo import Turbo
from abps.policies.base import PolicyClass
from abps.policies.linear import LinearTanh
from abps.policies.observations import Observations, RawObservations
from abps.search.base import Answer, Metrics, Proposal, Search, SearchConfig
from abps.search.budget import BudgetConfig
from abps.seeding import generator
from abps.settings import require, setting
from abps.tasks.spec import TaskSpec

__all__ = ["BoxCache", "BoxMemory", "BoxSearch", "BoxSearchConfig"]

EPISODES = 10
"""An outer iteration ends with the stage that brings it to so many episodes."""


@dataclass(frozen=True)
class BoxSearchConfig(SearchConfig):
    """Bayesian optimisation of policies whose parameters lie in a box.

    Example:
        >>> import abps
        >>> from abps.search.box import BoxSearchConfig
        >>> search = BoxSearchConfig(box=2.0).make(abps.make_task("pendulum").spec, seed=0)
        >>> bool(abs(search.ask().parameters).max() <= 2.0)
        True
    """

    policy: PolicyClass = setting(LinearTanh(), "class of policies")
    observations: Observations = setting(
        RawObservations(), "what policies see; measured points keep their parameters when a normaliser changes"
    )
    reward_shift: float = setting(0.0, "subtracted from every reward (the survival bonus)")
    optimiser: Optimiser = setting(Turbo(), "how points of the box are chosen")
    box: float = setting(1.0, "half width of the box around the initial parameters", common=True)
    discount: float | None = setting(1.0, "γ of the return that is maximised; none: the task's")

    def __post_init__(self) -> None:
        require(0 < self.box < np.inf, f"box must be positive and finite, got {self.box}")
        require(self.discount is None or 0 < self.discount <= 1, "discount must be in (0, 1]")
        require(
            not self.observations.remaps,
            "a search in a box cannot re-map its points: they would leave the box; switch observations.remap off",
        )

    def make(self, spec: TaskSpec, *, seed: int = 0, budget: BudgetConfig | None = None, name: str = "") -> "BoxSearch":
        return BoxSearch(spec, self, seed=seed, budget=budget, name=name)


@dataclass
class BoxMemory:
    """What a search in a box remembers beside its progress."""

    measured: Measured
    optimiser: Any
    """What the optimiser remembers."""
    fresh: Normaliser
    """Observations of this outer iteration."""
    origin: Array
    """(d,): the middle of the box."""
    stage: int = 0
    """Stages told so far; they name the random numbers."""
    episodes: int = 0
    """Episodes of this outer iteration."""
    last: Array | None = None
    """(d,): the current policy at the end of the last outer iteration."""
    metrics: Metrics = field(default_factory=dict[str, Any])
    """What the optimiser said of its last stage."""


@dataclass
class BoxCache:
    """What a search in a box can compute again."""

    batch: Batch | None = None
    """The open stage, in the unit cube."""


class BoxSearch(Search[BoxSearchConfig]):
    """One stage per batch of the optimiser."""

    memory: BoxMemory
    cache: BoxCache

    def __init__(self, spec: TaskSpec, config: BoxSearchConfig, **options: Any) -> None:
        super().__init__(spec, config, **options)
        self.cache = BoxCache()
        self._started()

    def _started(self) -> None:
        d, nothing = self.policies.size, Normaliser.empty(self.spec.observation_dim)
        self.memory = BoxMemory(Measured.nothing(d), self.config.optimiser.start(d), nothing, self.centre)

    def _propose(self) -> list[Proposal]:
        return [Proposal(self._parameters(point), "probe") for point in self._batch().points]

    def _batch(self) -> Batch:
        """The open stage in the unit cube."""
        memory, cache = self.memory, self.cache
        if cache.batch is None:
            with self._timed("acquisition"):
                rng = generator(self.seed, "propose", memory.stage)
                cache.batch = self.config.optimiser.propose(memory.optimiser, memory.measured, rng)
        return cache.batch

    def _learn(self, stage: list[Answer]) -> Metrics | None:
        memory, batch = self.memory, self._batch()
        self.cache.batch = None
        if self.limits is not None:  # What was run, not what was wanted.
            batch = batch._replace(points=np.array([self._point(answer.query.parameters) for answer in stage]))
        values = np.array([self._value(answer) for answer in stage])
        memory.stage, memory.episodes = memory.stage + 1, memory.episodes + len(stage)
        empty = Normaliser.empty(self.spec.observation_dim)
        for trajectory in (item for answer in stage for item in answer.trajectories):
            memory.fresh = memory.fresh.merge(empty.add(trajectory.observations[:-1]))
        worked = int(np.isfinite(values).sum())
        if worked:
            memory.measured = memory.measured.added(batch, values)
            memory.metrics = self._take_in(worked)
        return self._ended() if memory.episodes >= EPISODES else None

    def _take_in(self, fresh: int) -> Metrics:
        """Let the optimiser learn the newest rows, and move to the point that it believes to be the best."""
        memory = self.memory
        with self._timed("fit"):
            rng = generator(self.seed, "learn", memory.stage)
            learned = self.config.optimiser.learn(memory.optimiser, memory.measured, fresh, rng)
        memory.optimiser, memory.measured = learned.memory, memory.measured.where(learned.keep)
        self.progress.centre = self._parameters(learned.best)
        return learned.metrics

    def _ended(self) -> Metrics:
        """The end of an outer iteration."""
        memory = self.memory
        if memory.fresh.count:
            self.progress.normaliser = self.config.observations.updated(self.normaliser, memory.fresh)
        moved = float(np.linalg.norm(self.centre - memory.last)) if memory.last is not None else None
        memory.fresh, memory.episodes = Normaliser.empty(self.spec.observation_dim), 0
        memory.last = self.centre
        return {**memory.metrics, "points_kept": len(memory.measured), "step_length": moved}

    def _parameters(self, point: Array) -> Array:
        """A point of the cube as parameters (d,)."""
        return self.memory.origin + self.config.box * (2.0 * point - 1.0)

    def _point(self, parameters: Array) -> Array:
        """The inverse of `_parameters`."""
        return ((parameters - self.memory.origin) / self.config.box + 1.0) / 2.0

    def _value(self, answer: Answer) -> float:
        """The return of a query; NaN for a failed episode."""
        return self.objective.total(answer.trajectories[0]) if answer.trajectories else float("nan")
