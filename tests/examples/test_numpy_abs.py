"""The readable twin and the library take the same outer iteration on the same data, number by number."""

import copy
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abps.model.gp
from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import Probe, Probing
from abps.critics.lstd_config import Lstd, Quadratic
from abps.model.fit import Fit, MarginalLikelihood, OwnLengthscales
from abps.model.gp import GP
from abps.model.kernel import Hyper
from abps.model.prior import AdvantageLearner, AdvantagePrior
from abps.policies.observations import RunningNormaliser
from abps.rollouts.episode import run_episode
from abps.search.local import LocalSearch, LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.steps.direction import ScaledDirection
from abps.tasks.gym import make_task
from abps.tasks.lqr import make_env

PATH = Path(__file__).parents[2] / "examples" / "numpy_abs.py"
SPEC = importlib.util.spec_from_file_location("numpy_abs", PATH)
assert SPEC is not None
assert SPEC.loader is not None
twin = importlib.util.module_from_spec(SPEC)
sys.modules["numpy_abs"] = twin
SPEC.loader.exec_module(twin)

D, SCALE, CAP = 4, 8.0, 0.03
RNG = np.random.default_rng(5)
OFFSETS = RNG.uniform(-0.05, 0.05, (3, 40, D))
HYPERS = [
    Hyper(length * RNG.uniform(0.7, 1.3, D), signal, 0.02)
    for length in (0.01, 0.02, 0.05)
    for signal in (0.02, 0.1, 0.4)
]


@dataclass(frozen=True, eq=False)
class FromTheList(Probing):
    """Probes where the library's criterion is largest among the places that the twin chooses from."""

    values: list[np.ndarray] = field(default_factory=list, init=False)
    asked: list[np.ndarray] = field(default_factory=list, init=False)

    def choose(self, posterior, avoid, rng):
        places = posterior.theta + OFFSETS[len(self.asked)]
        self.values.append(ExpectedAscent().values(posterior, places))
        self.asked.append(places[int(np.argmax(self.values[-1]))])
        return Probe(self.asked[-1])


class Recorder:
    """Runs the library for two outer iterations and keeps what the twin needs to take the second one itself."""

    def __init__(self, monkeypatch, step: float) -> None:
        monkeypatch.setattr(abps.model.gp, "fit", self.fit)
        env = make_env(2, 2, 1, noise=0.02, horizon=25, action_bound=1.5)
        self.task = make_task(env, gamma=0.95, reward_scale=SCALE)
        critics = Lstd(members=3, groups=1, features=Quadratic(), ridges=(1e-6, 0.1, 100.0), replay=5000)
        self.step, self.probing = step, FromTheList()
        config = LocalSearchConfig(
            observations=RunningNormaliser(),
            prior=AdvantagePrior(critics=critics, score_iterations=2),
            gp=GP(lengthscale_low=0.001, lengthscale_high=CAP),
            probing=self.probing,
            step=ScaledDirection(step),
            plan=CentreThenProbes(centre_episodes=2, probes=3, window=9, design_std=0.03),
            states=0,
        )
        self.models, self.critics = [], []
        self.search = LocalSearch(self.task.spec, config, seed=2)
        self.episodes: dict[tuple[float, ...], list] = {}
        while self.search.iteration < 1:
            self.stage()
        self.theta, self.normaliser = self.search.centre, self.search.normaliser
        self.window = list(self.search.memory.window)
        while self.search.iteration < 2:
            self.stage()

    def stage(self) -> None:
        before = self.search.iteration
        for query in self.search.open_queries():
            runs = [run_episode(self.task.make_env(), query.policy, 100 * query.id + k) for k in range(query.episodes)]
            self.episodes[tuple(query.parameters)] = runs
            self.search.tell(query, runs)
        if before == 1:
            assert isinstance(self.search.prior, AdvantageLearner)
            self.critics.append(copy.deepcopy(self.search.prior.critics))

    def fit(self, points, returns, bounds, rng, *, mean_at_points, **_) -> Fit:
        """The library's marginal likelihood, maximised over the same list that the twin chooses from."""
        likelihood = MarginalLikelihood(OwnLengthscales(points, True), returns - mean_at_points)
        logs = [np.log(np.append(h.lengthscales, (h.signal, h.noise))) for h in HYPERS]
        values = [likelihood.value(log) for log in logs]
        best = int(np.argmax(values))
        diagnostic = np.ptp(mean_at_points) == 0.0  # The fit without critics, for a metric.
        if self.search.iteration == 1 and not diagnostic:
            memory = self.search.prior.memory
            self.models.append((memory.scores, memory.weights, returns - mean_at_points, values[best], HYPERS[best]))
        return Fit(HYPERS[best], values[best], "none", "", 0, 0.0)


def twin_settings(library: Recorder):
    """The twin's own policy, the library's episodes, and the critics that the library had after each of them."""
    mean, std = library.normaliser.mean, library.normaliser.std
    remaining = list(library.critics)

    def act(x, states):
        return 1.5 * np.tanh(((np.asarray(states, dtype=float) - mean) / std) @ x.reshape(2, 2).T)

    def jacobian(x, state):
        scaled = (np.asarray(state, dtype=float) - mean) / std
        slope = 1.5 * (1.0 - np.tanh(x.reshape(2, 2) @ scaled) ** 2)
        return np.kron(np.diag(slope), scaled)

    def rollout(x, episodes):
        runs = library.episodes[tuple(x)]
        assert len(runs) == episodes
        return [(run.observations[:-1], run.actions, run.rewards / SCALE) for run in runs]

    def learn(theta):
        ensemble = remaining.pop(0)
        return [
            twin.Critic(
                lambda s, a, i=i: ensemble.q(s, a)[i],
                lambda s, a, i=i: ensemble.action_gradients(s, a)[i],
            )
            for i in range(3)
        ]

    hypers = [twin.Hyper(h.effective, h.signal, h.noise) for h in HYPERS]
    return twin.Settings(
        act, jacobian, rollout, learn, lambda _: hypers, lambda theta, number: theta + OFFSETS[number],
        0.95, 2, 3, 9, 2, library.step, CAP,
    )  # fmt: skip


def take_iteration(library: Recorder):
    settings = twin_settings(library)
    data = [twin.observe(p.parameters, len(p.returns), p.iteration, settings) for p in library.window]
    return twin.outer_iteration(library.theta, data, 1, settings)


@pytest.mark.parametrize("step", [0.02, 10.0])
def test_twin_and_library_agree(monkeypatch, step):
    """The small step is taken as it is, the large one is capped; everything on the way agrees to 1e-6."""
    library = Recorder(monkeypatch, step)
    theta, data, models = take_iteration(library)
    assert len(models) == 1 + 3 == len(library.critics)
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-9}
    for model, (scores, weights, residuals, evidence, hyper) in zip(models, library.models, strict=True):
        assert np.allclose(model.scores, scores, **close)
        assert np.allclose(model.weights, weights, **close)
        assert np.allclose(model.residuals, residuals, **close)
        assert np.array_equal(model.hyper.lengthscales, hyper.effective)
        assert model.evidence == pytest.approx(evidence, rel=1e-6)
    for number, asked in enumerate(library.probing.asked):
        m = models[number]
        places = library.theta + OFFSETS[number]
        values = [twin.acquisition(z, library.theta, m.points, m.residuals, m.slope, m.hyper) for z in places]
        assert np.allclose(values, library.probing.values[number], rtol=1e-6)
        assert np.array_equal(data[-3 + number].x, asked)
    assert np.allclose(theta - library.theta, library_step(library), rtol=1e-6)
    assert np.abs(theta - library.theta).mean() <= CAP * (1 + 1e-9)
    assert (np.abs(theta - library.theta).mean() > 0.99 * CAP) == (step == 10.0)


def library_step(library: Recorder) -> np.ndarray:
    assert library.search.memory.previous is not None
    return library.search.centre - library.search.memory.previous


def test_hypers_are_really_chosen_between(monkeypatch):
    """The agreement would mean little if one of the alternatives always won or if critics weighed alike."""
    library = Recorder(monkeypatch, 0.02)
    _, _, models = take_iteration(library)
    evidences = [
        twin.log_evidence(models[-1].points, models[-1].residuals, twin.Hyper(h.effective, h.signal, h.noise))
        for h in HYPERS
    ]
    assert np.ptp(evidences) > 1.0
    assert np.ptp(models[-1].weights) > 0.01
    assert np.linalg.norm(models[-1].slope) > 0.0


@pytest.mark.parametrize("broken", ["own states", "no gradient", "no weights"])
def test_a_broken_twin_is_noticed(monkeypatch, broken):
    """Negative controls: three mistakes a reader could make, each of which moves the step by far more than 1e-6."""
    library = Recorder(monkeypatch, 0.02)
    if broken == "own states":
        whole = twin.inference_advantage

        def wrong(critic, x, theta, centre, cfg):
            return whole(critic, x, theta, centre._replace(states=centre.states[::-1]), cfg)

        monkeypatch.setattr(twin, "inference_advantage", wrong)
    elif broken == "no gradient":
        monkeypatch.setattr(twin, "inference_gradient", lambda critic, theta, centre, cfg: np.zeros(D))
    else:
        monkeypatch.setattr(twin, "softmax", lambda scores: np.full(len(scores), 1 / len(scores)))
    try:
        theta, _, _ = take_iteration(library)
    except KeyError:
        return  # It asked for a probe that the library never ran: noticed.
    step = library_step(library)
    assert np.abs(theta - library.theta - step).max() > 1e-5 * np.abs(step).max()


def test_the_example_learns():
    values = twin.demonstration(iterations=5, verbose=False)
    assert values[-1] > values[0] + 0.3
