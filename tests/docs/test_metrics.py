"""docs/metrics.md describes every field that a run writes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.errors import ConfigError
from abps.search.registry import SEARCHES, search_config
from abps.settings import with_changes

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

SMALLER = {
    "top": "1",
    "directions": "2",
    "states": "8",
    "plan.centre_episodes": "2",
    "plan.probes": "2",
    "plan.window": "5",
    "plan.first_paths": "2",
    "probing.starts": "2",
    "step.max_steps": "5",
    "optimiser.first_points": "3",
    "prior.critics.transitions": "100",
    "prior.critics.features.size": "8",
}
"""Settings with which an outer iteration takes a moment, for whichever search has them."""


def described() -> set[str]:
    """Every name in code quotes."""
    return set(re.findall(r"`([a-z0-9_]+)`", PAGE.read_text()))


def undescribed(fields: set[str]) -> set[str]:
    return fields - described()


def small(config: Any, preset: str) -> Any:
    """The settings with every change of `SMALLER` that they have; the paper's networks would take minutes."""
    changes = {"prior.critics": "lstd", **SMALLER} if preset == "paper" else SMALLER
    for name, value in changes.items():
        try:
            config = with_changes(config, {name: value})
        except ConfigError:
            continue
    return config


@pytest.mark.parametrize(("name", "preset"), [*((name, "cpu") for name in SEARCHES), ("abs", "paper")])
def test_every_field_is_described(
    name: str, preset: str, tmp_path: Path, make_settings: Callable[..., Any], run_new: Any
) -> None:
    run_new(tmp_path / "run", make_settings(name, small(search_config(name, "lqr", preset), preset), episodes=12))
    for file in ("journal.jsonl", "metrics.jsonl"):
        lines = [json.loads(line) for line in (tmp_path / "run" / file).read_text().splitlines()]
        assert lines
        assert undescribed({field for line in lines for field in line}) == set(), f"describe them in {PAGE.name}"


def test_a_field_nobody_described_is_noticed() -> None:
    assert undescribed({"episode", "a_new_metric"}) == {"a_new_metric"}
