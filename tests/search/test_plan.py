"""Plans: which stage follows which, in every situation; what each setting changes; wrong settings."""

from typing import Any

import numpy as np
import pytest

from abps.critics.episodic import EpisodicLstd
from abps.errors import ConfigError
from abps.model.ascent_prior import AscentPrior
from abps.model.chart import ActionMetric
from abps.model.gp import GP
from abps.policies.linear import LinearTanh
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes, PathsAroundCentre, Situation, Stage
from abps.search.registry import make_search
from abps.settings import replace
from abps.steps.adaptive import AdaptiveAscent

PLAN = CentreThenProbes(centre_episodes=2, probes=3, window=6, design_std=0.03)
CENTRE, DESIGN = Stage("centre", centre_episodes=2), Stage("design", gaussian=5, std=0.03)
PROBE = Stage("probe", probe=True)


@pytest.mark.parametrize(
    ("iteration", "stage", "probes", "points", "expected"),
    [
        (0, "", 0, 0, CENTRE),
        (0, "centre", 0, 1, DESIGN),
        (0, "design", 5, 6, None),
        (1, "", 0, 6, CENTRE),
        (1, "centre", 0, 6, PROBE),
        (1, "probe", 2, 6, PROBE),
        (1, "probe", 3, 6, None),
        (1, "centre", 0, 1, DESIGN),  # The first centre failed: nothing but this one is known.
        (1, "design", 5, 6, None),
    ],
)
def test_what_follows_what(iteration: int, stage: str, probes: int, points: int, expected: Stage | None) -> None:
    assert PLAN.next(Situation(iteration, stage, probes, points, horizon=30)) == expected


def test_a_window_of_one_point_still_has_a_design() -> None:
    stage = CentreThenProbes(window=1).next(Situation(0, "centre", 0, 1, horizon=30))
    assert stage is not None
    assert stage.gaussian == 1


@pytest.mark.parametrize("name", ["centre_episodes", "probes", "window", "design_std"])
def test_wrong_settings_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        CentreThenProbes(**{name: 0})


# ---- paths around the centre ---------------------------------------------


PATHS = PathsAroundCentre(
    first_paths=4, scouts=1, paths=2, path_shift=0.1, path_size=0.2, path_steps=7, quick_shift=0.05, quick_steps=3,
    window=9,
)  # fmt: skip
SHAPE: dict[str, Any] = {
    "path_shift": 0.1, "path_size": 0.2, "path_interval": 7, "quick_shift": 0.05, "quick_interval": 3,
}  # fmt: skip
FEW = LocalSearchConfig(
    policy=LinearTanh(bias=True),
    chart=ActionMetric(ridge=0.05),
    prior=AscentPrior(critics=EpisodicLstd(episodes=8, features=16, rows=500, replay=1000)),
    gp=GP(
        lengthscale_low=0.13, lengthscale_high=1.2, shared_lengthscale=True, scale_by_dimension=False, noise="spread"
    ),
    step=AdaptiveAscent(first_length=0.1, shortest=0.01, longest=1.0),
    plan=PATHS,
    states=32,
    chart_points=8,
    discount=1.0,
)


@pytest.mark.parametrize(
    ("iteration", "stage", "points", "expected"),
    [
        (0, "", 0, Stage("centre", centre_episodes=1)),
        (0, "centre", 1, Stage("first 1", paths=1, **SHAPE, scout=True)),
        (0, "first 1", 2, Stage("first 2", paths=1, **SHAPE)),
        (0, "first 3", 4, Stage("first 4", paths=1, **SHAPE)),
        (0, "first 4", 5, None),
        (1, "", 5, Stage("paths", ahead=True, centre_episodes=1, paths=2, **SHAPE)),
        (1, "paths", 8, None),
        (3, "", 0, Stage("centre", centre_episodes=1)),  # All before failed: nothing is known.
    ],
)
def test_what_follows_what_with_paths(iteration: int, stage: str, points: int, expected: Stage | None) -> None:
    assert PATHS.next(Situation(iteration, stage, 0, points, horizon=100)) == expected


@pytest.mark.parametrize(("horizon", "interval"), [(1000, 7), (70, 7), (50, 5), (20, 2), (3, 2), (1, 2)])
def test_knots_are_a_tenth_of_a_short_episode_apart(horizon: int, interval: int) -> None:
    stage = PATHS.next(Situation(0, "centre", 0, 1, horizon))
    assert stage is not None
    assert stage.path_interval == interval
    assert stage.quick_interval == min(3, interval)


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_paths": 0},
        {"scouts": -1},
        {"paths": 0},
        {"path_size": -0.1},
        {"path_shift": -0.1},
        {"path_shift": 0.0, "path_size": 0.0},
        {"path_steps": 0},
        {"quick_shift": -0.1},
        {"quick_steps": 0},
        {"path_rate": -0.1},
        {"path_scale_low": 0.0},
        {"path_scale_low": 1.1},
        {"path_scale_high": 0.9},
        {"window": 1},
    ],
)
def test_wrong_settings_of_paths_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PathsAroundCentre(**wrong)


def test_all_lengths_of_a_path_have_the_factor_of_the_situation() -> None:
    stage = PATHS.next(Situation(1, "", 0, 5, horizon=100, path_scale=1.5))
    assert stage is not None
    sizes = (stage.path_size, stage.path_shift, stage.quick_shift)
    assert sizes == pytest.approx((0.3, 0.15, 0.075))
    assert (stage.path_interval, stage.quick_interval) == (7, 3)


@pytest.mark.parametrize(
    ("scale", "cost", "stuck", "expected"),
    [
        (1.0, 0.5, True, 1.0),  # What is wanted.
        (1.0, 0.0, True, np.exp(0.125)),
        (1.0, 1.0, True, np.exp(-0.125)),
        (1.0, 100.0, True, np.exp(-0.25)),  # One runaway is one step down.
        (1.0, -100.0, True, np.exp(0.25)),
        (1.95, -1.0, True, 2.0),
        (0.51, 9.0, False, 0.5),
        (0.7, 0.0, False, 0.7 * np.exp(0.125)),
        (1.0, -1.0, False, 1.0),  # A search that gets on keeps its paths,
        (1.6, -1.0, False, 1.6 * np.exp(-0.25)),  # and large ones become smaller,
        (1.6, 100.0, False, 1.6 * np.exp(-0.25)),
        (1.1, 0.0, False, 1.0),
    ],
)
def test_paths_grow_while_they_cost_little_and_the_search_is_stuck(
    scale: float, cost: float, stuck: bool, expected: float
) -> None:
    plan = replace(PATHS, path_cost=0.5, path_rate=0.25, path_scale_low=0.5, path_scale_high=2.0)
    assert plan.adapted(scale, cost, stuck=stuck) == pytest.approx(expected)
    assert replace(plan, path_rate=0.0).adapted(scale, cost, stuck=True) == scale


@pytest.mark.parametrize(("loss", "stuck"), [(0.0, True), (0.0, False), (30.0, True)])
def test_a_search_adapts_its_paths_to_what_they_lose(lab: Any, loss: float, stuck: bool) -> None:
    """Returns do not depend on the policy, but those along paths are less."""
    task = lab.lqr(3, 1, horizon=30)
    search = make_search("abs", task.spec, FEW)
    while search.iteration < 4:
        search.memory.stuck = stuck
        query = search.ask()
        told = []
        for trajectory in lab.outcomes(search, task, query):
            rewards = np.cos(np.arange(len(trajectory)) + query.id)  # No two episodes alike, so that there is a spread.
            told.append(replace(trajectory, rewards=rewards - (loss if query.role == "path" else 0.0)))
        search.tell(query, told)
    scale = search.result().history[-1]["path_scale"]
    if loss:
        assert scale < 0.8
    else:
        assert scale > 1.05 if stuck else 0.8 < scale <= 1.0


def test_going_back_counts_as_stuck(lab: Any) -> None:
    task = lab.lqr(2, 1, noise=0.3, horizon=70)
    search, seen = make_search("abs", task.spec, FEW), set[bool]()
    while search.iteration < 25:
        before = search.iteration
        lab.stage(search, task)
        if search.iteration > before:
            assert search.memory.stuck == ("retreat" in search.result().history[-1])
            seen.add(search.memory.stuck)
    assert seen == {False, True}


@pytest.mark.parametrize(("states", "actions"), [(2, 1), (8, 3), (30, 6)])
def test_the_first_step_comes_within_ten_episodes_for_any_dimension(lab: Any, states: int, actions: int) -> None:
    """3 to 186 parameters; with the paper's plan the same budget would not end the first design."""
    task = lab.lqr(states, actions, horizon=30)
    search = make_search("abs", task.spec, replace(FEW, plan=replace(PATHS, first_paths=6)))
    start = search.centre.copy()
    while search.episodes < 10 and search.iteration == 0:
        lab.stage(search, task)
    assert search.iteration >= 1
    assert search.episodes <= 10
    assert np.linalg.norm(search.centre - start) > 0.0
    assert search.result().history[0]["step_chart"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("name", "value", "first_difference"),
    [
        ("first_paths", 5, 5),
        ("scouts", 2, 2),
        ("path_size", 0.3, 1),
        ("path_shift", 0.2, 1),
        ("path_steps", 4, 1),
        ("quick_shift", 0.1, 1),
        ("quick_steps", 2, 1),
        ("paths", 1, 5),
        ("window", 3, 4),
    ],
)
def test_every_setting_shows(lab: Any, name: str, value: Any, first_difference: int) -> None:
    """Up to a stage two searches run the same queries, and from it on others."""
    task = lab.lqr(2, 1, horizon=70)
    one = make_search("abs", task.spec, FEW)
    other = make_search("abs", task.spec, replace(FEW, plan=replace(PATHS, **{name: value})))
    differs = []
    for _ in range(7):
        stages = [lab.stage(search, task)[0] for search in (one, other)]
        described = [
            [(q.role, q.parameters.tobytes(), q.policy.path and q.policy.path.knots.tobytes()) for q in stage]
            for stage in stages
        ]
        differs.append(described[0] != described[1])
    assert differs.index(True) == first_difference
