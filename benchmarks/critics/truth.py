"""The true gradient of the discounted return at the centre of a pair: antithetic Monte-Carlo, common random numbers.

    python benchmarks/critics/truth.py cheetah 0 12 --directions 500

Every direction ε ~ N(0, I) is tried as θ ± 0.01·ε from the same initial state; the gradient is the least-squares fit
of the differences' slopes on the directions. The horizon ends where γᵀ falls below 0.5 %. The differences are stored
in `data/` (small, in git, with θ and its normaliser) and more directions can be added any time. Reliability: cosine r
between the gradients of two halves of the directions; for the full set, 2r / (1 + r) is what two such sets would have,
and its root the largest cosine that a perfect critic can show.

Shapes: n directions, d parameters.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pairs import WORK, Pair, load_run, pair_of

from abps.normaliser import Normaliser
from abps.policies.policy import PolicySpace
from abps.rollouts.episode import run_episode
from abps.seeding import generator, integer_seed
from abps.tasks.gym import Task

__all__ = ["DATA", "Truth", "load_truth", "measure"]

DATA = Path(__file__).parent / "data"
STD = 0.01
NEGLIGIBLE = 5e-3
"""The horizon is cut where γᵀ is below this."""
BATCH = 20
Array = NDArray[np.float64]


class Truth(NamedTuple):
    """A Monte-Carlo gradient and how far it can be trusted."""

    gradient: Array
    """(d,), of scaled returns."""
    half_cosine: float
    reliability: float
    """2r / (1 + r)."""
    directions: int
    value: float
    """Discounted scaled return of θ itself, mean over the antithetic pairs."""
    parameters: Array
    """θ (d,)."""


def truth_file(name: str) -> Path:
    return DATA / f"{name}.npz"


def horizon(task: Task) -> int:
    """Steps after which the discount is negligible."""
    spec = task.spec
    return spec.horizon if spec.gamma == 1 else min(spec.horizon, int(np.ceil(np.log(NEGLIGIBLE) / np.log(spec.gamma))))


def direction(number: int, size: int) -> Array:
    return generator(0, "critic-study", "direction", number).standard_normal(size)


def measure(pair: Pair, directions: int) -> None:
    """Add directions to a pair's file until there are so many."""
    task, centre, path = pair.run.task, pair.centre, truth_file(pair.name)
    spec = replace(task.spec, horizon=horizon(task))
    if path.exists() and not np.array_equal(load_truth(pair.name).parameters, centre.parameters):
        raise SystemExit(
            f"{path} belongs to another θ; move it away, and with it the lines of {pair.name} in results.jsonl"
        )
    ups, downs = (list(part) for part in _stored(path))
    env, start = task.make_env(), time.process_time()
    space = PolicySpace(pair.run.space.policy_class, spec)
    while len(ups) < directions:
        for number in range(len(ups), min(len(ups) + BATCH, directions)):
            step = STD * direction(number, centre.parameters.size)
            for sign, values in ((1.0, ups), (-1.0, downs)):
                policy = space.policy(centre.parameters + sign * step, centre.normaliser)
                trajectory = run_episode(env, policy, integer_seed(0, "critic-study", "truth", number))
                values.append(trajectory.total(spec.gamma) / (spec.reward_scale or 1.0))
        _store(path, centre.parameters, centre.normaliser, ups, downs)
    truth = load_truth(pair.name)
    seconds = time.process_time() - start
    print(
        f"{pair.name} J {truth.value:.3f} |g| {np.linalg.norm(truth.gradient):.3g} half {truth.half_cosine:.2f} "
        f"reliability {truth.reliability:.2f} from {len(ups)} directions, {seconds:.0f} s",
        flush=True,
    )


def _stored(path: Path) -> tuple[Array, Array]:
    if not path.exists():
        return np.zeros(0), np.zeros(0)
    with np.load(path, allow_pickle=False) as data:
        return data["ups"], data["downs"]


def _store(path: Path, theta: Array, normaliser: Normaliser, ups: list[float], downs: list[float]) -> None:
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".tmp.npz")
    np.savez(
        unfinished,
        theta=theta,
        count=normaliser.count,
        mean=normaliser.mean,
        m2=normaliser.m2,
        ups=np.array(ups),
        downs=np.array(downs),
    )
    unfinished.replace(path)


def load_truth(name: str) -> Truth:
    """The gradient of a pair from its stored differences."""
    with np.load(truth_file(name), allow_pickle=False) as data:
        ups, downs, theta = data["ups"], data["downs"], data["theta"]
    directions = np.array([direction(number, theta.size) for number in range(len(ups))])
    slopes = (ups - downs) / (2.0 * STD)
    first, second = (_slope(directions[part::2], slopes[part::2]) for part in (0, 1))
    cosine = float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
    reliability = 2.0 * cosine / (1.0 + cosine) if cosine > 0 else 0.0
    gradient = _slope(directions, slopes)
    return Truth(gradient, cosine, reliability, len(ups), float(np.mean((ups + downs) / 2.0)), theta)


def _slope(directions: Array, slopes: Array) -> Array:
    """Least squares; with too few directions for that, the plain average of slope times direction."""
    if len(slopes) < 1.5 * directions.shape[1]:
        return directions.T @ slopes / len(slopes)
    return np.asarray(np.linalg.lstsq(directions, slopes, rcond=None)[0], dtype=np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("seed", type=int)
    parser.add_argument("iterations", type=int, nargs="+")
    parser.add_argument("--search", default="mpd")
    parser.add_argument("--directions", type=int, default=500)
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    run = load_run(arguments.task, arguments.search, arguments.seed, arguments.work)
    for iteration in arguments.iterations:
        measure(pair_of(run, iteration), arguments.directions)


if __name__ == "__main__":
    main()
