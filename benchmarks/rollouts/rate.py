"""What a rollout costs beside the simulator: its rate as a ratio to a bare `env.step` loop, in the same process.

    python benchmarks/rollouts/rate.py                    # HalfCheetah; --task for another, --steps for longer

Both loops simulate the same physics: the policy's parameters are zero, so its (fully computed) action is the constant
one of the bare loop. Episodes of the two are alternated and medians compared, because a shared machine's speed drifts.
"""

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np

from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.rollouts import run_episode
from abps.tasks.catalogue import task_config
from abps.tasks.gym import make_task

WANTED = 0.85


def bare_episode(env: Any, action: np.ndarray, steps: int, seed: int) -> int:
    """Step the environment with one constant action, keeping nothing."""
    env.reset(seed=seed)
    for count in range(1, steps + 1):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            return count
    return steps


def rates(name: str, repeats: int, horizon: int) -> tuple[list[float], list[float]]:
    """Steps per second of the bare loop and of `run_episode`, one of each per repeat."""
    task = make_task(task_config(name), horizon=horizon)
    env, spec = task.make_env(), task.spec
    moments = Normaliser(1000, np.zeros(spec.observation_dim), np.full(spec.observation_dim, 1000.0))
    space = PolicySpace(LinearTanh(), spec)
    policy = space.policy(np.zeros(space.size), moments)
    action = policy(np.zeros(spec.observation_dim))
    bare, full = [], []
    for seed in range(repeats + 1):
        start = time.perf_counter()
        count = bare_episode(env, action, horizon, seed)
        middle = time.perf_counter()
        steps = len(run_episode(env, policy, seed))
        end = time.perf_counter()
        if seed:  # The first pair warms caches up.
            bare.append(count / (middle - start))
            full.append(steps / (end - middle))
    return bare, full


def main() -> int:
    """Print both rates and their ratio; exit code 1 below the wanted ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cheetah")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--steps", type=int, default=500, help="longest episode")
    arguments = parser.parse_args()
    bare, full = rates(arguments.task, arguments.repeats, arguments.steps)
    # The median of the pairs' ratios: a slow moment of the machine hits both members of a pair.
    ratio = statistics.median(mine / theirs for mine, theirs in zip(full, bare, strict=True))
    print(
        f"{arguments.task}: bare env.step loop {statistics.median(bare):,.0f} steps/s (median of {len(bare)} episodes)"
    )
    print(f"{arguments.task}: run_episode       {statistics.median(full):,.0f} steps/s")
    print(f"ratio {ratio:.3f} (wanted: at least {WANTED})")
    return 0 if ratio >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
