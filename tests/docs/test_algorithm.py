"""The pages that explain the code name modules, classes, settings and files that exist."""

import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest

from abps.model.gp import GP
from abps.registry import KINDS, find

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.relative_to(DOCS) for page in DOCS.rglob("*.md"))
GROUPS = "gp|probing|prior|aggregation|critics|features|step|plan|observations|policy|chart"


def resolved(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute (of an attribute) of one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            known = getattr(found, "__dataclass_fields__", {})
            if not hasattr(found, part) and part not in known:
                return False
            found = getattr(found, part, None)
        return True
    return False


def known_settings() -> set[str]:
    """Every field of every part, and of the Gaussian process."""
    parts = [find(family, kind) for family, kinds in KINDS.items() for kind in kinds]
    return {item.name for part in [*parts, GP] for item in fields(part)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_name_exists(page: Path) -> None:
    for name in set(re.findall(r"`(abps(?:\.\w+)+)`", (DOCS / page).read_text())):
        assert resolved(name), f"{page} names {name}, which does not exist"


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert resolved("abps.model.fit.fit")
    assert not resolved("abps.model.fit.no_such_thing")
    assert not resolved("abps.gp.fit")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "extending.md"], ids=str)
def test_settings_named_by_their_group_exist(page: Path) -> None:
    text, known = (DOCS / page).read_text(), known_settings()
    named = set(re.findall(rf"`(?:--(?:set|axis) \w+\.)?((?:(?:{GROUPS})\.)+)(\w+)(?:`| )", text))
    named |= {(group, name.replace("-", "_")) for group, name in re.findall(rf"--((?:(?:{GROUPS})\.)+)([\w-]+)", text)}
    for group, name in named:
        if name not in ("py", "npz", "path"):  # Files, and a field of a policy.
            assert name.removeprefix("no_") in known or name in GROUPS.split("|"), f"{page} names {group}{name}"


def test_deviations_are_numbered_without_gaps() -> None:
    text = (DOCS / "deviations.md").read_text()
    numbers = [int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
