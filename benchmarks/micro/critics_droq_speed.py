"""Speed of the DroQ training loop as a share of the one-core sgemm rate of 256×256 matrices, measured in one run.

Run: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/micro/critics_droq_speed.py
Both rates are GFLOP per second of processor time; only matrix products count, so that layer norm, dropout, Adam, target
networks and the drawing of batches are all overhead. The two are measured in turn, because the machine's speed changes.
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from abps.critics.droq import CHUNK
from abps.critics.droq_config import Droq
from abps.data import Replay
from abps.data.objective import Objective
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

STATES, ACTIONS = 17, 6
ROUNDS = 12


def sgemm_rate(size: int = 256, products: int = 20, repeats: int = 10) -> float:
    """GFLOP per processor second of square float32 products, best of a few."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    out, best = np.empty_like(left), np.inf
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(products):
            np.matmul(left, right, out=out)
        best = min(best, time.process_time() - start)
    return 2e-9 * size**3 * products / best


def step_gflop(config: Droq, inputs: int) -> float:
    """Products of one gradient step of all networks: two forward passes, weight gradients, and inner input
    gradients."""
    width, depth, batch = config.width, config.depth, config.batch
    first, inner, last = inputs * width, (depth - 1) * width * width, width
    return 2e-9 * batch * 2 * config.members * (3 * first + 4 * inner + 4 * last)


def main() -> None:
    rng = np.random.default_rng(0)
    spec = TaskSpec("speed", STATES, ACTIONS, (-1.0,) * ACTIONS, (1.0,) * ACTIONS)
    space = PolicySpace(LinearTanh(), spec)
    centre = space.policy(0.1 * rng.standard_normal(space.size), Normaliser.empty(STATES))
    replay = Replay(100_000, STATES, ACTIONS)
    for _ in range(50):
        observations, actions = rng.standard_normal((1001, STATES)), rng.uniform(-1, 1, (1000, ACTIONS))
        replay.append(Trajectory.build(observations, actions, rng.random(1000), terminated=False, truncated=True))
    config = Droq(steps_first=CHUNK, steps_probe=CHUNK)
    critics = config.make(space, Objective(spec.gamma, 0.0), 0)
    start = time.perf_counter()
    critics.start_centre(centre, replay, 100.0)
    print(f"first fit, compilation included: {time.perf_counter() - start:.1f} s")
    gemm, loop = [], []
    for _ in range(ROUNDS):
        gemm.append(sgemm_rate())
        start = time.process_time()
        critics.update(replay)
        loop.append(step_gflop(config, STATES + ACTIONS) * CHUNK / (time.process_time() - start))
        gemm.append(sgemm_rate())
    best, reference = max(loop), max(gemm)
    print(f"sgemm 256: best {reference:.1f}, median {np.median(gemm):.1f} GFLOP per CPU second")
    print(
        f"gradient steps of {config.members} pairs: best {best:.1f}, median {np.median(loop):.1f} GFLOP per CPU second"
    )
    print(f"best: {1000 * step_gflop(config, STATES + ACTIONS) / best:.1f} CPU ms per step")
    print(f"ratio: {best / reference:.2f} of the bests, {np.median(loop) / np.median(gemm):.2f} of the medians")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
