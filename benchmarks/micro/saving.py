"""What saving costs: the share of a run's time spent in journal, metrics, policies and checkpoints, with 10⁶
transitions in replay.

    python benchmarks/micro/saving.py [--transitions 1000000] [--episodes 30] [--default]

ABS trains on HalfCheetah (1000 steps per episode) with small outer iterations and without evaluation, which makes
saving look worse than in a real run. Before the clock starts, replay is filled. For contrast, the last line is what a
checkpoint would cost if it held the transitions.
"""

import argparse
import functools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from abps.critics.lstd_config import Lstd
from abps.model.prior import AdvantagePrior
from abps.run import run as run_module
from abps.run.checkpoint import save_checkpoint
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, create_directory
from abps.run.journal import Journal
from abps.run.loop import train
from abps.run.metrics import MetricsFile
from abps.run.run import Run
from abps.search.budget import BudgetConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.catalogue import task_config
from abps.trajectory import Trajectory

LIMIT = 0.03


class Clock:
    """Adds up the time spent in some functions."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def watch(self, owner, name: str, label: str) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*arguments, **options):
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[label] += time.perf_counter() - start
                self.calls[label] += 1

        setattr(owner, name, timed)


class Filler:
    """An observer that fills replay before the first episode, and afterwards saves once with the transitions
    included."""

    def __init__(self, transitions: int) -> None:
        self.transitions, self.with_replay, self.started = transitions, 0.0, 0.0

    def begin(self, run: Run) -> None:
        rng = np.random.default_rng(0)
        spec, replay = run.spec, run.search.replay
        episode = Trajectory.build(
            rng.normal(size=(1001, spec.observation_dim)),
            rng.uniform(-1.0, 1.0, size=(1000, spec.action_dim)),
            rng.normal(size=1000),
            terminated=False,
            truncated=True,
        )
        for _ in range(self.transitions // 1000):
            replay.append(episode)
        self.started = time.perf_counter()

    def episode(self, run: Run, outcome) -> None: ...

    def iteration(self, run: Run, metrics) -> None: ...

    def end(self, run: Run, reasons) -> None:
        self.stopped = time.perf_counter()
        state = {"search": run.search.state(replay=True)}
        start = time.perf_counter()
        save_checkpoint(run.path / "with-replay", 1, state)
        self.with_replay = time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--default", action="store_true", help="the task's own settings, evaluation included")
    arguments = parser.parse_args()
    clock = Clock()
    clock.watch(Journal, "append", "journal, one wait per episode")
    clock.watch(MetricsFile, "append", "metrics, per outer iteration")
    clock.watch(Run, "_save_policies", "policies, per outer iteration")
    clock.watch(Run, "_save_checkpoint", "checkpoint, per outer iteration")
    assert run_module.Run is Run
    task = task_config("cheetah")
    config, run = search_config("abs", "cheetah", "paper"), RunConfig()
    config = replace(config, prior=AdvantagePrior(critics=Lstd()))
    if not arguments.default:
        config, run = replace(config, plan=CentreThenProbes(2, 6, 12)), RunConfig(evaluate_every=0)
    settings = RunSettings(task, "abs", config, BudgetConfig(episodes=arguments.episodes), run, seed=0)
    filler = Filler(arguments.transitions)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        create_directory(Path(folder) / "run", settings)
        result = train(Path(folder) / "run", settings, (filler,))
    total = filler.stopped - filler.started
    for label, seconds in clock.seconds.items():
        calls = clock.calls[label]
        print(f"{label:34} {calls:4} × {1e3 * seconds / calls:7.1f} ms  {seconds / total:7.2%} of the run")
    share = sum(clock.seconds.values()) / total
    print(
        f"{result.episodes} episodes, {arguments.transitions} transitions in replay, {total:.1f} s: "
        f"saving takes {share:.2%}"
    )
    print(f"a checkpoint with the transitions in it would take {filler.with_replay:.2f} s each time")
    return 0 if share < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
