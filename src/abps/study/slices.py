"""The acquisition function on a plane through the centre, before and after the first probes (the data of paper Figure 1).

A search's state at the end of an outer iteration holds everything that is needed: the centre and its probes are the newest points of the
window, the critics still belong to that centre. So nothing is run again: the state is *rewound* to the moment at which only the centre and
the first t probes were known, and its posterior is asked for. Hyper-parameters, critics and their weights stay those of the end, so that
the panels differ only in what was observed. Shapes: d parameters, g points per axis of the plane.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.acquisition.descent_probability import DescentProbability
from abps.acquisition.gradient_information import GradientInformation
from abps.config import GiboConfig
from abps.errors import ConfigError, RunError
from abps.run.checkpoint import checkpoint_paths, load_checkpoint
from abps.run.directory import RunSettings, read_settings
from abps.search.advantage import AdvantageSearch
from abps.search.local import CENTRE, PROBE, LocalSearch
from abps.search.registry import make_search
from abps.study.figures import Acquisition
from abps.tasks.gym import make_task
from abps.tasks.spec import TaskSpec

__all__ = ["acquisition_slice", "plane", "rewound", "run_slices", "search_slices"]

Array = NDArray[np.float64]

POINTS = 81
"""g: grid points per axis; odd, so that the centre is one of them."""
REACH = 2.5
"""Half width of the plane in (median effective) lengthscales."""
MARGIN = 1.15
"""The plane is widened until probes lie inside it by this factor; the box of probes has corners farther out than its sides."""
TIE = 1e-6
"""Maxima whose values differ by less than this share of the range are the same: one probe cannot tell ahead from behind."""


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
    state = load_checkpoint(found[0])[1]["search"]
    return search_slices(_local(settings), state, probes)


def search_slices(search: LocalSearch[Any], state: dict[str, Any], probes: int = 2) -> list[Acquisition]:
    """One panel with the centre alone and one more for each of its first probes.

    Args:
        search: a search made like the one that was saved; it is loaded with rewound states and is of no use afterwards.
        state: what its `state` returned, in the middle or at the end of an outer iteration.
        probes: how many probes to add, one per panel.

    Raises:
        ConfigError: the iteration has fewer probes, or the search has a single parameter.
    """
    search.load(rewound(state, probes))
    known = [point.parameters for point in search.window.points if point.role == "probe"]
    if len(known) < probes:
        raise ConfigError(f"the newest centre has {len(known)} probes in the window, the figure shows {probes}")
    axes = plane(search, known)
    half = max(_reach(search), MARGIN * float(np.abs((np.array(known) - search.centre) @ axes.T).max(initial=0.0)))
    panels = []
    for count in range(probes + 1):
        search.load(rewound(state, count))
        names = ", ".join(["θ", *(f"z{_subscript(number + 1)}" for number in range(count))])
        panels.append(acquisition_slice(search, axes, f"t = {count}: observed {names}", half))
    return panels


def rewound(state: dict[str, Any], probes: int) -> dict[str, Any]:
    """The state when only its newest centre and that centre's first `probes` probes had been told; the replay is left out."""
    own = state["own"]
    window = own["window"]
    roles = [point["role"] for point in window]
    places = [place for place, role in enumerate(roles) if role == "centre"]
    if (
        own["stage"] == CENTRE
    ):  # Between iterations: a centre without probes was given up, and the critics never knew it.
        places = [place for place in places if roles[place + 1 : place + 2] == ["probe"]]
    if not places:
        raise ConfigError("no centre has been told yet")
    centre = window[places[-1]]
    changes = {"window": window[places[-1] : places[-1] + 1 + probes], "stage": PROBE, "probe": probes}
    if "replay" in own:
        changes |= {"replay": None, "replay_total": 0}
    return {**state, "centre": centre["parameters"], "normaliser": centre["normaliser"], "own": {**own, **changes}}


def plane(search: LocalSearch[Any], probes: list[Array]) -> Array:
    """Two orthonormal directions (2, d): for two parameters these themselves, else spanned by μ and the first probe that leaves it."""
    d = search.policies.size
    if d < 2:
        raise ConfigError("a plane through the centre needs at least two parameters")
    if d == 2:
        return np.eye(2)
    first = search.posterior.mu / max(float(np.linalg.norm(search.posterior.mu)), 1e-300)
    for direction in [*(probe - search.centre for probe in probes), *np.eye(d)]:
        rest = direction - first * (first @ direction)
        if np.linalg.norm(rest) > 1e-3 * np.linalg.norm(direction):
            return np.array([first, rest / np.linalg.norm(rest)])
    raise ConfigError("no second direction for the plane: μ is not finite")


def acquisition_slice(search: LocalSearch[Any], axes: Array, title: str, half: float | None = None) -> Acquisition:
    """The criterion of the search as it stands, on the plane of `axes` (2, d) through its centre, ± `half` along both."""
    posterior, offsets = search.posterior, search.points - search.centre
    criterion = (GradientInformation if isinstance(search.config, GiboConfig) else DescentProbability)(posterior)
    half = _reach(search) if half is None else half
    line = np.linspace(-half, half, POINTS)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    values = criterion.values(search.centre + grid @ axes)
    gradient = axes @ posterior.mu
    return Acquisition(
        title=title,
        first=line,
        second=line,
        values=values.reshape(POINTS, POINTS),
        probes=np.array([o for o, p in zip(offsets, search.window.points, strict=True) if p.role == "probe"]).reshape(
            -1, search.policies.size
        )
        @ axes.T,
        maximum=_maximum(grid, values, gradient),
        mean_gradient=axes @ search.mean_gradient() if isinstance(search, AdvantageSearch) else None,
        gradient=gradient,
    )


def _reach(search: LocalSearch[Any]) -> float:
    """Half width of the plane: a few lengthscales, but not beyond where probes are looked for."""
    return min(search.config.acquisition.radius, REACH * float(np.median(search.posterior.hyper.effective)))


def _maximum(grid: Array, values: Array, gradient: Array) -> Array:
    """The place of the largest value; of equal ones, which lie opposite each other, the one ahead in the direction of ascent."""
    finite = np.where(np.isfinite(values), values, -np.inf)
    near = finite >= finite.max() - TIE * float(np.ptp(finite[np.isfinite(finite)]))
    return grid[near][int(np.argmax(grid[near] @ gradient))]


def _local(settings: RunSettings) -> LocalSearch[Any]:
    hardware = settings.hardware
    if hardware is None:
        spec = make_task(settings.task).spec
    else:
        spec = TaskSpec(
            settings.task.name,
            hardware.observations,
            len(hardware.action_low),
            hardware.action_low,
            hardware.action_high,
        )
    search = make_search(settings.search, spec, settings.search_config, seed=settings.seed)
    if not isinstance(search, LocalSearch):
        raise ConfigError(
            f"search {settings.search!r} has no acquisition function; Figure 1 is about abs, mpd and gibo"
        )
    return search


def _subscript(number: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number))
