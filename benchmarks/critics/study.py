"""The critic study: how well every kind of critic, and plain regression, knows the true gradient at (θ, replay) pairs.

    python benchmarks/critics/study.py --pairs all --methods all        # only what is missing is computed
    python benchmarks/critics/study.py --table > benchmarks/critics/RESULTS.md

One line of `results.jsonl` per (pair, method). For methods with critics: cosine with the truth, R̃² and R̂² of every
member; cosines of the aggregated ∇m̂ (mean, softmax, evidence), of ABS's posterior mean μ and of its step under
softmax and evidence; the log marginal likelihood of the window with and without the critics; CPU seconds of a new
centre and of one more probe. In the columns, `evidence` is the aggregation that is called `marginal` today. `pairs.py`
makes the runs, `truth.py` the true gradients. Everything is made of the library's parts: a neighbourhood, a prior that
learns, a process fitted to both.
"""

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pairs import WORK, Pair, StoredQuery, load_run, pair_of
from threadpoolctl import threadpool_limits
from truth import DATA, load_truth

from abps.critics.base import CriticsPart
from abps.critics.droq_config import Droq
from abps.critics.lstd_config import Lstd, Relu, Split
from abps.critics.scores import scores
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.model.aggregation import Aggregation, Best, Marginal, Softmax
from abps.model.gp import GP, Model, PriorMean
from abps.model.neighbourhood import Neighbourhood
from abps.model.prior import AdvantageLearner, AdvantagePrior, ConstantPrior
from abps.search.registry import search_config
from abps.seeding import generator

__all__ = ["AGGREGATIONS", "CPU", "METHODS", "Case"]

RESULTS = Path(__file__).parent / "results.jsonl"
STATES = 256
"""Visited states kept per point."""
PROCESS = GP(lengthscale_low=0.02, lengthscale_high=0.1, noise_factor=10.0)
"""The process that ABS with closed-form critics used; the paper's lengthscales are so short that noise becomes
gradient."""
AGGREGATIONS: dict[str, Aggregation] = {"softmax": Softmax(), "evidence": Marginal(total=1.0)}
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
        self.task, self.space = self.spec.name, pair.run.space
        self.objective = Objective(self.spec.gamma, 0.0)
        window = search_config("mpd", self.task).plan.window  # type: ignore[attr-defined]
        points = tuple(self._point(number, query) for number, query in enumerate(pair.queries[-window:]))
        centre = self.space.policy(pair.centre.parameters, pair.centre.normaliser)
        self.near = Neighbourhood(centre, points, float(self.spec.reward_scale or 1.0), remap=True)
        """What was measured around θ."""
        self.probes = [k for k, p in enumerate(points) if p.iteration == pair.iteration and p.role == "probe"]

    def _point(self, number: int, query: StoredQuery) -> Point:
        visits = Visits.collect(query.trajectories, self.spec.gamma, STATES, generator(0, "visits", number))
        returns = np.array([self.objective.total(trajectory) for trajectory in query.trajectories])
        return Point(query.parameters, query.normaliser, returns, query.role, query.iteration, visits)

    def replay(self, without_last: int) -> Replay:
        """All transitions told so far but those of the last queries."""
        replay = Replay(self.pair.transitions, self.spec.observation_dim, self.spec.action_dim)
        for query in self.pair.queries[: len(self.pair.queries) - without_last]:
            for trajectory in query.trajectories:
                replay.append(trajectory)
        return replay

    def learner(self, critics: CriticsPart, seed: int) -> AdvantageLearner:
        """Untrained critics, as a search starts them."""
        prior = AdvantagePrior(critics=critics, reset_worst=False)
        learner = prior.start(self.space, self.objective, seed, lambda phase: nullcontext())
        assert isinstance(learner, AdvantageLearner)
        return learner

    def fitted(self, prior: PriorMean, process: GP = PROCESS) -> Model:
        """The process fitted to the window, as a search fits it anew."""
        return process.fit(self.near, prior, generator(0, "fit", self.pair.iteration, 0, "probe"))

    def abs_with(self, learner: AdvantageLearner, aggregation: Aggregation) -> tuple[Model, Array]:
        """The model of ABS with trained critics, and the weights chosen before the returns are looked at."""
        weights = aggregation.weights(learner.memory.scores)
        features, gradients = learner.features(self.near), learner.gradients(self.near)
        return self.fitted(aggregation.prior_mean(self.near.centre_value, features, gradients, weights)), weights


def regression(case: Case, ridge: float) -> Result:
    """Least squares of the window's returns on the parameters, with a ridge relative to the points' spread."""
    start, near = time.process_time(), case.near
    moves = np.array([point.parameters for point in near.entries]) - near.centre.parameters
    gram = moves @ moves.T
    gram[np.diag_indices(len(gram))] += ridge * np.trace(gram) / len(gram)
    gradient = moves.T @ np.linalg.solve(gram, near.returns - near.centre_value)
    return {"mean": cosine(gradient, case.truth.gradient), "seconds_centre": time.process_time() - start}


def black_box(case: Case) -> Result:
    """MPD's posterior mean of the gradient."""
    start, config = time.process_time(), search_config("mpd", case.task)
    learner = ConstantPrior().start(case.space, case.objective, 0, lambda phase: nullcontext())
    near = replace(case.near, remap=False)
    process: GP = config.gp  # type: ignore[attr-defined]
    posterior = process.fit(near, learner.mean(near), generator(0, "fit", case.pair.iteration, 0, "probe")).posterior
    return {
        "mu_mpd": cosine(posterior.mu, case.truth.gradient),
        "direction_mpd": cosine(posterior.direction, case.truth.gradient),
        "seconds_centre": time.process_time() - start,
    }


def with_critics(case: Case, critics: CriticsPart, seed: int, sign: float = 1.0) -> Result:
    """Train critics as a search would, and judge them and what ABS makes of them.

    With a sign of −1 they learn from the negative rewards: a failure on purpose, to see what notices it.
    """
    learner, replay, near = case.learner(critics, seed), case.replay(1), case.near
    before = replace(near, entries=near.entries[:-1], scale=sign * near.scale)
    start = time.process_time()
    learner.new_centre(before, replay, case.pair.iteration)
    centre_seconds = time.process_time() - start
    for trajectory in case.pair.queries[-1].trajectories:
        replay.append(trajectory)
    start = time.process_time()
    learner.new_episodes(near, replay, case.pair.iteration)
    result = {"seconds_centre": centre_seconds, "seconds_probe": time.process_time() - start}
    return {**result, **judge(case, learner)}


def judge(case: Case, learner: AdvantageLearner) -> Result:
    """Scores and cosines of trained critics."""
    truth, near = case.truth.gradient, case.near
    gradients, validation = learner.gradients(near), learner.memory.scores
    test = scores(near.centre_value, learner.features(near)[case.probes], near.returns[case.probes])
    result: Result = {
        "members": [cosine(gradient, truth) for gradient in gradients.T],
        "r2_validation": [float(value) for value in validation],
        "r2_test": [float(value) for value in test],
        "norms": [float(np.linalg.norm(gradient)) for gradient in gradients.T],
        "mean": cosine(gradients.mean(axis=1), truth),
        "best": cosine(gradients @ Best().weights(validation), truth),
        "softmax": cosine(gradients @ Softmax().weights(validation), truth),
    }
    for name, aggregation in AGGREGATIONS.items():
        model, chosen = case.abs_with(learner, aggregation)
        posterior, weights = model.posterior, model.weights(chosen)
        result[f"mu_{name}"] = cosine(posterior.mu, truth)
        result[f"direction_{name}"] = cosine(posterior.direction, truth)
        result[f"step_{name}"] = cosine(model.posterior_given_weights(weights).direction, truth)
        result[f"log_evidence_{name}"] = model.log_marginal_likelihood
        if name == "evidence":
            result["evidence"] = cosine(gradients @ weights, truth)
            result["sigma_beta"] = posterior.hyper.feature_scale
            result["weights"] = [float(weight) for weight in weights]
            n, d = near.points.shape
            constant = PriorMean(np.full(n, near.centre_value), near.centre_value, np.zeros(d))
            result["log_evidence_constant"] = case.fitted(constant).log_marginal_likelihood
    return result


CPU = Lstd(
    members=4,
    groups=2,
    transitions=20_000,
    features=Split(size=512, bias=1.0, value_ridges=(0.001,), quadratic_ridge=0.1, off_policy_scale=0.3),
    ridges=(1.0, 3.0),
    traces=(0.8, 0.0),
    discount_cut=0.05,
    discount_weight=1.0,
)
"""V(s) on random features of the state, the advantage on u·(1, s) and the products of u: the critics of the preset
`cpu` at db8d57b, written out so that they stay when it changes."""
LINEAR = replace(
    CPU, features=Split(size=512, bias=0.3, value_ridges=(0.1, 0.001), quadratic_ridge=0.0, off_policy_scale=0.0)
)
"""The preset's critics until c4a2005: an advantage linear in u, near and far actions alike, two value ridges."""
ONE_RIDGE = replace(LINEAR.features, value_ridges=(0.001,))
TRACES = replace(LINEAR, discount_weight=0.0, traces=(0.8,), features=ONE_RIDGE)
"""The preset's critics until c38ec49: both groups with the same traces and the same value ridge, all steps alike."""
RELU = Lstd(
    members=5,
    groups=5,
    transitions=30_000,
    features=Relu(size=512, bias=1.0),
    ridges=(1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    traces=(0.0,),
    discount_cut=0.0,
    discount_weight=0.0,
)
"""Random ReLU features of state and action together, one-step targets."""
PAPER = Droq(members=5, steps_first=10_000, steps_probe=1)
"""The paper's networks, from scratch, with the steps of one new centre."""


def critics_method(critics: CriticsPart, seed: int = 0, sign: float = 1.0) -> Callable[[Case], Result]:
    return lambda case: with_critics(case, critics, seed, sign)


def changed(critics: Lstd, **features: Any) -> Lstd:
    """Critics with some settings of their features changed."""
    return replace(critics, features=replace(critics.features, **features))


METHODS: dict[str, Callable[[Case], Result]] = {
    "regression": lambda case: regression(case, 1e-2),
    "regression-ridge-1": lambda case: regression(case, 1.0),
    "mpd": black_box,
    "paper": critics_method(PAPER),
    "paper-one-pair": critics_method(replace(PAPER, members=1)),
    "relu": critics_method(RELU),
    "split-one-step": critics_method(
        changed(replace(TRACES, discount_cut=0.0, traces=(0.0,)), value_ridges=(0.3,)),
    ),
    "traces": critics_method(TRACES),
    "traces-seed-1": critics_method(TRACES, seed=1),
    "traces-all-steps": critics_method(replace(TRACES, discount_cut=0.0)),
    "traces-zero": critics_method(replace(TRACES, traces=(0.0,))),
    "traces-value-ridge-0.1": critics_method(changed(TRACES, value_ridges=(0.1,))),
    "linear": critics_method(LINEAR),
    "linear-seed-1": critics_method(LINEAR, seed=1),
    "linear-unweighted": critics_method(replace(LINEAR, discount_weight=0.0)),
    "cpu": critics_method(CPU),
    "cpu-seed-1": critics_method(CPU, seed=1),
    "cpu-seed-2": critics_method(CPU, seed=2),
    "cpu-turned": critics_method(CPU, sign=-1.0),
    "cpu-linear": critics_method(changed(CPU, quadratic_ridge=0.0)),
    "cpu-near-and-far": critics_method(changed(CPU, off_policy_scale=0.0)),
    "cpu-all-times": critics_method(replace(CPU, discount_weight=0.0)),
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
