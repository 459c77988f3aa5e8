"""The report and the figures show no metric that nobody writes: every search is trained, and the names are compared."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

import killing

from abps.errors import ConfigError
from abps.model.aggregation import Marginal
from abps.settings import replace
from abps.study import diagnostics, gallery, run_view
from abps.study.gallery import FIGURES, PHASES, Options, draw
from abps.study.records import RENAMED, Run, load_run, load_runs
from abps.study.report import payload

NOT_COLUMNS = {"check"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of every search, and one of ABS with integrated weights."""
    from abps.run.directory import read_settings
    from abps.run.loop import train

    root = tmp_path_factory.mktemp("trained")
    configs: dict[str, Any] = {name: killing.tiny_config(name) for name in killing.searches()}
    prior = replace(configs["abs"].prior, aggregation=Marginal())
    for name, config in (*configs.items(), ("abs@marginal", replace(configs["abs"], prior=prior))):
        path = root / "tiny" / name / "seed-3"
        killing.make_run(path, name, episodes=14, config=config)
        train(path, read_settings(path))
    return root


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of all metrics that are asked for while a test runs."""
    names: set[str] = set()

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(run: Run, *wanted: str) -> Any:
            names.update(wanted)
            return method(run, *wanted)

        return wrapper

    for method in ("column", "table", "has"):
        monkeypatch.setattr(Run, method, watched(getattr(Run, method)))
    return names


def written(root: Path) -> set[str]:
    lines = [line for file in root.rglob("metrics.jsonl") for line in file.read_text().splitlines()]
    return {name for line in lines for name in json.loads(line)} - NOT_COLUMNS


def test_the_report_asks_for_nothing_that_nobody_writes(trained: Path, asked: set[str]) -> None:
    data = payload(load_runs([trained]))
    assert {"log_likelihood", "eval_return", "sigma_beta"} <= asked
    assert asked <= written(trained)
    # Every panel of every diagnostic shows something in one of the runs.
    shown = {name for details in data["details"].values() for name in details["diagnostics"]}
    assert {column for panel in diagnostics.PANELS for column, _ in panel["columns"]} == shown


def test_a_panel_of_nothing_would_be_noticed(trained: Path, asked: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the panel that abps 0.1.0 had."""
    panel = {"title": "β of the critics", "columns": [["beta", "critic"]], "unit": "β"}
    monkeypatch.setattr(run_view, "PANELS", (*diagnostics.PANELS, panel))
    payload(load_runs([trained]))
    assert asked - written(trained) == {"beta"}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_ask_for_nothing_that_nobody_writes(name: str, trained: Path, asked: set[str]) -> None:
    runs = load_runs([trained])
    for axis in ("episodes", "steps", "minutes"):
        try:
            figure = draw(name, runs, Options(axis=axis))
        except ConfigError as error:
            pytest.fail(f"{name} shows nothing of the trained runs: {error}")
        assert figure.axes
    assert asked <= written(trained)
    assert asked or name == "paper-1"  # From a checkpoint, not from metrics.


def test_phases_are_those_that_are_timed(trained: Path) -> None:
    timed = {name.removeprefix("seconds_") for name in written(trained) if name.startswith("seconds_")}
    assert timed == set(PHASES)
    assert gallery.ordered_phases([dict.fromkeys(timed, 1.0)]) == list(PHASES)


def test_metrics_of_older_runs_are_read_under_their_names_of_today(trained: Path, tmp_path: Path) -> None:
    """A run of abps 0.1.0 wrote `evidence`; nothing else of a metric's line changes."""
    path = tmp_path / "tiny" / "abs" / "seed-3"
    path.mkdir(parents=True)
    today = trained / "tiny" / "abs" / "seed-3"
    old_names = {new: old for old, new in RENAMED.items()}
    rows = [json.loads(line) for line in (today / "metrics.jsonl").read_text().splitlines()]
    assert set(old_names) <= set(rows[0])
    assert not set(RENAMED) & written(trained)
    old = [{old_names.get(name, name): value for name, value in row.items()} for row in rows]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in old))
    assert load_run(path).metrics == load_run(today).metrics
