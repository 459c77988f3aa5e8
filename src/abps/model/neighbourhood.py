"""A neighbourhood: the centre and the points around it, as the Gaussian process sees them.

Shapes: n points, d parameters, S states.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from abps.arrays import Array
from abps.data.visits import Visits
from abps.data.window import Point
from abps.model.chart import Chart, Coordinates, Identity
from abps.policies.policy import Policy

__all__ = ["Neighbourhood", "visits_of"]

CLIP = 3.0
"""Clipped returns stay within so many interquartile ranges of the quartiles."""
FEW = 5
"""Episodes around centres from which on only these say what is usual: probes look at what is not."""
ROUNDING = 1e-9
"""Returns closer than this share of the largest are alike."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """What was measured around a centre, in the coordinates of a chart, returns divided by `scale`."""

    centre: Policy
    """π_θ"""
    entries: tuple[Point, ...]
    """The window's points, oldest first; the newest centre among them is θ."""
    scale: float = 1.0
    """Returns are divided by it."""
    chart: Chart | None = None
    """None: the identity."""
    recent: int | None = None
    """How many of the newest points give the states of the chart; None: all."""
    clip_returns: bool = False
    """Whether returns far outside the usual range are clipped to it, so that one runaway does not outweigh all others.
    """
    scouts: tuple[Point, ...] = ()
    """Points among the newest whose states count for the chart, but whose returns are no measurements of J near θ."""
    remap: bool = False
    """Whether points run under another normaliser are re-mapped into the current one's coordinates."""

    @cached_property
    def parameters(self) -> Array:
        """X (n, d), in the current normaliser's coordinates."""
        if not self.remap:
            return np.array([point.parameters for point in self.entries])
        space, normaliser = self.centre.space, self.centre.normaliser
        return np.array([space.remapped(p.parameters, p.normaliser, normaliser) for p in self.entries])

    @cached_property
    def coordinates(self) -> Coordinates:
        """The chart at θ."""
        return (self.chart or Identity()).at(self.centre, self.recent_visits)

    @cached_property
    def points(self) -> Array:
        """Z (n, d): the points in the chart."""
        return self.coordinates.to_chart(self.parameters)

    @cached_property
    def action_shifts(self) -> Array:
        """Moves (a, d) in the chart, each of which shifts one action by half its range, alike in all visited states.

        Least squares in the metric F of the actions, F⁻¹ E_s[∂π_j/∂θ] / (a·half_j): for a policy with a bias it is the
        bias, for any other what comes nearest to one.
        """
        visits, centre = self.recent_visits, self.centre
        if visits is None:
            raise RuntimeError("shifts of the actions need the visited states of points; keep them (states)")
        half, weights = centre.spec.action_half, visits.weights / visits.weights.sum()
        cotangents = np.eye(len(half))[:, None, :] / half * weights[:, None] / len(half)
        pulled = centre.space.pullback(centre.parameters, visits.states, centre.normaliser, cotangents)
        return self.coordinates.gradients(pulled)

    @property
    def theta(self) -> Array:
        """θ (d,) in the chart."""
        return self.coordinates.centre

    @cached_property
    def returns(self) -> Array:
        """Ĵ(X) (n,), scaled."""
        returns = np.array([point.value for point in self.entries]) / self.scale
        if not self.clip_returns:
            return returns
        around = np.array([point.role != "probe" for point in self.entries])
        usual = returns[around] if around.sum() >= FEW else returns
        low, middle, high = np.quantile(usual, [0.25, 0.5, 0.75])
        reach, rounding = high - low, ROUNDING * float(np.abs(returns).max())
        if reach <= rounding:  # Most are alike, such as episodes that lasted to the end: the others say how far is far.
            departures = np.abs(returns - middle)
            reach = float(np.median(departures[departures > rounding])) if np.any(departures > rounding) else rounding
        return np.clip(returns, low - CLIP * reach, high + CLIP * reach)

    @cached_property
    def counts(self) -> Array:
        """Episodes behind every return (n,)."""
        return np.array([float(len(point.returns)) for point in self.entries])

    @property
    def repeats(self) -> list[Array]:
        """The scaled returns of every point that was run more than once: what the noise is estimated from."""
        return [point.returns / self.scale for point in self.entries if len(point.returns) > 1]

    @property
    def newest_centre(self) -> Point:
        """θ with its newest episodes: those at rest, or along a path around it."""
        return next(point for point in reversed(self.entries) if point.role in ("centre", "path"))

    @property
    def centre_value(self) -> float:
        """Ĵ(θ), scaled: the mean return of the newest centre."""
        return self.newest_centre.value / self.scale

    @property
    def centre_visits(self) -> Visits:
        """The states of the newest centre."""
        return visits_of(self.newest_centre)

    def action_change(self, parameters: Array) -> float:
        """How much other parameters (d,) change the actions on the centre's states: RMS, in halves of their ranges."""
        visits, centre = self.centre_visits, self.centre
        after = centre.space.actions(parameters, visits.states, centre.normaliser)
        changes = (after - centre.actions(visits.states)) / centre.spec.action_half
        return float(np.sqrt(np.square(changes).mean(axis=1) @ (visits.weights / visits.weights.sum())))

    @cached_property
    def recent_visits(self) -> Visits | None:
        """The states of the newest points (all, or `recent` of them) with their weights; None where none are kept."""
        kept = len(self.entries) if self.recent is None else max(self.recent - len(self.scouts), 1)
        newest = (*self.scouts, *self.entries[-kept:])
        known = [point.visits for point in newest if point.visits is not None]
        if not known:
            return None
        return Visits(
            np.concatenate([item.states for item in known]),
            np.concatenate([item.actions for item in known]),
            np.concatenate([item.weights for item in known]) / len(known),
        )


def visits_of(point: Point) -> Visits:
    """The states of a point.

    Raises:
        RuntimeError: they were not kept.
    """
    if point.visits is None:
        raise RuntimeError("this point's visited states were not kept; the setting `states` says how many to keep")
    return point.visits
