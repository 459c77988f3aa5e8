"""What a reader wants to know first, in words: how good the current policy is, since when, and what to believe.

The *current policy* of a run is judged by fresh evaluation episodes; where there are none (a robot), by the training
episodes at the centre or around it. The two are named, never mixed. The maximum so far is the luckiest of many
evaluations; the *best believable* policy is the evaluated current policy with the highest mean less two standard errors
of its own episodes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.study.groups import Row, metric_of, points
from abps.study.records import Run
from abps.study.robot import is_robot, robot_state
from abps.words import count, duration, listing, number

__all__ = ["Standing", "facts", "run_headline", "standard_errors", "standing", "study_headlines"]

DOUBT = 2.0
"""Standard errors that are taken off a mean before it is believed."""

STATISTIC = "iqm"
NAMED = 6
"""Searches that a study's headline names."""


@dataclass(frozen=True)
class Standing:
    """How a run stands; NaN where nothing was measured."""

    measured_by: str
    """"evaluation", "training" or "" (nothing was measured)."""
    current: float
    error: float
    """Standard error of `current`."""
    highest: float
    """Highest value of the current policy's curve."""
    reached: float
    """Episodes after which the curve first had it."""
    believable: float
    believable_error: float
    believable_at: float
    """Episodes after which the most believable policy was the current one."""


def standing(run: Run) -> Standing:
    """Read a run's standing from its metrics."""
    x, y = points(run, "centre_return", "episodes")
    if not y.size:
        return Standing("", *[math.nan] * 7)
    errors = standard_errors(run)
    evaluated = metric_of(run, "centre_return") == "eval_return"
    errors = (
        errors[np.isfinite(errors)] if evaluated and np.isfinite(errors).sum() == y.size else np.full(y.size, np.nan)
    )
    top = int(np.argmax(y))
    best = int(np.argmax(y - DOUBT * errors)) if np.isfinite(errors).all() else None
    return Standing(
        "evaluation" if evaluated else "training",
        float(y[-1]),
        float(errors[-1]),
        float(y[top]),
        float(x[top]),
        math.nan if best is None else float(y[best]),
        math.nan if best is None else float(errors[best]),
        math.nan if best is None else float(x[best]),
    )


def standard_errors(run: Run) -> Array:
    """Standard error of every evaluation of the current policy, (i,); NaN where it is not known."""
    episodes = run.evaluation_episodes
    if episodes is None or episodes < 2:
        return np.full(len(run.metrics), np.nan)
    # The recorded spread is that of the sample; a standard error wants the estimate with n − 1.
    return run.column("eval_return_std") / math.sqrt(episodes - 1)


def run_headline(run: Run, threshold: float | None = None) -> str:
    """One sentence about one run.

    Args:
        run: the run.
        threshold: return that counts as success, if somebody named one.
    """
    if is_robot(run):
        return robot_state(run).headline
    now = standing(run)
    if not now.measured_by:
        return _nothing(run)
    parts = [f"Current policy {number(now.current)} after {count(run.episodes_run, 'episode')}"]
    if threshold is not None:
        x, y = points(run, "centre_return", "episodes")
        first = next((at for at, value in zip(x, y, strict=True) if value >= threshold), None)
        reached = f"reached {number(threshold)} after {first:.0f}" if first is not None else ""
        parts.append(reached or f"has not reached {number(threshold)}")
    else:
        parts.append(f"reached {number(now.highest)} after {now.reached:.0f}")
    if math.isfinite(now.believable):
        parts.append(f"best believable policy {number(now.believable)} ± {number(now.believable_error)}")
    if run.constraints:
        parts.append(f"{count(len(run.episodes.violated), 'episode')} beyond a limit")
    return "; ".join(parts) + "."


def facts(run: Run) -> list[dict[str, str]]:
    """The numbers behind the headline, with units and what each of them is."""
    now, told = standing(run), []
    shown = {"evaluation": _evaluated(run), "training": "newest training episodes at it or around it: few, and noisy"}
    if now.measured_by:
        error = f" ± {number(now.error)}" if math.isfinite(now.error) else ""
        told.append(("Current policy", f"{number(now.current)}{error}", shown[now.measured_by]))
    if math.isfinite(now.believable):
        when = count(int(now.believable_at), "episode")
        note = f"± standard error; evaluated after {when}, highest mean less two errors"
        told.append(("Best believable", f"{number(now.believable)} ± {number(now.believable_error)}", note))
    maximum = points(run, "max_return", "episodes")[1]
    if maximum.size:
        told.append(("Maximum so far", number(maximum[-1]), "luckiest evaluation of all, optimistic"))
    if is_robot(run):
        told += _robot_facts(run)
    if run.constraints:
        among = f"of {count(run.episodes_run, 'training episode', 'training episodes')}: {listing(run.constraints)}"
        told.append(("Beyond a limit", number(len(run.episodes.violated)), among))
    of = f" of {number(run.budget)}" if run.budget > run.episodes_run else ""
    told.append(("Episodes", number(run.episodes_run) + of, f"{count(run.steps_run, 'step')}, {_iterations(run)}"))
    seconds = run.column("seconds")
    if np.isfinite(seconds).any():
        told.append(("Wall time", duration(float(np.nanmax(seconds))), "over all sessions"))
    return [{"name": name, "value": value, "note": note} for name, value, note in told]


def _robot_facts(run: Run) -> list[tuple[str, str, str]]:
    state, found = robot_state(run), []
    if math.isfinite(state.best):
        found.append(
            (
                "Best single episode",
                number(state.best),
                f"episode {state.best_episode}, of a policy at rest; lucky, perhaps",
            )
        )
    found.append(("Failed", number(state.failed), f"the newest: {state.newest_reason}" if state.failed else "episodes"))
    found.append(("Taken back", number(state.discarded), "copies are kept in the run's folder discarded"))
    return found


def study_headlines(rows: Sequence[Row]) -> list[str]:
    """One sentence per task: the searches in the order of their current policies."""
    sentences = []
    for task in dict.fromkeys(row.task for row in rows):
        members = [row for row in rows if row.task == task and "centre_return" in row.scores.get(STATISTIC, {})]
        ranked = sorted(members, key=lambda row: -row.scores[STATISTIC]["centre_return"].value)
        if ranked:
            sentences.append(_ranking(task, ranked))
    return sentences


def _ranking(task: str, ranked: Sequence[Row]) -> str:
    told = []
    for row in ranked:
        estimate = row.scores[STATISTIC]["centre_return"]
        between = f" [{number(estimate.low)}, {number(estimate.high)}]" if row.runs > 1 else ""
        told.append(f"{row.label} {number(estimate.value)}{between}")
    seeds = sorted({row.runs for row in ranked})
    over = count(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {count(seeds[-1], 'seed')}"
    kind = f"current policy, interquartile mean of {over}" if seeds[-1] > 1 else f"current policy, {over}"
    episodes = count(int(ranked[0].episodes), "episode")
    return f"{task}, after {episodes}: {listing(told, NAMED)} ({kind})."


def _nothing(run: Run) -> str:
    if run.status == "failed":
        return f"The run failed after {count(run.episodes_run, 'episode')}, before a policy was measured."
    return f"No outer iteration is finished yet: {count(run.episodes_run, 'episode')} so far."


def _evaluated(run: Run) -> str:
    episodes = run.evaluation_episodes
    if episodes is None:
        return "mean of fresh evaluation episodes"
    spread = " ± standard error" if episodes > 1 else ""
    return f"mean{spread} of {number(episodes)} fresh evaluation episode{'' if episodes == 1 else 's'}"


def _iterations(run: Run) -> str:
    number_of = len(run.metrics)
    return f"{number_of} outer iteration{'' if number_of == 1 else 's'}"
