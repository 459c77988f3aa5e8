"""The planes of paper Figure 1: rewinding a state, and what is on them."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from abps.acquisition.descent_probability import DescentProbability
from abps.config import AbsConfig, AcquisitionConfig, BudgetConfig, CriticsConfig, GpConfig, MpdConfig, RunConfig
from abps.errors import ConfigError, RunError
from abps.gp.posterior import condition
from abps.rollouts.episode import run_episode
from abps.run.directory import RunSettings, create_directory
from abps.run.loop import train
from abps.search.registry import make_search
from abps.study.gallery import Options, draw, save_slices
from abps.study.records import load_runs
from abps.study.slices import plane, rewound, run_slices, search_slices
from abps.tasks.gym import make_task
from abps.tasks.lqr import lqr_task, make_env

SMALL = {
    "centre_episodes": 2,
    "probes": 3,
    "window": 9,
    "design_std": 0.03,
    "gp": GpConfig(starts=4, polished=1, iterations=20),
    "acquisition": AcquisitionConfig(starts=4, polished=1, iterations=20),
}
CRITICS = CriticsConfig(
    members=2, groups=2, features=16, feature_kind="relu", replay=4000, traces=(0.8,), discount_weight=0.0
)
"""Pinned: what the returns say must differ from what these critics do."""
CONFIGS = {"abs": AbsConfig(**SMALL, states=30, critics=CRITICS), "mpd": MpdConfig(**SMALL)}


def searched(name: str, states: int = 2, stages: int = 5):
    """A search that has told its second centre and two of its three probes."""
    env = make_env(states, 1, 0, noise=0.05, fixed_start=True, horizon=30, action_bound=2.0)
    task = make_task(env, gamma=0.95, normalise=True, policy="direct")
    search = make_search(name, task.spec, CONFIGS[name])
    for _ in range(stages):
        for query in search.open_queries():
            search.tell(query, [run_episode(env, query.policy, 10 * query.id + k) for k in range(query.episodes)])
    return search, make_search(name, task.spec, CONFIGS[name])


def test_a_rewound_state_knows_the_centre_and_the_first_probes_only():
    search, other = searched("abs")
    state = search.state()
    for count in range(3):
        other.load(rewound(state, count))
        assert [p.role for p in other.window.points] == ["centre", *["probe"] * count]
        assert np.array_equal(other.centre, search.centre)
    direct = condition(
        search.points[-3:],
        search.returns[-3:],
        search.centre,
        search.hyper,
        mean_at_points=search._prior(search.points[-3:]).at_points,
        mean_at_theta=search.centre_value,
        mean_gradient=search.mean_gradient(),
    )
    assert np.allclose(other.posterior.mu, direct.mu, rtol=1e-9)
    assert not np.allclose(other.posterior.mu, search.posterior.mu, rtol=1e-3)  # The whole window says more.


def test_the_end_of_an_iteration_can_be_rewound_too():
    """After the step the search stands elsewhere, with another normaliser; the figure is about the centre before it."""
    middle, _ = searched("abs", stages=5)
    end, other = searched("abs", stages=6)
    assert not np.array_equal(end.centre, middle.centre)
    assert end.normaliser.count > middle.normaliser.count
    other.load(rewound(end.state(), 2))
    assert np.array_equal(other.centre, middle.centre)
    assert np.array_equal(other.normaliser.mean, middle.normaliser.mean)
    assert np.array_equal(other.points, middle.points[-3:])


@pytest.mark.parametrize("name", ["abs", "mpd"])
@pytest.mark.parametrize("states", [2, 3])
def test_panels_show_the_acquisition_where_they_say(name, states):
    search, other = searched(name, states)
    state = search.state()
    panels = search_slices(other, state)
    assert [len(panel.probes) for panel in panels] == [0, 1, 2]
    axes = plane(_loaded(other, rewound(state, 2)), [search.points[-2], search.points[-1]])
    assert np.allclose(axes @ axes.T, np.eye(2))
    for count, panel in enumerate(panels):
        other.load(rewound(state, count))
        assert np.array_equal(panel.first, panels[0].first)
        assert np.abs(panel.probes).max(initial=0.0) < panel.first[-1]
        criterion = DescentProbability(other.posterior)
        for row, column in ((0, 0), (40, 40), (13, 70)):
            place = other.centre + np.array([panel.first[column], panel.second[row]]) @ axes
            assert panel.values[row, column] == pytest.approx(float(criterion.values(place[None])[0]), rel=1e-9)
        top = float(criterion.values((other.centre + panel.maximum @ axes)[None])[0])
        assert top >= panel.values.max() - 2e-6 * np.ptp(panel.values)
        assert panel.maximum @ panel.gradient >= 0 or count > 0
        assert np.allclose(panel.gradient, axes @ other.posterior.mu)
        assert (panel.mean_gradient is None) == (name == "mpd")
    if name == "abs":
        assert np.allclose(panels[0].gradient, panels[0].mean_gradient)  # Nothing observed yet that could contradict.
        assert not np.allclose(panels[2].gradient, panels[2].mean_gradient, rtol=1e-3)


def _loaded(search, state):
    search.load(state)
    return search


def test_what_cannot_be_shown_is_refused():
    search, other = searched("mpd", stages=3)
    with pytest.raises(ConfigError, match="0 probes"):
        search_slices(other, search.state())
    with pytest.raises(ConfigError, match="no centre"):
        rewound(make_search("mpd", search.spec, CONFIGS["mpd"]).state(), 0)
    single, _ = searched("mpd", states=1)
    with pytest.raises(ConfigError, match="two parameters"):
        plane(single, [])


def test_from_a_run_on_disk(tmp_path):
    settings = RunSettings(
        lqr_task(2, 1, 0), "abs", CONFIGS["abs"], BudgetConfig(episodes=15), RunConfig(evaluate_every=0), seed=0
    )
    path = tmp_path / "run"
    create_directory(path, settings)
    with pytest.raises(RunError, match="no checkpoint"):
        run_slices(path)
    train(path, settings)
    panels = run_slices(path)
    assert [panel.title for panel in panels] == [
        "t = 0: observed θ",
        "t = 1: observed θ, z₁",
        "t = 2: observed θ, z₁, z₂",
    ]
    assert all(np.isfinite(panel.values).all() for panel in panels)
    figure = draw(
        "paper-1", load_runs([path]), Options()
    )  # The gallery computes the same panels, nothing being stored.
    assert [axes.get_title() for axes in figure.axes[:3]] == [panel.title for panel in panels]
    save_slices(path / "acquisition.npz", panels[:2])  # What is stored goes first.
    figure = draw("paper-1", load_runs([path]), Options())
    assert panels[2].title not in [axes.get_title() for axes in figure.axes]


def test_a_search_without_acquisition_is_refused(tmp_path):
    from abps.config import ArsConfig

    settings = RunSettings(
        lqr_task(2, 1, 0),
        "ars",
        ArsConfig(directions=2, top=1),
        BudgetConfig(episodes=4),
        RunConfig(evaluate_every=0),
        seed=0,
    )
    path = tmp_path / "run"
    create_directory(path, settings)
    train(path, settings)
    with pytest.raises(ConfigError, match="no acquisition function"):
        run_slices(path)
    with pytest.raises(ConfigError, match=r"none of the runs can show.*no acquisition function"):
        draw("paper-1", load_runs([path]), Options())


def test_the_example_shows_probes_correcting_the_critics(capsys):
    """The file in examples/: the first probe sits where the first panel's acquisition is largest; μ turns to the true gradient."""
    path = Path(__file__).parents[2] / "examples" / "figure_1.py"
    spec = importlib.util.spec_from_file_location("figure_1", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules["figure_1"] = example
    spec.loader.exec_module(example)
    panels = example.panels()
    assert np.allclose(panels[1].probes[0], panels[0].maximum)
    assert np.allclose(panels[2].probes[1], panels[1].maximum)
    cosines = [float(line.rsplit("μ", 1)[1]) for line in capsys.readouterr().out.splitlines()]
    assert cosines[2] > 0.8 > cosines[0]
