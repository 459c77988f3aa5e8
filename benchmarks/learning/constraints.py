"""Constraints: how many episodes break a limit, with the constraint and without it, and what keeping it costs.

    python benchmarks/learning/constraints.py                    # what is missing, then the table in constraints.md
    rm benchmarks/learning/constraints.jsonl                     # before it: everything is measured again
    python benchmarks/learning/constraints.py run --seeds 0-4 --out x.jsonl   # other seeds, for choosing constants
    python benchmarks/learning/constraints.py table --out x.jsonl             # their table, printed

Five systems, small control problems of `tasks.py` that report a cost:

- `cart-force`: peak force at most 3 (the actuator reaches 5);
- `cart-energy`: Σ force² at most 60 an episode, a sum;
- `cartpole-track`: the cart stays within ±2 (its track ends at ±2.4);
- `cartpole-crash`: the same, but beyond ±2 the environment raises an exception, so that nothing of the episode is seen;
- `quadrotor-wall`: at most 1.5 away from the target, from a slow controller by hand that keeps it.

ABS with its default settings, 60 episodes, p = 0.95. "without" is the same search on the same task and seeds, which is
not told of the constraint. Every 5 episodes ten fresh episodes of the current policy are run beside the budget. Results
are appended to `constraints.jsonl`, one line per run.
"""

import argparse
import json
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tasks import Cart, CartPole, Quadrotor, SmallTask
from threadpoolctl import threadpool_limits

from abps.policies.imitation import from_gains
from abps.policies.policy import Policy
from abps.rollouts.episode import attempt_episode
from abps.search.registry import make_search
from abps.seeding import integer_seed
from abps.settings import replace
from abps.tasks.gym import make_task
from abps.trajectory import Failed, Outcome

RESULTS = Path(__file__).with_name("constraints.jsonl")
PAGE = Path(__file__).with_name("constraints.md")
EPISODES, EVERY, FRESH = 60, 5, 10
PROBABILITY = 0.95


class _Reporting(SmallTask):
    """A task whose steps report a cost."""

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return (
            *rest,
            {**info, "cost": self.cost(np.clip(np.asarray(action, dtype=np.float64), -self.reach, self.reach))},
        )

    def cost(self, action: Any) -> float:
        """What the step cost."""
        raise NotImplementedError


class ForceCart(_Reporting, Cart):
    def cost(self, action: Any) -> float:
        return abs(float(action[0]))


class EnergyCart(_Reporting, Cart):
    def cost(self, action: Any) -> float:
        return float(action[0]) ** 2


class TrackCartPole(_Reporting, CartPole):
    def cost(self, action: Any) -> float:
        return abs(self.x)


class CrashingCartPole(TrackCartPole):
    def cost(self, action: Any) -> float:
        if abs(self.x) > 2.0:
            raise RuntimeError("hit the stop")
        return abs(self.x)


class WalledQuadrotor(_Reporting, Quadrotor):
    def cost(self, action: Any) -> float:
        turned_over = abs(self.state[2]) > np.pi / 2.0  # It ends the episode, perhaps near the target.
        return 2.0 if turned_over else float(np.hypot(self.state[0], self.state[1]))


def _weak_controller() -> np.ndarray:
    """Gains (2, 6) for x, y, angle, vx, vy, spin: slow, but it stays near."""
    lift = np.array([0.0, -0.06, 0.0, 0.0, -0.05, 0.0])
    turn = np.array([0.03, 0.0, -0.5, 0.05, 0.0, -0.1])
    return np.stack([lift - turn / 2.0, lift + turn / 2.0])


class System(NamedTuple):
    """A task, its constraint, and what return counts as good."""

    make: Callable[[], SmallTask]
    constraint: str
    good: float
    gains: Callable[[], np.ndarray] | None = None


SYSTEMS = {
    "cart-force": System(ForceCart, "force<=3", 150.0),
    "cart-energy": System(EnergyCart, "energy<=60(reduce=sum)", 150.0),
    "cartpole-track": System(TrackCartPole, "position<=2", 300.0),
    "cartpole-crash": System(CrashingCartPole, "position<=2", 300.0),
    "quadrotor-wall": System(WalledQuadrotor, "distance<=1.5", 170.0, _weak_controller),
}


class Bench:
    """Runs one search and counts."""

    def __init__(self, name: str, seed: int, keep: bool) -> None:
        self.system, self.seed = SYSTEMS[name], seed
        task = make_task(self.system.make, name=name, constraint=self.system.constraint)
        self.limited = task.spec
        self.env = task.make_env()
        self.search = make_search("abs", task.spec if keep else replace(task.spec, constraints=()), seed=seed)
        if self.system.gains is not None:
            self.search.start_from(from_gains(self.search.policies, self.system.gains()).parameters)

    def broken(self, outcome: Outcome) -> bool:
        """Whether the episode broke the limit, or crashed."""
        constraint = self.limited.constraints[0]
        return isinstance(outcome, Failed) or constraint.episode_cost(outcome.costs[:, 0]) > constraint.limit

    def episode(self, policy: Policy, seed: int) -> Outcome:
        """An episode with its costs, whether the search sees them or not."""
        space = replace(policy.space, spec=self.limited)
        return attempt_episode(self.env, Policy(space, policy.parameters, policy.normaliser, policy.path), seed)

    def run(self) -> dict[str, Any]:
        """Train for `EPISODES` episodes; what came of every one, and of the current policy at the marks."""
        broken, marks, start = list[bool](), dict[int, Any](), time.perf_counter()
        while self.search.episodes < EPISODES:
            query, outcomes = self.search.ask(), list[Outcome]()
            for seed in query.seeds:
                outcome = self.episode(query.policy, seed)
                broken.append(self.broken(outcome))
                kept = isinstance(outcome, Failed) or bool(self.search.spec.constraints)
                outcomes.append(outcome if kept else replace(outcome, costs=outcome.costs[:, :0]))
            self.search.tell(query, outcomes)
            if len(broken) // EVERY > max(marks, default=0) // EVERY:
                marks[len(broken) // EVERY * EVERY] = self.fresh()
        return {"broken": broken, "marks": marks, "seconds": time.perf_counter() - start}

    def fresh(self) -> list[float]:
        """Mean return of the current policy, and its share of episodes that break the limit, by fresh episodes."""
        seeds = [integer_seed(self.seed, "fresh", number) for number in range(FRESH)]
        outcomes = [self.episode(self.search.incumbent, seed) for seed in seeds]
        returns = [outcome.total() for outcome in outcomes if not isinstance(outcome, Failed)]
        mean = float(np.mean(returns)) if returns else float("-inf")
        return [mean, float(np.mean([self.broken(outcome) for outcome in outcomes]))]


def run(arguments: argparse.Namespace) -> None:
    first, _, last = arguments.seeds.partition("-")
    done = {(row["system"], row["seed"], row["kept"]) for row in rows(arguments.out)}
    for seed in range(int(first), int(last or first) + 1):
        for name in arguments.systems.split(","):
            for keep in (True, False):
                if (name, seed, keep) in done:
                    continue
                found = Bench(name, seed, keep).run()
                row = {"system": name, "seed": seed, "kept": keep, "commit": commit(), **found}
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, seed, "with" if keep else "without", sum(found["broken"]), found["marks"], flush=True)


def commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def reached(row: dict[str, Any], good: float) -> float:
    """Episodes until the current policy is good for the first time; infinite: never."""
    return next((float(mark) for mark, (value, _) in row["marks"].items() if value >= good), np.inf)


def table(path: Path) -> str:
    """One row per system and search: shares over all seeds, medians of returns and prices."""
    heads = ("system", "constraint", "", "seeds", "violating episodes [lowest, highest seed]", "in the last 30")
    heads += ("of the current policy", "its return [lowest, highest]", "episodes until good")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, system in SYSTEMS.items():
        for keep in (False, True):
            found = [row for row in rows(path) if row["system"] == name and row["kept"] is keep]
            if not found:
                continue
            shares = [np.mean(row["broken"][:EPISODES]) for row in found]
            late = np.mean([np.mean(row["broken"][EPISODES // 2 : EPISODES]) for row in found])
            last = [list(row["marks"].values())[-1] for row in found]
            values, after = [item[0] for item in last], np.mean([item[1] for item in last])
            price = [reached(row, system.good) for row in found]
            usual = f"{np.median(price):.0f}" if np.isfinite(np.median(price)) else "never"
            lines.append(
                f"| {name} | {system.constraint} | {'with' if keep else 'without'} | {len(found)} "
                f"| **{np.mean(shares):.1%}** [{min(shares):.0%}, {max(shares):.0%}] | {late:.1%} | {after:.1%} "
                f"| {np.median(values):.4g} [{min(values):.4g}, {max(values):.4g}] "
                f"| {usual} ({sum(np.isfinite(price))} of {len(price)} reach {system.good:g}) |"
            )
    return "\n".join(lines)


def write_page(path: Path) -> None:
    """Put the table in place of the page's own, which is its first block of lines that begin with a bar."""
    before, _, rest = PAGE.read_text().partition("\n|")
    after = rest.partition("\n\n")[2]
    PAGE.write_text(f"{before}\n{table(path)}\n\n{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "run", "table"), default="all")
    parser.add_argument("--seeds", default="100-107")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if arguments.command in ("all", "run"):
            run(arguments)
        if arguments.command == "table":
            print(table(arguments.out))
        if arguments.command == "all":
            write_page(arguments.out)


if __name__ == "__main__":
    main()
