"""Prior means: the constant, and the advantage mean with exact and useless critics as oracles; scores, weights, resets.

Neighbourhoods are measured on an LQR whose Q, return and gradient are known in closed form.
"""

from dataclasses import replace as changed

import numpy as np
import pytest
from lqr_lab import SMALL_LSTD, Surroundings, constant_model, exact_prior, iterations, lqr

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.critics.droq_config import Droq
from abps.data.window import Point
from abps.errors import ConfigError
from abps.model import GP, condition
from abps.model.aggregation import Best, Marginal, Mean, Single, Softmax
from abps.model.prior import AdvantagePrior, ConstantPrior
from abps.state import restore, save

AGGREGATIONS = [Softmax(), Mean(), Best(), Single(), Marginal(total=0.0), Marginal()]


@pytest.fixture(scope="module")
def task():
    """200 steps at γ = 0.95: the truncated return differs from the closed form by less than 1e-4."""
    return lqr(horizon=200)


@pytest.fixture(scope="module")
def measured(task) -> Surroundings:
    return iterations(task)


@pytest.fixture(scope="module")
def near(measured):
    return measured.neighbourhood()


def fitted(near, learner, gp: GP | None = None):
    return (gp or GP()).fit(near, learner.mean(near), np.random.default_rng(0))


# ---- the constant mean ----------------------------------------


def test_the_constant_mean_is_fitted_within_its_bound(measured):
    far = measured.neighbourhood(scale=0.01)  # Scaled returns far below −1.
    assert far.returns.max() < -1.0
    assert constant_model(far).hyper.mean == -1.0
    assert constant_model(far, bound=2.0).hyper.mean == -2.0
    near = measured.neighbourhood()
    assert near.returns.min() <= constant_model(near).hyper.mean < 0


def test_the_constant_prior_knows_nothing_else(measured, near):
    learner = measured.learned(ConstantPrior(0.5))
    mean = learner.mean(near)
    assert (mean.at_theta, mean.mean_bound, mean.features) == (0.0, 0.5, None)
    assert not mean.gradient.any()
    assert not mean.at_points.any()
    assert learner.weights is None
    assert learner.replay_capacity == 0
    assert learner.metrics(constant_model(near), 1) == {}
    with pytest.raises(ConfigError, match="bound must not be negative"):
        ConstantPrior(-1.0)


# ---- the advantage mean with exact critics ----------------------------------------


def test_with_the_exact_critic_the_prior_knows_return_and_gradient(task, measured, near):
    """R̃² is 1, ∇m̂ is ∇J at the centre, and m̂ is right to second order at the probes."""
    system = task.make_env().system
    learner = measured.learned(exact_prior(task), iteration=1)
    assert np.all(learner.memory.scores > 1 - 1e-4)
    prior = learner.mean(near)
    true = system.gradient(near.theta).ravel() / near.scale
    assert np.allclose(prior.gradient, true, rtol=1e-3, atol=1e-3 * np.abs(true).max())
    offsets = near.points - near.theta
    truth = np.array([system.expected_return(x) for x in near.points]) / near.scale
    first_order = near.centre_value + offsets @ true
    scale = np.square(offsets).sum(axis=1).max()
    assert np.abs(prior.at_points - truth).max() < 30 * scale
    assert np.abs(first_order - truth).max() < 30 * scale
    assert prior.at_theta == near.centre_value
    assert np.array_equal(prior.gradient, learner.gradients(near) @ learner.weights)
    assert np.array_equal(prior.gradient, fitted(near, learner).mean_gradient())
    wrong = measured.learned(exact_prior(task, errors=(1.0, 1.0, 1.0)), iteration=1)  # The control: Q twice too large.
    assert np.all(wrong.memory.scores < 0.9)


def test_error_of_the_mean_function_is_quadratic(task, measured, near):
    system = task.make_env().system
    learner = measured.learned(exact_prior(task), iteration=1)
    direction = np.random.default_rng(0).normal(size=(20, 2))
    gaps = []
    for size in (0.06, 0.006):
        points = near.theta + size * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        tried = [Point(x, measured.normaliser, np.zeros(1), "probe", 1) for x in points]
        predicted = learner.mean(changed(near, entries=(near.newest_centre, *tried))).at_points
        truth = np.array([system.expected_return(x) for x in points]) / near.scale
        at_centre = system.expected_return(near.theta) / near.scale
        gaps.append(np.abs((predicted[1:] - predicted[0]) - (truth - at_centre)).mean())
    assert np.log10(gaps[0] / gaps[1]) >= 1.8


# ---- useless critics cost nothing ----------------------------------------


def constant_mean(model):
    """The process with the constant mean Ĵ(θ) on the same window with the same hyper-parameters."""
    near = model.neighbourhood
    return condition(
        near.points,
        near.returns,
        near.theta,
        changed(model.hyper, feature_scale=0.0),
        mean_at_points=np.full(len(near.entries), near.centre_value),
        mean_at_theta=near.centre_value,
    )


def distance(model, other) -> float:
    """How far μ, Σ and the acquisition are apart, relative to their size."""
    posterior, theta = model.posterior, model.neighbourhood.theta
    candidates = theta + np.random.default_rng(0).uniform(-0.1, 0.1, (50, len(theta)))
    unit = np.eye(len(theta))
    pairs = [
        (posterior.mu, other.mu),
        (posterior.multiply(unit), other.multiply(unit)),
        (posterior.direction, other.direction),
        (ExpectedAscent().values(posterior, candidates), ExpectedAscent().values(other, candidates)),
    ]
    return max(float(np.abs(left - right).max() / np.abs(right).max()) for left, right in pairs)


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=str)
def test_critics_without_advantage_leave_the_constant_mean_process(task, measured, near, aggregation):
    learner = measured.learned(exact_prior(task, flat=True, aggregation=aggregation), iteration=1)
    model = fitted(near, learner)
    assert distance(model, constant_mean(model)) < 1e-9
    constant = learner.metrics(model, 1)["log_likelihood_constant"]
    assert model.log_marginal_likelihood == pytest.approx(constant, abs=1e-6)
    assert not model.mean_gradient().any()
    useful = fitted(near, measured.learned(exact_prior(task, aggregation=aggregation), iteration=1))
    assert distance(useful, constant_mean(useful)) > 1e-3  # The control: critics that say something move it.


def test_marginal_weights_with_a_vanishing_prior_are_the_constant_mean_process(task, measured, near):
    distances = []
    for scale in (1.0, 1e-3, 1e-6, 1e-9):
        aggregation = Marginal(total=0.0, scale_low=scale, scale_high=scale)
        model = fitted(near, measured.learned(exact_prior(task, aggregation=aggregation), iteration=1))
        assert model.hyper.feature_scale == pytest.approx(scale)
        distances.append(distance(model, constant_mean(model)))
    assert distances[0] > 1e-3
    assert distances[3] < 1e-9
    assert sorted(distances, reverse=True) == distances


def test_marginal_weights_trust_good_critics_and_no_others(task, measured, near):
    """β adds up to one with exact critics and to nothing with critics that see no action."""
    sums, gains = {}, {}
    for flat in (False, True):
        learner = measured.learned(exact_prior(task, flat=flat, aggregation=Marginal(total=0.0)), iteration=1)
        model = fitted(near, learner)
        sums[flat] = model.weights(learner.weights).sum()
        gains[flat] = model.log_marginal_likelihood - learner.metrics(model, 1)["log_likelihood_constant"]
    assert sums[False] == pytest.approx(1.0, abs=0.2)
    assert sums[True] == pytest.approx(0.0, abs=1e-9)
    assert gains[False] > 1.0


def test_fixing_integrated_weights_changes_no_mean_and_only_removes_uncertainty(task, measured, near):
    """At their posterior mean, β known leaves μ as it is and shrinks Σ, along the critics' gradients."""
    prior = exact_prior(task, errors=(0.3, 0.0, -0.6), aggregation=Marginal(total=0.0))
    model = fitted(near, measured.learned(prior, iteration=1))
    free, weights = model.posterior, model.posterior.weights.mean
    fixed = model.posterior_given_weights(weights)
    assert np.allclose(fixed.mu, free.mu, rtol=1e-6)
    unit = np.eye(2)
    gap = free.multiply(unit) - fixed.multiply(unit)
    assert np.linalg.eigvalsh(gap).min() > -1e-9 * np.abs(free.multiply(unit)).max()
    assert np.linalg.eigvalsh(gap).max() > 0.0
    assert fixed.trace() < free.trace()
    assert not np.allclose(model.posterior_given_weights(1.5 * weights).mu, free.mu, rtol=1e-3)  # The control.
    softmax = fitted(near, measured.learned(exact_prior(task), iteration=1))
    assert softmax.posterior_given_weights(np.ones(3)) is softmax.posterior


def test_prior_of_the_marginal_weights(task, measured, near):
    """With σ_β → 0 and prior weights adding up to one, integrated weights are the plain average."""
    errors = (0.3, 0.0, -0.6)
    marginal, mean = (
        measured.learned(exact_prior(task, errors=errors, aggregation=aggregation), iteration=1)
        for aggregation in (Marginal(total=1.0, scale_low=1e-9, scale_high=1e-9), Mean())
    )
    model = fitted(near, marginal)
    assert np.allclose(model.weights(marginal.weights), 1 / 3, atol=1e-6)
    assert np.allclose(marginal.weights, 1 / 3)
    average = GP().model(near, mean.mean(near), model.hyper)
    assert np.allclose(model.posterior.mu, average.posterior.mu, rtol=1e-6)


# ---- scores, weights, resets ----------------------------------------


def test_scores_and_weights_by_hand(task, measured, near):
    """R̃² from each point's own states and actions; softmax of it; only the last `score_iterations` iterations count."""
    errors = (0.5, 0.0, -0.5)
    learner = measured.learned(exact_prior(task, errors=errors, score_iterations=1), iteration=1)
    critics, centre = learner.critics, near.centre
    recent = [point for point in near.entries if point.iteration == 1]
    assert 2 < len(recent) < len(near.entries)
    returns = np.array([point.value for point in recent]) / near.scale
    expected = []
    for member in range(3):
        predictions = []
        for point in recent:
            v = point.visits
            gap = critics.q(v.states, v.actions)[member] - critics.q(v.states, centre.actions(v.states))[member]
            predictions.append(near.centre_value + float(v.weights @ gap))
        error = np.square(np.array(predictions) - returns).sum()
        expected.append(1 - error / np.square(returns - returns.mean()).sum())
    assert np.allclose(learner.memory.scores, expected, rtol=1e-9)
    assert int(np.argmax(learner.memory.scores)) == 1
    odds = np.exp(expected)
    assert np.allclose(learner.weights, odds / odds.sum(), rtol=1e-9)
    old = measured.learned(exact_prior(task, errors=errors, score_iterations=3), iteration=1)
    assert not np.allclose(old.memory.scores, expected, rtol=1e-3)  # The control: more points, other scores.


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(Single(), [1, 0, 0]), (Mean(), [1 / 3, 1 / 3, 1 / 3]), (Best(), [0, 1, 0])],
    ids=["single", "mean", "best"],
)
def test_other_aggregations(task, measured, near, aggregation, expected):
    """The gradients of all members are the same but for their factor, so the combined one tells the weights."""
    errors = (0.5, 0.0, -0.8)
    learner = measured.learned(exact_prior(task, errors=errors, aggregation=aggregation), iteration=1)
    assert np.allclose(learner.weights, expected)
    right = measured.learned(exact_prior(task, aggregation=aggregation), iteration=1)
    factor = np.array(expected) @ (1.0 + np.array(errors))
    assert np.allclose(learner.mean(near).gradient, factor * right.mean(near).gradient, rtol=1e-9)


def random_numbers(learner) -> list[np.ndarray]:
    """Of every group's features; one group per critic here."""
    return [group.random_numbers.copy() for group in learner.memory.critics.groups]


@pytest.fixture(scope="module")
def short() -> Surroundings:
    return iterations(lqr())


@pytest.mark.parametrize("reset", [True, False])
def test_the_worst_critic_and_only_it_gets_new_weights_at_a_new_centre(short, reset):
    prior = AdvantagePrior(critics=SMALL_LSTD, reset_worst=reset)
    learner, near = short.start(prior), short.neighbourhood()
    first = short.neighbourhood(points=short.points[:6])
    for number, learn in enumerate((learner.new_centre, learner.new_episodes, learner.new_centre)):
        before, scores = random_numbers(learner), learner.memory.scores.copy()
        learn(near if number == 2 else first, short.replay, iteration=number // 2)
        after = random_numbers(learner)
        redrawn = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
        if number == 2 and reset:
            assert redrawn == [member == int(np.argmin(scores)) for member in range(3)]
            assert learner.memory.reset == int(np.argmin(scores))
        else:
            assert not any(redrawn)
            assert learner.memory.reset is None


def test_the_published_guard_spares_a_critic_that_is_not_negative(short):
    for scores, expected in (((0.5, 0.1, 0.3), None), ((0.5, -0.1, 0.3), 1)):
        for guard in (True, False):
            learner = short.learned(AdvantagePrior(critics=SMALL_LSTD, reset_only_negative=guard))
            learner.memory = changed(learner.memory, scores=np.array(scores))
            learner.new_centre(short.neighbourhood(), short.replay, 1)
            assert learner.memory.reset == (expected if guard else 1)


def test_droq_pairs_are_reset_too(short):
    """Without gradient steps only a reset can change the weights, and it changes one pair."""
    pytest.importorskip("jax")
    critics = Droq(members=2, width=8, batch=8, replay=2000, steps_first=0, steps_probe=0, steps_centre=0)
    learner = short.learned(AdvantagePrior(critics=critics))
    before, worst = save(learner.memory.critics)["online"], int(np.argmin(learner.memory.scores))
    learner.new_centre(short.neighbourhood(), short.replay, 1)
    after = save(learner.memory.critics)["online"]
    redrawn = [not np.array_equal(before[2 * m : 2 * m + 2], after[2 * m : 2 * m + 2]) for m in range(2)]
    assert redrawn == [member == worst for member in range(2)]


def test_a_score_needs_at_least_one_iteration():
    with pytest.raises(ConfigError, match="score_iterations must be at least 1"):
        AdvantagePrior(score_iterations=0)


# ---- what is written down and kept ----------------------------------------


def test_diagnostics_mean_what_they_say(task, measured, near):
    learner = measured.learned(exact_prior(task, errors=(0.5, 0.0, -0.5)), iteration=1)
    model = fitted(near, learner)
    metrics = learner.metrics(model, 1)
    assert metrics["r2_validation"] == [float(x) for x in learner.memory.scores]
    assert metrics["weights"] == [float(x) for x in learner.weights]
    cosine = model.prior.gradient @ model.posterior.mu
    cosine /= np.linalg.norm(model.prior.gradient) * np.linalg.norm(model.posterior.mu)
    assert metrics["mean_gradient_cosine"] == pytest.approx(cosine)
    assert metrics["mean_gradient_norm"] == pytest.approx(np.linalg.norm(model.prior.gradient))
    probes = [k for k, p in enumerate(near.entries) if (p.iteration, p.role) == (1, "probe")]
    returns, predicted = near.returns[probes], model.prior.at_points[probes]
    share = 1 - np.square(predicted - returns).sum() / np.square(returns - returns.mean()).sum()
    assert metrics["r2_test"] == pytest.approx(share)
    assert model.log_marginal_likelihood != metrics["log_likelihood_constant"]
    assert metrics["critic_reset"] == 0  # All three started with the score 0, and the first of equals is the worst.
    assert metrics["critics_diverged"] == 0
    assert "sigma_beta" not in metrics
    marginal = measured.learned(exact_prior(task, aggregation=Marginal()), iteration=1)
    model = fitted(near, marginal)
    assert marginal.metrics(model, 1)["sigma_beta"] == model.hyper.feature_scale > 0.0


def test_critics_learn_the_scaled_rewards_of_the_neighbourhoods_centre(task, measured):
    learner = measured.start(exact_prior(task))
    near = measured.neighbourhood(scale=2.0)
    learner.new_centre(near, measured.replay, 0)
    assert learner.critics.calls == [(near.centre, len(measured.replay), 2.0, None)]
    with pytest.raises(RuntimeError, match="this search keeps none"):
        learner.new_episodes(near, None, 0)


@pytest.mark.parametrize("aggregation", [Softmax(), Marginal()], ids=["softmax", "marginal"])
def test_a_learner_restored_from_its_memory_says_the_same(short, aggregation):
    prior, near = AdvantagePrior(critics=SMALL_LSTD, aggregation=aggregation), short.neighbourhood()
    first, second = short.learned(prior, iteration=1), short.start(prior)
    second.memory = restore(second.memory, save(first.memory))
    for learner in (first, second):
        learner.new_episodes(near, short.replay, 1)
    left, right = (save(learner.memory) for learner in (first, second))
    assert np.array_equal(left["scores"], right["scores"])
    one, two = first.mean(near), second.mean(near)
    assert np.array_equal(one.at_points, two.at_points)
    assert np.array_equal(one.gradient, two.gradient)
    if one.features is not None:
        assert np.array_equal(one.features.values, two.features.values)
        assert np.array_equal(one.features.gradient, two.features.gradient)
