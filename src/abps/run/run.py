"""A run: a search whose told episodes are on disk before anything else happens.

The journal is the truth; a checkpoint only saves the time of thinking again. Opening a run loads the newest checkpoint and
tells the search, once more and from disk, the episodes recorded since. Everything a search does follows from what it was told,
so the continued run is the uninterrupted one, bit for bit.

Where episodes come from (a simulator, a robot, a file) is not this module's business: `record` takes outcomes one by one,
in the order of `slots`. `loop.train` feeds it from an environment, `abps tell` from files.
"""

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abps.errors import RunError
from abps.normaliser import Normaliser
from abps.policies import Policy
from abps.run.checkpoint import latest_checkpoint, save_checkpoint
from abps.run.directory import RunSettings, claim, read_settings
from abps.run.evaluation import Evaluation
from abps.run.files import replace_atomically
from abps.run.journal import Journal
from abps.run.metrics import MetricsFile
from abps.search.base import Metrics, Query
from abps.search.registry import make_search
from abps.tasks.spec import TaskSpec
from abps.trajectory import Outcome, Trajectory

__all__ = ["Run", "Slot", "open_run"]

Evaluator = Callable[[list[Policy], int], list[Evaluation]]
"""Runs fresh episodes of policies for an outer iteration's number."""


class Slot(NamedTuple):
    """One episode that the search waits for."""

    episode: int
    """Its number in the run, which its random seed derives from."""
    query: Query


class Run:
    """A search and its files. Made by `open_run`, which holds the directory's lock while it is in use."""

    def __init__(self, path: Path, settings: RunSettings, spec: TaskSpec, evaluator: Evaluator | None = None) -> None:
        self.path, self.settings, self.spec = path, settings, spec
        self.search = make_search(
            settings.search, spec, settings.search_config, seed=settings.seed, budget=settings.budget
        )
        self.journal = Journal(path, spec)
        self.metrics = MetricsFile(path)
        self.warnings: list[str] = []
        self.on_iteration: Callable[[Metrics], None] = lambda metrics: None
        self._evaluator = evaluator
        self._told = 0
        self._partial: list[Outcome] = []
        self._probes: list[tuple[float, Policy]] = []
        self._maximum: dict[str, float | None] = {"return": None, "discounted": None}
        self._best: tuple[float, Policy] | None = None
        self._started = time.perf_counter()
        self._seconds_before = 0.0
        self._seconds_rollout = 0.0

    # ---- going on ---------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Load the newest checkpoint and tell the search again what the journal holds beyond it."""
        self.journal.repair()
        episodes, state, complaints = latest_checkpoint(self.path / "checkpoint", len(self.journal))
        self.warnings += [f"{complaint}; an earlier one is used" for complaint in complaints]
        if state is not None:
            self.search.load(state["search"], self.journal.newest(self.search.replay_capacity, episodes))
            self._load_own(state["run"])
            self._told = episodes
        self.metrics.keep(0 if state is None else state["run"]["metrics"])
        if self.metrics.records:
            self._seconds_before = float(self.metrics.records[-1].get("seconds") or 0.0)
        for name in ("DONE", "FAILED"):
            (self.path / name).unlink(missing_ok=True)
        while self._told < len(self.journal):
            self._take(self.journal.outcome(self._told), self.journal.query_of(self._told))

    def slots(self) -> list[Slot]:
        """Return the episodes that can run now, in the order in which `record` wants them."""
        first = self._told
        wanted = [query for query in self.search.open_queries() for _ in range(query.episodes)]
        return [Slot(first + number, query) for number, query in enumerate(wanted[len(self._partial) :])]

    def record(self, slot: Slot, outcome: Outcome, seconds: float, details: dict[str, Any]) -> Metrics | None:
        """Write a finished episode to the journal, then tell the search.

        Args:
            slot: the first of `slots()`.
            outcome: what came of it.
            seconds: how long it took.
            details: further journal fields: its seed, failed attempts.

        Returns:
            The metrics of the outer iteration that it completed, if it did.
        """
        if slot.episode != len(self.journal):
            raise RunError(
                f"episode {slot.episode} was recorded out of turn; the journal waits for {len(self.journal)}"
            )
        worked = isinstance(outcome, Trajectory)
        line = {
            "query": slot.query.id,
            "role": slot.query.role,
            "iteration": slot.query.iteration,
            **details,
            "return": outcome.total() if worked else None,
            "discounted": outcome.total(self.spec.gamma) if worked else None,
        }
        self.journal.append(outcome, line, seconds)
        self._seconds_rollout += seconds
        return self._take(outcome, slot.query.id)

    def stop(self) -> dict[str, str]:
        """Return every reason to stop, by name; empty means go on."""
        reasons = self.search.stop()
        minutes, target = self.settings.run.minutes, self.settings.budget.target
        if minutes and self.seconds >= 60.0 * minutes:
            reasons["minutes"] = f"{self.seconds / 60.0:.1f} of {minutes:g} minutes are used"
        if target is not None and self._best is not None and self._best[0] >= target:
            reasons["target"] = f"an evaluated policy returned {self._best[0]:.4g}, the target is {target:.4g}"
        return reasons

    def finish(self, reasons: dict[str, str]) -> None:
        """Mark the run as done."""
        text = "".join(f"{name}: {reason}\n" for name, reason in reasons.items())
        replace_atomically(self.path / "DONE", text.encode())

    def fail(self, reason: str) -> None:
        """Mark the run as failed; it can be resumed all the same."""
        replace_atomically(self.path / "FAILED", (reason + "\n").encode())

    @property
    def seconds(self) -> float:
        """Wall time of the run, over all its sessions."""
        return self._seconds_before + time.perf_counter() - self._started

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _take(self, outcome: Outcome, query_id: int) -> Metrics | None:
        """Hand one recorded outcome to the search; tell the query when it is complete."""
        query = self.search.ask()
        if query.id != query_id:
            raise RunError(
                f"the journal's episode {self._told} belongs to query {query_id}, the search asks for {query.id}; "
                "were the run's settings or the software's version changed?"
            )
        self._partial.append(outcome)
        self._told += 1
        if len(self._partial) < query.episodes:
            return None
        outcomes, self._partial = self._partial, []
        self._remember_probe(query, outcomes)
        metrics = self.search.tell(query, outcomes)
        if metrics is None:
            return None
        return self._complete_iteration(metrics)

    def _remember_probe(self, query: Query, outcomes: list[Outcome]) -> None:
        returns = [outcome.total() for outcome in outcomes if isinstance(outcome, Trajectory)]
        if query.role != "centre" and returns:
            self._probes.append((float(np.mean(returns)), query.policy))

    def _complete_iteration(self, metrics: Metrics) -> Metrics:
        number = self.search.iteration
        start = time.perf_counter()
        metrics = {**metrics, **self._evaluate(number)}
        metrics["seconds_evaluation"] = time.perf_counter() - start
        metrics["seconds_rollout"] = self._seconds_rollout
        metrics["seconds"] = self.seconds
        self._probes, self._seconds_rollout = [], 0.0
        self.metrics.append(metrics)
        self._save_policies()
        if number % self.settings.run.checkpoint_every == 0:
            state = {"search": self.search.state(replay=False), "run": self._own_state()}
            save_checkpoint(self.path / "checkpoint", self._told, state)
        self.on_iteration(metrics)
        return metrics

    def _evaluate(self, number: int) -> Metrics:
        """Evaluate the current centre and the probes that could be the best so far."""
        every = self.settings.run.evaluate_every
        if self._evaluator is None or not every or number % every:
            return {**_no_evaluation(), **self._maxima()}
        policies = [self.search.incumbent, *self._probes_to_evaluate()]
        evaluations = self._evaluator(policies, number)
        for policy, evaluation in zip(policies, evaluations, strict=True):
            self._note_evaluation(policy, evaluation)
        centre = evaluations[0]
        return {
            "eval_return": centre.mean,
            "eval_return_std": centre.std,
            "eval_discounted": centre.mean_discounted,
            "eval_failed": sum(evaluation.failed for evaluation in evaluations),
            **self._maxima(),
        }

    def _probes_to_evaluate(self) -> list[Policy]:
        choice = self.settings.run.evaluate_probes
        if choice == "none" or not self._probes:
            return []
        if choice == "best":
            return [max(self._probes, key=lambda probe: probe[0])[1]]
        return [policy for _, policy in self._probes]

    def _note_evaluation(self, policy: Policy, evaluation: Evaluation) -> None:
        if evaluation.mean is None or evaluation.mean_discounted is None:
            return
        for name, value in (("return", evaluation.mean), ("discounted", evaluation.mean_discounted)):
            known = self._maximum[name]
            self._maximum[name] = value if known is None else max(known, value)
        if self._best is None or evaluation.mean > self._best[0]:
            self._best = (evaluation.mean, policy)

    def _maxima(self) -> Metrics:
        return {"max_return": self._maximum["return"], "max_discounted": self._maximum["discounted"]}

    def _save_policies(self) -> None:
        best = self._best[1] if self._best is not None else self.search.result().best
        for name, policy in (("best", best), ("current", self.search.incumbent)):
            buffer = io.BytesIO()
            policy.write(buffer)
            replace_atomically(self.path / "policy" / f"{name}.npz", buffer.getvalue())

    def _own_state(self) -> dict[str, Any]:
        best = None
        if self._best is not None:
            value, policy = self._best
            best = {"value": value, "parameters": policy.parameters, "normaliser": policy.normaliser.state()}
        return {"metrics": len(self.metrics.records), "maximum": dict(self._maximum), "best": best}

    def _load_own(self, state: dict[str, Any]) -> None:
        self._maximum = dict(state["maximum"])
        if state["best"] is not None:
            best = state["best"]
            normaliser = Normaliser.from_state(best["normaliser"])
            self._best = (best["value"], Policy(self.spec, best["parameters"], normaliser))


def _no_evaluation() -> Metrics:
    return {"eval_return": None, "eval_return_std": None, "eval_discounted": None}


@contextmanager
def open_run(
    path: Path,
    spec: TaskSpec,
    evaluator: Evaluator | None = None,
    settings: RunSettings | None = None,
) -> Iterator[Run]:
    """Own the run in `path`, brought up to date with its journal, until the block ends.

    Args:
        path: a run directory.
        spec: the task's spec, from its environment or its file.
        evaluator: runs evaluation episodes; None switches evaluation off.
        settings: what `config.yaml` says, if it is known already.

    Raises:
        RunError: no run, damaged, or in use.
    """
    if not (path / "config.yaml").exists():
        raise RunError(f"there is no run in {path} (no config.yaml)")
    with claim(path):
        run = Run(path, settings or read_settings(path), spec, evaluator)
        run.restore()
        yield run
