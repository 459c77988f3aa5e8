"""The contract every search obeys: ask for a query, tell its outcomes, until there is a reason to stop.

A search turns told trajectories into the next policies to try. It never touches an environment or a file. It works in
*stages*: `_propose` plans a stage (one or several queries that can run side by side), `_learn` takes it in once every
query of the stage is answered, in whatever order the answers came. An outer iteration is one or several stages.

Shapes: d parameters.
"""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

from abps.arrays import Array
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.errors import ConfigError, ShapeError
from abps.normaliser import Normaliser
from abps.policies.base import PolicyClass, ScaledInputs
from abps.policies.observations import Observations
from abps.policies.path import ParameterPath
from abps.policies.policy import Policy, PolicySpace
from abps.registry import kind_of
from abps.search.budget import BudgetConfig
from abps.search.constraints import ConstraintKeeper
from abps.search.limits import LimitKeeper, same_normaliser
from abps.seeding import episode_seed
from abps.settings import Part, check_types, replace
from abps.state import NoMemory, restore, save
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome, Trajectory
from abps.words import count

__all__ = ["Answer", "Best", "Metrics", "Progress", "Proposal", "Query", "Search", "SearchConfig", "SearchResult"]

Metrics = dict[str, Any]
ConfigT = TypeVar("ConfigT", bound="SearchConfig")

ROLES = ("centre", "probe", "path", "scout", "direction", "candidate")


@cache
def _linear_algebra() -> Any:
    """The libraries whose threads are held at one while a search thinks; looking for them takes milliseconds.

    Their last digits depend on how many there are, and `abps.train` has one: ask and tell give its numbers this way.
    """
    return ThreadpoolController()


class Proposal(NamedTuple):
    """What a search wants tried: parameters (d,), the role they play, and how many episodes."""

    parameters: Array
    role: str
    episodes: int = 1
    path: ParameterPath | None = None
    """Where the parameters go during the episode; `parameters` is then the centre that it moves around."""


@dataclass(frozen=True, eq=False)
class Query:
    """A policy to run `episodes` times, once with every one of `seeds`; its `id` comes back with the outcomes.

    Example:
        >>> import abps
        >>> query = abps.make_search("mpd", abps.make_task("hopper").spec).ask()
        >>> query.role, query.episodes, query.parameters.shape
        ('centre', 3, (33,))
        >>> len(query.seeds)
        3
    """

    id: int
    role: str
    iteration: int
    episodes: int
    parameters: Array
    """(d,)"""
    policy: Policy
    seeds: tuple[int, ...] = ()
    """One seed per episode, for `env.reset`; `abps train` runs the same ones, so that a loop of one's own gives the
    same numbers, every time."""


class Answer(NamedTuple):
    """A query with everything that came of it."""

    query: Query
    outcomes: tuple[Outcome, ...]

    @property
    def trajectories(self) -> list[Trajectory]:
        """The episodes that worked."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Trajectory)]


@dataclass(frozen=True, eq=False)
class Best:
    """The policy with the highest mean undiscounted return told so far (optimistic when it ran only once)."""

    value: float
    parameters: Array
    normaliser: Normaliser


@dataclass
class Progress:
    """What every search remembers: where it stands, what it has used up, and what came of it."""

    centre: Array
    """θ (d,): the parameters of the current policy."""
    normaliser: Normaliser
    best: Best
    iteration: int = 0
    episodes: int = 0
    steps: int = 0
    failures: int = 0
    believed: Array | None = None
    """(d,): the policy that the search believes to be the best; None: the centre."""
    centre_return: float | None = None
    """Mean undiscounted return of the newest centre that was run."""
    best_centre: float = -np.inf
    best_centre_iteration: int = 0
    next_id: int = 0
    history: list[Metrics] = field(default_factory=list[Metrics])


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found so far.

    Example:
        >>> import abps
        >>> task = abps.make_task("pendulum", horizon=20)
        >>> search, env = abps.make_search("ars", task.spec), task.make_env()
        >>> query = search.ask()
        >>> metrics = search.tell(query, [abps.run_episode(env, query.policy, seed=0)])
        >>> result = search.result()
        >>> result.best_return, result.episodes, result.iterations
        (20.0, 1, 0)
    """

    best: Policy
    best_return: float
    incumbent: Policy
    """The current policy, as opposed to the one with the highest return ever seen."""
    episodes: int
    steps: int
    iterations: int
    history: list[Metrics] = field(repr=False)


class SearchConfig(Part, ABC):
    """Settings of a search, from which it is made."""

    family: ClassVar[str] = "search"
    policy: PolicyClass
    observations: Observations
    reward_shift: float
    discount: float | None = None
    """γ of the return that is maximised; None: the task's."""

    @abstractmethod
    def make(
        self, spec: TaskSpec, *, seed: int = 0, budget: BudgetConfig | None = None, name: str = ""
    ) -> "Search[Any]":
        """A search on a task, told nothing yet."""


class Search(ABC, Generic[ConfigT]):
    """Base of all searches; a concrete search implements `_propose` and `_learn`.

    What it remembers stands in `progress` and in `memory`, dataclasses of arrays and scalars; parts that remember
    something themselves are listed in `parts` and have a `memory` of their own. `state` and `load` walk over them all.
    """

    memory: Any = NoMemory()
    """A dataclass: what the concrete search remembers beside `progress`. Set in `__init__`, saved, restored."""
    cache: Any = NoMemory()
    """An object of what can be computed again from the memory; made anew, without arguments, when a state is loaded."""

    def __init__(
        self,
        spec: TaskSpec,
        config: ConfigT,
        *,
        seed: int = 0,
        budget: BudgetConfig | None = None,
        name: str = "",
    ) -> None:
        if not isinstance(seed, int | np.integer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"seed must be a whole number, got {seed!r}")
        if seed < 0:
            raise ConfigError(f"seed must not be negative, got {seed}")
        check_types(config)
        if budget is not None and not hasattr(budget, "plateau"):
            raise ConfigError(f"budget must be a BudgetConfig, got {budget!r:.80}")
        self.spec, self.config, self.seed = spec, config, seed
        self.name = name or kind_of(type(config))
        self.budget = budget or BudgetConfig()
        self.policies = PolicySpace(config.policy, spec)
        self.objective = Objective(config.discount or spec.gamma, config.reward_shift)
        start, normaliser = self.policies.initial(), Normaliser.empty(spec.observation_dim)
        self.progress = Progress(start, normaliser, Best(-np.inf, start, normaliser))
        self.parts: dict[str, Any] = {}
        """Objects with a `memory` that is saved with the search's own."""
        self._keep_limits()
        self.replay: Replay | None = None
        """Stored transitions, for a search that learns from them."""
        self._open: list[Query] = []
        self._answers: dict[int, Answer] = {}
        self._looking = False
        """Whether the open stage only shows which states the reference of the limits visits."""
        self._seconds: dict[str, float] = {}

    @property
    def centre(self) -> Array:
        """θ (d,): the parameters of the current policy."""
        return self.progress.centre

    @property
    def normaliser(self) -> Normaliser:
        """The normaliser of the current policy."""
        return self.progress.normaliser

    @property
    def iteration(self) -> int:
        """Finished outer iterations."""
        return self.progress.iteration

    @property
    def episodes(self) -> int:
        """Told episodes."""
        return self.progress.episodes

    @property
    def replay_capacity(self) -> int:
        """How many of the newest transitions are needed back when a state saved without them is loaded."""
        return 0 if self.replay is None else self.replay.capacity

    # ---- what a user calls ------------------------------------------------------------------------------------------

    def ask(self) -> Query:
        """Return the next query; the same one until it is told."""
        return self.open_queries()[0]

    def open_queries(self) -> list[Query]:
        """Return every query that can be run now, side by side; never empty."""
        if not self._open:
            episode = self.episodes  # A stage begins when everything before it is told.
            with _linear_algebra().limit(limits=1):
                planned = self._planned()
            for proposal, policy in planned:
                self._open.append(self._query(proposal, policy, episode))
                episode += proposal.episodes
        return [query for query in self._open if query.id not in self._answers]

    def start_from(self, parameters: ArrayLike, normaliser: Normaliser | None = None) -> None:
        """Begin at these parameters in place of the policy class's own; for a search that was not asked yet.

        `policies.start.fitted` finds them for a policy of another search.

        Args:
            parameters: (d,).
            normaliser: what the policy's observations are standardised with; None: nothing is known of them.

        Raises:
            ConfigError: the search has been asked or told something, or the policy is outside the task's limits.
            ShapeError: there are not d finite numbers.
        """
        if self.episodes or self._open:
            raise ConfigError("a search can begin somewhere else only before its first query; make a new one")
        start = np.array(parameters, dtype=np.float64)
        if start.shape != self.centre.shape or not np.all(np.isfinite(start)):
            raise ShapeError(
                f"the policies of this search have {self.centre.size} parameters; expected as many finite numbers to "
                f"start from, got an array of shape {start.shape}"
            )
        normaliser = normaliser or self.normaliser
        self.progress = replace(
            self.progress, centre=start, normaliser=normaliser, best=Best(-np.inf, start, normaliser)
        )
        self._keep_limits()
        self._started()

    def _started(self) -> None:
        """Make anew what is remembered of the first centre; called when a search begins somewhere else."""

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
        with _linear_algebra().limit(limits=1):
            return self._end_stage([self._answers[item.id] for item in self._open])

    def _end_stage(self, stage: list[Answer]) -> Metrics | None:
        """Learn from a stage that is told."""
        if self.limits is not None:
            roles = {item.query.role for item in stage}
            for item in stage:  # Probes beside no centre are those of a search that never runs its centre.
                self.limits.saw(item.trajectories, around_centre=roles == {"probe"} or item.query.role != "probe")
        self._learn_constraints(stage)
        metrics = None if self._looking else self._learn(stage)
        self._standardise(stage)
        self._open, self._answers, self._looking = [], {}, False
        if metrics is None:
            return None
        return self._complete_iteration(metrics)

    def stop(self) -> dict[str, str]:
        """Return every reason to stop, by name; empty means go on."""
        budget, progress, reasons = self.budget, self.progress, dict[str, str]()
        if budget.episodes and progress.episodes >= budget.episodes:
            used = "is" if budget.episodes == 1 else "are"
            reasons["episodes"] = f"{progress.episodes} of {count(budget.episodes, 'episode')} {used} used"
        if budget.steps and progress.steps >= budget.steps:
            reasons["steps"] = f"{progress.steps} of {budget.steps} environment steps are used"
        if budget.target is not None and progress.best_centre >= budget.target:
            reasons["target"] = f"a centre returned {progress.best_centre:.4g}, the target is {budget.target:.4g}"
        # A search that never runs its centre (ARS) cannot tell; its run looks at the evaluations instead.
        known = np.isfinite(progress.best_centre)
        if budget.plateau and known and progress.iteration - progress.best_centre_iteration >= budget.plateau:
            reasons["plateau"] = f"no better centre for {count(budget.plateau, 'outer iteration', 'outer iterations')}"
        return reasons

    def result(self) -> SearchResult:
        """Return the best and the current policy, the counts, and the metrics of every outer iteration."""
        progress = self.progress
        best = progress.best if np.isfinite(progress.best.value) else Best(-np.inf, self.centre, self.normaliser)
        return SearchResult(
            best=self.policies.policy(best.parameters, best.normaliser),
            best_return=best.value,
            incumbent=self.incumbent,
            episodes=progress.episodes,
            steps=progress.steps,
            iterations=progress.iteration,
            history=copy.deepcopy(progress.history),
        )

    @property
    def incumbent(self) -> Policy:
        """The current policy: the one believed to be the best, or that at the centre."""
        believed = self.progress.believed
        return self.policies.policy(self.centre if believed is None else believed, self.normaliser)

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
        progress = save(self.progress)
        progress["next_id"] = self._open[0].id if self._open else self.progress.next_id
        state = {
            "search": self.name,
            "seed": self.seed,
            "progress": progress,
            "memory": save(self.memory),
            "parts": {name: save(part.memory) for name, part in self.parts.items()},
        }
        if self.replay is not None:
            state["replay_total"] = self.replay.total
            state["replay"] = self.replay.contents() if replay else None
        return state

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
        saved = state["progress"]["centre"]
        if saved.shape != self.centre.shape:
            raise ShapeError(f"the saved centre has shape {saved.shape}, the policy needs {self.centre.shape}")
        self.progress = restore(self.progress, state["progress"])
        self.memory = restore(self.memory, state["memory"])
        for name, part in self.parts.items():
            part.memory = restore(part.memory, state["parts"][name])
        if self.replay is not None:
            if state["replay"] is not None:
                self.replay.fill(state["replay"])
            else:
                self.replay.refill(list(trajectories), state["replay_total"])
        self._open, self._answers, self._looking = [], {}, False
        self.cache = type(self.cache)()

    # ---- what a concrete search implements --------------------------------------------------------------------------

    @abstractmethod
    def _propose(self) -> list[Proposal]:
        """Plan the next stage. Must depend on the state only: it is computed anew after a resume."""

    @abstractmethod
    def _learn(self, stage: list[Answer]) -> Metrics | None:
        """Take in a finished stage; return metrics when it ends an outer iteration, else None."""

    # ---- help for concrete searches ---------------------------------------------------------------------------------

    @contextmanager
    def _timed(self, phase: str) -> Generator[None, None, None]:
        """Add the time of a block to `seconds_<phase>` of this iteration's metrics."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

    def _note_centre(self, value: float) -> None:
        """Record the mean undiscounted return of the current centre, for `stop` and the metrics."""
        progress = self.progress
        progress.centre_return = value
        if value > progress.best_centre:
            progress.best_centre, progress.best_centre_iteration = value, progress.iteration

    def _merge_observations(self, stage: list[Answer]) -> None:
        """Update the normaliser by episodes, those of the first outer iteration at once: a frozen mean is theirs."""
        old, observations = self.normaliser, self.config.observations
        empty = Normaliser.empty(self.spec.observation_dim)
        parts = [empty.add(trajectory.observations[:-1]) for answer in stage for trajectory in answer.trajectories]
        if old.count == 0 and parts:
            parts = [reduce(Normaliser.merge, parts)]
        for fresh in parts:
            self.progress.normaliser = observations.updated(self.normaliser, fresh)
        if observations.remaps:
            self.progress.centre = self.policies.remapped(self.centre, old, self.normaliser)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _query(self, proposal: Proposal, policy: Policy, episode: int) -> Query:
        """The query of a proposal with its policy, whose first episode has this number."""
        seeds = tuple(episode_seed(self.seed, episode + number) for number in range(proposal.episodes))
        number, parameters = self.progress.next_id, policy.parameters
        self.progress.next_id += 1
        return Query(number, proposal.role, self.iteration, proposal.episodes, parameters, policy, seeds)

    def _planned(self) -> list[tuple[Proposal, Policy]]:
        """The next stage: what the search proposes, within the constraints and limits of the task."""
        proposals = self._propose()
        if not proposals:
            raise RuntimeError(f"search {self.name!r} proposed nothing")
        policies = [
            self.policies.policy(np.array(item.parameters, dtype=np.float64), self.normaliser, item.path)
            for item in proposals
        ]
        keepers = [keeper for keeper in (self.constraints, self.limits) if keeper is not None]
        if any(keeper.must_look(policies) for keeper in keepers):
            here = self.policies.policy(self.centre, self.normaliser)
            self._looking, policy = True, here if self.limits is None else self.limits.reference
            return [(Proposal(policy.parameters, "centre"), policy)]
        for keeper in keepers:  # The limits last: they hold for certain.
            policies = [keeper.within(policy, self.centre) for policy in policies]
        return list(zip(proposals, policies, strict=True))

    def _keep_limits(self) -> None:
        """Keep the task's limits and constraints, from the policy at the centre on."""
        self.limits = LimitKeeper.of(self.policies, self.centre, self.normaliser)
        if self.limits is not None:
            self.parts["limits"] = self.limits
        self.constraints = ConstraintKeeper.of(self.policies, self.centre, self.normaliser, self.seed)
        if self.constraints is not None:
            self.parts["constraints"] = self.constraints
            self.parts |= {f"constraint {item.constraint.name}": item for item in self.constraints.processes}

    def _learn_constraints(self, stage: list[Answer]) -> None:
        """Take in the costs and the crashes of a stage."""
        if self.constraints is None:
            return
        with self._timed("constraints"):
            verdicts = [self.constraints.judged(query.policy) for query, _ in stage]  # Before anything is learned.
            for (query, outcomes), verdict in zip(stage, verdicts, strict=True):
                self.constraints.saw(query.id, query.policy, outcomes, verdict, query.role, query.iteration)
            self.constraints.learn(self.policies.policy(self.centre, self.normaliser))

    def _constrain_move(self) -> Metrics:
        """Keep the new centre within the constraints, and trust no policy that is not."""
        if self.constraints is None:
            return {}
        progress, violations = self.progress, {"violations": self.constraints.memory.violations}
        with self._timed("constraints"):
            kept = self.constraints.move(self.policies.policy(self.centre, self.normaliser))
            if kept is None:
                return violations
            if progress.believed is not None and not self.constraints.trusts(progress.believed, self.normaliser):
                progress.believed = None
        progress.centre = kept.centre
        return {**violations, "constraint_probability": kept.probability, "step_safe": kept.share}

    def _limit_move(self) -> Metrics:
        """Keep the new centre within the limits; if need be together with the normaliser that it had."""
        if self.limits is None:
            return {}
        progress = self.progress
        wanted = self.policies.policy(self.centre, self.normaliser)
        centre, share = self.limits.move(wanted)
        progress.centre = centre.parameters
        if not same_normaliser(centre.normaliser, wanted.normaliser):
            progress.normaliser, progress.believed = centre.normaliser, None
        return {"step_limited": share}

    def _validate(self, query: Query, outcomes: Sequence[Outcome]) -> None:
        if not hasattr(query, "id") or not isinstance(outcomes, list | tuple):
            raise ConfigError("tell takes a query, as `ask` gave it, and the list of its outcomes")
        open_ids = [item.id for item in self.open_queries()]
        if query.id not in open_ids:
            raise ConfigError(f"query {query.id} is not open; open are {open_ids}. Was it told already?")
        expected = next(item.episodes for item in self._open if item.id == query.id)
        if len(outcomes) != expected:
            raise ConfigError(
                f"query {query.id} asked for {count(expected, 'episode')}, {count(len(outcomes), 'outcome')} came"
            )
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Failed):
                continue
            if not isinstance(outcome, Trajectory):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ShapeError(f"outcome {number} is a {type(outcome).__name__}, expected a Trajectory or Failed")
            sizes = (outcome.observations.shape[1], outcome.actions.shape[1])
            if sizes != (self.spec.observation_dim, self.spec.action_dim):
                raise ShapeError(
                    f"outcome {number} has {sizes[0]} observations and {sizes[1]} actions per step; "
                    f"the task has {self.spec.observation_dim} and {self.spec.action_dim}"
                )
            if outcome.costs.shape[1] != len(self.spec.constraints):
                raise ShapeError(
                    f"outcome {number} has {outcome.costs.shape[1]} costs per step; the task has "
                    f"{count(len(self.spec.constraints), 'constraint')}"
                )

    def _count(self, answer: Answer) -> None:
        progress, worked = self.progress, answer.trajectories
        progress.episodes += len(answer.outcomes)
        progress.failures += len(answer.outcomes) - len(worked)
        progress.steps += sum(len(trajectory) for trajectory in worked)
        if worked and answer.query.policy.path is None:  # A path's return is of no single policy.
            value = float(np.mean([trajectory.total() for trajectory in worked]))
            broken = self.constraints is not None and any(map(self.constraints.violated, worked))
            if value > progress.best.value and not broken:
                progress.best = Best(value, answer.query.parameters, answer.query.policy.normaliser)

    def _standardise(self, stage: list[Answer]) -> None:
        """Give a policy class that asks for it inputs of size one, from the first episodes on; see `ScaledInputs`."""
        policy_class, episodes = self.config.policy, [item for answer in stage for item in answer.trajectories]
        if self.normaliser.count or not episodes:
            return
        if isinstance(policy_class, ScaledInputs) and policy_class.standardise:
            observations = np.concatenate([trajectory.observations[:-1] for trajectory in episodes])
            self.progress.normaliser = self.normaliser.add(observations).with_scales()
            self.cache = type(self.cache)()  # What was computed before is of other inputs.

    def _complete_iteration(self, metrics: Metrics) -> Metrics:
        progress = self.progress
        counted: Metrics = {
            "iteration": progress.iteration,
            "episodes": progress.episodes,
            "steps": progress.steps,
            "failures": progress.failures,
            "centre_return": progress.centre_return,
            **metrics,
            **self._constrain_move(),
            **self._limit_move(),
        }
        progress.history.append(copy.deepcopy(counted))
        progress.iteration += 1
        timed = {**counted, **{f"seconds_{phase}": seconds for phase, seconds in self._seconds.items()}}
        self._seconds = {}
        return timed
