"""Figures by name: from runs on disk to the data each figure function takes.

`FIGURES` is what `abps figure --list` prints. Paper Figure 1 needs the state of a search, not its records: it is
computed from a run's checkpoint, unless arrays made earlier lie beside it as `acquisition.npz`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from abps.errors import AbpsError, ConfigError
from abps.study import figures
from abps.study.figures import Acquisition, Scores
from abps.study.groups import Band, Group, band, group_runs, task_order
from abps.study.records import Run
from abps.study.style import LIGHT, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Options", "draw", "save"]


PHASES = (
    "rollout",
    "critics",
    "improvement",
    "mean",
    "fit",
    "acquisition",
    "strategy",
    "step",
    "diagnostics",
    "evaluation",
)
"""The order in which phases are drawn, the same for every search; unknown ones follow."""

MENTIONED = 3
"""Reasons told at most when no run can show a figure."""


@dataclass(frozen=True)
class Options:
    """What a reader may choose about a figure."""

    axis: str = "episodes"
    statistic: str = "mean"
    theme: Theme = LIGHT


@dataclass(frozen=True)
class Entry:
    """A figure of the gallery."""

    help: str
    make: Callable[[Sequence[Run], Options], "Figure"]


def draw(name: str, runs: Sequence[Run], options: Options) -> "Figure":
    """Draw the figure called `name` from runs.

    Raises:
        ConfigError: no such figure, or the runs lack what it shows.
    """
    if name not in FIGURES:
        raise ConfigError(f"no figure called {name!r}; known: {', '.join(FIGURES)}")
    return FIGURES[name].make(runs, options)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, chosen by the ending; the same figure gives the same bytes."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise ConfigError(f"cannot write {path.name}: the name must end in .png, .svg or .pdf")
    from matplotlib import rc_context

    path.parent.mkdir(parents=True, exist_ok=True)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "abps", "svg.fonttype": "path"}):
        figure.savefig(path, format=kind, metadata=undated, facecolor=figure.get_facecolor())


def _curves(quantity: str, ylabel: str) -> Callable[[Sequence[Run], Options], "Figure"]:
    def make(runs: Sequence[Run], options: Options) -> "Figure":
        panels = _bands(group_runs(runs), quantity, options)
        return figures.learning_curves(panels, axis=options.axis, ylabel=_named(ylabel, options), theme=options.theme)

    return make


def _named(quantity: str, options: Options) -> str:
    """A label of the y-axis, in two lines: one would be longer than a panel is high."""
    return f"{quantity}\n({'IQM' if options.statistic == 'iqm' else options.statistic})"


def _per_minute(runs: Sequence[Run], options: Options) -> "Figure":
    panels = _bands(group_runs(runs), "max_return", Options("minutes", options.statistic, options.theme))
    return figures.learning_curves(
        panels, axis="minutes", ylabel=_named("maximum return", options), theme=options.theme
    )


def _ablation(runs: Sequence[Run], options: Options) -> "Figure":
    """ABS only, one curve per way of aggregating and resetting critics."""
    grouped: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        aggregation = run.setting("prior.aggregation.kind", "aggregation")
        if run.search == "abs" and aggregation is not None:
            reset = "reset" if run.setting("prior.reset_worst", "reset_worst") else "no reset"
            grouped.setdefault((run.task, f"{aggregation}, {reset}"), []).append(run)
    groups = []
    for (task, label), members in grouped.items():
        groups += [Group(task, label, g.search, g.runs, g.left_out) for g in group_runs(members)]
    labels = [(group.task, group.label) for group in groups]
    if len(set(labels)) < len(labels):
        raise ConfigError("the runs differ in more settings than aggregation and reset_worst; give fewer runs")
    order = {label: rank for rank, label in enumerate(sorted({group.label for group in groups}))}
    panels = _bands(sorted(groups, key=lambda g: (task_order(g.task), order[g.label])), "max_discounted", options)
    ylabel = _named("maximum discounted return", options)
    return figures.learning_curves(panels, axis=options.axis, ylabel=ylabel, theme=options.theme)


def _bands(groups: Sequence[Group], quantity: str, options: Options) -> dict[str, dict[str, Band]]:
    panels: dict[str, dict[str, Band]] = {}
    for group in groups:
        curve = band(group, quantity, options.axis, statistic=options.statistic, repetitions=1000)
        if curve is not None:
            panels.setdefault(group.task, {})[group.label] = curve
    return panels


def _scores(runs: Sequence[Run]) -> dict[str, Scores]:
    """One run per task, as in the paper: of those with scores, the one with the lowest seed."""
    panels: dict[str, Scores] = {}
    for group in group_runs(runs):
        for run in (*group.runs, *group.left_out):
            if group.task not in panels and run.has("r2_validation"):
                panels[group.task] = Scores(run.column("episodes"), _best(run), run.column("r2_test"))
    return panels


def _best(run: Run) -> np.ndarray:
    """R̃² of the best critic per iteration; NaN where no critic has a score."""
    table = run.table("r2_validation")
    best = np.where(np.isnan(table), -np.inf, table).max(axis=1) if table.size else np.full(len(run.metrics), np.nan)
    return np.where(np.isfinite(best), best, np.nan)


def phases(group: Group) -> dict[str, float]:
    """Mean seconds per outer iteration and phase, over the group's runs; without the total."""
    totals: dict[str, list[float]] = {}
    for run in group.runs:
        names = dict.fromkeys(key for row in run.metrics for key in row if key.startswith("seconds_"))
        for name in names:
            values = run.column(name)
            if np.isfinite(values).any():
                totals.setdefault(name.removeprefix("seconds_"), []).append(float(np.nanmean(values)))
    return {name: float(np.mean(totals[name])) for name in ordered_phases([totals])}


def ordered_phases(parts: Sequence[Mapping[str, object]]) -> list[str]:
    """The names of all phases, in one order for every search."""
    names = dict.fromkeys(name for part in parts for name in part)
    return [*(name for name in PHASES if name in names), *(name for name in names if name not in PHASES)]


def _times(runs: Sequence[Run], options: Options) -> "Figure":
    panels: dict[str, dict[str, Mapping[str, float]]] = {}
    for group in group_runs(runs):
        parts = phases(group)
        if parts:
            panels.setdefault(group.task, {})[group.label] = parts
    return figures.phase_times(panels, theme=options.theme)


def _acquisition(runs: Sequence[Run], options: Options) -> "Figure":
    """The first run that can show it: from `acquisition.npz` in its directory, else from its checkpoint."""
    reasons = []
    for run in runs:
        try:
            return figures.acquisition_slices(_slices(run), theme=options.theme)
        except AbpsError as error:
            reasons.append(str(error))
    raise ConfigError("none of the runs can show an acquisition function: " + "; ".join(reasons[:MENTIONED]))


def _slices(run: Run) -> list[Acquisition]:
    from abps.study.slices import run_slices  # Here, because it needs the searches, and no other figure does.

    stored = run.path / "acquisition.npz"
    return load_slices(stored) if stored.is_file() else run_slices(run.path)


def save_slices(path: Path, panels: Sequence[Acquisition]) -> None:
    """Store the arrays of paper Figure 1 for later drawing."""
    arrays: dict[str, np.ndarray] = {"titles": np.array([panel.title for panel in panels])}
    for index, panel in enumerate(panels):
        for name in ("first", "second", "values", "probes", "maximum", "mean_gradient", "gradient"):
            value = getattr(panel, name)
            if value is not None:
                arrays[f"{index}.{name}"] = np.asarray(value, dtype=np.float64)
    with Path(path).open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_slices(path: Path) -> list[Acquisition]:
    """Read what `save_slices` wrote.

    Raises:
        ConfigError: the file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            data = {name: stored[name] for name in stored.files}
        panels = []
        for index, title in enumerate(data["titles"]):
            part = {name: data[f"{index}.{name}"] for name in ("first", "second", "values", "maximum", "gradient")}
            probes, slope = data.get(f"{index}.probes", np.zeros((0, 2))), data.get(f"{index}.mean_gradient")
            panels.append(Acquisition(title=str(title), probes=probes, mean_gradient=slope, **part))
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path} does not hold the values of an acquisition function: {error}") from error
    return panels


def _scores_over_time(runs: Sequence[Run], options: Options) -> "Figure":
    return figures.scores_over_time(_scores(runs), theme=options.theme)


def _score_distributions(runs: Sequence[Run], options: Options) -> "Figure":
    return figures.score_distributions(_scores(runs), theme=options.theme)


FIGURES: dict[str, Entry] = {
    "paper-1": Entry("acquisition function with centre, probes, maximum, ∇m̂ and μ", _acquisition),
    "paper-2": Entry("validation and test scores of the critics over time", _scores_over_time),
    "paper-3": Entry(
        "maximum discounted return per task and search", _curves("max_discounted", "maximum discounted return")
    ),
    "paper-4": Entry("ablation of the critics' aggregation and reset", _ablation),
    "paper-5": Entry("maximum undiscounted return per task and search", _curves("max_return", "maximum return")),
    "paper-6": Entry("histograms and correlation of the critics' scores", _score_distributions),
    "centre": Entry("undiscounted return of the current centre", _curves("centre_return", "return of the centre")),
    "times": Entry("seconds per phase and outer iteration", _times),
    "minutes": Entry("maximum return against minutes of wall time", _per_minute),
}
"""Name → figure."""
