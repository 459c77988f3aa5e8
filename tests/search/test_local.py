"""The outer iteration that all local searches share: stages, counts, window, normaliser, scale, failures, saving."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from abps.errors import ConfigError, NumericsError, ShapeError
from abps.model import GP, ActionMetric, condition, gp
from abps.model.aggregation import Marginal, Mean, Single, Softmax
from abps.model.fit import fit, noise_estimate
from abps.model.kernel import Matern52
from abps.normaliser import Normaliser
from abps.policies.observations import RunningNormaliser
from abps.search.local import LocalSearchConfig, automatic_scale
from abps.settings import replace
from abps.steps.base import Move, StepInput, StepRule

LOCAL = ("mpd", "gibo", "abs", "ddpgn")
REMAP = RunningNormaliser(remap=True)
QUICK = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # Every example runs whole searches: shrinking one takes minutes.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


def episode_return(task, trajectory) -> float:
    return float(trajectory.rewards @ task.spec.gamma ** np.arange(len(trajectory)))


# ---- stages ----------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_stages_counts_and_window(lab, name):
    """Centre, design of N_max − 1, then centre and N_acq single probes; every episode is counted, the design too."""
    task = lab.lqr()
    search = lab.search(name, task)
    plan = []
    for _ in range(2 + 2 * 4):
        queries, _, metrics = lab.stage(search, task)
        stage = (len(queries), queries[0].role, queries[0].episodes, metrics is not None, search.memory.stage)
        plan.append(stage)
        assert len(search.memory.window) <= 6
    first = [(1, "centre", 2, False, "centre"), (5, "probe", 1, True, "")]
    later = [(1, "centre", 2, False, "centre"), *[(1, "probe", 1, False, "probe")] * 2, (1, "probe", 1, True, "")]
    assert plan == [*first, *later, *later]
    assert search.episodes == 2 + 5 + 2 * (2 + 3)
    assert search.iteration == 3
    assert [(p.iteration, p.role) for p in search.memory.window] == [
        (1, "probe"), (1, "probe"), (2, "centre"), (2, "probe"), (2, "probe"), (2, "probe"),
    ]  # fmt: skip


def test_first_probes_are_gaussian_around_the_centre(lab):
    task = lab.lqr(3, 2)
    search = lab.search("mpd", task, window=200)
    lab.stage(search, task)
    moves = np.array([query.parameters - search.centre for query in search.open_queries()])
    assert moves.shape == (199, 6)
    assert abs(moves.std() / 0.03 - 1.0) < 0.1


@pytest.mark.parametrize("name", ["mpd", "gibo", "abs"])
def test_probes_stay_in_the_box_and_are_the_acquisitions_maximum(lab, effort, name):
    """No point of a fine random screening of the box beats the probe that was asked for by more than a little."""
    effort(polished=4, iterations=100)
    task = lab.lqr()
    search = lab.search(name, task, starts=16, radius=0.05)
    lab.run(search, task, 3)
    probe = search.ask().parameters
    assert np.abs(probe - search.centre).max() <= 0.05 + 1e-15
    criterion, posterior = search.config.probing.criterion, search.model.posterior
    rng = np.random.default_rng(0)
    values = criterion.values(posterior, search.centre + rng.uniform(-0.05, 0.05, (2000, search.policies.size)))
    gain = criterion.values(posterior, probe[None])[0] - np.median(values)
    assert values.max() - np.median(values) <= gain * (1 + 1e-6)


def test_gaussian_probes_do_not_depend_on_the_returns(lab):
    """Those of the ablation; the control is a search that asks its model."""
    task = lab.lqr()
    moves = {}
    for name in ("ddpgn", "abs"):
        for factor in (1.0, -1.0):
            search = lab.search(name, task)
            lab.iterate(search, task)
            for _ in range(2):
                query = search.ask()
                outcomes = lab.outcomes(search, task, query)
                for outcome in outcomes:
                    outcome.rewards[:] *= factor
                search.tell(query, outcomes)
            moves[name, factor] = search.ask().parameters - search.centre
    assert np.array_equal(moves["ddpgn", 1.0], moves["ddpgn", -1.0])
    assert not np.allclose(moves["abs", 1.0], moves["abs", -1.0], rtol=1e-3)


def test_probes_of_gibo_do_not_depend_on_the_returns(lab):
    """The trace sees where points are, not what they returned; the control is MPD's criterion. Same lengthscales."""
    from lqr_lab import constant_model, iterations

    near = iterations(lab.lqr()).neighbourhood()
    other = replace(near, entries=tuple(replace(p, returns=-(p.returns**2)) for p in near.entries))
    model = constant_model(near)
    for name, same in (("gibo", True), ("mpd", False)):
        asked = [
            lab.config(name).probing.choose(model.gp.model(n, model.prior, model.hyper).posterior, [], rng).point
            for n, rng in ((near, np.random.default_rng(0)), (other, np.random.default_rng(0)))
        ]
        assert np.array_equal(*asked) == same


def test_ask_is_repeatable_and_order_of_answers_does_not_matter(lab):
    task = lab.lqr()
    left, right = lab.search("abs", task), lab.search("abs", task)
    for search in (left, right):
        lab.stage(search, task)
    assert left.ask() is left.ask()
    for search, order in ((left, 1), (right, -1)):
        for query in search.open_queries()[::order]:
            search.tell(query, lab.outcomes(search, task, query))
    assert lab.difference(lab.saved(left), lab.saved(right)) == ""


def test_a_window_smaller_than_an_iteration_keeps_the_centre(lab):
    task = lab.lqr()
    for name in LOCAL:
        search = lab.search(name, task, window=2, probes=4)
        metrics = lab.iterate(search, task, 3)
        assert "centre" in [point.role for point in search.memory.window]
        assert np.isfinite(metrics["centre_discounted"])


@pytest.mark.parametrize("name", LOCAL)
def test_equal_returns_are_no_obstacle(lab, name):
    """A task whose reward never changes: nothing to learn, nothing to crash on."""
    task = lab.lqr()
    search = lab.search(name, task)
    for _ in range(7):
        for query in search.open_queries():
            outcomes = lab.outcomes(search, task, query)
            for outcome in outcomes:
                outcome.rewards[:] = 0.0
            search.tell(query, outcomes)
    assert search.progress.history[0]["fit_fallback"] == "equal returns"
    assert np.all(np.isfinite(search.centre))


# ---- the model's data ----------------------------------------


def test_the_process_sees_scaled_discounted_means(lab):
    task = lab.lqr(reward_scale=4.0, noise=0.1)
    search = lab.search("mpd", task)
    _, centre, _ = lab.stage(search, task)
    _, probes, _ = lab.stage(search, task)
    expected = [np.mean([episode_return(task, t) for t in centre]), *(episode_return(task, t) for t in probes)]
    near = search.neighbourhood()
    assert np.allclose(near.returns, np.array(expected) / 4.0, rtol=1e-12, atol=0)
    assert near.centre_value == pytest.approx(expected[0] / 4.0)
    assert near.counts.tolist() == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_a_reward_shift_is_subtracted_from_every_reward_of_the_objective(lab, name):
    """Of the returns that the process sees; best and centre return stay undiscounted and unshifted."""
    task = lab.lqr(reward_scale=1.0)
    search = lab.search(name, task, reward_shift=0.5)
    _, told, _ = lab.stage(search, task)
    expected = np.mean([episode_return(task, t) for t in told]) - 0.5 * (1 - 0.95**30) / 0.05
    assert search.neighbourhood().centre_value == pytest.approx(expected)
    assert search.progress.centre_return == pytest.approx(np.mean([t.total() for t in told]))


@pytest.mark.parametrize("weigh", [True, False])
def test_repeats_weigh_only_when_told_to(lab, weigh):
    task = lab.lqr(noise=0.1)
    search = lab.search("gibo", task, weigh_repeats=weigh, length=0.1)
    lab.run(search, task, 3)
    near, model = search.neighbourhood(), search.model
    found = {
        counted: condition(near.points, near.returns, near.theta, model.hyper, counts=near.counts if counted else None)
        for counted in (True, False)
    }
    assert np.allclose(model.posterior.mu, found[weigh].mu, rtol=1e-12)
    assert not np.allclose(model.posterior.mu, found[not weigh].mu, rtol=1e-6)


@pytest.mark.parametrize("refit", ["warm", "full"])
def test_after_a_probe_the_last_optimum_is_polished_or_all_starts_are_tried_again(lab, monkeypatch, refit):
    """All three starts at a new centre and after the design; one or three after a probe."""
    starts, real = [], fit

    def spy(*data, effort, **rest):
        starts.append(effort.starts)
        return real(*data, effort=effort, **rest)

    monkeypatch.setattr(gp, "fit", spy)
    task = lab.lqr()
    lab.run(lab.search("mpd", task, refit=refit), task, 6)
    assert starts == [3, 3, 3, *[1 if refit == "warm" else 3] * 3]


def test_noise_estimate_is_the_mean_spread_of_the_centres_in_the_window(lab):
    task = lab.lqr(reward_scale=4.0, noise=0.1)
    search = lab.search("mpd", task, centre_episodes=3, window=12)
    spreads, kept = [], set()
    for _ in range(3):
        _, centre, _ = lab.stage(search, task)
        spreads.append(np.std([episode_return(task, t) / 4.0 for t in centre]))
        kept = {point.iteration for point in search.memory.window if point.role == "centre"}
        estimate = np.mean([spreads[number] for number in kept])
        assert noise_estimate(search.neighbourhood().repeats, 1e-4) == pytest.approx(estimate)
        assert 1 / 3.001 < search.model.hyper.noise / estimate < 3.001
        while lab.stage(search, task)[2] is None:
            pass
    assert kept == {1, 2}


def test_normaliser_is_updated_once_per_iteration_from_the_probes_only(lab):
    task = lab.lqr()
    search = lab.search("mpd", task, observations=RunningNormaliser())
    expected = Normaliser.empty(2)
    for _ in range(2):
        before = search.normaliser
        fresh = []
        while True:
            queries, told, metrics = lab.stage(search, task)
            assert all(query.policy.normaliser is before for query in queries)
            if queries[0].role == "probe":
                fresh += [trajectory.observations[:-1] for trajectory in told]
            if metrics is not None:
                break
            assert search.normaliser is before
        expected = expected.merge(Normaliser.empty(2).add(np.concatenate(fresh)))
        assert search.normaliser.count == expected.count == sum(len(part) for part in fresh) + before.count
        assert np.allclose(search.normaliser.mean, expected.mean)
        assert np.allclose(search.normaliser.std, expected.std)


def test_no_normaliser_where_policies_see_raw_observations(lab):
    task = lab.lqr()
    search = lab.search("mpd", task)
    lab.iterate(search, task, 2)
    assert search.normaliser.count == 0


@pytest.mark.parametrize("remap", [True, False])
def test_remap_keeps_the_slope_of_old_points_and_centres(lab, remap):
    """Gains in raw observations, W / std, are what a policy does; re-mapping keeps them, its absence the numbers."""
    task = lab.lqr()
    search = lab.search("mpd", task, observations=RunningNormaliser(remap=remap))
    lab.run(search, task, 5)
    old, tried = search.normaliser, [(p.parameters, p.normaliser) for p in search.memory.window][1:]
    previous = search.centre
    lab.stage(search, task)
    new, moved = search.normaliser, search.neighbourhood().parameters[: len(tried)]
    assert new is not old
    for parameters, (before, then) in zip(moved, tried, strict=True):
        assert np.allclose(parameters / new.std, before / then.std, rtol=1e-12) == remap  # One action: W is one row.
        assert np.array_equal(parameters, before) != remap
    assert np.allclose(search.memory.previous / new.std, previous / old.std, rtol=1e-12) == remap


@pytest.mark.parametrize("remap", [True, False])
def test_failed_places_are_remapped_with_the_policies(lab, remap):
    task = lab.lqr()
    search = lab.search("mpd", task, observations=RunningNormaliser(remap=remap, freeze_mean=True))
    lab.run(search, task, 3)
    failed = search.ask().policy
    lab.stage(search, task, fails=lambda *_: True)
    lab.iterate(search, task, 1)
    states = np.random.default_rng(0).standard_normal((20, 2))
    now = search.policies.actions(search.memory.avoid[-1], states, search.normaliser)
    assert np.allclose(now, failed.actions(states), rtol=1e-9) == remap


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_with_a_frozen_mean_the_normaliser_changes_no_policy(lab, name, freeze):
    """What every old point and the last centre do in any state; re-mapping alone cannot keep it without a bias."""
    task = lab.lqr()
    search = lab.search(name, task, observations=RunningNormaliser(remap=True, freeze_mean=freeze))
    lab.iterate(search, task, 1)
    states = 3.0 * np.random.default_rng(0).standard_normal((20, 2))
    for _ in range(2):
        old, centre = search.normaliser, search.centre
        lab.iterate(search, task, 1)
        new, near = search.normaliser, search.neighbourhood()
        assert not np.allclose(new.std, old.std, rtol=1e-6)
        assert np.array_equal(new.mean, old.mean) == freeze
        kept = [(centre, old, search.memory.previous)]
        kept += [(p.parameters, p.normaliser, x) for p, x in zip(near.entries, near.parameters, strict=True)]
        same = [
            np.allclose(
                search.policies.actions(before, states, then), search.policies.actions(x, states, new), rtol=1e-9
            )
            for before, then, x in kept
            if then.count > 0 and np.any(before)
        ]
        assert len(same) > 3
        assert all(same) if freeze else not any(same)


def test_automatic_scale_is_a_power_of_two_above_the_returns():
    assert automatic_scale(np.array([0.3, -0.9])) == 1.0
    assert automatic_scale(np.array([100.0, -3.0])) == 128.0
    assert automatic_scale(np.array([0.2])) == 0.25
    assert automatic_scale(np.array([64.0])) == 64.0
    assert automatic_scale(np.zeros(3)) == 1.0


@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_automatic_scale_changes_only_with_a_new_centre(lab, name):
    task = lab.lqr()
    search = lab.search(name, task)
    seen = []
    for number in range(2 + 4 + 4):
        for query in search.open_queries():
            outcomes = lab.outcomes(search, task, query)
            for outcome in outcomes:
                outcome.rewards[:] *= 10.0 ** (number // 2)  # Returns grow by themselves, probes included.
            search.tell(query, outcomes)
        seen.append(search.memory.scale)
    assert seen[0] == seen[1]
    assert len(set(seen[2:6])) == 1
    assert len(set(seen[6:10])) == 1
    assert len(set(seen)) == 3
    fixed = lab.search(name, lab.lqr(reward_scale=3.0))
    lab.iterate(fixed, task, 2)
    assert fixed.memory.scale == 3.0


# ---- searches with critics ----------------------------------------


def test_visits_are_a_subsample_with_the_whole_weight(lab):
    task = lab.lqr()
    search = lab.search("abs", task, states=20)
    lab.run(search, task, 2)
    whole = (1 - 0.95**30) / 0.05
    for point in search.memory.window:
        assert len(point.visits.weights) == 20
        assert point.visits.weights.sum() == pytest.approx(whole)
    without = lab.search("mpd", task)
    lab.run(without, task, 2)
    assert [point.visits for point in without.memory.window] == [None] * 6


def test_every_step_is_stored_and_critics_start_anew_at_every_centre(lab):
    """At every new centre they are given the centre's policy, what is stored by then, and the reward scale."""
    from lqr_lab import exact_prior

    task = lab.lqr(reward_scale=2.0)
    search = lab.search("abs", task, prior=exact_prior(task))
    lab.run(search, task, 3)
    calls = search.prior.critics.calls
    assert [scale for _, _, scale, _ in calls] == [2.0, 2.0]
    assert np.array_equal(calls[0][0].parameters, np.zeros(2))
    assert np.array_equal(calls[1][0].parameters, search.centre)
    assert [stored for _, stored, _, _ in calls] == [2 * 30, 2 * 30 + 5 * 30 + 2 * 30]
    assert [worst for *_, worst in calls] == [None, int(np.argmin(search.progress.history[0]["r2_validation"]))]


def test_the_worst_critic_is_written_down_when_it_is_reset(lab):
    task = lab.lqr()
    for reset in (True, False):
        search = lab.search("abs", task, reset_worst=reset)
        lab.iterate(search, task, 2)
        first, later = search.progress.history
        assert first["critic_reset"] is None
        assert later["critic_reset"] == (int(np.argmin(first["r2_validation"])) if reset else None)


def test_every_ablation_of_figure_4_is_a_setting(lab):
    """Single, mean and softmax, with and without reset: all run, each on its own path.

    The single critic is not the worst one here, so for it alone the reset changes nothing.
    """
    task = lab.lqr()
    centres = {}
    for aggregation in (Single(), Mean(), Softmax()):
        for reset in (True, False):
            search = lab.search("abs", task, aggregation=aggregation, reset_worst=reset)
            lab.iterate(search, task, 3)
            centres[aggregation, reset] = tuple(search.centre)
    assert centres[Single(), True] == centres[Single(), False]
    assert len(set(centres.values())) == 5


def test_step_in_actions_is_the_visited_states_root_mean_square(lab):
    """Over the discounted visits of the old centre, in halves of the actions' range, state by state."""
    task = lab.lqr(2, 2)
    search = lab.search("abs", task)
    lab.run(search, task, 5)
    old, near = search.incumbent, search.neighbourhood()
    visits = near.centre_visits
    metrics = lab.stage(search, task)[2]
    squares, total = 0.0, 0.0
    for state, weight in zip(visits.states, visits.weights, strict=True):
        before, after = (policy.actions(state[None])[0] for policy in (old, search.incumbent))
        squares += weight * np.mean(((after - before) / 2.0) ** 2)  # Half of the range ±2 is 2.
        total += weight
    assert metrics["step_actions"] == pytest.approx(np.sqrt(squares / total), rel=1e-6)
    assert metrics["step_actions"] > 0.0
    assert near.action_change(old.parameters) == 0.0


# ---- failures ----------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_a_failed_probe_leaves_no_trace_but_a_place_to_avoid(lab, name):
    task = lab.lqr()
    search = lab.search(name, task)
    lab.run(search, task, 3)
    window, best, fresh = len(search.memory.window), search.progress.best, search.memory.fresh.count
    replay = search.replay.total if name in ("abs", "ddpgn") else None
    query = search.ask()
    lab.stage(search, task, fails=lambda *_: True)
    assert (len(search.memory.window), search.memory.fresh.count) == (window, fresh)
    assert search.progress.best is best
    assert search.progress.failures == 1
    assert np.array_equal(search.memory.avoid[-1], query.parameters)
    if replay is not None:
        assert search.replay.total == replay
    assert search.memory.probes == 1
    lab.iterate(search, task, 2)  # It goes on.


@pytest.mark.parametrize("name", ["mpd", "gibo", "abs"])
def test_probes_keep_away_from_failed_ones(lab, effort, name):
    """Asked again at once, a search without the avoidance returns to (nearly) the same place: the control."""
    effort(polished=4, iterations=100)
    task = lab.lqr()
    distances = {}
    for radius in (1.0, 0.0):
        search = lab.search(name, task, probes=6, starts=16, radius=0.2, avoid_radius=radius)
        lab.run(search, task, 3)
        failed = search.ask().parameters
        lab.stage(search, task, fails=lambda *_: True)
        again = search.ask().parameters
        distances[radius] = np.linalg.norm((again - failed) / search.model.posterior.hyper.effective)
    assert distances[1.0] >= 1.0
    assert distances[0.0] < 0.5


def test_fallback_probes_are_counted_once_also_after_a_resume(lab):
    """Nowhere is far enough from the failed probe: the three after it are placed by the fallback, counted when told."""
    task = lab.lqr()
    whole, first, second = (lab.search("mpd", task, probes=4, avoid_radius=1e3) for _ in range(3))
    for search in (whole, first):
        lab.run(search, task, 3)
        lab.stage(search, task, fails=lambda *_: True)
        lab.stage(search, task)
        search.ask()
    assert whole.memory.fallbacks == 1
    second.load(lab.saved(first))
    for search in (whole, second):
        lab.run(search, task, 2)
        assert search.progress.history[-1]["acquisition_fallbacks"] == 3
        assert lab.iterate(search, task)["acquisition_fallbacks"] == 4  # Counted anew in every outer iteration.


def test_a_failed_design_probe_is_left_out(lab):
    task = lab.lqr()
    search = lab.search("abs", task)
    lab.stage(search, task)
    queries, told, metrics = lab.stage(search, task, fails=lambda query, _: query.id % 2 == 1)
    assert metrics is not None
    assert len(told) == len(search.memory.window) - 1 < len(queries)
    assert search.replay.total == search.progress.steps


def test_all_probes_failed(lab):
    """Nothing but the centre is known: the step has no direction, or only the critics', and the search goes on."""
    task = lab.lqr()
    for name in LOCAL:
        search = lab.search(name, task)
        lab.stage(search, task)
        lab.stage(search, task, fails=lambda *_: True)
        assert search.iteration == 1
        assert np.all(np.isfinite(search.centre))
        lab.iterate(search, task, 2)


def test_part_of_a_centres_episodes_is_enough(lab):
    task = lab.lqr()
    search = lab.search("mpd", task, centre_episodes=3)
    _, told, _ = lab.stage(search, task, fails=lambda _, number: number == 1)
    assert search.memory.window[0].returns.size == len(told) == 2
    assert search.progress.failures == 1


@pytest.mark.parametrize("remap", [True, False])
@pytest.mark.parametrize("name", LOCAL)
def test_a_failed_centre_retreats_half_way(lab, name, remap):
    task = lab.lqr()
    search = lab.search(name, task, observations=RunningNormaliser(remap=remap))
    lab.iterate(search, task, 2)
    previous, centre = search.memory.previous, search.centre
    window, avoid = len(search.memory.window), len(search.memory.avoid)
    _, _, metrics = lab.stage(search, task, fails=lambda *_: True)
    assert metrics["retreat"] == "failed"
    assert np.array_equal(search.centre, 0.5 * (previous + centre))
    assert (len(search.memory.window), len(search.memory.avoid)) == (window, avoid + 1)
    assert np.array_equal(search.memory.avoid[-1], centre)
    assert search.ask().role == "centre"
    assert search.iteration == 3
    assert metrics["episodes"] == search.episodes
    lab.stage(search, task, fails=lambda *_: True)
    assert np.allclose(search.centre - previous, 0.25 * (centre - previous))
    lab.iterate(search, task, 1)


def test_a_failed_first_centre_is_tried_again_and_then_designed_around(lab):
    task = lab.lqr()
    search = lab.search("abs", task)
    lab.stage(search, task, fails=lambda *_: True)
    assert np.array_equal(search.centre, np.zeros(2))
    lab.stage(search, task)
    assert [query.role for query in search.open_queries()] == ["probe"] * 5


def test_failed_places_are_forgotten_in_the_end(lab):
    """No more of them than points in the window."""
    task = lab.lqr()
    search = lab.search("mpd", task, window=3)
    lab.run(search, task, 2)
    for _ in range(8):
        lab.stage(search, task, fails=lambda query, _: query.role == "probe")
    assert len(search.memory.avoid) == 3


# ---- saving ----------------------------------------

STAGES = 10


@QUICK
@given(
    name=st.sampled_from(LOCAL),
    cut=st.integers(0, STAGES),
    asked=st.booleans(),
    replay=st.booleans(),
    marginal=st.booleans(),
    failing=st.integers(2, 40),
    remapped=st.booleans(),
)
def test_saved_and_loaded_anywhere_goes_on_bit_for_bit(lab, name, cut, asked, replay, marginal, failing, remapped):
    """Cut at any stage boundary, also while a query is open, also without the replay: the end is the same state."""
    task = lab.lqr()
    changes: dict[str, Any] = {"observations": RunningNormaliser(remap=remapped, freeze_mean=remapped)}
    if marginal and name in ("abs", "ddpgn"):
        changes["aggregation"] = Marginal(total=0.0)
    resumed(lab, task, lambda: lab.search(name, task, **changes), cut, asked, replay, failing)


def resumed(lab, task, make, cut, asked=False, replay=True, failing=7):
    """Run a search whole and cut in two, and compare the ends; every `failing`-th episode fails."""

    def fails(query, number):
        return (query.id + number) % failing == 1

    whole, first, second = make(), make(), make()
    lab.run(whole, task, STAGES, fails=fails)
    told = lab.run(first, task, cut, fails=fails)
    if asked:
        first.ask()
    second.load(lab.saved(first, replay=replay), [] if replay else told)
    lab.run(second, task, STAGES - cut, fails=fails)
    assert lab.difference(lab.saved(whole), lab.saved(second)) == ""
    assert lab.difference(whole.memory.avoid, second.memory.avoid) == ""
    assert whole.iteration >= 2
    return whole


@dataclass
class Calls:
    count: int = 0


@dataclass(frozen=True)
class Counting(StepRule):
    """Stays where it is and counts how often it was asked."""

    memory_type: ClassVar[type] = Calls

    def __call__(self, given: StepInput) -> Move:
        count = given.memory.count + 1
        return Move(given.model.neighbourhood.theta, {"calls": count}, Calls(count))


def test_a_step_rule_is_given_what_it_remembered_also_after_a_resume(lab):
    task = lab.lqr()
    first, second = (lab.search("mpd", task, step=Counting()) for _ in range(2))
    lab.iterate(first, task, 2)
    second.load(lab.saved(first))
    for search in (first, second):
        lab.iterate(search, task)
        assert [row["calls"] for row in search.progress.history] == [1, 2, 3]


@pytest.mark.parametrize("cut", [2, 4])
@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_a_search_in_the_chart_of_the_actions_trains_and_resumes_bit_for_bit(lab, name, cut):
    """Lengths are changes of actions, so that a scale of the observations leaves no trace in the queries' actions."""
    task = lab.lqr(2, 2)
    chart = {"chart": ActionMetric(), "states": 20, "gp": GP(lengthscale_low=0.01, lengthscale_high=0.2)}
    search = resumed(lab, task, lambda: lab.search(name, task, **chart), cut, asked=True, replay=False)
    near = search.neighbourhood()
    assert np.array_equal(near.theta, np.zeros(4))
    assert not np.allclose(near.points, near.parameters - search.centre, rtol=1e-2)
    plain = lab.search(name, task, **{**chart, "chart": LocalSearchConfig().chart})
    lab.run(plain, task, STAGES)
    assert not np.allclose(plain.centre, search.centre, rtol=1e-3)  # The control: the chart changes the search.


def test_in_the_chart_of_the_actions_probes_change_the_actions_by_their_length(lab):
    """The design's std is a root-mean-square change of actions, to first order and but for the ridge."""
    task = lab.lqr(2, 2)
    search = lab.search("mpd", task, chart=ActionMetric(ridge=1e-6), states=0, window=200)
    lab.stage(search, task)
    near = search.neighbourhood()
    changes = [near.action_change(query.parameters) for query in search.open_queries()]
    assert np.sqrt(np.mean(np.square(changes))) == pytest.approx(0.03 * np.sqrt(4), rel=0.1)


def test_the_chart_of_the_actions_needs_visited_states(lab):
    task = lab.lqr()
    search = lab.search("mpd", task, chart=ActionMetric())
    with pytest.raises(RuntimeError, match="needs the visited states"):
        lab.iterate(search, task)


@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_a_matern_kernel_trains(lab, name):
    task = lab.lqr()
    centres = {}
    for kernel in (Matern52(), GP().kernel):
        search = lab.search(name, task, kernel=kernel)
        metrics = lab.iterate(search, task, 3)
        assert search.model.gp.kernel == kernel if search.memory.stage else metrics["fit_fallback"] == ""
        assert np.isfinite(metrics["log_likelihood"])
        centres[kernel] = search.centre
    assert not np.allclose(*centres.values(), rtol=1e-6)


@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_a_state_can_be_loaded_into_a_search_that_has_gone_on(lab, name):
    """What it had computed since is forgotten, its model first of all."""
    task = lab.lqr()
    search, whole = lab.search(name, task), lab.search(name, task)
    lab.run(search, task, 4)
    state = lab.saved(search)
    lab.stage(search, task)
    search.ask()
    search.load(state)
    lab.run(search, task, 2)
    lab.run(whole, task, 6)
    assert lab.difference(lab.saved(search), lab.saved(whole)) == ""


def test_a_wrapped_replay_comes_back_from_the_newest_trajectories_only(lab):
    """The ring (1500) is smaller than what was told; only what fills it is given back, one episode more is harmless."""
    task = lab.lqr(horizon=100)
    whole = lab.search("abs", task)
    lab.run(whole, task, STAGES)
    assert whole.replay.total > whole.replay.capacity == whole.replay_capacity
    first = lab.search("abs", task)
    told = lab.run(first, task, 9)
    assert first.replay.total > first.replay.capacity
    state = lab.saved(first, replay=False)
    assert state["replay"] is None
    for given_back in (15, 16):
        second = lab.search("abs", task)
        second.load(state, told[-given_back:])
        lab.run(second, task, STAGES - 9)
        assert lab.difference(lab.saved(whole), lab.saved(second)) == ""
    with pytest.raises(ShapeError, match="cannot bring back"):
        lab.search("abs", task).load(state, told[-14:])


def test_a_state_is_refused_by_another_search_seed_or_in_mid_stage(lab):
    task = lab.lqr()
    search = lab.search("mpd", task)
    lab.stage(search, task)
    state = lab.saved(search)
    with pytest.raises(ConfigError, match="search"):
        lab.search("gibo", task).load(state)
    with pytest.raises(ConfigError, match="seed"):
        lab.search("mpd", task, seed=1).load(state)
    query = search.ask()
    search.tell(query, lab.outcomes(search, task, query))
    with pytest.raises(ConfigError, match="between stages"):
        search.state()


def test_the_oracle_of_equal_states_sees_a_single_bit(lab):
    task = lab.lqr()
    search = lab.search("abs", task)
    lab.run(search, task, 3)
    one, two = lab.saved(search), lab.saved(search)
    returns = two["memory"]["window"][0]["returns"]
    returns[0] = np.nextafter(returns[0], 0.0)
    assert lab.difference(one, lab.saved(search)) == ""
    assert lab.difference(one, two) == "state.memory.window.0.returns"


@pytest.mark.parametrize("name", LOCAL)
def test_same_seed_same_bits_and_two_seeds_differ(lab, name):
    task = lab.lqr()
    states = []
    for seed in (3, 3, 4):
        search = lab.search(name, task, seed=seed)
        lab.run(search, task, 5)
        states.append(lab.saved(search))
    assert lab.difference(states[0], states[1]) == ""
    assert lab.difference(states[0]["progress"]["centre"], states[2]["progress"]["centre"])


# ---- learning and reporting ----------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_every_local_search_climbs_the_synthetic_function(lab, effort, name):
    """d = 4: after 7 outer iterations the centre has made good a third of the way from the start to the optimum."""
    effort(starts=4, iterations=30)
    task = lab.synthetic(4, 1)
    function = task.make_env().function
    config = lab.config(name, probes=5, window=12, design_std=0.1, lengthscale_low=0.05, lengthscale_high=0.25)
    length = {"mpd": 0.05, "gibo": 0.3, "abs": 0.006, "ddpgn": 0.1}[name]
    step = replace(config.step, **{"factor" if name == "abs" else "length": length})
    reach = {"std": 0.1} if name == "ddpgn" else {"starts": 6, "radius": 0.2, "start_std": 0.1}
    search = lab.search(name, task, **{**vars(config), "step": step, "probing": replace(config.probing, **reach)})
    start = float(function.value(np.full(4, 0.5)))
    lab.iterate(search, task, 7)
    end = float(function.value(np.clip(0.5 + search.centre, 0.0, 1.0)))
    assert end - start > (function.optimum[1] - start) / 3


@pytest.mark.parametrize("name", LOCAL)
def test_metrics_are_complete_and_plain(lab, name):
    task = lab.lqr()
    search = lab.search(name, task)
    first, later = lab.iterate(search, task), lab.iterate(search, task)
    shared = {
        "iteration", "episodes", "steps", "failures", "centre_return", "lengthscale_low", "lengthscale_median",
        "lengthscale_high", "signal", "noise", "mean_constant", "log_likelihood", "fit_fallback",
        "acquisition_fallbacks", "probability_ascent", "mu_norm", "jitter", "noise_raised", "reward_scale",
        "centre_discounted", "probe_discounted_mean", "probe_discounted_max", "step_length", "seconds_fit",
        "seconds_mean", "seconds_step",
    }  # fmt: skip
    own = {"mpd": {"small_steps", "probability_ascent_end"}, "gibo": set(), "abs": {"step_capped"}, "ddpgn": set()}[
        name
    ]
    if name in ("abs", "ddpgn"):
        own = own | {
            "r2_validation", "r2_test", "weights", "log_likelihood_constant", "mean_gradient_norm",
            "mean_gradient_cosine", "critic_reset", "critics_diverged", "replay", "step_actions", "seconds_critics",
        }  # fmt: skip
    assert shared | own <= first.keys()
    assert later.keys() - first.keys() <= {"seconds_acquisition"}
    json.dumps(later)  # Python numbers only, so that it can be written as a line of JSON.
    assert later["step_length"] == pytest.approx(np.linalg.norm(search.centre - search.memory.previous))
    assert search.progress.history[-1] == {k: value for k, value in later.items() if not k.startswith("seconds_")}
    assert 0.5 <= later["probability_ascent"] <= 1.0
    if search.replay is not None:
        assert later["replay"] == len(search.replay)


def test_returns_in_the_metrics_are_those_of_this_iteration(lab):
    """Unscaled and discounted: the centre's mean, and mean and maximum over this iteration's probes."""
    task = lab.lqr(reward_scale=4.0, noise=0.1)
    search = lab.search("mpd", task)
    lab.iterate(search, task)
    _, centre, _ = lab.stage(search, task)
    probes = [lab.stage(search, task) for _ in range(3)]
    values, metrics = [episode_return(task, told[0]) for _, told, _ in probes], probes[-1][2]
    assert metrics["centre_discounted"] == pytest.approx(np.mean([episode_return(task, t) for t in centre]))
    assert metrics["probe_discounted_mean"] == pytest.approx(np.mean(values))
    assert metrics["probe_discounted_max"] == pytest.approx(np.max(values))


def test_a_covariance_that_cannot_be_factored_gets_more_noise_and_says_so(lab, monkeypatch):
    task = lab.lqr()
    search = lab.search("mpd", task)
    honest, refused = condition, []

    def brittle(points, returns, theta, hyper, **rest):
        if hyper.noise < 50.0 * search.memory.hyper.noise:
            refused.append(hyper.noise)
            raise NumericsError("cannot be factored")
        return honest(points, returns, theta, hyper, **rest)

    monkeypatch.setattr(gp, "condition", brittle)
    metrics = lab.iterate(search, task)
    assert refused
    assert metrics["noise_raised"] == pytest.approx(100.0)
    monkeypatch.setattr(gp, "NOISE_RAISES", 1)
    with pytest.raises(NumericsError, match="cannot be factored"):
        lab.iterate(search, task)
