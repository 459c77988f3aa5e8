"""Critics from a few fresh path episodes: how well do they know the gradient where a search would ask them?

    python benchmarks/critics/fresh.py truths                     # Monte-Carlo gradients at small tasks, into data/fresh
    python benchmarks/critics/fresh.py run --methods episodic     # only what is missing, one line of fresh.jsonl each
    python benchmarks/critics/fresh.py table                      # medians per task and number of episodes

A *case* is a policy θ with a Monte-Carlo gradient. Stored cases are the 33 pairs of the critic study (objective: the
discounted return, γ 0.99, in which their truth was measured; states weigh γᵗ). Small cases are own tasks at θ = 0, at a
random θ (actions changed by 0.3), and at θ that the default `abs` reached after a few episodes from scratch; their
objective is the undiscounted return of the horizon, as the search has it, and states weigh alike. Their truth: antithetic
pairs from the same start, displaced in the chart by 0.05 of half the action range, until the half-split reliability is
0.9 or the time is up. Cases whose reliability is below 0.8 are not judged.

At every case a centre episode and 20 path episodes are run twice (two draws), laid one by one as the search lays its
first paths (policy with bias, raw observations; parts of the library). Critics are fitted to the centre and the first
N = 5, 10, 20 paths; what is judged is the mean of the members' unit gradients in the chart, as `AscentPrior` takes it.

Shapes: n directions, d parameters, k members.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from abps.critics.base import CriticsPart
from abps.critics.episodic import EpisodicLstd
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.model.advantage import advantage_gradients
from abps.model.chart import ActionMetric
from abps.model.neighbourhood import Neighbourhood
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.path import ParameterPath
from abps.policies.policy import PolicySpace
from abps.rollouts.episode import run_episode
from abps.search.local import automatic_scale
from abps.search.plan import PathsAroundCentre
from abps.search.recipes import CHART_POINTS, FAST_STATES
from abps.search.registry import search_config
from abps.seeding import generator, integer_seed
from abps.tasks.catalogue import task_config
from abps.tasks.gym import make_task
from abps.trajectory import Trajectory

__all__ = ["CASES", "METHODS", "Case", "Sample", "cosines", "sample"]

HERE = Path(__file__).parent
DATA, FRESH, RESULTS = HERE / "data", HERE / "data" / "fresh", HERE / "fresh.jsonl"
WORK = Path("runs/critic-fresh")
PATHS, COUNTS, DRAWS = 20, (5, 10, 20), (0, 1)
SIZE, STD = 0.05, 0.01
"""Displacements behind the truths: in the chart (small cases), in the parameters (stored pairs)."""
RELIABLE, ENOUGH = 0.8, 0.9
SMALL = {
    **dict.fromkeys(("cart", "cartpole", "quadrotor", "arm", "chain", "pump", "rooms"), ("zero", "random", "abs20", "abs50")),
    **dict.fromkeys(("doublependulum", "reacher", "pusher", "pendulum", "swimmer"), ("zero", "random", "abs20", "abs50")),
    **dict.fromkeys(("cheetah", "hopper", "walker"), ("abs40", "abs100")),
}  # fmt: skip
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """A policy and how to run it."""

    name: str
    task: Any
    space: PolicySpace
    """What is judged: the policies of θ."""
    theta: Array
    normaliser: Normaliser
    gamma: float
    """Discount of the objective, and of the states' weights."""

    @property
    def group(self) -> str:
        """Stored or small, and the task."""
        return self.name.split("-")[0] + ("-stored" if "-mpd-" in self.name else "")

    @property
    def held_out(self) -> bool:
        """Seed 2 of the stored pairs; draw 1 of the small ones is apart in the table, too."""
        return "-mpd-2-" in self.name

    @cached_property
    def explorer(self) -> tuple[PolicySpace, Array]:
        """The same policy as the search would hold it: with a bias, on raw observations."""
        space = PolicySpace(LinearTanh(bias=True), self.space.spec)
        if self.space.policy_class == space.policy_class:
            return space, self.theta
        weights = self.theta.reshape(self.space.spec.action_dim, -1) / self.normaliser.std
        arrays = {"weights": weights, "bias": -weights @ self.normaliser.mean}
        return space, space.policy_class.from_arrays(space.spec, arrays)

    def episodes(self, draw: int, work: Path = WORK, **options: Any) -> list[Trajectory]:
        """The centre's episode and the paths, cached; options other than the search's are not cached."""
        path = work / f"{self.name}-{draw}.npz"
        if path.exists() and not options:
            return _load_episodes(path)
        found = _explore(self, draw, **options)
        if not options:
            path.parent.mkdir(parents=True, exist_ok=True)
            _save_episodes(path, found)
        return found

    @cached_property
    def truth(self) -> tuple[Array, float]:
        """Gradient (d,) and its reliability."""
        return _stored_truth(self) if "-mpd-" in self.name else _small_truth(FRESH / f"{self.name}.npz")


@dataclass(frozen=True, eq=False)
class Sample:
    """What critics see at a case."""

    case: Case
    near: Neighbourhood
    replay: Replay
    objective: Objective


# ---- exploring as the search does --------------------------------------------------------------------------------


def _point(space: PolicySpace, theta: Array, normaliser: Normaliser, item: Trajectory, role: str, gamma: float, k: int) -> Point:  # fmt: skip
    visits = Visits.collect([item], gamma, FAST_STATES, generator(0, "fresh", "visits", k))
    start = np.array(item.observations[0], dtype=np.float64)
    return Point(theta, normaliser, np.array([item.total(gamma)]), role, 0, visits, start)


def _neighbourhood(space: PolicySpace, theta: Array, normaliser: Normaliser, items: list[Trajectory], gamma: float) -> Neighbourhood:  # fmt: skip
    points = tuple(
        _point(space, theta, normaliser, item, "path" if k else "centre", gamma, k) for k, item in enumerate(items)
    )
    scale = automatic_scale(np.array([point.value for point in points]))
    return Neighbourhood(space.policy(theta, normaliser), points, scale, ActionMetric(), recent=CHART_POINTS)


def _explore(
    case: Case, draw: int, *, shift: float | None = None, size: float | None = None, interval: int | None = None
) -> list[Trajectory]:
    """A centre episode and paths, each laid in the chart of those before it."""
    space, theta = case.explorer
    plan, spec = PathsAroundCentre(), space.spec
    shift, size = plan.path_shift if shift is None else shift, plan.path_size if size is None else size
    interval = interval or max(2, min(plan.path_steps, spec.horizon // 10))
    raw, env = Normaliser.empty(spec.observation_dim), case.task.make_env()
    rng = generator(draw, "fresh", "paths", case.name)
    items = [run_episode(env, space.policy(theta, raw), integer_seed(draw, "fresh", case.name, 0))]
    while len(items) <= PATHS:
        near = _neighbourhood(space, theta, raw, items, 1.0)
        knots = spec.horizon // interval + 2
        moves = size / np.sqrt(space.size) * rng.standard_normal((knots, space.size))
        moves += shift * rng.standard_normal((knots, spec.action_dim)) @ near.action_shifts
        path = ParameterPath(near.coordinates.to_parameters(moves), interval)
        items.append(run_episode(env, space.policy(theta, raw, path), integer_seed(draw, "fresh", case.name, len(items))))  # fmt: skip
    return items


def _save_episodes(path: Path, items: list[Trajectory]) -> None:
    np.savez(
        path,
        lengths=[len(item) for item in items],
        terminated=[item.terminated for item in items],
        observations=np.concatenate([item.observations for item in items]),
        actions=np.concatenate([item.actions for item in items]),
        rewards=np.concatenate([item.rewards for item in items]),
    )


def _load_episodes(path: Path) -> list[Trajectory]:
    with np.load(path, allow_pickle=False) as stored:
        data = {name: stored[name] for name in stored.files}
    items, end = [], 0
    for number, (length, terminated) in enumerate(zip(data["lengths"], data["terminated"], strict=True)):
        first, end = end, end + int(length)
        observations = data["observations"][first + number : end + number + 1]
        items.append(
            Trajectory(observations, data["actions"][first:end], data["rewards"][first:end], bool(terminated), not terminated)
        )  # fmt: skip
    return items


def sample(case: Case, draw: int, count: int, **options: Any) -> Sample:
    """The first `count` path episodes and the centre's."""
    items = case.episodes(draw, **options)[: count + 1]
    near = _neighbourhood(case.space, case.theta, case.normaliser, items, case.gamma)
    spec = case.space.spec
    replay = Replay(100_000, spec.observation_dim, spec.action_dim)
    for item in items:
        replay.append(item)
    return Sample(case, near, replay, Objective(case.gamma))


# ---- truths ------------------------------------------------------------------------------------------------------


def _least_squares(directions: Array, slopes: Array) -> Array:
    if len(slopes) < 1.5 * directions.shape[1]:
        return directions.T @ slopes / len(slopes)
    return np.asarray(np.linalg.lstsq(directions, slopes, rcond=None)[0], dtype=np.float64)


def _reliability(directions: Array, slopes: Array) -> float:
    first, second = (_least_squares(directions[part::2], slopes[part::2]) for part in (0, 1))
    half = cosine(first, second)
    return 2.0 * half / (1.0 + half) if half > 0 else 0.0


def _stored_truth(case: Case) -> tuple[Array, float]:
    with np.load(DATA / f"{case.name}.npz", allow_pickle=False) as data:
        slopes = (data["ups"] - data["downs"]) / (2.0 * STD)
    d = case.theta.size
    directions = np.array(
        [generator(0, "critic-study", "direction", number).standard_normal(d) for number in range(len(slopes))]
    )
    return _least_squares(directions, slopes), _reliability(directions, slopes)


def _small_truth(path: Path) -> tuple[Array, float]:
    with np.load(path, allow_pickle=False) as data:
        return data["gradient"], float(data["reliability"])


def measure(case: Case, seconds: float) -> None:
    """The Monte-Carlo gradient of a small case; left alone where it is there."""
    path, start = FRESH / f"{case.name}.npz", time.perf_counter()
    if path.exists() and "gradient" in np.load(path).files:
        return
    chart = _neighbourhood(case.space, case.theta, case.normaliser, case.episodes(0), case.gamma).coordinates
    d, env = case.theta.size, case.task.make_env()
    directions, slopes, reliability = [], [], 0.0
    least = max(3 * d, 60)
    while time.perf_counter() - start < seconds:
        for number in range(len(slopes), len(slopes) + 20):
            direction = generator(1, "fresh", "direction", number).standard_normal(d) * SIZE / np.sqrt(d)
            totals = [
                run_episode(
                    env,
                    case.space.policy(chart.to_parameters(sign * direction), case.normaliser),
                    integer_seed(1, "fresh", "truth", case.name, number),
                ).total(case.gamma)
                for sign in (1.0, -1.0)
            ]
            directions.append(direction)
            slopes.append((totals[0] - totals[1]) / 2.0)
        if len(slopes) % 100 == 0 or len(slopes) < 200:
            reliability = _reliability(np.array(directions), np.array(slopes))
            if len(slopes) >= least and reliability > ENOUGH + 0.05:
                break
    reliability = _reliability(np.array(directions), np.array(slopes))
    inside = _least_squares(np.array(directions), np.array(slopes))
    to_chart = chart.gradients(np.eye(d))  # g_z = g @ to_chart
    gradient = np.linalg.solve(to_chart.T, inside)
    np.savez(path, theta=case.theta, gradient=gradient, reliability=reliability, directions=len(slopes))
    took = time.perf_counter() - start
    print(f"{case.name} reliability {reliability:.2f} from {len(slopes)} directions, {took:.0f} s", flush=True)


# ---- cases -------------------------------------------------------------------------------------------------------


def _stored_case(name: str) -> Case:
    short = name.split("-")[0]
    task = make_task(task_config(short))
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as data:
        normaliser = Normaliser(int(data["count"]), data["mean"], data["m2"])
        return Case(name, task, PolicySpace(LinearTanh(), task.spec), data["theta"], normaliser, task.spec.gamma)


def _small_task(short: str) -> Any:
    from tasks import TASKS
    from tasks import make_task as make_env

    made = make_task(make_env(short), name=short, horizon=TASKS[short].horizon)
    return replace_env(made, lambda: make_env(short))


def replace_env(task: Any, make_env: Callable[[], Any]) -> Any:
    class Made:
        spec = task.spec

        def make_env(self) -> Any:
            return make_env()

    return Made()


def _small_case(name: str) -> Case:
    short, kind = name.split("-")
    task = _small_task(short)
    space, raw = PolicySpace(LinearTanh(bias=True), task.spec), Normaliser.empty(task.spec.observation_dim)
    path = FRESH / f"{name}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as data:
            theta = data["theta"]
    else:
        theta = _theta(task, space, raw, short, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, theta=theta)
    return Case(name, task, space, theta, raw, 1.0)


def _theta(task: Any, space: PolicySpace, raw: Normaliser, short: str, kind: str) -> Array:
    if kind == "zero":
        return space.initial()
    if kind == "random":
        zero = Case(f"{short}-start", task, space, space.initial(), raw, 1.0)
        chart = _neighbourhood(space, space.initial(), raw, _explore(zero, 0)[:9], 1.0).coordinates
        return chart.to_parameters(0.3 / np.sqrt(space.size) * generator(7, "fresh", short).standard_normal(space.size))
    search = search_config("abs", short).make(task.spec, seed=7, name="abs")
    env, episodes = task.make_env(), 0
    while episodes < int(kind.removeprefix("abs")):
        query = search.ask()
        seeds = [integer_seed(7, "fresh", "run", short, episodes + k) for k in range(query.episodes)]
        episodes += query.episodes
        search.tell(query, [run_episode(env, query.policy, seed) for seed in seeds])
    return np.array(search.incumbent.parameters)


def stored_names() -> list[str]:
    return sorted(path.stem for path in DATA.glob("*-mpd-*.npz"))


def small_names() -> list[str]:
    return [f"{task}-{kind}" for task, kinds in SMALL.items() for kind in kinds]


def case_of(name: str) -> Case:
    return _stored_case(name) if "-mpd-" in name else _small_case(name)


# ---- judging -----------------------------------------------------------------------------------------------------


def cosine(left: Array, right: Array) -> float:
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > 0 else 0.0


def cosines(raw: Array, given: Sample) -> dict[str, float]:
    """Of the members' gradients (k, d): their combination in parameters and chart, and the spread of members."""
    chart, (truth, _) = given.near.coordinates, given.case.truth
    inside, target = chart.gradients(raw), chart.gradients(truth)

    def mean_unit(rows: Array) -> Array:
        return (rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None]).mean(axis=0)

    members = [round(cosine(row, target), 3) for row in inside]
    return {"plain": cosine(mean_unit(raw), truth), "chart": cosine(mean_unit(inside), target), "members": members}  # type: ignore[dict-item]


Method = Callable[[Sample], Array]


def of_part(part: CriticsPart) -> Method:
    """The method that fits critics of the library."""

    def gradients(given: Sample) -> Array:
        critics = part.make(given.case.space, given.objective, 0)
        critics.start_centre(given.near.centre, given.replay, given.near.scale)
        visits = given.near.recent_visits
        assert visits is not None
        return advantage_gradients(critics, given.near.centre, visits).T

    return gradients


METHODS: dict[str, Method] = {"episodic": of_part(EpisodicLstd())}
CASES: Callable[[], list[str]] = lambda: [*stored_names(), *small_names()]  # noqa: E731


def judged(name: str) -> bool:
    if "-mpd-" in name:
        return True
    path = FRESH / f"{name}.npz"
    return path.exists() and "reliability" in np.load(path).files and float(np.load(path)["reliability"]) >= RELIABLE


def run(methods: list[str], results: Path, names: list[str]) -> None:
    done = {(row["case"], row["method"], row["draw"], row["count"]) for row in rows(results)}
    for name in names:
        if not judged(name):
            continue
        case = case_of(name)
        for draw in DRAWS:
            for count in COUNTS:
                missing = [m for m in methods if (name, m, draw, count) not in done]
                given = sample(case, draw, count) if missing else None
                for method in missing:
                    assert given is not None
                    start = time.perf_counter()
                    raw = METHODS[method](given)
                    seconds = time.perf_counter() - start
                    row = {"case": name, "method": method, "draw": draw, "count": count, "seconds": round(seconds, 4)}
                    with results.open("a") as file:
                        file.write(json.dumps(row | cosines(raw, given)) + "\n")


def rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(results: Path, column: str) -> None:
    """Medians per group, number of episodes and method; held-out pairs apart."""
    groups: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(results):
        for group in _groups(row["case"]):
            groups[group, row["method"]][row["count"]].append(row[column])
    print("| cases | method | " + " | ".join(f"{count} episodes: median [lowest] of {column}" for count in COUNTS) + " |")
    print("|---|---|" + "---|" * len(COUNTS))
    for (group, method), found in sorted(groups.items()):
        cells = [f"{np.median(found[count]):.2f} [{min(found[count]):.2f}] ({len(found[count])})" for count in COUNTS]
        print(f"| {group} | {method} | " + " | ".join(cells) + " |")


def _groups(name: str) -> Iterator[str]:
    short = name.split("-")[0]
    yield "all"
    if "-mpd-" in name:
        yield f"stored {short}" + (" seed 2 (held out)" if "-mpd-2-" in name else " seeds 0, 1")
    else:
        yield f"small {short}"
        yield "small tasks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("truths", "run", "table"))
    parser.add_argument("--methods", default="episodic")
    parser.add_argument("--cases", default="all")
    parser.add_argument("--seconds", type=float, default=25.0, help="most per Monte-Carlo gradient")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--column", default="chart", choices=("chart", "plain"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = CASES() if arguments.cases == "all" else arguments.cases.split(",")
    with threadpool_limits(1):
        if arguments.command == "truths":
            for name in names:
                if "-mpd-" not in name:
                    measure(case_of(name), arguments.seconds)
        elif arguments.command == "run":
            run(arguments.methods.split(","), arguments.results, names)
        else:
            table(arguments.results, arguments.column)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(HERE.parent / "learning"))
    main()
