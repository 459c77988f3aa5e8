"""ABS on Ant with a full replay: peak memory, and the mean function's time as a share of the critics'.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/micro/abs_on_ant.py lstd
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/micro/abs_on_ant.py droq        # preset paper

The replay is filled to its 10⁶ transitions with real episodes of random policies, appended again and again; then the
search (the paper's ABS) runs outer iterations on the task, rollouts and Gaussian process included. With `droq` only
`STEPS` of the recipe's gradient steps are taken, after a centre and `PROBES` probes, to see the result in minutes:
memory does not depend on how many there are, and the critics' time is scaled up to the recipe's steps.
"""

import argparse
import resource
import time

import numpy as np
from threadpoolctl import threadpool_limits

from abps.critics.droq_config import Droq
from abps.critics.lstd_config import Lstd
from abps.model.prior import AdvantagePrior
from abps.rollouts import run_episode
from abps.search.local import LocalSearch
from abps.search.registry import search_config
from abps.seeding import integer_seed
from abps.settings import replace
from abps.tasks.catalogue import task_config
from abps.tasks.gym import make_task

STEPS, PROBES = 20, 3
ITERATIONS = 2


def gigabytes() -> float:
    """Peak resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("lstd", "droq"))
    kind = parser.parse_args().kind
    config, recipe = search_config("abs", "ant", "paper"), Droq()
    if kind == "lstd":
        config = replace(config, prior=AdvantagePrior(critics=Lstd()))
    else:
        few = replace(recipe, steps_first=STEPS, steps_probe=STEPS, steps_centre=STEPS)
        config = replace(config, prior=AdvantagePrior(critics=few), plan=replace(config.plan, probes=PROBES))
    task = make_task(task_config("ant"))
    env = task.make_env()
    search = LocalSearch(task.spec, config, seed=0)
    print(f"started: {gigabytes():.2f} GB")
    fill(search, env)
    print(f"replay of {len(search.replay):,} transitions: {gigabytes():.2f} GB", flush=True)
    episode, metrics = 0, {}
    while search.iteration < ITERATIONS:
        query, outcomes = search.ask(), []
        for _ in range(query.episodes):
            outcomes.append(run_episode(env, query.policy, integer_seed(0, "memory", episode)))
            episode += 1
        metrics = search.tell(query, outcomes) or metrics
    print(f"after {ITERATIONS} outer iterations, {episode} episodes: peak {gigabytes():.2f} GB")
    critics, mean = metrics["seconds_critics"], metrics["seconds_mean"]
    if kind == "droq":
        taken = STEPS * (1 + PROBES)
        asked = recipe.steps_centre + recipe.steps_probe * PROBES
        print(
            f"{critics / taken * 1e3:.1f} ms per gradient step of {recipe.members} pairs; "
            f"the recipe's {asked:,} steps are counted"
        )
        critics *= asked / taken
    print(f"last iteration: critics {critics:.2f} s, mean function and scores {mean:.2f} s, ratio {mean / critics:.4f}")


def fill(search: LocalSearch, env) -> None:
    """Real episodes of random policies until the replay is full; more different ones would take no more room."""
    rng, start = np.random.default_rng(0), time.perf_counter()
    episodes = []
    for number in range(10):
        parameters = search.config.plan.design_std * rng.standard_normal(search.policies.size)
        policy = search.policies.policy(parameters, search.normaliser)
        episodes.append(run_episode(env, policy, integer_seed(0, "fill", number)))
    while len(search.replay) < search.replay.capacity:
        for trajectory in episodes:
            search.replay.append(trajectory)
    print(f"filled in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
