"""What searches with critics share: the advantage mean function over the centre's states, scores, weights, resets (paper Sections 3.2 and 4).

At a new centre: append its episodes, reset the optimisers and the worst critic, learn Q of π_θ; after every probe: learn on, score, weigh
(Algorithm 1). The prior mean of J is then m̂(x) = Ĵ(θ) + Σ_i w_i adv_i(x); with aggregation `evidence` the weights are not chosen but integrated out.

Shapes: n points in the window, d parameters, k critics.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from abps.config import AdvantageConfig, BudgetConfig, replace
from abps.critics import Centre, make_critics
from abps.critics.scores import aggregate, r2, scores, worst_member
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.gp.fit import fit
from abps.gp.mean import advantage_features, advantage_gradients, validation_advantages
from abps.gp.posterior import Features, GradientPosterior, condition
from abps.search.base import Answer, Metrics
from abps.search.local import LocalSearch, Prior
from abps.seeding import generator
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

__all__ = ["AdvantageSearch"]

Array = NDArray[np.float64]
AdvantageT = TypeVar("AdvantageT", bound=AdvantageConfig)

EVIDENCE = "evidence"


class AdvantageSearch(LocalSearch[AdvantageT]):
    """A local search whose prior mean comes from critics; abstract."""

    def __init__(
        self, spec: TaskSpec, config: AdvantageT, *, seed: int = 0, budget: BudgetConfig | None = None
    ) -> None:
        super().__init__(spec, config, seed=seed, budget=budget)
        self.replay = Replay(config.critics.replay, spec.observation_dim, spec.action_dim)
        self.replay_capacity = self.replay.capacity
        self.critics = make_critics(config.critics, spec, self.policies, seed)
        self.scores: Array = np.zeros(config.critics.members)
        """R̃² of every critic (k,)."""
        self.weights: Array = np.full(config.critics.members, 1.0 / config.critics.members)
        """w (k,), Eq. (12); not used by aggregation `evidence`."""
        self._reset: int | None = None
        self._diverged = 0

    # ---- learning the critics (Algorithm 1) -------------------------------------------------------------------------

    def _point(self, answer: Answer) -> Point:
        query, trajectories = answer.query, answer.trajectories
        rng = generator(self.seed, "visits", query.id)
        visits = Visits.collect(trajectories, self.spec.gamma, self.config.states, rng)
        returns = np.array([self.objective(trajectory) for trajectory in trajectories])
        return Point(query.parameters, query.policy.normaliser, returns, query.role, query.iteration, visits)

    def _store(self, trajectories: list[Trajectory]) -> None:
        for trajectory in trajectories:
            self.replay.append(trajectory)

    def _centre_told(self) -> None:
        self._reset = None
        if self.config.reset_worst and self.iteration > 0:
            self._reset = worst_member(self.scores, only_negative=self.config.reset_only_negative)
        with self._timed("critics"):
            report = self.critics.start_centre(self._policy_centre, self.replay, self.scale, self._reset)
        self._diverged = len(report.diverged)
        self._score()

    def _probes_told(self) -> None:
        with self._timed("critics"):
            report = self.critics.update(self.replay)
        self._diverged += len(report.diverged)
        self._score()

    @property
    def _policy_centre(self) -> Centre:
        return Centre(self.policies, self.centre, self.normaliser)

    @property
    def _centre_visits(self) -> Visits:
        """The states of the newest centre in the window."""
        return next(_visits(point) for point in reversed(self.window.points) if point.role == "centre")

    def _score(self) -> None:
        """R̃² over the points of the last outer iterations, and the weights that follow from it (Eqs. 11 and 12)."""
        recent = [p for p in self.window.points if p.iteration > self.iteration - self.config.score_iterations]
        returns = np.array([point.value for point in recent]) / self.scale
        with self._timed("mean"):
            advantages = validation_advantages(self.critics, self._policy_centre, [_visits(p) for p in recent])
        self.scores = scores(self.centre_value, advantages, returns)
        if self.config.aggregation != EVIDENCE:
            self.weights = aggregate(self.config.aggregation, self.scores)

    # ---- the advantage mean function --------------------------------------------------------------------------------

    def _prior(self, points: Array) -> Prior:
        centre, visits, value = self._policy_centre, self._centre_visits, self.centre_value
        features = advantage_features(self.critics, centre, visits, points)
        gradients = advantage_gradients(self.critics, centre, visits)
        promised = self._promised(features)
        loss = self._loss(points, promised)
        if self.config.aggregation == EVIDENCE:
            flat, share = np.zeros(self.policies.size), self._prior_share
            return Prior(value - loss, value, flat, features=Features(features, gradients, share))
        return Prior(promised - loss, value, gradients @ self.weights)

    @property
    def _prior_share(self) -> float:
        """Aggregation `evidence`: the prior mean of every critic's weight."""
        return self.config.evidence_prior / self.critics.members

    def _promised(self, features: Array) -> Array:
        """m̂ (n,) where the critics' advantages are `features` (n, k), before the window's returns are looked at."""
        integrated = self.config.aggregation == EVIDENCE
        weights = np.full(self.critics.members, self._prior_share) if integrated else self.weights
        return self.centre_value + features @ weights

    def _loss(self, points: Array, promised: Array) -> Array:
        """What m̂ is known to promise too much (n,) at the window's points (n, d), where it promises so much (n,): nothing, unless a search knows better."""
        return np.zeros(len(points))

    def _used_weights(self) -> Array:
        """The weights (k,) in use: chosen, or the posterior mean of those integrated out."""
        return self.posterior.weights.mean if self.config.aggregation == EVIDENCE else self.weights

    def settled_posterior(self) -> GradientPosterior:
        """The posterior with the critics' weights fixed at those in use; μ is the same, Σ only smaller.

        With weights integrated out, Σ is largest along the critics' own gradients, and Σ⁻¹μ would turn the step away from exactly the
        directions that the critics point out (measured in benchmarks/critics).
        """
        posterior, weights = self.posterior, self._used_weights()
        if self.config.aggregation != EVIDENCE or posterior.features is None:
            return posterior
        prior = self._prior(posterior.points)
        return condition(
            posterior.points,
            self.returns,
            self.centre,
            replace(posterior.hyper, feature_scale=0.0),
            mean_at_points=prior.at_points,
            mean_at_theta=prior.at_theta,
            counts=self.counts,
            features=Features(posterior.features.values, posterior.features.gradient, weights),
        )

    def mean_gradient(self) -> Array:
        """∇m̂(θ) (d,) with the weights in use: the deterministic policy gradient of the aggregated critic (Eq. 9)."""
        return advantage_gradients(self.critics, self._policy_centre, self._centre_visits) @ self._used_weights()

    # ---- diagnostics ------------------------------------------------------------------------------------------------

    def _model_metrics(self) -> Metrics:
        weights, mu, gradient = self._used_weights(), self.posterior.mu, self.mean_gradient()
        metrics = {
            **super()._model_metrics(),
            "r2_validation": [float(score) for score in self.scores],
            "r2_test": self._test_score(weights),
            "weights": [float(weight) for weight in weights],
            "evidence_constant": self._constant_evidence(),
            "mean_gradient_norm": float(np.linalg.norm(gradient)),
            "mean_gradient_cosine": _cosine(gradient, mu),
            "critic_reset": self._reset,
            "critics_diverged": self._diverged,
            "replay": len(self.replay),
        }
        if self.config.aggregation == EVIDENCE:
            metrics["sigma_beta"] = self.posterior.hyper.feature_scale
        return metrics

    def _test_score(self, weights: Array) -> float | None:
        """R̂² of m̂ over the probes of this outer iteration."""
        probes = [k for k, p in enumerate(self.window.points) if p.iteration == self.iteration and p.role == "probe"]
        if len(probes) < 2:
            return None
        features = advantage_features(self.critics, self._policy_centre, self._centre_visits, self.points[probes])
        return float(r2(self.centre_value + features @ weights, self.returns[probes]))

    def _constant_evidence(self) -> float:
        """The evidence that the same window has without the critics, under the constant mean Ĵ(θ), less a curvature's loss of its own."""
        with self._timed("diagnostics"):
            points, constant = self.points, np.full(len(self.window), self.centre_value)
            fitted = fit(
                points,
                self.returns,
                self.config.gp,
                generator(self.seed, "fit-constant", self.iteration),
                noise=self._noise(),
                mean_at_points=constant - self._loss(points, constant),
                counts=self.counts,
                previous=self.hyper,
            )
        return fitted.evidence

    def action_changes(self, points: Array) -> Array:
        """How much points (n, d) change the actions on the centre's states: root mean square (n,), in halves of their ranges."""
        visits = self._centre_visits
        before = self.policies.actions(self.centre, visits.states, self.normaliser)
        after = self.policies.actions(points, visits.states, self.normaliser)
        half = (np.array(self.spec.action_high) - np.array(self.spec.action_low)) / 2
        squares = np.square((after - before) / half).mean(axis=2)
        return np.sqrt(squares @ (visits.weights / visits.weights.sum()))

    def action_change(self, point: Array) -> float:
        """`action_changes` of one point (d,)."""
        return float(self.action_changes(point[None])[0])

    def _step_metrics(self, centre: Array) -> Metrics:
        return {**super()._step_metrics(centre), "step_actions": self.action_change(centre)}

    # ---- saving -----------------------------------------------------------------------------------------------------

    def _state(self, replay: bool) -> dict[str, Any]:
        return {
            **super()._state(replay),
            "critics": self.critics.state(),
            "scores": self.scores,
            "weights": self.weights,
            "reset": self._reset,
            "diverged": self._diverged,
            "replay_total": self.replay.total,
            "replay": self.replay.state() if replay else None,
        }

    def _load(self, state: dict[str, Any], trajectories: Iterable[Trajectory]) -> None:
        super()._load(state, trajectories)
        self.critics.load(state["critics"])
        self.scores, self.weights = state["scores"], state["weights"]
        self._reset, self._diverged = state["reset"], state["diverged"]
        if state["replay"] is not None:
            self.replay.load(state["replay"])
        else:
            self.replay.refill(list(trajectories), state["replay_total"])


def _visits(point: Point) -> Visits:
    if point.visits is None:
        raise RuntimeError("a point of a search with critics has lost its states")
    return point.visits


def _cosine(left: Array, right: Array) -> float | None:
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > 0 else None
