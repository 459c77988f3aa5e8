"""Seconds of one core that closed-form critics take: per new centre, per probe, and for the mean function and scores.

Run: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/micro/critics_lstd_speed.py
Sizes are those of HalfCheetah (s 17, a 6, d 102) with random transitions: the time does not depend on the numbers.
"""

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from abps.critics.lstd_config import Lstd, Relu
from abps.data import Replay
from abps.data.objective import Objective
from abps.data.visits import Visits
from abps.model.advantage import advantage_features, advantage_gradients, validation_advantages
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

STATES, ACTIONS, POINTS, KEPT = 17, 6, 75, 256


def random_episode(rng: np.random.Generator, steps: int = 1000) -> Trajectory:
    return Trajectory.build(
        rng.standard_normal((steps + 1, STATES)),
        rng.uniform(-1, 1, (steps, ACTIONS)),
        rng.standard_normal(steps),
        terminated=False,
        truncated=True,
    )


def cpu_seconds(job: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of a few calls: other programs on the machine can only add to it."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        job()
        best = min(best, time.process_time() - start)
    return best


def measure(config: Lstd) -> dict[str, float]:
    rng = np.random.default_rng(0)
    spec = TaskSpec("speed", STATES, ACTIONS, (-1.0,) * ACTIONS, (1.0,) * ACTIONS)
    space = PolicySpace(LinearTanh(), spec)
    centre = space.policy(0.1 * rng.standard_normal(space.size), Normaliser.empty(STATES))
    replay = Replay(200_000, STATES, ACTIONS)
    for _ in range(110):
        replay.append(random_episode(rng))
    critics = config.make(space, Objective(spec.gamma, 0.0), 0)
    points = centre.parameters + 0.02 * rng.standard_normal((POINTS, space.size))
    visits = [Visits.collect([random_episode(rng)], 0.99, KEPT, rng) for _ in range(POINTS)]

    def probe() -> None:
        replay.append(random_episode(rng))
        critics.update(replay)

    return {
        "centre": cpu_seconds(lambda: critics.start_centre(centre, replay, 100.0), 2),
        "probe": cpu_seconds(probe),
        "features": cpu_seconds(lambda: advantage_features(critics, centre, visits[0], points)),
        "gradient": cpu_seconds(lambda: advantage_gradients(critics, centre, visits[0])),
        "validation": cpu_seconds(lambda: validation_advantages(critics, centre, visits)),
    }


def main() -> None:
    heads = ["F", "groups", "members", "transitions", "layer norm", "centre s", "probe ms", "features ms"]
    print(f"| {' | '.join([*heads, 'gradient ms', 'validation ms'])} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for features, groups, members, transitions, norm in (
        (512, 5, 5, 30_000, False),
        (512, 5, 5, 30_000, True),
        (512, 2, 10, 30_000, False),
        (512, 1, 5, 100_000, False),
        (1024, 1, 5, 30_000, False),
        (256, 5, 5, 100_000, False),
    ):
        relu = Relu(size=features, layer_norm=norm)
        config = Lstd(features=relu, groups=groups, members=members, transitions=transitions)
        took = measure(config)
        rest = " | ".join(f"{1000 * took[name]:.0f}" for name in ("probe", "features", "gradient", "validation"))
        print(
            f"| {features} | {groups} | {members} | {transitions} | {norm} | {took['centre']:.2f} | {rest} |",
            flush=True,
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
