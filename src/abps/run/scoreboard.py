"""What a run's evaluations have shown so far: the maximum return, the best policy, the probes still to evaluate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from abps.arrays import Array
from abps.normaliser import Normaliser
from abps.policies.policy import Policy, PolicySpace
from abps.run.evaluation import Evaluation
from abps.search.base import Metrics, Query
from abps.trajectory import Outcome, Trajectory

__all__ = ["Evaluator", "Scoreboard", "Scored"]

Evaluator = Callable[[list[Policy], int], list[Evaluation]]
"""Runs fresh episodes of policies for an outer iteration's number."""


class Scored(NamedTuple):
    """A policy and the mean return that speaks for it."""

    value: float
    policy: Policy


@dataclass
class ScoredMemory:
    """A policy and its value, as they are saved."""

    value: float
    parameters: Array
    normaliser: Normaliser


@dataclass
class ScoreboardMemory:
    """What a scoreboard remembers."""

    maximum: float | None = None
    maximum_discounted: float | None = None
    best: ScoredMemory | None = None
    probes: list[ScoredMemory] = field(default_factory=list)


class Scoreboard:
    """Evaluates the centre and the probes that could be the best; failed probes never enter."""

    def __init__(self, policies: PolicySpace, evaluate_probes: str) -> None:
        self._policies, self._choice = policies, evaluate_probes
        self.memory = ScoreboardMemory()

    @property
    def best(self) -> Scored | None:
        """The policy with the highest evaluated mean return."""
        return None if self.memory.best is None else self._scored(self.memory.best)

    def note_probe(self, query: Query, outcomes: Sequence[Outcome]) -> None:
        """Remember a told probe until the outer iteration ends."""
        returns = [outcome.total() for outcome in outcomes if isinstance(outcome, Trajectory)]
        if query.role != "centre" and returns:
            self.memory.probes.append(_memory(float(np.mean(returns)), query.policy))

    def end_iteration(self, evaluator: Evaluator | None, centre: Policy, number: int) -> Metrics:
        """Evaluate the centre and the chosen probes, forget the probes, and return the metrics about it."""
        metrics: Metrics = {"eval_return": None, "eval_return_std": None, "eval_discounted": None, "eval_failed": 0}
        if evaluator is not None:
            policies = [centre, *self._probes_to_evaluate()]
            evaluations = evaluator(policies, number)
            for policy, evaluation in zip(policies, evaluations, strict=True):
                self._note(policy, evaluation)
            metrics["eval_return"] = evaluations[0].mean
            metrics["eval_return_std"] = evaluations[0].std
            metrics["eval_discounted"] = evaluations[0].mean_discounted
            metrics["eval_failed"] = sum(evaluation.failed for evaluation in evaluations)
        memory = self.memory
        memory.probes = []
        return {**metrics, "max_return": memory.maximum, "max_discounted": memory.maximum_discounted}

    def _probes_to_evaluate(self) -> list[Policy]:
        probes = [self._scored(probe) for probe in self.memory.probes]
        if self._choice == "none" or not probes:
            return []
        if self._choice == "best":
            return [max(probes, key=lambda probe: probe.value).policy]
        return [probe.policy for probe in probes]

    def _note(self, policy: Policy, evaluation: Evaluation) -> None:
        if evaluation.mean is None or evaluation.mean_discounted is None:
            return
        memory = self.memory
        memory.maximum = max(evaluation.mean, evaluation.mean if memory.maximum is None else memory.maximum)
        known = memory.maximum_discounted
        memory.maximum_discounted = max(
            evaluation.mean_discounted, evaluation.mean_discounted if known is None else known
        )
        if memory.best is None or evaluation.mean > memory.best.value:
            memory.best = _memory(evaluation.mean, policy)

    def _scored(self, saved: ScoredMemory) -> Scored:
        return Scored(saved.value, self._policies.policy(saved.parameters, saved.normaliser))


def _memory(value: float, policy: Policy) -> ScoredMemory:
    return ScoredMemory(value, policy.parameters, policy.normaliser)
