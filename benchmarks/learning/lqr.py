"""How near searches come to the optimum of a linear-quadratic task, by the width of the range of its actions.

    python benchmarks/learning/lqr.py                                  # the table of docs/guides/which_search.md
    python benchmarks/learning/lqr.py --searches abs --seeds 10 --ranges 0.7

Four states, two actions, 60 steps, γ = 0.95, no noise and one start, so that an episode is its return exactly. The
optimal gain, by the Riccati equation, takes actions of 0.66 at most and 0.03 on average; the share that is left is
(its return − the current policy's) / (its return − doing nothing's). Every search with its defaults on a clipped linear
policy without bias; the objective is the task's discounted return.
"""

import argparse
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from abps.policies.linear import ClippedLinear
from abps.rollouts.episode import run_episode
from abps.search.registry import make_search, search_config
from abps.settings import replace
from abps.tasks.gym import make_task
from abps.tasks.lqr import make_env

MARKS, GAMMA, HORIZON = (30, 60, 100, 200), 0.95, 60


def shares_left(name: str, width: float, seed: int) -> list[float]:
    """After every mark."""
    made: Any = make_env(4, 2, 0, fixed_start=True, noise=0.0, horizon=HORIZON, action_bound=width)
    task = make_task(made, name="lqr", gamma=GAMMA, horizon=HORIZON)
    config: Any = replace(search_config(name, "lqr"), policy=ClippedLinear(), discount=None)
    search, env = make_search(name, task.spec, config, seed=seed), task.make_env()
    gains = (made.system.optimal_gain().ravel(), np.zeros(8))
    best, start = (run_episode(env, search.policies.policy(gain, search.normaliser), 0).total(GAMMA) for gain in gains)
    left: list[float] = []
    for mark in MARKS:
        while search.episodes < mark:
            query = search.ask()
            search.tell(query, [run_episode(env, query.policy, seed) for seed in query.seeds])
        left.append((best - run_episode(env, search.incumbent, 0).total(GAMMA)) / (best - start))
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", default="abs,klbo,snes,turbo")
    parser.add_argument("--ranges", default="0.7,2")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    print("| actions | search | " + " | ".join(f"{mark} episodes" for mark in MARKS) + " |")
    print("|---|---|" + "---:|" * len(MARKS))
    for width in map(float, arguments.ranges.split(",")):
        for name in arguments.searches.split(","):
            with threadpool_limits(1):
                left = np.array([shares_left(name, width, seed) for seed in range(arguments.seeds)])
            cells = [f"{np.median(c):.2f} [{c.min():.2f}, {c.max():.2f}]" for c in left.T]
            print(f"| ±{width:g} | `{name}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
