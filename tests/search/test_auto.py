"""`auto`: its rule is what the committed results give, it is never far behind there, and it says what it does."""

import importlib.util
import math
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import abps
from abps.errors import ConfigError
from abps.search import registry
from abps.search.auto import AUTO, RULE, Choice, Row, choose_search
from abps.search.budget import BudgetConfig
from abps.search.registry import SEARCHES, listed_searches, make_search, register_search, search_config
from abps.tasks.spec import TaskSpec

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def which() -> ModuleType:
    """The script that derives the rule."""
    spec = importlib.util.spec_from_file_location("which", ROOT / "benchmarks" / "peers" / "which.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["which"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cells(which: Any) -> Any:
    return which.make_cells(which.read_rows())


def task(observations: int, actions: int = 1) -> TaskSpec:
    return TaskSpec("toy", observations, actions, (-1.0,) * actions, (1.0,) * actions)


# ---- the rule and the results ----------------------------------------


def test_the_rule_is_what_the_committed_results_give(which: Any, cells: Any) -> None:
    """If it fails: `python benchmarks/peers/which.py rule --write`."""
    assert [tuple(row) for row in RULE] == [tuple(line) for line in which.derive(cells)]


def test_the_page_has_the_tables_of_the_committed_results(which: Any, cells: Any) -> None:
    """If it fails: `python benchmarks/peers/which.py --write`."""
    page = (ROOT / "docs" / "guides" / "which_search.md").read_text()
    assert which.tables(cells) in page
    assert which.rule_lines(cells) in page


def test_other_results_would_give_another_rule(which: Any, cells: Any) -> None:
    """ARS best by far on all small tasks after 60 episodes."""
    small = which.tasks_of(8)
    better = {
        key: cell._replace(median=1e4) if key[0] == "ars" and key[1] in small and key[2] == 60 else cell
        for key, cell in cells.items()
    }
    assert which.search_by(which.derive(better), 4, 60) == "ars"
    assert which.search_by(which.derive(better), 30, 60) == which.search_by(which.derive(cells), 30, 60) != "ars"


def test_the_rule_is_never_far_behind_the_best_in_the_tables(which: Any, cells: Any) -> None:
    """In no group of tasks, and on the whole better than any one search but the default."""
    for size in which.SIZES:
        for mark, _ in which.BANDS:
            shares, count = which.mean_shares(cells, which.tasks_of(size), mark)
            if count < which.FEWEST:
                continue
            open_to_it = {name: share for name, share in shares.items() if name not in which.EXTRAS}
            chosen = choose_search(task(int(min(size, 1000))), BudgetConfig(episodes=mark)).search
            assert shares[chosen] >= max(open_to_it.values()) - which.MARGIN - 1e-9, (size, mark)
    found = which.losses(cells, left_out=False)
    mine = sum(share for *_, share in found) / len(found)
    for other in ("snes", "klbo", "turbo", "crbo", "mpd", "ars"):
        theirs = [which.shares_of(cells, name, mark).get(other, 0.0) for name, mark, *_ in found]
        assert mine > sum(theirs) / len(theirs) + 0.1


def test_every_task_is_as_large_as_the_script_says(which: Any) -> None:
    for name in ("pendulum", "hopper", "ant"):
        spec = abps.make_task(name).spec
        assert which.WEIGHTS[name] == spec.observation_dim * spec.action_dim


def test_the_newest_row_counts(which: Any, tmp_path: Path) -> None:
    line = '{"search": "%s", "task": "cart", "seed": %d, "returns": {"30": [%s, 0]}}\n'
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(line % ("es", 0, 1) + line % ("es", 0, 2) + line % ("cma", 0, 3) + line % ("cma-nobias", 0, 4))
    two.write_text(line % ("es", 1, 8) + line % ("cma-nobias", 0, 6))
    found = which.make_cells(which.read_rows([one, two]))
    assert found["es", "cart", 30] == (5.0, 2, 8, 2)
    assert found["cma", "cart", 30].median == 6  # The search as it is, not the one on the policy of ABS.


# ---- choosing ----------------------------------------


def test_one_command_makes_every_cell_of_the_tables(which: Any) -> None:
    made = {(job.search.partition("-")[0], job.task, mark) for job in which.jobs(which.EVERY) for mark in job.all_marks}
    rows = [(task, mark) for task in which.OWN for mark in (30, 60, 100)]
    rows += [(task, mark) for task in which.MUJOCO for mark in (100, 300)]
    assert {(search, *row) for search in which.SEARCHES for row in rows} <= made
    assert {task for search, task, _ in made if search == which.UNTRAINED} == set(which.WEIGHTS)
    assert all(job.seed in range(300, 305) for job in which.jobs(["abs"]))


def test_a_forgotten_search_is_made_again_and_no_other(
    which: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        which, "FILES", [Path(shutil.copy(file, tmp_path / str(n))) for n, file in enumerate(which.FILES)]
    )
    before = which.read_rows(which.FILES)
    which.run_missing(["snes", "cma"], dry_run=True)
    assert capsys.readouterr().out == "0 runs are missing\n"
    which.forget(["snes"])
    capsys.readouterr()
    which.run_missing(["snes", "cma"], dry_run=True)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{len(which.jobs(['snes']))} runs are missing"
    assert all(line.startswith("snes ") for line in said[1:])
    kept = [row for row in before if row["search"] != "snes" or row["seed"] not in range(300, 305)]
    assert which.read_rows(which.FILES) == kept


def test_the_rule_fits_every_task_and_budget() -> None:
    assert (RULE[-1].weights, RULE[-1].episodes) == (math.inf, math.inf)
    assert {row.search for row in RULE} <= set(SEARCHES)
    for weights in (1, 8, 9, 40, 41, 10_000):
        for episodes in (0, 1, 40, 41, 10**6):
            assert choose_search(task(weights), BudgetConfig(episodes=episodes)).search in SEARCHES


def test_the_first_row_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = (Row(8, 40, "snes", 0.9, "abs", 0.8, 4), Row(8, math.inf, "klbo", 1.0, "abs", 0.8, 4))
    monkeypatch.setattr("abps.search.auto.RULE", (*rule, Row(math.inf, math.inf, "ars", 0.7, "abs", 0.6, 3)))

    def chosen(spec: TaskSpec, episodes: int) -> str:
        return choose_search(spec, BudgetConfig(episodes=episodes)).search

    assert [chosen(task(8), 40), chosen(task(4, 2), 41), chosen(task(3, 3), 40)] == ["snes", "klbo", "ars"]
    assert chosen(task(8), 0) == choose_search(task(8)).search == "klbo"  # No limit of episodes.
    assert choose_search(task(1), BudgetConfig(episodes=1)).reason == (
        "auto chose snes for 1 weight and 1 episode: it had 90 % of the best search's improvement on 4 tasks, abs 80 % "
        "(docs/guides/which_search.md)."
    )
    monkeypatch.setattr("abps.search.auto.RULE", (Row(math.inf, math.inf, "abs", 0.79, "snes", 0.83, 4),))
    assert "on 4 tasks, snes 83 %, which is level (docs" in choose_search(task(1)).reason


def test_a_made_search_has_the_chosen_name(capsys: pytest.CaptureFixture[str]) -> None:
    search = make_search(AUTO, task(4), budget=BudgetConfig(episodes=60))
    expected = choose_search(task(4), BudgetConfig(episodes=60))
    assert search.name == expected.search
    assert capsys.readouterr().err == expected.reason + "\n"
    assert Choice("abs", "because").announce(quiet=True) == "abs"
    assert capsys.readouterr().err == ""


def test_auto_and_all_are_no_searches_with_settings() -> None:
    with pytest.raises(ConfigError, match="'auto' is no search with settings of its own"):
        search_config("auto")
    for name in ("auto", "all"):
        with pytest.raises(ConfigError, match="stands for other searches already"):
            register_search(name, lambda task, preset: search_config("mpd"))


def test_all_is_every_search_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = listed_searches(["all"])
    assert set(everything.names) == set(SEARCHES)
    assert everything.note == ""
    assert listed_searches(["ars", "all"]).names[0] == "ars"
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    some = listed_searches(["all", "mine:Search"])
    assert set(some.names) == {*SEARCHES, "mine:Search"} - {"cma"}
    assert some.note == "left out, because a package is missing: cma (pip install 'abps[peers]')"
    assert listed_searches(["abs"]).note == ""
    assert listed_searches(["cma", "all"]).note == ""  # Asked for by name: its own error says what is missing.


def test_every_search_says_what_it_suits() -> None:
    assert all(0 < len(entry.suits) <= 100 for entry in SEARCHES.values())
