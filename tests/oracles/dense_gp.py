"""A naive twin of the engine: explicit inverses, d×d matrices, textbook formulas (Section 2.2), nothing factored.

`draw` makes random problems for both; `precise` is the same twin in high-precision arithmetic, for problems on which
float64 itself is in doubt (squared exponential only). With `matern` the twin has the textbooks' Matérn-5/2 kernel.
"""

from typing import NamedTuple

import mpmath
import numpy as np

from abps.model import Features, Hyper


class Problem(NamedTuple):
    points: np.ndarray
    returns: np.ndarray
    theta: np.ndarray
    effective: np.ndarray
    signal: float
    noise: float
    mean_at_points: np.ndarray
    mean_gradient: np.ndarray
    counts: np.ndarray
    features: np.ndarray  # (n, k), already times σ_β; k may be 0
    slopes: np.ndarray  # (d, k), already times σ_β
    matern: bool = False  # the Matérn-5/2 kernel instead of the squared exponential


def matern_lengthscales(p: Problem):
    """ℓ of the textbook's (1 + √5 r/ℓ + 5r²/3ℓ²)·exp(−√5 r/ℓ) whose gradient has the prior covariance σ_f²/L²."""
    return p.effective * np.sqrt(5.0 / 3.0)


def kernel(p: Problem, a, b):
    if p.matern:
        root = np.sqrt(5.0 * (((a[:, None] - b[None]) / matern_lengthscales(p)) ** 2).sum(-1))
        return p.signal**2 * (1.0 + root + root**2 / 3.0) * np.exp(-root)
    return p.signal**2 * np.exp(-0.5 * (((a[:, None] - b[None]) / p.effective) ** 2).sum(-1))


def kernel_gradient(p: Problem, a, x):
    """∂k(a, x)/∂a (d, m) for one a (d,) and points x (m, d)."""
    if p.matern:
        lengthscales = matern_lengthscales(p)
        root = np.sqrt(5.0 * (((x - a) / lengthscales) ** 2).sum(-1))
        weight = p.signal**2 * 5.0 / 3.0 * (1.0 + root) * np.exp(-root)
        return ((x - a) / lengthscales**2 * weight[:, None]).T
    return ((x - a) / p.effective**2 * kernel(p, a[None], x)[0][:, None]).T


def gradient_prior(p: Problem):
    """∂²k(θ, θ')/∂θ∂θ' at θ' = θ, without features (d, d)."""
    if p.matern:
        return np.diag(p.signal**2 * 5.0 / 3.0 / matern_lengthscales(p) ** 2)
    return np.diag(p.signal**2 / p.effective**2)


def gram(p: Problem):
    return kernel(p, p.points, p.points) + np.diag(p.noise**2 / p.counts) + p.features @ p.features.T


def cross_gradient(p: Problem, x, features):
    """cov(∇J(θ), J(x)) (d, m)."""
    return kernel_gradient(p, p.theta, x) + p.slopes @ features.T


def gradient_posterior(p: Problem):
    """μ (d,) and Σ (d, d)."""
    inverse = np.linalg.inv(gram(p))
    G = cross_gradient(p, p.points, p.features)
    mu = p.mean_gradient + G @ inverse @ (p.returns - p.mean_at_points)
    prior = gradient_prior(p) + p.slopes @ p.slopes.T
    return mu, prior - G @ inverse @ G.T


def linear_features(p: Problem, z):
    return (z - p.theta) @ p.slopes


def value_posterior(p: Problem, z, features=None):
    """Mean offset (m,) and covariance (m, m) of J at z, prior mean zero there."""
    features = linear_features(p, z) if features is None else features
    inverse = np.linalg.inv(gram(p))
    cross = kernel(p, z, p.points) + features @ p.features.T
    cov = kernel(p, z, z) + features @ features.T - cross @ inverse @ cross.T
    return cross @ inverse @ (p.returns - p.mean_at_points), cov


def lookahead(p: Problem, z):
    """a (d, m) and the covariance of the m noisy returns (m, m)."""
    features = linear_features(p, z)
    inverse = np.linalg.inv(gram(p))
    cross = kernel(p, z, p.points) + features @ p.features.T
    a = cross_gradient(p, z, features) - cross_gradient(p, p.points, p.features) @ inverse @ cross.T
    return a, value_posterior(p, z)[1] + p.noise**2 * np.eye(len(z))


def expected_ascent(p: Problem, z):
    """E_y[μ'ᵀΣ'⁻¹μ'] when all rows of z are measured: by updating Σ and μ, no closed form."""
    mu, sigma = gradient_posterior(p)
    a, s = lookahead(p, z)
    updated = np.linalg.inv(sigma - a @ np.linalg.inv(s) @ a.T)
    spread = a @ np.linalg.inv(s) @ a.T  # covariance of μ'
    return mu @ updated @ mu + np.trace(updated @ spread)


def trace_reduction(p: Problem, z):
    """tr Σ − tr Σ' when all rows of z are measured."""
    a, s = lookahead(p, z)
    return np.trace(a @ np.linalg.inv(s) @ a.T)


def log_likelihood(p: Problem):
    matrix = gram(p)
    r = p.returns - p.mean_at_points
    return -0.5 * (r @ np.linalg.inv(matrix) @ r + np.linalg.slogdet(matrix)[1] + len(r) * np.log(2 * np.pi))


def draw(rng, *, d=None, n=None, hard=False):
    """A random problem as (posterior's arguments, dense problem, candidate)."""
    d = int(np.exp(rng.uniform(0, np.log(301)))) if d is None else d
    n = int(rng.integers(1, 101)) if n is None else n
    k = int(rng.choice([0, 0, 3]))
    low, high = (0.0025, 0.05)
    lengthscales = np.exp(rng.uniform(np.log(low), np.log(high), d))
    if hard:
        lengthscales = rng.choice([low, high], d) if rng.uniform() < 0.5 else np.full(d, rng.choice([low, high]))
    signal = np.exp(rng.uniform(np.log(0.1), np.log(3.0)))
    noise = signal * np.exp(rng.uniform(np.log(1e-6 if hard else 1e-3), np.log(1e-2 if hard else 0.5)))
    theta = rng.normal(size=d)
    spread = np.exp(rng.uniform(np.log(0.003), np.log(0.1)))
    points = theta + spread * rng.normal(size=(n, d))
    points[0] = theta
    if n > 4:
        points[1] = points[2]  # a repeated point
        if hard:
            points[3] = points[4] + 1e-7 * spread * rng.normal(size=d)  # and a near-duplicate
    returns = signal * (np.tanh((points - theta) / spread @ rng.normal(size=d) / np.sqrt(d)) + 0.1 * rng.normal(size=n))
    hyper = Hyper(lengthscales, signal, noise, feature_scale=0.5 if k else 0.0)
    mean, slope, counts = 0.1 * rng.normal(size=n), rng.normal(size=d), rng.integers(1, 4, n).astype(float)
    values, gradient = rng.normal(size=(n, k)), rng.normal(size=(d, k)) / (spread * np.sqrt(d))
    features = Features(values, gradient) if k else None
    arguments = {"mean_at_points": mean, "mean_gradient": slope, "counts": counts, "features": features}
    scale = hyper.feature_scale
    problem = Problem(
        points, returns, theta, hyper.effective, signal, noise, mean, slope, counts, values * scale, gradient * scale
    )
    return (points, returns, theta, hyper), arguments, problem, theta + spread * rng.normal(size=d)


def naive(problem, z):
    mu, sigma = gradient_posterior(problem)
    direction = np.linalg.solve(sigma, mu)
    return {
        "mu": mu,
        "sigma": sigma,
        "direction": direction,
        "c0": mu @ direction,
        "mpd": expected_ascent(problem, z[None]),
        "gibo": trace_reduction(problem, z[None]),
        "evidence": log_likelihood(problem),
    }


def errors(found, reference):
    return {
        name: float(np.max(np.abs(np.asarray(found[name]) - value)) / max(np.max(np.abs(value)), 1e-300))
        for name, value in reference.items()
    }


def condition_number(problem):
    return float(np.linalg.cond(gram(problem) / problem.signal**2))


def precise(p: Problem, z, digits=60):
    """μ, Σ, the ascent score, MPD's and GIBO's criterion at one z, and the log likelihood, with `digits` digits."""
    with mpmath.workdps(digits):
        M = mpmath.matrix
        n, d = p.points.shape
        mp = mpmath.mpf
        X = [[mp(float(v)) for v in row] for row in p.points]
        th, L, Z = [mp(float(v)) for v in p.theta], [mp(float(v)) for v in p.effective], [mp(float(v)) for v in z]
        sf2, sn2 = mp(float(p.signal)) ** 2, mp(float(p.noise)) ** 2
        Phi, B = p.features, p.slopes
        fk = Phi.shape[1]

        def k(a, b):
            return sf2 * mpmath.exp(-sum(((x - y) / s) ** 2 for x, y, s in zip(a, b, L, strict=True)) / 2)

        def f(row):
            return [mp(float(v)) for v in row]

        F = [f(row) for row in Phi]
        Bm = [f(row) for row in B]
        fz = [sum((Z[i] - th[i]) * Bm[i][c] for i in range(d)) for c in range(fk)]
        dot = lambda a, b: sum((x * y for x, y in zip(a, b, strict=True)), mp(0))  # noqa: E731
        K = M(n, n)
        for i in range(n):
            for j in range(n):
                K[i, j] = k(X[i], X[j]) + dot(F[i], F[j]) + (sn2 / mp(float(p.counts[i])) if i == j else 0)
        kz = M([k(Z, X[j]) + dot(fz, F[j]) for j in range(n)])
        G = M(d, n + 1)
        for j, (x, feats) in enumerate([*zip(X, F, strict=True), (Z, fz)]):
            kk = k(th, x)
            for i in range(d):
                G[i, j] = (x[i] - th[i]) / L[i] ** 2 * kk + dot(Bm[i], feats)
        Kinv = K**-1
        Gx, gz = G[:, :n], G[:, n]
        r = M([mp(float(a)) - mp(float(b)) for a, b in zip(p.returns, p.mean_at_points, strict=True)])
        mu = M([mp(float(v)) for v in p.mean_gradient]) + Gx * (Kinv * r)
        prior = M(d, d)
        for i in range(d):
            for j in range(d):
                prior[i, j] = dot(Bm[i], Bm[j]) + (sf2 / L[i] ** 2 if i == j else 0)
        sigma = prior - Gx * Kinv * Gx.T
        a = gz - Gx * (Kinv * kz)
        s = sf2 + dot(fz, fz) + sn2 - (kz.T * Kinv * kz)[0]
        direction = mpmath.lu_solve(sigma, mu)
        c0 = (mu.T * direction)[0]
        after = sigma - a * a.T / s
        mpd = (mu.T * mpmath.lu_solve(after, mu))[0] + (a.T * mpmath.lu_solve(after, a))[0] / s
        gibo = (a.T * a)[0] / s
        evidence = -((r.T * Kinv * r)[0] + mpmath.log(mpmath.det(K)) + n * mpmath.log(2 * mpmath.pi)) / 2
        as_array = lambda m: np.array(m.tolist(), dtype=float)  # noqa: E731
        return {
            "mu": as_array(mu)[:, 0],
            "sigma": as_array(sigma),
            "direction": as_array(direction)[:, 0],
            "c0": float(c0),
            "mpd": float(mpd),
            "gibo": float(gibo),
            "evidence": float(evidence),
        }
