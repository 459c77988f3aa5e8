"""The costs of a run's episodes beside their limits, one chart per constraint, as the page draws them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.errors import AbpsError
from abps.study.jsontypes import number, numbers, thinned
from abps.study.records import Run
from abps.tasks.constraints import Constraint
from abps.words import count

__all__ = ["MOST_EPISODES", "cost_charts"]

MOST_EPISODES = 1000
"""Single episodes that are drawn; of more, every k-th. Those beyond a limit are counted apart."""

UNITS = {"max": "largest cost of a step", "sum": "sum of the costs of all steps"}


def _constraints(run: Run) -> dict[str, Constraint]:
    """The constraints of the run's task by name; those that cannot be read are left out."""
    found = {}
    for text in run.constraints:
        try:
            constraint = Constraint.parse(text)
        except AbpsError:
            continue  # A damaged config.yaml is noted elsewhere; the other constraints are shown.
        found[constraint.name] = constraint
    return found


def cost_charts(run: Run) -> list[dict[str, Any]]:
    """What a chart of each constraint needs: the costs within its limit and beyond it, by episode, and the limit."""
    return [_chart(run, constraint) for constraint in _constraints(run).values()]


def _chart(run: Run, constraint: Constraint) -> dict[str, Any]:
    costs = run.episodes.costs.get(constraint.name, np.full(len(run.episodes), np.nan))
    above = costs > constraint.limit  # NaN is not.
    return {
        "name": constraint.name,
        "limit": number(constraint.limit),
        "unit": UNITS[constraint.reduce],
        "note": _note(costs, above, constraint),
        "within": _points(costs, np.flatnonzero(np.isfinite(costs) & ~above)),
        "beyond": _points(costs, np.flatnonzero(above)),
        "episodes": len(run.episodes),
    }


def _points(costs: NDArray[np.float64], at: NDArray[np.int64]) -> dict[str, Any]:
    keep = at[thinned(len(at), MOST_EPISODES)]
    return {"x": [int(episode) for episode in keep], "y": numbers(costs[keep])}


def _note(costs: NDArray[np.float64], above: NDArray[np.bool_], constraint: Constraint) -> str:
    """How often the limit was broken, beside how often that was allowed; failed episodes have no cost."""
    measured = int(np.isfinite(costs).sum())
    if not measured:
        return "No cost has been reported yet."
    broken, late = int(above.sum()), int(above[len(above) // 2 :].sum())
    half = f", {late or 'none'} of them in the second half" if broken else ""
    share, wanted = _percent(broken / measured), _percent(1 - constraint.probability)
    return f"Beyond the limit: {broken} of {count(measured, 'episode')} ({share}){half}. Wanted: at most {wanted}."


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\u202f%"
