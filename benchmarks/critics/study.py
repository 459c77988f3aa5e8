"""The critic study: how well every kind of critic, and plain regression, knows the true gradient at stored (θ, replay) pairs.

    python benchmarks/critics/study.py --pairs all --methods all        # only what is missing is computed
    python benchmarks/critics/study.py --table > benchmarks/critics/RESULTS.md

One line of `results.jsonl` per (pair, method). For methods with critics: cosine with the truth, R̃² and R̂² of every member; cosines of the
aggregated ∇m̂ (mean, softmax, evidence), of ABS's posterior mean μ and of its step under softmax and evidence; the log evidence of the window
with and without the critics; CPU seconds of a new centre and of one more probe. `pairs.py` makes the runs, `truth.py` the true gradients.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pairs import WORK, Pair, StoredQuery, load_run, pair_of
from threadpoolctl import threadpool_limits
from truth import DATA, load_truth

from abps.config import CriticsConfig, replace
from abps.critics import Centre, Critics, make_critics
from abps.critics.scores import aggregate, scores
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.gp.mean import advantage_features, advantage_gradients, validation_advantages
from abps.policies import policy_class
from abps.presets import search_config
from abps.search.abs import Abs
from abps.search.local import LocalSearch
from abps.search.mpd import Mpd
from abps.seeding import generator

__all__ = ["METHODS", "Case"]

RESULTS = Path(__file__).parent / "results.jsonl"
SCORE_ITERATIONS = 3
Array = NDArray[np.float64]
Result = dict[str, Any]


def cosine(left: Array, right: Array) -> float:
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > 0 else 0.0


class Case:
    """A pair with everything that a search would hold at that moment."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.spec = pair, pair.run.task.spec
        self.truth = load_truth(pair.name)
        if not np.array_equal(self.truth.parameters, pair.centre.parameters):
            raise SystemExit(f"the run of {pair.name} is not the one whose gradient is stored; see README.md")
        self.task = self.spec.name
        self.settings = search_config("abs", self.task)
        self.scale = float(self.spec.reward_scale or 1.0)
        centre = pair.centre
        self.centre = Centre(policy_class(self.spec), centre.parameters, centre.normaliser)
        self.points = [self._point(number, query) for number, query in enumerate(pair.queries[-self.settings.window :])]
        self.centre_point = next(point for point in reversed(self.points) if point.role == "centre")
        self.recent = [point for point in self.points if point.iteration > pair.iteration - SCORE_ITERATIONS]
        self.probes = [p for p in self.points if p.iteration == pair.iteration and p.role == "probe"]

    def _point(self, number: int, query: StoredQuery) -> Point:
        gamma = self.spec.gamma
        visits = Visits.collect(query.trajectories, gamma, self.settings.states, generator(0, "visits", number))
        returns = np.array([trajectory.total(gamma, self.spec.reward_shift) for trajectory in query.trajectories])
        return Point(query.parameters, query.normaliser, returns, query.role, query.iteration, visits)

    def replay(self, without_last: int) -> Replay:
        """All transitions told so far but those of the last queries."""
        replay = Replay(self.pair.transitions, self.spec.observation_dim, self.spec.action_dim)
        for query in self.pair.queries[: len(self.pair.queries) - without_last]:
            for trajectory in query.trajectories:
                replay.append(trajectory)
        return replay

    def place(self, search: LocalSearch[Any]) -> None:
        """Put a search where the run was, and fit its Gaussian process."""
        search.centre, search.normaliser = self.centre.parameters, self.centre.normaliser
        search.iteration, search.stage, search.scale = self.pair.iteration, "probe", self.scale
        search.window.points = list(self.points)

    def abs_with(self, critics: Critics, aggregation: str) -> Abs:
        """ABS where the run was, with trained critics, scored and fitted."""
        search = Abs(self.spec, replace(self.settings, aggregation=aggregation), seed=0)
        self.place(search)
        search.critics = critics
        search._score()
        search._refit()
        return search

    def values(self, points: list[Point]) -> Array:
        return np.array([point.value for point in points]) / self.scale


def regression(case: Case, ridge: float) -> Result:
    """Least squares of the window's returns on the parameters, with a ridge relative to the points' spread."""
    start = time.process_time()
    moves = np.array([point.parameters for point in case.points]) - case.centre.parameters
    gram = moves @ moves.T
    gram[np.diag_indices(len(gram))] += ridge * np.trace(gram) / len(gram)
    gradient = moves.T @ np.linalg.solve(gram, case.values(case.points) - case.centre_point.value / case.scale)
    return {"mean": cosine(gradient, case.truth.gradient), "seconds_centre": time.process_time() - start}


def black_box(case: Case) -> Result:
    """MPD's posterior mean of the gradient."""
    start = time.process_time()
    search = Mpd(case.spec, search_config("mpd", case.task), seed=0)
    case.place(search)
    search._refit()
    posterior, truth = search.posterior, case.truth.gradient
    return {
        "mu_mpd": cosine(posterior.mu, truth),
        "direction_mpd": cosine(posterior.direction, truth),
        "seconds_centre": time.process_time() - start,
    }


def with_critics(case: Case, config: CriticsConfig, seed: int, sign: float = 1.0) -> Result:
    """Train critics as a search would, and judge them and what ABS makes of them.

    With a sign of −1 they learn from the negative rewards: a failure on purpose, to see what notices it.
    """
    critics = make_critics(config, case.spec, case.centre.policy_class, seed)
    replay = case.replay(1)
    start = time.process_time()
    critics.start_centre(case.centre, replay, sign * case.scale)
    centre_seconds = time.process_time() - start
    for trajectory in case.pair.queries[-1].trajectories:
        replay.append(trajectory)
    start = time.process_time()
    critics.update(replay)
    result = {"seconds_centre": centre_seconds, "seconds_probe": time.process_time() - start}
    return {**result, **judge(case, critics)}


def judge(case: Case, critics: Critics) -> Result:
    """Scores and cosines of trained critics."""
    truth, value = case.truth.gradient, case.centre_point.value / case.scale
    gradients = advantage_gradients(critics, case.centre, _visits(case.centre_point))
    validation = validation_advantages(critics, case.centre, [_visits(point) for point in case.recent])
    r2_validation = scores(value, validation, case.values(case.recent))
    probes = np.array([point.parameters for point in case.probes])
    features = advantage_features(critics, case.centre, _visits(case.centre_point), probes)
    result: Result = {
        "members": [cosine(gradient, truth) for gradient in gradients.T],
        "r2_validation": [float(value) for value in r2_validation],
        "r2_test": [float(value) for value in scores(value, features, case.values(case.probes))],
        "norms": [float(np.linalg.norm(gradient)) for gradient in gradients.T],
        "mean": cosine(gradients.mean(axis=1), truth),
        "best": cosine(gradients @ aggregate("best", r2_validation), truth),
        "softmax": cosine(gradients @ aggregate("softmax", r2_validation), truth),
    }
    for aggregation in ("softmax", "evidence"):
        search = case.abs_with(critics, aggregation)
        posterior = search.posterior
        result[f"mu_{aggregation}"] = cosine(posterior.mu, truth)
        result[f"direction_{aggregation}"] = cosine(posterior.direction, truth)
        result[f"step_{aggregation}"] = cosine(search.settled_posterior().direction, truth)
        result[f"log_evidence_{aggregation}"] = search._fitted.evidence if search._fitted else None
        if aggregation == "evidence":
            result["evidence"] = cosine(gradients @ posterior.weights.mean, truth)
            result["sigma_beta"] = posterior.hyper.feature_scale
            result["weights"] = [float(weight) for weight in posterior.weights.mean]
            result["log_evidence_constant"] = search._constant_evidence()
    return result


def _visits(point: Point) -> Visits:
    if point.visits is None:
        raise RuntimeError("a point has lost its states")
    return point.visits


CPU: dict[str, Any] = {
    "feature_kind": "split",
    "features": 512,
    "transitions": 20_000,
    "discount_cut": 0.05,
    "discount_weight": 1.0,
    "traces": (0.8, 0.0),
    "feature_bias": 1.0,
    "value_ridges": (0.001,),
    "bend_ridge": 0.1,
    "proximity": 0.3,
    "ridges": (1.0, 3.0),
    "groups": 2,
    "members": 4,
}
"""V(s) on random features of the state, the advantage on u·(1, s) and the products of u: the critics of the preset `cpu`, spelt out so that they stay when it changes."""
LINEAR: dict[str, Any] = {**CPU, "feature_bias": 0.3, "value_ridges": (0.1, 0.001), "bend_ridge": 0.0, "proximity": 0.0}
"""The preset's critics until c4a2005: an advantage linear in u, near and far actions alike, two value ridges."""
TRACES: dict[str, Any] = {**LINEAR, "discount_weight": 0.0, "traces": (0.8,), "value_ridges": (0.001,)}
"""The preset's critics until c38ec49: both groups with the same traces and the same value ridge, all steps alike."""
RELU: dict[str, Any] = {
    "feature_kind": "relu",
    "transitions": 30_000,
    "discount_cut": 0.0,
    "discount_weight": 0.0,
    "traces": (0.0,),
    "feature_bias": 1.0,
    "ridges": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "groups": 5,
    "members": 5,
}
"""Random ReLU features of state and action together, one-step targets."""
PAPER: dict[str, Any] = {"kind": "droq", "members": 5, "steps_first": 10_000, "steps_probe": 1}
"""The paper's networks, from scratch, with the steps of one new centre."""


def critics_method(seed: int = 0, sign: float = 1.0, **settings: Any) -> Callable[[Case], Result]:
    return lambda case: with_critics(case, replace(CriticsConfig(), **settings), seed, sign)


METHODS: dict[str, Callable[[Case], Result]] = {
    "regression": lambda case: regression(case, 1e-2),
    "regression-ridge-1": lambda case: regression(case, 1.0),
    "mpd": black_box,
    "paper": critics_method(**PAPER),
    "paper-one-pair": critics_method(**{**PAPER, "members": 1}),
    "relu": critics_method(**RELU),
    "split-one-step": critics_method(**{**TRACES, "discount_cut": 0.0, "traces": (0.0,), "value_ridges": (0.3,)}),
    "traces": critics_method(**TRACES),
    "traces-seed-1": critics_method(**TRACES, seed=1),
    "traces-all-steps": critics_method(**{**TRACES, "discount_cut": 0.0}),
    "traces-zero": critics_method(**{**TRACES, "traces": (0.0,)}),
    "traces-value-ridge-0.1": critics_method(**{**TRACES, "value_ridges": (0.1,)}),
    "linear": critics_method(**LINEAR),
    "linear-seed-1": critics_method(**LINEAR, seed=1),
    "linear-unweighted": critics_method(**{**LINEAR, "discount_weight": 0.0}),
    "cpu": critics_method(**CPU),
    "cpu-seed-1": critics_method(**CPU, seed=1),
    "cpu-seed-2": critics_method(**CPU, seed=2),
    "cpu-turned": critics_method(**CPU, sign=-1.0),
    "cpu-linear": critics_method(**{**CPU, "bend_ridge": 0.0}),
    "cpu-near-and-far": critics_method(**{**CPU, "proximity": 0.0}),
    "cpu-all-times": critics_method(**{**CPU, "discount_weight": 0.0}),
}


def known_pairs() -> list[str]:
    """Pairs whose true gradient is stored, in order of task and stage."""
    names = [path.stem for path in DATA.glob("*.npz") if not path.stem.endswith(".tmp")]
    return sorted(names, key=lambda name: (name.rsplit("-", 1)[0], int(name.rsplit("-", 1)[1])))


def open_case(name: str, work: Path, runs: dict[str, Any]) -> Case:
    task, search, seed, iteration = name.rsplit("-", 3)
    key = f"{task}-{search}-{seed}"
    if key not in runs:
        runs[key] = load_run(task, search, int(seed), work)
    return Case(pair_of(runs[key], int(iteration)))


def done() -> dict[tuple[str, str], Result]:
    """Results so far by (pair, method); the last line of a pair and method wins."""
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {(line["pair"], line["method"]): line for line in lines}


def study(pairs: list[str], methods: list[str], work: Path) -> None:
    """Compute what is missing, pair by pair."""
    runs: dict[str, Any] = {}
    known = done()
    for name in pairs:
        missing = [method for method in methods if (name, method) not in known]
        if not missing:
            continue
        case = open_case(name, work, runs)
        for method in missing:
            result = METHODS[method](case)
            line = {"pair": name, "method": method, **_rounded(result)}
            with RESULTS.open("a") as file:
                file.write(json.dumps(line) + "\n")
            shown = {key: value for key, value in line.items() if key not in ("norms", "weights", "pair", "method")}
            print(name, method, json.dumps(shown), flush=True)


def _rounded(result: Result) -> Result:
    def digits(value: Any) -> Any:
        if isinstance(value, list):
            return [digits(item) for item in value]
        return float(f"{value:.4g}") if isinstance(value, float) else value

    return {key: digits(value) for key, value in result.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="+", default=["all"])
    parser.add_argument("--methods", nargs="+", default=["all"])
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        from table import render

        print(render(known_pairs(), list(METHODS), done()))
        return
    pairs = known_pairs() if arguments.pairs == ["all"] else arguments.pairs
    study(pairs, list(METHODS) if arguments.methods == ["all"] else arguments.methods, arguments.work)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
