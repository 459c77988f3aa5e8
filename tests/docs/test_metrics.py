"""docs/metrics.md describes every field that a run writes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.config import AcquisitionConfig, CriticsConfig, GpConfig, replace
from abps.presets import search_config
from abps.search.registry import SEARCHES

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def described() -> set[str]:
    """Every name in code quotes."""
    return set(re.findall(r"`([a-z0-9_]+)`", PAGE.read_text()))


def undescribed(fields: set[str]) -> set[str]:
    return fields - described()


def small(name: str) -> Any:
    """Settings with which an outer iteration takes a moment."""
    config = search_config(name, "Pendulum-v1")
    if name == "ars":
        return replace(config, directions=2, top=1)
    config = replace(
        config,
        centre_episodes=2,
        probes=2,
        window=5,
        gp=GpConfig(starts=2, polished=1, iterations=5),
        acquisition=AcquisitionConfig(starts=2, polished=1, iterations=5),
    )
    if name in ("abs", "ddpgn"):
        config = replace(config, critics=CriticsConfig(members=2, groups=2, features=8, transitions=100), states=8)
    return config


@pytest.mark.parametrize("name", SEARCHES)
def test_every_field_is_described(name: str, tmp_path: Path, make_settings: Callable[..., Any], run_new: Any) -> None:
    run_new(tmp_path / "run", make_settings(name, small(name), episodes=16))
    for file in ("journal.jsonl", "metrics.jsonl"):
        lines = [json.loads(line) for line in (tmp_path / "run" / file).read_text().splitlines()]
        assert lines
        assert undescribed({field for line in lines for field in line}) == set(), f"describe them in {PAGE.name}"


def test_a_field_nobody_described_is_noticed() -> None:
    assert undescribed({"episode", "a_new_metric"}) == {"a_new_metric"}
