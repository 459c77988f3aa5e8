"""Settings as options (options.py, tree.py, values.py): every type, parts by kind, a sentence for every mistake."""

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import hypothesis
import pytest
from hypothesis import strategies as st

from abps.cli.ask import AskArguments, NewArguments
from abps.cli.options import options_of, parse, split_words
from abps.cli.train import train_groups
from abps.cli.tree import Group, flag_of, positional
from abps.critics.lstd_config import Lstd
from abps.errors import ConfigError
from abps.model.kernel import Matern52
from abps.search.budget import BudgetConfig
from abps.search.local import LocalSearchConfig
from abps.search.recipes import abs_recipe
from abps.search.registry import PRESETS, SEARCHES, search_config
from abps.settings import require, setting
from abps.steps.base import StepRule
from abps.steps.walk import Walk
from abps.tasks.catalogue import PAPER_TASKS


@dataclass(frozen=True)
class Inner:
    size: int = setting(3, "how large, in 100 % of cases")
    deep: bool = setting(True, "whether")


@dataclass(frozen=True)
class Outer:
    count: int = setting(1, "how many")
    rate: float = setting(0.5, "how fast")
    name: Literal["first", "second"] = setting("first", "which")
    flag: bool = setting(True, "whether")
    limit: float | None = setting(2.0, "how far")
    parts: tuple[float, ...] = setting((1.0, 2.0), "which parts")
    words: tuple[Literal["left", "right"], ...] = setting((), "which sides")
    long_name: int = setting(0, "a name of two words")
    folder: Path = setting(Path("here"), "where")
    inner: Inner = setting(Inner(), "inside")

    def __post_init__(self) -> None:
        require(self.count <= self.inner.size * 10, "count must be at most ten times the size")


@dataclass(frozen=True)
class Own:
    thing: str = positional("THING", "what it is about")


def read(*words: str, config: Any = None, **options: Any) -> Any:
    groups = [Group("things", Outer() if config is None else config)]
    return parse(split_words(words, groups), groups, command="train", **options)[0]


def test_nothing_given_changes_nothing() -> None:
    config = Outer(count=7)
    assert read(config=config) is config


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (("--count", "5"), "count", 5),
        (("--count=5",), "count", 5),
        (("--count", "0"), "count", 0),
        (("--count", "-3"), "count", -3),
        (("--count", "3", "--count", "4"), "count", 4),
        (("--rate", "1e-3"), "rate", 1e-3),
        (("--rate", ".5"), "rate", 0.5),
        (("--rate", "-.5"), "rate", -0.5),
        (("--rate", "2"), "rate", 2.0),
        (("--name", "second"), "name", "second"),
        (("--no-flag",), "flag", False),
        (("--flag",), "flag", True),
        (("--no-flag", "--flag"), "flag", True),
        (("--limit", "none"), "limit", None),
        (("--limit", "4"), "limit", 4.0),
        (("--parts", "3,4.5"), "parts", (3.0, 4.5)),
        (("--parts", "3", "--parts", "4"), "parts", (3.0, 4.0)),
        (("--parts", ""), "parts", ()),
        (("--words", "left,right"), "words", ("left", "right")),
        (("--long-name", "2"), "long_name", 2),
        (("--long_name", "2"), "long_name", 2),
        (("--folder", "a/b"), "folder", Path("a/b")),
        (("--inner.size", "9"), "inner", Inner(9)),
        (("--inner.no-deep",), "inner", Inner(deep=False)),
        (("--no-inner.deep",), "inner", Inner(deep=False)),
    ],
)
def test_every_type_is_read(words: tuple[str, ...], field: str, value: Any) -> None:
    found = getattr(read(*words), field)
    assert found == value
    assert type(found) is type(value)


def test_values_that_are_only_valid_together_are_set_together() -> None:
    assert read("--count", "90", "--inner.size", "9").count == 90
    with pytest.raises(ConfigError, match="at most ten times"):
        read("--count", "90")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--count", "1.5"), "--count must be a whole number, got '1.5'"),
        (("--rate", "fast"), "--rate must be a number, got 'fast'"),
        (("--name", "secnd"), "--name must be one of first, second, got 'secnd'; did you mean 'second'?"),
        (("--parts", "1,x"), "--parts must be numbers separated by commas, got '1,x'"),
        (("--words", "lft"), "--words must be one of left, right, or several separated by commas, got 'lft'; did you "),
        (("--siz", "3"), "unknown option --siz; `abps train --help-all` lists all"),
        (("--coutn", "3"), "unknown option --coutn; did you mean '--count'?"),
        (("--size", "3"), "unknown option --size; did you mean '--inner.size'?"),
        (("--inner", "3"), "unknown option --inner; did you mean"),
        (("--count",), "--count needs a value (how many)"),
        (("--count", "--flag"), "--count needs a value (how many)"),
        (("--flag=yes",), "--flag takes no value; write --flag or --no-flag"),
        (("-c", "3"), "unknown option -c"),
        (("extra",), "unexpected argument 'extra'"),
        (("--flag", "yes"), "unexpected argument 'yes'"),
        (("--normalise",), "there is no option --normalise any more; write --observations running"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(*words)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_arguments_without_a_flag() -> None:
    groups = [Group("own", Own()), Group("things", Outer())]
    own, things = parse(split_words(["--no-flag", "tree", "--count", "2"], groups), groups, command="train")
    assert (own.thing, things.flag, things.count) == ("tree", False, 2)
    with pytest.raises(ConfigError, match="THING is missing: what it is about"):
        parse(split_words(["--count", "2"], groups), groups, command="train")


# ---- parts ----------------------------------------------------------------------------------------------------------


def search(*words: str, name: str = "abs") -> Any:
    """The preset `paper` stays as it is, whatever learns fastest."""
    return read(*words, config=search_config(name, "hopper", "paper"))


def test_a_part_is_chosen_by_its_kind_and_has_its_own_defaults() -> None:
    assert search("--step", "walk").step == Walk()
    assert search("--step.length", "0.02", "--step", "walk").step == Walk(length=0.02)  # In any order.
    assert search("--gp.kernel", "matern-52").gp.kernel == Matern52()
    lstd = search("--prior.critics=lstd", "--prior.critics.transitions", "64").prior.critics
    assert (type(lstd).__name__, lstd.transitions, lstd.replay) == ("Lstd", 64, Lstd().replay)


def test_naming_the_kind_that_is_there_keeps_what_the_preset_chose() -> None:
    preset = abs_recipe("pendulum", "paper")
    assert read("--step", "scaled-direction", config=preset).step is preset.step
    assert preset.step != type(preset.step)()  # Or the test would show nothing.


@dataclass(frozen=True)
class MaybeStep:
    step: StepRule | None = setting(None, "how it moves, if it does")


def test_a_part_that_may_be_missing() -> None:
    assert read(config=MaybeStep()).step is None
    assert read("--step", "walk", "--step.length", "0.5", config=MaybeStep()).step == Walk(length=0.5)
    assert read("--step", "none", config=MaybeStep(Walk())).step is None


def test_parts_inside_a_chosen_part() -> None:
    config = search("--prior", "advantage", "--prior.critics", "lstd", "--prior.critics.features", "relu", name="mpd")
    assert type(config.prior.critics.features).__name__ == "Relu"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--step", "wlak"), "unknown step 'wlak'; did you mean 'walk'?"),
        (("--step", "nonsense"), "unknown step 'nonsense'; known: walk, "),
        (("--step",), "--step needs a value (how the centre moves)"),
        (("--step", "--states", "3"), "--step needs a value (how the centre moves)"),
        (("--step", "no_such_module:Step"), "cannot import 'no_such_module:Step'"),
        (("--step", "abps.steps.walk:Wlak"), "module 'abps.steps.walk' has no 'Wlak'; did you mean 'Walk'?"),
        (("--step", "abps.model.kernel:Matern52"), "'abps.model.kernel:Matern52' is a kernel, not a step"),
        (
            ("--step.probability", "0.5"),
            "--step.probability belongs to --step walk; here --step is scaled-direction",
        ),
        (
            ("--step", "walk", "--step.factor", "1"),
            "--step.factor belongs to --step scaled-direction; here --step is walk",
        ),
        (("--step", "walk", "--step.no-cap"), "--step.no-cap belongs to --step scaled-direction; here --step is walk"),
        (
            ("--prior", "constant", "--prior.critics", "droq"),
            "--prior.critics belongs to --prior advantage",
        ),
        (
            ("--prior", "constant", "--prior.critics.members", "3"),
            "--prior.critics.members belongs to --prior advantage",
        ),
        (("--step", "walk", "--step.length", "-1"), "step: length must be positive"),
        (("--probes", "8"), "unknown option --probes; did you mean '--plan.probes'?"),
        (("--plan.prob", "8"), "unknown option --plan.prob; did you mean '--plan.probes'?"),
        (("--plan.probes", "few"), "--plan.probes must be a whole number, got 'few'"),
    ],
)
def test_a_mistake_about_parts_is_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        search(*words)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_settings_of_another_search_are_said_to_be_its() -> None:
    def elsewhere() -> dict[str, list[Any]]:
        return {"the search ars": [search_config("ars")]}

    with pytest.raises(ConfigError, match="--directions is a setting of the search ars, not of this one"):
        read("--directions", "3", config=search_config("abs"), elsewhere=elsewhere, hint=", not of this one")


def test_a_part_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
from dataclasses import dataclass
from abps.steps.base import Move, StepRule

@dataclass(frozen=True)
class NeedsMore(StepRule):
    size: int

    def __call__(self, given):
        return Move(given.model.neighbourhood.theta)
"""
    (tmp_path / "needs_more_step.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be made with its defaults: .*size"):
        search("--step", "needs_more_step:NeedsMore")


# ---- all searches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", SEARCHES)
def test_no_two_settings_share_a_name_and_every_default_reads_back(name: str, preset: str) -> None:
    groups, words = train_groups(["pendulum", "--search", name, "--preset", preset])
    arguments, budget, run, task, config = parse(words, groups, command="train")
    assert (arguments.search, arguments.preset) == (name, preset)
    for group, found in zip(groups[1:], (budget, run, task, config), strict=True):
        assert found is group.config
    asked = [Group("", AskArguments()), Group("", NewArguments()), Group("", BudgetConfig()), groups[-1]]
    parse(split_words(["run"], asked), asked, command="ask")


def test_a_search_whose_setting_clashes_is_refused() -> None:
    @dataclass(frozen=True)
    class Clashing:
        episodes: int = 3

    groups = [Group("budget", BudgetConfig()), Group("search", Clashing())]
    with pytest.raises(ConfigError, match="two settings are called --episodes"):
        parse(split_words([], groups), groups, command="train")


@pytest.mark.parametrize("name", SEARCHES)
def test_every_setting_can_be_given_as_it_is_shown(name: str) -> None:
    """Every option, given the text of its own default, changes nothing."""

    def text(value: Any) -> str:
        return ",".join(map(text, value)) if isinstance(value, tuple) else str(value).lower()

    config = search_config(name, "hopper")
    groups = [Group("search", config)]
    words: list[str] = []
    for _, options in options_of(groups, split_words([], groups)):
        for option in options:
            if option.heading:
                continue
            if option.is_switch:
                words.append(option.flag if option.default else option.off_flag)
            else:
                words += [option.flag, text(option.default)]
    assert read(*words, config=config) == config
    assert len(words) > 10


@pytest.mark.parametrize("words", [["--episodes", "12", "TASK"], ["TASK", "--episodes=12"], ["--quiet", "TASK"]])
@pytest.mark.parametrize("task", PAPER_TASKS)
def test_the_task_is_found_wherever_it_stands(task: str, words: list[str]) -> None:
    groups, _ = train_groups([task if word == "TASK" else word for word in words])
    assert groups[-1].config == abs_recipe(task, "cpu")


def test_flags_have_no_underscores() -> None:
    for item in dataclasses.fields(BudgetConfig):
        assert "_" not in flag_of(item.name)


FLAGS = [
    "--count",
    "--rate",
    "--flag",
    "--no-flag",
    "--limit",
    "--parts",
    "--words",
    "--folder",
    "--inner.size",
    "--inner",
]
WORDS = st.one_of(
    st.sampled_from(
        [*FLAGS, "--", "-", "-h", "--inner.", "--.size", "--no-", "--=3", "---count", "none", "left", "-1", ""]
    ),
    st.builds("{}={}".format, st.sampled_from(FLAGS), st.text(max_size=4)),
    st.text(max_size=6),
)


@hypothesis.given(st.lists(WORDS, max_size=6))
@hypothesis.settings(max_examples=150)
def test_whatever_is_typed_is_read_or_refused(words: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(read(*words), Outer)


@hypothesis.given(st.lists(st.sampled_from([
    "--step", "walk", "scaled-direction", "--step.length", "0.1", "--step.factor", "--prior", "constant", "advantage",
    "--prior.critics", "lstd", "--prior.critics.features", "relu", "none", ":", "a:b", "abps:register", "--gp.kernel",
]), max_size=7))  # fmt: skip
@hypothesis.settings(max_examples=60)
def test_whatever_parts_are_named_they_are_made_or_refused(words: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(search(*words), LocalSearchConfig)
