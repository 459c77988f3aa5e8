"""The code in docs/extending.md is the code of examples/extending, word for word, and every file is spoken of."""

import re
from pathlib import Path

import pytest

import abps.testing
from abps.registry import BASES, import_object

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"<!-- (\w+\.py) -->\n```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[f"{name}-{place}" for place, (name, _) in enumerate(BLOCKS)])
def test_a_block_is_part_of_its_file(name: str, block: str) -> None:
    assert block.strip() in (ROOT / "examples" / "extending" / name).read_text()


def test_every_file_and_every_family_is_spoken_of() -> None:
    files = {path.name for path in (ROOT / "examples" / "extending").glob("*.py")} - {"small_lqr.py"}
    assert {name for name, _ in BLOCKS} == files
    for base in (base for family, base in BASES.items() if family not in ("features", "observations")):
        assert base in PAGE or base.rpartition(".")[2].lower() in PAGE.lower(), base


def test_the_bases_and_checks_that_are_named_exist() -> None:
    for base in BASES.values():
        assert import_object(":".join(base.rsplit(".", 1))).family in BASES
    for check in re.findall(r"`(check_\w+)", PAGE):
        assert hasattr(abps.testing, check)
