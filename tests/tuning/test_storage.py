"""Trials on disk (tuning/storage.py, tuning/definition.py): what survives, what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.errors import ConfigError, RunError
from abps.run.directory import RunSettings
from abps.settings import replace
from abps.tuning.definition import DEFINITION, FIRST_SEED, Tuning, read_tuning, write_tuning
from abps.tuning.space import default_space
from abps.tuning.storage import JOURNAL, cut_torn_line, load_optuna, open_study

pytest.importorskip("optuna")


@pytest.fixture
def tuning(make_settings: Callable[..., RunSettings]) -> Tuning:
    base = make_settings(episodes=8)
    return Tuning(base, default_space(base.search_config), seeds=2, evaluation_episodes=2)


@pytest.mark.parametrize(
    ("content", "kept"), [(b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\n"), (b"a", b""), (b"a\n" + b"b" * 9000, b"a\n")]
)
def test_a_torn_line_is_cut_off(content: bytes, kept: bytes, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(content)
    cut_torn_line(file)
    assert file.read_bytes() == kept


def test_a_journal_with_a_torn_line_goes_on(tuning: Tuning, tmp_path: Path) -> None:
    open_study(tmp_path, tuning)
    whole = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(whole + b'{"op_code": 4, "wor')
    study = open_study(tmp_path, tuning)
    study.ask()
    assert (tmp_path / JOURNAL).read_bytes().startswith(whole)
    assert len(open_study(tmp_path, tuning).get_trials()) == 1


def test_a_damaged_journal_is_named(tuning: Tuning, tmp_path: Path) -> None:
    open_study(tmp_path, tuning)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(b"".join([lines[0], b"nonsense\n", *lines[1:]]))
    with pytest.raises(RunError, match=r"trials\.log is damaged"):
        open_study(tmp_path, tuning)


def test_the_definition_is_read_back_and_guards_the_folder(tuning: Tuning, tmp_path: Path) -> None:
    write_tuning(tmp_path, tuning)
    assert read_tuning(tmp_path) == tuning
    write_tuning(tmp_path, tuning)
    with pytest.raises(RunError, match="seeds: 2 there, 3 is wanted"):
        write_tuning(tmp_path, replace(tuning, seeds=3))
    narrow = default_space(tuning.base.search_config, {"top"})
    with pytest.raises(RunError, match="the range of top"):
        write_tuning(tmp_path, replace(tuning, space=narrow))
    (tmp_path / DEFINITION).write_text("seed: 3\n")
    with pytest.raises(RunError, match="is damaged"):
        read_tuning(tmp_path)


def test_rungs_and_seeds(tuning: Tuning) -> None:
    assert tuning.rungs == [2, 4, 8]
    one = replace(tuning, base=replace(tuning.base, budget=replace(tuning.base.budget, episodes=1)))
    assert one.rungs == [1]
    assert tuning.training_seeds == [FIRST_SEED, FIRST_SEED + 1]
    other = replace(tuning, base=replace(tuning.base, seed=1))
    assert not set(other.training_seeds) & set(tuning.training_seeds)
    with pytest.raises(ConfigError, match="seeds must be at least 1"):
        replace(tuning, seeds=0)


def test_without_optuna_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Any = __import__("sys").modules
    monkeypatch.setitem(modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"tuning needs Optuna: pip install 'abps\[tune\]'"):
        load_optuna()
