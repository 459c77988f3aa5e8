"""The report's data and page, without a browser: numbers, escaping, size, warnings."""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from abps.cli import report as command
from abps.errors import ConfigError
from abps.study.groups import group_runs, summarise
from abps.study.page import render
from abps.study.records import load_runs
from abps.study.report import payload, write_report

MakeRun = Callable[..., Path]


def _data(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_holds_the_statistics(study: Path, tmp_path: Path) -> None:
    runs = load_runs([study])
    write_report(runs, tmp_path / "new" / "report.html")
    data = _data((tmp_path / "new" / "report.html").read_text())
    row = next(row for row in data["rows"] if (row["task"], row["label"]) == ("hopper", "mpd"))
    truth = next(row for row in summarise(group_runs(runs)) if (row.task, row.label) == ("hopper", "mpd"))
    expected = truth.scores["iqm"]["max_return"]
    assert row["scores"]["iqm"]["max_return"] == pytest.approx([expected.value, expected.low, expected.high], rel=1e-4)
    group = next(group for group in data["groups"] if (group["task"], group["label"]) == ("hopper", "mpd"))
    band = group["bands"]["episodes"]["max_return"]["mean"]
    mean = truth.scores["mean"]["max_return"].value
    at_end = [value for value in band[0] if value is not None][-1]
    assert at_end == pytest.approx(mean, rel=1e-4), "the curve ends where the table says"


def test_the_page_loads_nothing(study: Path) -> None:
    page = render(payload(load_runs([study])))
    assert "{{" not in page.replace(page[page.index('id="data"') :], "")
    outside = re.sub(r"http://www\.w3\.org/2000/svg", "", page)
    assert not re.search(r"https?://", outside)
    assert not re.search(r"<(link|img|iframe|object|embed)\b", page)
    assert "default-src 'none'" in page


HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">{{script}}"


def test_hostile_names_stay_text(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(
        tmp_path,
        "hopper",
        "abs",
        0,
        settings={"prior": {"aggregation": {"kind": HOSTILE}}},
        versions={"mujoco": HOSTILE},
    )
    config = (path / "config.yaml").read_text().replace("name: abs", f"name: {json.dumps(HOSTILE)}")
    (path / "config.yaml").write_text(config)
    (path / "DONE").unlink()
    (path / "FAILED").write_text(HOSTILE)
    page = render(payload(load_runs([path])), title=HOSTILE)
    assert page.count("<script") == 2
    assert "<img" not in page
    assert _data(page)["labels"] == [HOSTILE]
    # Negative control: without escaping, the same data would open a third script.
    assert page.replace("\\u003c", "<").count("<script") > 2


def test_ten_runs_stay_below_one_megabyte(make_run: MakeRun, tmp_path: Path) -> None:
    for search in ("abs", "mpd"):
        for seed in range(5):
            make_run(tmp_path, "ant", search, seed, episodes=6000)
    write_report(load_runs([tmp_path]), tmp_path / "report.html")
    size = (tmp_path / "report.html").stat().st_size
    assert 150_000 < size < 1e6


def test_the_page_carries_the_licence_of_its_charts(study: Path) -> None:
    page = render(payload(load_runs([study / "hopper" / "abs" / "seed-0"])))
    assert "Copyright (c) 2022 Leon Sorokin" in page
    assert "THE SOFTWARE IS PROVIDED" in page
    assert "var uPlot=function" in page


def test_one_run_has_no_statistics_over_seeds(study: Path) -> None:
    (path,) = [study / "hopper" / "abs" / "seed-0"]
    data = payload(load_runs([path]))
    assert data["groups"][0]["bands"] == {}
    assert not any("seeds" in item["text"] for item in data["warnings"])
    assert data["headlines"] == [data["details"][data["runs"][0]["id"]]["headline"]]
    assert any("seeds" in item["text"] for item in payload(load_runs([study / "hopper"]))["warnings"])


def test_counts_are_those_of_the_journal(make_run: MakeRun, tmp_path: Path) -> None:
    """Episodes of an outer iteration that was not finished ran all the same."""
    path = make_run(tmp_path, "hopper", "abs", 0)
    lines = [{"episode": n, "return": float(n), "steps": 10, "failed": None, "role": "probe"} for n in range(287)]
    (path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = load_runs([path])[0]
    assert run.column("episodes")[-1] == 285
    data = payload([run])
    assert data["runs"][0]["last"]["episodes"] == 287
    assert "after 287 episodes" in data["headlines"][0]
    assert "287 episodes" in render(data)
    assert data["details"][data["runs"][0]["id"]]["episodes"]["of"] == 287


def test_one_hundred_long_runs_stay_below_five_megabytes(make_run: MakeRun, tmp_path: Path) -> None:
    for task in ("pendulum", "swimmer", "hopper", "cheetah", "ant"):
        for search in ("abs", "mpd", "ars", "gibo"):
            for seed in range(5):
                make_run(tmp_path, task, search, seed, episodes=3000)
    write_report(load_runs([tmp_path]), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 5e6


def test_settings_and_versions_are_compared(make_run: MakeRun, tmp_path: Path) -> None:
    make_run(tmp_path, "hopper", "abs", 0, settings={"step": {"factor": 0.5}}, folder="a", versions={"mujoco": "3.3.0"})
    make_run(tmp_path, "hopper", "abs", 0, settings={"step": {"factor": 0.7}}, folder="b")
    data = payload(load_runs([tmp_path]))
    assert data["settings"]["different"] == [{"name": "search.settings.step.factor", "cells": ["0.5", "0.7"]}]
    assert ["search.settings.gp.refit", "warm"] in data["settings"]["same"]
    assert data["versions"]["different"] == [{"name": "mujoco", "values": [("3.3.0", 1), ("3.4.0", 1)]}]


def test_runs_without_any_metrics_are_survived(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    (path / "metrics.jsonl").write_text("")
    (path / "config.yaml").write_text("nonsense")
    data = payload(load_runs([tmp_path]))
    assert data["rows"][0]["runs"] == 0
    assert data["runs"][0]["last"]["episodes"] == 15, "the journal's, which ran all the same"
    (path / "journal.jsonl").unlink()
    data = payload(load_runs([tmp_path]))
    assert data["runs"][0]["last"]["episodes"] is None
    assert _data(render(data))["tasks"] == ["hopper"]


def test_names_that_are_no_text_are_survived(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    path.rename(path.with_name("seed-\udcff"))
    write_report(load_runs([tmp_path]), tmp_path / "report.html")
    assert "seed-?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def _execute(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.execute(parser.parse_args(words))


def test_command(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.html"
    assert _execute(str(study), "--out", str(out), "--json", "--threshold", "hopper=1500") == 0
    printed = json.loads(capsys.readouterr().out)
    assert {row["threshold"] for row in printed["rows"] if row["task"] == "hopper"} == {1500}
    assert _execute(str(study), "--out", str(out)) == 0
    assert "fewer than 5 seeds" in capsys.readouterr().out
    assert _execute(str(study), "--out", str(out), "--quiet") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["hopper", "hopper=much", "=3", "hopper=inf", "walrus=3"])
def test_bad_thresholds_are_refused(study: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="--threshold"):
        _execute(str(study), "--out", str(tmp_path / "r.html"), "--threshold", text)
