"""`abps doctor`: is everything here that the commands need, and does it work?"""

import argparse
import json
from collections.abc import Callable

HELP = "Check the installation: versions, optional packages, and a short rollout of every task."

OPTIONAL = {
    "ray": "abps compare --executor ray",
    "tensorboardX": "--log tensorboard",
    "wandb": "--log wandb",
    "onnx": "abps export --format onnx",
    "onnxruntime": "verifying ONNX exports",
    "imageio_ffmpeg": "abps video",
    "optuna": "abps tune",
    "cma": "the search cma (CMA-ES)",
}
"""Every package of the optional extras, and what it is for."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace) -> int:
    from importlib.util import find_spec

    from abps.run.directory import stamp_versions
    from abps.tasks.catalogue import PAPER_TASKS

    versions = stamp_versions()
    optional = {name: find_spec(name) is not None for name in OPTIONAL}
    tasks = {name: _checked(lambda name=name: _try_task(name)) for name in PAPER_TASKS}
    tasks["jax (paper preset's critics)"] = _checked(_try_jax)
    if arguments.json:
        print(json.dumps({"versions": versions, "optional": optional, "checks": tasks}))
    else:
        for name, version in versions.items():
            print(f"{name:15} {version}")
        for name, there in optional.items():
            print(f"{name:15} {'installed' if there else f'missing (only needed for {OPTIONAL[name]})'}")
        for name, result in tasks.items():
            print(f"{name:30} {result}")
    return 0 if all(result == "works" for result in tasks.values()) else 1


def _checked(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:
        return f"FAILS: {error}"
    return "works"


def _try_task(name: str) -> None:
    from abps.normaliser import Normaliser
    from abps.policies import PolicySpace
    from abps.policies.linear import LinearTanh
    from abps.rollouts import run_episode
    from abps.tasks.catalogue import task_config
    from abps.tasks.gym import make_task

    task = make_task(task_config(name), horizon=10)
    env = task.make_env()
    space = PolicySpace(LinearTanh(), task.spec)
    run_episode(env, space.policy(space.initial(), Normaliser.empty(task.spec.observation_dim)), seed=0)
    env.close()


def _try_jax() -> None:
    import jax.numpy as jnp

    if float(jnp.ones(3).sum()) != 3.0:
        raise RuntimeError("jax computes 1 + 1 + 1 wrongly")
