"""Own tasks: the current policy of a search after a few dozen episodes, beside CMA-ES on the same policy.

    python benchmarks/learning/own_tasks.py run --seeds 700-704       # goes on where it stopped
    python benchmarks/learning/own_tasks.py run --tasks cheetah,hopper --marks 100,300 --searches abs
    python benchmarks/learning/own_tasks.py run --searches es,snes --results benchmarks/peers/own_tasks.jsonl
    python benchmarks/learning/own_tasks.py table                     # the medians of everything that was run
    python benchmarks/learning/own_tasks.py figure                    # own_tasks.png

A search runs with its default settings (preset `cpu`); what is evaluated is its current policy, by ten fresh episodes.
CMA-ES (`cma`) is the search of that name, pycma with its defaults and σ₀ 0.5, but on the same policy as ABS (linear,
tanh, with bias, raw observations); `cma-nobias` is the search as it is, and `untrained` no training at all. Its
current policy is the mean of its distribution. Settings of ABS were chosen on seeds below 60; those from 700 on were
not looked at before. Results are appended to `own_tasks.jsonl`, one line per run.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from tasks import TASKS
from tasks import make_task as make_env
from threadpoolctl import threadpool_limits

from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import Policy, PolicySpace
from abps.rollouts.episode import attempt_episode, run_episode
from abps.search.registry import search_config
from abps.seeding import integer_seed
from abps.settings import replace
from abps.tasks.gym import Task, make_task

RESULTS = Path(__file__).with_name("own_tasks.jsonl")
SMALL = ("cart", "cartpole", "quadrotor", "arm", "chain", "longchain", "pump", "rooms")
SMALL += ("doublependulum", "reacher", "pusher", "pendulum")
LATER = ("crane", "ballbeam", "lane", "satellite", "tanks", "hill", "boat")
EVALUATIONS = 10
MOST_IN_FIGURE = 100
"""Episodes of the runs that the figure draws."""


def seeds_of(text: str) -> list[int]:
    """`100-104` or `0,3,7`."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(word) for word in text.split(",")]


class Bench:
    """One task and seed: runs episodes, evaluates the current policy at the marks, and takes the time."""

    def __init__(self, name: str, seed: int, marks: list[int]) -> None:
        self.task: Task = make_task(make_env(name), name=name, horizon=TASKS[name].horizon)
        self.env, self.fresh = make_env(name), make_env(name)
        self.seed, self.marks, self.episodes = seed, marks, 0
        self.seconds, self.returns = {"episodes": 0.0, "evaluation": 0.0}, {}

    def run(self, policy: Policy, current: Any) -> Any:
        """One training episode; `current()` gives the policy to evaluate when a mark is reached."""
        start = time.perf_counter()
        outcome = attempt_episode(self.env, policy, integer_seed(self.seed, "episode", self.episodes))
        self.seconds["episodes"] += time.perf_counter() - start
        self.episodes += 1
        if self.episodes in self.marks:
            start = time.perf_counter()
            self.returns[self.episodes] = self.evaluate(current())
            self.seconds["evaluation"] += time.perf_counter() - start
        return outcome

    def evaluate(self, policy: Policy) -> tuple[float, float]:
        """Mean undiscounted and discounted (0.99) return of fresh episodes."""
        episodes = [
            run_episode(self.fresh, policy, integer_seed(self.seed, "evaluation", number))
            for number in range(EVALUATIONS)
        ]
        return float(np.mean([e.total() for e in episodes])), float(np.mean([e.total(0.99) for e in episodes]))


def settings_of(search_name: str, task: str) -> tuple[str, Any]:
    """The registered name and the settings of a search of this bench."""
    registered, _, without_bias = search_name.partition("-")
    config: Any = search_config(registered, task)
    if registered == "cma":
        config = replace(config, policy=LinearTanh(bias=not without_bias))
    return registered, config


def train(bench: Bench, config: Any, name: str = "abs") -> None:
    """Ask and tell until the last mark."""
    search = config.make(bench.task.spec, seed=bench.seed, name=name)
    while bench.episodes < bench.marks[-1]:
        query = search.ask()
        search.tell(query, [bench.run(query.policy, lambda: search.incumbent) for _ in range(query.episodes)])


def evaluate_untrained(bench: Bench) -> None:
    """The policy that ABS and CMA-ES start from."""
    space = PolicySpace(LinearTanh(bias=True), bench.task.spec)
    policy = space.policy(space.initial(), Normaliser.empty(bench.task.spec.observation_dim))
    bench.returns = dict.fromkeys(bench.marks, bench.evaluate(policy))
    bench.seconds["episodes"] = float("nan")


def run(arguments: argparse.Namespace) -> None:
    marks = sorted(int(word) for word in arguments.marks.split(","))
    done = {(row["search"], row["task"], row["seed"], max(map(int, row["returns"]))) for row in rows(arguments.results)}
    for task in arguments.tasks.split(","):
        for seed in seeds_of(arguments.seeds):
            for search in arguments.searches.split(","):
                if (search, task, seed, marks[-1]) in done:
                    continue
                bench, start = Bench(task, seed, marks), time.perf_counter()
                if search == "untrained":
                    evaluate_untrained(bench)
                else:
                    registered, config = settings_of(search, task)
                    train(bench, config, registered)
                thinking = time.perf_counter() - start - sum(bench.seconds.values())
                row = {"search": search, "task": task, "seed": seed, "returns": bench.returns}
                row |= {"seconds_episodes": bench.seconds["episodes"], "seconds_thinking": thinking}
                with arguments.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(
                    search, task, seed, {mark: round(value[0], 1) for mark, value in bench.returns.items()}, flush=True
                )


def rows(results: Path = RESULTS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(results: Path) -> None:
    """Medians over seeds with their range, a row per task and search."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows(results):
        groups[row["task"], row["search"]].append(row)
    print(
        "| task | search | seeds | "
        + "episodes: median return of the current policy [lowest, highest] | thinking / episodes |"
    )
    print("|---|---|---|---|---|")
    for task in TASKS:
        for (name, search), found in sorted(groups.items()):
            if name != task:
                continue
            cells = []
            for mark in sorted({int(mark) for row in found for mark in row["returns"]}):
                values = [row["returns"][str(mark)][0] for row in found if str(mark) in row["returns"]]
                cells.append(f"{mark}: **{np.median(values):.4g}** [{min(values):.4g}, {max(values):.4g}]")
            ratio = np.median([row["seconds_thinking"] / row["seconds_episodes"] for row in found])
            print(f"| {task} | {search} | {len(found)} | {'; '.join(cells)} | {ratio:.2g} |")


def figure(path: Path) -> None:
    """A panel per task: medians and ranges of ABS and CMA-ES at the marks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows():
        if row["task"] in SMALL + LATER and max(map(int, row["returns"])) <= MOST_IN_FIGURE:
            groups[row["task"], row["search"]].append(row["returns"])
    plot, axes = plt.subplots(4, 5, figsize=(13, 8), layout="constrained")
    axes[-1, -1].axis("off")
    for panel, task in zip(axes.flat, SMALL + LATER, strict=False):
        for search, colour, shift in (("cma", "#b0720f", -1.0), ("abs", "#1f5fa8", 1.0)):
            found = groups[task, search]
            marks = sorted({int(mark) for returns in found for mark in returns})
            values = np.array([[returns[str(mark)][0] for returns in found] for mark in marks])
            middle = np.median(values, axis=1)
            bars = np.array([middle - values.min(axis=1), values.max(axis=1) - middle])
            label = {"abs": "ABS", "cma": "CMA-ES"}[search]
            panel.errorbar(np.array(marks) + shift, middle, bars, color=colour, marker="o", capsize=2, label=label)
        panel.set_title(task, fontsize=10)
        panel.set_xticks(marks)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=9)
    plot.supxlabel("episodes", fontsize=10)
    plot.supylabel("return of the current policy (median, lowest and highest of five seeds)", fontsize=10)
    plot.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table", "figure"))
    parser.add_argument("--tasks", default=",".join(SMALL + LATER))
    parser.add_argument("--searches", default="abs,cma")
    parser.add_argument("--seeds", default="700-704")
    parser.add_argument("--marks", default="30,60,100")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        if arguments.command == "run":
            run(arguments)
        elif arguments.command == "table":
            table(arguments.results)
        else:
            figure(Path(__file__).with_name("own_tasks.png"))


if __name__ == "__main__":
    main()
