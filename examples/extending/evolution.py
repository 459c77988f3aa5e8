"""A search: the (1+1) evolution strategy with the 1/5th success rule."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from abps.policies.base import PolicyClass
from abps.policies.linear import LinearTanh
from abps.policies.observations import Observations, RawObservations
from abps.search.base import Answer, Metrics, Proposal, Search, SearchConfig
from abps.seeding import generator
from abps.settings import require, setting
from abps.tasks.spec import TaskSpec


@dataclass(frozen=True)
class OnePlusOneConfig(SearchConfig):
    """(1+1) evolution strategy: a mutation that is better becomes the centre."""

    policy: PolicyClass = setting(LinearTanh(), "class of policies")
    observations: Observations = setting(RawObservations(), "what policies see")
    reward_shift: float = setting(0.0, "subtracted from every reward")
    std: float = setting(0.1, "standard deviation of the first mutations", common=True)
    growth: float = setting(1.5, "a success multiplies the standard deviation by this")

    def __post_init__(self) -> None:
        require(self.std > 0, "std must be positive")
        require(self.growth > 1, "growth must be greater than 1")

    def make(self, spec: TaskSpec, **options: Any) -> "OnePlusOne":
        return OnePlusOne(spec, self, **options)


@dataclass
class OnePlusOneMemory:
    """What the search remembers beside its centre."""

    std: float
    value: float | None = None
    """The centre's return; None: not run yet."""


class OnePlusOne(Search[OnePlusOneConfig]):
    """One mutation per outer iteration."""

    memory: OnePlusOneMemory

    def __init__(self, spec: TaskSpec, config: OnePlusOneConfig, **options: Any) -> None:
        super().__init__(spec, config, **options)
        self.memory = OnePlusOneMemory(config.std)

    def _propose(self) -> list[Proposal]:
        if self.memory.value is None:
            return [Proposal(self.centre, "centre")]
        rng = generator(self.seed, "one-plus-one", self.iteration)
        return [Proposal(self.centre + self.memory.std * rng.standard_normal(self.policies.size), "probe")]

    def _learn(self, stage: list[Answer]) -> Metrics:
        answer, memory = stage[0], self.memory
        worked = answer.trajectories  # Episodes that failed are not among them.
        value = float(np.mean([self.objective.total(trajectory) for trajectory in worked])) if worked else -np.inf
        first, better = memory.value is None, memory.value is not None and value > memory.value
        if first or better:
            self.progress.centre, memory.value = answer.query.parameters, value
        if not first:
            memory.std *= self.config.growth if better else self.config.growth**-0.25
        return {"mutation_std": memory.std, "success": better}
