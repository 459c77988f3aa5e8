"""A small linear-quadratic task, critics that know it exactly, and neighbourhoods measured on it without a search."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from abps.critics.base import Critics, CriticsPart, FitReport
from abps.critics.lstd_config import Lstd, Relu
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.model import GP, Hyper, Identity, Model, Neighbourhood
from abps.model.prior import AdvantagePrior, ConstantPrior, Prior
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear
from abps.policies.policy import PolicySpace
from abps.rollouts.episode import run_episode
from abps.search.local import automatic_scale
from abps.seeding import integer_seed
from abps.state import NoMemory
from abps.tasks.gym import Task, make_task
from abps.tasks.lqr import make_env

SMALL_LSTD = Lstd(
    members=3,
    replay=1500,
    transitions=1000,
    features=Relu(size=24),
    groups=3,
    ridges=(1e-3, 1e-2, 1e-1),
    traces=(0.5,),
    discount_cut=0.5,
)
"""Pinned: the tests that use it are not about which critics are best."""


def lqr(states: int = 2, actions: int = 1, *, horizon: int = 30, noise: float = 0.0, seed: int = 0, **changes: Any):
    """A small LQR with actions bounded at ±2, so that critics see them at a sensible scale."""
    env = make_env(states, actions, seed, fixed_start=noise == 0.0, noise=noise, horizon=horizon, action_bound=2.0)
    return make_task(env, **{"name": "lqr", "gamma": 0.95, "horizon": horizon, **changes})


class ExactCritics(Critics):
    """The true Q of the LQR's centre times (1 + error_i), for every member; `flat` makes it forget the action."""

    def __init__(self, part: "Exact") -> None:
        self.part, self.members, self.memory = part, len(part.errors), NoMemory()
        self.factors = 1.0 + np.array(part.errors, dtype=float)
        self.centre: Any = None
        self.scale = 1.0
        self.calls: list[tuple[Any, int, float, int | None]] = []
        """Centre, stored transitions, reward scale and worst member of every `start_centre`."""

    def start_centre(self, centre, replay, reward_scale, worst=None) -> FitReport:
        self.centre, self.scale = centre, reward_scale
        self.calls.append((centre, len(replay), reward_scale, worst))
        return FitReport(len(replay), 0, ())

    def update(self, replay) -> FitReport:
        return FitReport(0, 0, ())

    def q(self, states, actions) -> Any:
        states = np.asarray(states, dtype=float)
        actions = self.centre.actions(states) if self.part.flat else np.asarray(actions, dtype=float)
        values = self.part.system.action_value(self.centre.parameters, states, actions)
        return np.outer(self.factors, values / self.scale)

    def action_gradients(self, states, actions) -> Any:
        states, actions = np.asarray(states, dtype=float), np.asarray(actions, dtype=float)
        slopes = self.part.system.action_value_gradient(self.centre.parameters, states, actions) / self.scale
        return self.factors[:, None, None] * slopes * (0.0 if self.part.flat else 1.0)


@dataclass(frozen=True)
class Exact(CriticsPart):
    """Critics that know the answer: a part of the tests' own."""

    system: Any
    errors: tuple[float, ...] = (0.0, 0.0, 0.0)
    flat: bool = False
    replay: int = 20_000

    def make(self, space, objective, seed) -> ExactCritics:
        return ExactCritics(self)


class Surroundings:
    """Points measured on a task one after another, and the replay that critics learn from."""

    def __init__(self, task: Task, states: int = 0) -> None:
        self.task, self.states, self.env = task, states, task.make_env()
        self.space = PolicySpace(ClippedLinear(), task.spec)
        self.objective = Objective(task.spec.gamma)
        self.normaliser = Normaliser.empty(task.spec.observation_dim)
        self.replay = Replay(20_000, task.spec.observation_dim, task.spec.action_dim)
        self.points: list[Point] = []

    def run(self, parameters, role: str = "probe", iteration: int = 0, episodes: int = 1) -> Point:
        """Measure one more point."""
        policy, number = self.space.policy(np.asarray(parameters, dtype=float), self.normaliser), len(self.points)
        told = [run_episode(self.env, policy, integer_seed(0, "lab", number, k)) for k in range(episodes)]
        for trajectory in told:
            self.replay.append(trajectory)
        returns = np.array([self.objective.total(trajectory) for trajectory in told])
        visits = Visits.collect(told, self.objective.gamma, self.states, np.random.default_rng(number))
        self.points.append(Point(policy.parameters, self.normaliser, returns, role, iteration, visits))
        return self.points[-1]

    def around(self, centre, probes: int = 5, std: float = 0.03, iteration: int = 0, episodes: int = 2) -> None:
        """One outer iteration: the centre, and Gaussian probes around it."""
        self.run(centre, "centre", iteration, episodes)
        rng = np.random.default_rng(100 + iteration)
        for move in std * rng.standard_normal((probes, self.space.size)):
            self.run(np.asarray(centre) + move, "probe", iteration)

    def neighbourhood(self, scale: float | None = None, points: list[Point] | None = None) -> Neighbourhood:
        """Of the newest centre; `scale` is found automatically unless given."""
        points = self.points if points is None else points
        centre = next(point for point in reversed(points) if point.role == "centre")
        found = automatic_scale(np.array([point.value for point in points])) if scale is None else scale
        return Neighbourhood(self.space.policy(centre.parameters, centre.normaliser), tuple(points), found, Identity())

    def start(self, prior: Prior, seed: int = 0):
        """The prior's learner, told nothing."""
        return prior.start(self.space, self.objective, seed, lambda phase: contextlib.nullcontext())

    def learned(self, prior: Prior, iteration: int = 0, near: Neighbourhood | None = None) -> Any:
        """The prior's learner, told everything that was measured."""
        learner = self.start(prior)
        learner.new_centre(near or self.neighbourhood(), self.replay, iteration)
        return learner


def iterations(task: Task, *, probes: int = 5, states: int = 0, seed: int = 0, std: float = 0.03) -> Surroundings:
    """Two outer iterations, numbered 0 and 1, with the second centre a little away from the first."""
    measured = Surroundings(task, states)
    start = measured.space.initial()
    measured.around(start, probes, std, 0)
    measured.around(start + 0.02 * np.random.default_rng(seed).standard_normal(start.size), probes, std, 1)
    return measured


def constant_model(near: Neighbourhood, gp: GP | None = None, bound: float = 1.0, seed: int = 0) -> Model:
    """A process with a constant mean fitted to a neighbourhood, as MPD and GIBO have it."""
    d = near.points.shape[1]
    space = near.centre.space
    learner = ConstantPrior(bound).start(space, Objective(1.0), 0, lambda phase: contextlib.nullcontext())
    assert near.points.shape == (len(near.entries), d)
    return (gp or GP()).fit(near, learner.mean(near), np.random.default_rng(seed))


def exact_prior(task: Task, *, errors=(0.0, 0.0, 0.0), flat: bool = False, **changes: Any) -> AdvantagePrior:
    """The advantage mean function with critics that know the LQR."""
    env: Any = task.make_env()
    return AdvantagePrior(critics=Exact(env.system, tuple(errors), flat), **changes)


def dense_posterior(near: Neighbourhood, hyper: Hyper, theta, prior=None):
    """μ (d,) and Σ (d, d) at θ from textbook formulas: explicit inverse, squared exponential kernel."""
    points, scale = near.points, hyper.effective
    kernel = hyper.signal**2 * np.exp(-0.5 * (((points[:, None] - points) / scale) ** 2).sum(-1))
    inverse = np.linalg.inv(kernel + hyper.noise**2 * np.eye(len(points)))
    decay = hyper.signal**2 * np.exp(-0.5 * (((points - theta) / scale) ** 2).sum(-1))
    cross = (((points - theta) / scale**2) * decay[:, None]).T
    residual = near.returns - hyper.mean - (0.0 if prior is None else prior.at_points)
    mu = (0.0 if prior is None else prior.gradient) + cross @ inverse @ residual
    return mu, np.diag((hyper.signal / scale) ** 2) - cross @ inverse @ cross.T
