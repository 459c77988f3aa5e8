"""References from deep RL: DDPG, TD3 and SAC of Stable-Baselines3, as curves that `abps import` reads.

    python benchmarks/peers/deep_rl.py setup                                     # once: its own environment, 1.1 GB
    benchmarks/peers/.venv-deep-rl/bin/python benchmarks/peers/deep_rl.py run --tasks pendulum --steps 20000 --seeds 0-2
    abps import benchmarks/peers/deep_rl.csv --runs runs
    abps compare pendulum --searches abs,ars --seeds 0-2 --with runs/pendulum --runs runs

Settings are the library's own, but for networks of 256 × 256 and Gaussian noise of 0.1 on the actions (of DDPG and TD3;
SAC explores by itself): nobody tuned them per task. The return is that of the deterministic policy on fresh episodes of
an environment of its own, measured every `--every` steps; those episodes do not count as training. Finished runs are
skipped, so the same command given again does what is missing. Tasks are those of `benchmarks/learning/tasks.py`.
"""

import argparse
import csv
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVIRONMENT = HERE / ".venv-deep-rl"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
COLUMNS = ("task", "search", "seed", "episodes", "steps", "return", "seconds")
ALGORITHMS = ("ddpg", "td3", "sac")
NETWORK, NOISE = [256, 256], 0.1

Row = dict[str, Any]


def setup() -> None:
    """Make the environment; torch comes first, without dependencies and without gigabytes of CUDA where possible."""
    venv.create(ENVIRONMENT, with_pip=True)
    requirements = HERE / "requirements-deep-rl.txt"
    torch = next(line for line in requirements.read_text().splitlines() if line.startswith("torch"))
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--extra-index-url", CPU_WHEELS, f"{torch}+cpu"], check=True)
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    print(f"made {ENVIRONMENT}")


def make_model(algorithm: str, env: Any, seed: int) -> Any:
    """An untrained agent."""
    import numpy as np
    import stable_baselines3 as sb3
    from stable_baselines3.common.noise import NormalActionNoise

    size = env.action_space.shape[0]
    noise = {} if algorithm == "sac" else {"action_noise": NormalActionNoise(np.zeros(size), np.full(size, NOISE))}
    make = {"ddpg": sb3.DDPG, "td3": sb3.TD3, "sac": sb3.SAC}[algorithm]
    return make("MlpPolicy", env, seed=seed, policy_kwargs={"net_arch": NETWORK}, device="cpu", **noise)


def evaluate(model: Any, env: Any, seed: int, episodes: int) -> float:
    """Mean return of fresh episodes of the deterministic policy, the same start states every time."""
    total = 0.0
    for number in range(episodes):
        observation, _ = env.reset(seed=1_000_000 + 1000 * seed + number)
        over = False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
    return total / episodes


def make_recorder(name: str, every: int, episodes: int, identity: Row, seed: int) -> Any:
    """A callback that evaluates before the first step and every so many steps, and keeps the rows of the curve."""
    from stable_baselines3.common.callbacks import BaseCallback
    from tasks import make_task

    class Recorder(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.rows: list[Row] = []
            self.finished, self.evaluating, self.began = 0, 0.0, 0.0
            self.env = make_task(name)

        def _record(self) -> None:
            start = time.perf_counter()
            value = evaluate(self.model, self.env, seed, episodes)
            self.evaluating += time.perf_counter() - start
            seconds = round(time.perf_counter() - self.began - self.evaluating, 2)
            counts = {"episodes": self.finished, "steps": self.num_timesteps, "return": value, "seconds": seconds}
            self.rows.append({**identity, **counts})

        def _on_training_start(self) -> None:
            self.began = time.perf_counter()
            self._record()

        def _on_step(self) -> bool:
            self.finished += int(sum(self.locals["dones"]))
            if self.num_timesteps % every == 0:
                self._record()
            return True

    return Recorder()


def train(task: str, algorithm: str, seed: int, arguments: argparse.Namespace) -> list[Row]:
    """One run; returns the rows of its curve."""
    from tasks import make_task

    identity = {"task": task, "search": algorithm, "seed": seed}
    recorder = make_recorder(task, arguments.every, arguments.evaluations, identity, seed)
    make_model(algorithm, make_task(task), seed).learn(arguments.steps, callback=recorder)
    return recorder.rows


def read(path: Path) -> list[Row]:
    """The rows of a file of curves; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path: Path, rows: list[Row]) -> None:
    """Add a finished run: the whole file is written anew beside the old one, and takes its place."""
    known = [row for row in read(path) if _key(row) != _key(rows[0])]
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*known, *rows])
    temporary.replace(path)


def run(arguments: argparse.Namespace) -> None:
    """Everything that is missing."""
    import torch

    sys.path.insert(0, str(HERE.parent / "learning"))
    torch.set_num_threads(1)
    for seed in seeds_of(arguments.seeds):
        for task in arguments.tasks.split(","):
            for algorithm in arguments.algorithms.split(","):
                key = (task, algorithm, str(seed))
                if any(_key(row) == key and int(row["steps"]) >= arguments.steps for row in read(arguments.out)):
                    continue
                rows = train(task, algorithm, seed, arguments)
                add(arguments.out, rows)
                last = rows[-1]
                print(
                    *key, f"{last['episodes']} episodes, return {last['return']:.1f}, {last['seconds']} s", flush=True
                )


def seeds_of(text: str) -> list[int]:
    """`0-4` or `0,3,7`."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(word) for word in text.split(",")]


def _key(row: Row) -> tuple[str, str, str]:
    return str(row["task"]), str(row["search"]), str(row["seed"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("setup", "run"))
    parser.add_argument("--tasks", default="pendulum")
    parser.add_argument("--algorithms", default="ddpg,td3", help=f"of {', '.join(ALGORITHMS)}")
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--steps", type=int, default=20_000, help="training steps per run")
    parser.add_argument("--every", type=int, default=1000, help="steps between two evaluations")
    parser.add_argument("--evaluations", type=int, default=5, help="episodes per evaluation")
    parser.add_argument("--out", type=Path, default=HERE / "deep_rl.csv")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    setup() if arguments.command == "setup" else run(arguments)


if __name__ == "__main__":
    main()
