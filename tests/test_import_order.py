"""Imports point one way: a stage of the data flow never imports a later one, not even inside a function."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from abps.registry import KINDS

PACKAGE = Path(__file__).parents[1] / "src" / "abps"

ORDER = (
    {"errors"},
    {"seeding", "arrays", "keywords", "registry", "npz", "theory", "words"},
    {"settings", "state"},
    {"trajectory", "normaliser", "tasks"},
    {"policies"},
    {"rollouts"},
    {"data"},
    {"critics"},
    {"model"},
    {"acquisition"},
    {"steps", "strategies", "optimisers"},
    {"search"},
    {"run"},
    {"study", "export", "testing"},
    {"tuning"},
    {"api"},
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
        ("model/fit.py", "from abps.search.base import Search"),
        ("tasks/gym.py", "def later():\n    import abps.run.loop"),
        ("settings.py", "from abps import policies"),
        ("search/ars.py", "if True:\n    from abps.cli import main"),
    ],
)
def test_a_breach_is_detected(file: str, source: str) -> None:
    assert len(breaches(file, source)) == 1


def test_an_import_of_an_earlier_part_is_no_breach() -> None:
    assert breaches("search/ars.py", "from abps import __version__, settings\nfrom abps.model.fit import fit") == []


def test_searches_and_parts_never_load_gymnasium_and_their_settings_not_jax() -> None:
    """Neither directly nor through anything they import."""
    code = (
        "import sys\n"
        "from abps.registry import KINDS, find\n"
        "from abps.search.registry import PRESETS, SEARCHES, search_config\n"
        "for search in SEARCHES:\n"
        "    for preset in PRESETS: search_config(search, 'hopper', preset)\n"
        "for family, kinds in KINDS.items():\n"
        "    for kind in kinds: find(family, kind)\n"
        "sys.exit('gymnasium' in sys.modules or 'jax' in sys.modules)"
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


# ---- parts are asked for what they do, never for what they are -----------------------------------------------------

CHOOSERS = {"registry.py", "settings.py", "search/registry.py", "testing.py"}
"""Where settings become parts, and may be told apart; and the command line."""
EXCUSED: dict[str, list[str]] = {"tasks/gym.py": ["TaskConfig"]}  # No part: one of the forms in which tasks are given.
"""File → parts that it may ask for, with a reason; empty is best."""
PART_NAMES = {place.split(":")[1] for kinds in KINDS.values() for place in kinds.values() if isinstance(place, str)}
KIND_NAMES = {kind for kinds in KINDS.values() for kind in kinds}


def class_questions(source: str) -> list[str]:
    """`isinstance(…, SomePart)`, `type(…) is SomePart`, and comparisons of a kind with a name."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            names = {item.id for item in ast.walk(node.args[1]) if isinstance(item, ast.Name)}
            found += [f"line {node.lineno} asks for the class {name}" for name in names if _is_part(name)]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            names = {getattr(side, "id", "") or getattr(side, "attr", "") for side in sides}
            texts = {side.value for side in sides if isinstance(side, ast.Constant)}
            if any(_is_part(name) for name in names):
                found.append(f"line {node.lineno} compares a class")
            if any(name.endswith("kind") for name in names) and texts & KIND_NAMES:
                found.append(f"line {node.lineno} compares a kind")
    return found


def _is_part(name: str) -> bool:
    return name in PART_NAMES or (name.endswith("Config") and name != "Config")


@pytest.mark.parametrize("file", [file for file in files() if file not in CHOOSERS and not file.startswith("cli/")])
def test_no_part_is_asked_for_its_class_or_kind(file: str) -> None:
    found = class_questions((PACKAGE / file).read_text())
    assert [line for line in found if line.split()[-1] not in EXCUSED.get(file, [])] == []


@pytest.mark.parametrize(
    "source",
    [
        "if isinstance(config, LocalSearchConfig): pass",
        "if isinstance(step, (int, Walk)): pass",
        "ok = type(part) is Lstd",
        'if config.step.kind == "walk": pass',
        'if kind in ("x",) or kind == "lstd": pass',
    ],
)
def test_a_question_for_a_class_is_detected(source: str) -> None:
    assert class_questions(source)


def test_a_question_for_an_ability_is_none() -> None:
    assert class_questions("if isinstance(kernel, FastKernel) and mode == 'mean' and role == 'walk': pass") == []
