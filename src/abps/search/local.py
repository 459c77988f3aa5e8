"""Local search with a model: a centre, probes around it, a Gaussian process over a window of points (paper Algorithm
2).

One outer iteration: run the centre; run probes, each where it tells most about ∇J(θ); move the centre. After every told
stage the prior learns and the hyper-parameters are fitted (Algorithm 1). What these words mean is chosen by parts: MPD,
GIBO, ABS and the ablation `ddpgn` are different choices (`recipes.py`).

    trajectories ─► window, replay ─► Neighbourhood ─► prior ─► GP.fit ─► Model ─► probing | step

Shapes: n points in the window, d parameters.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from abps.acquisition.probing import MaximiseCriterion, Probing
from abps.arrays import Array
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point, added
from abps.model.chart import Chart, Identity
from abps.model.gp import GP, Model
from abps.model.kernel import Hyper
from abps.model.neighbourhood import Neighbourhood
from abps.model.prior import ConstantPrior, Prior
from abps.normaliser import Normaliser
from abps.policies.base import PolicyClass
from abps.policies.linear import LinearTanh
from abps.policies.observations import Observations, RawObservations
from abps.policies.path import ParameterPath
from abps.search.base import Answer, Metrics, Proposal, Search, SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.plan import AdaptsPaths, CentreThenProbes, Plan, Situation, Stage
from abps.search.restarts import Attempts, Belief, NoRestarts, Restarts
from abps.seeding import generator
from abps.settings import check_types, require, setting
from abps.state import NoMemory
from abps.steps.base import Move, StepInput, StepRule
from abps.steps.walk import Walk
from abps.tasks.spec import TaskSpec

__all__ = ["LocalMemory", "LocalSearch", "LocalSearchConfig", "automatic_scale", "random_paths"]


UNSETTLED_MOVES = 4
"""How often a step rule may be asked in one outer iteration: all but the last time it may change to an earlier policy.
"""


SMALLEST_SPREAD = 1e-12
"""Of scaled returns: below it they are all alike."""


@dataclass(frozen=True)
class LocalSearchConfig(SearchConfig):
    """The parts of a local search.

    Example:
        >>> import abps
        >>> from abps.model.kernel import Matern52
        >>> from abps.model.gp import GP
        >>> config = abps.LocalSearchConfig(gp=GP(kernel=Matern52()))
        >>> config.make(abps.make_task("pendulum").spec, seed=0).ask().role
        'centre'
    """

    policy: PolicyClass = setting(LinearTanh(), "class of policies")
    observations: Observations = setting(RawObservations(), "what policies see")
    reward_shift: float = setting(0.0, "subtracted from every reward before scaling (the survival bonus)")
    chart: Chart = setting(Identity(), "coordinates in which lengths are measured")
    prior: Prior = setting(ConstantPrior(), "mean function of the process")
    gp: GP = setting(GP(), "Gaussian process")
    probing: Probing = setting(MaximiseCriterion(), "how probes are chosen")
    step: StepRule = setting(Walk(), "how the centre moves")
    plan: Plan = setting(CentreThenProbes(), "which episodes an outer iteration runs")
    restarts: Restarts = setting(NoRestarts(), "when the search begins anew")
    states: int | None = setting(
        None, "visited states kept per point (γᵗ-weighted systematic subsample; 0: all); none: not kept"
    )

    chart_points: int | None = setting(
        None, "newest points whose states the chart and the critics' gradient are measured on; none: all of the window"
    )
    clip_returns: bool = setting(
        False, "clip returns far outside the window's usual range, so that one runaway does not outweigh all others"
    )
    discount: float | None = setting(
        None, "γ of the return that is maximised, and of the states in the mean function; none: the task's"
    )

    def __post_init__(self) -> None:
        check_types(self)
        require(self.states is None or self.states >= 0, "states must not be negative")
        require(self.chart_points is None or self.chart_points >= 1, "chart_points must be at least 1")
        require(self.discount is None or 0 < self.discount <= 1, "discount must be in (0, 1]")

    def make(
        self, spec: TaskSpec, *, seed: int = 0, budget: BudgetConfig | None = None, name: str = ""
    ) -> "LocalSearch":
        return LocalSearch(spec, self, seed=seed, budget=budget, name=name)


@dataclass
class LocalMemory:
    """What a local search remembers beside its progress."""

    scale: float
    """Returns are divided by it."""
    fresh: Normaliser
    """Observations of this iteration's probes, for the normaliser."""
    window: list[Point] = field(default_factory=list)
    hyper: Hyper | None = None
    stage: str = ""
    """Name of the last told stage of this outer iteration."""
    probes: int = 0
    """Probes told in this outer iteration."""
    avoid: list[Array] = field(default_factory=list)
    """Parameters of failed queries, the newest N_max of them: no probe is placed next to them."""
    previous: Array | None = None
    """The centre before this one, to fall back on when this one cannot be run."""
    ahead: Array | None = None
    """Parameters of a probe that the last step asked for, run beside the new centre."""
    fallbacks: int = 0
    """Probes of this iteration that were placed by a fallback."""
    path_scale: float = 1.0
    """Factor of the size of paths, adapted by the plan."""
    stuck: bool = False
    """Whether the last outer iteration went back to an earlier policy."""
    step: Any = field(default_factory=NoMemory)
    """What the step rule remembers."""
    attempts: Attempts = field(default_factory=Attempts)
    """How the search from its last start on has fared, and what the ones before it led to."""
    believed: Array | None = None
    """(d,): the policy that the step rule believes to be the best; None: the centre."""


@dataclass
class LocalCache:
    """What a local search can compute again."""

    model: Model | None = None
    """The process at the current centre."""
    fallback: bool = False
    """Whether the open probe was placed by a fallback; counted when it is told, because a resume plans it anew."""


class LocalSearch(Search[LocalSearchConfig]):
    """The outer iteration; final: everything that can differ is a part."""

    memory: LocalMemory
    cache: LocalCache

    def __init__(
        self,
        spec: TaskSpec,
        config: LocalSearchConfig,
        *,
        seed: int = 0,
        budget: BudgetConfig | None = None,
        name: str = "",
    ) -> None:
        super().__init__(spec, config, seed=seed, budget=budget, name=name)
        self.prior = config.prior.start(self.policies, self.objective, seed, self._timed)
        self.parts["prior"] = self.prior
        if self.prior.replay_capacity:
            self.replay = Replay(self.prior.replay_capacity, spec.observation_dim, spec.action_dim)
        self._restarts = NoRestarts() if spec.limits.action_change or spec.constraints else config.restarts
        """A new start is a large change: a task that limits changes, or what a policy may cost, has one attempt."""
        self._started()
        self.cache = LocalCache()

    def _started(self) -> None:
        self.memory = LocalMemory(
            self.spec.reward_scale or 1.0,
            Normaliser.empty(self.spec.observation_dim),
            attempts=Attempts(origin=self.centre),
            step=self.config.step.memory_type(),
        )

    # ---- planning ----------------------------------------------------------------------------------------------------

    def _propose(self) -> list[Proposal]:
        stage, proposals, ahead = self._stage(), [], self.memory.ahead
        if stage.ahead and ahead is not None:
            proposals.append(Proposal(ahead, "probe"))
        elif stage.centre_episodes:
            proposals.append(Proposal(self.centre, "centre", stage.centre_episodes))
        if stage.gaussian:
            proposals += self._gaussian_probes(stage)
        if stage.probe:
            proposals.append(self._chosen_probe())
        if stage.paths:
            proposals += self._paths(stage)
        return proposals

    def _gaussian_probes(self, stage: Stage) -> list[Proposal]:
        rng = generator(self.seed, "design", self.iteration)
        moves = stage.std * rng.standard_normal((stage.gaussian, self.policies.size))
        chart = self.neighbourhood().coordinates
        return [Proposal(chart.to_parameters(chart.centre + move), "probe") for move in moves]

    def _chosen_probe(self) -> Proposal:
        rng = generator(self.seed, "acquisition", self.iteration, self.memory.probes)
        with self._timed("acquisition"):
            chart = self.model.neighbourhood.coordinates
            avoid = [chart.to_chart(point) for point in self.memory.avoid]
            probe = self.config.probing.choose(self.model.posterior, avoid, rng)
        self.cache.fallback = probe.fallback
        return Proposal(chart.to_parameters(probe.point), "probe")

    def _paths(self, stage: Stage) -> list[Proposal]:
        rng = generator(self.seed, "paths", self.iteration, stage.name)
        paths = random_paths(self.neighbourhood(), stage, rng)
        role = "scout" if stage.scout else "path"
        return [Proposal(self.centre, role, path=path) for path in paths]

    def _stage(self) -> Stage:
        stage = self._next_stage()
        if stage is None:
            raise RuntimeError("the plan gives no first stage of an outer iteration")
        return stage

    def _next_stage(self) -> Stage | None:
        memory = self.memory
        points, horizon = len(memory.window), self.spec.horizon
        situation = Situation(self.iteration, memory.stage, memory.probes, points, horizon, memory.path_scale)
        return self.config.plan.next(situation)

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, stage: list[Answer]) -> Metrics | None:
        memory, name, new_centre = self.memory, self._stage().name, not self.memory.stage
        around = [answer for answer in stage if answer.query.role in ("centre", "path")]
        self._store(stage)
        if new_centre and not any(answer.trajectories for answer in around):
            return self._retreat()
        self._take_in(stage)
        memory.stage = name
        memory.probes += sum(answer.query.role == "probe" for answer in stage)
        memory.fallbacks, self.cache.fallback = memory.fallbacks + self.cache.fallback, False
        following = self._next_stage()
        if new_centre:
            self._take_in_centre(around)
        elif following is not None and following.paths:
            return None  # Paths need no model.
        elif any(answer.trajectories for answer in stage):
            self.prior.new_episodes(self.neighbourhood(), self.replay, self.iteration)
        self._fit(name if not new_centre or following is None else following.name)
        self._adapt_paths(around)
        return self._move() if following is None else None

    def _store(self, stage: list[Answer]) -> None:
        """Put every episode that worked into the replay, whatever becomes of the stage: a resume fills it the same."""
        if self.replay is not None:
            for answer in stage:
                for trajectory in answer.trajectories:
                    self.replay.append(trajectory)

    def _take_in(self, stage: list[Answer]) -> None:
        """Put what worked into the window, and remember what failed."""
        memory, capacity = self.memory, self.config.plan.window
        for answer in stage:
            if not answer.trajectories:
                memory.avoid = [*memory.avoid, answer.query.parameters][-capacity:]
                continue
            memory.window = added(memory.window, self._point(answer), capacity, memory.believed)
            if any(trajectory.terminated for trajectory in answer.trajectories):
                memory.attempts = replace(memory.attempts, ended_early=True)
            if answer.query.role != "centre":
                for trajectory in answer.trajectories:
                    memory.fresh = memory.fresh.add(trajectory.observations[:-1])

    def _adapt_paths(self, around: list[Answer]) -> None:
        """Tell the plan what paths around the centre lost: how far below the model's J(θ) they returned, in spreads."""
        told = [self._maximised.total(t) for item in around if item.query.role == "path" for t in item.trajectories]
        plan = self.config.plan
        if told and isinstance(plan, AdaptsPaths):
            near, memory = self.model.neighbourhood, self.memory
            here = float(self.model.better(near.theta[None])[0][0])
            returned = float(np.clip(np.mean(told) / near.scale, near.returns.min(), near.returns.max()))
            cost = (here - returned) / max(float(near.returns.std()), SMALLEST_SPREAD)
            memory.path_scale = plan.adapted(memory.path_scale, cost, stuck=memory.stuck)

    def _take_in_centre(self, around: list[Answer]) -> None:
        """Learn at a new centre, whose episodes at rest or along paths are in window and replay."""
        self._note_centre(float(np.mean([trajectory.total() for item in around for trajectory in item.trajectories])))
        if self.spec.reward_scale is None:
            self.memory.scale = automatic_scale(np.array([point.value for point in self.memory.window]))
        self.prior.new_centre(self.neighbourhood(), self.replay, self.iteration)

    def _point(self, answer: Answer) -> Point:
        """What the window keeps of an answer."""
        query, trajectories, visits = answer.query, answer.trajectories, None
        maximised = self._maximised
        returns = np.array([maximised.total(trajectory) for trajectory in trajectories])
        if self.config.states is not None:
            rng = generator(self.seed, "visits", query.id)
            visits = Visits.collect(trajectories, maximised.gamma, self.config.states, rng)
        start = np.array(trajectories[0].observations[0], dtype=np.float64) if visits is not None else None
        return Point(query.parameters, query.policy.normaliser, returns, query.role, query.iteration, visits, start)

    @property
    def _maximised(self) -> Objective:
        """What the attempt under way maximises: a near-sighted one looks less far ahead than the search."""
        farthest = self._restarts.discount(self.memory.attempts, self.spec.horizon)
        return replace(self.objective, gamma=min(self.objective.gamma, farthest))

    def _retreat(self) -> Metrics:
        """Give up a centre that failed for the point half-way to the one before it."""
        memory, progress = self.memory, self.progress
        memory.avoid = [*memory.avoid, self.centre][-self.config.plan.window :]
        if memory.previous is not None:
            progress.centre = 0.5 * (self.centre + memory.previous)
        return {"retreat": "failed"}

    # ---- the model ---------------------------------------------------------------------------------------------------

    def neighbourhood(self) -> Neighbourhood:
        """The centre and the window's points as the process sees them."""
        memory, config = self.memory, self.config
        newest = memory.window if config.chart_points is None else memory.window[-config.chart_points :]
        return Neighbourhood(
            self.policies.policy(self.centre, self.normaliser),
            tuple(point for point in memory.window if point.role != "scout"),
            memory.scale,
            config.chart,
            recent=config.chart_points,
            scouts=tuple(point for point in newest if point.role == "scout"),
            clip_returns=config.clip_returns,
            remap=config.observations.remaps,
        )

    def _fit(self, stage: str) -> None:
        """Fit the hyper-parameters to the window, starting from the last ones."""
        self.cache.model = None
        memory = self.memory
        if not memory.window:
            return
        near = self.neighbourhood()
        with self._timed("mean"):
            prior = self.prior.mean(near)
        with self._timed("fit"):
            rng = generator(self.seed, "fit", self.iteration, memory.probes, stage)
            warm = stage == "probe" and memory.probes > 0
            self.cache.model = self.config.gp.fit(near, prior, rng, memory.hyper, warm=warm)
        memory.hyper = self.cache.model.hyper

    @property
    def model(self) -> Model:
        """The process at the current centre, computed anew when it is not at hand."""
        if self.cache.model is None:
            if self.memory.hyper is None:
                raise RuntimeError("the Gaussian process is used before it was fitted")
            near = self.neighbourhood()
            self.cache.model = self.config.gp.model(near, self.prior.mean(near), self.memory.hyper)
        return self.cache.model

    # ---- the move ----------------------------------------------------------------------------------------------------

    def _move(self) -> Metrics:
        """Move the centre, and end the outer iteration."""
        memory, progress, changes, left = self.memory, self.progress, {}, self.centre
        move = self._asked_for_move()
        for _ in range(UNSETTLED_MOVES):
            changes |= move.metrics
            if move.go_to is None:
                break
            self._change_centre(move.go_to)
            move = self._asked_for_move()
        model = self.model
        chart = model.neighbourhood.coordinates
        centre = chart.to_parameters(move.centre)
        metrics = {**self._model_metrics(model), **self._step_metrics(model, centre), **changes}
        memory.previous, progress.centre, memory.ahead = left, centre, move.ahead
        memory.stuck = "retreat" in changes
        believed = centre if move.believed is None else move.believed
        verdict = self._restarts.judge(memory.attempts, lambda: self._belief(model, believed), self.episodes)
        memory.attempts, memory.believed = verdict.attempts, move.believed
        progress.believed = move.believed if verdict.current is None else verdict.current
        self._update_normaliser()
        if verdict.start is None:
            memory.stage, memory.probes, memory.fallbacks = "", 0, 0
        else:
            metrics["restart"] = verdict.attempts.kind
            self._begin_at(verdict.start)
        self.cache.model = None
        return metrics

    def _belief(self, model: Model, parameters: Array) -> Belief:
        near = model.neighbourhood
        mean, deviation = model.value(near.coordinates.to_chart(parameters))
        return Belief(parameters, near.scale * mean, near.scale * deviation)

    def _begin_at(self, start: Array) -> None:
        """Begin anew somewhere else: nothing that was measured elsewhere is held against what is measured there."""
        memory, first = self.memory, self.config.step.memory_type()
        self.memory = LocalMemory(memory.scale, memory.fresh, hyper=memory.hyper, attempts=memory.attempts, step=first)
        self.progress.centre = start
        self.prior.begin_anew(self.replay)

    def _asked_for_move(self) -> Move:
        with self._timed("step"):
            rng = generator(self.seed, "step", self.iteration)
            move = self.config.step(StepInput(self.model, self.prior.weights, self.memory.step, rng))
        if move.memory is not None:
            self.memory.step = move.memory
        return move

    def _change_centre(self, parameters: Array) -> None:
        """Go to a policy that was run before, and model it from the same data."""
        self.progress.centre = parameters
        self.prior.gone_back(self.neighbourhood(), self.replay, self.iteration)
        self._fit(f"{self.memory.stage} again")

    def _update_normaliser(self) -> None:
        progress, memory, observations = self.progress, self.memory, self.config.observations
        old, progress.normaliser = progress.normaliser, observations.updated(progress.normaliser, memory.fresh)
        memory.fresh = Normaliser.empty(self.spec.observation_dim)
        if observations.remaps:
            remapped, new = self.policies.remapped, progress.normaliser
            progress.centre = remapped(progress.centre, old, new)
            memory.previous = None if memory.previous is None else remapped(memory.previous, old, new)
            memory.ahead = None if memory.ahead is None else remapped(memory.ahead, old, new)
            progress.believed = None if progress.believed is None else remapped(progress.believed, old, new)
            memory.believed = None if memory.believed is None else remapped(memory.believed, old, new)
            memory.avoid = [remapped(point, old, new) for point in memory.avoid]
            memory.attempts = self._remapped_attempts(old, new)

    def _remapped_attempts(self, old: Normaliser, new: Normaliser) -> Attempts:
        attempts, remapped = self.memory.attempts, self.policies.remapped
        champion = attempts.champion
        if champion is not None:
            champion = replace(champion, parameters=remapped(champion.parameters, old, new))
        return replace(attempts, origin=remapped(attempts.origin, old, new), champion=champion)

    def _model_metrics(self, model: Model) -> Metrics:
        hyper, posterior, near = model.posterior.hyper, model.posterior, model.neighbourhood
        values = np.array([p.value for p in near.entries if p.iteration == self.iteration and p.role == "probe"])
        return {
            "lengthscale_low": float(hyper.lengthscales.min()),
            "lengthscale_median": float(np.median(hyper.lengthscales)),
            "lengthscale_high": float(hyper.lengthscales.max()),
            "signal": hyper.signal,
            "noise": hyper.noise,
            "mean_constant": hyper.mean,
            "log_likelihood": model.log_marginal_likelihood,
            "fit_fallback": model.fallback,
            "acquisition_fallbacks": self.memory.fallbacks,
            "probability_ascent": posterior.max_probability,
            "mu_norm": float(np.linalg.norm(posterior.mu)),
            **({"path_scale": self.memory.path_scale} if any(p.role == "path" for p in near.entries) else {}),
            "noise_raised": model.noise_raised,
            "jitter": posterior.factor.jitter,
            "reward_scale": self.memory.scale,
            "centre_discounted": near.centre_value * self.memory.scale,
            "probe_discounted_mean": float(values.mean()) if values.size else None,
            "probe_discounted_max": float(values.max()) if values.size else None,
            **self.prior.metrics(model, self.iteration),
            **({} if self.replay is None else {"replay": len(self.replay)}),
        }

    def _step_metrics(self, model: Model, centre: Array) -> Metrics:
        metrics: Metrics = {"step_length": float(np.linalg.norm(centre - self.centre))}
        if self.config.states is not None:
            metrics["step_actions"] = model.neighbourhood.action_change(centre)
        return metrics


def random_paths(near: Neighbourhood, stage: Stage, rng: np.random.Generator) -> list[ParameterPath]:
    """Paths through random knots around the centre, which shift the actions or change the weights.

    A slow shift takes the system to other states; a quick one is hardly foretold by the state it happens in, so that
    the critics can tell what the action did from where the system was.
    """
    spec, chart, size = near.centre.spec, near.coordinates, len(near.theta)
    interval = stage.path_interval
    knots = spec.horizon // interval + 2
    moves = stage.path_size / np.sqrt(size) * rng.standard_normal((stage.paths, knots, size))
    if stage.path_shift > 0:
        shifts = stage.path_shift * rng.standard_normal((stage.paths, knots, spec.action_dim))
        moves += shifts @ near.action_shifts
    if stage.quick_shift > 0:
        interval, many = stage.quick_interval, spec.horizon // stage.quick_interval + 2
        quick = stage.quick_shift * rng.standard_normal((stage.paths, many, spec.action_dim))
        moves = _interpolated(moves, many, interval / stage.path_interval) + quick @ near.action_shifts
    return [ParameterPath(chart.to_parameters(chart.centre + move), interval) for move in moves]


def _interpolated(knots: Array, count: int, spacing: float) -> Array:
    """Values (m, count, d) between knots (m, k, d), `spacing` knots apart; after the last knot they stay there."""
    places = np.minimum(np.arange(count) * spacing, knots.shape[1] - 1.0)
    first = np.minimum(places.astype(int), knots.shape[1] - 2)
    share = (places - first)[:, None]
    return (1.0 - share) * knots[:, first] + share * knots[:, first + 1]


def automatic_scale(values: Array) -> float:
    """The power of two just above the largest |return| of the window, so that scaled returns lie in [−1, 1].

    A power of two changes no digit of the returns, and changes seldom; returns that are all zero are left as they are.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return 1.0
    return float(2.0 ** np.clip(np.ceil(np.log2(largest)), -1000, 1000))
