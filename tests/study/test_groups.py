"""Which runs are compared, and where."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from abps.errors import ConfigError
from abps.study.groups import band, common_end, group_runs, improvements, metric_of, points, summarise, thresholds
from abps.study.notices import warnings
from abps.study.records import load_runs
from abps.study.report import payload

MakeRun = Callable[..., Path]


def test_groups_are_ordered_like_the_paper(study: Path) -> None:
    groups = group_runs(load_runs([study]))
    assert [(g.task, g.label) for g in groups] == [
        (task, label) for task in ("pendulum", "hopper") for label in ("abs", "mpd", "ars")
    ]
    assert all(len(group.runs) == 3 and group.complete for group in groups)


def test_settings_that_differ_within_a_task_name_the_group(make_run: MakeRun, tmp_path: Path) -> None:
    for index, aggregation in enumerate(("softmax", "mean")):
        for task in ("hopper", "pendulum"):  # `step` differs between tasks: that names nothing.
            make_run(tmp_path, task, "abs", 0, settings={"aggregation": aggregation}, folder=f"abs-{index}")
    make_run(tmp_path, "hopper", "mpd", 0)
    labels = {group.label for group in group_runs(load_runs([tmp_path]))}
    assert labels == {"abs (aggregation=mean)", "abs (aggregation=softmax)", "mpd"}


def test_a_label_names_lists_by_what_is_in_them_and_empty_ones_not_at_all(make_run: MakeRun, tmp_path: Path) -> None:
    for seed, limits in enumerate(([], ["torque<=5", "wall<=1"])):
        path = make_run(tmp_path, "hopper", "abs", seed)
        config = yaml.safe_load((path / "config.yaml").read_text())
        config["task"]["constraint"] = limits
        (path / "config.yaml").write_text(yaml.safe_dump(config))
    labels = [group.label for group in group_runs(load_runs([tmp_path]))]
    assert labels == ["abs", "abs (task.constraint=torque<=5, wall<=1)"]


def test_only_finished_runs_count_when_there_are_any(make_run: MakeRun, tmp_path: Path) -> None:
    for seed, status in enumerate(("done", "done", "failed", "unfinished")):
        make_run(tmp_path, "hopper", "abs", seed, status=status, episodes=300 if status == "done" else 100)
    (group,) = group_runs(load_runs([tmp_path]))
    assert [run.seed for run in group.runs] == [0, 1]
    assert [run.seed for run in group.left_out] == [2, 3]
    assert common_end([group]) == 285


def test_a_study_under_way_is_compared_where_all_have_been(make_run: MakeRun, tmp_path: Path) -> None:
    make_run(tmp_path, "hopper", "abs", 0, status="unfinished", episodes=300)
    make_run(tmp_path, "hopper", "abs", 1, status="unfinished", episodes=100)
    make_run(tmp_path, "hopper", "mpd", 0, status="done", episodes=300)
    groups = group_runs(load_runs([tmp_path]))
    assert common_end(groups) == 95
    curve = band(groups[0], "max_return", "episodes", grid=np.array([0.0, 50, 95, 96, 200]))
    assert curve is not None
    assert np.isfinite(curve.value).tolist() == [False, True, True, False, False]


def test_finished_runs_are_compared_at_the_budget_that_they_used(make_run: MakeRun, tmp_path: Path) -> None:
    """ABS of these runs has iterations of 19 episodes and ARS of 16: of 100, their last are after 95 and 96."""
    for search in ("abs", "ars"):
        path = make_run(tmp_path, "hopper", search, 0, episodes=100)
        journal = (path / "journal.jsonl").read_text().splitlines(True)
        lines = [json.dumps({**json.loads(journal[-1]), "episode": number}) + "\n" for number in range(100)]
        (path / "journal.jsonl").write_text("".join(lines))
    groups = group_runs(load_runs([tmp_path]))
    assert [group.runs[0].column("episodes")[-1] for group in groups] == [95, 96]
    assert common_end(groups) == 100
    rows = summarise(groups, repetitions=10)
    assert [row.episodes for row in rows] == [100, 100]
    assert [row.steps for row in rows] == [group.runs[0].steps_run for group in groups]
    for row, group in zip(rows, groups, strict=True):
        assert row.scores["mean"]["centre_return"].value == points(group.runs[0], "centre_return", "episodes")[1][-1]
        curve = band(group, "centre_return", "episodes")
        assert curve is not None
        assert (curve.x[-1], np.isfinite(curve.value[-1])) == (100, True)
    assert payload(load_runs([tmp_path]))["grids"]["hopper"]["episodes"][-1] == 100, "the report's curves, too"


def test_same_seed_twice_counts_once(make_run: MakeRun, tmp_path: Path) -> None:
    make_run(tmp_path / "a", "hopper", "abs", 0, episodes=100)
    make_run(tmp_path / "b", "hopper", "abs", 0, episodes=300)
    runs = load_runs([tmp_path])
    (group,) = group_runs(runs)
    assert [len(run.metrics) for run in group.runs] == [15]
    assert any("seed 0 was given more than once" in warning.text for warning in warnings(runs, [group]))
    for folder in "ab":
        make_run(tmp_path / folder, "hopper", "abs", 1, episodes=100)
    runs = load_runs([tmp_path])
    (group,) = group_runs(runs)
    assert any("seeds 0, 1 were given more than once" in warning.text for warning in warnings(runs, [group]))


def test_centre_prefers_fresh_evaluations(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    rows = [
        {"episodes": 5, "centre_return": 3},
        {"episodes": 9, "eval_return": 7, "centre_return": 4},
        {"episodes": 12},
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    x, y = points(load_runs([path])[0], "centre_return", "episodes")
    assert (x.tolist(), y.tolist()) == ([9], [7]), "evaluations and training episodes are not mixed in one curve"
    (path / "metrics.jsonl").write_text("".join(json.dumps({**row, "eval_return": None}) + "\n" for row in rows))
    run = load_runs([path])[0]
    x, y = points(run, "centre_return", "episodes")
    assert (x.tolist(), y.tolist()) == ([5, 9], [3, 4])
    assert metric_of(run, "centre_return") == "centre_return"


def test_summary_equals_a_direct_computation(study: Path) -> None:
    runs = load_runs([study])
    rows = {(row.task, row.label): row for row in summarise(group_runs(runs))}
    row = rows["hopper", "abs"]
    finals, episodes = [], []
    for run in runs:
        if (run.task, run.search) == ("hopper", "abs"):
            episodes = [line["episodes"] for line in run.metrics]
            finals.append([line["max_return"] for line in run.metrics if line["episodes"] <= row.episodes][-1])
    assert row.episodes == 285, "19 per iteration for abs: 285 of 300, below the 288 of ars"
    assert episodes[-1] == 285
    assert row.scores["mean"]["max_return"].value == pytest.approx(np.mean(finals))
    assert row.scores["median"]["max_return"].value == pytest.approx(np.median(finals))
    estimate = row.scores["mean"]["max_return"]
    assert min(finals) <= estimate.low <= estimate.value <= estimate.high <= max(finals)
    assert row.reached.runs == 3
    assert row.minutes > 0


def test_thresholds_can_be_given(study: Path) -> None:
    groups = group_runs(load_runs([study]))
    assert thresholds(groups, {"hopper": 123.0})["hopper"] == 123.0
    found = thresholds(groups)["hopper"]
    best = max(row.scores["mean"]["max_return"].value for row in summarise(groups) if row.task == "hopper")
    assert 0 < found < best
    never = next(row for row in summarise(groups, {"hopper": 1e9}) if row.task == "hopper")
    assert never.reached.count == 0
    assert math.isinf(never.reached.median)


def test_improvements_are_complementary(study: Path) -> None:
    found = {(item.ours, item.theirs): item.estimate for item in improvements(group_runs(load_runs([study])))}
    assert set(found) == {(a, b) for a in ("abs", "mpd", "ars") for b in ("abs", "mpd", "ars") if a != b}
    assert found["abs", "ars"].value == pytest.approx(1 - found["ars", "abs"].value)
    assert found["abs", "ars"].value > 0.5


def test_warnings_name_what_is_wrong(make_run: MakeRun, tmp_path: Path) -> None:
    make_run(tmp_path, "hopper", "abs", 0, versions={"mujoco": "3.3.0"})
    make_run(tmp_path, "hopper", "abs", 1, status="failed")
    make_run(tmp_path, "hopper", "abs", 2, status="unfinished")
    runs = load_runs([tmp_path])
    texts = [warning.text for warning in warnings(runs, group_runs(runs))]
    assert any("mixed mujoco versions: 3.3.0 (1 run), 3.4.0 (2 runs)" in text for text in texts)
    assert any("1 run failed: hopper/abs/seed-1 (10 episodes in a row failed)" in text for text in texts)
    assert any("1 run not finished" in text for text in texts)
    assert any("fewer than 3 seeds: abs on hopper (1)" in text for text in texts)


def test_a_clean_study_only_notes_the_seeds(study: Path) -> None:
    runs = load_runs([study])
    found = warnings(runs, group_runs(runs))
    assert [warning.level for warning in found] == ["note"]
    assert "fewer than 5 seeds" in found[0].text


def test_unknown_names_are_refused(study: Path) -> None:
    group = group_runs(load_runs([study]))[0]
    with pytest.raises(ConfigError, match="unknown axis"):
        points(group.runs[0], "max_return", "hours")
    with pytest.raises(ConfigError, match="unknown quantity"):
        points(group.runs[0], "maximum", "steps")
    with pytest.raises(ConfigError, match="unknown statistic"):
        band(group, "max_return", "steps", statistic="mode")
