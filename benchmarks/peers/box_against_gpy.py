"""Our `crbo` and `rducb` beside the loops of their authors' programs on GPy, the library of both; started by hand.

    python -m venv /tmp/gpy_venv && /tmp/gpy_venv/bin/pip install GPy            # 0.3 GB
    .venv/bin/python benchmarks/peers/box_against_gpy.py --gpy /tmp/gpy_venv/bin/python

Neither program can be installed: boschresearch/ConfidenceRegionBO asks for Python 3.7 and TensorFlow 1, the folder
RDUCB of huawei-noah/HEBO for Python 3.8 and GPyOpt. Both were read, and their loops are written here in our own lines,
with the settings of CRBO's notebook and of RDUCB's configuration for Rosenbrock's function. What could not be read, or
had to be changed, is said where it is done. Functions, box and evaluations are those of turbo_against_botorch.py. The
GPy half of this file runs under the other interpreter, which has neither abps nor its packages. Values that are there
already are not made again.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from turbo_against_botorch import JOBS, SIDE, value

RESULTS = Path(__file__).with_name("box_against_gpy.json")
WHO = {"crbo": ("ours", "authors"), "rducb": ("ours", "ours, refit 1", "authors", "authors, unscaled", "uniform")}
"""Sides of each; `refit 1` fits the hyper-parameters at every value, as the program does; `unscaled`: see `rducb`;
`uniform` points are the control."""
SIDES = list(dict.fromkeys(itertools.chain(*WHO.values())))
GAMMA, BETA, FIRST_LENGTHSCALE = 0.6, 2.0, 0.2
LENGTHSCALES = (0.05, 0.5)
GRID, CHUNKS, EDGES = 150, 4, 0.2


# ---- confidence region ----------------------------------------


def crbo(name: str, d: int, evaluations: int, seed: int) -> list[float]:
    """Values (minus the function) in the order of evaluation. As the program does, it minimises."""
    rng = np.random.default_rng(seed)
    np.random.seed(seed)  # noqa: NPY002 (GPy draws from it)
    x = np.full((math.ceil(math.sqrt(d)), d), 0.5)
    directions = rng.standard_normal((len(x) - 1, d))
    radius = FIRST_LENGTHSCALE * math.sqrt(-math.log(1.0 - GAMMA**2))
    x[1:] += radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    y = -value(name, x)
    model = crbo_model(x, y)
    while len(y) < evaluations:
        point = crbo_proposal(model, rng)
        x, y = np.vstack([x, point]), np.append(y, -value(name, point[None]))
        model.set_XY(x, optimistic(y)[:, None])
        model.optimize()
        model.kern.lengthscale = np.clip(model.kern.lengthscale.values, *LENGTHSCALES)
    return [-item for item in y]


def optimistic(y: Any) -> Any:
    """The notebook's scaling: the lowest value is the prior mean."""
    return (y - y.min()) / max(float(np.std(y)), 1e-6)


def crbo_model(x: Any, y: Any) -> Any:
    """Matérn-5/2 with one lengthscale for all parameters, and the program's priors."""
    import GPy

    scale = max(float(np.std(y)), 1e-6)
    kernel = GPy.kern.Matern52(x.shape[1], lengthscale=0.1, variance=1.0 / scale**2)
    model = GPy.models.GPRegression(x, optimistic(y)[:, None], kernel, noise_var=0.05**2 / scale**2)
    model.kern.lengthscale.set_prior(GPy.priors.Gamma(3.0, 6.0), warning=False)
    model.kern.variance.set_prior(GPy.priors.Gamma(2.0, 0.15), warning=False)
    model.likelihood.variance.set_prior(GPy.priors.Gamma(1.1, 0.05), warning=False)
    return model


def crbo_proposal(model: Any, rng: np.random.Generator) -> Any:
    """The lowest confidence bound inside the region: the best of 1000 samples, polished by SLSQP."""
    from scipy.optimize import minimize

    def slack(points: Any) -> Any:
        variance = np.clip(model.predict_noiseless(np.atleast_2d(points))[1][:, 0], 1e-10, None)
        return GAMMA * math.sqrt(float(model.kern.variance[0])) - np.sqrt(variance)

    def bound(points: Any) -> Any:
        mean, variance = model.predict_noiseless(np.atleast_2d(points))
        return mean[:, 0] - BETA * np.sqrt(np.clip(variance[:, 0], 1e-10, None))

    while not (slack(model.X) > 0).any():
        model.kern.variance = 1.2 * float(model.kern.variance[0])
    samples = region_samples(np.array(model.X), slack, rng)
    start = samples[int(np.argmin(bound(samples)))]
    reach = 0.5 * float(model.kern.lengthscale[0])
    sides = list(zip(np.clip(start - reach, 0, None), np.clip(start + reach, None, 1), strict=True))
    inside = {"type": "ineq", "fun": lambda point: slack(point)[0]}
    found = minimize(
        lambda point: bound(point)[0], start, bounds=sides, constraints=inside, method="SLSQP", options={"maxiter": 100}
    )
    return found.x if found.success and found.fun < bound(start)[0] else start


def region_samples(measured: Any, slack: Any, rng: np.random.Generator, count: int = 1000) -> Any:
    """Points inside the region by hit-and-run from measured ones; the program's own sampler could not be read."""
    places = measured[slack(measured) > 0]
    points = places[rng.integers(len(places), size=count)]
    for _ in range(2):
        directions = rng.standard_normal(points.shape)
        reach = rng.uniform(0, 1, size=(count, 1)) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        outside = np.arange(count)
        for _ in range(10):  # Half as far until it is inside.
            moved = np.clip(points[outside] + reach[outside], 0, 1)
            outside = outside[slack(moved) <= 0]
            reach[outside] *= 0.5
        reach[outside] = 0.0
        points = np.clip(points + reach, 0, 1)
    return points


# ---- random decompositions ----------------------------------------


def rducb(name: str, d: int, evaluations: int, seed: int, *, scaled: bool = True) -> list[float]:
    """Values (minus the function) in the order of evaluation.

    The program scales neither values nor points, whatever their size. `scaled` standardises the values and takes the
    unit cube, since its noise of 0.1, its first variance of 0.5 and its first lengthscale of 0.1 mean something only
    then; off, values and points are the function's own, as in the program.
    """
    rng = np.random.default_rng(seed)
    axis, side = np.linspace(0.0, 1.0, GRID), 1.0 if scaled else SIDE[1] - SIDE[0]
    x = axis[rng.integers(GRID, size=(10, d))]
    y = value(name, x)
    scales, variances = np.full(d, 0.1), np.full(d, 0.5)
    while len(y) < evaluations:
        edges = random_forest(d, max(1, int(EDGES * d)), rng)
        groups = [*edges, *((i,) for i in range(d) if not any(i in edge for edge in edges))]
        target = (y - y.mean()) / y.std() if scaled else y
        scales, variances = one_step(side * x, target, groups, scales, variances)
        model = additive_model(side * x, target, groups, scales, variances)
        point = zoomed_maximum(model, groups, side * axis, 0.5 * math.log(2.0 * (len(y) - 9)), rng) / side
        x, y = np.vstack([x, point]), np.append(y, value(name, point[None]))
    return [float(item) for item in y]


def random_forest(d: int, edges: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Random pairs; one that closes a cycle is drawn again."""
    tree = list(range(d))
    chosen: list[tuple[int, ...]] = []
    while len(chosen) < edges:
        one, two = rng.integers(d, size=2)
        if tree[one] != tree[two]:
            tree = [tree[one] if label == tree[two] else label for label in tree]
            chosen.append(tuple(sorted((int(one), int(two)))))
    return chosen


def additive_model(x: Any, y: Any, groups: Any, scales: Any, variances: Any) -> Any:
    """A squared exponential per group; its variance is the length of the vector of its parameters' variances."""
    import GPy

    parts = [
        GPy.kern.RBF(
            len(group), np.linalg.norm(variances[list(group)]), scales[list(group)], ARD=True, active_dims=list(group)
        )
        for group in groups
    ]
    return GPy.models.GPRegression(x, y[:, None], GPy.kern.Add(parts), noise_var=0.1)


def one_step(x: Any, y: Any, groups: Any, scales: Any, variances: Any) -> Any:
    """The program allows L-BFGS (2d)^(n/1000) values of the likelihood: one up to n = 230 for d = 10."""
    from scipy.optimize import fmin_l_bfgs_b

    d = x.shape[1]

    def loss(parameters: Any) -> Any:
        model = additive_model(x, y, groups, parameters[:d], parameters[d:])
        slopes = np.zeros(2 * d)
        for part, group in zip(model.kern.parts, groups, strict=True):
            places = np.array(group)
            slopes[places] += part.lengthscale.gradient
            slopes[d + places] += part.variance.gradient * parameters[d + places] / float(part.variance[0])
        return -float(model.log_likelihood()), -slopes

    sides = [(1e-2, 1e5)] * d + [(0.31622776601683794, 1e5)] * d
    allowed = int((2 * d) ** (len(y) / 1000))
    found = fmin_l_bfgs_b(loss, np.concatenate([scales, variances]), bounds=sides, maxfun=allowed)[0]
    return found[:d], found[d:]


def zoomed_maximum(model: Any, groups: Any, axis: Any, weight: float, rng: np.random.Generator) -> Any:
    """Every coordinate's grid in four chunks, one random point of each; then the same within the best chunk."""
    d = model.X.shape[1]
    domains = [axis] * d
    while True:
        chunks = [np.array_split(domain, min(CHUNKS, len(domain))) for domain in domains]
        choices = [[float(rng.choice(chunk)) for chunk in parts] for parts in chunks]
        chosen = best_choice(model, groups, choices, weight)
        point = np.array([choices[i][k] for i, k in enumerate(chosen)])
        if all(len(domain) <= CHUNKS for domain in domains):
            return point
        domains = [chunks[i][k] for i, k in enumerate(chosen)]


def best_choice(model: Any, groups: Any, choices: Any, weight: float) -> list[int]:
    """The choice per coordinate with the largest sum of the groups' bounds, by trying all in every tree."""
    d = len(choices)
    scores = [group_bounds(model, number, group, choices, weight) for number, group in enumerate(groups)]
    chosen, left = [0] * d, set(range(len(groups)))
    while left:
        tree = {left.pop()}
        while more := {n for n in left if any(set(groups[n]) & set(groups[m]) for m in tree)}:
            tree, left = tree | more, left - more
        places = sorted({i for number in tree for i in groups[number]})
        every = itertools.product(*(range(len(choices[i])) for i in places))

        def total(picks: Any, places: Any = places, tree: Any = tree) -> float:
            at = dict(zip(places, picks, strict=True))
            return sum(scores[number][tuple(at[i] for i in groups[number])] for number in tree)

        for place, pick in zip(places, max(every, key=total), strict=True):
            chosen[place] = pick
    return chosen


def group_bounds(model: Any, number: int, group: Any, choices: Any, weight: float) -> dict[tuple[int, ...], float]:
    """Mean plus weighted deviation of one group at its choices; the deviation has the noise in it, as the program's."""
    picks = list(itertools.product(*(range(len(choices[i])) for i in group)))
    points = np.zeros((len(picks), len(choices)))
    for row, pick in zip(points, picks, strict=True):
        row[list(group)] = [choices[i][k] for i, k in zip(group, pick, strict=True)]
    mean, variance = model.predict(points, kern=model.kern.parts[number], include_likelihood=True)
    bounds = mean[:, 0] + weight * np.sqrt(np.clip(variance[:, 0], 1e-10, None))
    return dict(zip(picks, map(float, bounds), strict=True))


# ---- both sides ----------------------------------------


def ours(side: str, who: str, name: str, d: int, evaluations: int, seed: int) -> list[float]:
    """Values in the order of evaluation, with our defaults, or a fit at every value; or of uniform points."""
    if side == "uniform":
        return [float(item) for item in value(name, np.random.default_rng(seed).uniform(size=(evaluations, d)))]
    from threadpoolctl import threadpool_limits

    from abps.optimisers.base import maximise
    from abps.optimisers.confidence import ConfidenceRegion
    from abps.optimisers.trees import RandomTrees

    trees = RandomTrees(refit=1) if side.endswith("refit 1") else RandomTrees()
    optimiser = {"crbo": ConfidenceRegion(), "rducb": trees}[who]
    with threadpool_limits(1):
        return list(maximise(optimiser, lambda points: value(name, points), d, evaluations, seed=seed)[0].values)


def theirs(python: str, who: str, name: str, d: int, evaluations: int, seed: int) -> list[float]:
    """The other interpreter's values."""
    job = json.dumps([who, name, d, evaluations, seed])
    command = [python, "-W", "ignore", __file__, "--job", job]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # More are slower.
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{python} failed: {done.stderr.splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def run(python: str, chosen: list[str], sides: list[str], seeds: int, out: Path) -> None:
    """Make what is missing, and write it after every run."""
    kept: dict[str, list[float]] = json.loads(out.read_text()) if out.exists() else {}
    for who, (name, d, evaluations), seed in itertools.product(chosen, JOBS, range(seeds)):
        for side in (side for side in WHO[who] if side in sides):
            key = f"{name} {who} {side} {seed}"
            if key not in kept:
                job = (name, d, evaluations, seed)
                program = who + side.removeprefix("authors")
                values = theirs(python, program, *job) if side.startswith("authors") else ours(side, who, *job)
                kept[key] = [float(max(values[: evaluations // 2])), float(max(values[:evaluations]))]
                out.write_text(json.dumps(kept, indent=1) + "\n")
                print(key, kept[key], flush=True)
    table(kept, seeds)


def table(kept: dict[str, list[float]], seeds: int) -> None:
    """Print medians and ranges of the best value after half and all of the evaluations."""
    columns = [(who, side) for who in WHO for side in WHO[who]]
    print("| function, 10 parameters | evaluations | " + " | ".join(f"{who}: {side}" for who, side in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for (name, _, evaluations), (place, count) in itertools.product(JOBS, enumerate((0.5, 1.0))):
        cells = []
        for who, side in columns:
            found = [kept[key] for seed in range(seeds) if (key := f"{name} {who} {side} {seed}") in kept]
            values = [item[place] for item in found]
            cells.append(
                f"{np.median(values):.3g} ({min(values):.3g} … {max(values):.3g})".replace("-", "−") if values else "–"
            )
        print(f"| {name} | {count * evaluations:g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpy", default="python", help="interpreter that has GPy")
    parser.add_argument("--only", nargs="+", default=list(WHO), choices=WHO)
    parser.add_argument("--sides", nargs="+", default=SIDES, choices=SIDES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--job", help="(for the other interpreter) one run")
    options = parser.parse_args()
    if options.job:
        warnings.filterwarnings("ignore")
        who, *job = json.loads(options.job)
        programs = {"crbo": crbo, "rducb": rducb, "rducb, unscaled": partial(rducb, scaled=False)}
        print(json.dumps(programs[who](*job)))
        sys.exit(0)
    run(options.gpy, options.only, options.sides, options.seeds, options.out)
