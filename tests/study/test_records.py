"""Reading run directories: whole ones, damaged ones, hostile ones."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from abps.errors import RunError
from abps.study.records import find_runs, flatten, load_run, load_runs


def test_a_whole_run(make_run: Callable[..., Path], tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path, "hopper", "abs", 4))
    assert (run.task, run.search, run.seed, run.status) == ("hopper", "abs", 4, "done")
    assert run.name == "hopper/abs/seed-4"
    assert run.reason == "episodes: budget reached"
    assert run.notes == ()
    assert run.settings["gp.refit"] == "warm"
    assert run.setting("prior.aggregation.kind", "aggregation") == "softmax"
    assert run.setting("aggregation") is None
    assert run.column("episodes").tolist() == [19.0 * (i + 1) for i in range(15)]
    assert run.table("r2_validation").shape == (15, 5)
    assert run.has("weights")
    assert not run.has("sigma_beta")


def test_the_first_name_that_has_a_value_counts(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "mpd", 0)
    rows = [
        {"eval_return": None, "centre_return": 1},
        {"eval_return": 2.0, "centre_return": 1},
        {},
        {"eval_return": True},
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.testing.assert_array_equal(load_run(path).column("eval_return", "centre_return"), [1, 2, np.nan, np.nan])


def test_a_tree_is_searched_and_every_run_read_once(study: Path) -> None:
    assert len(load_runs([study])) == 18
    assert len(find_runs([study, study / "hopper", study / "hopper" / "abs" / "seed-0"])) == 18


def test_missing_paths_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(RunError, match="no run found"):
        find_runs([tmp_path])


def test_damage_is_noted_not_raised(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 3, status="unfinished")
    text = (path / "metrics.jsonl").read_text()
    lines = text.splitlines()
    lines[2] = lines[2][:20]
    (path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"iteration": 15, "epi')
    (path / "versions.json").write_bytes(b"\xff\xfe\x00")
    (path / "config.yaml").write_text("seed: [1, 2\n")
    run = load_run(path)
    assert len(run.metrics) == 14, "one damaged line and the cut-off last one are left out"
    assert (run.task, run.search, run.seed, run.status) == ("hopper", "abs", 3, "unfinished")
    assert sum("damaged line" in note for note in run.notes) == 1
    assert any(note.startswith("versions.json") for note in run.notes)
    assert any(note.startswith("config.yaml cannot be read") for note in run.notes)


def test_empty_directory_with_config_only(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    for name in ("metrics.jsonl", "journal.jsonl", "versions.json", "DONE"):
        (path / name).unlink()
    run = load_run(path)
    assert run.metrics == ()
    assert run.column("episodes").shape == (0,)
    assert run.table("weights").shape == (0, 0)
    assert run.notes == ("versions.json is missing", "metrics.jsonl is missing")


def test_a_run_too_short_for_an_outer_iteration_is_not_damaged(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    (path / "metrics.jsonl").unlink()
    assert load_run(path).notes == ("no outer iteration was finished, so that there is no curve",)


def test_a_strangers_yaml_runs_nothing(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    marker = tmp_path / "executed"
    (path / "config.yaml").write_text(
        f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{marker}']]"
    )
    run = load_run(path)
    assert not marker.exists()
    assert any("cannot be read" in note for note in run.notes)


def test_a_small_file_cannot_stand_for_an_enormous_one(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    (path / "config.yaml").write_text("\n".join(lines))
    assert any("aliases" in note for note in load_run(path).notes)


def test_runs_moved_aside_are_not_read(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    path.rename(path.with_name("seed-0.old-1"))
    make_run(tmp_path, "hopper", "abs", 0)
    assert [run.path.name for run in load_runs([tmp_path])] == ["seed-0"]


def test_absurd_numbers_do_not_break_columns(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    (path / "metrics.jsonl").write_text(
        '{"a": 1' + "0" * 400 + '}\n{"a": NaN}\n{"a": "7"}\n{"a": 7, "w": [1, null]}\n[1]\n'
    )
    run = load_run(path)
    np.testing.assert_array_equal(run.column("a"), [np.nan, np.nan, np.nan, 7])
    np.testing.assert_array_equal(run.table("w")[3], [1, np.nan])
    assert run.notes == ("metrics.jsonl: 1 damaged line left out",)


def test_failed_runs_and_episodes(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, status="failed")
    with (path / "journal.jsonl").open("a") as file:
        file.write('{"episode": 99, "failed": "hung"}\n')
    run = load_run(path)
    assert run.status == "failed"
    assert run.failed_episodes == 1


def test_flatten() -> None:
    assert flatten({"a": {"b": {"c": 1}}, "d": [1, 2]}) == {"a.b.c": 1, "d": [1, 2]}
