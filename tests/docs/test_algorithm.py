"""The pages that map the paper to the code name things that exist."""

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def resolved(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute (of an attribute) of one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", ["algorithm.md", "deviations.md"])
def test_every_name_and_file_exists(page):
    text = (DOCS / page).read_text()
    for name in set(re.findall(r"`(abps(?:\.\w+)+)`", text)):
        assert resolved(name), f"{page} names {name}, which does not exist"
    for path in set(re.findall(r"((?:tests|examples|benchmarks|docs|src)/[\w./]+)", text)):
        assert (DOCS.parent / path.rstrip(".")).exists(), f"{page} points to {path}, which does not exist"
    assert not resolved("abps.gp.fit.no_such_thing")  # The check can fail.


def test_deviations_are_numbered_without_gaps_and_name_real_settings():
    from dataclasses import fields, is_dataclass

    from abps import config

    text = (DOCS / "deviations.md").read_text()
    numbers = [int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    known = {
        item.name
        for cls in vars(config).values()
        if isinstance(cls, type) and is_dataclass(cls)
        for item in fields(cls)
    }
    for group, name in set(re.findall(r"`(gp|acquisition|critics)\.(\w+)", text)):
        assert name in known, f"deviations.md names the setting {group}.{name}, which does not exist"
