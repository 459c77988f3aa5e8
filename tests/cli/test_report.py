"""`abps report`: where the file goes, and what it says when it cannot be written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]


def test_a_report_lies_with_the_runs_that_it_is_about(
    abps: Call, tmp_path: Path, make_settings: Call, run_new: Call
) -> None:
    one = run_new(tmp_path / "lqr" / "ars" / "seed-0", make_settings(episodes=8)).path
    two = run_new(tmp_path / "lqr" / "ars" / "seed-1", make_settings(episodes=8, seed=1)).path
    assert f"wrote {one / 'report.html'}" in abps("report", one).out
    assert f"wrote {tmp_path / 'report.html'}" in abps("report", tmp_path).out
    assert f"wrote {one.parent / 'report.html'}" in abps("report", one, two).out
    for folder in (one, tmp_path, one.parent):
        assert (folder / "report.html").stat().st_size > 10_000


def test_a_place_where_nothing_can_be_written_is_one_sentence(
    abps: Call, tmp_path: Path, make_settings: Call, run_new: Call
) -> None:
    run = run_new(tmp_path / "run", make_settings(episodes=8)).path
    answer = abps("report", run, "--out", tmp_path)
    assert (answer.code, answer.err) == (1, f"abps report: cannot write the report to {tmp_path}: Is a directory\n")
    (tmp_path / "file").write_text("")
    answer = abps("watch", run, "--once", "--tensorboard", tmp_path / "file" / "tb")
    assert (answer.code, answer.err) == (1, f"abps watch: cannot use {tmp_path / 'file' / 'tb'}: Not a directory\n")
