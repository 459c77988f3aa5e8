"""docs/data-travels.md: every block of the page is run, and gives what the page says."""

import doctest
import re
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

PAGE = Path(__file__).parents[2] / "docs" / "data-travels.md"


def blocks(text: str) -> str:
    """The `pycon` blocks of a page, one after the other; lines keep their numbers."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside, line = line == "```pycon", ""
        lines.append(line if inside else "")
    return "\n".join(lines) + "\n"


def failures(text: str) -> list[str]:
    """What the examples of a page gave where it differs from what it says."""
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(blocks(text), {}, PAGE.name, str(PAGE), 0)
    with threadpool_limits(1):  # The page asks for it; afterwards other tests have all threads again.
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return said


def test_the_page_is_true() -> None:
    said = failures(PAGE.read_text())
    assert not said, "".join(said)


def test_the_page_visits_the_folders_in_the_order_of_the_data_flow() -> None:
    headings = re.findall(r"^## \d+\. .*$", PAGE.read_text(), re.MULTILINE)
    files = [name for heading in headings for name in re.findall(r"`([\w/]+(?:\.py|/))`", heading)]
    assert files
    for name in files:
        assert (PAGE.parents[1] / "src" / "abps" / name).exists(), name


@pytest.mark.parametrize("wrong", ["```pycon\n>>> 1 + 1\n3\n```\n", "```pycon\n>>> nothing\n```\n"])
def test_a_wrong_number_is_noticed(wrong: str) -> None:
    assert failures(wrong)
