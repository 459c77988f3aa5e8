"""Searches with critics: exact and useless critics as oracles, scores, weights, resets, ablations."""

import itertools
from typing import Any

import numpy as np
import pytest

from abps.acquisition.descent_probability import DescentProbability
from abps.config import CriticsConfig, GpConfig, replace
from abps.critics.base import Centre, Critics, FitReport
from abps.gp.posterior import condition
from abps.search.abs import Abs


class ExactCritics(Critics):
    """The true Q of the LQR's centre times (1 + error_i), for every member; `flat` makes it forget the action."""

    def __init__(self, system, members: int = 3, *, errors=None, flat: bool = False) -> None:
        self.system, self.members, self.flat = system, members, flat
        self.factors = 1.0 + np.zeros(members) if errors is None else 1.0 + np.asarray(errors, dtype=float)
        self.centre: Centre | None = None
        self.scale = 1.0

    def start_centre(self, centre, replay, reward_scale, worst=None) -> FitReport:
        self.centre, self.scale = centre, reward_scale
        return FitReport(len(replay), 0, ())

    def update(self, replay) -> FitReport:
        return FitReport(0, 0, ())

    def q(self, states, actions):
        assert self.centre is not None
        states = np.asarray(states, dtype=float)
        actions = self.centre.actions(states) if self.flat else np.asarray(actions, dtype=float)
        return np.outer(self.factors, self.system.action_value(self.centre.parameters, states, actions) / self.scale)

    def action_gradients(self, states, actions):
        assert self.centre is not None
        states, actions = np.asarray(states, dtype=float), np.asarray(actions, dtype=float)
        slopes = self.system.action_value_gradient(self.centre.parameters, states, actions) / self.scale
        return self.factors[:, None, None] * slopes * (0.0 if self.flat else 1.0)

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state) -> None:
        pass


@pytest.fixture(scope="module")
def long_task(lab):
    """200 steps at γ = 0.95: the truncated return differs from the closed form by less than 1e-4."""
    return lab.lqr(horizon=200)


def with_critics(lab, task, stages: int, *, errors=None, flat=False, **changes) -> Abs:
    search = lab.search("abs", task, states=0, **changes)
    search.critics = ExactCritics(task.make_env().system, errors=errors, flat=flat)
    lab.run(search, task, stages)
    return search


# ---- the mean function inside a search ---------------------------------------------------------------------------------


def test_with_the_exact_critic_the_prior_knows_return_and_gradient(lab, long_task):
    """R̃² is 1, ∇m̂ is ∇J at the centre, and m̂ is right to second order at the probes."""
    system = long_task.make_env().system
    search = with_critics(lab, long_task, 5)
    assert np.all(search.scores > 1 - 1e-4)
    true = system.gradient(search.centre).ravel() / search.scale
    assert np.allclose(search.mean_gradient(), true, rtol=1e-3, atol=1e-3 * np.abs(true).max())
    prior = search._prior(search.points)
    offsets = search.points - search.centre
    truth = np.array([system.expected_return(x) for x in search.points]) / search.scale
    first_order = search.centre_value + offsets @ true
    scale = np.square(offsets).sum(axis=1).max()
    assert np.abs(prior.at_points - truth).max() < 30 * scale
    assert np.abs(first_order - truth).max() < 30 * scale
    assert prior.at_theta == search.centre_value
    assert np.array_equal(prior.gradient, search.mean_gradient())
    wrong = with_critics(lab, long_task, 5, errors=(1.0, 1.0, 1.0))  # The control: Q twice too large.
    assert np.all(wrong.scores < 0.9)


def test_error_of_the_mean_function_is_quadratic(lab, long_task):
    search = with_critics(lab, long_task, 5)
    system = long_task.make_env().system
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(20, 2))
    gaps = []
    for size in (0.06, 0.006):
        points = search.centre + size * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        predicted = search._prior(np.vstack([search.centre, points])).at_points
        truth = np.array([system.expected_return(x) for x in points]) / search.scale
        at_centre = system.expected_return(search.centre) / search.scale
        gaps.append(np.abs((predicted[1:] - predicted[0]) - (truth - at_centre)).mean())
    assert np.log10(gaps[0] / gaps[1]) >= 1.8


# ---- useless critics cost nothing ----------------------------------------------------------------------------------------


def constant_mean(search):
    """The process with the constant mean Ĵ(θ) on the same window with the same hyper-parameters."""
    value = search.centre_value
    return condition(
        search.points,
        search.returns,
        search.centre,
        replace(search.hyper, feature_scale=0.0),
        mean_at_points=np.full(len(search.window), value),
        mean_at_theta=value,
    )


def distance(search, other) -> float:
    """How far μ, Σ and the acquisition are apart, relative to their size."""
    rng = np.random.default_rng(0)
    candidates = search.centre + rng.uniform(-0.1, 0.1, (50, search.policies.size))
    pairs = [
        (search.posterior.mu, other.mu),
        (search.posterior.dense(), other.dense()),
        (search.posterior.direction, other.direction),
        (DescentProbability(search.posterior).values(candidates), DescentProbability(other).values(candidates)),
    ]
    return max(float(np.abs(left - right).max() / np.abs(right).max()) for left, right in pairs)


@pytest.mark.parametrize("aggregation", ["softmax", "mean", "best", "single", "evidence"])
def test_critics_without_advantage_leave_the_constant_mean_process(lab, long_task, aggregation):
    search = with_critics(lab, long_task, 4, flat=True, aggregation=aggregation)
    assert distance(search, constant_mean(search)) < 1e-9
    assert search._fitted.evidence == pytest.approx(search._constant_evidence(), abs=1e-6)
    assert not search.mean_gradient().any()
    useful = with_critics(lab, long_task, 4, aggregation=aggregation)
    assert distance(useful, constant_mean(useful)) > 1e-3  # The control: critics that say something move it.


def test_evidence_with_a_vanishing_prior_is_the_constant_mean_process(lab, long_task):
    distances = []
    for scale in (1.0, 1e-3, 1e-6, 1e-9):
        gp = GpConfig(starts=3, polished=1, iterations=15, feature_scale_low=scale, feature_scale_high=scale)
        search = with_critics(lab, long_task, 4, aggregation="evidence", gp=gp)
        assert search.hyper.feature_scale == pytest.approx(scale)
        distances.append(distance(search, constant_mean(search)))
    assert distances[0] > 1e-3
    assert distances[3] < 1e-9
    assert sorted(distances, reverse=True) == distances


def test_evidence_trusts_good_critics_and_no_others(lab, long_task):
    """β adds up to one with exact critics and to nothing with critics that see no action."""
    gp = GpConfig(starts=6, polished=2)
    good = with_critics(lab, long_task, 6, aggregation="evidence", gp=gp)
    bad = with_critics(lab, long_task, 6, aggregation="evidence", gp=gp, flat=True)
    assert good._used_weights().sum() == pytest.approx(1.0, abs=0.2)
    assert bad._used_weights().sum() == pytest.approx(0.0, abs=1e-9)
    assert good._fitted.evidence > good._constant_evidence() + 1.0


def test_the_step_under_evidence_takes_the_weights_as_known(lab, long_task):
    """Fixing β at its posterior mean changes no mean and only removes uncertainty, along the critics' gradients."""
    search = with_critics(lab, long_task, 5, aggregation="evidence", errors=(0.3, 0.0, -0.6))
    settled, free = search.settled_posterior(), search.posterior
    assert np.allclose(settled.mu, free.mu, rtol=1e-6)
    gap = free.dense() - settled.dense()
    assert np.linalg.eigvalsh(gap).min() > -1e-9 * np.abs(free.dense()).max()
    assert np.linalg.eigvalsh(gap).max() > 0.0
    expected = search.config.step * np.linalg.solve(settled.dense(), settled.mu)
    step = search._move().centre - search.centre
    assert np.allclose(step / np.linalg.norm(step), expected / np.linalg.norm(expected), rtol=1e-6)
    softmax = with_critics(lab, long_task, 5)
    assert softmax.settled_posterior() is softmax.posterior


def test_prior_of_the_evidence_weights(lab, long_task):
    """With σ_β → 0 and prior weights adding up to one, `evidence` is the plain average."""
    gp = GpConfig(starts=3, polished=1, iterations=15, feature_scale_low=1e-9, feature_scale_high=1e-9)
    search = with_critics(lab, long_task, 4, aggregation="evidence", gp=gp, evidence_prior=1.0, errors=(0.3, 0.0, -0.6))
    assert np.allclose(search._used_weights(), 1 / 3, atol=1e-6)
    mean = with_critics(lab, long_task, 4, aggregation="mean", gp=gp, errors=(0.3, 0.0, -0.6))
    mean.hyper, mean._posterior = search.hyper, None
    mean.window.load(search.window.state())
    assert np.allclose(search.posterior.mu, mean.posterior.mu, rtol=1e-6)


# ---- scores, weights, resets -----------------------------------------------------------------------------------------------


def test_scores_and_weights_by_hand(lab, long_task):
    """R̃² from each point's own states and actions; softmax of it; only the last `score_iterations` iterations count."""
    search = with_critics(lab, long_task, 5, errors=(0.5, 0.0, -0.5), window=20, score_iterations=1)
    critics, centre, now = search.critics, search._policy_centre, search.iteration
    recent = [point for point in search.window.points if point.iteration == now]
    assert 2 < len(recent) < len(search.window)
    returns = np.array([point.value for point in recent]) / search.scale
    expected = []
    for member in range(3):
        predictions = []
        for point in recent:
            v = point.visits
            gap = critics.q(v.states, v.actions)[member] - critics.q(v.states, centre.actions(v.states))[member]
            predictions.append(search.centre_value + float(v.weights @ gap))
        error = np.square(np.array(predictions) - returns).sum()
        expected.append(1 - error / np.square(returns - returns.mean()).sum())
    assert np.allclose(search.scores, expected, rtol=1e-9)
    assert int(np.argmax(search.scores)) == 1
    odds = np.exp(expected)
    assert np.allclose(search.weights, odds / odds.sum(), rtol=1e-9)
    old = with_critics(lab, long_task, 5, errors=(0.5, 0.0, -0.5), window=20, score_iterations=3)
    assert not np.allclose(old.scores, search.scores, rtol=1e-3)  # The control: more points, other scores.


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("single", [1, 0, 0]), ("mean", [1 / 3, 1 / 3, 1 / 3]), ("best", [0, 1, 0])],
)
def test_other_aggregations(lab, long_task, aggregation, expected):
    search = with_critics(lab, long_task, 4, errors=(0.5, 0.0, -0.8), aggregation=aggregation)
    assert np.allclose(search.weights, expected)
    combined, factors = search.mean_gradient(), search.critics.factors
    search.critics.factors = np.ones(3)
    assert np.allclose(combined, (np.array(expected) @ factors) * search.mean_gradient(), rtol=1e-9)


def feature_matrices(search) -> list[np.ndarray]:
    groups = search.critics.state()["groups"]
    return [groups[str(number)]["features"]["matrix"].copy() for number in range(len(groups))]


@pytest.mark.parametrize("reset", [True, False])
def test_the_worst_critic_and_only_it_gets_new_weights_at_a_new_centre(lab, reset):
    task = lab.lqr()
    search = lab.search("abs", task, reset_worst=reset)
    for number in range(3):
        before, scores, stage = feature_matrices(search), search.scores.copy(), search.stage
        lab.stage(search, task)
        changed = [not np.array_equal(a, b) for a, b in zip(before, feature_matrices(search), strict=True)]
        if stage == "centre" and number > 0 and reset:
            assert changed == [member == int(np.argmin(scores)) for member in range(3)]
            assert search._reset == int(np.argmin(scores))
        else:
            assert not any(changed)
            assert search._reset is None
    while lab.stage(search, task)[2] is None:
        pass
    assert (search.history[-1]["critic_reset"] is not None) == reset
    assert search.history[0]["critic_reset"] is None


def test_the_published_guard_spares_a_critic_that_is_not_negative(lab):
    task = lab.lqr()
    for scores, expected in (((0.5, 0.1, 0.3), None), ((0.5, -0.1, 0.3), 1)):
        search = lab.search("abs", task, reset_only_negative=True)
        lab.iterate(search, task)
        search.scores = np.array(scores)
        lab.stage(search, task)
        assert search._reset == expected


def test_droq_pairs_are_reset_too(lab):
    """Without gradient steps only a reset can change the weights, and it changes one pair."""
    pytest.importorskip("jax")
    task = lab.lqr()
    critics = CriticsConfig(
        kind="droq", members=2, width=8, batch=8, replay=2000, steps_first=0, steps_probe=0, steps_centre=0
    )
    search = lab.search("abs", task, critics=critics)
    lab.iterate(search, task)
    before, worst = search.critics.state()["online"], int(np.argmin(search.scores))
    lab.stage(search, task)
    after = search.critics.state()["online"]
    changed = [not np.array_equal(before[2 * m : 2 * m + 2], after[2 * m : 2 * m + 2]) for m in range(2)]
    assert changed == [member == worst for member in range(2)]


def test_every_ablation_of_figure_4_is_a_setting(lab):
    """Single, mean and softmax, with and without reset: all run, each on its own path.

    The single critic is not the worst one here, so for it alone the reset changes nothing.
    """
    task = lab.lqr()
    centres = {}
    for aggregation, reset in itertools.product(("single", "mean", "softmax"), (True, False)):
        search = lab.search("abs", task, aggregation=aggregation, reset_worst=reset)
        lab.iterate(search, task, 3)
        centres[aggregation, reset] = tuple(search.centre)
    assert centres["single", True] == centres["single", False]
    assert len(set(centres.values())) == 5


# ---- states, critics' data, metrics ------------------------------------------------------------------------------------------


def test_visits_are_a_subsample_with_the_whole_weight(lab):
    task = lab.lqr()
    search = lab.search("abs", task, states=20)
    lab.run(search, task, 2)
    whole = (1 - 0.95**30) / 0.05
    for point in search.window.points:
        assert len(point.visits.weights) == 20
        assert point.visits.weights.sum() == pytest.approx(whole)
    assert lab.search("mpd", task).window.points == []


def test_critics_learn_the_scaled_rewards_of_the_current_centre(lab):
    task = lab.lqr(reward_scale=2.0)
    search = lab.search("abs", task)
    calls = []
    real = search.critics.start_centre

    def spy(centre, replay, scale, worst):
        calls.append((centre.parameters, len(replay), scale))
        return real(centre, replay, scale, worst)

    search.critics.start_centre = spy
    lab.run(search, task, 3)
    assert [scale for _, _, scale in calls] == [2.0, 2.0]
    assert np.array_equal(calls[0][0], np.zeros(2))
    assert np.array_equal(calls[1][0], search.centre)
    assert [stored for _, stored, _ in calls] == [2 * 30, 2 * 30 + 5 * 30 + 2 * 30]


def test_diagnostics_mean_what_they_say(lab, long_task):
    search = with_critics(lab, long_task, 5, errors=(0.5, 0.0, -0.5))
    lab.stage(search, long_task)
    search.config = replace(search.config)
    metrics = search.history[-1]
    assert metrics["r2_validation"] == [float(x) for x in search.scores]
    assert metrics["weights"] == [float(x) for x in search.weights]
    assert -1.0 <= metrics["mean_gradient_cosine"] <= 1.0
    assert metrics["r2_test"] <= 1.0
    assert metrics["evidence"] != metrics["evidence_constant"]
    assert 0.5 <= metrics["probability_ascent"] <= 1.0
    assert metrics["step_actions"] > 0.0
    assert metrics["replay"] == len(search.replay)
    evidence = lab.search("abs", long_task, aggregation="evidence")
    lab.iterate(evidence, long_task)
    assert evidence.history[-1]["sigma_beta"] == evidence.hyper.feature_scale > 0.0


def test_step_in_actions_is_the_visited_states_root_mean_square(lab, long_task):
    search = with_critics(lab, long_task, 3)
    visits, target = search._centre_visits, search.centre + 0.01
    change = search.policies.actions(target, visits.states, search.normaliser) - search._policy_centre.actions(
        visits.states
    )
    half = np.array(search.spec.action_high)  # The bounds are symmetric here.
    expected = np.sqrt((visits.weights @ np.square(change / half).mean(axis=1)) / visits.weights.sum())
    assert search._step_metrics(target)["step_actions"] == pytest.approx(expected)
