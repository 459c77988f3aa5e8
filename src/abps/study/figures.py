"""The paper's figures, and two of ours: functions take data and return a Matplotlib figure; nothing is read or written.

Shapes: g points along x, k critics, i outer iterations, p probes. Every function takes `theme` (`style.LIGHT` or
`style.DARK`). Matplotlib is imported when the first figure is drawn, with the Agg canvas: no display is needed and no
global state is set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.study.groups import AXES, Band
from abps.study.style import DASHES, LIGHT, Theme, assign

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Acquisition",
    "Scores",
    "acquisition_slices",
    "learning_curves",
    "phase_times",
    "score_distributions",
    "scores_over_time",
]

P = ParamSpec("P")

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.5
LEGEND_ROW = 0.2
"""Inches of one row of a legend."""
DPI = 160
CLIP = 1.0
"""Scores are shown in [−1, 1], as the paper does: a bad critic's score has no lower bound."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one ABS run over its outer iterations."""

    episodes: Array
    """(i,)"""
    validation: Array
    """(i,): R̃² of the best critic."""
    test: Array
    """(i,): R̂² of the ensemble."""


@dataclass(frozen=True, eq=False)
class Acquisition:
    """The acquisition function on a plane through the centre, and what else is seen there (paper Figure 1)."""

    title: str
    first: Array
    """(w,): coordinates along the plane's first axis, relative to the centre."""
    second: Array
    """(h,)"""
    values: Array
    """(h, w)"""
    probes: Array
    """(p, 2): the observed probes, projected."""
    maximum: Array
    """(2,): where the acquisition is largest on the plane."""
    mean_gradient: Array | None
    """(2,): ∇m̂ at the centre, projected; None for searches without a mean function."""
    gradient: Array
    """(2,): μ, the posterior mean of the gradient at the centre, projected."""


def _themed(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    """Draw under the theme's settings, without touching Matplotlib's global ones."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        from matplotlib import rc_context

        theme = kwargs.get("theme", LIGHT)
        assert isinstance(theme, Theme)  # noqa: S101 - for the type checker
        with rc_context(theme.rc()):  # type: ignore[arg-type]
            return draw(*args, **kwargs)

    return wrapper


@_themed
def learning_curves(
    panels: Mapping[str, Mapping[str, Band]], *, axis: str = "episodes", ylabel: str, theme: Theme = LIGHT
) -> "Figure":
    """Paper Figures 3, 4 and 5: one panel per task, one curve with its interval per search.

    Args:
        panels: task → label → band.
        axis: what x counts, a key of `groups.AXES`.
        ylabel: what y is.
        theme: light or dark.
    """
    _need(panels, "no run has the quantity this figure shows")
    numbers = assign(label for bands in panels.values() for label in bands)
    figure, axes = _panels(len(panels))
    for axes_, (task, bands) in zip(axes, panels.items(), strict=True):
        for label, curve in bands.items():
            style = _line_style(numbers[label], theme)
            if curve.runs > 1:
                axes_.fill_between(curve.x, curve.low, curve.high, color=style["color"], alpha=0.18, linewidth=0)
            axes_.plot(curve.x, curve.value, label=_seeds(label, curve.runs), **style)
        axes_.set_title(task)
        axes_.set_xlabel(AXES[axis])
        axes_.set_xlim(left=0)
        _short_numbers(axes_, axis)
    for index in range(0, len(axes), _columns(len(axes))):
        axes[index].set_ylabel(ylabel)
    _legend(figure, numbers, theme)
    return figure


@_themed
def scores_over_time(panels: Mapping[str, Scores], *, theme: Theme = LIGHT) -> "Figure":
    """Paper Figure 2: validation score of the best critic and test score of the ensemble, one run per panel."""
    _need(panels, "no run has scores of critics; only searches with critics (abs) write r2_validation and r2_test")
    figure, axes = _panels(len(panels))
    for axes_, (title, scores) in zip(axes, panels.items(), strict=True):
        for number, (values, name) in enumerate(((scores.validation, "validation R̃²"), (scores.test, "test R̂²"))):
            clipped = np.clip(values, -CLIP, CLIP)
            axes_.plot(scores.episodes, clipped, label=name, **_line_style(number, theme))
            below = values < -CLIP
            axes_.plot(scores.episodes[below], clipped[below], "v", ms=4, color=theme.palette[number])
        axes_.axhline(0.0, color=theme.text, linewidth=0.8)
        axes_.set_ylim(-CLIP * 1.08, CLIP * 1.08)
        axes_.set_title(title)
        axes_.set_xlabel(AXES["episodes"])
    for index in range(0, len(axes), _columns(len(axes))):
        axes[index].set_ylabel("score, clipped to [−1, 1]")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


@_themed
def score_distributions(panels: Mapping[str, Scores], *, theme: Theme = LIGHT) -> "Figure":
    """Paper Figure 6: histograms of the scores with dashed medians (top), and test against validation (bottom)."""
    _need(panels, "no run has scores of critics; only searches with critics (abs) write r2_validation and r2_test")
    columns = _columns(len(panels))
    rows = -(-len(panels) // columns)
    figure = _figure(PANEL_WIDTH * columns, 2 * PANEL_HEIGHT * rows)
    grid = figure.subplots(2 * rows, columns, squeeze=False)
    for spare in range(len(panels), rows * columns):
        for axes_ in grid[2 * (spare // columns) :, spare % columns]:
            axes_.set_axis_off()
    edges = np.linspace(-CLIP, CLIP, 21).tolist()
    for index, (title, scores) in enumerate(panels.items()):
        row, column = 2 * (index // columns), index % columns
        top, bottom = grid[row, column], grid[row + 1, column]
        pairs = [np.clip(part, -CLIP, CLIP) for part in (scores.validation, scores.test)]
        for number, (values, name) in enumerate(zip(pairs, ("validation R̃²", "test R̂²"), strict=True)):
            finite = values[np.isfinite(values)]
            colour = theme.palette[number]
            top.hist(finite, bins=edges, color=colour, alpha=0.55, label=name, edgecolor=colour, linewidth=0.8,
                     hatch=("", "////")[number])  # fmt: skip
            if finite.size:
                top.axvline(float(np.median(finite)), color=colour, linestyle="--", linewidth=1.8)
        top.set_title(title)
        top.set_xlim(-CLIP, CLIP)
        top.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[attr-defined] - Iterations are counted.
        top.set_xlabel("score")
        _scatter(bottom, pairs[0], pairs[1], theme)
        if column == 0:
            top.set_ylabel("outer iterations")
            bottom.set_ylabel("test R̂²")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


@_themed
def phase_times(panels: Mapping[str, Mapping[str, Mapping[str, float]]], *, theme: Theme = LIGHT) -> "Figure":
    """Where the time goes: task → label → phase → seconds per outer iteration, as stacked bars."""
    _need(panels, "no run has times of phases (seconds_… in metrics.jsonl)")
    longest = max((parts for bars in panels.values() for parts in bars.values()), key=len)
    phases = list(dict.fromkeys([*longest, *(p for bars in panels.values() for parts in bars.values() for p in parts)]))
    rows = max(len(bars) for bars in panels.values())
    figure, axes = _panels(len(panels), height=max(1.6, 0.45 * rows + 1.0))
    hatches = ("", "///", "...", "xxx", "\\\\\\", "++", "---", "oo")
    for axes_, (task, bars) in zip(axes, panels.items(), strict=True):
        left = np.zeros(len(bars))
        for number, phase in enumerate(phases):
            widths = np.array([parts.get(phase, 0.0) for parts in bars.values()])
            axes_.barh(
                list(bars),
                widths,
                left=left,
                height=0.65,
                label=phase,
                color=theme.palette[number % len(theme.palette)],
                hatch=hatches[number % len(hatches)],
                edgecolor=theme.background,
                linewidth=0.6,
            )
            left += widths
        axes_.set_ylim(rows - 0.5, -0.5)  # Bars are as thick in a panel with one search as in one with many.
        axes_.grid(visible=False, axis="y")
        axes_.set_title(task)
        axes_.set_xlabel("seconds per outer iteration")
    columns = max(1, min(len(phases), int(figure.get_figwidth() / 1.3)))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    return figure


@_themed
def acquisition_slices(panels: Sequence[Acquisition], *, theme: Theme = LIGHT) -> "Figure":
    """Paper Figure 1: the acquisition on a plane through the centre, one panel per observed probe."""
    _need(panels, "no acquisition values were given")
    figure, axes = _panels(len(panels), height=2.6)
    for axes_, panel in zip(axes, panels, strict=True):
        # "cividis" is readable with any colour vision and in grey.
        mesh = axes_.pcolormesh(
            panel.first, panel.second, panel.values, cmap="cividis", shading="gouraud", rasterized=True
        )
        axes_.contour(panel.first, panel.second, panel.values, levels=8, colors="white", linewidths=0.4, alpha=0.6)
        reach = 0.75 * float(min(np.abs(panel.first).max(), np.abs(panel.second).max()))
        _ray(axes_, panel.gradient, reach, "#C58CFF", "-", "μ, posterior gradient")
        if panel.mean_gradient is not None:
            _ray(axes_, panel.mean_gradient, reach, "#FF9ACD", "--", "∇m̂ at the centre")
        axes_.set_aspect("equal")
        if panel.probes.size:
            axes_.plot(
                *panel.probes.T, "o", ms=6, color="white", mec="black", mew=0.8, label="probes", linestyle="none"
            )
        axes_.plot(
            *panel.maximum,
            "o",
            ms=8,
            color="#56B4E9",
            mec="black",
            label="maximum",
            linestyle="none",
            clip_on=False,
            zorder=3,
        )  # It may lie on the border.
        axes_.plot(0.0, 0.0, "*", ms=13, color="#F0E442", mec="black", mew=0.8, label="centre", linestyle="none")
        axes_.set(xlim=(panel.first[0], panel.first[-1]), ylim=(panel.second[0], panel.second[-1]))
        axes_.set_title(panel.title)
        axes_.set_xlabel("first direction")
        axes_.grid(visible=False)
        colours = figure.colorbar(mesh, ax=axes_, fraction=0.046, pad=0.03)
        colours.outline.set_visible(False)  # type: ignore[operator]
    axes[0].set_ylabel("second direction")
    known: dict[str, Any] = {}
    for axes_ in axes:
        known |= {label: handle for handle, label in zip(*axes_.get_legend_handles_labels(), strict=True)}
    legend = figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=5)
    legend.set_frame_on(True)
    legend.get_frame().set(facecolor="#5b5f66", edgecolor="none")
    for text in legend.get_texts():
        text.set_color("white")
    return figure


def _need(data: Any, message: str) -> None:
    if not data:
        raise ConfigError(f"nothing to draw: {message}")


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _columns(count: int) -> int:
    return count if count <= 3 else (2 if count == 4 else 3)


def _panels(count: int, height: float = PANEL_HEIGHT) -> "tuple[Figure, list[Axes]]":
    columns = _columns(count)
    rows = -(-count // columns)
    width = max(PANEL_WIDTH * columns, 4.2)
    figure = _figure(width, height * rows + 0.45)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def _line_style(number: int, theme: Theme) -> dict[str, Any]:
    dashes = DASHES[number % len(DASHES)]
    return {
        "color": theme.palette[number % len(theme.palette)],
        "linestyle": (0, dashes) if dashes else "-",
    }


def _legend(figure: "Figure", numbers: Mapping[str, int], theme: Theme) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=label, **_line_style(number, theme)) for label, number in numbers.items()]
    widest = max(len(label) for label in numbers)
    room = int(figure.get_figwidth() * 10 / (widest + 6))
    columns = max(1, min(len(numbers), room))
    further = -(-len(numbers) // columns) - 1
    figure.set_figheight(figure.get_figheight() + further * LEGEND_ROW)  # The panels keep their height.
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=3)


def _seeds(label: str, runs: int) -> str:
    return f"{label} ({runs} seed{'' if runs == 1 else 's'})"


def _short_numbers(axes: "Axes", axis: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if axis == "steps":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _scatter(axes: "Axes", validation: Array, test: Array, theme: Theme) -> None:
    """Test against validation with the correlation; the diagonal is where the validation score keeps its promise."""
    both = np.isfinite(validation) & np.isfinite(test)
    x, y = validation[both], test[both]
    axes.plot([-CLIP, CLIP], [-CLIP, CLIP], color=theme.text, linewidth=0.8, linestyle=":")
    axes.plot(x, y, "o", ms=4, color=theme.palette[2], alpha=0.7, mew=0)
    axes.set_xlim(-CLIP * 1.05, CLIP * 1.05)
    axes.set_ylim(-CLIP * 1.05, CLIP * 1.05)
    axes.set_xlabel("validation R̃²")
    if x.size > 2 and x.std() > 0 and y.std() > 0:
        correlation = f"{np.corrcoef(x, y)[0, 1]:.2f}".replace("-", "−")
        axes.text(0.04, 0.93, f"correlation {correlation}", transform=axes.transAxes, va="top")


def _ray(axes: "Axes", direction: Array, reach: float, colour: str, dash: str, label: str) -> None:
    """A line from the centre along a direction; only the direction has a meaning, so all rays have one length."""
    length = float(np.linalg.norm(direction))
    if length > 0:
        end = direction / length * reach
        axes.plot([0, end[0]], [0, end[1]], dash, color=colour, linewidth=2.2, label=label)
