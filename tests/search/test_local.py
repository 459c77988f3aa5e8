"""The outer iteration that all local searches share: stages, counts, window, normaliser, scale, failures, saving."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from abps.config import AcquisitionConfig, GpConfig
from abps.errors import ConfigError, NumericsError
from abps.normaliser import Normaliser
from abps.search import local
from abps.search.local import CENTRE, DESIGN, PROBE, automatic_scale

LOCAL = ("mpd", "gibo", "abs", "ddpgn")
QUICK = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # Every example runs whole searches: shrinking one takes minutes.
    suppress_health_check=list(HealthCheck),
)


def episode_return(task, trajectory) -> float:
    return float(trajectory.rewards @ task.spec.gamma ** np.arange(len(trajectory)))


# ---- the stage machine -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_stages_counts_and_window(lab, name):
    """Centre, design of N_max − 1, then centre and N_acq single probes; every episode is counted, the design too."""
    task = lab.lqr()
    search = lab.search(name, task)
    plan = []
    for _ in range(2 + 2 * 4):
        stage = search.stage
        queries, _, metrics = lab.stage(search, task)
        plan.append((stage, len(queries), queries[0].role, queries[0].episodes, metrics is not None))
        assert len(search.window) <= 6
    first = [(CENTRE, 1, "centre", 2, False), (DESIGN, 5, "probe", 1, True)]
    later = [(CENTRE, 1, "centre", 2, False), *[(PROBE, 1, "probe", 1, False)] * 2, (PROBE, 1, "probe", 1, True)]
    assert plan == [*first, *later, *later]
    assert search.episodes == 2 + 5 + 2 * (2 + 3)
    assert search.iteration == 3
    assert [(p.iteration, p.role) for p in search.window.points] == [
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
def test_probes_stay_in_the_box_and_are_the_acquisitions_maximum(lab, name):
    """No point of a fine random screening of the box beats the probe that was asked for by more than a little."""
    from abps.acquisition.descent_probability import DescentProbability
    from abps.acquisition.gradient_information import GradientInformation

    task = lab.lqr()
    search = lab.search(name, task, acquisition=AcquisitionConfig(starts=16, polished=4, radius=0.05))
    lab.run(search, task, 3)
    probe = search.ask().parameters
    assert np.abs(probe - search.centre).max() <= 0.05 + 1e-15
    criterion = (GradientInformation if name == "gibo" else DescentProbability)(search.posterior)
    rng = np.random.default_rng(0)
    values = criterion.values(search.centre + rng.uniform(-0.05, 0.05, (2000, search.policies.size)))
    gain = criterion.values(probe[None])[0] - np.median(values)
    assert values.max() - np.median(values) <= gain * (1 + 1e-6)


def test_settings_of_the_acquisition_reach_the_maximiser(lab, monkeypatch):
    seen = {}

    def spy(criterion, starts, lower, upper, scale, rng, **options):
        seen.update(options, starts=len(starts), width=float(upper[0] - lower[0]))
        return real(criterion, starts, lower, upper, scale, rng, **options)

    real = local.maximise
    monkeypatch.setattr(local, "maximise", spy)
    task = lab.lqr()
    chosen = AcquisitionConfig(starts=7, polished=2, iterations=3, radius=0.04, avoid_radius=0.7)
    search = lab.search("mpd", task, acquisition=chosen)
    lab.run(search, task, 3)
    search.ask()
    assert seen["width"] == pytest.approx(0.08)
    assert (seen["starts"], seen["polished"], seen["iterations"], seen["avoid_radius"]) == (7, 2, 3, 0.7)


def test_ask_is_repeatable_and_order_of_answers_does_not_matter(lab):
    task = lab.lqr()
    left, right = lab.search("abs", task), lab.search("abs", task)
    for search in (left, right):
        lab.stage(search, task)
    assert left.ask() is left.ask()
    for search, order in ((left, 1), (right, -1)):
        for query in search.open_queries()[::order]:
            search.tell(query, lab.outcomes(search, task, query, lambda *_: False))
    assert lab.difference(lab.saved(left), lab.saved(right)) == ""


def test_a_window_smaller_than_an_iteration_keeps_the_centre(lab):
    task = lab.lqr()
    for name in LOCAL:
        search = lab.search(name, task, window=2, probes=4)
        metrics = lab.iterate(search, task, 3)
        assert "centre" in [point.role for point in search.window.points]
        assert np.isfinite(metrics["centre_discounted"])


@pytest.mark.parametrize("name", LOCAL)
def test_equal_returns_are_no_obstacle(lab, name):
    """A task whose reward never changes: nothing to learn, nothing to crash on."""
    task = lab.lqr()
    search = lab.search(name, task)
    for _ in range(7):
        for query in search.open_queries():
            outcomes = lab.outcomes(search, task, query, lambda *_: False)
            for outcome in outcomes:
                outcome.rewards[:] = 0.0
            search.tell(query, outcomes)
    assert search.history[0]["fit_fallback"] == "equal returns"
    assert np.all(np.isfinite(search.centre))


# ---- the model's data -------------------------------------------------------------------------------------------------


def test_the_process_sees_scaled_discounted_means(lab):
    task = lab.lqr(reward_scale=4.0, noise=0.1)
    search = lab.search("mpd", task)
    _, centre, _ = lab.stage(search, task)
    _, probes, _ = lab.stage(search, task)
    expected = [np.mean([episode_return(task, t) for t in centre]), *(episode_return(task, t) for t in probes)]
    assert np.allclose(search.returns, np.array(expected) / 4.0, rtol=1e-12, atol=0)
    assert search.centre_value == pytest.approx(expected[0] / 4.0)
    assert search.counts is None
    assert lab.search("mpd", task, gp=GpConfig(weigh_repeats=True)).counts is not None


def test_noise_estimate_is_the_mean_spread_of_the_centres_in_the_window(lab):
    task = lab.lqr(reward_scale=4.0, noise=0.1)
    search = lab.search("mpd", task, centre_episodes=3, window=12)
    spreads = []
    for _ in range(3):
        _, centre, _ = lab.stage(search, task)
        spreads.append(np.std([episode_return(task, t) / 4.0 for t in centre]))
        kept = {point.iteration for point in search.window.points if point.role == "centre"}
        assert search._noise() == pytest.approx(np.mean([spreads[number] for number in kept]))
        while lab.stage(search, task)[2] is None:
            pass
    assert kept == {1, 2}


def test_normaliser_is_updated_once_per_iteration_from_the_probes_only(lab):
    task = lab.lqr(normalise=True)
    search = lab.search("mpd", task)
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


def test_no_normaliser_where_the_task_wants_none(lab):
    task = lab.lqr()
    search = lab.search("mpd", task)
    lab.iterate(search, task, 2)
    assert search.normaliser.count == 0


@pytest.mark.parametrize("remap", [True, False])
def test_remap_keeps_the_slope_of_old_points_and_centres(lab, remap):
    """Gains in raw observations, W / std, are what a policy does; re-mapping keeps them, its absence keeps the numbers."""
    task = lab.lqr(normalise=True)
    search = lab.search("mpd", task, remap=remap)
    lab.run(search, task, 5)
    old, tried = search.normaliser, [(p.parameters, p.normaliser) for p in search.window.points][1:]
    previous = search.centre
    lab.stage(search, task)
    new, gains = search.normaliser, search.policies.matrix
    assert new is not old
    moved = search.points[: len(tried)]
    for parameters, (before, then) in zip(moved, tried, strict=True):
        assert np.allclose(gains(parameters) / new.std, gains(before) / then.std, rtol=1e-12) == remap
        assert np.array_equal(parameters, before) != remap
    assert np.allclose(gains(search.previous) / new.std, gains(previous) / old.std, rtol=1e-12) == remap


@pytest.mark.parametrize("anchor", [True, False])
@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_with_an_anchor_the_normaliser_changes_no_policy(lab, name, anchor):
    """What every old point and the last centre do in any state; without the anchor re-mapping cannot keep it, as policies have no bias."""
    task = lab.lqr(normalise=True)
    search = lab.search(name, task, remap=True, anchor=anchor)
    lab.iterate(search, task, 1)
    states = 3.0 * np.random.default_rng(0).standard_normal((20, 2))
    for _ in range(2):
        old, centre = search.normaliser, search.centre
        lab.iterate(search, task, 1)
        new = search.normaliser
        assert not np.allclose(new.std, old.std, rtol=1e-6)
        assert np.array_equal(new.mean, old.mean) == anchor
        kept = [(centre, old, search.previous)]
        kept += [(p.parameters, p.normaliser, x) for p, x in zip(search.window.points, search.points, strict=True)]
        same = [
            np.allclose(
                search.policies.actions(before, states, then), search.policies.actions(x, states, new), rtol=1e-9
            )
            for before, then, x in kept
            if then.count > 0 and np.any(before)
        ]
        assert len(same) > 3
        assert all(same) if anchor else not any(same)


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
            outcomes = lab.outcomes(search, task, query, lambda *_: False)
            for outcome in outcomes:
                outcome.rewards[:] *= 10.0 ** (number // 2)  # Returns grow by themselves, probes included.
            search.tell(query, outcomes)
        seen.append(search.scale)
    assert seen[0] == seen[1]
    assert len(set(seen[2:6])) == 1
    assert len(set(seen[6:10])) == 1
    assert len(set(seen)) == 3
    fixed = lab.search(name, lab.lqr(reward_scale=3.0))
    lab.iterate(fixed, task, 2)
    assert fixed.scale == 3.0


# ---- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_a_failed_probe_leaves_no_trace_but_a_place_to_avoid(lab, name):
    task = lab.lqr()
    search = lab.search(name, task)
    lab.run(search, task, 3)
    window, best, fresh = len(search.window), search.best, search._fresh.count
    replay = search.replay.total if name in ("abs", "ddpgn") else None
    query = search.ask()
    lab.stage(search, task, fails=lambda *_: True)
    assert (len(search.window), search._fresh.count) == (window, fresh)
    assert search.best is best
    assert search.failures == 1
    assert np.array_equal(search.avoid[-1], query.parameters)
    if replay is not None:
        assert search.replay.total == replay
    assert search.probe == 1
    lab.iterate(search, task, 2)  # It goes on.


@pytest.mark.parametrize("name", ["mpd", "gibo", "abs"])
def test_probes_keep_away_from_failed_ones(lab, name):
    """Asked again at once, a search without the avoidance returns to (nearly) the same place: the control."""
    task = lab.lqr()
    distances = {}
    for radius in (1.0, 0.0):
        settings_ = AcquisitionConfig(starts=16, polished=4, radius=0.2, avoid_radius=radius)
        search = lab.search(name, task, probes=6, acquisition=settings_)
        lab.run(search, task, 3)
        failed = search.ask().parameters
        lab.stage(search, task, fails=lambda *_: True)
        again = search.ask().parameters
        distances[radius] = np.linalg.norm((again - failed) / search.posterior.hyper.effective)
    assert distances[1.0] >= 1.0
    assert distances[0.0] < 0.5


def test_fallback_probes_are_counted_once_also_after_a_resume(lab):
    """Nowhere is far enough from the failed probe: the three after it are placed by the fallback and counted when told."""
    task = lab.lqr()
    chosen = AcquisitionConfig(starts=4, polished=1, iterations=15, avoid_radius=1e3)
    whole, first, second = (lab.search("mpd", task, probes=4, acquisition=chosen) for _ in range(3))
    for search in (whole, first):
        lab.run(search, task, 3)
        lab.stage(search, task, fails=lambda *_: True)
        lab.stage(search, task)
        search.ask()
    assert whole._acquisition_fallbacks == 1
    second.load(lab.saved(first))
    for search in (whole, second):
        lab.run(search, task, 2)
        assert search.history[-1]["acquisition_fallbacks"] == 3


def test_a_failed_design_probe_is_left_out(lab):
    task = lab.lqr()
    search = lab.search("abs", task)
    lab.stage(search, task)
    queries, told, metrics = lab.stage(search, task, fails=lambda query, _: query.id % 2 == 1)
    assert metrics is not None
    assert len(told) == len(search.window) - 1 < len(queries)
    assert search.replay.total == search.steps


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
    assert search.window.points[0].returns.size == len(told) == 2
    assert search.failures == 1


@pytest.mark.parametrize("remap", [True, False])
@pytest.mark.parametrize("name", LOCAL)
def test_a_failed_centre_retreats_half_way(lab, name, remap):
    task = lab.lqr(normalise=True)
    search = lab.search(name, task, remap=remap)
    lab.iterate(search, task, 2)
    previous, centre, window, avoid = search.previous, search.centre, len(search.window), len(search.avoid)
    _, _, metrics = lab.stage(search, task, fails=lambda *_: True)
    assert metrics["retreat"] == "failed"
    assert np.array_equal(search.centre, 0.5 * (previous + centre))
    assert (len(search.window), len(search.avoid)) == (window, avoid + 1)
    assert search.stage == CENTRE
    assert search.iteration == 3
    assert metrics["episodes"] == search.episodes
    lab.stage(search, task, fails=lambda *_: True)
    assert np.allclose(search.centre - previous, 0.25 * (centre - previous))
    lab.iterate(search, task, 1)


@pytest.mark.parametrize(("backtrack", "retreats"), [(2.0, True), (0.0, False)])
@pytest.mark.parametrize("name", ["mpd", "abs"])
def test_a_clearly_worse_centre_is_backed_out_of(lab, name, backtrack, retreats):
    """Its episodes are kept, in the window and for the critics; only the place is given up."""
    task = lab.lqr(noise=0.05)
    search = lab.search(name, task, backtrack=backtrack, centre_episodes=4)
    lab.iterate(search, task, 2)
    previous, centre, counted = search.previous, search.centre, search.episodes
    query = search.ask()
    outcomes = lab.outcomes(search, task, query, lambda *_: False)
    for outcome in outcomes:
        outcome.rewards[:] *= 10.0
    metrics = search.tell(query, outcomes)
    assert search.episodes == counted + 4
    assert search.window.points[-1].role == "centre"
    assert (metrics is not None) == retreats
    if name == "abs":
        assert search.replay.total == search.steps
    if retreats:
        assert metrics["retreat"] == "worse"
        assert np.array_equal(search.centre, 0.5 * (previous + centre))
        assert not search.avoid
    else:
        assert np.array_equal(search.centre, centre)
    lab.iterate(search, task, 1)


def test_a_lucky_centre_cannot_hold_the_search_for_ever(lab):
    task = lab.lqr()
    search = lab.search("mpd", task, backtrack=2.0)
    lab.iterate(search, task, 2)
    search.previous_value = 1e6  # Nothing will ever be as good again.
    reasons = [lab.stage(search, task)[2] for _ in range(4)]
    assert [reason and reason["retreat"] for reason in reasons] == ["worse", "worse", "worse", None]
    assert search.stage == PROBE


def test_noise_is_no_reason_to_back_out(lab):
    """Centres that do not move are worse than the last ones now and then, but not by much."""
    task = lab.lqr(noise=0.05)
    retreats = {}
    for backtrack in (0.01, 6.0):
        search = lab.search("gibo", task, backtrack=backtrack, centre_episodes=6, step=1e-9, probes=1)
        lab.iterate(search, task, 8)
        retreats[backtrack] = sum("retreat" in row for row in search.history)
    assert retreats[6.0] == 0
    assert retreats[0.01] > 0


def test_a_failed_first_centre_is_tried_again_and_then_designed_around(lab):
    task = lab.lqr()
    search = lab.search("abs", task)
    lab.stage(search, task, fails=lambda *_: True)
    assert np.array_equal(search.centre, np.zeros(2))
    lab.stage(search, task)
    assert search.stage == DESIGN


# ---- saving -----------------------------------------------------------------------------------------------------------

STAGES = 10


@QUICK
@given(
    name=st.sampled_from(LOCAL),
    cut=st.integers(0, STAGES),
    asked=st.booleans(),
    replay=st.booleans(),
    evidence=st.booleans(),
    failing=st.integers(2, 40),
    careful=st.booleans(),
)
def test_saved_and_loaded_anywhere_goes_on_bit_for_bit(lab, name, cut, asked, replay, evidence, failing, careful):
    """Cut at any stage boundary, also while a query is open, also without the replay: the end is the same state."""
    task = lab.lqr(normalise=True)
    extra: dict[str, Any] = {"backtrack": 0.5 if careful else 0.0}
    if evidence and name in ("abs", "ddpgn"):
        extra["aggregation"] = "evidence"
    if careful and name == "abs":
        extra |= {"curvature": True, "action_cap": 0.1}
    if careful:
        extra |= {"remap": True, "anchor": True}

    def fails(query, number):
        return (query.id + number) % failing == 1

    whole = lab.search(name, task, **extra)
    lab.run(whole, task, STAGES, fails=fails)
    first = lab.search(name, task, **extra)
    told = lab.run(first, task, cut, fails=fails)
    if asked:
        first.ask()
    second = lab.search(name, task, **extra)
    second.load(lab.saved(first, replay=replay), [] if replay else told)
    lab.run(second, task, STAGES - cut, fails=fails)
    assert lab.difference(lab.saved(whole), lab.saved(second)) == ""
    assert lab.difference(whole.avoid, second.avoid) == ""


def test_a_wrapped_replay_comes_back_from_the_newest_trajectories_only(lab):
    """The ring (1500) is smaller than what was told; only what fills it is given back, one episode more does no harm."""
    task = lab.lqr(horizon=100)
    whole = lab.search("abs", task)
    lab.run(whole, task, STAGES)
    assert whole.replay.total > whole.replay.capacity == whole.replay_capacity
    first = lab.search("abs", task)
    told = lab.run(first, task, 9)
    assert first.replay.total > first.replay.capacity
    state = lab.saved(first, replay=False)
    assert state["own"]["replay"] is None
    for given_back in (15, 16):
        second = lab.search("abs", task)
        second.load(state, told[-given_back:])
        lab.run(second, task, STAGES - 9)
        assert lab.difference(lab.saved(whole), lab.saved(second)) == ""
    from abps.errors import ShapeError

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
    search.tell(query, lab.outcomes(search, task, query, lambda *_: False))
    with pytest.raises(ConfigError, match="between stages"):
        search.state()


def test_the_oracle_of_equal_states_sees_a_single_bit(lab):
    task = lab.lqr()
    search = lab.search("abs", task)
    lab.run(search, task, 3)
    one, two = lab.saved(search), lab.saved(search)
    two["own"]["window"][0]["returns"][0] = np.nextafter(two["own"]["window"][0]["returns"][0], 0.0)
    assert lab.difference(one, lab.saved(search)) == ""
    assert lab.difference(one, two) == "state.own.window.0.returns"


@pytest.mark.parametrize("name", LOCAL)
def test_same_seed_same_bits_and_two_seeds_differ(lab, name):
    task = lab.lqr()
    states = []
    for seed in (3, 3, 4):
        search = lab.search(name, task, seed=seed)
        lab.run(search, task, 5)
        states.append(lab.saved(search))
    assert lab.difference(states[0], states[1]) == ""
    assert lab.difference(states[0]["centre"], states[2]["centre"])


# ---- learning and reporting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_every_local_search_climbs_the_synthetic_function(lab, name):
    """d = 4: after 7 outer iterations the centre has made good a third of the way from the start to the optimum."""
    task = lab.synthetic(4, 1)
    function = task.make_env().function
    search = lab.search(
        name,
        task,
        probes=5,
        window=12,
        design_std=0.1,
        gp=GpConfig(lengthscale_low=0.05, lengthscale_high=0.25, starts=4, polished=1, iterations=30),
        acquisition=AcquisitionConfig(starts=6, polished=1, radius=0.2, iterations=30),
        step={"mpd": 0.05, "gibo": 0.3, "abs": 0.006, "ddpgn": 0.1}[name],
    )
    start = float(function.value(np.full(4, 0.5)))
    lab.iterate(search, task, 7)
    end = float(function.value(np.clip(0.5 + search.centre, 0.0, 1.0)))
    assert end - start > (function.optimum[1] - start) / 3


@pytest.mark.parametrize("name", LOCAL)
def test_metrics_are_complete_and_plain(lab, name):
    import json

    task = lab.lqr()
    search = lab.search(name, task)
    first, later = lab.iterate(search, task), lab.iterate(search, task)
    shared = {
        "iteration", "episodes", "steps", "failures", "centre_return", "lengthscale_low", "lengthscale_median",
        "lengthscale_high", "signal", "noise", "mean_constant", "evidence", "fit_fallback", "acquisition_fallbacks",
        "probability_ascent", "mu_norm", "jitter", "reward_scale", "centre_discounted", "probe_discounted_mean",
        "probe_discounted_max", "step_length", "seconds_fit", "seconds_mean", "seconds_step",
    }  # fmt: skip
    own = {"mpd": {"small_steps", "probability_ascent_end"}, "gibo": set(), "abs": {"step_capped"}, "ddpgn": set()}[
        name
    ]
    if name in ("abs", "ddpgn"):
        own = own | {
            "r2_validation", "r2_test", "weights", "evidence_constant", "mean_gradient_norm", "mean_gradient_cosine",
            "critic_reset", "critics_diverged", "replay", "step_actions", "seconds_critics",
        }  # fmt: skip
    assert shared | own <= first.keys()
    assert later.keys() - first.keys() <= {"seconds_acquisition"}
    json.dumps(later)  # Python numbers only, so that it can be written as a line of JSON.
    assert later["step_length"] == pytest.approx(np.linalg.norm(search.centre - search.previous))
    assert search.history[-1] == {key: value for key, value in later.items() if not key.startswith("seconds_")}


def test_a_covariance_that_cannot_be_factored_gets_more_noise_and_says_so(lab, monkeypatch):
    task = lab.lqr()
    search = lab.search("mpd", task)
    honest, refused = local.condition, []

    def brittle(points, returns, theta, hyper, **rest):
        if hyper.noise < 50.0 * search.hyper.noise:
            refused.append(hyper.noise)
            raise NumericsError("cannot be factored")
        return honest(points, returns, theta, hyper, **rest)

    monkeypatch.setattr(local, "condition", brittle)
    metrics = lab.iterate(search, task)
    assert refused
    assert metrics["noise_raised"] == pytest.approx(100.0)
    monkeypatch.setattr(local, "NOISE_RAISES", 1)
    with pytest.raises(NumericsError, match="cannot be factored"):
        lab.iterate(search, task)
