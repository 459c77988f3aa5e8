"""Accuracy of the engine: random problems against the dense twin, and ill-conditioned ones against high-precision arithmetic.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/micro/gp_accuracy.py [problems] [ill-conditioned problems]

Errors are relative in the maximum norm. Beyond a condition number of 1e7 (of the noisy Gram matrix, unit signal) they are given as multiples of condition × eps.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "oracles"))
import dense_gp as dense

from abps.acquisition import DescentProbability, GradientInformation
from abps.gp import condition
from abps.gp.fit import Evidence

EPS = np.finfo(float).eps


def engine(positional, arguments, problem, z):
    posterior = condition(*positional, **arguments)
    hyper, features = positional[3], arguments["features"]
    evidence = Evidence(
        positional[0],
        positional[1] - arguments["mean_at_points"],
        counts=arguments["counts"],
        feature_values=None if features is None else features.values,
    )
    parameters = np.log([*hyper.lengthscales, hyper.signal, hyper.noise, *([hyper.feature_scale] if features else [])])
    return posterior, {
        "mu": posterior.mu,
        "sigma": posterior.dense(),
        "direction": posterior.direction,
        "c0": posterior.evidence_of_ascent,
        "mpd": float(DescentProbability(posterior).values(z)),
        "gibo": float(GradientInformation(posterior).values(z)),
        "evidence": evidence.value(parameters),
    }


def against_twin(count):
    rng = np.random.default_rng(0)
    worst, over, done, tried, jitter, conds = {}, {}, 0, 0, 0, []
    doubtful = []
    while done < count:
        tried += 1
        case = dense.draw(rng)
        cond = dense.condition_number(case[2])
        if cond > 1e7:
            continue
        done += 1
        conds.append(cond)
        posterior, found = engine(*case)
        jitter += posterior.jitter > 0
        for name, error in dense.errors(found, dense.naive(case[2], case[3])).items():
            worst[name] = max(worst.get(name, 0.0), error)
            over[name] = over.get(name, 0) + (error > 1e-8)
            if error > 1e-8:
                doubtful.append((case, name))
    print(
        f"{done} problems (of {tried} drawn), condition 1e0…{max(conds):.1e}, median {np.median(conds):.1e}; with jitter: {jitter}"
    )
    print("  quantity    worst error   above 1e-8")
    for name in worst:
        print(f"  {name:10s} {worst[name]:12.1e} {over[name]:8d}")
    return doubtful


def settle(doubtful, budget=240.0):
    """Where engine and twin disagree, high precision decides which of them is wrong; the cheapest problems first, within `budget` processor seconds."""
    problems = {}
    for case, name in doubtful:
        problems.setdefault(id(case[2]), (case, []))[1].append(name)
    queue = sorted(problems.values(), key=lambda item: np.prod(item[0][2].points.shape) * len(item[0][2].points))
    begin, worst, done, blamed, most = time.process_time(), {}, 0, 0, 0
    for case, names in queue:
        if time.process_time() - begin > budget:
            break
        done += 1
        n, d = case[2].points.shape
        most = max(most, d)
        truth = dense.precise(case[2], case[3], digits=40)
        ours, twins = dense.errors(engine(*case)[1], truth), dense.errors(dense.naive(case[2], case[3]), truth)
        blamed += all(twins[name] > ours[name] for name in names)
        for name in names:
            previous = worst.get(name, (0, 0.0, 0.0))
            worst[name] = (previous[0] + 1, max(previous[1], ours[name]), max(previous[2], twins[name]))
            if ours[name] > 1e-8:
                print(
                    f"  engine above 1e-8: {name} at d={d} n={n} condition {dense.condition_number(case[2]):.1e}: engine {ours[name]:.1e}, twin {twins[name]:.1e}"
                )
    print(
        f"  {len(queue)} problems with a difference above 1e-8; {done} settled with 40 digits (d up to {most}); the twin is further off in {blamed} of them"
    )
    for name, (count, own, other) in worst.items():
        print(
            f"  {name:10s} {count:4d} differences settled: worst error of the engine {own:.1e}, of the twin {other:.1e}"
        )


def against_precision(count):
    rng = np.random.default_rng(1)
    print(
        f"{count} ill-conditioned problems against 60 digits; errors as multiples of condition × eps (engine | dense twin)"
    )
    ours, twins, conds, jitter = {}, {}, [], 0
    for _ in range(count):
        case = dense.draw(rng, d=int(rng.integers(1, 13)), n=int(rng.integers(5, 16)), hard=True)
        cond = dense.condition_number(case[2])
        conds.append(cond)
        truth = dense.precise(case[2], case[3])
        posterior, found = engine(*case)
        jitter += posterior.jitter > 0
        for store, values in ((ours, found), (twins, dense.naive(case[2], case[3]))):
            for name, error in dense.errors(values, truth).items():
                store.setdefault(name, []).append((error / (cond * EPS), error))
    print(f"  condition {min(conds):.1e} … {max(conds):.1e}, median {np.median(conds):.1e}; with jitter: {jitter}")
    for name in ours:
        a, b = np.array(ours[name]), np.array(twins[name])
        print(
            f"  {name:10s} multiple: {a[:, 0].max():9.2g} | {b[:, 0].max():9.2g}    worst error: {a[:, 1].max():9.1e} | {b[:, 1].max():9.1e}"
            f"    median error: {np.median(a[:, 1]):9.1e} | {np.median(b[:, 1]):9.1e}"
        )


if __name__ == "__main__":
    counts = [int(v) for v in sys.argv[1:]] + [1000, 40][len(sys.argv) - 1 :]
    begin = time.perf_counter()
    settle(against_twin(counts[0]))
    against_precision(counts[1])
    print(f"{time.perf_counter() - begin:.0f} s")
