"""docs/design.md and the reference name what is really there."""

import importlib
import re
from pathlib import Path

import pytest

import abps
from abps.registry import BASES, KINDS
from abps.run.checkpoint import SCHEMA
from abps.run.directory import FORMAT

ROOT = Path(__file__).parents[2]
DESIGN = (ROOT / "docs" / "design.md").read_text()
CONTRACTS = (ROOT / "docs" / "reference" / "contracts.md").read_text()
PUBLIC = (ROOT / "docs" / "reference" / "public.md").read_text()


def test_every_folder_and_top_level_module_is_in_the_table() -> None:
    package = ROOT / "src" / "abps"
    names = [f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").exists()]
    names += [path.name for path in package.glob("*.py") if not path.name.startswith("__")]
    for name in names:
        assert f"`{name}`" in DESIGN, f"design.md does not say what {name} is"


@pytest.mark.parametrize("family", BASES)
def test_every_family_is_described_with_its_contract_and_kinds(family: str) -> None:
    row = next(line for line in DESIGN.splitlines() if line.startswith(f"| `{family}` |"))
    assert f"`{BASES[family].rpartition('.')[2]}`" in row
    own = {kind for kind, part in KINDS[family].items() if isinstance(part, str)}
    assert own == set(re.findall(r"`([\w-]+)`", row.split("|")[3]))


def test_the_formats_are_those_of_the_code() -> None:
    assert f"format {FORMAT}" in DESIGN
    assert f"schema {SCHEMA}" in DESIGN


def documented(text: str) -> set[str]:
    """Names that a reference page documents."""
    return set(re.findall(r"^\.\. auto(?:class|function|exception)::\s+(\S+)", text, re.MULTILINE))


def test_every_public_name_is_in_the_reference() -> None:
    assert {f"abps.{name}" for name in abps.__all__} - {"abps.__version__"} == documented(PUBLIC)
    assert "abps.__version__" in PUBLIC


def test_every_contract_is_in_the_reference() -> None:
    expected = set(BASES.values()) - {BASES["features"]}  # Features are a choice inside one kind of critics.
    assert expected <= documented(CONTRACTS)
    assert "abps.critics.base.Critics" in documented(CONTRACTS)
    assert "abps.search.base.Search" in documented(CONTRACTS)


@pytest.mark.parametrize("family", sorted(set(KINDS) - {"search"}))
def test_every_part_is_in_the_reference(family: str) -> None:
    page = documented((ROOT / "docs" / "reference" / "parts.md").read_text())
    for place in KINDS[family].values():
        assert not isinstance(place, str) or place.replace(":", ".") in page, place


def test_the_reference_names_things_that_exist() -> None:
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name in documented(page.read_text()):
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), f"{page.name}: {name}"
