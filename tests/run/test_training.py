"""Runs as wholes: the same seed is the same run, evaluation and workers change nothing, and every stop condition
stops."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.errors import RunError
from abps.run.loop import train
from abps.run.run import open_run
from abps.search.ars import ArsConfig
from abps.tasks.gym import make_task

Make = Callable[..., Any]


def test_the_same_seed_twice_is_the_same_run(tmp_path: Path, make_settings: Make, run_new: Make, records: Make) -> None:
    for name, seed in (("first", 0), ("second", 0), ("other", 1)):
        run_new(tmp_path / name, make_settings(seed=seed))
    for file in ("journal.jsonl", "metrics.jsonl"):
        first, second, other = (records(tmp_path / name / file) for name in ("first", "second", "other"))
        assert first == second
        assert first != other
    for file in ("episodes.bin", "policy/best.npz", "policy/current.npz"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()
    assert (tmp_path / "first/episodes.bin").read_bytes() != (tmp_path / "other/episodes.bin").read_bytes()


def test_journals_are_byte_identical_up_to_times(tmp_path: Path, make_settings: Make, run_new: Make) -> None:
    """Not only the same fields: the same text, once times and the checksums over them are blanked out."""
    for name in ("first", "second"):
        run_new(tmp_path / name, make_settings())

    def blanked(path: Path) -> list[str]:
        lines = []
        for line in path.read_text().splitlines():
            record = json.loads(line)
            text = line.replace(f'"seconds": {json.dumps(record["seconds"])}', '"seconds": _')
            lines.append(text.replace(f'"check": {record["check"]}', '"check": _'))
        return lines

    first = blanked(tmp_path / "first/journal.jsonl")
    assert first == blanked(tmp_path / "second/journal.jsonl")
    assert all('"seconds": _' in line for line in first)


@pytest.mark.parametrize(
    "changes", [{"evaluate_every": 0}, {"evaluate_every": 3}, {"evaluation_episodes": 7}, {"evaluate_probes": "all"}]
)
def test_evaluation_never_changes_training(
    tmp_path: Path, make_settings: Make, run_new: Make, records: Make, changes: dict[str, Any]
) -> None:
    run_new(tmp_path / "plain", make_settings())
    run_new(tmp_path / "changed", make_settings(**changes))
    assert records(tmp_path / "plain/journal.jsonl") == records(tmp_path / "changed/journal.jsonl")
    assert (tmp_path / "plain/episodes.bin").read_bytes() == (tmp_path / "changed/episodes.bin").read_bytes()
    evaluated = [record["eval_return"] for record in records(tmp_path / "plain/metrics.jsonl")]
    assert evaluated != [record["eval_return"] for record in records(tmp_path / "changed/metrics.jsonl")] or (
        changes == {"evaluate_probes": "all"}
    )


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, make_settings: Make, run_new: Make, records: Make
) -> None:
    for workers in (1, 2, 4):
        run_new(tmp_path / str(workers), make_settings(workers=workers, evaluate_every=0, episodes=12))
    journal = records(tmp_path / "1/journal.jsonl")
    assert len(journal) == 12
    for workers in ("2", "4"):
        assert records(tmp_path / workers / "journal.jsonl") == journal
        assert (tmp_path / workers / "episodes.bin").read_bytes() == (tmp_path / "1/episodes.bin").read_bytes()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"episodes": 13}, "episodes"),
        ({"episodes": 90, "steps": 100}, "steps"),
        ({"episodes": 90, "target": -1e6}, "target"),
        ({"episodes": 90, "minutes": 1e-4}, "minutes"),
        ({"episodes": 90, "plateau": 2, "search_config": ArsConfig(step=3.0, directions=3, top=2)}, "plateau"),
    ],
)
def test_every_stop_condition_stops(
    tmp_path: Path, make_settings: Make, run_new: Make, changes: dict[str, Any], name: str
) -> None:
    result = run_new(tmp_path / "run", make_settings(**changes))
    assert set(result.reasons) == {name}
    assert (tmp_path / "run/DONE").read_text().startswith(f"{name}: ")
    if name == "episodes":
        assert result.episodes == 13  # Between two outer iterations: to the episode.
    if name == "steps":
        assert result.steps == 105  # The episode that passes the limit is finished: 7 × 15 steps.
    if name == "target":
        assert result.episodes == 6  # The first evaluation.


def test_a_plateau_of_a_search_without_centre_episodes_is_seen_in_its_evaluations(
    tmp_path: Path, make_settings: Make, run_new: Make, records: Make
) -> None:
    config = ArsConfig(step=3.0, directions=3, top=2)  # Steps far too long: the first centre stays the best.
    run_new(tmp_path / "run", make_settings(episodes=60, plateau=3, search_config=config))
    returns = [record["eval_return"] for record in records(tmp_path / "run/metrics.jsonl")]
    best = returns.index(max(returns))
    assert len(returns) == best + 4


def test_a_finished_run_trains_on_when_its_budget_grows(
    tmp_path: Path, make_settings: Make, run_new: Make, records: Make
) -> None:
    run_new(tmp_path / "long", make_settings(episodes=24))
    run_new(tmp_path / "run", make_settings(episodes=9))
    again = train(tmp_path / "run", make_settings(episodes=9))
    assert again.episodes == 9  # Nothing to do, and nothing done.
    train(tmp_path / "run", make_settings(episodes=24))
    for file in ("journal.jsonl", "metrics.jsonl"):
        assert records(tmp_path / "run" / file) == records(tmp_path / "long" / file)


def test_a_directory_holds_one_run(tmp_path: Path, make_settings: Make, run_new: Make) -> None:
    run_new(tmp_path / "run", make_settings(episodes=6))
    with pytest.raises(RunError, match=r"there is a run in .* already; go on with `abps resume"):
        run_new(tmp_path / "run", make_settings())


def test_fresh_episodes_decide_whether_the_target_is_reached(
    tmp_path: Path, make_settings: Make, run_new: Make
) -> None:
    settings = make_settings(episodes=12, target=1e6)
    run_new(tmp_path / "run", settings)
    task = make_task(settings.task)
    with open_run(tmp_path / "run", task.spec, settings=settings) as run:
        run.search.progress.best_centre = 2e6  # A centre whose few training episodes were lucky.
        assert "target" in run.search.stop()
        assert "target" not in run.stop()
