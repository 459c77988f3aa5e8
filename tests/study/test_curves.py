"""Curves from elsewhere: what is read, what is refused, and how an imported run is shown. Also `abps import`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abps.cli import main
from abps.errors import ConfigError, RunError
from abps.run.directory import read_settings
from abps.run.files import parse_checked_json
from abps.study import curves
from abps.study.curves import import_curves, read_curves
from abps.study.groups import common_end, group_runs, points, summarise
from abps.study.notices import warnings
from abps.study.progress import Follower
from abps.study.records import load_run, load_runs
from abps.study.report import payload
from abps.study.summary import markdown_table

HEADER = "task,search,seed,episodes,steps,return\n"
ROWS = "hopper,td3,0,0,0,10\nhopper,td3,1,5,100,20\nhopper,td3,0,10,1000,40.5\nhopper,td3,0,15,3000,30\n"


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "curves.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_runs_are_told_apart_and_their_numbers_kept(file: Any, tmp_path: Path) -> None:
    done = import_curves(file(HEADER + ROWS), tmp_path / "runs", versions={"mujoco": "3.4.0"})
    assert [str(path.relative_to(tmp_path / "runs")) for path in done.written] == [
        "hopper/td3@imported/seed-0", "hopper/td3@imported/seed-1",
    ]  # fmt: skip
    run = load_run(done.written[0])
    assert (run.task, run.search, run.seed, run.status, run.notes) == ("hopper", "td3", 0, "done", ())
    assert run.versions == {"mujoco": "3.4.0"}
    for axis, x in (("episodes", [0, 10, 15]), ("steps", [0, 1000, 3000])):
        np.testing.assert_array_equal(points(run, "centre_return", axis)[0], x)
        np.testing.assert_array_equal(points(run, "centre_return", axis)[1], [10, 40.5, 30])
        np.testing.assert_array_equal(points(run, "max_return", axis)[1], [10, 40.5, 40.5])
    assert points(run, "centre_discounted", "steps")[0].size == 0
    lines = (done.written[0] / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    assert all(parse_checked_json(line) for line in lines)


def test_columns_in_any_order_with_discounted_returns_and_times(file: Any, tmp_path: Path) -> None:
    text = (
        "\ufeffseconds, return,discounted,note,seed,search,task,steps\r\n1.5,3,2,a,0,x,t,10\r\n2.5,1,4,b,0,x,t,20\r\n"
    )
    done = import_curves(file(text), tmp_path / "runs")
    assert done.ignored == ["note"]
    run = load_run(done.written[0])
    np.testing.assert_array_equal(run.column("max_discounted"), [2, 4])
    np.testing.assert_array_equal(run.column("seconds"), [1.5, 2.5])
    assert not run.has("episodes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks the columns task, search, seed, return; its first line names nothing"),
        ("task;search;seed;episodes;return\n", "lacks the columns"),
        ("task,search,episodes,return\n", "lacks the column seed; its first line names task, search, episodes"),
        ("task,search,seed,return\n", r"lacks the column episodes \(or steps, or both\)"),
        ("task,search,seed,steps,steps,return\n", "two columns 'steps'"),
        (HEADER, "no measurements"),
        (HEADER + "hopper,td3,0,0,0\n", "line 2 has 5 values; the header names 6"),
        (HEADER + ROWS + "hopper,td3,1,9,200,many\n", "line 6: return must be a number, got 'many'"),
        (HEADER + "hopper,td3,0,0,0,nan\n", "line 2: return must be a number, got 'nan'"),
        (HEADER + "hopper,td3,0,0,0,\n", "line 2: return must be a number, got ''"),
        (HEADER + "hopper,td3,0.5,0,0,1\n", "line 2: seed must be a whole number, 0 or more, got '0.5'"),
        (HEADER + "hopper,td3,0,-1,0,1\n", "line 2: episodes must be a whole number, 0 or more, got '-1'"),
        (HEADER + ",td3,0,1,0,1\n", "line 2: task must be a name"),
        (HEADER + ROWS + "hopper,td3,0,14,4000,1\n", "line 6: episodes falls from 15 to 14 in hopper/td3/seed-0; sort"),
        (HEADER + ROWS + "hopper,td3,0,15,3000,1\n", "line 6: .* second measurement at episodes 15 and steps 3000"),
        (HEADER + 'hopper,"td3,0,0,0,1\n', "not a CSV file"),
        (b"\xff\xfe\x00", "not a CSV file in UTF-8"),
        (HEADER + "hopper,td3,0,0,0,1\nhopper,td3!,0,0,0,1\n", "two runs have the path"),
    ],
)
def test_what_no_curve_can_say_is_refused_and_nothing_written(
    text: str | bytes, said: str, file: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        import_curves(file(text), tmp_path / "runs")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_an_equal_count_on_one_axis_is_no_duplicate(file: Any) -> None:
    (curve,), _ = read_curves(file(HEADER + "t,x,0,3,100,1\nt,x,0,3,200,2\n"))
    assert curve.values["return"] == [1, 2]


def test_importing_again_adds_what_is_new_and_refuses_other_numbers(file: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    import_curves(file(HEADER + ROWS), root)
    again = import_curves(file(HEADER + ROWS + "hopper,sac,0,1,1,1\n"), root)
    assert [path.parent.name for path in again.written] == ["sac@imported"]
    assert len(again.unchanged) == 2
    changed = file(HEADER + "ant,td3,0,1,1,1\n" + ROWS.replace("40.5", "41"))
    with pytest.raises(RunError, match=r"run with other numbers in .*seed-0; start over with --overwrite"):
        import_curves(changed, root)
    assert not (root / "ant").exists()
    assert len(load_runs([root])) == 3
    import_curves(changed, root, overwrite=True)
    assert load_run(root / "hopper/td3@imported/seed-0").column("max_return").max() == 41
    assert (root / "hopper/td3@imported/seed-0.old-1").is_dir()
    assert len(load_runs([root])) == 4


def test_a_full_disk_leaves_nothing_half_written(file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail_later(contents: Any) -> None:
        calls.append(contents)
        if len(calls) == 2:
            raise RunError("cannot write: no space left on device")

    monkeypatch.setattr(curves, "replace_together", fail_later)
    with pytest.raises(RunError, match="no space left"):
        import_curves(file(HEADER + ROWS), tmp_path / "runs")
    assert not [*(tmp_path / "runs").rglob("*")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_sentence(file: Any, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir(mode=0o500)
    with pytest.raises(RunError, match=r"cannot write .*Permission denied"):
        import_curves(file(HEADER + ROWS), tmp_path / "runs")


def test_an_imported_run_cannot_be_resumed_evaluated_or_exported(
    file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path, *_) = import_curves(file(HEADER + ROWS), tmp_path / "runs").written
    with pytest.raises(RunError, match="was imported"):
        read_settings(path)
    for words in (("resume", path), ("evaluate", path), ("export", path), ("video", path)):
        assert main([str(word) for word in words]) == 1
        error = capsys.readouterr().err
        assert "was imported: it is a curve without episodes or a policy" in error, words
        assert error.count("\n") == 1


def test_imported_runs_are_marked_wherever_they_are_shown(file: Any, tmp_path: Path, make_run: Any) -> None:
    for seed in range(3):
        make_run(tmp_path / "runs", "hopper", "abs", seed)
    import_curves(file(HEADER + ROWS + "hopper,abs,0,300,9000,5\n"), tmp_path / "runs")
    runs = load_runs([tmp_path / "runs"])
    groups = group_runs(runs)
    # An imported curve of a search that we have, too, is never mixed with our runs.
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("abs", 3), ("abs (imported)", 1), ("td3 (imported)", 2),
    ]  # fmt: skip
    content = payload(runs)
    assert content["labels"] == ["abs", "abs (imported)", "td3 (imported)"]
    assert sum(run["name"].endswith(" (imported)") for run in content["runs"]) == 3
    assert "| td3 (imported) |" in markdown_table(summarise(groups))
    said = [notice.text for notice in warnings(runs, groups)]
    assert [text for text in said if "imported and taken" in text] == [
        "3 runs imported and taken as the file says: abs on hopper, td3 on hopper; "
        "the version of MuJoCo is not known for 3"
    ]
    snapshot = Follower(tmp_path / "runs/hopper/td3@imported/seed-0").read()
    assert (snapshot.search, snapshot.state, snapshot.episodes, snapshot.best) == ("td3 (imported)", "done", 15, 40.5)


def test_comparisons_on_the_axis_of_steps(file: Any, tmp_path: Path) -> None:
    text = "a,short,0,100,1000,1\na,short,0,200,2000,5\na,long,0,10,1000,3\na,long,0,30,9000,7\n"
    import_curves(file(HEADER + text), tmp_path / "runs")
    groups = group_runs(load_runs([tmp_path / "runs"]))
    rows = {axis: {row.label: row for row in summarise(groups, axis=axis)} for axis in ("episodes", "steps")}
    assert common_end(groups, "steps") == 2000
    long, short = (rows["steps"][f"{name} (imported)"] for name in ("long", "short"))
    assert (long.steps, long.episodes, long.scores["mean"]["centre_return"].value) == (2000, 10, 3)
    assert (short.steps, short.episodes, short.scores["mean"]["centre_return"].value) == (2000, 200, 5)
    # At equal episodes the other one is ahead.
    at_thirty = rows["episodes"]["long (imported)"]
    assert (at_thirty.episodes, at_thirty.steps, at_thirty.scores["mean"]["centre_return"].value) == (30, 9000, 7)


def test_curves_without_episodes_are_compared_by_steps_only(file: Any, tmp_path: Path) -> None:
    import_curves(file("task,search,seed,steps,return\nhopper,x,0,50,1\nhopper,x,0,2000,8\n"), tmp_path / "runs")
    import_curves(file(HEADER + "hopper,y,0,10,1500,3\n"), tmp_path / "runs")
    groups = group_runs(load_runs([tmp_path / "runs"]))
    by_episodes = {row.label: row for row in summarise(groups)}
    assert by_episodes["x (imported)"].scores["mean"] == {}
    assert np.isnan(by_episodes["x (imported)"].steps)
    by_steps = {row.label: row for row in summarise(groups, axis="steps")}
    assert by_steps["x (imported)"].scores["mean"]["centre_return"].value == 1
    assert np.isnan(by_steps["x (imported)"].episodes)


def test_the_command(file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["import", str(file(HEADER + ROWS)), "--runs", str(tmp_path / "runs")]
    assert main([*words, "--versions", "mujoco=3.4.0,gymnasium=1.4.0", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["written"]) == 2
    assert main(words) == 0
    assert "imported 0 runs into" in capsys.readouterr().out
    assert main([*words, "--versions", "mujoco"]) == 1
    assert "NAME=VERSION" in capsys.readouterr().err
    assert main(["import", str(tmp_path / "nowhere.csv")]) == 1
    assert capsys.readouterr().err == f"abps import: {tmp_path / 'nowhere.csv'} is missing\n"
