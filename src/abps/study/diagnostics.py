"""How a search is doing: the panels of a report's diagnostics, and findings in words with what they mean.

A panel says which metrics it draws and what is good; a finding judges the newest iterations of one run. The levels of
findings are rules of thumb, written down here as constants; every sentence gives the number it rests on.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from abps.arrays import Array
from abps.study.records import Run
from abps.words import count, first_line, listing

__all__ = ["PANELS", "Finding", "findings"]

RECENT = 10
"""Outer iterations that a finding looks at."""

PANELS: tuple[dict[str, Any], ...] = (
    {
        "title": "Agreement of the critics",
        "columns": [["critics_agreement", "agreement"]],
        "unit": "length of the mean of unit gradients",
        "clip": [0, 1],
        "good": "Near 1: all critics point the same way. Independent directions of k critics give about 1/√k.",
    },
    {
        "title": "Agreement of successive steps",
        "columns": [["step_agreement", "cosine with the last step"]],
        "unit": "cosine",
        "clip": [-1, 1],
        "good": "Above 0.2 the steps grow, below they shrink. Around 0 the search has arrived, or sees only noise.",
    },
    {
        "title": "Probability of ascent",
        "columns": [["probability_ascent", "P(ascent)"]],
        "unit": "probability",
        "clip": [0.5, 1],
        "good": "Near 1: the direction leads upwards for certain. 0.5: the process knows no direction at all.",
    },
    {
        "title": "Signal and noise",
        "columns": [["signal", "σ_f, between policies"], ["noise", "σ_n, between episodes of one"]],
        "unit": "std of scaled returns",
        "log": True,
        "good": "Noise well below the signal: one episode says much about its policy.",
    },
    {
        "title": "Step",
        "columns": [
            ["step_chart", "in the chart"],
            ["step_actions", "in actions"],
            ["step_length", "in parameters"],
        ],
        "unit": "length; actions in halves of their range",
        "log": True,
        "good": "Long while the search climbs, short when it has arrived.",
    },
    {
        "title": "Slope that the critics expect",
        "columns": [["critics_slope", "slope"]],
        "unit": "scaled return per unit of the chart",
        "log": True,
        "good": "Falls towards a maximum. Large and steady: there is more to gain.",
    },
    {
        "title": "Scores of the critics",
        "columns": [["r2_validation", "validation R̃², critic"], ["r2_test", "test R̂²"]],
        "unit": "R², clipped to [−1, 1]",
        "clip": [-1, 1],
        "good": "Near 1: the critics explain the returns. Below 0 they are worse than a constant.",
    },
    {
        "title": "Weights of the critics",
        "columns": [["weights", "critic"]],
        "unit": "weight",
        "good": "Stays spread: no single critic decides. One near 1 has taken over.",
    },
    {
        "title": "Prior std of the critics' weights",
        "columns": [["sigma_beta", "σ_β"]],
        "unit": "σ_β",
        "good": "Above 0: the returns ask for the critics. Near 0 the process does without them.",
    },
    {
        "title": "Log marginal likelihood",
        "columns": [["log_likelihood", "of the window"], ["log_likelihood_constant", "with a constant mean instead"]],
        "unit": "nats",
        "good": "The window above the constant: the critics help the process.",
    },
    {
        "title": "Cosine of ∇m̂ and μ",
        "columns": [["mean_gradient_cosine", "cosine"]],
        "unit": "cosine",
        "clip": [-1, 1],
        "good": "Near 1: the returns confirm the critics' direction. Near 0 the two disagree.",
    },
    {
        "title": "Norms of the gradients",
        "columns": [["mu_norm", "‖μ‖, of the process"], ["mean_gradient_norm", "‖∇m̂‖, of the critics"]],
        "unit": "scaled return per unit",
        "log": True,
        "good": "Fall together towards a maximum.",
    },
    {
        "title": "Lengthscales",
        "columns": [
            ["lengthscale_low", "lowest"],
            ["lengthscale_median", "median"],
            ["lengthscale_high", "highest"],
        ],
        "unit": "ℓ",
        "log": True,
        "good": "Between their bounds. Resting at a bound: the window says nothing about them.",
    },
    {
        "title": "Returns",
        "columns": [
            ["eval_return", "current policy, evaluated"],
            ["centre_return", "centre, training episodes"],
            ["max_return", "maximum so far"],
        ],
        "unit": "undiscounted return",
        "good": "Evaluation and training agree: what is learned holds on fresh episodes.",
    },
)


@dataclass(frozen=True)
class Finding:
    """One judgement about a run."""

    level: str
    """"good", "fair" or "poor"."""
    title: str
    text: str
    """What was measured, and what it means."""


def findings(run: Run) -> list[dict[str, str]]:
    """What the newest iterations of a run say about its search, as JSON types."""
    rules: tuple[Callable[[Run], Finding | None], ...] = (
        _critics_agree,
        _steps_agree,
        _ascent,
        _noise,
        _scores,
        _likelihood,
        _moves,
        _attempts,
        _numerics,
        _failures,
    )
    if not run.metrics:
        return []
    return [asdict(found) for rule in rules if (found := rule(run)) is not None]


def _critics_agree(run: Run) -> Finding | None:
    value = _recent(run.column("critics_agreement"))
    if value is None:
        return None
    level, meaning = _judge(
        value,
        (0.7, "good", "they point the same way, so the direction of the step is well founded"),
        (0.45, "fair", "they share a direction, with differences"),
        (-np.inf, "poor", "they hardly share a direction: the search has arrived, or needs more episodes per step"),
    )
    return Finding(level, "Critics' agreement", f"{value:.2f} of 1: {meaning}.")


def _steps_agree(run: Run) -> Finding | None:
    value = _recent(run.column("step_agreement"))
    if value is None:
        return None
    level, meaning = _judge(
        value,
        (0.2, "good", "successive steps go on in one direction, so their length grows"),
        (-0.2, "fair", "successive steps are unrelated: close to a maximum, or the direction is noisy"),
        (-np.inf, "poor", "the search turns back at every step: its steps are too long, and become shorter"),
    )
    return Finding(level, "Direction", f"mean cosine of successive steps {_signed(value)}: {meaning}.")


def _ascent(run: Run) -> Finding | None:
    value = _recent(run.column("probability_ascent"))
    if value is None:
        return None
    level, meaning = _judge(
        value,
        (0.9, "good", "the process is nearly certain which way leads upwards"),
        (0.7, "fair", "the process has an opinion about the way upwards, no certainty"),
        (-np.inf, "poor", "the way upwards is little more than a guess; more probes per step would help"),
    )
    return Finding(level, "Probability of ascent", f"{value:.2f} on average: {meaning}.")


def _noise(run: Run) -> Finding | None:
    signal, noise = _recent(run.column("signal")), _recent(run.column("noise"))
    if signal is None or noise is None or signal <= 0:
        return None
    ratio = noise / signal
    level, meaning = _judge(
        -ratio,
        (-0.3, "good", "a single episode says much about its policy"),
        (-1.0, "fair", "several episodes are needed to tell two policies apart"),
        (-np.inf, "poor", "episodes of one policy differ more than policies do; more episodes per policy would help"),
    )
    return Finding(level, "Noise", f"{ratio:.2g} times the signal: {meaning}.")


def _scores(run: Run) -> Finding | None:
    table = run.table("r2_validation")
    if not np.isfinite(table).any():
        return None
    best = np.where(np.isfinite(table), table, -np.inf).max(axis=1)
    value = _recent(np.where(np.isfinite(best), best, np.nan))
    if value is None:
        return None
    level, meaning = _judge(
        value,
        (0.4, "good", "the best critic explains much of what returns differ in"),
        (0.0, "fair", "the best critic explains a little of what returns differ in"),
        (-np.inf, "poor", "no critic explains the returns better than a constant does"),
    )
    return Finding(level, "Critics' scores", f"validation R̃² {_signed(value)}: {meaning}.")


def _likelihood(run: Run) -> Finding | None:
    gain = _recent(run.column("log_likelihood") - run.column("log_likelihood_constant"))
    if gain is None:
        return None
    level, meaning = _judge(
        gain,
        (1.0, "good", "returns are better explained with the critics than without"),
        (-1.0, "fair", "returns are as well explained without the critics"),
        (-np.inf, "poor", "returns are better explained without the critics"),
    )
    return Finding(level, "Use of the critics", f"{_signed(gain)} nats of log likelihood: {meaning}.")


def _moves(run: Run) -> Finding | None:
    rows = run.metrics[-2 * RECENT :]
    if not any("step_chart" in row or row.get("retreat") for row in rows):
        return None
    retreats = sum(1 for row in rows if row.get("retreat"))
    jumps = sum(1 for row in rows if row.get("jump"))
    share = retreats / len(rows)
    level, meaning = _judge(
        -share,
        (-0.25, "good", "most steps were kept"),
        (-0.5, "fair", "many steps were taken back: the search circles around its best policy"),
        (-np.inf, "poor", "most steps were taken back: it gains nothing any more, or the returns are too noisy"),
    )
    counts = f"{count(retreats, 'retreat')} and {count(jumps, 'jump')} in {count(len(rows), 'iteration')}"
    return Finding(level, "Moves", f"{counts}: {meaning}.")


def _attempts(run: Run) -> Finding | None:
    """New starts; a robot's operator should know why a policy that was good is not the one that runs."""
    begun = [row.get("episodes") for row in run.metrics if row.get("restart")]
    if not begun:
        return None
    places = listing([str(number) for number in begun], between=" and " if len(begun) == 2 else ", ")
    starts = count(len(begun), "new start", "new starts")
    text = f"{starts}, after episode {places}: nothing better had been found for a while."
    return Finding("fair", "Attempts", f"{text} The current policy is the best of all attempts.")


def _numerics(run: Run) -> Finding | None:
    if not any("fit_fallback" in row for row in run.metrics):
        return None
    rows = run.metrics
    troubles = {
        "fit that fell back to earlier hyper-parameters": sum(1 for row in rows if row.get("fit_fallback")),
        "iteration with a raised noise": sum(1 for row in rows if _above(row.get("noise_raised"), 1.0)),
        "critic given up": sum(int(row["critics_diverged"]) for row in rows if _above(row.get("critics_diverged"), 0)),
    }
    told = [count(number, name) for name, number in troubles.items() if number]
    if not told:
        return Finding(
            "good", "Numerics", f"no fit fell back and no critic diverged in {count(len(rows), 'iteration')}."
        )
    level = "fair" if sum(troubles.values()) <= 0.1 * len(rows) else "poor"
    return Finding(level, "Numerics", f"{', '.join(told)} in {count(len(rows), 'iteration')}.")


def _failures(run: Run) -> Finding | None:
    failed, total = run.failed_episodes, run.episodes_run
    if not failed or not total:
        return None
    share = failed / total
    level = "fair" if share <= 0.1 else "poor"
    reason = first_line(run.episodes.failures[-1][1], 120) if run.episodes.failures else "no reason given"
    return Finding(level, "Failed episodes", f"{failed} of {total} ({share:.0%}); the newest: {reason}.")


def _recent(values: Array) -> float | None:
    """Mean of the newest finite values."""
    finite = values[np.isfinite(values)][-RECENT:]
    return float(finite.mean()) if finite.size else None


def _judge(value: float, *steps: tuple[float, str, str]) -> tuple[str, str]:
    """Level and meaning of the first step that the value reaches."""
    return next((level, meaning) for least, level, meaning in steps if value >= least)


def _above(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > limit


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
