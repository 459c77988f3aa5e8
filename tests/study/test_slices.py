"""The planes of paper Figure 1: models that know the centre and its first probes only, and what is on the planes."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import GaussianProbes, MaximiseCriterion
from abps.critics.lstd_config import Lstd, Relu
from abps.errors import ConfigError, RunError
from abps.model.posterior import condition
from abps.model.prior import AdvantagePrior, ConstantPrior
from abps.policies.linear import ClippedLinear
from abps.policies.observations import RunningNormaliser
from abps.rollouts.episode import run_episode
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, create_directory
from abps.run.hardware import create_hardware_run, open_hardware_run
from abps.run.loop import train
from abps.search.ars import ArsConfig
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearch, LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import make_search
from abps.settings import replace
from abps.steps.direction import ScaledDirection
from abps.steps.walk import Walk
from abps.study.gallery import Options, draw, save_slices
from abps.study.records import load_runs
from abps.study.slices import growing_models, newest_centre_and_probes, plane, run_slices, search_slices
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.gym import make_task
from abps.tasks.lqr import lqr_task, make_env
from abps.tasks.spec import TaskSpec

CRITICS = Lstd(members=2, groups=2, features=Relu(size=16), replay=4000, traces=(0.8,), discount_weight=0.0)
"""Pinned: what the returns say must differ from what these critics do."""
SMALL = LocalSearchConfig(
    policy=ClippedLinear(),
    observations=RunningNormaliser(),
    probing=MaximiseCriterion(starts=4),
    plan=CentreThenProbes(centre_episodes=2, probes=3, window=9, design_std=0.03),
)
CONFIGS = {
    "abs": replace(SMALL, prior=AdvantagePrior(critics=CRITICS), step=ScaledDirection(0.0025), states=30),
    "mpd": replace(SMALL, prior=ConstantPrior(), step=Walk()),
}


def local_search(name: str, spec: TaskSpec, config: LocalSearchConfig) -> LocalSearch:
    search = make_search(name, spec, config)
    assert isinstance(search, LocalSearch)
    return search


def searched(name: str, states: int = 2, stages: int = 5) -> LocalSearch:
    """A search that has told its second centre and two of its three probes."""
    env = make_env(states, 1, 0, noise=0.05, fixed_start=True, horizon=30, action_bound=2.0)
    task = make_task(env, gamma=0.95)
    search = local_search(name, task.spec, CONFIGS[name])
    for _ in range(stages):
        for query in search.open_queries():
            search.tell(query, [run_episode(env, query.policy, 10 * query.id + k) for k in range(query.episodes)])
    return search


def test_a_growing_model_knows_the_centre_and_the_first_probes_only():
    search = searched("abs")
    models = growing_models(search, 2)
    for count, model in enumerate(models):
        near = model.neighbourhood
        assert [point.role for point in near.entries] == ["centre", *["probe"] * count]
        assert np.array_equal(near.theta, search.centre)
        assert model.hyper is search.memory.hyper
    whole = search.model
    direct = condition(
        whole.neighbourhood.points[-3:],
        whole.neighbourhood.returns[-3:],
        search.centre,
        whole.hyper,
        mean_at_points=whole.prior.at_points[-3:],
        mean_at_theta=whole.neighbourhood.centre_value,
        mean_gradient=whole.mean_gradient(),
    )
    assert np.allclose(models[2].posterior.mu, direct.mu, rtol=1e-9)
    assert not np.allclose(models[2].posterior.mu, whole.posterior.mu, rtol=1e-3)  # The whole window says more.


def test_the_end_of_an_iteration_shows_the_centre_before_the_step():
    """After the step the search has another centre and another normaliser; the figure is about the centre before it."""
    middle, end = searched("abs", stages=5), searched("abs", stages=6)
    assert not np.array_equal(end.centre, middle.centre)
    assert end.normaliser.count > middle.normaliser.count
    near = growing_models(end, 2)[-1].neighbourhood
    assert np.array_equal(near.theta, middle.centre)
    assert np.array_equal(near.centre.normaliser.mean, middle.normaliser.mean)
    assert np.array_equal(near.points, middle.model.neighbourhood.points[-3:])


@pytest.mark.parametrize("name", ["abs", "mpd"])
@pytest.mark.parametrize("states", [2, 3])
def test_panels_show_the_acquisition_where_they_say(name, states):
    search = searched(name, states)
    panels, models = search_slices(search), growing_models(search, 2)
    assert [len(panel.probes) for panel in panels] == [0, 1, 2]
    axes = plane(models[-1])
    assert np.allclose(axes @ axes.T, np.eye(2))
    for count, (panel, model) in enumerate(zip(panels, models, strict=True)):
        centre, posterior = model.neighbourhood.theta, model.posterior
        assert np.array_equal(panel.first, panels[0].first)
        assert np.abs(panel.probes).max(initial=0.0) < panel.first[-1]
        for row, column in ((0, 0), (40, 40), (13, 70)):
            place = centre + np.array([panel.first[column], panel.second[row]]) @ axes
            value = float(ExpectedAscent().values(posterior, place[None])[0])
            assert panel.values[row, column] == pytest.approx(value, rel=1e-9)
        top = float(ExpectedAscent().values(posterior, (centre + panel.maximum @ axes)[None])[0])
        assert top >= panel.values.max() - 2e-6 * np.ptp(panel.values)
        assert panel.maximum @ panel.gradient >= 0 or count > 0
        assert np.allclose(panel.gradient, axes @ posterior.mu)
        assert (panel.mean_gradient is None) == (name == "mpd")
    if name == "abs":
        nothing, both = panels[0].mean_gradient, panels[2].mean_gradient
        assert nothing is not None
        assert both is not None
        assert np.allclose(panels[0].gradient, nothing)  # Nothing observed yet that could contradict.
        assert not np.allclose(panels[2].gradient, both, rtol=1e-3)


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(ConfigError, match="no centre"):
        search_slices(local_search("mpd", searched("mpd").spec, CONFIGS["mpd"]))
    with pytest.raises(ConfigError, match="0 probes in the window, the figure shows 2"):
        search_slices(searched("mpd", stages=3))  # Not the centre before: the critics have left it.
    with pytest.raises(ConfigError, match="2 probes in the window, the figure shows 3"):
        search_slices(searched("mpd"), 3)
    single = searched("mpd", states=1)
    with pytest.raises(ConfigError, match="two parameters"):
        search_slices(single)
    blind = local_search("mpd", single.spec, replace(CONFIGS["mpd"], probing=GaussianProbes()))
    with pytest.raises(ConfigError, match="without an acquisition function"):
        search_slices(blind)


def test_the_newest_centre_is_followed_by_its_probes():
    window = searched("mpd").memory.window
    shown = newest_centre_and_probes(window)
    assert [point.role for point in shown] == ["centre", "probe", "probe"]
    assert {point.iteration for point in shown} == {1}
    assert newest_centre_and_probes([*window, shown[0]]) == [shown[0]]
    with pytest.raises(ConfigError, match="no centre"):
        newest_centre_and_probes(shown[1:])


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


def test_a_hardware_run_shows_what_its_search_sees(tmp_path):
    """With the run's own discount, horizon and scale: panels from the disk are those of the search at work."""
    path, env = tmp_path / "run", make_env(2, 1, 0, noise=0.05, fixed_start=True, horizon=30, action_bound=2.0)
    task, hardware = TaskConfig(name="arm", gamma=0.9, horizon=30, reward_scale=7.0), HardwareConfig(2, (-2.0,), (2.0,))
    create_hardware_run(path, task, hardware, search="abs", config=CONFIGS["abs"], budget=BudgetConfig(episodes=15))
    with open_hardware_run(path) as robot:
        while (request := robot.ask()) is not None:
            robot.tell(run_episode(env, request.policy, request.episode))
        search = robot.run.search
        assert isinstance(search, LocalSearch)
        assert (search.spec.gamma, search.spec.reward_scale) == (0.9, 7.0)
        expected = search_slices(search)
    for found, wanted in zip(run_slices(path), expected, strict=True):
        assert found.title == wanted.title
        for name in ("values", "probes", "maximum", "gradient", "mean_gradient"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name))


def test_a_search_without_acquisition_is_refused(tmp_path):
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
    """examples/figure_1.py: probes sit where the acquisition before is largest; μ turns to the true gradient."""
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
