"""One run as the page shows it: a light part for curves and tables, and details for the run that a reader chose."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.errors import RunError
from abps.run.operator import robot_facts
from abps.study.costs import MOST_EPISODES, cost_charts
from abps.study.diagnostics import PANELS, findings
from abps.study.groups import AXES, QUANTITIES, Group, axis_values, metric_of, points
from abps.study.headline import facts, run_headline, standard_errors
from abps.study.jsontypes import last, number, numbers, thinned
from abps.study.next_steps import next_steps
from abps.study.policy_view import film, policy_pictures
from abps.study.records import Run
from abps.study.robot import is_robot, robot_state
from abps.words import first_line

__all__ = ["points_per_run", "run_details", "run_id", "run_summary"]

MOST_POINTS, FEWEST_POINTS, ALL_POINTS = 600, 60, 2400
"""Points of a run's curves: many when there are few runs, few when there are many."""

NEWEST = 8
"""Episodes of a robot that are listed."""


def run_id(run: Run) -> str:
    """A short name of a run's directory that stays the same while a page is open, and says nothing about paths."""
    return hashlib.sha256(str(run.path).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def points_per_run(runs: int) -> int:
    """How many points each of so many runs gets."""
    return max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, runs)))


def run_summary(run: Run, group: Group, most: int) -> dict[str, Any]:
    """What lists and curves need of a run; `most` points per curve."""
    keep = thinned(len(run.metrics), most)
    steps = {axis: axis_values(run, axis) for axis in AXES}
    return {
        "id": run_id(run),
        "name": run.name,
        "path": str(run.path),
        "task": run.task,
        "label": group.label,
        "seed": run.seed,
        "status": run.status,
        "reason": first_line(run.reason, 300),
        "counted": run in group.runs,
        "robot": is_robot(run),
        "budget": run.budget,
        "failed_episodes": run.failed_episodes,
        "beyond": len(run.episodes.violated) if run.constraints else None,
        "x": {axis: numbers(values[keep]) for axis, values in steps.items()},
        "y": {q: numbers(run.column(metric_of(run, q))[keep]) for q in QUANTITIES},
        "measured_by": metric_of(run, "centre_return"),
        "error": numbers(standard_errors(run)[keep]),
        "last": {
            "episodes": run.episodes_run or None,
            "steps": run.steps_run or None,
            "minutes": last(steps["minutes"]),
            **{q: last(points(run, q, "episodes")[1]) for q in ("centre_return", "max_return")},
        },
    }


def run_details(run: Run, most: int, film_bytes: int, threshold: float | None = None) -> dict[str, Any]:
    """What is shown of the run that a reader chose.

    Args:
        run: the run.
        most: points per curve.
        film_bytes: the largest film that may be put into the page.
        threshold: return that counts as success, if somebody named one.
    """
    keep = thinned(len(run.metrics), most)
    details = {
        "headline": run_headline(run, threshold),
        "facts": facts(run),
        "next": [step._asdict() for step in next_steps(run)],
        "findings": findings(run),
        "diagnostics": _diagnostics(run, keep),
        "policies": policy_pictures(run.path),
        "film": film(run.path, film_bytes),
        "episodes": _episodes(run),
        "costs": cost_charts(run),
    }
    if is_robot(run):
        state = robot_state(run)
        details["robot"] = {name: getattr(state, name) for name in ("told", "budget", "failed", "discarded")}
        details["newest"] = _newest(run)
    return details


def _newest(run: Run) -> list[dict[str, Any]]:
    """The newest episodes of a robot, the last one first, as `abps watch` lists them in a terminal."""
    try:
        episodes = robot_facts(run.path)["episodes"][-NEWEST:]
    except RunError:
        return []  # Deleted since.
    return [
        {
            **{name: item[name] for name in ("episode", "role", "steps", "terminated", "violated")},
            "value": None if item["value"] is None else number(item["value"]),
            "failed": None if item["failed"] is None else first_line(item["failed"], 200),
            "costs": {name: number(cost) for name, cost in item["costs"].items()},
        }
        for item in reversed(episodes)
    ]


def _diagnostics(run: Run, keep: NDArray[np.int64]) -> dict[str, list[list[float | int | None]]]:
    found = {}
    for name in (column for panel in PANELS for column, _ in panel["columns"]):
        table = run.table(name)
        lines = [table[:, index] for index in range(table.shape[1])] if table.size else [run.column(name)]
        if any(np.isfinite(line).any() for line in lines):
            found[name] = [numbers(line[keep]) for line in lines]
    return found


def _episodes(run: Run) -> dict[str, Any]:
    """Returns of single training episodes by role, and the episodes that failed."""
    episodes = run.episodes
    keep = thinned(len(episodes), MOST_EPISODES)
    roles = dict.fromkeys(episodes.roles[index] for index in keep)
    return {
        "roles": {
            role: {"x": (at := [int(i) for i in keep if episodes.roles[i] == role]), "y": numbers(episodes.returns[at])}
            for role in roles
        },
        "failed": [[episode, first_line(reason, 200)] for episode, reason in episodes.failures[-200:]],
        "shown": len(keep),
        "of": len(episodes),
    }
