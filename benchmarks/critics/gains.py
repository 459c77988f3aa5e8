"""What a step really gains at the stored pairs: J(θ + step) − J(θ) along four directions, for steps of several lengths.

    python benchmarks/critics/gains.py                        # only what is missing is computed, one line of
    gains.jsonl a pair python benchmarks/critics/gains.py --table > benchmarks/critics/GAINS.md

Directions: the true gradient, ∇m̂ of the critics `cpu` (softmax), and ABS's Σ⁻¹μ under softmax and under evidence
(called `marginal` today). A length is the root mean square change of the actions on the centre's states, in halves of
their ranges. J is the discounted scaled return, mean over `EPISODES` episodes from the same initial states. The true
gradient is that of J smoothed over perturbations of std 0.01 (`truth.py`): where J falls steeply on all sides of θ, it
is not the slope at θ itself.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pairs import WORK
from study import AGGREGATIONS, CPU, Case, known_pairs, open_case
from threadpoolctl import threadpool_limits
from truth import horizon

from abps.model.neighbourhood import Neighbourhood
from abps.policies.policy import PolicySpace
from abps.rollouts.episode import run_episode
from abps.seeding import integer_seed

RESULTS = Path(__file__).parent / "gains.jsonl"
LENGTHS = (0.01, 0.02, 0.04, 0.07, 0.1)
EPISODES = 10
SCALINGS, TOLERANCE = 20, 0.01
DIRECTIONS = {
    "truth": "true gradient",
    "critics": "∇m̂, softmax",
    "abs": "Σ⁻¹μ, softmax",
    "abs_evidence": "Σ⁻¹μ, evidence",
}
Array = NDArray[np.float64]


def of_length(near: Neighbourhood, step: Array, length: float) -> Array:
    """The step scaled so that it changes the actions by so much."""
    for _ in range(SCALINGS):
        change = near.action_change(near.centre.parameters + step)
        if abs(change - length) <= TOLERANCE * length:
            return step
        step = step * (length / change)
    raise SystemExit(f"no step of this direction changes the actions by {length}")


def value(case: Case, parameters: Array) -> float:
    """J of a policy, in scaled units."""
    task = case.pair.run.task
    spec, env = replace(task.spec, horizon=horizon(task)), task.make_env()
    policy = PolicySpace(case.space.policy_class, spec).policy(parameters, case.near.centre.normaliser)
    seeds = [integer_seed(0, "critic-study", "gain", number) for number in range(EPISODES)]
    returns = [case.objective.total(run_episode(env, policy, seed)) for seed in seeds]
    return float(np.mean(returns)) / case.near.scale


def gains(case: Case) -> dict[str, Any]:
    """The gains of one pair."""
    near, learner = case.near, case.learner(CPU, 0)
    learner.new_centre(near, case.replay(0), case.pair.iteration)
    models = {name: case.abs_with(learner, aggregation) for name, aggregation in AGGREGATIONS.items()}
    steps = {
        name: model.posterior_given_weights(model.weights(weights)).direction
        for name, (model, weights) in models.items()
    }
    directions = {
        "truth": case.truth.gradient,
        "critics": models["softmax"][0].mean_gradient(),
        "abs": steps["softmax"],
        "abs_evidence": steps["evidence"],
    }
    centre = near.centre.parameters
    start = value(case, centre)
    result: dict[str, Any] = {
        "pair": case.pair.name,
        "episodes": EPISODES,
        "lengths": LENGTHS,
        "value": round(start, 4),
    }
    for name, direction in directions.items():
        taken = [of_length(near, direction, length) for length in LENGTHS]
        result[name] = [round(value(case, centre + step) - start, 4) for step in taken]
    return result


def done() -> dict[str, dict[str, Any]]:
    """Results so far by pair, with today's lengths, number of episodes and directions."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    recipe = (EPISODES, list(LENGTHS))
    return {
        line["pair"]: line
        for line in map(json.loads, lines)
        if (line["episodes"], line["lengths"]) == recipe and DIRECTIONS.keys() <= line.keys()
    }


def render(results: dict[str, dict[str, Any]]) -> str:
    """Mean gain and how many steps gain at all, by task, direction and length; then every pair."""
    lengths = " | ".join(f"{length:g}" for length in LENGTHS)
    lines = [
        "# What a step gains",
        "",
        "Made by `python benchmarks/critics/gains.py --table > benchmarks/critics/GAINS.md`; "
        "README.md says what it means. "
        "Columns: change of the actions.",
        f"Mean gain of J (scaled) over the pairs of a task, and how many of them gain; {EPISODES} episodes each. "
        "The true gradient is that of J smoothed over perturbations of std 0.01.",
        "",
        f"| task | pairs | direction | {lengths} |",
        "|---|---:|---|" + "---:|" * len(LENGTHS),
    ]
    tasks = list(dict.fromkeys(pair.split("-")[0] for pair in results))
    for task in [*tasks, "all"]:
        rows = [row for pair, row in results.items() if task in ("all", pair.split("-")[0])]
        for name, head in DIRECTIONS.items():
            table = np.array([row[name] for row in rows])
            cells = [f"{column.mean():+.3f} ({int((column > 0).sum())})" for column in table.T]
            lines.append(f"| {task} | {len(rows)} | {head} | {' | '.join(cells)} |")
    lines += ["", "## Every pair", "", f"| pair | J | direction | {lengths} |"]
    lines.append("|---|---:|---|" + "---:|" * len(LENGTHS))
    for pair, row in results.items():
        for name, head in DIRECTIONS.items():
            cells = " | ".join(f"{gain:+.3f}" for gain in row[name])
            lines.append(f"| {pair} | {row['value']:.2f} | {head} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    known, runs = done(), {}
    if arguments.table:
        print(render({pair: known[pair] for pair in known_pairs() if pair in known}))
        return
    for pair in known_pairs():
        if pair not in known:
            line = gains(open_case(pair, arguments.work, runs))
            with RESULTS.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
