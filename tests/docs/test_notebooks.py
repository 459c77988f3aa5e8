"""Notebooks of the guides: without outputs in git, linked from their guide, and executed by `.ci/run`."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import abps

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def leftovers(listed: list[dict[str, Any]]) -> list[str]:
    """Cells with outputs or counts, which change with every execution."""
    return [cell["id"] for cell in listed if cell.get("outputs") or cell.get("execution_count") is not None]


def test_there_are_three() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"comparing_searches", "first_run", "your_own_environment"}
    assert "docs/notebooks/*.ipynb" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_bare_linked_and_uses_names_that_exist(path: Path) -> None:
    listed = cells(path)
    assert leftovers(listed) == []
    guide = ROOT / "docs" / "guides" / f"{path.stem}.md"
    assert f"(../notebooks/{path.name})" in guide.read_text()
    assert f"(../guides/{path.stem}.md)" in "".join(listed[0]["source"])
    code = "\n".join("".join(cell["source"]) for cell in listed if cell["cell_type"] == "code")
    used = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)]
    names = {node.attr for node in used if isinstance(node.value, ast.Name) and node.value.id == "abps"}
    assert names
    assert names <= set(abps.__all__)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_lines_of_a_notebook_are_at_most_120_characters(path: Path) -> None:
    assert [line for cell in cells(path) for line in cell["source"] if len(line.rstrip("\n")) > 120] == []


def test_an_output_that_was_left_is_noticed() -> None:
    assert leftovers([{"id": "a", "outputs": [{}]}, {"id": "b", "execution_count": 3}, {"id": "c", "outputs": []}]) == [
        "a",
        "b",
    ]
