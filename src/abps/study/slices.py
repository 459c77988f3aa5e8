"""The acquisition function on a plane through the centre, before and after the first probes (paper Figure 1).

A search at the end of an outer iteration knows everything that is needed: the centre and its probes are the newest
points of the window, the critics still belong to that centre. So nothing is run again: models are built of the centre
and its first t probes. Hyper-parameters, critics and their weights stay those of the end, so that the panels differ
only in what was observed. Shapes: d parameters, g points per axis of the plane.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from abps.acquisition.base import Criterion
from abps.acquisition.probing import HasCriterion
from abps.arrays import Array
from abps.data.window import Point
from abps.errors import ConfigError, RunError
from abps.model.gp import Model
from abps.model.neighbourhood import Neighbourhood
from abps.run.checkpoint import checkpoint_paths, load_checkpoint
from abps.run.directory import RunSettings, read_settings
from abps.run.hardware import hardware_spec
from abps.search.local import LocalSearch
from abps.search.registry import make_search
from abps.study.figures import Acquisition
from abps.tasks.gym import make_task

__all__ = [
    "acquisition_slice",
    "growing_models",
    "model_slices",
    "newest_centre_and_probes",
    "plane",
    "reach",
    "run_slices",
    "search_slices",
]

POINTS = 81
"""g: grid points per axis; odd, so that the centre is one of them."""
REACH = 2.5
"""Half width of the plane in (median effective) lengthscales."""
MARGIN = 1.15
"""The plane is widened until probes lie inside it by this factor: a box's corners are farther out than its sides."""
TIE = 1e-6
"""Maxima whose values differ by less than this share of the range are the same: ahead and behind look alike."""


def run_slices(path: Path, probes: int = 2) -> list[Acquisition]:
    """The panels of Figure 1 for the last finished outer iteration of a run on disk.

    Raises:
        ConfigError: the run's search has no acquisition function, or fewer probes.
        RunError: there is no checkpoint yet.
    """
    settings = read_settings(path)
    found = checkpoint_paths(path / "checkpoint")
    if not found:
        raise RunError(f"{path} has no checkpoint yet; a finished outer iteration leaves one")
    search = _local(settings)
    search.load({**load_checkpoint(found[0])[1]["search"], "replay": None, "replay_total": 0})
    return search_slices(search, probes)


def search_slices(search: LocalSearch, probes: int = 2) -> list[Acquisition]:
    """One panel with the newest centre alone and one more for each of its first probes.

    Raises:
        ConfigError: the search chooses probes without a criterion, the newest centre has fewer probes, or there is a
            single parameter.
    """
    probing = search.config.probing
    if not isinstance(probing, HasCriterion):
        raise ConfigError("this search chooses its probes without an acquisition function; there is nothing to draw")
    return model_slices(growing_models(search, probes), probing.criterion, probing.radius)


def growing_models(search: LocalSearch, probes: int) -> list[Model]:
    """The process that knows the newest centre alone, and with each of its first probes added.

    Raises:
        ConfigError: the newest centre has fewer probes, or nothing was fitted yet.
    """
    entries = newest_centre_and_probes(search.memory.window)
    if len(entries) - 1 < probes:
        raise ConfigError(f"the newest centre has {len(entries) - 1} probes in the window, the figure shows {probes}")
    if search.memory.hyper is None:
        raise ConfigError("no process has been fitted yet")
    centre, now = entries[0], search.neighbourhood()
    policy = search.policies.policy(centre.parameters, centre.normaliser)
    models = []
    for count in range(probes + 1):
        near = replace(now, centre=policy, entries=tuple(entries[: count + 1]))
        models.append(search.config.gp.model(near, search.prior.mean(near), search.memory.hyper))
    return models


def model_slices(models: list[Model], criterion: Criterion, radius: float) -> list[Acquisition]:
    """One panel per model; the last one knows the most probes and sets the plane."""
    last = models[-1]
    axes = plane(last)
    offsets = _probes(last.neighbourhood) @ axes.T
    half = max(reach(last, radius), MARGIN * float(np.abs(offsets).max(initial=0.0)))
    panels = []
    for count, model in enumerate(models):
        names = ", ".join(["θ", *(f"z{_subscript(number + 1)}" for number in range(count))])
        panels.append(acquisition_slice(model, criterion, axes, f"t = {count}: observed {names}", half))
    return panels


def newest_centre_and_probes(window: list[Point]) -> list[Point]:
    """The newest centre, which the critics belong to, and the probes told since, oldest first.

    Raises:
        ConfigError: there is no centre yet.
    """
    places = [place for place, point in enumerate(window) if point.role == "centre"]
    if not places:
        raise ConfigError("no centre has been told yet")
    return window[places[-1] :]


def plane(model: Model) -> Array:
    """Two orthonormal directions (2, d): for two parameters these, else spanned by μ and the first probe off it."""
    d = len(model.neighbourhood.theta)
    if d < 2:
        raise ConfigError("a plane through the centre needs at least two parameters")
    if d == 2:
        return np.eye(2)
    first = model.posterior.mu / max(float(np.linalg.norm(model.posterior.mu)), 1e-300)
    for direction in [*_probes(model.neighbourhood), *np.eye(d)]:
        rest = direction - first * (first @ direction)
        if np.linalg.norm(rest) > 1e-3 * np.linalg.norm(direction):
            return np.array([first, rest / np.linalg.norm(rest)])
    raise ConfigError("no second direction for the plane: μ is not finite")


def acquisition_slice(model: Model, criterion: Criterion, axes: Array, title: str, half: float) -> Acquisition:
    """The criterion of a model on the plane of `axes` (2, d) through its centre, ± `half` along both."""
    posterior, near = model.posterior, model.neighbourhood
    line = np.linspace(-half, half, POINTS)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    values = criterion.values(posterior, near.theta + grid @ axes)
    gradient = axes @ posterior.mu
    mean = model.mean_gradient()
    return Acquisition(
        title=title,
        first=line,
        second=line,
        values=values.reshape(POINTS, POINTS),
        probes=_probes(near) @ axes.T,
        maximum=_maximum(grid, values, gradient),
        mean_gradient=axes @ mean if mean.any() else None,
        gradient=gradient,
    )


def _probes(near: Neighbourhood) -> Array:
    """The probes' places relative to the centre, in the chart (p, d)."""
    offsets = near.points - near.theta
    return offsets[[point.role == "probe" for point in near.entries]]


def reach(model: Model, radius: float) -> float:
    """Half width of the plane: a few lengthscales, but not beyond where probes are looked for."""
    return min(radius, REACH * float(np.median(model.posterior.hyper.effective)))


def _maximum(grid: Array, values: Array, gradient: Array) -> Array:
    """The place of the largest value; of equal ones, which lie opposite each other, the one along the gradient."""
    finite = np.where(np.isfinite(values), values, -np.inf)
    near = finite >= finite.max() - TIE * float(np.ptp(finite[np.isfinite(finite)]))
    return grid[near][int(np.argmax(grid[near] @ gradient))]


def _local(settings: RunSettings) -> LocalSearch:
    spec = make_task(settings.task).spec if settings.hardware is None else hardware_spec(settings)
    search = make_search(settings.search, spec, settings.search_config, seed=settings.seed)
    if not isinstance(search, LocalSearch):
        raise ConfigError(
            f"search {settings.search!r} has no acquisition function; Figure 1 is about abs, mpd and gibo"
        )
    return search


def _subscript(number: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number))
