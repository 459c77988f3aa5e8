"""The checks of `abps.testing` accept the parts of the package, and find mistakes in parts that have one."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from abps.acquisition.base import Criterion
from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import GaussianProbes
from abps.acquisition.trace_reduction import TraceReduction
from abps.arrays import Array
from abps.critics.closed_form import ClosedFormCritics
from abps.critics.lstd_config import Lstd, Quadratic
from abps.model.kernel import Kernel, Matern52, Profile, SquaredExponential
from abps.policies.linear import ClippedLinear, LinearTanh
from abps.search.ars import Ars, ArsConfig
from abps.search.base import Answer, Metrics, Proposal
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.settings import setting
from abps.steps.base import Move, StepInput, StepRule
from abps.steps.direction import ScaledDirection
from abps.steps.gradient import NormalisedGradient
from abps.strategies.base import Strategy
from abps.testing import (
    check_criterion,
    check_critics,
    check_kernel,
    check_part_settings,
    check_policy_class,
    check_search,
    check_step,
    check_strategy,
)

ARS = ArsConfig(directions=3, top=2)
LOCAL = LocalSearchConfig(probing=GaussianProbes(), step=ScaledDirection(), plan=CentreThenProbes(1, 3, 6))


@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern52()])
def test_kernels(kernel: Kernel) -> None:
    check_kernel(kernel)


@pytest.mark.parametrize("policy_class", [LinearTanh(), ClippedLinear(bias=True)])
def test_policy_classes(policy_class: Any) -> None:
    check_policy_class(policy_class)


@pytest.mark.parametrize("criterion", [ExpectedAscent(), TraceReduction()])
def test_criteria(criterion: Criterion) -> None:
    check_criterion(criterion)


def test_steps_critics_and_searches() -> None:
    check_step(NormalisedGradient(), moves=1)
    check_critics(Lstd(members=2, features=Quadratic()))
    check_search(ARS)
    check_search(LOCAL, episodes=12)


# ---- planted mistakes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrongSlope(Matern52):
    def profile(self, squared: Array) -> Profile:
        return super().profile(squared)._replace(weight_slope=np.zeros_like(squared))


@dataclass(frozen=True)
class WrongScale(Matern52):
    def profile(self, squared: Array) -> Profile:
        value, weight, slope = super().profile(2.0 * squared)
        return Profile(value, 2.0 * weight, 4.0 * slope)


@dataclass(frozen=True)
class NoKernel(Kernel):
    """A smooth bump that is no covariance."""

    def profile(self, squared: Array) -> Profile:
        rest = np.exp(-0.5 * squared**2)
        value, weight = (1.0 - 0.5 * squared) * rest, (1.0 + 2.0 * squared - squared**2) * rest
        return Profile(value, weight, (2.0 - 2.0 * squared) * rest - squared * weight)


@dataclass(frozen=True)
class WrongFastPath(SquaredExponential):
    def one_minus_weight(self, squared: Array) -> Array:
        return 0.5 * squared


@dataclass(frozen=True)
class OneByOne(Matern52):
    def profile(self, squared: Array) -> Profile:
        return Profile(*(np.ravel(part) for part in super().profile(squared)))


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (WrongSlope(), "weight_slope must be w'"),
        (WrongScale(), r"w\(0\) = −2κ'\(0\) must be 1"),
        (NoKernel(), "is no kernel: a Gram matrix"),
        (WrongFastPath(), "one_minus_weight must agree with its profile"),
        (OneByOne(), r"gave shape \(1,\) for distances of shape \(\)"),
    ],
)
def test_wrong_kernels_are_found(kernel: Kernel, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_kernel(kernel)


@dataclass(frozen=True)
class WrongPullback(LinearTanh):
    def pullback(self, spec: Any, parameters: Any, inputs: Any, cotangents: Any) -> Array:
        return 1.1 * super().pullback(spec, parameters, inputs, cotangents)


@dataclass(frozen=True)
class WrongMetric(LinearTanh):
    def metric(self, spec: Any, parameters: Any, inputs: Any, weights: Any) -> Array:
        return spec.action_dim * super().metric(spec, parameters, inputs, weights)


@dataclass(frozen=True)
class Unbounded(LinearTanh):
    def actions(self, spec: Any, parameters: Any, inputs: Any) -> Array:
        return 1.5 * super().actions(spec, parameters, inputs)


@dataclass(frozen=True)
class Restless(LinearTanh):
    def initial(self, spec: Any) -> Array:
        return np.random.default_rng().normal(size=super().initial(spec).size)


@dataclass(frozen=True)
class Reserved(LinearTanh):
    def to_arrays(self, spec: Any, parameters: Any) -> dict[str, Array]:
        return {"task": parameters}

    def from_arrays(self, spec: Any, arrays: Any) -> Array:
        return arrays["task"]


@dataclass(frozen=True)
class Mistaken(LinearTanh):
    """Calls something `weights` that does not multiply the inputs."""

    def to_arrays(self, spec: Any, parameters: Any) -> dict[str, Array]:
        return {"weights": parameters.reshape(-1, 3)[:, ::-1]}

    def from_arrays(self, spec: Any, arrays: Any) -> Array:
        return arrays["weights"][:, ::-1].reshape(-1)


@pytest.mark.parametrize(
    ("policy_class", "sentence"),
    [
        (WrongPullback(), "pullback must be"),
        (WrongMetric(), "metric; it differs by"),
        (Unbounded(), "leaves the action bounds"),
        (Restless(), "must give the same numbers every time"),
        (Reserved(), "reserved names task"),
        (Mistaken(), "the array `weights` must multiply the inputs"),
    ],
)
def test_wrong_policy_classes_are_found(policy_class: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_policy_class(policy_class)


@dataclass(frozen=True)
class WrongGradient(TraceReduction):
    def values_and_gradients(self, posterior: Any, candidates: Any) -> tuple[Array, Array]:
        values, gradients = super().values_and_gradients(posterior, candidates)
        return values, -gradients


@dataclass(frozen=True)
class Jealous(TraceReduction):
    """Judges candidates by comparing them."""

    def values_and_gradients(self, posterior: Any, candidates: Any) -> tuple[Array, Array]:
        values, gradients = super().values_and_gradients(posterior, candidates)
        return values / np.max(values), gradients / np.max(values)

    def values(self, posterior: Any, candidates: Any) -> Array:
        return self.values_and_gradients(posterior, candidates)[0]


@pytest.mark.parametrize(
    ("criterion", "sentence"), [(WrongGradient(), "must be that of the values"), (Jealous(), "as if it were alone")]
)
def test_wrong_criteria_are_found(criterion: Criterion, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_criterion(criterion)


@dataclass
class Count:
    moves: int = 0


@dataclass(frozen=True)
class InPlace(StepRule):
    memory_type: ClassVar[type] = Count

    def __call__(self, given: StepInput) -> Move:
        given.memory.moves += 1
        return Move(given.model.neighbourhood.theta + given.memory.moves)


@dataclass
class Generator:
    rng: Any = None


@dataclass(frozen=True)
class Unsaveable(StepRule):
    memory_type: ClassVar[type] = Generator

    def __call__(self, given: StepInput) -> Move:
        return Move(given.model.neighbourhood.theta, {}, Generator(np.random.default_rng(0)))


@dataclass(frozen=True)
class WrongShape(StepRule):
    def __call__(self, given: StepInput) -> Move:
        return Move(given.model.neighbourhood.theta[:2])


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (InPlace(), "leave the memory it was given as it was"),
        (Unsaveable(), "the memory of Unsaveable cannot be saved: state/rng is a Generator"),
        (WrongShape(), r"moved to a centre of shape \(2,\)"),
    ],
)
def test_wrong_steps_are_found(step: StepRule, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_step(step, moves=2)


class ForgetfulCritics(ClosedFormCritics):
    def action_gradients(self, states: Any, actions: Any) -> Array:
        return 0.5 * super().action_gradients(states, actions)


@dataclass(frozen=True)
class WrongCritics(Lstd):
    def make(self, space: Any, objective: Any, seed: int) -> ClosedFormCritics:
        return ForgetfulCritics(self, space, objective, seed)


def test_wrong_critics_are_found() -> None:
    with pytest.raises(AssertionError, match="action_gradients must be ∂q/∂action"):
        check_critics(WrongCritics(members=2, features=Quadratic()))


class Forgetful(Ars):
    """Keeps a number where nobody saves it."""

    moves = 0

    def _learn(self, stage: list[Answer]) -> Metrics:
        self.moves += 1
        return super()._learn(stage)

    def _propose(self) -> list[Proposal]:
        return [item._replace(parameters=item.parameters + self.moves) for item in super()._propose()]


class Random(Ars):
    def _propose(self) -> list[Proposal]:
        noise = np.random.default_rng().normal()
        return [item._replace(parameters=item.parameters + noise) for item in super()._propose()]


class Endless(Ars):
    def _learn(self, stage: list[Answer]) -> Any:
        super()._learn(stage)


class OddMetrics(Ars):
    def _learn(self, stage: list[Answer]) -> Metrics:
        return {**super()._learn(stage), "centre": self.centre}


@dataclass(frozen=True)
class Wrapped(ArsConfig):
    search: str = setting("", "which of the searches above")

    def make(self, spec: Any, **options: Any) -> Ars:
        return {"forgetful": Forgetful, "random": Random, "endless": Endless, "odd": OddMetrics}[self.search](
            spec, self, **options
        )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("forgetful", "asks for another query 6; what it remembers must stand in `memory`"),
        ("random", "asks for another query 0"),
        ("endless", "finished no outer iteration in 30 episodes"),
        ("odd", "metrics must be numbers, texts and lists"),
    ],
)
def test_wrong_searches_are_found(name: str, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_search(Wrapped(directions=3, top=2, search=name))


@dataclass(frozen=True)
class OddSettings(Matern52):
    table: Any = None


# ---- wrong strategies ----------------------------------------


@dataclass(frozen=True)
class SoundStrategy(Strategy):
    """The seed of all wrong ones: it follows the best point."""

    def start(self, mean: Array, rng: np.random.Generator) -> Any:
        return Place(mean)

    def ask(self, memory: Any, rng: np.random.Generator) -> Array:
        return memory.place + rng.standard_normal((4, len(memory.place)))

    def tell(self, memory: Any, points: Array, values: Array, rng: np.random.Generator) -> Any:
        return Place(points[int(np.argmax(values))])

    def current(self, memory: Any) -> Array:
        return memory.place


@dataclass
class Place:
    place: Array


def unseeded(self: Any, memory: Any, rng: np.random.Generator) -> Array:
    return memory.place + np.random.default_rng().standard_normal((4, len(memory.place)))


def writing(self: Any, memory: Any, points: Array, values: Array, rng: np.random.Generator) -> Any:
    memory.place = memory.place + 1.0
    return memory


def flat(self: Any, memory: Any, rng: np.random.Generator) -> Array:
    return memory.place


def forgetting(self: Any, mean: Array, rng: np.random.Generator) -> Any:
    return mean


@pytest.mark.parametrize(
    ("method", "wrong", "sentence"),
    [
        ("ask", unseeded, "must follow from its memory"),
        ("tell", writing, "must follow from its memory"),
        ("ask", flat, r"gave \(3,\), expected \(m, d\)"),
        ("start", forgetting, "must be a dataclass"),
        ("current", lambda self, memory: memory.place[0], "expected"),
    ],
)
def test_wrong_strategies_are_found(method: str, wrong: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_strategy(SoundStrategy())
    monkeypatch.setattr(SoundStrategy, method, wrong)
    with pytest.raises(AssertionError, match=sentence):
        check_strategy(SoundStrategy())


def test_settings_that_a_file_cannot_hold_are_found() -> None:
    with pytest.raises(AssertionError, match="cannot be written and read back"):
        check_part_settings(OddSettings({1, 2}))
