"""What holds for every page: lines of at most 120 characters, no word of the past, no file cited that is not there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
)
DEEPER = sorted({*(ROOT / "benchmarks").rglob("*.md"), *(ROOT / "examples").rglob("*.md")} - {*PAGES})
"""Pages beside scripts; their tables and lists of results may have long lines."""
WIDTH = 120
FOLDERS = "benchmarks|docs|examples|src|tests"

GONE = (
    r"\babps\.(?:gp|config|presets)\b",
    r"\bgp/\w+\.py\b",
    r"\b(?:config|presets)\.py\b",
    r"\b(?:DescentProbability|GradientInformation|AbsConfig|MpdConfig|GiboConfig|AdvantageSearch|settled_posterior)\b",
    r"\bevidence_(?:prior|constant)\b",
    r"\bbend_ridge\b|\baction_cap\b",
    r"where the search stands|stands on\b|trust nobody|dealt out in turn",
)
"""Names and phrases that the code and the pages no longer use."""

HISTORY = ("CHANGELOG.md", "RESULTS.md")
"""Pages that tell of earlier versions."""


def long_lines(text: str) -> list[str]:
    """Lines of prose that are too long, without the targets of their links; tables and code are left out."""
    found, fenced, code, blank = [], False, False, True
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        code = line.startswith("    ") and (blank or code)
        blank = not line.strip()
        plain = re.sub(r"\]\([^)]*\)", "]()", line)
        if len(plain) > WIDTH and not fenced and not code and not line.lstrip().startswith("|"):
            found.append(f"line {number} has {len(plain)} characters: {line[:60]}…")
    return found


def tracked() -> set[str]:
    """The files of the repository, and those that are about to enter it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    names = {name for name in listed if (ROOT / name).exists()}
    return names | {str(parent) for name in names for parent in Path(name).parents}


def missing_files(text: str, known: set[str]) -> list[str]:
    """Files and folders of the repository that a page names and that are not there."""
    text = re.sub(r"```{toctree}.*?```", "", text, flags=re.DOTALL)  # Sphinx says what is missing there.
    named = re.findall(rf"(?<![\w/.-])(?:\.\./)*((?:{FOLDERS})/[\w./-]*\w)", text)
    return sorted({name for name in named if name not in known})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_at_most_120_characters(page: Path) -> None:
    assert long_lines(page.read_text()) == []


@pytest.mark.parametrize("page", [*PAGES, *DEEPER], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_in_the_repository(page: Path) -> None:
    assert missing_files(page.read_text(), tracked()) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.name)
def test_no_page_uses_names_of_the_past(page: Path) -> None:
    text = page.read_text()
    assert [found[0] for pattern in GONE for found in re.finditer(pattern, text)] == []


def test_a_long_line_and_a_missing_file_are_noticed() -> None:
    words = "word " * 30
    assert len(long_lines(f"{words}\n| {words} |\n\n    {words}\n\n- a\n  {words}\n```\n{words}\n```\n")) == 2
    assert long_lines(f"[a](https://example.org/{'x' * 120})") == []
    assert missing_files("see docs/nowhere.md, `tests/docs/test_pages.py` and src/abps.", tracked()) == [
        "docs/nowhere.md"
    ]
