"""Every search that needs no episodes on functions drawn from a Gaussian process (GIBO paper, Section 5.1).

    python benchmarks/learning/synthetic.py --functions 5        # from the project's folder, inside its environment

Every search gets 300 noisy evaluations of a function on [0, 1]^d, the initial design included, and is judged by the
true relative error (f* − f(x)) / f* of its current point. All start from the middle of the cube. CMA-ES is the `cma`
package's, started with σ = 0.2; the other populations start with a standard deviation of 0.2, and the optimisers in a
box have the cube as theirs: all else of both is their default.
"""

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from abps.acquisition import ExpectedAscent, MaximiseCriterion, TraceReduction
from abps.model import GP
from abps.model.prior import ConstantPrior
from abps.policies.linear import ClippedLinear
from abps.policies.observations import RawObservations
from abps.rollouts import run_episode
from abps.search.ars import ArsConfig
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import make_search, search_config
from abps.seeding import integer_seed
from abps.settings import replace
from abps.steps.gradient import NormalisedGradient
from abps.steps.walk import Walk
from abps.tasks.gym import make_task
from abps.tasks.synthetic import SMOOTHNESS, SPREAD, SyntheticFunction, mean_distance, synthetic_task

EVALUATIONS = 300
NOISE = 0.1
POPULATIONS, BOXES = ("es", "snes", "pso"), ("turbo", "crbo", "klbo", "rducb")
SEARCHES = ("mpd", "gibo", "ars", "cma", *POPULATIONS, *BOXES)
SIDE = 0.5
"""Half a side of the cube: the box around its middle."""


def settings(name: str, dimension: int) -> SearchConfig:
    """One setting per search for all dimensions; those of MPD, GIBO and ARS were chosen on functions 100 to 102."""
    if name in POPULATIONS:
        population: Any = search_config(name)
        return replace(population, policy=ClippedLinear(), strategy=replace(population.strategy, std=0.2))
    if name in BOXES:
        return replace(search_config(name), policy=ClippedLinear(), box=SIDE)
    return local_settings(name, dimension)


def local_settings(name: str, dimension: int) -> SearchConfig:
    """MPD, GIBO and ARS.

    Noise is the same everywhere and known to be about 0.1, so that no evaluation is spent on repeating the centre. MPD
    gets the lengthscales' bounds of the prior that the functions come from (with GIBO's wide ones it was at 0.178
    instead of 0.106 to 0.156, d = 36) and moves after every four probes.
    """
    if name == "mpd":
        unit = SMOOTHNESS * mean_distance(dimension) / np.sqrt(dimension)
        low, high = (float(factor * unit) for factor in SPREAD)
        return LocalSearchConfig(
            policy=ClippedLinear(),
            prior=ConstantPrior(bound=10.0),
            gp=GP(lengthscale_low=low, lengthscale_high=high, noise_floor=NOISE),
            probing=MaximiseCriterion(ExpectedAscent(), radius=0.1, start_std=0.1),
            step=Walk(length=0.02),
            plan=CentreThenProbes(centre_episodes=1, probes=4, window=40, design_std=0.1),
        )
    if name == "gibo":
        probes = max(6, dimension // 3)
        return LocalSearchConfig(
            policy=ClippedLinear(),
            prior=ConstantPrior(bound=10.0),
            gp=GP(lengthscale_low=0.05, lengthscale_high=0.5, noise_floor=NOISE),
            probing=MaximiseCriterion(TraceReduction(), radius=0.25, start_std=0.1),
            step=NormalisedGradient(length=0.15),
            plan=CentreThenProbes(centre_episodes=1, probes=probes, window=5 * (1 + probes), design_std=0.1),
        )
    count = max(4, dimension // 4)
    return ArsConfig(observations=RawObservations(), step=0.1, noise=0.1, directions=count, top=count)


def with_search(name: str, function: SyntheticFunction, dimension: int, seed: int) -> float:
    """Relative error of the current point after the last evaluation."""
    task = make_task(replace(synthetic_task(dimension, function.seed), reward_scale=1.0))
    env = task.make_env()
    budget = BudgetConfig(episodes=EVALUATIONS)
    search = make_search(name, task.spec, settings(name, dimension), seed=seed, budget=budget)
    episode = 0
    while not search.stop():
        query = search.ask()
        outcomes = []
        for _ in range(query.episodes):
            outcomes.append(run_episode(env, query.policy, integer_seed(seed, "episode", episode)))
            episode += 1
        search.tell(query, outcomes)
    return float(function.relative_error(np.clip(0.5 + search.incumbent.parameters, 0.0, 1.0)))


def with_cma(function: SyntheticFunction, dimension: int, seed: int) -> float:
    """Relative error of CMA-ES's favourite point, with its bounds handled by the package."""
    import cma

    rng = np.random.default_rng(seed)
    options = {"bounds": [0.0, 1.0], "seed": seed + 1, "verbose": -9, "maxfevals": EVALUATIONS}
    strategy = cma.CMAEvolutionStrategy(np.full(dimension, 0.5), 0.2, options)
    spread = np.sqrt(function.noise_variance)
    while strategy.countevals < EVALUATIONS:
        points = strategy.ask()
        strategy.tell(points, [-(function.value(point) + spread * rng.standard_normal()) for point in points])
    return float(function.relative_error(np.clip(strategy.result.xfavorite, 0.0, 1.0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[12, 24, 36])
    parser.add_argument("--functions", type=int, default=5, help="functions per dimension, one run each")
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=SEARCHES)
    arguments = parser.parse_args()
    searches = tuple(arguments.searches)
    print(f"mean relative error (± standard error) after {EVALUATIONS} evaluations, {arguments.functions} functions\n")
    print("| d | start | " + " | ".join(searches) + " | seconds |\n|---:|" + "---:|" * (len(searches) + 2))
    for dimension in arguments.dimensions:
        start = time.perf_counter()
        errors: dict[str, list[float]] = {name: [] for name in ("start", *searches)}
        for number in range(arguments.functions):
            function = SyntheticFunction(dimension, number)
            errors["start"].append(float(function.relative_error(np.full(dimension, 0.5))))
            for name in searches:
                run = with_cma if name == "cma" else lambda *rest, name=name: with_search(name, *rest)
                errors[name].append(run(function, dimension, number))
        cells = [f"{np.mean(e):.3f} ± {np.std(e) / np.sqrt(len(e)):.3f}" for e in errors.values()]
        print(f"| {dimension} | " + " | ".join(cells) + f" | {time.perf_counter() - start:.0f} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
