"""Searches by populations: a strategy asks for points, episodes tell their returns, generation by generation.

Everything about the algorithm is in the strategy (`abps.strategies`); here are policies, episodes, failures and
observation statistics. Shapes: d parameters, m candidates of a generation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from abps.policies.base import PolicyClass
from abps.policies.linear import LinearTanh
from abps.policies.observations import Observations, RawObservations
from abps.search.base import Answer, Metrics, Proposal, Search, SearchConfig
from abps.search.budget import BudgetConfig
from abps.seeding import generator
from abps.settings import require, setting
from abps.strategies.base import Strategy
from abps.strategies.snes import Snes
from abps.tasks.spec import TaskSpec

__all__ = ["PopulationConfig", "PopulationSearch"]


@dataclass(frozen=True)
class PopulationConfig(SearchConfig):
    """A search by populations: CMA-ES, OpenAI-ES, SNES, particle swarms.

    Example:
        >>> import abps
        >>> from abps.strategies.snes import Snes
        >>> search = abps.PopulationConfig(strategy=Snes(population=6)).make(abps.make_task("pendulum").spec, seed=0)
        >>> len(search.open_queries()), search.ask().role
        (6, 'candidate')
    """

    policy: PolicyClass = setting(LinearTanh(), "class of policies")
    observations: Observations = setting(RawObservations(), "what policies see")
    reward_shift: float = setting(0.0, "subtracted from every reward (the survival bonus)")
    strategy: Strategy = setting(Snes(), "draws candidates, and learns from their returns", common=True)
    repeats: int = setting(1, "episodes of every candidate; the mean of their returns counts")
    discount: float | None = setting(1.0, "γ of the return that is maximised; none: the task's")

    def __post_init__(self) -> None:
        require(self.repeats >= 1, "repeats must be at least 1")
        require(self.discount is None or 0.0 < self.discount <= 1.0, "discount must be in (0, 1] or none")
        require(not self.observations.remaps, "a population cannot be re-mapped: switch observations.remap off")

    def make(
        self, spec: TaskSpec, *, seed: int = 0, budget: BudgetConfig | None = None, name: str = ""
    ) -> "PopulationSearch":
        return PopulationSearch(spec, self, seed=seed, budget=budget, name=name)


class PopulationSearch(Search[PopulationConfig]):
    """One stage per outer iteration: a generation. The centre is what the strategy believes in, e.g. its mean."""

    def __init__(self, spec: TaskSpec, config: PopulationConfig, **options: Any) -> None:
        super().__init__(spec, config, **options)
        self._started()

    def _started(self) -> None:
        self.memory = self.config.strategy.start(self.centre, generator(self.seed, "population-start"))

    def _rng(self) -> np.random.Generator:
        """The numbers of this generation, for `ask` and `tell` alike."""
        return generator(self.seed, "population", self.iteration)

    def _propose(self) -> list[Proposal]:
        points = self.config.strategy.ask(self.memory, self._rng())
        return [Proposal(point, "candidate", self.config.repeats) for point in points]

    def _learn(self, stage: list[Answer]) -> Metrics:
        points = np.array([answer.query.parameters for answer in stage])
        values = np.array([self._value(answer) for answer in stage])
        worked, before = np.isfinite(values), self.centre
        if np.any(worked):
            values = np.where(worked, values, np.min(values, where=worked, initial=np.inf))
            with self._timed("strategy"):
                self.memory = self.config.strategy.tell(self.memory, points, values, self._rng())
            self.progress.centre = self.config.strategy.current(self.memory)
        self._merge_observations(stage)
        returns = [trajectory.total() for answer in stage for trajectory in answer.trajectories]
        return {
            "candidates": len(stage),
            "candidates_failed": int(np.sum(~worked)),
            "candidate_return_mean": float(np.mean(returns)) if returns else None,
            "candidate_return_max": float(np.max(returns)) if returns else None,
            "spread": float(np.sqrt(np.mean(np.square(points - points.mean(axis=0))))),
            "step_length": float(np.linalg.norm(self.centre - before)),
        }

    def _value(self, answer: Answer) -> float:
        """The mean return that candidates are compared by; NaN if an episode failed."""
        if len(answer.trajectories) < len(answer.outcomes):
            return float("nan")
        return float(np.mean([self.objective.total(trajectory) for trajectory in answer.trajectories]))
