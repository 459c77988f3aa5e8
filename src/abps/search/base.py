"""The contract every search obeys: ask for a query, tell its outcomes, until there is a reason to stop.

A search turns told trajectories into the next policies to try. It never touches an environment, a file or a clock's
verdict. It works in *stages*: `_propose` plans a stage (one or several queries that can run side by side), `_learn` takes
it in once every query of the stage is answered, in whatever order the answers came. An outer iteration is one or several stages.

Shapes: d parameters.
"""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from abps.config import BudgetConfig
from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies import Policy, policy_class
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory

__all__ = ["Answer", "Best", "Metrics", "Proposal", "Query", "Search", "SearchResult"]

Array = NDArray[np.float64]
Metrics = dict[str, Any]
ConfigT = TypeVar("ConfigT")

ROLES = ("centre", "probe", "direction")


class Proposal(NamedTuple):
    """What a search wants tried: parameters (d,), the role they play, and how many episodes."""

    parameters: Array
    role: str
    episodes: int = 1


@dataclass(frozen=True, eq=False)
class Query:
    """A policy to run `episodes` times; its `id` comes back with the outcomes."""

    id: int
    role: str
    iteration: int
    episodes: int
    parameters: Array
    """(d,)"""
    policy: Policy


class Answer(NamedTuple):
    """A query with everything that came of it."""

    query: Query
    outcomes: tuple[Outcome, ...]

    @property
    def trajectories(self) -> list[Trajectory]:
        """The episodes that worked."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Trajectory)]


class Best(NamedTuple):
    """The policy with the highest mean undiscounted return told so far (optimistic when it ran only once)."""

    value: float
    parameters: Array
    normaliser: Normaliser


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found so far."""

    best: Policy
    best_return: float
    incumbent: Policy
    """The current centre: where the search stands, as opposed to the luckiest policy it ever saw."""
    episodes: int
    steps: int
    iterations: int
    history: list[Metrics] = field(repr=False)


class Search(ABC, Generic[ConfigT]):
    """Base of all searches; a concrete search implements `_propose`, `_learn`, `_state` and `_load`."""

    name: ClassVar[str]

    replay_capacity: int = 0
    """How many of the newest transitions the search needs back when a state saved without them is loaded."""

    def __init__(self, spec: TaskSpec, config: ConfigT, *, seed: int = 0, budget: BudgetConfig | None = None) -> None:
        if seed < 0:
            raise ConfigError(f"seed must not be negative, got {seed}")
        self.spec, self.config, self.seed = spec, config, seed
        self.budget = budget or BudgetConfig()
        self.policies = policy_class(spec)
        self.centre: Array = np.zeros(self.policies.size)
        self.normaliser = Normaliser.empty(spec.observation_dim)
        self.iteration = self.episodes = self.steps = self.failures = 0
        self.centre_return: float | None = None
        self.best = Best(-np.inf, self.centre, self.normaliser)
        self.history: list[Metrics] = []
        self._best_centre, self._best_centre_iteration = -np.inf, 0
        self._next_id = 0
        self._open: list[Query] = []
        self._answers: dict[int, Answer] = {}
        self._seconds: dict[str, float] = {}

    # ---- what a user calls ------------------------------------------------------------------------------------------

    def ask(self) -> Query:
        """Return the next query; the same one until it is told."""
        return self.open_queries()[0]

    def open_queries(self) -> list[Query]:
        """Return every query that can be run now, side by side; never empty."""
        if not self._open:
            proposals = self._propose()
            if not proposals:
                raise RuntimeError(f"search {self.name!r} proposed nothing")
            for proposal in proposals:
                parameters = np.array(proposal.parameters, dtype=np.float64)
                policy = Policy(self.spec, parameters, self.normaliser)
                self._open.append(
                    Query(self._next_id, proposal.role, self.iteration, proposal.episodes, parameters, policy)
                )
                self._next_id += 1
        return [query for query in self._open if query.id not in self._answers]

    def tell(self, query: Query, outcomes: Sequence[Outcome]) -> Metrics | None:
        """Take in the outcomes of a query.

        Args:
            query: an open query, as `ask` gave it.
            outcomes: one `Trajectory` or `Failed` per episode asked for.

        Returns:
            The metrics of the outer iteration when these outcomes completed one, else None.

        Raises:
            ConfigError: the query is not open, or the number of outcomes is wrong. Nothing has changed then.
            ShapeError: a trajectory does not fit the task. Nothing has changed then.
        """
        self._validate(query, outcomes)
        answer = Answer(next(item for item in self._open if item.id == query.id), tuple(outcomes))
        self._answers[query.id] = answer
        self._count(answer)
        if len(self._answers) < len(self._open):
            return None
        stage = [self._answers[item.id] for item in self._open]
        metrics = self._learn(stage)
        self._open, self._answers = [], {}
        if metrics is None:
            return None
        return self._complete_iteration(metrics)

    def stop(self) -> dict[str, str]:
        """Return every reason to stop, by name; empty means go on."""
        budget, reasons = self.budget, {}
        if budget.episodes and self.episodes >= budget.episodes:
            reasons["episodes"] = f"{self.episodes} of {budget.episodes} episodes are used"
        if budget.steps and self.steps >= budget.steps:
            reasons["steps"] = f"{self.steps} of {budget.steps} environment steps are used"
        if budget.target is not None and self._best_centre >= budget.target:
            reasons["target"] = f"a centre returned {self._best_centre:.4g}, the target is {budget.target:.4g}"
        # A search that never runs its centre (ARS) cannot tell; its run looks at the evaluations instead.
        known = np.isfinite(self._best_centre)
        if budget.plateau and known and self.iteration - self._best_centre_iteration >= budget.plateau:
            reasons["plateau"] = f"no better centre for {budget.plateau} outer iterations"
        return reasons

    def result(self) -> SearchResult:
        """Return the best and the current policy, the counts, and the metrics of every outer iteration."""
        best = self.best if np.isfinite(self.best.value) else Best(-np.inf, self.centre, self.normaliser)
        return SearchResult(
            best=Policy(self.spec, best.parameters, best.normaliser),
            best_return=best.value,
            incumbent=self.incumbent,
            episodes=self.episodes,
            steps=self.steps,
            iterations=self.iteration,
            history=copy.deepcopy(self.history),
        )

    @property
    def incumbent(self) -> Policy:
        """The policy at the current centre."""
        return Policy(self.spec, self.centre, self.normaliser)

    @property
    def between_stages(self) -> bool:
        """Whether no stage is half told, so that `state` can be saved."""
        return not self._answers

    def state(self, *, replay: bool = True) -> dict[str, Any]:
        """Return everything needed to go on, as nested dicts of arrays and scalars.

        Args:
            replay: False leaves out the stored transitions, for a caller that keeps the trajectories itself.

        Raises:
            ConfigError: a stage is half told; save between stages (the run's journal holds the rest).
        """
        if self._answers:
            raise ConfigError("the state can be saved between stages only; tell the open queries first")
        return {
            "search": self.name,
            "seed": self.seed,
            "centre": self.centre,
            "normaliser": self.normaliser.state(),
            "iteration": self.iteration,
            "episodes": self.episodes,
            "steps": self.steps,
            "failures": self.failures,
            "centre_return": self.centre_return,
            "best": {
                "value": self.best.value,
                "parameters": self.best.parameters,
                "normaliser": self.best.normaliser.state(),
            },
            "best_centre": self._best_centre,
            "best_centre_iteration": self._best_centre_iteration,
            "next_id": self._open[0].id if self._open else self._next_id,
            "history": copy.deepcopy(self.history),
            "own": self._state(replay),
        }

    def load(self, state: dict[str, Any], trajectories: Iterable[Trajectory] = ()) -> None:
        """Continue from a saved state; the search must have been made with the same spec, settings and seed.

        Args:
            state: what `state` returned.
            trajectories: for a state saved without its replay: the told trajectories, oldest first, that hold the
                newest `replay_capacity` transitions.

        Raises:
            ConfigError: the state belongs to another search or seed.
            ShapeError: the parameters do not fit the task.
        """
        for name, mine in (("search", self.name), ("seed", self.seed)):
            if state[name] != mine:
                raise ConfigError(f"this state was saved by {name} {state[name]!r}, not {mine!r}")
        if state["centre"].shape != self.centre.shape:
            raise ShapeError(
                f"the saved centre has shape {state['centre'].shape}, the policy needs {self.centre.shape}"
            )
        self.centre = state["centre"]
        self.normaliser = Normaliser.from_state(state["normaliser"])
        self.iteration, self.episodes, self.steps = state["iteration"], state["episodes"], state["steps"]
        self.failures, self.centre_return = state["failures"], state["centre_return"]
        best = state["best"]
        self.best = Best(best["value"], best["parameters"], Normaliser.from_state(best["normaliser"]))
        self._best_centre, self._best_centre_iteration = state["best_centre"], state["best_centre_iteration"]
        self._next_id = state["next_id"]
        self.history = copy.deepcopy(state["history"])
        self._open, self._answers = [], {}
        self._load(state["own"], trajectories)

    # ---- what a concrete search implements --------------------------------------------------------------------------

    @abstractmethod
    def _propose(self) -> list[Proposal]:
        """Plan the next stage. Must depend on the state only: it is computed anew after a resume."""

    @abstractmethod
    def _learn(self, stage: list[Answer]) -> Metrics | None:
        """Take in a finished stage; return metrics when it ends an outer iteration, else None."""

    @abstractmethod
    def _state(self, replay: bool) -> dict[str, Any]:
        """What the concrete search adds to the state, with or without stored transitions."""

    @abstractmethod
    def _load(self, state: dict[str, Any], trajectories: Iterable[Trajectory]) -> None:
        """Take back what `_state` gave, and the transitions it left out."""

    # ---- help for concrete searches ---------------------------------------------------------------------------------

    def objective(self, trajectory: Trajectory) -> float:
        """The unscaled return the search maximises: Σ γᵗ (r_t − shift)."""
        return trajectory.total(self.spec.gamma, self.spec.reward_shift)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Add the time of a block to `seconds_<phase>` of this iteration's metrics."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

    def _note_centre(self, value: float) -> None:
        """Record the mean undiscounted return of the current centre, for `stop` and the metrics."""
        self.centre_return = value
        if value > self._best_centre:
            self._best_centre, self._best_centre_iteration = value, self.iteration

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _validate(self, query: Query, outcomes: Sequence[Outcome]) -> None:
        open_ids = [item.id for item in self.open_queries()]
        if query.id not in open_ids:
            raise ConfigError(f"query {query.id} is not open; open are {open_ids}. Was it told already?")
        expected = next(item.episodes for item in self._open if item.id == query.id)
        if len(outcomes) != expected:
            raise ConfigError(f"query {query.id} asked for {expected} episodes, {len(outcomes)} outcomes came")
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Failed):
                continue
            if not isinstance(outcome, Trajectory):
                raise ShapeError(f"outcome {number} is a {type(outcome).__name__}, expected a Trajectory or Failed")
            sizes = (outcome.observations.shape[1], outcome.actions.shape[1])
            if sizes != (self.spec.observation_dim, self.spec.action_dim):
                raise ShapeError(
                    f"outcome {number} has {sizes[0]} observations and {sizes[1]} actions per step; "
                    f"the task has {self.spec.observation_dim} and {self.spec.action_dim}"
                )

    def _count(self, answer: Answer) -> None:
        self.episodes += len(answer.outcomes)
        worked = answer.trajectories
        self.failures += len(answer.outcomes) - len(worked)
        self.steps += sum(len(trajectory) for trajectory in worked)
        if worked:
            value = float(np.mean([trajectory.total() for trajectory in worked]))
            if value > self.best.value:
                self.best = Best(value, answer.query.parameters, answer.query.policy.normaliser)

    def _complete_iteration(self, metrics: Metrics) -> Metrics:
        counted: Metrics = {
            "iteration": self.iteration,
            "episodes": self.episodes,
            "steps": self.steps,
            "failures": self.failures,
            "centre_return": self.centre_return,
            **metrics,
        }
        self.history.append(copy.deepcopy(counted))
        self.iteration += 1
        timed = {**counted, **{f"seconds_{phase}": seconds for phase, seconds in self._seconds.items()}}
        self._seconds = {}
        return timed
