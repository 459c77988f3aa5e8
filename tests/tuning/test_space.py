"""What may vary (tuning/space.py): made from the settings' metadata, or read from a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from abps.errors import ConfigError
from abps.search.ars import ArsConfig
from abps.search.registry import SEARCHES, search_config
from abps.settings import require, setting, to_dict, with_changes
from abps.tuning.space import FACTOR, Choice, Range, default_space, read_space, value_of

optuna = pytest.importorskip("optuna")


@dataclass(frozen=True)
class Odd:
    """Settings of every sort that the default space must tell apart."""

    share: float = setting(0.8, "between 0 and 1", common=True)
    count: int = setting(2, "a count", common=True)
    zero: float = setting(0.0, "no factor around it", common=True)
    flag: bool = setting(True, "no number", common=True)
    maybe: float | None = setting(1.0, "may be none", common=True)
    rare: float = setting(1.0, "nobody changes it")
    marked: float = setting(5.0, "rare, but worth a try", tune=True)
    shown: float = setting(5.0, "common, but not worth a try", common=True, tune=False)

    def __post_init__(self) -> None:
        require(0 < self.share < 1, "share must be between 0 and 1")
        require(self.count >= 2, "count must be at least 2")


def test_the_default_space_has_positive_numbers_that_people_change() -> None:
    space: Any = default_space(Odd())  # type: ignore[arg-type]
    assert set(space.entries) == {"share", "count", "marked"}
    assert space.entries["marked"] == Range(1.667, 15.0, log=True, whole=False)
    assert space.entries["count"] == Range(2.0, 6.0, log=True, whole=True)


def test_bounds_are_narrowed_to_what_the_settings_accept() -> None:
    share: Any = default_space(Odd()).entries["share"]  # type: ignore[arg-type]
    assert share.low == pytest.approx(0.8 / FACTOR, rel=1e-3)
    assert 0.99 < share.high < 1.0
    Odd(share=share.high)


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_has_a_space_whose_ends_it_accepts(search: str) -> None:
    base = search_config(search, "pendulum")
    space = default_space(base)
    assert space.defaults(base).keys() == space.entries.keys()
    for name, entry in space.entries.items():
        assert isinstance(entry, Range)
        for end in (entry.low, entry.high):
            with_changes(base, {name: int(end) if entry.whole else end})


def test_what_is_fixed_does_not_vary() -> None:
    base = search_config("ars")
    assert set(default_space(base, {"noise", "top"}).entries) == set(default_space(base).entries) - {"noise", "top"}
    with pytest.raises(ConfigError, match="no positive number to vary"):
        default_space(base, set(default_space(base).entries))


def test_a_file_gives_ranges_factors_and_choices(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(
        "plan.path-size: {factor: 2}\n"
        "step.rate: {low: 0, high: 1}\n"
        "plan.paths: {low: 1, high: 4, log: false}\n"
        "gp.noise: [repeats, spread]\n"
        "prior.critics.gammas: [[0.9], [0.95, 0.99]]\n"
    )
    space = read_space(file, search_config("abs"))
    assert space.entries["plan.path_size"] == Range(0.015, 0.06, log=True, whole=False)
    assert space.entries["step.rate"] == Range(0.0, 1.0, log=False, whole=False)
    assert space.entries["plan.paths"] == Range(1.0, 4.0, log=False, whole=True)
    assert space.entries["prior.critics.gammas"] == Choice(("0.9", "0.95,0.99"))
    assert read_space(space.document(), search_config("abs")) == space
    assert space.defaults(search_config("abs"))["prior.critics.gammas"] == "0.95,0.99"


def test_the_space_of_the_guide_can_be_read(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "tuning.md").read_text()
    (tmp_path / "space.yaml").write_text(guide.partition("```yaml\n")[2].partition("```")[0])
    space = read_space(tmp_path / "space.yaml", search_config("abs"))
    assert len(space.entries) == 6
    assert space.entries["policy.hidden"] == Choice(("8", "16,16"))


def test_settings_of_a_kind_that_was_not_chosen_are_left_out() -> None:
    base = search_config("abs")
    space = read_space({"step": ["adaptive", "walk"], "step.length": {"low": 0.001, "high": 0.1},
                        "step.longest": {"factor": 2}}, base)  # fmt: skip
    fixed = {"step": "walk", "step.length": 0.01234567}
    chosen = space.suggest(optuna.trial.FixedTrial(fixed), base)
    assert chosen == {"step": "walk", "step.length": 0.01235}
    assert to_dict(with_changes(base, chosen))["step"]["length"] == 0.01235
    assert space.suggest(optuna.trial.FixedTrial({"step": "adaptive", "step.longest": 0.7}), base) == {
        "step": "adaptive",
        "step.longest": 0.7,
    }


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({}, "a line for every setting"),
        ({"stepp": {"factor": 2}}, "no setting 'stepp'; did you mean 'step'"),
        ({"step": 3}, r"must be \{low: …, high: …\}"),
        ({"step": {"factor": 1}}, "must be a number above 1"),
        ({"reward_shift": {"factor": 2}}, "has no factor around it"),
        ({"step": {"low": 1}}, "with two numbers"),
        ({"step": {"low": 1, "high": 2, "base": 3}}, "with two numbers"),
        ({"step": {"low": 2, "high": 1}}, "low must be below high"),
        ({"step": {"low": 0, "high": 1, "log": True}}, "needs a positive low"),
        ({"directions": {"low": 1.5, "high": 4}}, "is a whole number"),
        ({"discounted": {"low": 0, "high": 1}}, "is no number; give a list"),
        ({"step": [0.1]}, "two values or more"),
        ({"step": [0.1, -1.0]}, "step"),
        ({"step": [0.1, {"a": 1}]}, "numbers, words and lists"),
        ({"policy": ["clipped-linear", "lniear-tanh"]}, "lniear-tanh"),
    ],
)
def test_a_wrong_space_gets_one_sentence(document: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_space(document, search_config("ars"))


def test_a_file_that_is_missing_or_not_yaml_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is missing"):
        read_space(tmp_path / "none.yaml", ArsConfig())
    (tmp_path / "bad.yaml").write_text("{")
    with pytest.raises(ConfigError, match="not a readable settings file"):
        read_space(tmp_path / "bad.yaml", ArsConfig())


def test_value_of_a_name() -> None:
    document = to_dict(search_config("mpd"))
    assert value_of(document, "plan.probes") == search_config("mpd").plan.probes  # type: ignore[attr-defined]
    assert not isinstance(value_of(document, "plan.nothing"), int | float)


def test_what_is_no_space_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="a space is a YAML file or a dictionary like one, got 3"):
        read_space(3, search_config("abs"))  # type: ignore[arg-type]
