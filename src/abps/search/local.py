"""What MPD, GIBO, ABS and their relatives share: a centre, probes around it, a Gaussian process over a window of points.

One outer iteration (paper Algorithm 2): run the centre N_c times; then probes one by one, each where the criterion expects to learn
most about ∇J(θ) (in the first iteration N_max − 1 Gaussian probes side by side instead); then one move of the centre. After every told
stage the hyper-parameters are fitted (Algorithm 1, last line). A concrete search says what the prior mean is and how to move.

Shapes: n points in the window, d parameters.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.maximise import Criterion, maximise
from abps.config import BudgetConfig, GpConfig, LocalSearchConfig, replace
from abps.data.window import Point, Window
from abps.errors import NumericsError
from abps.gp.fit import Fit, fit, noise_estimate
from abps.gp.kernel import Hyper
from abps.gp.posterior import Features, GradientPosterior, condition
from abps.normaliser import Normaliser
from abps.search.base import Answer, Metrics, Proposal, Search
from abps.seeding import generator
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

__all__ = ["LocalSearch", "Move", "Prior", "automatic_scale", "constant_prior"]

Array = NDArray[np.float64]
LocalT = TypeVar("LocalT", bound=LocalSearchConfig)

NOISE_RAISES = 6
"""How often the noise may grow tenfold before a covariance that cannot be factored is an error."""

CENTRE, DESIGN, PROBE = "centre", "design", "probe"

MAX_RETREATS = 3
"""Retreats in a row from centres that are worse: the last one may just have been lucky, and half-way back forever is a standstill."""


class Prior(NamedTuple):
    """What a search believes of J before the window's returns are looked at, in scaled units."""

    at_points: Array
    """m(X) (n,)"""
    at_theta: float
    """m(θ)"""
    gradient: Array
    """∇m(θ) (d,)"""
    features: Features | None = None
    """The critics' advantages, when their weights are left to the evidence."""
    mean_bound: float | None = None
    """A constant is fitted in ± this and added; None: no constant."""


def constant_prior(points: Array, bound: float) -> Prior:
    """The black-box prior of MPD and GIBO: a constant, fitted with the other hyper-parameters."""
    return Prior(np.zeros(len(points)), 0.0, np.zeros(points.shape[1]), mean_bound=bound)


class Move(NamedTuple):
    """Where the centre goes, and what to write down about it."""

    centre: Array
    """(d,)"""
    metrics: Metrics


class LocalSearch(Search[LocalT]):
    """The outer iteration; abstract."""

    def __init__(self, spec: TaskSpec, config: LocalT, *, seed: int = 0, budget: BudgetConfig | None = None) -> None:
        super().__init__(spec, config, seed=seed, budget=budget)
        self.window = Window(config.window, self.policies, config.remap)
        self.hyper: Hyper | None = None
        self.scale = spec.reward_scale or 1.0
        self.stage = CENTRE
        self.probe = 0
        """Probes told in this outer iteration."""
        self.avoid: list[Array] = []
        """Parameters of probes that failed, the newest N_max of them: no probe is placed next to them."""
        self.previous: Array | None = None
        """The centre before this one, to fall back on when this one cannot be run or is clearly worse."""
        self.previous_value = -np.inf
        """The mean return of the centre before this one, unscaled."""
        self.retreats = 0
        """Retreats in a row from centres that were worse."""
        self._fresh = Normaliser.empty(spec.observation_dim)
        self._fitted: Fit | None = None
        self._posterior: GradientPosterior | None = None
        self._acquisition_fallbacks = 0
        self._fallback = False
        """Whether the open probe was placed by a fallback; counted when it is told, because a resume plans it anew."""

    # ---- what a concrete search says --------------------------------------------------------------------------------

    @abstractmethod
    def _prior(self, points: Array) -> Prior:
        """The prior mean at the window's points (n, d) and at the centre."""

    @abstractmethod
    def _choose_probe(self, rng: np.random.Generator) -> Array:
        """Where to probe next (d,)."""

    @abstractmethod
    def _move(self) -> Move:
        """The move that ends the outer iteration."""

    def _store(self, trajectories: list[Trajectory]) -> None:
        """Called with every told trajectory, in the order of the journal."""

    def _centre_told(self) -> None:
        """Called when a new centre's episodes are in the window."""

    def _probes_told(self) -> None:
        """Called when probes' episodes are in the window."""

    def _point(self, answer: Answer) -> Point:
        """What the window keeps of an answer."""
        returns = np.array([self.objective(trajectory) for trajectory in answer.trajectories])
        query = answer.query
        return Point(query.parameters, query.policy.normaliser, returns, query.role, query.iteration)

    # ---- the outer iteration ----------------------------------------------------------------------------------------

    def _propose(self) -> list[Proposal]:
        if self.stage == CENTRE:
            return [Proposal(self.centre, "centre", self.config.centre_episodes)]
        if self.stage == DESIGN:
            rng = generator(self.seed, "design", self.iteration)
            moves = self.config.design_std * rng.standard_normal((self._design_size, self.policies.size))
            return [Proposal(self.centre + move, "probe") for move in moves]
        rng = generator(self.seed, "acquisition", self.iteration, self.probe)
        with self._timed("acquisition"):
            return [Proposal(self._choose_probe(rng), "probe")]

    @property
    def _design_size(self) -> int:
        return max(self.config.window - 1, 1)

    def _learn(self, stage: list[Answer]) -> Metrics | None:
        if self.stage == CENTRE:
            return self._learn_centre(stage[0])
        self._learn_probes(stage)
        self.probe += len(stage)
        self._acquisition_fallbacks, self._fallback = self._acquisition_fallbacks + self._fallback, False
        done = self.stage == DESIGN or self.probe >= self.config.probes
        self._refit()
        if not done:
            return None
        metrics = self._finish_iteration()
        self.stage, self.probe = CENTRE, 0
        return metrics

    def _learn_centre(self, answer: Answer) -> Metrics | None:
        if not answer.trajectories:
            self.avoid = [*self.avoid, self.centre][-self.config.window :]
            return self._retreat("failed")
        self._note_centre(float(np.mean([trajectory.total() for trajectory in answer.trajectories])))
        self.window.add(self._point(answer))
        self._store(answer.trajectories)
        if self.spec.reward_scale is None:
            self.scale = automatic_scale(self.window.values())
        if self.retreats < MAX_RETREATS and self._clearly_worse():
            self.retreats += 1
            return self._retreat("worse")
        self.retreats = 0
        self._centre_told()
        self.stage = DESIGN if self.iteration == 0 or len(self.window) < 2 else PROBE
        self._refit()
        return None

    def _learn_probes(self, stage: list[Answer]) -> None:
        for answer in stage:
            if not answer.trajectories:
                self.avoid = [*self.avoid, answer.query.parameters][-self.config.window :]
                continue
            self.window.add(self._point(answer))
            for trajectory in answer.trajectories:
                self._fresh = self._fresh.add(trajectory.observations[:-1])
        trajectories = [trajectory for answer in stage for trajectory in answer.trajectories]
        self._store(trajectories)
        if trajectories:
            self._probes_told()

    def _clearly_worse(self) -> bool:
        """Whether the centre's mean return lies far below the last centre's, measured by how much the window's returns vary.

        The episodes' noise would be too fine a measure: where it is small, every second centre is a little worse beyond doubt.
        """
        if not self.config.backtrack or self.previous is None:
            return False
        spread = float(np.std(self.returns))
        return self.centre_value < self.previous_value / self.scale - self.config.backtrack * spread

    def _retreat(self, reason: str) -> Metrics:
        """Give up a centre that failed or is clearly worse for the point half-way to the one before it."""
        if self.previous is not None:
            self.centre = 0.5 * (self.centre + self.previous)
        return {"retreat": reason}

    def _finish_iteration(self) -> Metrics:
        with self._timed("step"):
            move = self._move()
        metrics = {**self._model_metrics(), **self._step_metrics(move.centre), **move.metrics}
        self.previous, self.previous_value = self.centre, self.centre_value * self.scale
        self.centre = move.centre
        self._update_normaliser()
        self._posterior, self._acquisition_fallbacks = None, 0
        return metrics

    def _update_normaliser(self) -> None:
        if not self.spec.normalise:
            return
        old = self.normaliser
        self.normaliser = old.widen(self._fresh) if self.config.anchor else old.merge(self._fresh)
        self._fresh = Normaliser.empty(self.spec.observation_dim)
        if self.config.remap:
            self.centre = self.policies.rescaled(self.centre, old, self.normaliser)
            if self.previous is not None:
                self.previous = self.policies.rescaled(self.previous, old, self.normaliser)
            self.avoid = [self.policies.rescaled(point, old, self.normaliser) for point in self.avoid]

    # ---- the model --------------------------------------------------------------------------------------------------

    @property
    def points(self) -> Array:
        """X (n, d), in the current coordinates."""
        return self.window.coordinates(self.normaliser)

    @property
    def returns(self) -> Array:
        """Ĵ(X) (n,), scaled."""
        return self.window.values() / self.scale

    @property
    def counts(self) -> Array | None:
        return self.window.counts() if self.config.gp.weigh_repeats else None

    @property
    def centre_value(self) -> float:
        """Ĵ(θ), scaled: the mean return of the newest centre in the window."""
        return next(point.value for point in reversed(self.window.points) if point.role == "centre") / self.scale

    def _noise(self) -> float:
        """σ̂_n from the episodes of every centre in the window (Appendix A)."""
        repeated = [returns / self.scale for returns in self.window.repeated()]
        return noise_estimate(repeated, self.config.gp.noise_floor)

    def _fit_settings(self) -> GpConfig:
        """All starts at a new centre; in between the window changes by one point, and the last optimum is near."""
        settings = self.config.gp
        between = self.stage == PROBE and self.probe > 0 and self.hyper is not None
        return settings.warm if between and settings.refit == "warm" else settings

    def _refit(self) -> None:
        """Fit the hyper-parameters to the window, starting from the last ones."""
        self._posterior = None
        if len(self.window) == 0:
            return
        points = self.points
        with self._timed("mean"):
            prior = self._prior(points)
        with self._timed("fit"):
            self._fitted = fit(
                points,
                self.returns,
                self._fit_settings(),
                generator(self.seed, "fit", self.iteration, self.probe, self.stage),
                noise=self._noise(),
                mean_at_points=prior.at_points,
                mean_bound=prior.mean_bound,
                counts=self.counts,
                feature_values=None if prior.features is None else prior.features.values,
                feature_prior=0.0 if prior.features is None else prior.features.prior,
                previous=self.hyper,
            )
        self.hyper = self._fitted.hyper
        self._posterior = self._condition(self.centre, points, prior)

    @property
    def posterior(self) -> GradientPosterior:
        """The posterior of J and of ∇J at the current centre, computed anew when it is not at hand."""
        if self._posterior is None:
            points = self.points
            self._posterior = self._condition(self.centre, points, self._prior(points))
        return self._posterior

    def _maximise(self, criterion: Criterion, rng: np.random.Generator) -> Array:
        """Where the criterion is largest in the box around the centre (Appendix A), away from failed probes."""
        settings = self.config.acquisition
        starts = self.centre + self.config.design_std * rng.standard_normal((settings.starts, self.policies.size))
        found = maximise(
            criterion,
            starts,
            self.centre - settings.radius,
            self.centre + settings.radius,
            self.posterior.hyper.effective,
            rng,
            polished=settings.polished,
            iterations=settings.iterations,
            avoid=np.array(self.avoid) if self.avoid else None,
            avoid_radius=settings.avoid_radius,
        )
        self._fallback = bool(found.fallback)
        return found.point

    def _condition(self, theta: Array, points: Array, prior: Prior) -> GradientPosterior:
        """The posterior at θ; noise is raised tenfold, and that is recorded, while its covariance cannot be factored."""
        if self.hyper is None:
            raise RuntimeError("the Gaussian process is used before it was fitted")
        raises = 0
        while True:
            try:
                return condition(
                    points,
                    self.returns,
                    theta,
                    replace(self.hyper, noise=self.hyper.noise * 10.0**raises),
                    mean_at_points=prior.at_points,
                    mean_at_theta=prior.at_theta,
                    mean_gradient=prior.gradient,
                    counts=self.counts,
                    features=prior.features,
                )
            except NumericsError:
                if raises == NOISE_RAISES:
                    raise
                raises += 1

    def _model_metrics(self) -> Metrics:
        hyper, posterior = self.posterior.hyper, self.posterior
        values = np.array([p.value for p in self.window.points if p.iteration == self.iteration and p.role == "probe"])
        return {
            "lengthscale_low": float(hyper.lengthscales.min()),
            "lengthscale_median": float(np.median(hyper.lengthscales)),
            "lengthscale_high": float(hyper.lengthscales.max()),
            "signal": hyper.signal,
            "noise": hyper.noise,
            "mean_constant": hyper.mean,
            "evidence": self._fitted.evidence if self._fitted else None,
            "fit_fallback": self._fitted.fallback if self._fitted else "",
            "acquisition_fallbacks": self._acquisition_fallbacks,
            "probability_ascent": posterior.max_probability,
            "mu_norm": float(np.linalg.norm(posterior.mu)),
            "noise_raised": posterior.hyper.noise / self.hyper.noise if self.hyper is not None else 1.0,
            "jitter": posterior.factor.jitter,
            "reward_scale": self.scale,
            "centre_discounted": self.centre_value * self.scale,
            "probe_discounted_mean": float(values.mean()) if values.size else None,
            "probe_discounted_max": float(values.max()) if values.size else None,
        }

    def _step_metrics(self, centre: Array) -> Metrics:
        return {"step_length": float(np.linalg.norm(centre - self.centre))}

    # ---- saving -----------------------------------------------------------------------------------------------------

    def _state(self, replay: bool) -> dict[str, Any]:
        return {
            "window": self.window.state(),
            "hyper": None if self.hyper is None else self.hyper.state(),
            "scale": self.scale,
            "stage": self.stage,
            "probe": self.probe,
            "avoid": list(self.avoid),
            "previous": self.previous,
            "previous_value": self.previous_value,
            "retreats": self.retreats,
            "fresh": self._fresh.state(),
            "acquisition_fallbacks": self._acquisition_fallbacks,
        }

    def _load(self, state: dict[str, Any], trajectories: Iterable[Trajectory]) -> None:
        self.window.load(state["window"])
        self.hyper = None if state["hyper"] is None else Hyper.from_state(state["hyper"])
        self.scale, self.stage, self.probe = state["scale"], state["stage"], state["probe"]
        self.avoid = list(state["avoid"])
        self.previous, self.previous_value = state["previous"], state["previous_value"]
        self.retreats = state["retreats"]
        self._fresh = Normaliser.from_state(state["fresh"])
        self._acquisition_fallbacks = state["acquisition_fallbacks"]
        self._fitted = self._posterior = None
        self._fallback = False


def automatic_scale(values: Array) -> float:
    """The power of two just above the largest |return| of the window, so that scaled returns lie in [−1, 1].

    A power of two changes no digit of the returns, and changes seldom; returns that are all zero are left as they are.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return 1.0
    return float(2.0 ** np.clip(np.ceil(np.log2(largest)), -1000, 1000))
