"""What a run's evaluations have shown so far: the maximum return, the best policy, and the probes still to be looked at."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abps.normaliser import Normaliser
from abps.policies import Policy
from abps.run.evaluation import Evaluation
from abps.search.base import Metrics, Query
from abps.tasks.spec import TaskSpec
from abps.trajectory import Outcome, Trajectory

__all__ = ["Evaluator", "Scoreboard", "Scored"]

Evaluator = Callable[[list[Policy], int], list[Evaluation]]
"""Runs fresh episodes of policies for an outer iteration's number."""


class Scored(NamedTuple):
    """A policy and the mean return that speaks for it."""

    value: float
    policy: Policy


class Scoreboard:
    """Evaluates the centre and the probes that could be the best; failed probes never enter."""

    def __init__(self, spec: TaskSpec, evaluate_probes: str) -> None:
        self._spec, self._choice = spec, evaluate_probes
        self.best: Scored | None = None
        self._maximum: dict[str, float | None] = {"return": None, "discounted": None}
        self._probes: list[Scored] = []

    def note_probe(self, query: Query, outcomes: Sequence[Outcome]) -> None:
        """Remember a told probe until the outer iteration ends."""
        returns = [outcome.total() for outcome in outcomes if isinstance(outcome, Trajectory)]
        if query.role != "centre" and returns:
            self._probes.append(Scored(float(np.mean(returns)), query.policy))

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
        self._probes = []
        return {**metrics, "max_return": self._maximum["return"], "max_discounted": self._maximum["discounted"]}

    def state(self) -> dict[str, Any]:
        """Everything needed to go on, for a checkpoint."""
        return {
            "maximum": dict(self._maximum),
            "best": None if self.best is None else _scored_state(self.best),
            "probes": [_scored_state(probe) for probe in self._probes],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""
        self._maximum = {name: state["maximum"][name] for name in ("return", "discounted")}
        self.best = None if state["best"] is None else self._scored(state["best"])
        self._probes = [self._scored(probe) for probe in state["probes"]]

    def _probes_to_evaluate(self) -> list[Policy]:
        if self._choice == "none" or not self._probes:
            return []
        if self._choice == "best":
            return [max(self._probes, key=lambda probe: probe.value).policy]
        return [probe.policy for probe in self._probes]

    def _note(self, policy: Policy, evaluation: Evaluation) -> None:
        if evaluation.mean is None or evaluation.mean_discounted is None:
            return
        for name, value in (("return", evaluation.mean), ("discounted", evaluation.mean_discounted)):
            known = self._maximum[name]
            self._maximum[name] = value if known is None else max(known, value)
        if self.best is None or evaluation.mean > self.best.value:
            self.best = Scored(evaluation.mean, policy)

    def _scored(self, state: dict[str, Any]) -> Scored:
        normaliser = Normaliser(int(state["count"]), state["mean"], state["m2"])
        return Scored(float(state["value"]), Policy(self._spec, state["parameters"], normaliser))


def _scored_state(scored: Scored) -> dict[str, Any]:
    normaliser = scored.policy.normaliser
    return {
        "value": scored.value,
        "parameters": scored.policy.parameters,
        "count": normaliser.count,
        "mean": normaliser.mean,
        "m2": normaliser.m2,
    }
