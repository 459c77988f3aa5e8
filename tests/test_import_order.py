"""Imports point one way: a stage of the data flow never imports a later one, not even inside a function."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "abps"

ORDER = (
    {"errors"},
    {"seeding", "config", "npz", "theory"},
    {"presets"},
    {"trajectory", "normaliser", "tasks"},
    {"policies"},
    {"rollouts"},
    {"data"},
    {"critics"},
    {"gp"},
    {"acquisition"},
    {"search"},
    {"run"},
    {"study", "export"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}

ALLOWED: dict[tuple[str, str], str] = {}
"""(importing file, imported part) → why this one import may point the wrong way. Empty is best."""


def imported_modules(source: str) -> set[str]:
    """Every module of abps that a file imports anywhere in it, as dotted names without `abps.`; "" is abps itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "abps":
                names = [f"abps.{alias.name}" if alias.name in LEVEL else "abps" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            raise AssertionError("imports in abps are absolute")
        else:
            continue
        found |= {name.partition(".")[2] for name in names if name.split(".")[0] == "abps"}
    return found


def breaches(file: str, source: str) -> list[str]:
    """The imports of a file (path relative to the package) that point to a later part."""
    here = file.removesuffix(".py").split("/")[0]
    wrong = []
    for module in sorted(imported_modules(source)):
        part = module.split(".")[0]
        if not part or (file, part) in ALLOWED:  # abps itself only gives its version.
            continue
        if LEVEL[part] > LEVEL[here]:
            wrong.append(f"{file} imports abps.{module}, a later part")
    return wrong


def files() -> list[str]:
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE) + sorted(
        path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py"
    )


@pytest.mark.parametrize("file", files())
def test_imports_point_to_earlier_parts(file: str) -> None:
    assert breaches(file, (PACKAGE / file).read_text()) == []


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {file.removesuffix(".py").split("/")[0] for file in files()}
    assert parts == set(LEVEL)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("gp/fit.py", "from abps.search.base import Search"),
        ("tasks/gym.py", "def later():\n    import abps.run.loop"),
        ("config.py", "from abps import policies"),
        ("search/ars.py", "if True:\n    from abps.cli import main"),
    ],
)
def test_a_breach_is_detected(file: str, source: str) -> None:
    assert len(breaches(file, source)) == 1


def test_an_import_of_an_earlier_part_is_no_breach() -> None:
    assert breaches("search/ars.py", "from abps import __version__, config\nfrom abps.gp.fit import fit") == []


def test_searches_never_load_gymnasium() -> None:
    """Neither directly nor through anything they import."""
    code = (
        "import importlib, sys\n"
        "from abps.search.registry import SEARCHES\n"
        "for entry in SEARCHES.values(): importlib.import_module(entry.module)\n"
        "sys.exit('gymnasium' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_search_file_names_gymnasium() -> None:
    for path in (PACKAGE / "search").glob("*.py"):
        modules = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert "gymnasium" not in modules, path
