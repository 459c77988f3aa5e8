"""Ablation of the fast ABS: one remedy off at a time, all else as it is by default.

    python benchmarks/learning/ablation.py run                                # goes on where it stopped
    python benchmarks/learning/ablation.py run --tasks cheetah --seeds 700-702 --without paths,chart
    python benchmarks/learning/ablation.py table

The current policy is evaluated by ten fresh episodes at every mark, as in `own_tasks.py`. Seeds from 700 on were not
used to choose anything. Results are appended to `ablation.jsonl`, one line per run.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from own_tasks import Bench, rows, seeds_of, train
from threadpoolctl import threadpool_limits

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import MaximiseCriterion
from abps.critics.improvement import NoImprovement
from abps.model.chart import Identity
from abps.model.prior import ConstantPrior
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes, PathsAroundCentre, Situation, Stage
from abps.search.recipes import fast_abs
from abps.search.restarts import NoRestarts
from abps.settings import replace
from abps.steps.walk import Walk

RESULTS = Path(__file__).with_name("ablation.jsonl")


@dataclass(frozen=True)
class SlowPaths(PathsAroundCentre):
    """Every path changes once from the beginning of the episode to its end: probes that are nearly fixed policies."""

    def next(self, situation: Situation) -> Stage | None:
        stage = super().next(situation)
        return replace(stage, path_interval=situation.horizon + 1) if stage is not None and stage.paths else stage


def _set(**values: object) -> Callable[[LocalSearchConfig], LocalSearchConfig]:
    """Settings by their names, `__` for a dot."""

    def change(config: LocalSearchConfig) -> LocalSearchConfig:
        for name, value in values.items():
            config = _with(config, name.split("__"), value)
        return config

    return change


def _with(part: object, path: list[str], value: object) -> object:
    inner = value if len(path) == 1 else _with(getattr(part, path[0]), path[1:], value)
    return replace(part, **{path[0]: inner})


VARIANTS: dict[str, tuple[str, Callable[[LocalSearchConfig], LocalSearchConfig]]] = {
    "nothing": ("the default", lambda config: config),
    "critics": (
        "no critics: most probable descent in the chart, one centre episode and four probes a step",
        _set(
            prior=ConstantPrior(),
            probing=MaximiseCriterion(ExpectedAscent(), start_std=0.1),
            step=Walk(),
            plan=CentreThenProbes(centre_episodes=1, probes=4, window=40, design_std=0.1),
        ),
    ),
    "chart": ("lengths of the parameters instead of lengths of the actions", _set(chart=Identity())),
    "one lengthscale": ("a lengthscale for every coordinate", _set(gp__shared_lengthscale=False)),
    "paths": (
        "probes that hardly change during an episode instead of paths",
        lambda config: replace(config, plan=SlowPaths()),
    ),
    "shifts": (
        "paths of the weights alone (0.12), none of the actions",
        _set(plan__path_shift=0.0, plan__path_size=0.12),
    ),
    "scouts": ("the first paths count as measurements", _set(plan__scouts=0)),
    "fresh data": ("critics on the newest 200 episodes instead of 24", _set(prior__critics__episodes=200)),
    "ensemble": (
        "one critic (γ 0.99, ridge 3, no traces) instead of eight",
        _set(prior__critics__gammas=(0.99,), prior__critics__traces=(0.0,), prior__critics__value_ridges=(3.0,)),
    ),
    "traces": ("no eligibility traces", _set(prior__critics__traces=(0.0,))),
    "networks": ("no improvement on stored data", _set(prior__improvement=NoImprovement())),
    "restarts": ("one attempt", _set(restarts=NoRestarts())),
    "near sight": ("no near-sighted attempts", _set(restarts__sight=1.0)),
    "control variates": (
        "neither start values nor offsets of paths are taken out of the returns",
        _set(prior__start_spread=0.0, prior__path_spread=0.0),
    ),
    "adaptive length": ("steps of 0.2, however much directions agree", _set(step__rate=0.0)),
    "jumps": ("no probe ahead; the centre is repeated", _set(step__jump=0.0)),
    "retreats": ("never back to an earlier centre", _set(step__doubt=1.0 - 1e-12, step__doubt_many=1.0 - 1e-12)),
}
"""What is taken away → in words, and the change of the settings."""


def run(arguments: argparse.Namespace) -> None:
    marks = sorted(int(word) for word in arguments.marks.split(","))
    done = {(row["without"], row["task"], row["seed"]) for row in rows(RESULTS)}
    for seed in seeds_of(arguments.seeds):
        for task in arguments.tasks.split(","):
            for without in arguments.without.split(","):
                if (without, task, seed) in done:
                    continue
                bench, start = Bench(task, seed, marks), time.perf_counter()
                train(bench, VARIANTS[without][1](fast_abs(task)))
                thinking = time.perf_counter() - start - sum(bench.seconds.values())
                row = {"without": without, "task": task, "seed": seed, "returns": bench.returns}
                row |= {"seconds_episodes": bench.seconds["episodes"], "seconds_thinking": thinking}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(without, task, seed, {mark: round(value[0], 1) for mark, value in bench.returns.items()})


def table() -> None:
    """Medians with their range, a row for everything that can be taken away."""
    found = rows(RESULTS)
    tasks = list(dict.fromkeys(row["task"] for row in found))
    marks = sorted({int(mark) for row in found for mark in row["returns"]})
    print("| without | " + " | ".join(f"{task}, at {' / '.join(map(str, marks))}" for task in tasks) + " |")
    print("|---" * (len(tasks) + 1) + "|")
    for without, (words, _) in VARIANTS.items():
        cells = []
        for task in tasks:
            values = [row["returns"] for row in found if (row["without"], row["task"]) == (without, task)]
            numbers = np.array([[value[str(mark)][0] for mark in marks] for value in values])
            medians = " / ".join(f"{number:.4g}" for number in np.median(numbers, axis=0)) if values else ""
            span = f" [{numbers[:, -1].min():.4g}, {numbers[:, -1].max():.4g}]" if values else ""
            cells.append(medians + span)
        print(f"| {without}: {words} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--tasks", default="arm,cartpole,quadrotor")
    parser.add_argument("--seeds", default="700-704")
    parser.add_argument("--marks", default="50,100,200")
    parser.add_argument("--without", default=",".join(VARIANTS))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        if arguments.command == "run":
            run(arguments)
        else:
            table()


if __name__ == "__main__":
    main()
