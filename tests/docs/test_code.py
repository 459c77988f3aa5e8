"""Python code in the pages compiles, imports what exists, and the README's loop runs."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def missing_imports(code: str) -> list[str]:
    """Names that a block imports from abps, or uses of it, and that are not there."""
    wanted = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "abps":
            wanted += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "abps":
            wanted.append(("abps", node.attr))
    return [f"{module}.{name}" for module, name in wanted if not hasattr(importlib.import_module(module), name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_use_names_that_exist(page: Path) -> None:
    for code in python_blocks(page.read_text()):
        assert missing_imports(code) == []


def test_the_loop_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    loop = next(code for code in python_blocks((ROOT / "README.md").read_text()) if "search.stop()" in code)
    shorter = re.sub(r"episodes=\d+", "episodes=4", loop)
    assert shorter != loop
    exec(compile(shorter, "README.md", "exec"), {})  # noqa: S102 (our own page)
    assert float(capsys.readouterr().out) > 0


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert missing_imports("from abps.run.hardware import nothing\nabps.make_serach()") == [
        "abps.run.hardware.nothing",
        "abps.make_serach",
    ]
