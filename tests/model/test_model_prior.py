"""The prior mean from a learned model: right on a linear-quadratic task, weighed down where returns contradict it."""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.spatial.distance import cdist

from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.window import Point
from abps.errors import ConfigError
from abps.model import GP, Neighbourhood
from abps.model.ascent_prior import LARGEST_SLOPE
from abps.model.chart import Identity
from abps.model.gp import PriorMean
from abps.model.model_prior import (
    LENGTHSCALES,
    NOISE_SHARES,
    WEIGHTS,
    ModelBasedLearner,
    ModelBasedPrior,
    model_weight,
)
from abps.model.posterior import Features
from abps.model.prior import ConstantPrior, Prior, PriorLearner
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear
from abps.policies.policy import PolicySpace
from abps.state import restore, save
from abps.tasks.lqr import LqrSystem
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

GAMMA, STEPS = 0.9, 60
SPEC = TaskSpec("lqr", 2, 1, (-1.0,), (1.0,), gamma=GAMMA, horizon=STEPS)
SPACE, EMPTY = PolicySpace(ClippedLinear(), SPEC), Normaliser.empty(2)
SYSTEM = LqrSystem(
    np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([[0.3], [0.6]]), np.eye(2), 0.3 * np.eye(1), GAMMA, np.zeros(2),
    np.eye(2), np.zeros((2, 2)),
)  # fmt: skip
CENTRE = 0.5 * SYSTEM.optimal_gain().ravel()
START = np.array([0.3, -0.2])
EXACT = ModelBasedPrior(cosines=0, per_feature=2, starts=4)
GP_PART = GP(lengthscale_low=0.2, lengthscale_high=2.0, shared_lengthscale=True, scale_by_dimension=False)


def episode(gain: np.ndarray, push: float = 0.0, wrong: bool = False) -> Trajectory:
    """An episode of the task; `push` adds actions of other sizes, `wrong` is a task that answers the other way."""
    rng, states, actions, rewards = np.random.default_rng(0), [START], [], []
    for _ in range(STEPS):
        action = np.clip(gain.reshape(1, 2) @ states[-1] + push * rng.uniform(-1, 1, 1), -1, 1)
        actions.append(action)
        rewards.append(-states[-1] @ states[-1] - 0.3 * action @ action)
        control = -SYSTEM.control if wrong else SYSTEM.control
        states.append(SYSTEM.transition @ states[-1] + control @ action)
    return Trajectory.build(states, actions, rewards, terminated=False, truncated=True)


def neighbourhood(count: int = 12, scale: float = 2.0) -> Neighbourhood:
    """Policies around the centre, with the task's true returns."""
    rng = np.random.default_rng(1)
    gains = np.vstack([CENTRE + 0.4 * rng.normal(size=(count - 1, 2)), CENTRE])
    returns = [np.array([episode(gain).total(GAMMA)]) for gain in gains]
    roles = ["probe"] * (count - 1) + ["centre"]
    entries = [Point(gain, EMPTY, value, role, 0) for gain, value, role in zip(gains, returns, roles, strict=True)]
    return Neighbourhood(SPACE.policy(CENTRE, EMPTY), tuple(entries), scale, Identity())


def learner(prior: ModelBasedPrior, near: Neighbourhood, wrong: bool = False) -> ModelBasedLearner:
    replay = Replay(1000, 2, 1)
    for push in (0.0, 0.8, 1.0):
        replay.append(episode(CENTRE, push, wrong))
    found = prior.start(SPACE, Objective(GAMMA), 0, lambda phase: contextlib.nullcontext())
    assert isinstance(found, ModelBasedLearner)
    found.new_centre(near, replay, 0)
    return found


# ---- on a linear-quadratic task ------------------------------------------


def test_an_exact_model_gives_the_returns_their_gradient_and_weight_one() -> None:
    near = neighbourhood()
    found = learner(EXACT, near)
    prior = found.mean(near)
    assert found.memory.weight == 1.0
    assert prior.features is not None
    believed = prior.at_points + prior.features.values @ np.asarray(prior.features.prior)
    np.testing.assert_allclose(believed - believed[-1], near.returns - near.returns[-1], atol=2e-4)
    slope = [
        (episode(CENTRE + unit).total(GAMMA) - episode(CENTRE - unit).total(GAMMA)) / 2e-3 / near.scale
        for unit in 1e-3 * np.eye(2)
    ]
    np.testing.assert_allclose(prior.slope(), slope, rtol=2e-3, atol=1e-4)
    rng = np.random.default_rng(0)
    with_model = GP_PART.fit(near, prior, rng)
    without = GP_PART.fit(near, found.beside.mean(near), rng)
    assert with_model.log_marginal_likelihood > without.log_marginal_likelihood + 5.0  # type: ignore[operator]


def test_a_wrong_model_is_weighed_down_and_is_then_not_there() -> None:
    near = neighbourhood()
    found = learner(EXACT, near, wrong=True)
    prior = found.mean(near)
    assert found.memory.slope > 0.1  # It says a lot, and nothing of it is true.
    assert found.memory.weight == 0.0
    np.testing.assert_allclose(prior.slope(), 0.0, atol=1e-10)
    rng, other = np.random.default_rng(0), found.beside.mean(near)
    hyper = GP_PART.fit(near, other, rng).hyper
    expected, got = (GP_PART.model(near, item, replace(hyper, feature_scale=1.0)) for item in (other, prior))
    np.testing.assert_allclose(got.posterior.mu, expected.posterior.mu, rtol=1e-8)
    # Negative control: trusted whatever the returns say, it turns the gradient.
    blind = learner(replace(EXACT, trust_spread=1e-6), near, wrong=True).mean(near)
    turned = GP_PART.model(near, blind, replace(hyper, feature_scale=1.0)).posterior.mu
    assert np.linalg.norm(turned - expected.posterior.mu) > 0.1 * np.linalg.norm(expected.posterior.mu)


def test_features_are_known_at_any_policy() -> None:
    near = neighbourhood()
    prior = learner(EXACT, near).mean(near)
    assert prior.features is not None
    assert prior.features_at is not None
    np.testing.assert_allclose(prior.features_at(near.points), prior.features.values, atol=1e-12)
    model = GP_PART.fit(near, prior, np.random.default_rng(0))
    far = near.points[np.argmin(near.returns)][None]
    truth = near.returns.min() - near.returns[-1]
    mean, better = model.better(far)
    theta = model.posterior.joint(near.theta[None], prior.features_at(near.theta[None]))[0][0]
    assert mean[0] - theta == pytest.approx(truth, abs=0.05 * abs(truth))
    assert better[0] < 0.05


def test_a_steep_model_is_cut() -> None:
    near = neighbourhood()
    found = learner(EXACT, near)
    flat = Neighbourhood(
        near.centre, tuple(replace(e, returns=1e-3 * e.returns) for e in near.entries), near.scale, Identity()
    )
    prior = learner(replace(EXACT, trust_spread=1e-6), flat).mean(flat)
    limit = LARGEST_SLOPE * np.std(flat.returns)
    assert np.linalg.norm(prior.slope()) == pytest.approx(limit)
    found.mean(near)
    assert found.memory.slope > limit


# ---- beside another prior ------------------------------------------------


class _TwoFeatures(PriorLearner):
    replay_capacity, memory = 7, None

    @property
    def weights(self) -> Any:
        return np.ones(2)

    def new_centre(self, neighbourhood: Any, replay: Any, iteration: int) -> None: ...

    def new_episodes(self, neighbourhood: Any, replay: Any, iteration: int) -> None: ...

    def mean(self, neighbourhood: Neighbourhood) -> PriorMean:
        n, d = neighbourhood.points.shape
        offsets = neighbourhood.points - neighbourhood.theta
        return PriorMean(np.full(n, 0.1), 0.1, np.zeros(d), Features(offsets, np.eye(2), 0.5), feature_scale=(0.3, 0.4))

    def metrics(self, model: Any, iteration: int) -> dict[str, Any]:
        return {"others": model.prior.features.values.shape[1]}


class _Beside(Prior):
    def start(self, space: Any, objective: Any, seed: int, timed: Any) -> PriorLearner:
        return _TwoFeatures()


def test_what_the_other_prior_says_stays() -> None:
    near = neighbourhood()
    found = learner(replace(EXACT, beside=_Beside()), near)
    prior = found.mean(near)
    assert found.replay_capacity == EXACT.transitions
    assert found.weights is not None
    assert prior.features is not None
    assert prior.features_at is not None
    assert prior.feature_scale == (0.3, 0.4)
    np.testing.assert_array_equal(prior.features.values[:, :2], near.points - near.theta)
    np.testing.assert_array_equal(np.asarray(prior.features.prior)[:2], 0.5)
    np.testing.assert_allclose(prior.features_at(near.points), prior.features.values, atol=1e-12)
    metrics = found.metrics(GP_PART.fit(near, prior, np.random.default_rng(0)), 0)
    assert metrics["others"] == 2
    assert metrics["model_r2"] > 0.999
    assert {"model_weight", "model_slope", "model_r2_reward", "model_gradient_cosine"} <= set(metrics)


def test_the_memory_is_all_there_is() -> None:
    near = neighbourhood()
    found = learner(replace(EXACT, cosines=5), near)
    fresh = replace(EXACT, cosines=5).start(SPACE, Objective(GAMMA), 0, lambda phase: contextlib.nullcontext())
    fresh.memory = restore(fresh.memory, save(found.memory))
    before, after = found.mean(near), fresh.mean(near)
    assert before.features is not None
    assert after.features is not None
    np.testing.assert_array_equal(before.features.values, after.features.values)
    np.testing.assert_array_equal(before.features.gradient, after.features.gradient)


# ---- the weight ----------------------------------------------------------


def brute_force(points: np.ndarray, returns: np.ndarray, values: np.ndarray, trust: tuple[float, float]) -> float:
    """Every combination, by contrasts that do not see the constant and explicit inverses."""
    distances = cdist(points, points) ** 2
    typical = np.median(distances[distances > 0])
    contrasts, found = null_space(np.ones((1, len(points)))), {}
    for length in LENGTHSCALES:
        for noise in NOISE_SHARES:
            gram = np.exp(-0.5 * distances / (length**2 * typical)) + noise * np.eye(len(points))
            matrix = contrasts.T @ gram @ contrasts
            for weight in WEIGHTS:
                rest = contrasts.T @ (returns - weight * values)
                variance = rest @ np.linalg.inv(matrix) @ rest / len(rest)
                likelihood = -0.5 * len(rest) * np.log(variance) - 0.5 * np.linalg.slogdet(matrix)[1]
                found[likelihood - 0.5 * ((weight - trust[0]) / trust[1]) ** 2] = weight
    return found[max(found)]


@pytest.mark.parametrize("share", [-1.0, 0.0, 0.4, 1.0])
def test_the_weight_has_the_largest_marginal_likelihood(share: float) -> None:
    rng = np.random.default_rng(5)
    points, values = rng.normal(size=(20, 3)), rng.normal(size=20)
    returns = 3.0 + share * values + 0.1 * rng.normal(size=20)
    trust = (1.0, 0.7)
    weight = model_weight(points, returns, values, trust)
    assert weight == pytest.approx(brute_force(points, returns, values, trust))
    assert weight == pytest.approx(np.clip(share, 0, 1), abs=0.15)


def test_a_window_that_says_nothing_leaves_the_trust() -> None:
    points = np.zeros((6, 2))
    assert model_weight(points, np.arange(6.0), np.zeros(6), (0.8, 0.5)) == 0.8
    assert model_weight(points[:2], np.arange(2.0), np.arange(2.0), (0.3, 0.5)) == 0.3


@pytest.mark.parametrize(
    "changes",
    [
        {"trust": 1.5},
        {"trust_spread": 0.0},
        {"weight_spread": 0.0},
        {"starts": 0},
        {"steps": 0},
        {"cosines": -1},
        {"per_feature": 0},
        {"transitions": 1},
        {"lengthscale": 0.0},
    ],
)
def test_settings_are_checked(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ModelBasedPrior(**changes)
    assert ModelBasedPrior().beside == ConstantPrior(np.inf)
