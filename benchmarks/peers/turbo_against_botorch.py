"""Our TuRBO beside the one that BoTorch's tutorial describes, on its kind of test functions; started by hand.

    python -m venv /tmp/bo_venv && /tmp/bo_venv/bin/pip install botorch        # some gigabytes, with torch
    .venv/bin/python benchmarks/peers/turbo_against_botorch.py --botorch /tmp/bo_venv/bin/python --out results.json

Every function is minimised in [−5, 10]^d as in the tutorial, with 2d Sobol points, batches of 4, ten successes to grow,
and as many failures as parameters to shrink. The BoTorch half of this file runs under the other interpreter, which has
neither abps nor its packages: it reads a job from its arguments and prints values as JSON.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

JOBS = [("ackley", 10, 120), ("levy", 10, 120), ("rosenbrock", 10, 120)]
"""Function, parameters, evaluations."""
SIDE = (-5.0, 10.0)
BATCH, SUCCESSES, CANDIDATES = 4, 10, 2000
TUTORIAL = "turbo, the tutorial's settings"
WHO = ("BoTorch", TUTORIAL, "turbo, batches of 4", "crbo", "klbo", "rducb")


def value(name: str, cube: Any) -> Any:
    """Minus the function at points (m, d) of the unit cube; the maximum is 0."""
    x = SIDE[0] + (SIDE[1] - SIDE[0]) * np.asarray(cube)
    if name == "ackley":
        flat = 20.0 * np.exp(-0.2 * np.sqrt(np.square(x).mean(axis=1)))
        return flat + np.exp(np.cos(2.0 * np.pi * x).mean(axis=1)) - 20.0 - math.e
    if name == "levy":
        w = 1.0 + (x - 1.0) / 4.0
        inner = np.square(w[:, :-1] - 1.0) * (1.0 + 10.0 * np.square(np.sin(np.pi * w[:, :-1] + 1.0)))
        last = np.square(w[:, -1] - 1.0) * (1.0 + np.square(np.sin(2.0 * np.pi * w[:, -1])))
        return -(np.square(np.sin(np.pi * w[:, 0])) + inner.sum(axis=1) + last)
    return -(100.0 * np.square(x[:, 1:] - np.square(x[:, :-1])) + np.square(x[:, :-1] - 1.0)).sum(axis=1)


def ours(who: str, name: str, d: int, evaluations: int, seed: int) -> Any:
    """Values in the order of evaluation: with the tutorial's settings, or with our defaults."""
    from abps.optimisers.base import maximise
    from abps.optimisers.confidence import ConfidenceRegion
    from abps.optimisers.distribution import SearchDistribution
    from abps.optimisers.surrogate import box_gp
    from abps.optimisers.trees import RandomTrees
    from abps.optimisers.turbo import Turbo
    from abps.settings import replace

    others = {"crbo": ConfidenceRegion(), "klbo": SearchDistribution(), "rducb": RandomTrees()}
    optimiser = others.get(who, Turbo(batch=BATCH))
    if who == TUTORIAL:
        gp = replace(box_gp(0.005, 4.0), noise_floor=1e-3, noise_factor=31.6)  # σ_n² up to 1e-3, as the tutorial's.
        optimiser = Turbo(
            gp=gp, batch=BATCH, first_points=2 * d, successes=SUCCESSES, candidates=CANDIDATES, window=10**6
        )
    return maximise(optimiser, lambda points: value(name, points), d, evaluations, seed=seed)[0].values


def botorch(name: str, d: int, evaluations: int, seed: int) -> Any:
    """The tutorial's loop on BoTorch's process, sampler and fit."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation import MaxPosteriorSampling
    from botorch.models import SingleTaskGP
    from gpytorch.constraints import Interval
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from torch.quasirandom import SobolEngine

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)

    def measure(points: Any) -> Any:
        return torch.as_tensor(value(name, points.numpy())).unsqueeze(-1)

    x = SobolEngine(d, scramble=True, seed=seed).draw(2 * d, dtype=torch.float64)
    y, length, successes, failures = measure(x), 0.8, 0, 0
    everything = [float(item) for item in y]
    tolerance = math.ceil(max(4.0 / BATCH, d / BATCH))
    while len(everything) < evaluations:
        if length < 0.5**7:  # A new region.
            x = SobolEngine(d, scramble=True, seed=seed + len(everything)).draw(2 * d, dtype=torch.float64)
            y, length, successes, failures = measure(x), 0.8, 0, 0
            everything += [float(item) for item in y]
            continue
        likelihood = GaussianLikelihood(noise_constraint=Interval(1e-8, 1e-3))
        kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=d, lengthscale_constraint=Interval(0.005, 4.0)))
        model = SingleTaskGP(x, (y - y.mean()) / y.std(), covar_module=kernel, likelihood=likelihood)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        centre = x[int(y.argmax())]
        scale = kernel.base_kernel.lengthscale.squeeze().detach()
        scale = scale / scale.mean()
        scale = scale / torch.prod(scale.pow(1.0 / d))
        lower = torch.clamp(centre - 0.5 * scale * length, 0.0, 1.0)
        upper = torch.clamp(centre + 0.5 * scale * length, 0.0, 1.0)
        points = lower + (upper - lower) * SobolEngine(d, scramble=True).draw(CANDIDATES, dtype=torch.float64)
        mask = torch.rand(CANDIDATES, d) <= min(20.0 / d, 1.0)
        empty = torch.where(mask.sum(dim=1) == 0)[0]
        mask[empty, torch.randint(0, d, (len(empty),))] = True
        candidates = torch.where(mask, points, centre)
        with torch.no_grad():
            batch = MaxPosteriorSampling(model=model, replacement=False)(candidates, num_samples=BATCH)
        new, best = measure(batch), float(y.max())
        better = float(new.max()) > best + 1e-3 * abs(best)
        successes, failures = (successes + 1, 0) if better else (0, failures + 1)
        if successes == SUCCESSES:
            length, successes = min(2.0 * length, 1.6), 0
        elif failures == tolerance:
            length, failures = 0.5 * length, 0
        x, y = torch.cat([x, batch]), torch.cat([y, new])
        everything += [float(item) for item in new]
    return everything


def remote(python: str, name: str, d: int, evaluations: int, seed: int) -> Any:
    job = json.dumps([name, d, evaluations, seed])
    done = subprocess.run([python, "-W", "ignore", __file__, "--job", job], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(python: str, chosen: list[str], seeds: int, out: Path) -> None:
    """Print a table of the best values after half and all of the evaluations, and keep them all."""
    kept: dict[str, Any] = {}
    for name, d, evaluations in JOBS:
        for who in chosen:
            start, runs = time.perf_counter(), []
            if who == "BoTorch":
                runs = [remote(python, name, d, evaluations, seed) for seed in range(seeds)]
            else:
                runs = [list(ours(who, name, d, evaluations, seed)) for seed in range(seeds)]
            each = (time.perf_counter() - start) / seeds
            halves = [max(run[: evaluations // 2]) for run in runs]
            ends = [max(run[:evaluations]) for run in runs]
            kept[f"{name}-{d} {who}"] = {"half": halves, "end": ends, "seconds_per_run": each}
            print(
                f"| {name} {d} | {who} | {np.median(halves):.3f} | {np.median(ends):.3f} | "
                f"{min(ends):.3f} … {max(ends):.3f} | {each:.1f} |",
                flush=True,
            )
            out.write_text(json.dumps(kept, indent=1))


def times(d: int = 100, evaluations: int = 300) -> None:
    """Print what thinking costs per evaluation, with default settings, where a budget of episodes would end."""
    from abps.optimisers.base import maximise
    from abps.registry import KINDS, find

    weights = np.linspace(0.1, 2.0, d)
    for kind in KINDS["optimiser"]:
        start = time.process_time()
        maximise(find("optimiser", kind)(), lambda points: -np.square(points - 0.6) @ weights, d, evaluations)
        print(f"{kind}: {(time.process_time() - start) / evaluations:.3f} s of CPU time per evaluation", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--botorch", default="python", help="interpreter that has BoTorch")
    parser.add_argument("--only", nargs="+", default=list(WHO), choices=WHO)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("turbo_against_botorch.json"))
    parser.add_argument("--times", action="store_true", help="only measure what thinking costs at 100 parameters")
    parser.add_argument("--job", help="(for the other interpreter) one run of BoTorch")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(botorch(*json.loads(options.job))))
        sys.exit(0)
    if options.times:
        times()
        sys.exit(0)
    compare(options.botorch, options.only, options.seeds, options.out)
