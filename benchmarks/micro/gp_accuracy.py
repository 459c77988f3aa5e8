"""Accuracy of the engine: random problems against the dense twin, and ill-conditioned ones against high-precision
arithmetic.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/micro/gp_accuracy.py [problems] [ill-conditioned
    problems]

Errors are relative in the maximum norm. Beyond a condition number of 1e7 (of the noisy Gram matrix, unit signal) they
are given as multiples of condition × eps.

Where engine and twin disagree by more than 1e-8, ball arithmetic decides (python-flint, `pip install python-flint`):
every number carries a proven bound of its error, and the digits are doubled until all results are proven to 1e-20. It
is compared with the mpmath oracle of the tests on one problem first. Where the engine is above 1e-8 of the truth, the
script prints what moving the inputs by half a unit in the last place would change, and what is left of the value when
all covariances are rounded once to float64 and everything after that is exact.
"""

import sys
import time
from pathlib import Path

import numpy as np
from flint import arb, arb_mat, ctx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "oracles"))
import dense_gp as dense

from abps.acquisition import ExpectedAscent, TraceReduction
from abps.model import condition
from abps.model.fit import MarginalLikelihood, OwnLengthscales

EPS = np.finfo(float).eps


def engine(positional, arguments, problem, z):
    posterior = condition(*positional, **arguments)
    hyper, features = positional[3], arguments["features"]
    likelihood = MarginalLikelihood(
        OwnLengthscales(positional[0], True),
        positional[1] - arguments["mean_at_points"],
        counts=arguments["counts"],
        feature_values=None if features is None else features.values,
    )
    parameters = np.log([*hyper.lengthscales, hyper.signal, hyper.noise, *([hyper.feature_scale] if features else [])])
    return posterior, {
        "mu": posterior.mu,
        "sigma": posterior.multiply(np.eye(len(posterior.theta))),
        "direction": posterior.direction,
        "c0": posterior.ascent_score,
        "mpd": float(ExpectedAscent().values(posterior, z)),
        "gibo": float(TraceReduction().values(posterior, z)),
        "evidence": likelihood.value(parameters),
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
        f"{done} problems (of {tried} drawn), condition 1e0…{max(conds):.1e}, median "
        f"{np.median(conds):.1e}; with jitter: {jitter}"
    )
    print("  quantity    worst error   above 1e-8")
    for name in worst:
        print(f"  {name:10s} {worst[name]:12.1e} {over[name]:8d}")
    return doubtful


def _matrix(values):
    return arb_mat(np.atleast_2d(np.asarray(values, dtype=float)).tolist())


def _column(values):
    return _matrix(values).transpose()


def _square(p, x):
    """|t|² of one point."""
    return sum((((arb(a) - arb(b)) / arb(c)) ** 2 for a, b, c in zip(x, p.theta, p.effective, strict=True)), arb(0))


def _round(matrix):
    """Every entry rounded once to float64."""
    return _matrix([[float(v.mid()) for v in row] for row in matrix.tolist()])


def _covariances(p, z):
    """Of J at the points and at z (n + 1, n + 1), of ∇J(θ) with them (d, n + 1), of ∇J(θ); the variances of noise
    and signal."""
    n, d = p.points.shape
    whiten = arb_mat([[0 if i != j else 1 / arb(float(p.effective[i])) for j in range(d)] for i in range(d)])
    rows = (_matrix(np.vstack([p.points, z])) - _matrix(np.tile(p.theta, (n + 1, 1)))) * whiten  # t
    products, signal = rows * rows.transpose(), arb(float(p.signal)) ** 2
    square = [products[i, i] for i in range(n + 1)]
    kernel = arb_mat(
        [[signal * (products[i, j] - (square[i] + square[j]) / 2).exp() for j in range(n + 1)] for i in range(n + 1)]
    )
    towards = arb_mat(n + 1, n + 1)  # k(θ, x) on its diagonal
    for i in range(n + 1):
        towards[i, i] = signal * (-square[i] / 2).exp()
    cross, prior = (towards * rows * whiten).transpose(), whiten * whiten * signal
    if p.slopes.size:
        slopes = _matrix(p.slopes)
        features = arb_mat(_matrix(p.features).tolist() + ((_matrix(z) - _matrix(p.theta)) * slopes).tolist())
        kernel, cross = kernel + features * features.transpose(), cross + slopes * features.transpose()
        prior = prior + slopes * slopes.transpose()
    return kernel, cross, prior, arb(float(p.noise)) ** 2, signal


def _balls(p, z):
    """The quantities of `dense.naive` as matrices of balls, by the same textbook formulas."""
    n = len(p.points)
    kernel, cross, prior, noise, _ = _covariances(p, z)
    gram, kz = arb_mat(n, n), arb_mat(n, 1)
    for i in range(n):
        kz[i, 0] = kernel[i, n]
        for j in range(n):
            gram[i, j] = kernel[i, j] + (noise / arb(float(p.counts[i])) if i == j else 0)
    points, candidate = arb_mat([row[:n] for row in cross.tolist()]), arb_mat([[row[n]] for row in cross.tolist()])
    residual = _column(p.returns) - _column(p.mean_at_points)
    solved = gram.solve(
        arb_mat(
            [a + b + c for a, b, c in zip(residual.tolist(), kz.tolist(), points.transpose().tolist(), strict=True)]
        )
    )
    weights, toward_z, spread = (
        arb_mat([row[k] for row in solved.tolist()]) for k in (slice(0, 1), slice(1, 2), slice(2, None))
    )
    mu, sigma = _column(p.mean_gradient) + points * weights, prior - points * spread
    a = candidate - points * toward_z
    s = kernel[n, n] + noise - (kz.transpose() * toward_z)[0, 0]
    both = sigma.solve(arb_mat([x + y for x, y in zip(mu.tolist(), a.tolist(), strict=True)]))
    direction, b = (arb_mat([[row[k]] for row in both.tolist()]) for k in (0, 1))
    c0, u, q = ((left.transpose() * right)[0, 0] for left, right in ((mu, direction), (mu, b), (a, b)))
    mpd = c0 + (u * u + q) / (s - q)  # (Σ − aaᵀ/s)⁻¹ by the rank-one formula, exact here
    evidence = -((residual.transpose() * weights)[0, 0] + gram.det().log() + n * (2 * arb.pi()).log()) / 2
    scalars = {"c0": c0, "mpd": mpd, "gibo": (a.transpose() * a)[0, 0] / s, "evidence": evidence}
    return {"mu": mu, "sigma": sigma, "direction": direction} | {k: arb_mat([[v]]) for k, v in scalars.items()}


def truth(problem, z):
    """The same dictionary as `dense.precise`, proven to 1e-20 of every quantity's largest entry; and the digits that
    took."""
    ctx.dps = 40
    while True:
        values = _balls(problem, z)
        found = {name: np.array([[float(v.mid()) for v in row] for row in m.tolist()]) for name, m in values.items()}
        radius = {name: max(float(v.rad()) for v in m.entries()) for name, m in values.items()}
        if all(radius[name] <= 1e-20 * np.abs(found[name]).max() for name in found):
            shapes = {"mu": -1, "direction": -1, "sigma": found["sigma"].shape}
            return {k: v.reshape(shapes[k]) if k in shapes else float(v[0, 0]) for k, v in found.items()}, ctx.dps
        ctx.dps *= 2


def sensitivity(problem, z, name, rng, draws=8, times=1e3):
    """Largest relative change of a quantity when the points relative to θ, the lengthscales and the features are
    moved by at most half a unit in the last place.

    Such a move would be lost in float64; it is made `times` larger, and its effect divided by as much.
    """

    def move(values):
        return values * (1.0 + times * 0.5 * EPS * rng.uniform(-1, 1, values.shape))

    centred = problem._replace(points=problem.points - problem.theta, theta=np.zeros_like(problem.theta))
    z, changes, fields = z - problem.theta, [], ("points", "effective", "features", "slopes")
    base = truth(centred, z)[0]
    for _ in range(draws):
        other = centred._replace(**{field: move(getattr(centred, field)) for field in fields})
        changes.append(dense.errors(truth(other, move(z))[0], base)[name] / times)
    return max(changes)


def rounded_covariances(p, z):
    """GIBO's value by the engine's route in exact arithmetic, after one rounding of every covariance to float64.

    The route: with e, Ḡ = cov((J(θ), ∇J(θ)), y) known, C is what is left of the points' covariance and k̂ of the
    candidate's with them; S = C + eeᵀ, b = H⁻²(ḡ_z − ḠS⁻¹k), Σ⁻¹ = H⁻² + H⁻²ḠS⁻¹ḠᵀH⁻², a = Σb, where k = k̂ + e·e_z,
    H² = cov(∇J(θ)). What this is off, no algebra on float64 covariances can mend.
    """
    ctx.dps = 60
    n = len(p.points)
    kernel, cross, prior, noise, signal = _covariances(p, z)
    inverse = prior.inv()
    decay = _round(arb_mat([[signal * (-_square(p, x) / 2).exp()] for x in np.vstack([p.points, z])]))  # e, then e_z
    left = kernel - decay * decay.transpose() / signal - cross.transpose() * inverse * cross
    for i in range(n):
        left[i, i] += noise / arb(float(p.counts[i]))
    left, cross = _round(left), _round(cross)
    total = left + decay * decay.transpose() / signal
    gram = arb_mat([row[:n] for row in total.tolist()[:n]])
    k = arb_mat([[row[n]] for row in total.tolist()[:n]])
    points, candidate = arb_mat([row[:n] for row in cross.tolist()]), arb_mat([[row[n]] for row in cross.tolist()])
    solved = gram.solve(k)
    b = inverse * (candidate - points * solved)
    precision = inverse + inverse * points * gram.solve(points.transpose()) * inverse
    a = precision.solve(b)
    s = total[n, n] + noise - (k.transpose() * solved)[0, 0] + (b.transpose() * a)[0, 0]
    return float(((a.transpose() * a)[0, 0] / s).mid())


def settle(doubtful):
    """Where engine and twin disagree, proven arithmetic decides which of them is wrong."""
    rng = np.random.default_rng(2)
    case = dense.draw(rng, d=5, n=8)
    agree = max(dense.errors(truth(case[2], case[3])[0], dense.precise(case[2], case[3])).values())
    print(f"  ball arithmetic and mpmath agree to {agree:.1e}")
    problems = {}
    for case, name in doubtful:
        problems.setdefault(id(case[2]), (case, []))[1].append(name)
    worst, blamed, most, above, digits = {}, 0, (0, 0), 0, 0
    for case, names in problems.values():
        n, d = case[2].points.shape
        most = max(most[0], d), max(most[1], n)
        exact, used = truth(case[2], case[3])
        digits = max(digits, used)
        ours, twins = dense.errors(engine(*case)[1], exact), dense.errors(dense.naive(case[2], case[3]), exact)
        blamed += all(twins[name] > ours[name] for name in names)
        for name, error in ours.items():  # All quantities of these problems, also those on which the two agree.
            previous = worst.get(name, (0, 0.0, 0.0))
            worst[name] = (previous[0] + (name in names), max(previous[1], error), max(previous[2], twins[name]))
            if error > 1e-8:
                above += 1
                print(
                    f"  engine above 1e-8: {name} at d={d} n={n} condition "
                    f"{dense.condition_number(case[2]):.1e}: engine {error:.1e}, twin {twins[name]:.1e}, "
                    f"inputs moved by half a unit in the last place {sensitivity(case[2], case[3], name, rng):.1e}"
                )
                if name == "gibo":
                    limit = abs(rounded_covariances(case[2], case[3]) / exact[name] - 1.0)
                    share = error * exact[name] / np.trace(exact["sigma"])
                    print(
                        f"    exact algebra on covariances rounded once: {limit:.1e}; the engine's "
                        f"error is {share:.1e} of tr Σ"
                    )
    print(
        f"  {len(problems)} problems with a difference above 1e-8 (d up to {most[0]}, n up to "
        f"{most[1]}), all settled with up to {digits} digits; "
        f"the twin is further off in {blamed}, the engine above 1e-8 in {above} quantities"
    )
    for name, (count, own, other) in worst.items():
        print(f"  {name:10s} {count:4d} differences: worst error of the engine {own:.1e}, of the twin {other:.1e}")


def against_precision(count):
    rng = np.random.default_rng(1)
    print(
        f"{count} ill-conditioned problems against 60 digits; errors as multiples of condition × eps "
        "(engine | dense twin)"
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
            f"  {name:10s} multiple: {a[:, 0].max():9.2g} | {b[:, 0].max():9.2g}    worst error: "
            f"{a[:, 1].max():9.1e} | {b[:, 1].max():9.1e}"
            f"    median error: {np.median(a[:, 1]):9.1e} | {np.median(b[:, 1]):9.1e}"
        )


if __name__ == "__main__":
    counts = [int(v) for v in sys.argv[1:]] + [1000, 40][len(sys.argv) - 1 :]
    begin = time.perf_counter()
    settle(against_twin(counts[0]))
    against_precision(counts[1])
    print(f"{time.perf_counter() - begin:.0f} s")
