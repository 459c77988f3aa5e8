"""Render the results of the critic study as Markdown."""

from typing import Any

import numpy as np
from truth import load_truth

__all__ = ["render"]

Result = dict[str, Any]
COLUMNS = (
    ("mean", "∇m̂, mean"),
    ("softmax", "∇m̂, softmax"),
    ("evidence", "∇m̂, evidence"),
    ("mu_softmax", "μ, softmax"),
    ("direction_softmax", "Σ⁻¹μ, softmax"),
    ("mu_evidence", "μ, evidence"),
    ("direction_evidence", "Σ⁻¹μ, evidence"),
    ("step_evidence", "step, evidence"),
    ("mu_mpd", "μ, MPD"),
    ("direction_mpd", "Σ⁻¹μ, MPD"),
)
HEAD = """# Results of the critic study

Made by `python benchmarks/critics/study.py --table > benchmarks/critics/RESULTS.md`; README.md says what the methods
are and what it means. Medians over different pairs are not comparable: where a method was not run on all of them, read
the table of every pair."""
TRUSTED = 0.4
"""Pairs whose truth is less reliable than this are shown but not judged."""
CHOSEN_ON = (0, 1)
"""Seeds of the runs whose pairs the settings of `cpu` were chosen on; the others are held out."""
FAILED = 0.35
"""Critics whose gradient, aggregated, has a lower cosine than this have failed."""
PRESET, AGGREGATION = "cpu", "evidence"
"""The critics of the preset `cpu`, and how it makes one mean function of them."""
COLLAPSED = -5.0
"""Validation scores are cut off here before their rank correlation with the cosine is taken: below, all are useless
alike."""


def render(pairs: list[str], methods: list[str], results: dict[tuple[str, str], Result]) -> str:
    """The whole page: all pairs, then what came out at those that the settings were chosen on, and at those held
    out."""
    parts = [HEAD, _truths(pairs)]
    for title, chosen in (("Pairs that the settings of `cpu` were chosen on", True), ("Pairs held out", False)):
        part = [pair for pair in pairs if (_seed(pair) in CHOSEN_ON) == chosen]
        parts += [f"# {title}", *_part(part, methods, results)]
    return "\n\n".join(parts)


def _part(pairs: list[str], methods: list[str], results: dict[tuple[str, str], Result]) -> list[str]:
    """The medians over pairs, every pair's numbers, and whether the scores see failure."""
    used = _run(methods, pairs, results)
    judged = [pair for pair in pairs if load_truth(pair).reliability >= TRUSTED]
    return [
        _medians(judged, used, results),
        _details(pairs, used, results),
        _scores(judged, results),
        _failures(pairs, results),
        _alarms(judged, used, results),
    ]


def _seed(pair: str) -> int:
    return int(pair.rsplit("-", 2)[1])


def _run(methods: list[str], pairs: list[str], results: dict[tuple[str, str], Result]) -> list[str]:
    """The methods that were run on any of the pairs."""
    return [name for name in methods if any((pair, name) in results for pair in pairs)]


def _truths(pairs: list[str]) -> str:
    lines = ["## Pairs", "", "| pair | J(θ) | ‖∇J‖ | directions | half cosine | reliability | best possible cosine |"]
    lines.append("|---|---|---|---|---|---|---|")
    for pair in pairs:
        truth = load_truth(pair)
        length = float(np.linalg.norm(truth.gradient))
        ceiling = np.sqrt(truth.reliability)
        lines.append(
            f"| {pair} | {truth.value:.2f} | {length:.2f} | {truth.directions} | {truth.half_cosine:.2f} "
            f"| {truth.reliability:.2f} | {ceiling:.2f} |"
        )
    return "\n".join(lines)


def _medians(pairs: list[str], methods: list[str], results: dict[tuple[str, str], Result]) -> str:
    methods = _run(methods, pairs, results)
    heads = " | ".join(head for _, head in COLUMNS)
    lines = [f"## Median cosine with the true gradient (pairs with reliability ≥ {TRUSTED})", ""]
    lines.append(f"| method | pairs | {heads} | R̃² of the members | s per centre | s per probe |")
    lines.append("|---" * (len(COLUMNS) + 5) + "|")
    for method in methods:
        found = [results[pair, method] for pair in pairs if (pair, method) in results]
        cells = [_median([result[key] for result in found if key in result]) for key, _ in COLUMNS]
        scores = [float(np.median(result["r2_validation"])) for result in found if "r2_validation" in result]
        seconds = [
            _median([result[key] for result in found if key in result]) for key in ("seconds_centre", "seconds_probe")
        ]
        row = [method, str(len(found)), *cells, _median(scores), *seconds]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _median(values: list[float]) -> str:
    return f"{np.median(values):.2f}" if values else ""


def _details(pairs: list[str], methods: list[str], results: dict[tuple[str, str], Result]) -> str:
    lines = ["## Every pair: cosine of the mean of ∇m̂ / of μ under evidence (μ of MPD, regression: one number)", ""]
    lines += ["| method | " + " | ".join(pairs) + " |", "|---" * (len(pairs) + 1) + "|"]
    for method in methods:
        cells = []
        for pair in pairs:
            result = results.get((pair, method), {})
            keys = [key for key in ("mean", "mu_evidence", "mu_mpd") if key in result]
            cells.append(" / ".join(f"{result[key]:.2f}" for key in keys))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _scores(pairs: list[str], results: dict[tuple[str, str], Result]) -> str:
    lines = ["## Do R̃² and the evidence see failure?", ""]
    inside, validation, cosines, gains, aggregated = [], [], [], [], []
    for (pair, _), result in results.items():
        if pair not in pairs or "members" not in result:
            continue
        scores = np.maximum(result["r2_validation"], COLLAPSED)
        validation += list(scores)
        cosines += result["members"]
        if np.ptp(scores) > 0:
            inside.append(rank_correlation(scores, np.array(result["members"])))
        gains.append(result["log_evidence_evidence"] - result["log_evidence_constant"])
        aggregated.append(result["evidence"])
    if len(cosines) > 2:
        lines += [
            f"- rank correlation of R̃² with the cosine over all {len(cosines)} members of all pairs and methods: "
            f"{rank_correlation(np.array(validation), np.array(cosines)):.2f}; inside one ensemble (median): "
            f"{np.median(inside):.2f}",
            "- rank correlation of the evidence gained by the critics with the cosine of their "
            "aggregated gradient, over "
            f"{len(gains)} ensembles: {rank_correlation(np.array(gains), np.array(aggregated)):.2f}",
        ]
    return "\n".join(lines)


def _failures(pairs: list[str], results: dict[tuple[str, str], Result]) -> str:
    """For the preset's critics, pair by pair: the cosine beside what a search can see."""
    lines = [
        f"## Where the critics of the preset `cpu` fail ({PRESET}, {AGGREGATION}), and what a search sees of it",
        "",
    ]
    lines += [
        "| pair | cosine of ∇m̂, evidence | softmax | mean | best R̃² | evidence gained (nats) | best R̂² | failed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for pair in (pair for pair in pairs if (pair, PRESET) in results):
        result = results[pair, PRESET]
        validation, gain = _signs(result, AGGREGATION)
        mark = "yes" if result[AGGREGATION] < FAILED else ""
        cosines = " | ".join(f"{result[key]:.2f}" for key in ("evidence", "softmax", "mean"))
        seen = f"{validation:.2f} | {gain:.1f} | {max(result['r2_test']):.2f}"
        lines.append(f"| {pair} | {cosines} | {seen} | {mark} |")
    return "\n".join(lines)


def _signs(result: Result, aggregation: str) -> tuple[float, float]:
    """What a search can see: the best R̃², and the evidence gained by the critics."""
    gain = result[f"log_evidence_{aggregation}"] - result["log_evidence_constant"]
    return max(result["r2_validation"]), gain


def _alarms(pairs: list[str], methods: list[str], results: dict[tuple[str, str], Result]) -> str:
    """For every kind of critics: failures, and at how many of them, and of the other pairs, a sign of failure
    stands."""
    lines = [f"## Failures (cosine of ∇m̂ below {FAILED}) of every kind of critics, and how many of them are seen", ""]
    lines += [
        "Seen: the best R̃² is negative, or the critics lose evidence. Alarms: the same at pairs without a failure.",
        "",
    ]
    lines += ["| method | pairs | evidence: failures | seen | alarms | softmax: failures | seen | alarms |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for method in methods:
        found = [results[pair, method] for pair in pairs if "members" in results.get((pair, method), {})]
        if not found:
            continue
        cells = []
        for aggregation in ("evidence", "softmax"):
            failed = np.array([result[aggregation] < FAILED for result in found])
            validation, gain = np.array([_signs(result, aggregation) for result in found]).T
            seen = (validation < 0) | (gain < 0)
            cells += [str(count) for count in (failed.sum(), (seen & failed).sum(), (seen & ~failed).sum())]
        lines.append(f"| {method} | {len(found)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rank_correlation(left: Any, right: Any) -> float:
    """Spearman's."""
    from scipy.stats import rankdata

    first, second = rankdata(left), rankdata(right)
    return float(np.corrcoef(first, second)[0, 1])
