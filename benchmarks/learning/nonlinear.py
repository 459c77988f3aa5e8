"""Policies that are not linear: does ABS learn with them, also where no linear policy is good?

    python benchmarks/learning/nonlinear.py run                        # goes on where it stopped
    python benchmarks/learning/nonlinear.py run --searches cma --marks 500,1500,3000 --tasks swingup
    python benchmarks/learning/nonlinear.py run --searches snes,pso --marks 300,1000 --tasks swingup
    python benchmarks/learning/nonlinear.py table                      # medians of everything that was run
    python benchmarks/learning/nonlinear.py critics                    # do the critics point uphill? (swing-up)
    python benchmarks/learning/nonlinear.py ascend                     # the same chart with gradients by simulation
    python benchmarks/learning/nonlinear.py chart                      # cost of the chart by parameters and actions

`swingup` is Gymnasium's Pendulum-v1, `mountaincar` MountainCarContinuous-v0; the others, of `tasks.py`, are tasks that
a linear policy solves, as controls. ABS runs with its default settings, and only `--policy` changes; what is evaluated
is its current policy, by ten fresh episodes. CMA-ES is pycma with its defaults, σ₀ 0.5, on the same policy with the
same standardised inputs; any other search is the one of the registry, with its defaults. Results are appended to
`nonlinear.jsonl`, one line per run.
"""

import argparse
import json
import subprocess
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from own_tasks import Bench, seeds_of
from tasks import TASKS, Task
from threadpoolctl import threadpool_limits

from abps.arrays import Array
from abps.data.visits import Visits
from abps.model.advantage import advantage_gradients
from abps.model.chart import ActionMetric, Coordinates
from abps.model.prior import cosine
from abps.normaliser import Normaliser
from abps.policies.base import PolicyClass
from abps.policies.features import Fourier, Radial
from abps.policies.linear import LinearTanh
from abps.policies.mlp import Mlp
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts.episode import run_episode
from abps.search.registry import search_config
from abps.seeding import generator, integer_seed
from abps.settings import replace
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

RESULTS = Path(__file__).with_name("nonlinear.jsonl")
HARD = {
    "swingup": Task("swingup", lambda: gymnasium.make("Pendulum-v1", disable_env_checker=True), 200),
    "mountaincar": Task(
        "mountaincar", lambda: gymnasium.make("MountainCarContinuous-v0", disable_env_checker=True), 999
    ),
}
TASKS.update(HARD)
CLASSES: dict[str, PolicyClass] = {
    "linear": LinearTanh(bias=True),
    "fourier": Fourier(),
    "radial": Radial(),
    "mlp": Mlp(),
    "mlp-output": Mlp(output_only=True),
}
MOVE = 0.2
"""Length of the moves that gradients by simulation are made of, in the chart."""


def train_cma(bench: Bench, space: PolicySpace, normaliser: Normaliser) -> None:
    """pycma's ask and tell; its distribution's mean is the current policy."""
    import cma

    strategy = cma.CMAEvolutionStrategy(space.initial(), 0.5, {"seed": bench.seed + 1, "verbose": -9})
    mean = space.initial()
    while bench.episodes < bench.marks[-1]:
        candidates = strategy.ask()
        losses = []
        for candidate in candidates:
            policy = space.policy(np.asarray(candidate), normaliser)
            outcome = bench.run(policy, lambda mean=mean: space.policy(mean, normaliser))
            losses.append(-outcome.total() if isinstance(outcome, Trajectory) else 1e9)
        strategy.tell(candidates, losses)
        mean = np.array(strategy.result.xfavorite)


def train(bench: Bench, policy_class: PolicyClass, name: str = "abs") -> Any:
    """A search of the registry with its default settings until the last mark."""
    config: Any = replace(search_config(name, bench.task.spec.name), policy=policy_class)
    search = config.make(bench.task.spec, seed=bench.seed, name=name)
    while bench.episodes < bench.marks[-1]:
        query = search.ask()
        search.tell(query, [bench.run(query.policy, lambda: search.incumbent) for _ in range(query.episodes)])
    return search


def train_standardised_cma(bench: Bench, policy_class: PolicyClass) -> None:
    """CMA-ES with inputs standardised by one episode of the untrained policy."""
    space, normaliser = PolicySpace(policy_class, bench.task.spec), Normaliser.empty(bench.task.spec.observation_dim)
    first = run_episode(bench.env, space.policy(space.initial(), normaliser), bench.seed)
    train_cma(bench, space, normaliser.add(first.observations).with_scales())


def run(arguments: argparse.Namespace) -> None:
    marks = sorted(int(word) for word in arguments.marks.split(","))
    done = {(row["search"], row["policy"], row["task"], row["seed"], max(map(int, row["returns"]))) for row in rows()}
    for task in arguments.tasks.split(","):
        for seed in seeds_of(arguments.seeds):
            for search in arguments.searches.split(","):
                for name in arguments.policies.split(","):
                    if (search, name, task, seed, marks[-1]) in done:
                        continue
                    bench, start = Bench(task, seed, marks), time.perf_counter()
                    if search == "cma":
                        train_standardised_cma(bench, CLASSES[name])
                    else:
                        train(bench, CLASSES[name], search)
                    thinking = time.perf_counter() - start - sum(bench.seconds.values())
                    row = {"search": search, "policy": name, "task": task, "seed": seed, "commit": commit()}
                    row |= {"parameters": PolicySpace(CLASSES[name], bench.task.spec).size, "returns": bench.returns}
                    row |= {"seconds_episodes": bench.seconds["episodes"], "seconds_thinking": thinking}
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    shown = {mark: round(value[0], 1) for mark, value in bench.returns.items()}
                    print(search, name, task, seed, shown, flush=True)


def commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table() -> None:
    """Medians over seeds with their range, a row per task, search and policy."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows():
        groups[row["task"], row["search"], row["policy"]].append(row)
    print("| task | search | policy | parameters | seeds | episodes: median return [lowest, highest] | thinking |")
    print("|---|---|---|---|---|---|---|")
    for (task, search, policy), found in groups.items():
        cells = []
        for mark in sorted({int(mark) for row in found for mark in row["returns"]}):
            values = [row["returns"][str(mark)][0] for row in found if str(mark) in row["returns"]]
            cells.append(f"{mark}: **{np.median(values):.4g}** [{min(values):.4g}, {max(values):.4g}]")
        each = np.median([row["seconds_thinking"] / max(map(int, row["returns"])) for row in found])
        print(
            f"| {task} | {search} | {policy} | {found[0]['parameters']} | {len(found)} | {'; '.join(cells)} "
            f"| {each:.2g} s |"
        )


# ---- why: gradients by simulation ------------------------------------------------------------------------------------


def simulated_gradient(bench: Bench, policy: Policy, chart: Coordinates, pairs: int) -> tuple[Array, float]:
    """∇J in the chart from antithetic random moves, and the cosine of its two halves: how far it can be believed."""
    rng, size = generator(bench.seed, "simulated gradient"), chart.centre.size
    halves = np.zeros((2, size))
    for pair in range(pairs):
        move = rng.standard_normal(size)
        values = [
            run_episode(
                bench.env,
                policy.space.policy(chart.to_parameters(chart.centre + sign * move), policy.normaliser),
                integer_seed(bench.seed, "gradient episode", pair),
            ).total()
            for sign in (MOVE / np.sqrt(size), -MOVE / np.sqrt(size))
        ]
        halves[pair % 2] += (values[0] - values[1]) * move
    return halves.sum(axis=0), float(cosine(halves[0], halves[1]) or 0.0)


def critics(arguments: argparse.Namespace) -> None:
    """The critics' gradients at the centre of ABS after a few episodes, beside the simulated one."""
    print("| policy | seed | halves of the simulation | ensemble | " + "members (γ, λ, ridge) |")
    print("|---|---|---|---|---|")
    for name in arguments.policies.split(","):
        for seed in seeds_of(arguments.seeds):
            bench = Bench("swingup", seed, [arguments.episodes])
            search = train(bench, CLASSES[name])
            near, learner = search.neighbourhood(), search.prior
            true, halves = simulated_gradient(bench, near.centre, near.coordinates, arguments.pairs)
            raw = advantage_gradients(learner.critics, near.centre, near.recent_visits)
            members = near.coordinates.gradients(raw.T)
            names = [
                (*reach, ridge) for reach in learner.critics.reach for ridge in learner.critics.config.value_ridges
            ]
            cells = [f"{key}: {cosine(member, true):.2f}" for key, member in zip(names, members, strict=True)]
            ensemble = cosine(learner.ascent(near).direction, true)
            print(f"| {name} | {seed} | {halves:.2f} | {ensemble:.2f} | {', '.join(cells)} |", flush=True)


def ascend(arguments: argparse.Namespace) -> None:
    """Steps of fixed length along the simulated gradient in the action-metric chart: what a perfect critic would do."""
    for name in arguments.policies.split(","):
        bench = Bench("swingup", 0, [0])
        space, chart = PolicySpace(CLASSES[name], bench.task.spec), ActionMetric()
        theta, normaliser = space.initial(), Normaliser.empty(bench.task.spec.observation_dim)
        first = run_episode(bench.env, space.policy(theta, normaliser), 0)
        if name != "linear":
            normaliser = normaliser.add(first.observations).with_scales()
        for step in range(arguments.steps + 1):
            policy = space.policy(theta, normaliser)
            if step % 5 == 0:
                print(f"{name}, {step} steps: {bench.evaluate(policy)[0]:.0f}", flush=True)
            seeds = [integer_seed(step, "ascend", number) for number in range(8)]
            visits = Visits.collect([run_episode(bench.env, policy, seed) for seed in seeds], 1.0)
            coordinates = chart.at(policy, visits)
            bench.seed = step  # Other moves and starts at every step.
            gradient, _ = simulated_gradient(bench, policy, coordinates, arguments.pairs)
            theta = coordinates.to_parameters(arguments.length * gradient / np.linalg.norm(gradient))
            bench.seed = 0


def chart_costs() -> None:
    """Processor time of one chart with the metric over 2048 states, by observations, actions and class."""
    print("| observations | actions | policy | parameters | chart, ms |")
    print("|---|---|---|---|---|")
    for s, a in ((3, 1), (11, 3), (27, 8)):
        spec = TaskSpec("cost", s, a, (-1.0,) * a, (1.0,) * a)
        rng = np.random.default_rng(0)
        states = rng.standard_normal((2048, s))
        for name, policy_class in {**CLASSES, "mlp 32, 32": Mlp(hidden=(32, 32))}.items():
            space = PolicySpace(policy_class, spec)
            policy = space.policy(space.initial() + 0.1 * rng.standard_normal(space.size), Normaliser.empty(s))
            visits, start = Visits(states, policy.actions(states), np.ones(2048)), time.process_time()
            ActionMetric().at(policy, visits)
            print(f"| {s} | {a} | {name} | {space.size} | {1e3 * (time.process_time() - start):.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table", "critics", "ascend", "chart"))
    parser.add_argument("--tasks", default="swingup,mountaincar,cartpole")
    parser.add_argument("--searches", default="abs")
    parser.add_argument("--policies", default="linear,fourier,mlp")
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--marks", default="50,100")
    parser.add_argument("--episodes", type=int, default=30, help="critics: episodes of ABS before")
    parser.add_argument("--pairs", type=int, default=500, help="critics, ascend: pairs of episodes of a gradient")
    parser.add_argument("--steps", type=int, default=40, help="ascend: steps")
    parser.add_argument("--length", type=float, default=0.2, help="ascend: length of a step in the chart")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        commands = {"run": run, "critics": critics, "ascend": ascend}
        if arguments.command in commands:
            commands[arguments.command](arguments)
        elif arguments.command == "table":
            table()
        else:
            chart_costs()


if __name__ == "__main__":
    main()
