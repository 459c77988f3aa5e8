"""Settings: validated, saved and read back, changed by name, and refused with the right hint."""

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from abps.critics.lstd_config import Lstd, Relu, Split
from abps.errors import ConfigError
from abps.model.gp import GP
from abps.model.kernel import Matern52
from abps.model.prior import AdvantagePrior, ConstantPrior
from abps.registry import KINDS, find
from abps.run.config import RunConfig
from abps.search.ars import ArsConfig
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.settings import KIND, Part, from_dict, replace, to_dict, with_changes
from abps.steps.base import StepRule
from abps.steps.gradient import NormalisedGradient
from abps.steps.walk import Walk
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.spec import TaskSpec

PARTS = [find(family, kind) for family, kinds in KINDS.items() for kind in kinds]
CONFIGS = [*PARTS, GP, BudgetConfig, RunConfig, TaskConfig, HardwareConfig]
REQUIRED = {HardwareConfig: {"observations": 2, "action_low": (-1.0,), "action_high": (1.0,)}}
"""What cannot be left at its default."""


def made(cls: type[Any]) -> Any:
    return cls(**REQUIRED.get(cls, {}))


def through_yaml(config: Any) -> Any:
    return yaml.safe_load(yaml.safe_dump(to_dict(config), allow_unicode=True))


@pytest.mark.parametrize("cls", CONFIGS)
def test_every_setting_has_a_help_line_and_a_default(cls: type[Any]) -> None:
    config = made(cls)
    for field in dataclasses.fields(cls):
        assert field.metadata.get("help"), f"{cls.__name__}.{field.name} has no help"
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, field.name, 1)


@pytest.mark.parametrize("cls", CONFIGS)
def test_defaults_survive_yaml(cls: type[Any]) -> None:
    config = made(cls)
    assert from_dict(cls, through_yaml(config)) == config
    assert hash(config) == hash(from_dict(cls, to_dict(config)))
    assert (KIND in to_dict(config)) == issubclass(cls, Part)


@given(
    gamma=st.floats(0.01, 1.0),
    scale=st.none() | st.floats(1e-3, 1e3),
    name=st.text(max_size=20),
    ridges=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=4),
    features=st.sampled_from([Split(), Relu(7)]),
    step=st.sampled_from([Walk(0.3), NormalisedGradient()]),
    states=st.none() | st.integers(0, 9),
)
def test_any_settings_survive_yaml(gamma, scale, name, ridges, features, step, states) -> None:
    task = TaskConfig(id="x", name=name, gamma=gamma, reward_scale=scale)
    critics = Lstd(ridges=tuple(ridges), features=features)
    search = LocalSearchConfig(prior=AdvantagePrior(critics=critics), step=step, states=states, gp=GP(Matern52()))
    assert from_dict(TaskConfig, through_yaml(task)) == task
    assert from_dict(SearchConfig, through_yaml(search)) == search
    assert from_dict(SearchConfig, through_yaml(search)) != replace(search, gp=GP())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reward_shif": 3}, "unknown setting abs.reward_shif; did you mean 'reward_shift'"),
        ({"zzz": 3}, "unknown setting abs.zzz; known: policy, observations, reward_shift, "),
        ({"gp": {"noise_flor": 3}}, "unknown setting abs.gp.noise_flor; did you mean 'noise_floor'"),
        ({"gp": 3}, "abs.gp must be a group of settings, got 3"),
        ({"plan": {"probes": "6"}}, "abs.plan.probes must be of type int, got '6'"),
        ({"plan": {"probes": True}}, "abs.plan.probes must be of type int, got True"),
        ({"plan": {"probes": None}}, "abs.plan.probes must be of type int, got None"),
        ({"gp": {"refit": "cold"}}, "abs.gp.refit must be one of warm, few, full; got 'cold'"),
        ({"step": {"kind": "wlak"}}, "unknown step 'wlak'; did you mean 'walk'"),
        ({"step": {"kind": "matern-52"}}, "unknown step 'matern-52'; known"),
        ({"step": {"kind": "scaled-direction", "probability": 0.7}}, "unknown setting abs.step.probability; known: "),
        ({"step": "walk"}, "abs.step must be a group of settings, got 'walk'"),
        (
            {"prior": {"kind": "advantage", "critics": {"ridges": 0.1}}},
            "abs.prior.critics.ridges must be a list of type float, got 0.1",
        ),
        (
            {"prior": {"kind": "advantage", "critics": {"ridges": [0.1, "x"]}}},
            "abs.prior.critics.ridges must be a list of type float, got [0.1, 'x']",
        ),
        ({"prior": {"kind": "constant", "critics": {}}}, "unknown setting abs.prior.critics; known: bound"),
    ],
)
def test_wrong_names_types_and_kinds_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        from_dict(LocalSearchConfig, {"kind": "local", **values}, where="abs.")
    assert message in str(refusal.value)


def test_a_part_must_say_what_it_is_unless_a_default_does() -> None:
    with pytest.raises(ConfigError, match=r"step\.kind is missing: say which step it is"):
        from_dict(StepRule, {"length": 0.1}, where="step.")
    kept = from_dict(StepRule, {"length": 0.1}, default=Walk(probability=0.8))
    assert kept == Walk(length=0.1, probability=0.8)
    other = from_dict(StepRule, {"kind": "normalised-gradient"}, default=Walk(length=0.1))
    assert other == NormalisedGradient()  # A new kind starts from its own defaults.


def test_what_is_left_out_keeps_the_default_of_where_it_stands() -> None:
    config = LocalSearchConfig(plan=CentreThenProbes(probes=3))
    changed = from_dict(LocalSearchConfig, {"kind": "local", "plan": {"window": 9}}, default=config)
    assert isinstance(changed.plan, CentreThenProbes)
    assert (changed.plan.probes, changed.plan.window) == (3, 9)


def test_integers_are_welcome_where_numbers_are_expected() -> None:
    assert from_dict(ArsConfig, {"kind": "ars", "step": 1}).step == 1.0
    assert from_dict(TaskConfig, {"reward_scale": None}).reward_scale is None


@dataclasses.dataclass(frozen=True)
class Elsewhere(StepRule):
    """A part from outside the package, with a setting that has no default."""

    size: int

    def __call__(self, given: Any) -> Any:
        raise NotImplementedError


def test_parts_from_outside_are_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = f"{__name__}:Elsewhere"
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Elsewhere.__module__])
    assert to_dict(Elsewhere(3)) == {"kind": kind, "size": 3}
    assert from_dict(StepRule, {"kind": kind, "size": 3}) == Elsewhere(3)
    with pytest.raises(ConfigError, match="size must be given: it has no default"):
        from_dict(StepRule, {"kind": kind})


# ---- changes by name -------------------------------------------------------------------------------------------------

BASE = LocalSearchConfig(prior=AdvantagePrior(), gp=GP(noise_floor=0.5))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reward_shift": "1"}, replace(BASE, reward_shift=1.0)),
        ({"gp.noise_floor": "1e-3"}, replace(BASE, gp=GP(noise_floor=1e-3))),
        ({"gp.refit": "full"}, replace(BASE, gp=GP(noise_floor=0.5, refit="full"))),
        ({"gp.weigh_repeats": "yes"}, replace(BASE, gp=GP(noise_floor=0.5, weigh_repeats=True))),
        ({"states": "7"}, replace(BASE, states=7)),
        ({"states": "none"}, replace(BASE, states=None)),
        ({"prior.critics.ridges": "1, 2.5"}, replace(BASE, prior=AdvantagePrior(Lstd(ridges=(1.0, 2.5))))),
        ({"step": "normalised-gradient"}, replace(BASE, step=NormalisedGradient())),
        ({"step.length": "0.5", "step": "normalised-gradient"}, replace(BASE, step=NormalisedGradient(0.5))),
        ({"step": "walk", "step.length": "0.5"}, replace(BASE, step=Walk(0.5))),
        ({"prior": "constant", "prior.bound": "2"}, replace(BASE, prior=ConstantPrior(2.0))),
        ({"gp.lengthscale_low": "0.2", "gp.lengthscale_high": "0.3"}, replace(BASE, gp=GP(
            lengthscale_low=0.2, lengthscale_high=0.3, noise_floor=0.5))),
    ],
)  # fmt: skip
def test_changes_by_dotted_names(changes: dict[str, str], expected: LocalSearchConfig) -> None:
    assert with_changes(BASE, changes) == expected
    assert with_changes(BASE, {}) == BASE
    assert changes == {"states": "none"} or expected != BASE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward_shif": "1"}, "unknown setting reward_shif; did you mean 'reward_shift'"),
        ({"gp.kernl": "x"}, "unknown setting gp.kernl; did you mean 'kernel'"),
        ({"gp.kernel": "matern"}, "unknown kernel 'matern'; did you mean 'matern-52'"),
        ({"states": "many"}, "states must be of type int | None, got 'many'"),
        ({"reward_shift.x": "1"}, "reward_shift.x: reward_shift is a setting, not a group of settings"),
        ({"step.bound": "1"}, "unknown setting step.bound; known: "),
        ({"step": "normalised-gradient", "step.probability": "0.7"}, "unknown setting step.probability"),
        ({"gp.refit": "cold"}, "gp.refit must be one of warm, few, full; got 'cold'"),
        ({"gp.lengthscale_low": "0.2"}, "need 0 < lengthscale_low <= lengthscale_high"),
    ],
)
def test_changes_that_make_no_sense_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        with_changes(BASE, changes)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ArsConfig(top=9, directions=8), "top <= directions"),
        (lambda: ArsConfig(step=0.0), "must be positive"),
        (lambda: CentreThenProbes(window=0), "window must be at least 1"),
        (lambda: LocalSearchConfig(states=-1), "states must not be negative"),
        (lambda: BudgetConfig(episodes=-1), "episodes must not be negative"),
        (lambda: Split(quadratic_ridge=-0.1), "quadratic_ridge and off_policy_scale must not be negative"),
        (lambda: Split(off_policy_scale=-1.0), "quadratic_ridge and off_policy_scale must not be negative"),
        (lambda: Split(value_ridges=()), "value_ridges must be positive numbers"),
        (lambda: Lstd(traces=(0.5, 1.1)), "critics.traces must be numbers in"),
        (lambda: Lstd(ridges=()), "critics.ridges must be positive numbers"),
        (lambda: RunConfig(workers=0), "workers must be at least 1"),
    ],
)
def test_values_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_types_are_checked_and_numbers_of_numpy_are_numbers() -> None:
    spec = TaskSpec("toy", 1, 1, (np.float64(-1.0),), (np.float64(1.0),), horizon=np.int64(5))  # type: ignore[arg-type]
    assert to_dict(BudgetConfig(episodes=np.int64(5)))["episodes"] == 5  # type: ignore[arg-type]
    assert type(to_dict(BudgetConfig(episodes=np.int64(5)))["episodes"]) is int  # type: ignore[arg-type]
    assert spec.horizon == 5
    with pytest.raises(ConfigError, match="horizon must be of type int, got '5'"):
        TaskSpec("toy", 1, 1, (-1.0,), (1.0,), horizon="5")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="step must be a StepRule, got 'walk'"):
        LocalSearchConfig(step="walk")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"gp\.noise must be one of repeats, spread; got 0\.05"):
        LocalSearchConfig(gp=GP(noise=0.05))  # type: ignore[arg-type]
