"""The slope that an ensemble of critics gives the process, and the control variates that take noise out of returns."""

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from abps.critics.base import Critics, CriticsPart, FitReport
from abps.critics.episodic import EpisodicLstd
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.errors import ConfigError
from abps.model import GP, Neighbourhood
from abps.model.ascent_prior import LARGEST_SLOPE, AscentPrior
from abps.model.chart import ActionMetric
from abps.normaliser import Normaliser
from abps.policies.linear import ClippedLinear
from abps.policies.policy import PolicySpace
from abps.state import NoMemory, restore, save
from abps.tasks.lqr import LqrSystem
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

GAMMA, STEPS = 0.9, 60
SPEC = TaskSpec("lqr", 2, 1, (-1.0,), (1.0,), gamma=GAMMA, horizon=STEPS)
SPACE, EMPTY = PolicySpace(ClippedLinear(), SPEC), Normaliser.empty(2)
SYSTEM = LqrSystem(
    np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([[0.3], [0.6]]), np.eye(2), 0.3 * np.eye(1), GAMMA, np.zeros(2),
    np.eye(2), np.zeros((2, 2)),
)  # fmt: skip
BEST = SYSTEM.optimal_gain().ravel()
GP_PART = GP(
    lengthscale_low=0.2, lengthscale_high=1.0, shared_lengthscale=True, scale_by_dimension=False, noise="spread",
    hyper_priors=True,
)  # fmt: skip


@dataclass(frozen=True)
class Known(CriticsPart):
    """Critics that know the LQR: members differ by `signs`; values of starts can be shuffled."""

    signs: tuple[float, ...] = (1.0, 1.0)
    shuffle: int | None = None
    replay: int = 100

    def make(self, space: Any, objective: Any, seed: int) -> "KnownCritics":
        return KnownCritics(self)


class KnownCritics(Critics):
    def __init__(self, part: Known) -> None:
        self.part, self.members, self.memory = part, len(part.signs), NoMemory()
        self.gain, self.scale = BEST, 1.0

    def start_centre(self, centre: Any, replay: Any, reward_scale: float, worst: int | None = None) -> FitReport:
        self.gain, self.scale = centre.parameters, reward_scale
        return FitReport(0, 0, ())

    def update(self, replay: Any) -> FitReport:
        return FitReport(0, 0, ())

    def q(self, states: Any, actions: Any) -> np.ndarray:
        return np.outer(self.part.signs, SYSTEM.action_value(self.gain, states, actions) / self.scale)

    def values(self, states: Any) -> np.ndarray:
        values = SYSTEM.value(self.gain, states) / self.scale
        if self.part.shuffle is not None:
            values = np.random.default_rng(self.part.shuffle).permutation(values)
        return np.tile(values, (self.members, 1))

    def action_gradients(self, states: Any, actions: Any) -> np.ndarray:
        slopes = SYSTEM.action_value_gradient(self.gain, states, actions) / self.scale
        return np.array(self.part.signs)[:, None, None] * slopes


def measured(gain: np.ndarray, start: np.ndarray, role: str = "probe") -> Point:
    """One noise-free episode from a start, summed up by the exact cost-to-go."""
    loop, states = SYSTEM.closed_loop(gain), [start]
    for _ in range(STEPS - 1):
        states.append(loop @ states[-1])
    found = np.array(states)
    visits = Visits(found, found @ gain.reshape(1, 2).T, np.power(GAMMA, np.arange(STEPS)))
    return Point(gain, EMPTY, SYSTEM.value(gain, start[None]), role, 0, visits, start)


def neighbourhood(places: np.ndarray, starts: np.ndarray, centre: np.ndarray, roles: list[str] | None = None) -> Any:
    roles = roles or ["probe"] * (len(places) - 1) + ["centre"]
    entries = [measured(*item) for item in zip(places, starts, roles, strict=True)]
    return Neighbourhood(SPACE.policy(centre, EMPTY), tuple(entries), 1.0, ActionMetric(ridge=1e-6))


def learner(near: Neighbourhood, prior: AscentPrior) -> Any:
    found = prior.start(SPACE, Objective(GAMMA), 0, lambda phase: contextlib.nullcontext())
    found.new_centre(near, Replay(10, 2, 1), 0)
    return found


def around(centre: np.ndarray, seed: int = 0, count: int = 10, roles: list[str] | None = None) -> Any:
    rng = np.random.default_rng(seed)
    places = np.vstack([centre + 0.1 * rng.normal(size=(count - 1, 2)), centre])
    return neighbourhood(places, rng.normal(size=(count, 2)), centre, roles)


# ---- the direction -------------------------------------------------------


def test_the_direction_is_the_natural_gradient_of_exact_critics() -> None:
    """In the chart; carried to parameters it is F⁻¹∇J, here from the Lyapunov equation of the visited states."""
    centre, spread = 0.5 * BEST, np.diag([1.0, 0.2])
    near = neighbourhood(np.tile(centre, (4, 1)), np.vstack([spread, -spread]), centre)
    ascent = learner(near, AscentPrior(critics=Known())).ascent(near)
    started = replace(SYSTEM, initial_covariance=0.5 * spread**2)
    moments, gradient = started.visitation_moments(centre), started.gradient(centre).ravel()
    natural = np.linalg.solve(moments, gradient)
    move = near.coordinates.to_parameters(ascent.direction) - centre
    assert move @ natural / np.linalg.norm(move) / np.linalg.norm(natural) == pytest.approx(1.0, abs=1e-3)
    assert gradient @ move == pytest.approx(ascent.slope, rel=0.01)
    assert ascent.agreement == pytest.approx(1.0)
    assert np.linalg.norm(ascent.direction) == pytest.approx(1.0)
    plain = move @ gradient / np.linalg.norm(move) / np.linalg.norm(gradient)
    assert plain < 0.99  # The plain gradient is another direction.


@pytest.mark.parametrize(
    ("signs", "agreement"),
    [((1.0, 1.0, 1.0), 1.0), ((1.0, 5.0, 0.1), 1.0), ((1.0, 1.0, -1.0), 1 / 3), ((1.0, -1.0), 0.0)],
)
def test_members_count_alike_and_their_agreement_shrinks_the_slope(signs: tuple[float, ...], agreement: float) -> None:
    near = around(0.5 * BEST)
    ascent = learner(near, AscentPrior(critics=Known(signs))).ascent(near)
    one = learner(near, AscentPrior(critics=Known((1.0,)))).ascent(near)
    assert ascent.agreement == pytest.approx(agreement, abs=1e-9)
    assert np.isfinite(ascent.direction).all()
    assert ascent.slope == pytest.approx(abs(np.mean(signs)) * agreement * one.slope, abs=1e-9)


def test_the_prior_slope_is_what_is_believed_of_the_critics() -> None:
    near = around(0.5 * BEST)
    ascent = learner(near, AscentPrior(critics=Known())).ascent(near)
    for share in (0.0, 0.3, 1.0, 1e6):
        mean = learner(near, AscentPrior(critics=Known(), slope_share=share)).mean(near)
        expected = min(share * ascent.slope, LARGEST_SLOPE * float(np.std(near.returns)))
        np.testing.assert_allclose(mean.slope(), expected * ascent.direction, atol=1e-9)
    wide, narrow = (learner(near, AscentPrior(critics=Known(), slope_spread=s)).mean(near) for s in (2.0, 0.5))
    assert np.linalg.norm(wide.features.gradient) == pytest.approx(4.0 * np.linalg.norm(narrow.features.gradient))
    np.testing.assert_allclose(wide.slope(), narrow.slope())


def test_exact_critics_make_the_model_climb() -> None:
    """The posterior's gradient points the same way as ∇J, with the critics' help better than without."""
    near = around(0.3 * BEST, count=6)
    true = near.coordinates.gradients(SYSTEM.gradient(0.3 * BEST).ravel())

    def cosine(signs: tuple[float, ...]) -> float:
        found = learner(near, AscentPrior(critics=Known(signs), start_spread=0.7))
        mu = GP_PART.fit(near, found.mean(near), np.random.default_rng(0)).posterior.mu
        return float(mu @ true / np.linalg.norm(mu) / np.linalg.norm(true))

    assert cosine((1.0, 1.0)) > 0.9
    assert cosine((-1.0, -1.0)) < cosine((1.0, 1.0))


# ---- control variates ----------------------------------------------------


LINE = np.linspace(-1.0, 1.0, 15)
PLACE = 0.3
"""Along the line through the centre, the best policy is here."""


def estimates(prior: AscentPrior, repeats: int = 60) -> np.ndarray:
    """Where the posterior mean along a line is highest, for `repeats` draws of random starts."""
    direction = np.array([0.9, -0.45])
    fine = np.linspace(-1.0, 1.0, 81)
    centre, found = BEST - PLACE * direction, []
    for repeat in range(repeats):
        starts = np.random.default_rng(1000 + repeat).normal(size=(len(LINE), 2))
        places = centre + LINE[:, None] * direction
        roles = ["probe"] * len(LINE)
        roles[len(LINE) // 2] = "centre"
        near = neighbourhood(places, starts, centre, roles)
        model = GP_PART.fit(near, learner(near, prior).mean(near), np.random.default_rng(0))
        asked = near.coordinates.to_chart(centre + fine[:, None] * direction)
        found.append(fine[int(np.argmax(model.better(asked)[0]))])
    return np.array(found)


def test_the_value_of_the_start_takes_noise_out_and_moves_nothing() -> None:
    """Random starts of an LQR: the estimated best policy has less variance, and its mean is the true one."""
    flat = {"critics": Known((1.0, -1.0)), "path_spread": 0.0}  # No slope: only the control variate differs.
    without = estimates(AscentPrior(start_spread=0.0, **flat))
    known = estimates(AscentPrior(start_spread=0.7, **flat))
    flat["critics"] = Known((1.0, -1.0), shuffle=5)
    shuffled = estimates(AscentPrior(start_spread=0.7, **flat))
    ratio = known.var() / without.var()
    assert ratio < 0.3
    assert shuffled.var() / without.var() > 0.7, "values of other starts explain nothing"
    assert abs(known.mean() - PLACE) < 0.1
    assert abs(without.mean() - PLACE) < 3.0 * without.std() / np.sqrt(len(without))


def test_columns_of_the_features() -> None:
    near = around(0.5 * BEST, roles=["probe"] * 6 + ["path"] * 3 + ["centre"])
    spread = float(np.std(near.returns))

    def columns(**changes: Any) -> np.ndarray:
        mean = learner(near, AscentPrior(critics=Known(), **changes)).mean(near)
        assert (mean.features.gradient[:, 1:] == 0.0).all()  # They are of episodes, not of policies.
        return mean.features.values[:, 1:]

    assert columns(start_spread=0.0, path_spread=0.0).shape == (10, 0)
    start, paths = columns(start_spread=0.7, path_spread=0.45).T
    np.testing.assert_allclose([start.mean(), start.std()], [0.0, 0.7 * spread], atol=1e-9)
    np.testing.assert_allclose(paths, 0.45 * spread * np.array([0] * 6 + [1] * 3 + [0]))
    assert columns(start_spread=0.0, path_spread=0.45).shape == (10, 1)
    at_rest = around(0.5 * BEST)
    assert learner(at_rest, AscentPrior(critics=Known())).mean(at_rest).features.values.shape == (10, 2)


def test_equal_starts_need_no_control_variate() -> None:
    places = 0.5 * BEST + 0.1 * np.random.default_rng(2).normal(size=(5, 2))
    near = neighbourhood(places, np.ones((5, 2)), places[-1])
    assert learner(near, AscentPrior(critics=Known())).mean(near).features.values.shape == (5, 1)


# ---- the learner ---------------------------------------------------------


def test_the_learner_without_states_says_so() -> None:
    near = Neighbourhood(SPACE.policy(BEST, EMPTY), (Point(BEST, EMPTY, np.zeros(1), "centre", 0),))
    with pytest.raises(RuntimeError, match="states"):
        learner(near, AscentPrior(critics=Known())).ascent(near)


def test_the_memory_of_the_learner_is_that_of_its_critics() -> None:
    part = EpisodicLstd(episodes=4, gammas=(GAMMA,), traces=(0.5,), features=8)
    near, replay = around(0.5 * BEST), Replay(1000, 2, 1)
    rng = np.random.default_rng(3)
    for _ in range(3):
        item = rng.normal(size=(21, 2)), rng.normal(size=(20, 1)), rng.normal(size=20)
        replay.append(Trajectory.build(*item, terminated=False, truncated=True))
    found = [
        AscentPrior(critics=part).start(SPACE, Objective(GAMMA), 0, lambda phase: contextlib.nullcontext())
        for _ in "ab"
    ]
    found[0].new_centre(near, replay, 0)
    found[0].new_episodes(near, replay, 0)
    expected = found[0].mean(near)
    found[1].memory = restore(found[1].memory, save(found[0].memory))
    again = found[1].mean(near)
    np.testing.assert_array_equal(again.slope(), expected.slope())
    assert again.features is not None
    assert expected.features is not None
    np.testing.assert_array_equal(again.features.values, expected.features.values)


@pytest.mark.parametrize(
    "wrong", [{"slope_share": -1.0}, {"slope_spread": 0.0}, {"start_spread": -0.1}, {"path_spread": -1.0}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"slope|spread"):
        AscentPrior(**wrong)
