"""Speed of the acquisition: against a dense d×d twin under the same optimiser, and as a function of d.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/micro/gp_acquisition.py

The twin does what the published systems do: it adds the candidate to the data, forms Σ' = D − G'K'⁻¹G'ᵀ (d×d), and
solves with it. It is given every help that leaves it dense: NumPy with BLAS, and an analytic (reverse-mode) gradient
instead of finite differences. Times are processor seconds.
"""

import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from abps.acquisition import ExpectedAscent, maximise
from abps.acquisition.maximise import POLISHED
from abps.model import Hyper, condition
from abps.model.fit import THOROUGH, WARM, Bounds, fit


class DenseTwin:
    """MPD's criterion with d×d matrices; it has what it needs and looks at no posterior."""

    def __init__(self, points, returns, theta, hyper):
        self.points, self.returns, self.theta = points, returns, theta
        self.scale, self.signal, self.noise = hyper.effective, hyper.signal, hyper.noise
        self.kernel = self.k(points, points) + self.noise**2 * np.eye(len(points))
        self.G = self.g(points)
        self.mu = self.G @ np.linalg.solve(self.kernel, returns)
        self.prior = np.diag(self.signal**2 / self.scale**2)

    def k(self, a, b):
        a, b = a / self.scale, b / self.scale
        square = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2.0 * a @ b.T
        return self.signal**2 * np.exp(-0.5 * np.maximum(square, 0.0))

    def g(self, x):
        return ((x - self.theta) / self.scale**2 * self.k(self.theta[None], x)[0][:, None]).T

    def forward(self, z):
        n = len(self.points)
        cross = self.k(z[None], self.points)[0]
        gram = np.empty((n + 1, n + 1))
        gram[:n, :n], gram[n, :n], gram[:n, n] = self.kernel, cross, cross
        gram[n, n] = self.signal**2 + self.noise**2
        G = np.column_stack([self.G, self.g(z[None])[:, 0]])
        weights = cho_solve(cho_factor(gram), G.T)
        sigma = self.prior - G @ weights
        base = cho_solve(cho_factor(self.kernel), cross)
        a = G[:, n] - self.G @ base
        s = gram[n, n] - cross @ base
        factor = cho_factor(sigma)
        solved = cho_solve(factor, np.column_stack([self.mu, a]))
        return self.mu @ solved[:, 0] + a @ solved[:, 1] / s, cross, base, a, s, solved

    def values(self, posterior, candidates):
        return np.array([self.forward(z)[0] for z in candidates])

    def values_and_gradients(self, posterior, candidates):
        values, gradients = zip(*(self.value_and_gradient(z) for z in candidates), strict=True)
        return np.array(values), np.array(gradients)

    def value_and_gradient(self, z):
        value, cross, base, a, s, solved = self.forward(z)
        pm, pa = solved.T
        sbar = -np.outer(pm, pm) - np.outer(pa, pa) / s  # with respect to Σ', where dΣ' = −d(aaᵀ/s)
        abar = -2.0 * sbar @ a / s + 2.0 * pa / s
        s_bar = (a @ sbar @ a - a @ pa) / s**2
        dk = (self.points - z) / self.scale**2 * cross[:, None]  # (n, d)
        step = (self.theta - z) / self.scale**2
        value_theta = self.k(self.theta[None], z[None])[0, 0]
        mixed = value_theta * (np.diag(1.0 / self.scale**2) - np.outer(step, step))  # ∂g_z/∂z (d, d)
        jacobian = mixed - self.G @ cho_solve(cho_factor(self.kernel), dk)
        return value, abar @ jacobian - 2.0 * s_bar * (base @ dk)


def problem(d, n, seed=0):
    rng = np.random.default_rng(seed)
    theta = 0.1 * rng.normal(size=d)
    points = theta + 0.025 * rng.normal(size=(n, d))
    hyper = Hyper(np.exp(rng.uniform(np.log(0.0025), np.log(0.05), d)), 0.5, 0.05)
    returns = np.sin((points - theta) @ rng.normal(size=d) * 4.0) + 0.05 * rng.normal(size=n)
    return points, returns, theta, hyper


def clock(function, repeats):
    """Median processor time of one call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.median(times))


def against_twin(repeats):
    """Engine and twin in turn, three runs of the engine for one of the twin, so that both see the same load."""
    d, n = 216, 75
    points, returns, theta, hyper = problem(d, n)
    starts = theta + 0.025 * np.random.default_rng(1).normal(size=(32, d))
    makers = {"engine": ExpectedAscent, "dense twin": lambda: DenseTwin(points, returns, theta, hyper)}
    results, times, per = {}, {name: [] for name in makers}, {name: [] for name in makers}

    def run(name):
        begin = time.process_time()
        posterior, criterion = condition(points, returns, theta, hyper), makers[name]()
        results[name] = maximise(criterion, posterior, starts, theta - 0.1, theta + 0.1, np.random.default_rng(2))
        times[name].append(time.process_time() - begin)
        some = starts[:POLISHED]
        per[name].append(clock(lambda: criterion.values_and_gradients(posterior, some), 20) / POLISHED)

    for _ in range(repeats):
        for name in ("engine", "engine", "dense twin", "engine"):
            run(name)
    a, b = results["engine"], results["dense twin"]
    print(f"d={d} n={n}, 32 starts, {POLISHED} polished; set-up of the posterior included; medians of processor times")
    for name, found in results.items():
        print(
            f"  {name:10s} {np.median(times[name]):8.4f} s, {found.evaluations} evaluations, maximum "
            f"{found.value:.9f}, "
            f"a value and gradient among {POLISHED}: {np.median(per[name]) * 1e6:8.1f} µs"
        )
    print(
        f"  same maximum: {abs(a.value / b.value - 1):.1e} apart; ratio of times "
        f"{np.median(times['dense twin']) / np.median(times['engine']):.1f} (one evaluation: "
        f"{np.median(per['dense twin']) / np.median(per['engine']):.1f})"
    )


def scaling():
    print(
        "one value and gradient of the engine, n = 75; medians over rounds that take all sizes in turn; µs, and µs per "
        "parameter"
    )
    sizes, tasks = (10, 30, 100, 216, 1000, 3000, 10_000), []
    for d in sizes:
        points, returns, theta, hyper = problem(d, 75)
        tasks.append((condition(points, returns, theta, hyper), theta + 0.01))
    times = [[] for _ in sizes]
    for _ in range(15):
        for (posterior, z), store in zip(tasks, times, strict=True):
            store.append(clock(lambda p=posterior, z=z: ExpectedAscent().values_and_gradients(p, z), 11))
    for d, store in zip(sizes, times, strict=True):
        seconds = float(np.median(store))
        print(f"  d={d:6d} {seconds * 1e6:9.1f} {seconds * 1e6 / d:8.3f}")


def against_rollout():
    import gymnasium

    bounds = Bounds((0.0025, 0.05))
    points, returns, theta, _ = problem(216, 75)
    env = gymnasium.make("Ant-v4", terminate_when_unhealthy=False)

    def episode():
        env.reset(seed=0)
        for _ in range(1000):
            env.step(np.zeros(8))

    def fit_and_probe(effort, previous):
        given = {"noise": 0.05, "mean_bound": 1.0, "previous": previous, "effort": effort}
        found = fit(points, returns, bounds, np.random.default_rng(0), **given)
        posterior = condition(points, returns, theta, found.hyper)
        starts = theta + 0.025 * np.random.default_rng(1).normal(size=(32, 216))
        maximise(ExpectedAscent(), posterior, starts, theta - 0.1, theta + 0.1, np.random.default_rng(2))
        return found

    # After a probe a search fits from the optimum of the window without it (`warm`), at a new centre from all starts.
    hyper = fit(points[:-1], returns[:-1], bounds, np.random.default_rng(0), noise=0.05, mean_bound=1.0).hyper
    times = {"full": [], "warm": [], "rollout": []}
    for _ in range(5):
        times["rollout"].append(clock(episode, 1))
        times["warm"].append(clock(lambda: fit_and_probe(WARM, hyper), 1))
        times["full"].append(clock(lambda: fit_and_probe(THOROUGH, hyper), 1))
    rollout = np.median(times.pop("rollout"))
    print(f"one Ant-v4 episode of 1000 steps: {rollout:.3f} s; fit + posterior + acquisition at d=216 n=75:")
    for name, store in times.items():
        print(f"  {name} fit: {np.median(store):.3f} s; ratio {np.median(store) / rollout:.2f}")
    whole = clock(lambda: condition(points, returns, theta + 0.001, hyper).direction, 9)
    print(f"one posterior with its direction, one step of MPD's walk: {whole * 1e3:.2f} ms")


if __name__ == "__main__":
    against_twin(2)
    scaling()
    against_rollout()
