"""`abps report`: where the file goes, and what is said of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def runs(tmp_path: Path, run_new: Call, make_settings: Call) -> Path:
    for seed in (0, 1):
        run_new(tmp_path / "runs" / f"seed-{seed}", make_settings(seed=seed, episodes=6))
    return tmp_path / "runs"


def test_a_report_goes_into_the_folder_that_it_is_about(
    runs: Path, abps: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    for words, folder in (
        (("runs/seed-0",), "runs/seed-0"),
        (("runs",), "runs"),
        ((runs / "seed-0", "runs/seed-1"), str(runs)),
    ):
        file = Path(folder) / "report.html"
        file.unlink(missing_ok=True)
        answer = abps("report", *words)
        assert (answer.code, answer.out.splitlines()[0].split(" (")[0]) == (0, f"wrote {file}")
        assert file.stat().st_size > 10_000
    assert json.loads(abps("report", "runs/seed-0", "--out", "mine.html", "--json").out)["out"] == "mine.html"
    assert Path("mine.html").is_file()
    assert not Path("report.html").exists()


def test_a_folder_without_runs_gets_no_report(tmp_path: Path, abps: Call) -> None:
    answer = abps("report", tmp_path)
    assert answer.code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_can_be_written_is_one_sentence(
    abps: Call, tmp_path: Path, make_settings: Call, run_new: Call
) -> None:
    run = run_new(tmp_path / "run", make_settings(episodes=8)).path
    answer = abps("report", run, "--out", tmp_path)
    assert (answer.code, answer.err) == (1, f"abps report: cannot write the report to {tmp_path}: Is a directory\n")
    (tmp_path / "file").write_text("")
    answer = abps("watch", run, "--once", "--tensorboard", tmp_path / "file" / "tb")
    assert (answer.code, answer.err) == (1, f"abps watch: cannot use {tmp_path / 'file' / 'tb'}: Not a directory\n")
