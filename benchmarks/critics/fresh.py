"""Critics from a few fresh path episodes: how well do they know the gradient where a search would ask them?

    python benchmarks/critics/fresh.py truths                # Monte-Carlo gradients of small cases, into data/fresh
    python benchmarks/critics/fresh.py run --methods all     # only what is missing, one line of fresh.jsonl each
    python benchmarks/critics/fresh.py table                 # medians per task and number of episodes

A *case* is a policy θ with a Monte-Carlo gradient. Stored cases are the 33 pairs of the critic study (objective: the
discounted return, γ 0.99, in which their truth was measured; states weigh γᵗ). Small cases are own tasks at θ = 0, at a
random θ (actions changed by 0.3), and at θ that the default `abs` reached after a few episodes from scratch; their
objective is the undiscounted return of the horizon, as the search has it, and states weigh alike. Their truth:
antithetic pairs from the same start, displaced in the chart by 0.05 of half the action range, until the half-split
reliability is 0.95 or the time is up. Cases whose reliability is below 0.8 are not judged.

At every case a centre episode and 20 path episodes are run twice (two draws), laid one by one as the search lays its
first paths (policy with bias, raw observations; parts of the library). Critics are fitted to the centre and the first
N = 5, 10, 20 paths; what is judged is the mean of the members' unit gradients, in the parameters (`plain`) and in the
chart (`chart`), as `AscentPrior` takes it. The truths of stored pairs were measured by displacements of the parameters,
and are noisier in the chart: `reliability` of a line is the truth's own in the chart, and `corrected` is `chart`
divided by its root, where it is at least 0.3.

Shapes: n directions, d parameters, k members.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
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
from abps.policies.policy import PolicySpace
from abps.rollouts.episode import run_episode
from abps.search.local import automatic_scale, random_paths
from abps.search.plan import PathsAroundCentre, Situation
from abps.search.recipes import CHART_POINTS, FAST_STATES
from abps.search.registry import search_config
from abps.seeding import generator, integer_seed
from abps.tasks.catalogue import task_config
from abps.tasks.gym import make_task
from abps.trajectory import Trajectory

__all__ = ["METHODS", "Case", "Sample", "case_of", "judgement", "sample"]

HERE = Path(__file__).parent
DATA, FRESH, RESULTS = HERE / "data", HERE / "data" / "fresh", HERE / "fresh.jsonl"
WORK = Path("runs/critic-fresh")
COUNTS, DRAWS = (5, 10, 20), (0, 1)
SIZE, STD = 0.05, 0.01
"""Displacements behind the truths: in the chart (small cases), in the parameters (stored pairs)."""
RELIABLE, ENOUGH, LEAST, SPLITS = 0.8, 0.95, 0.3, 4
PLACES = ("zero", "random", "abs20", "abs50")
OWN = ("cart", "cartpole", "quadrotor", "arm", "chain", "pump", "rooms")
OWN += ("doublependulum", "reacher", "pusher", "pendulum", "swimmer")
SMALL = {**dict.fromkeys(OWN, PLACES), **dict.fromkeys(("cheetah", "hopper", "walker"), ("abs40", "abs100"))}
PLANS = {"slow": PathsAroundCentre(path_shift=0.12, quick_shift=0.0), "quick": PathsAroundCentre()}
"""How paths are laid: as until 1b5866e, and with a quick shift."""
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
    def stored(self) -> bool:
        """Whether it is a pair of the critic study."""
        return "-mpd-" in self.name

    @cached_property
    def explorer(self) -> tuple[PolicySpace, Array]:
        """The same policy as the search would hold it: with a bias, on raw observations."""
        space = PolicySpace(LinearTanh(bias=True), self.space.spec)
        if self.space.policy_class == space.policy_class:
            return space, self.theta
        weights = self.theta.reshape(self.space.spec.action_dim, -1) / self.normaliser.std
        arrays = {"weights": weights, "bias": -weights @ self.normaliser.mean}
        return space, space.policy_class.from_arrays(space.spec, arrays)

    def episodes(self, draw: int, count: int, plan: str = "quick", work: Path = WORK) -> list[Trajectory]:
        """The centre's episode and the first paths of a plan, cached; more of them begin with the same ones."""
        path = work / f"{self.name}-{draw}-{plan}.npz"
        found = _load_episodes(path) if path.exists() else []
        if len(found) <= count:
            path.parent.mkdir(parents=True, exist_ok=True)
            found = _explore(self, draw, PLANS[plan], count)
            _save_episodes(path, found)
        return found[: count + 1]

    @cached_property
    def truth(self) -> tuple[Array, float]:
        """Gradient (d,) and its reliability."""
        if not self.stored:
            return _small_truth(FRESH / f"{self.name}.npz")
        directions, slopes = _stored_slopes(self)
        return _least_squares(directions, slopes), _reliability(directions, slopes)


@dataclass(frozen=True, eq=False)
class Sample:
    """What critics see at a case."""

    case: Case
    near: Neighbourhood
    replay: Replay
    objective: Objective


# ---- exploring as the search does --------------------------------------------------------------------------------


def _neighbourhood(
    space: PolicySpace, theta: Array, normaliser: Normaliser, items: list[Trajectory], gamma: float
) -> Neighbourhood:
    points = []
    for number, item in enumerate(items):
        visits = Visits.collect([item], gamma, FAST_STATES, generator(0, "fresh", "visits", number))
        start, role = np.array(item.observations[0], dtype=np.float64), "path" if number else "centre"
        points.append(Point(theta, normaliser, np.array([item.total(gamma)]), role, 0, visits, start))
    scale = automatic_scale(np.array([point.value for point in points]))
    return Neighbourhood(space.policy(theta, normaliser), tuple(points), scale, ActionMetric(), recent=CHART_POINTS)


def _explore(case: Case, draw: int, plan: PathsAroundCentre, count: int) -> list[Trajectory]:
    """A centre episode and paths, each laid in the chart of those before it, as the search lays its first ones."""
    space, theta = case.explorer
    spec, rng = space.spec, generator(draw, "fresh", "paths", case.name)
    stage = plan.next(Situation(0, "centre", 0, 1, spec.horizon))
    assert stage is not None
    raw, env = Normaliser.empty(spec.observation_dim), case.task.make_env()
    items = [run_episode(env, space.policy(theta, raw), integer_seed(draw, "fresh", case.name, 0))]
    while len(items) <= count:
        (path,) = random_paths(_neighbourhood(space, theta, raw, items, 1.0), stage, rng)
        seed = integer_seed(draw, "fresh", case.name, len(items))
        items.append(run_episode(env, space.policy(theta, raw, path), seed))
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
        actions, rewards = data["actions"][first:end], data["rewards"][first:end]
        items.append(Trajectory(observations, actions, rewards, bool(terminated), not terminated))
    return items


def sample(case: Case, draw: int, count: int, plan: str = "quick") -> Sample:
    """The first `count` path episodes and the centre's."""
    items = case.episodes(draw, count, plan)
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


def _stored_slopes(case: Case) -> tuple[Array, Array]:
    """Directions (n, d) and the slopes along them, of a stored pair."""
    with np.load(DATA / f"{case.name}.npz", allow_pickle=False) as data:
        slopes = (data["ups"] - data["downs"]) / (2.0 * STD)
    streams = (generator(0, "critic-study", "direction", number) for number in range(len(slopes)))
    return np.array([stream.standard_normal(case.theta.size) for stream in streams]), slopes


def chart_reliability(given: "Sample") -> float:
    """The truth's own reliability in the chart: of small cases the stored one, of stored pairs from splits."""
    if not given.case.stored:
        return given.case.truth[1]
    directions, slopes = _stored_slopes(given.case)
    found, rng = [], generator(0, "fresh", "splits")
    for _ in range(SPLITS):
        order = rng.permutation(len(slopes))
        halves = np.array([_least_squares(directions[part], slopes[part]) for part in np.array_split(order, 2)])
        found.append(cosine(*given.near.coordinates.gradients(halves)))
    half = float(np.mean(found))
    return 2.0 * half / (1.0 + half) if half > 0 else 0.0


def _small_truth(path: Path) -> tuple[Array, float]:
    with np.load(path, allow_pickle=False) as data:
        return data["gradient"], float(data["reliability"])


def measure(case: Case, seconds: float) -> None:
    """The Monte-Carlo gradient of a small case; left alone where it is there."""
    path, start = FRESH / f"{case.name}.npz", time.process_time()
    if path.exists() and "gradient" in np.load(path).files:
        return
    chart = _neighbourhood(case.space, case.theta, case.normaliser, case.episodes(0, 10), case.gamma).coordinates
    d, env = case.theta.size, case.task.make_env()
    directions, slopes, reliability = [], [], 0.0
    least = max(3 * d, 60)
    while time.process_time() - start < seconds:
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
            if len(slopes) >= least and reliability > ENOUGH:
                break
    reliability = _reliability(np.array(directions), np.array(slopes))
    inside = _least_squares(np.array(directions), np.array(slopes))
    to_chart = chart.gradients(np.eye(d))  # g_z = g @ to_chart
    gradient = np.linalg.solve(to_chart.T, inside)
    np.savez(path, theta=case.theta, gradient=gradient, reliability=reliability, directions=len(slopes))
    took = time.process_time() - start
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
        chart = _neighbourhood(space, space.initial(), raw, _explore(zero, 0, PLANS["slow"], 8), 1.0).coordinates
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


def judgement(raw: Array, given: Sample) -> dict[str, Any]:
    """Cosines of the members' gradients (k, d), combined in parameters and in the chart, and one by one."""
    chart, (truth, _) = given.near.coordinates, given.case.truth
    inside, target, reliability = chart.gradients(raw), chart.gradients(truth), chart_reliability(given)
    found = cosine(_mean_unit(inside), target)
    return {
        "plain": round(cosine(_mean_unit(raw), truth), 4),
        "chart": round(found, 4),
        "corrected": round(found / np.sqrt(reliability), 4) if reliability >= LEAST else None,
        "reliability": round(reliability, 3),
        "members": [round(cosine(row, target), 3) for row in inside],
    }


def _mean_unit(vectors: Array) -> Array:
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)[:, None]).mean(axis=0)


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


BEFORE = EpisodicLstd(traces=(0.0, 0.87), value_ridges=(3.0, 300.0), slope_ridge=0.1, off_policy_scale=0.3, rows=4000)
"""The settings until 1b5866e, but for λ 0.9, which was a decay of 0.855 and 0.891 for the two discounts."""
METHODS: dict[str, tuple[Method, str]] = {
    "before": (of_part(BEFORE), "slow"),
    "critics-only": (of_part(EpisodicLstd()), "slow"),
    "paths-only": (of_part(BEFORE), "quick"),
    "episodic": (of_part(EpisodicLstd()), "quick"),
}
"""Critics, and the paths that they learn from."""


def judged(name: str) -> bool:
    if "-mpd-" in name:
        return True
    path = FRESH / f"{name}.npz"
    return path.exists() and "reliability" in np.load(path).files and float(np.load(path)["reliability"]) >= RELIABLE


def run(methods: list[str], results: Path, names: list[str], counts: list[int]) -> None:
    done = {(row["case"], row["method"], row["draw"], row["count"]) for row in rows(results)}
    for name in names:
        if not judged(name):
            continue
        case = case_of(name)
        for draw, count, method in product(DRAWS, counts, methods):
            if (name, method, draw, count) in done:
                continue
            gradients, plan = METHODS[method]
            given = sample(case, draw, count, plan)
            start = time.process_time()
            raw = gradients(given)
            seconds = time.process_time() - start
            row = {"case": name, "method": method, "draw": draw, "count": count, "seconds": round(seconds, 4)}
            with results.open("a") as file:
                file.write(json.dumps(row | judgement(raw, given)) + "\n")


def rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(results: Path, column: str) -> None:
    """Medians per group, number of episodes and method; held-out pairs apart."""
    groups: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows(results):
        for group in _groups(row["case"]):
            seconds[group, row["method"]].append(row["seconds"])
            if row[column] is not None:
                groups[group, row["method"]][row["count"]].append(row[column])
    heads = " | ".join(f"{count} episodes" for count in COUNTS)
    print(f"{column}: median [lowest] (number), and milliseconds of CPU per fit\n\n| cases | method | {heads} | ms |")
    print("|---|---|" + "---|" * (len(COUNTS) + 1))
    for (group, method), found in sorted(groups.items()):
        cells = [_cell(found[count]) for count in COUNTS]
        print(f"| {group} | {method} | " + " | ".join(cells) + f" | {1e3 * np.median(seconds[group, method]):.0f} |")


def _cell(values: list[float]) -> str:
    return f"{np.median(values):.2f} [{min(values):.2f}] ({len(values)})" if values else "–"


def _groups(name: str) -> Iterator[str]:
    short = name.split("-")[0]
    yield "all"
    if "-mpd-" in name:
        held_out = "-mpd-2-" in name
        yield "stored, seed 2 (held out)" if held_out else "stored, seeds 0, 1"
        yield f"stored {short}, seed 2 (held out)" if held_out else f"stored {short}, seeds 0, 1"
    else:
        yield f"small {short}"
        yield "small tasks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("truths", "run", "table"))
    parser.add_argument("--methods", default="all")
    parser.add_argument("--cases", default="all", help="beginnings of their names")
    parser.add_argument("--counts", default="5,10,20")
    parser.add_argument("--seconds", type=float, default=25.0, help="most per Monte-Carlo gradient")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--column", default="chart", choices=("chart", "corrected", "plain"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = [*stored_names(), *small_names()]
    if arguments.cases != "all":
        names = [name for name in names if any(name.startswith(word) for word in arguments.cases.split(","))]
    methods = list(METHODS) if arguments.methods == "all" else arguments.methods.split(",")
    with threadpool_limits(1):
        if arguments.command == "truths":
            for name in names:
                if "-mpd-" not in name:
                    measure(case_of(name), arguments.seconds)
        elif arguments.command == "run":
            run(methods, arguments.results, names, [int(word) for word in arguments.counts.split(",")])
        else:
            table(arguments.results, arguments.column)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(HERE.parent / "learning"))
    main()
