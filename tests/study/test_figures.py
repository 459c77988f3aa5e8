"""Figures: what is drawn is the data, in both themes and formats; what cannot be drawn is said."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from abps.cli import figure as command
from abps.errors import ConfigError
from abps.study import figures, gallery, style
from abps.study.figures import Acquisition, Scores
from abps.study.gallery import FIGURES, Options, draw, save
from abps.study.groups import Band, band, group_runs
from abps.study.records import load_runs

MakeRun = Callable[..., Path]


def _slices() -> list[Acquisition]:
    grid = np.linspace(-0.1, 0.1, 21)
    values = np.exp(-((grid[None, :] - 0.05) ** 2 + (grid[:, None] + 0.02) ** 2) / 0.003)
    panels = []
    for count in range(3):
        probes = np.full((count, 2), 0.03)
        slope = None if count == 2 else np.array([1.0, 0.0])
        panels.append(
            Acquisition(f"t={count}", grid, grid, values, probes, np.array([0.05, -0.02]), slope, np.array([1.0, -0.4]))
        )
    return panels


@pytest.fixture(scope="module")
def everything(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study's runs with a stored acquisition function beside them."""
    gallery.save_slices(study / "hopper" / "abs" / "seed-0" / "acquisition.npz", _slices())
    return study


@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_is_drawn(name: str, everything: Path, tmp_path: Path) -> None:
    theme, ending = (style.LIGHT, "png") if name in ("paper-1", "paper-3") else (style.DARK, "svg")
    out = tmp_path / f"figure.{ending}"
    save(draw(name, load_runs([everything]), Options(theme=theme)), out)
    if ending == "png":
        assert out.read_bytes().startswith(b"\x89PNG")
    else:
        assert theme.background in out.read_text()


def test_same_runs_same_bytes(study: Path, tmp_path: Path) -> None:
    runs = load_runs([study])
    for name in ("a.svg", "b.svg"):
        save(draw("paper-3", runs, Options()), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_long_legend_does_not_squeeze_the_panels() -> None:
    x = np.arange(3.0)
    curve = Band(x, x, x - 1, x + 1, 2)
    heights = []
    for count in (1, 6):
        labels = {f"a search with setting {number}": curve for number in range(count)}
        drawn = figures.learning_curves({"hopper": labels}, ylabel="return")
        drawn.canvas.draw()
        heights.append(drawn.axes[0].get_position().height * drawn.get_figheight())
    assert heights[1] > 0.9 * heights[0]


def test_curves_are_the_groups_statistics(study: Path) -> None:
    runs = load_runs([study])
    figure = draw("paper-5", runs, Options(statistic="median"))
    axes = next(axes for axes in figure.axes if axes.get_title() == "hopper")
    group = next(group for group in group_runs(runs) if (group.task, group.label) == ("hopper", "abs"))
    expected = band(group, "max_return", "episodes", statistic="median")
    assert expected is not None
    drawn = [line for line in axes.lines if str(line.get_label()).startswith("abs")]
    np.testing.assert_array_equal(drawn[0].get_ydata(), expected.value)
    other = draw("paper-3", runs, Options(statistic="median"))
    wrong = next(axes for axes in other.axes if axes.get_title() == "hopper").lines[0]
    assert not np.allclose(wrong.get_ydata(), expected.value, equal_nan=True), "discounted is another figure"


def test_ablation_groups_by_aggregation_and_reset(make_run: MakeRun, tmp_path: Path) -> None:
    for aggregation in ("softmax", "single"):
        for reset in (True, False):
            settings = {"prior": {"aggregation": {"kind": aggregation}, "reset_worst": reset}}
            make_run(tmp_path, "hopper", "abs", 0, settings=settings, folder=f"{aggregation}{reset}")
    figure = draw("paper-4", load_runs([tmp_path]), Options())
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"softmax, reset", "softmax, no reset", "single, reset", "single, no reset"}
    more = {"prior": {"aggregation": {"kind": "single"}, "reset_worst": True}, "step": {"factor": 9.0}}
    make_run(tmp_path, "hopper", "abs", 0, settings=more, folder="more")
    with pytest.raises(ConfigError, match="more settings"):
        draw("paper-4", load_runs([tmp_path]), Options())


def test_scores_are_clipped_and_medians_dashed() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(np.arange(50.0), rng.uniform(0, 0.9, 50), rng.uniform(-9, 0.9, 50))
    figure = figures.score_distributions({"hopper": scores})
    top, bottom = figure.axes
    bars = [patch for patch in top.patches if isinstance(patch, Rectangle)]
    assert sum(bar.get_height() for bar in bars) == 100, "clipped scores stay in the histogram"
    medians = sorted(np.asarray(line.get_xdata())[0] for line in top.lines if line.get_linestyle() == "--")
    clipped = np.clip(scores.test, -1, 1)
    np.testing.assert_allclose(medians, sorted([np.median(scores.validation), np.median(clipped)]))
    expected = f"{np.corrcoef(scores.validation, clipped)[0, 1]:.2f}".replace("-", "−")
    assert expected in bottom.texts[0].get_text()


def test_scores_with_holes_are_drawn() -> None:
    holes = Scores(np.arange(4.0), np.array([np.nan, 0.5, 0.4, np.nan]), np.full(4, np.nan))
    for make in (figures.scores_over_time, figures.score_distributions):
        figure = make({"hopper": holes})
        figure.canvas.draw()


def test_slices_round_trip(tmp_path: Path) -> None:
    gallery.save_slices(tmp_path / "a.npz", _slices())
    for before, after in zip(_slices(), gallery.load_slices(tmp_path / "a.npz"), strict=True):
        assert before.title == after.title
        np.testing.assert_array_equal(before.values, after.values)
        assert (before.mean_gradient is None) == (after.mean_gradient is None)
    (tmp_path / "a.npz").write_bytes(b"PK no zip")
    with pytest.raises(ConfigError, match="does not hold"):
        gallery.load_slices(tmp_path / "a.npz")


def test_what_is_missing_is_said(make_run: MakeRun, tmp_path: Path) -> None:
    make_run(tmp_path, "hopper", "ars", 0)
    runs = load_runs([tmp_path])
    with pytest.raises(ConfigError, match="only searches with critics"):
        draw("paper-2", runs, Options())
    with pytest.raises(ConfigError, match="none of the runs can show an acquisition"):
        draw("paper-1", runs, Options())
    with pytest.raises(ConfigError, match="known: paper-1"):
        draw("paper-7", runs, Options())
    with pytest.raises(ConfigError, match=r"\.png, \.svg or \.pdf"):
        save(draw("paper-3", runs, Options()), tmp_path / "figure.bmp")


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [style.LIGHT, style.DARK])
def test_colours_stand_out_from_the_background(theme: style.Theme) -> None:
    for colour in (*theme.palette[:3], theme.text):
        low, high = sorted((_luminance(colour), _luminance(theme.background)))
        assert (high + 0.05) / (low + 0.05) >= 3, f"{colour} is too faint on {theme.background}"


def test_the_papers_searches_keep_their_colours() -> None:
    assert style.assign(["ars", "abs", "mine"]) == {"ars": 2, "abs": 0, "mine": 1}
    many = style.assign([f"s{index}" for index in range(12)])
    assert sorted(many.values()) == list(range(12))


def test_command(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    assert command.execute(parser.parse_args(["--list"])) == 0
    assert "paper-6" in capsys.readouterr().out
    out = tmp_path / "new" / "figure.png"
    assert command.execute(parser.parse_args(["paper-3", str(study), "--out", str(out), "--x", "steps", "--dark"])) == 0
    assert out.is_file()
    with pytest.raises(ConfigError, match="say which figure"):
        command.execute(parser.parse_args(["paper-3"]))


def test_statistics_need_no_matplotlib() -> None:
    import subprocess

    modules = "abps.study.report, abps.study.gallery, abps.study.statistics"
    code = f"import sys, {modules}; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
