"""Augmented Bayesian Search in plain NumPy: one outer iteration with every formula written out and nothing clever.

This is the twin that readers start from and that tests hold against the library: explicit inverses, d×d matrices,
loops over states, expectations taken as they are defined. Nothing of `abps` is imported. What the library does by
optimisation (hyper-parameters, the acquisition's maximum) is done here by looking at given alternatives and taking the
best.

    python examples/numpy_abs.py        # a damped oscillator, critics by least squares; a few seconds

Shapes: d parameters, n points, m states, s and a sizes of states and actions. Everything is maximised.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Critic(NamedTuple):
    """An estimate of Q of the centre's policy and its slope in the action."""

    q: Callable  # (m, s), (m, a) → (m,)
    slope: Callable  # (m, s), (m, a) → (m, a)


class Hyper(NamedTuple):
    """Hyper-parameters of the Gaussian process; lengthscales (d,) are effective ones, √d included."""

    lengthscales: np.ndarray
    signal: float
    noise: float


class Point(NamedTuple):
    """What was seen of one policy: Ĵ, and its visited states and actions with their weights γᵗ / episodes."""

    x: np.ndarray
    value: float
    states: np.ndarray
    actions: np.ndarray
    weights: np.ndarray
    iteration: int


class Settings(NamedTuple):
    act: Callable  # policy: x (d,), states (m, s) → actions (m, a)
    jacobian: Callable  # x (d,), one state (s,) → ∂action/∂x (a, d)
    rollout: Callable  # x, episodes → list of (states, actions, rewards already scaled)
    learn: Callable  # θ → critics trained on everything rolled out so far
    hypers: Callable  # residuals (n,) → hyper-parameters to choose from
    candidates: Callable  # θ, number of the probe → places to choose from (c, d)
    gamma: float
    centre_episodes: int  # N_c
    probes: int  # N_acq
    window: int  # N_max
    score_iterations: int
    step: float  # δ
    longest: float  # largest mean |step|: the upper bound of the lengthscales


def observe(x, episodes, iteration, cfg: Settings) -> Point:
    """Run a policy and keep its return and its discounted state distribution."""
    runs = cfg.rollout(x, episodes)
    discounts = [cfg.gamma ** np.arange(len(rewards)) for _, _, rewards in runs]
    value = np.mean([g @ rewards for g, (_, _, rewards) in zip(discounts, runs, strict=True)])
    states, actions = (np.concatenate([run[part] for run in runs]) for part in (0, 1))
    return Point(x, float(value), states, actions, np.concatenate(discounts) / episodes, iteration)


# ---- the advantage mean function
# -----------------------------------------------------------------------------------------


def inference_advantage(critic: Critic, x, theta, centre: Point, cfg: Settings) -> float:
    """What m̂ adds to Ĵ(θ): expected advantage of x on the states of the centre, Eq. (8)."""
    s = centre.states
    return centre.weights @ (critic.q(s, cfg.act(x, s)) - critic.q(s, cfg.act(theta, s)))


def inference_gradient(critic: Critic, theta, centre: Point, cfg: Settings):
    """∇m̂(θ): the deterministic policy gradient of the critic, state by state (first term of Eq. (9))."""
    slopes = critic.slope(centre.states, cfg.act(theta, centre.states))
    terms = zip(centre.weights, slopes, centre.states, strict=True)
    return sum(w * slope @ cfg.jacobian(theta, s) for w, slope, s in terms)


def validation_advantage(critic: Critic, theta, point: Point, cfg: Settings) -> float:
    """What m̃ adds to Ĵ(θ): expected advantage of the point's actions on its own states, Eq. (10)."""
    s = point.states
    return point.weights @ (critic.q(s, point.actions) - critic.q(s, cfg.act(theta, s)))


def validation_score(critic: Critic, theta, centre: Point, points: list[Point], cfg: Settings) -> float:
    """R̃²: the share of the returns' variance that m̃ explains, Eq. (11)."""
    returns = np.array([p.value for p in points])
    predictions = np.array([centre.value + validation_advantage(critic, theta, p, cfg) for p in points])
    spread = np.sum((returns - returns.mean()) ** 2)
    return 1.0 - np.sum((predictions - returns) ** 2) / spread if len(points) > 1 else 0.0


def softmax(scores):
    odds = np.exp(scores - np.max(scores))
    return odds / odds.sum()  # Eq. (12)


# ---- the Gaussian process
# ---------------------------------------------------------------------------------------------------


def kernel(left, right, h: Hyper):
    difference = (left[:, None, :] - right[None, :, :]) / h.lengthscales
    return h.signal**2 * np.exp(-0.5 * np.sum(difference**2, axis=-1))


def gram(points, h: Hyper):
    return kernel(points, points, h) + h.noise**2 * np.eye(len(points))


def log_evidence(points, residuals, h: Hyper) -> float:
    K = gram(points, h)
    fit = residuals @ np.linalg.inv(K) @ residuals
    return -0.5 * (fit + np.linalg.slogdet(K)[1] + len(points) * np.log(2.0 * np.pi))


def gradient_posterior(theta, points, residuals, slope, h: Hyper):
    """μ (d,) and Σ (d, d) of ∇J(θ), Eqs. (2) and (3); `slope` is ∇m̂(θ)."""
    inverse = np.linalg.inv(gram(points, h))
    cross = ((points - theta) / h.lengthscales**2).T * kernel(theta[None], points, h)  # ∂k(θ, X)/∂θ
    prior = np.diag(h.signal**2 / h.lengthscales**2)
    return slope + cross @ inverse @ residuals, prior - cross @ inverse @ cross.T


def ascent(theta, points, residuals, slope, h: Hyper) -> float:
    """μᵀΣ⁻¹μ: the larger, the more probable is ascent along Σ⁻¹μ."""
    mu, sigma = gradient_posterior(theta, points, residuals, slope, h)
    return mu @ np.linalg.inv(sigma) @ mu


def acquisition(z, theta, points, residuals, slope, h: Hyper) -> float:
    """α(z) = E_y[μ'ᵀΣ'⁻¹μ']: what `ascent` will be after measuring z, on average over what the process expects there.

    After the measurement μ' is linear in y, so the expectation of the quadratic is the mean of two outcomes, one
    standard deviation above and below: no closed form is needed.
    """
    row, inverse = kernel(z[None], points, h)[0], np.linalg.inv(gram(points, h))
    expected, spread = row @ inverse @ residuals, np.sqrt(h.signal**2 + h.noise**2 - row @ inverse @ row)
    outcomes = (expected - spread, expected + spread)
    grown = np.vstack([points, z])
    return float(np.mean([ascent(theta, grown, np.append(residuals, y), slope, h) for y in outcomes]))


# ---- Algorithms 1 and 2
# -------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """What is believed after a rollout."""

    scores: np.ndarray
    weights: np.ndarray
    points: np.ndarray
    residuals: np.ndarray
    slope: np.ndarray
    hyper: Hyper
    evidence: float


def build_model(theta, data: list[Point], centre: Point, cfg: Settings) -> Model:
    """Algorithm 1, lines 7 to 9: train the critics, weigh them, fit the process."""
    critics = cfg.learn(theta)
    recent = [p for p in data if p.iteration > centre.iteration - cfg.score_iterations]
    scores = np.array([validation_score(c, theta, centre, recent, cfg) for c in critics])
    weights = softmax(scores)
    points, returns = np.array([p.x for p in data]), np.array([p.value for p in data])
    advantages = np.array([[inference_advantage(c, x, theta, centre, cfg) for c in critics] for x in points])
    residuals = returns - (centre.value + advantages @ weights)
    slopes = [w * inference_gradient(c, theta, centre, cfg) for w, c in zip(weights, critics, strict=True)]
    slope = np.sum(slopes, axis=0)
    hyper = max(cfg.hypers(residuals), key=lambda h: log_evidence(points, residuals, h))
    return Model(scores, weights, points, residuals, slope, hyper, log_evidence(points, residuals, hyper))


def outer_iteration(theta, data: list[Point], iteration: int, cfg: Settings):
    """Algorithm 2: the centre, the probes, one step. Returns the new centre, the window, and the model after every
    rollout."""
    centre = observe(theta, cfg.centre_episodes, iteration, cfg)
    data = [*data, centre][-cfg.window :]
    models = [build_model(theta, data, centre, cfg)]
    for number in range(cfg.probes):
        m = models[-1]
        places = cfg.candidates(theta, number)
        values = [acquisition(z, theta, m.points, m.residuals, m.slope, m.hyper) for z in places]
        probe = observe(places[int(np.argmax(values))], 1, iteration, cfg)
        data = [*data, probe][-cfg.window :]
        models.append(build_model(theta, data, centre, cfg))
    m = models[-1]
    mu, sigma = gradient_posterior(theta, m.points, m.residuals, m.slope, m.hyper)
    step = cfg.step * np.linalg.inv(sigma) @ mu
    step *= min(1.0, cfg.longest / np.abs(step).mean())
    return theta + step, data, models


# ---- a complete small example
# ----------------------------------------------------------------------------------------------------


def demonstration(iterations: int = 8, seed: int = 0, verbose: bool = True) -> list[float]:
    """A damped oscillator; critics are quadratic forms fitted by least-squares temporal differences."""
    rng, gamma, horizon = np.random.default_rng(seed), 0.95, 60
    A, B = np.array([[1.0, 0.1], [-0.1, 0.99]]), np.array([[0.0], [0.1]])
    memory: list[tuple] = []

    def act(x, states):
        return 2.0 * np.tanh(states @ x.reshape(1, 2).T)

    def jacobian(x, state):
        return 2.0 * (1.0 - np.tanh(x @ state) ** 2) * state[None]

    def rollout(x, episodes):
        runs = []
        for _ in range(episodes):
            states = [rng.normal([1.0, 0.0], 0.02)]
            for _ in range(horizon):
                states.append(A @ states[-1] + B @ act(x, states[-1][None])[0])
            states = np.array(states)
            actions = act(x, states[:-1])
            rewards = -0.1 * (np.sum(states[:-1] ** 2, axis=1) + 0.1 * actions[:, 0] ** 2)
            memory.append((states[:-1], actions, rewards, states[1:]))
            runs.append((states[:-1], actions, rewards))
        return runs

    def features(states, actions):
        v = np.hstack([states, actions])
        return np.hstack([np.ones((len(v), 1)), v, *(v[:, i:] * v[:, i : i + 1] for i in range(3))])

    def learn(theta):
        s, a, r, after = (np.concatenate([part[k] for part in memory[-60:]]) for k in range(4))
        now, then = features(s, a), features(after, act(theta, after))
        critics = []
        for ridge in (1e-6, 1e-4, 1e-2):
            system = now.T @ (now - gamma * then) + ridge * np.trace(now.T @ now) / now.shape[1] * np.eye(now.shape[1])
            w = np.linalg.solve(system, now.T @ r)

            def q(s, a, w=w):
                return features(s, a) @ w

            def slope(s, a, q=q, h=1e-4):
                return ((q(s, a + h) - q(s, a - h)) / (2 * h))[:, None]

            critics.append(Critic(q, slope))
        return critics

    def hypers(residuals):
        spread = residuals.std() + 1e-6
        return [
            Hyper(np.full(2, ell), f * spread, f * spread / 10) for ell in (0.05, 0.1, 0.3) for f in (0.5, 1.0, 2.0)
        ]

    cfg = Settings(act, jacobian, rollout, learn, hypers, lambda theta, _: theta + rng.uniform(-0.1, 0.1, (100, 2)),
                   gamma, 3, 5, 18, 3, 0.02, 0.15)  # fmt: skip
    theta = np.zeros(2)
    data = [observe(theta + 0.05 * rng.normal(size=2), 1, 0, cfg) for _ in range(6)]
    values = []
    for iteration in range(1, iterations + 1):
        centre = theta
        theta, data, models = outer_iteration(theta, data, iteration, cfg)
        values.append(next(p.value for p in data if p.x is centre))
        if verbose:
            print(
                f"iteration {iteration}: θ = {centre.round(3)}, Ĵ = {values[-1]:.4f}, best R̃² = "
                f"{models[-1].scores.max():.3f}"
            )
    return values


if __name__ == "__main__":
    demonstration()
