"""Settings: validated, saved and read back, and refused with the right hint."""

import dataclasses
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from abps import config as settings
from abps.config import (
    AbsConfig,
    ArsConfig,
    BudgetConfig,
    CriticsConfig,
    GpConfig,
    HardwareConfig,
    RunConfig,
    TaskConfig,
    from_dict,
    replace,
    to_dict,
)
from abps.errors import ConfigError

CONFIGS = [value for value in vars(settings).values() if isinstance(value, type) and dataclasses.is_dataclass(value)]
REQUIRED = {HardwareConfig: {"observations": 2, "action_low": (-1.0,), "action_high": (1.0,)}}
"""What cannot be left at its default."""


@pytest.mark.parametrize("cls", CONFIGS)
def test_every_setting_has_a_help_line_and_a_default(cls: type[Any]) -> None:
    config = cls(**REQUIRED.get(cls, {}))
    assert dataclasses.fields(cls)
    for field in dataclasses.fields(cls):
        assert field.metadata.get("help"), f"{cls.__name__}.{field.name} has no help"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(cls)[0].name, 1)


@pytest.mark.parametrize("cls", CONFIGS)
def test_defaults_survive_yaml(cls: type[Any]) -> None:
    config = cls(**REQUIRED.get(cls, {}))
    text = yaml.safe_dump(to_dict(config), allow_unicode=True)
    assert from_dict(cls, yaml.safe_load(text)) == config
    assert hash(config) == hash(from_dict(cls, to_dict(config)))


@given(
    gamma=st.floats(0.01, 1.0),
    scale=st.none() | st.floats(1e-3, 1e3),
    name=st.text(max_size=20),
    ridges=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=4),
)
def test_any_settings_survive_yaml(gamma: float, scale: float | None, name: str, ridges: list[float]) -> None:
    task = TaskConfig(id="x", name=name, gamma=gamma, reward_scale=scale)
    search = replace(AbsConfig(), critics=replace(AbsConfig().critics, ridges=tuple(ridges)))
    for config in (task, search):
        text = yaml.safe_dump(to_dict(config), allow_unicode=True)
        assert from_dict(type(config), yaml.safe_load(text)) == config


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (AbsConfig, {"prob": 3}, "unknown setting abs.prob; did you mean 'probes'"),
        (ArsConfig, {"zzz": 3}, "unknown setting abs.zzz; known: step, noise"),
        (AbsConfig, {"gp": {"startz": 3}}, "unknown setting abs.gp.startz; did you mean 'starts'"),
        (AbsConfig, {"gp": 3}, "abs.gp must be a group of settings, got 3"),
        (AbsConfig, {"probes": "6"}, "abs.probes must be of type int, got '6'"),
        (AbsConfig, {"probes": True}, "abs.probes must be of type int, got True"),
        (AbsConfig, {"critics": {"ridges": 0.1}}, "abs.critics.ridges must be a list, got 0.1"),
        (BudgetConfig, {"episodes": None}, "abs.episodes must be of type int, got None"),
    ],
)
def test_wrong_names_and_types_are_refused(cls: type[Any], values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        from_dict(cls, values, where="abs.")


def test_integers_are_welcome_where_numbers_are_expected() -> None:
    assert from_dict(ArsConfig, {"step": 1}).step == 1.0
    assert from_dict(TaskConfig, {"reward_scale": None}).reward_scale is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GpConfig(lengthscale_low=0.2, lengthscale_high=0.1), "lengthscale_low <= lengthscale_high"),
        (lambda: ArsConfig(top=9, directions=8), "top <= directions"),
        (lambda: ArsConfig(step=0.0), "must be positive"),
        (lambda: AbsConfig(aggregation="median"), "aggregation must be one of softmax, mean"),
        (lambda: AbsConfig(window=0), "window must be at least 1"),
        (lambda: BudgetConfig(episodes=-1), "episodes must not be negative"),
        (lambda: CriticsConfig(bend_ridge=-0.1), "critics.bend_ridge and proximity must not be negative"),
        (lambda: CriticsConfig(proximity=-1.0), "critics.bend_ridge and proximity must not be negative"),
        (lambda: CriticsConfig(traces=(0.5, 1.1)), "critics.traces must be numbers in"),
        (lambda: CriticsConfig(value_ridges=()), "critics.value_ridges must be positive numbers"),
        (lambda: RunConfig(workers=0), "workers must be at least 1"),
        (lambda: RunConfig(evaluate_probes="some"), "evaluate_probes must be one of none, best, all"),
    ],
)
def test_values_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
