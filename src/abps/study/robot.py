"""Runs on real hardware as their directory tells them: episodes told, failed and taken back, and the best of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from abps.run.operator import MOVING
from abps.study.records import Run
from abps.words import count, first_line, number

__all__ = ["RobotState", "is_robot", "robot_state"]

REPEATED = 3
"""Failures in a row from which on the robot itself is suspected."""


@dataclass(frozen=True)
class RobotState:
    """Where a run on hardware stands."""

    told: int
    budget: int
    """Episodes that were agreed on; 0: no limit."""
    failed: int
    discarded: int
    failed_in_a_row: int
    best: float
    """Highest return of a single episode of a policy at rest that broke no constraint; NaN before the first."""
    best_episode: int
    centre: float
    """Mean return of the training episodes at the newest centre; NaN before the first outer iteration."""
    newest_reason: str
    """Why the newest failed episode failed."""
    violations: int | None = None
    """Episodes that broke a constraint; None: the task has none."""

    @property
    def headline(self) -> str:
        """One sentence for the operator."""
        of = f" of {number(self.budget)}" if self.budget else ""
        parts = [f"{count(self.told, 'episode')}{of} told" if not of else f"{number(self.told)}{of} episodes told"]
        if math.isfinite(self.centre):
            parts.append(f"current policy {number(self.centre)} (newest training episodes at it or around it)")
        if math.isfinite(self.best):
            parts.append(f"best single episode at rest {number(self.best)} (episode {self.best_episode})")
        beyond = "" if self.violations is None else f"{number(self.violations)} beyond a limit, "
        parts.append(f"{beyond}{number(self.failed)} failed, {number(self.discarded)} taken back")
        return "; ".join(parts) + "."


def is_robot(run: Run) -> bool:
    """Whether the run's episodes happen on real hardware."""
    return isinstance(run.config.get("hardware"), Mapping)


def robot_state(run: Run) -> RobotState:
    """Read where a run on hardware stands."""
    returns, failures = run.episodes.returns, {episode for episode, _ in run.episodes.failures}
    moving = {episode for episode, role in enumerate(run.episodes.roles) if role in MOVING}
    worked = np.array([i for i in np.flatnonzero(np.isfinite(returns)) if i not in moving.union(run.episodes.violated)])
    best = int(worked[np.argmax(returns[worked])]) if worked.size else -1
    centre = run.column("centre_return")
    known = centre[np.isfinite(centre)]
    in_a_row = next((back for back in range(len(returns)) if len(returns) - 1 - back not in failures), len(returns))
    return RobotState(
        told=run.episodes_run,
        budget=run.budget,
        failed=run.failed_episodes,
        discarded=_discarded(run.path),
        failed_in_a_row=in_a_row,
        best=float(returns[best]) if best >= 0 else math.nan,
        best_episode=best,
        centre=float(known[-1]) if known.size else math.nan,
        newest_reason=first_line(run.episodes.failures[-1][1], 120) if run.episodes.failures else "",
        violations=len(run.episodes.violated) if run.constraints else None,
    )


def _discarded(path: Path) -> int:
    try:
        return sum(1 for file in (path / "discarded").iterdir() if file.suffix == ".episode")
    except OSError:
        return 0
