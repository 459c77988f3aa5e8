"""Quality and cost of the hyper-parameter fit against 32 full SciPy starts from scratch.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/micro/gp_fit.py [problems] [first problem]

Problems: n = 21…75 points, d = 4…216 parameters, functions of several roughnesses and effective dimensions, noise from
1 % to 30 % of the signal, windows made like a search's (three clouds around three centres). The reference runs SciPy's
L-BFGS-B to its own default convergence from 32 uniform starts in the same box on the same evidence and takes the best.
Cost is counted in evidence evaluations (with gradient; a value alone counts as one too) and in processor seconds.
"""

import sys
import time

import numpy as np
from scipy.optimize import minimize

from abps.model.fit import THOROUGH, WARM, Bounds, MarginalLikelihood, OwnLengthscales, fit

BOUNDS = Bounds((0.0025, 0.05))


def problem(rng):
    d, n = int(np.exp(rng.uniform(np.log(4), np.log(217)))), int(rng.integers(21, 76))
    centres = np.cumsum(0.02 * rng.normal(size=(3, d)), axis=0)
    points = centres[np.arange(n) % 3] + rng.choice([0.01, 0.025]) * rng.normal(size=(n, d))
    relevant = rng.uniform(size=d) < rng.choice([0.2, 1.0])
    relevant[0] = True
    slope = rng.normal(size=(d, 2)) * relevant[:, None]
    inner = points @ slope / (0.025 * np.sqrt(relevant.sum())) * rng.choice([0.3, 1.0, 2.0])
    returns = np.sin(inner[:, 0]) + 0.5 * inner[:, 1]
    returns = returns / returns.std() * 0.3
    noise = 0.3 * np.exp(rng.uniform(np.log(0.01), np.log(0.3)))
    return points, returns + noise * rng.normal(size=n), noise


def reference(points, returns, noise, rng):
    likelihood = MarginalLikelihood(OwnLengthscales(points, True), returns, mean_bound=1.0)
    d, signal = points.shape[1], float(np.std(returns))
    edges = [BOUNDS.lengthscale] * d
    edges += [(v / f, v * f) for v, f in ((signal, BOUNDS.signal_factor), (noise, BOUNDS.noise_factor))]
    lower, upper = np.log(edges).T
    values = []
    for _ in range(32):
        found = minimize(
            lambda p: tuple(-v for v in likelihood.value_and_gradient(p)),
            rng.uniform(lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([lower, upper], 1),
            options={"maxiter": 1000},
        )
        values.append(-found.fun)
    return np.array(values), likelihood.evaluations


def main(count, first=0):
    gaps, warm_gaps, one_gaps, cost, warm_cost, one_cost, full, seconds = [], [], [], [], [], [], [], np.zeros(4)
    for index in range(first, first + count):
        points, returns, noise = problem(np.random.default_rng([index, 0]))
        given = {"noise": noise, "mean_bound": 1.0}
        clock = [time.process_time()]
        values, evaluations = reference(points, returns, noise, np.random.default_rng([index, 1]))
        clock.append(time.process_time())
        ours = fit(points, returns, BOUNDS, np.random.default_rng([index, 2]), **given)
        clock.append(time.process_time())
        # A search fits again after every probe: the window without its last point gives the warm start.
        before = fit(points[:-1], returns[:-1], BOUNDS, np.random.default_rng([index, 3]), **given).hyper
        clock.append(time.process_time())
        warm = fit(points, returns, BOUNDS, np.random.default_rng([index, 4]), previous=before, **given)
        clock.append(time.process_time())
        one = fit(points, returns, BOUNDS, np.random.default_rng([index, 5]), previous=before, effort=WARM, **given)
        clock.append(time.process_time())
        seconds += np.diff(clock)[[0, 1, 3, 4]]
        for store, used, found in ((gaps, cost, ours), (warm_gaps, warm_cost, warm), (one_gaps, one_cost, one)):
            store.append(values.max() - found.log_likelihood)
            used.append(found.evaluations)
        full.append(evaluations)
    print(f"{count} problems from {first}, {THOROUGH}")
    print(f"  reference, 32 full starts: {np.mean(full):.0f} evaluations, {seconds[0] / count:.3f} s per problem")
    for name, gap, used, spent in (
        ("cold", gaps, cost, seconds[1]),
        ("all starts and the last optimum", warm_gaps, warm_cost, seconds[2]),
        ("last optimum only (WARM)", one_gaps, one_cost, seconds[3]),
    ):
        gap = np.array(gap)
        print(
            f"  {name}: within 0.05 nats of the best in {np.mean(gap <= 0.05):.1%}, worst gap {gap.max():.3f}, "
            f"better by more than 0.05 in {np.mean(gap < -0.05):.1%}; "
            f"{np.mean(used):.0f} evaluations = 1/{np.sum(full) / np.sum(used):.1f}, "
            f"{spent / count:.3f} s = 1/{seconds[0] / spent:.1f} of the cost"
        )


if __name__ == "__main__":
    arguments = [int(v) for v in sys.argv[1:]] + [100, 0][len(sys.argv) - 1 :]
    main(arguments[0], arguments[1])
