"""`abps evaluate`: fresh episodes of a run's policy."""

import argparse
import json
from pathlib import Path

HELP = "Run fresh episodes of a run's policy and print its returns."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument(
        "--which", choices=("best", "current"), default="current", help="which policy (default: current)"
    )
    parser.add_argument("--episodes", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the evaluation's own stream (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from abps.errors import ConfigError, RunError
    from abps.policies import PolicySpace, load_policy
    from abps.rollouts.pool import make_pool
    from abps.run.directory import read_settings
    from abps.run.evaluation import evaluate
    from abps.tasks.gym import make_task
    from abps.words import count

    if arguments.episodes < 1 or arguments.workers < 1:
        raise ConfigError("--episodes and --workers must be at least 1")
    if arguments.seed < 0:
        raise ConfigError(f"--seed must not be negative, got {arguments.seed}")
    settings = read_settings(arguments.run)
    if settings.hardware is not None:
        raise RunError(f"{arguments.run} is a run on real hardware: there is no simulator to evaluate its policy in")
    task = make_task(settings.task)
    file = arguments.run / "policy" / f"{arguments.which}.npz"
    if not file.exists():
        raise RunError(f"{arguments.run} has no {arguments.which} policy yet: no outer iteration was finished")
    stored = load_policy(file, settings.search_config.policy)
    policy = PolicySpace(stored.space.policy_class, task.spec).policy(stored.parameters, stored.normaliser)
    pool = make_pool(task, arguments.workers)
    try:
        result = evaluate(pool, [policy], arguments.episodes, arguments.seed, "command")[0]
    finally:
        pool.close()
    if arguments.json:
        print(
            json.dumps(
                {
                    "run": str(arguments.run),
                    "policy": arguments.which,
                    **result._asdict(),
                    "mean": result.mean,
                    "std": result.std,
                }
            )
        )
    elif result.mean is None:
        print(f"all of {count(result.failed, 'episode')} failed")
    else:
        print(
            f"{arguments.which} policy of {arguments.run}: return {result.mean:.2f} ± {result.std:.2f} (std over "
            f"{count(len(result.returns), 'episode')}, {result.failed} failed), discounted "
            f"{result.mean_discounted:.2f}"
        )
    return 0 if result.mean is not None else 1
