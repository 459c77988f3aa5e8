"""Links between pages lead somewhere, and commands in the pages exist."""

import re
from pathlib import Path

import pytest

from abps.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links of a page to files that do not exist."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return [link for link in links if not re.match(r"[a-z]+:", link) and not (page.parent / link).exists()]


def unknown_commands(text: str) -> list[str]:
    """Words after `abps` in code that are no command."""
    code = "\n".join(
        re.findall(r"(?m)^    .*$", text) + re.findall(r"```.*?```", text, re.S) + re.findall(r"`[^`\n]+`", text)
    )
    words = re.findall(r"(?<![\w./-])(?<!from )abps ([a-z]+)(?![\w./:=])", code)
    return [word for word in words if word not in COMMANDS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_commands_of_a_page(page: Path) -> None:
    text = page.read_text()
    assert broken_links(page, text) == []
    assert unknown_commands(text) == []


GUIDES = (
    "guides/first_run.md",
    "guides/your_own_environment.md",
    "guides/comparing_searches.md",
    "guides/tuning.md",
    "guides/cluster.md",
    "hardware.md",
)


def example_links(text: str) -> list[str]:
    """Scripts in examples/ that a page links to."""
    return re.findall(r"\]\((?:\.\./)+(examples/\w+\.py)\)", text)


@pytest.mark.parametrize("guide", GUIDES)
def test_every_guide_has_a_script_that_is_run_before_a_merge(guide: str) -> None:
    scripts = example_links((ROOT / "docs" / guide).read_text())
    assert scripts, f"{guide} links to no script in examples/"
    assert "for example in examples/*.py" in (ROOT / ".ci" / "run").read_text()
    assert example_links("only [words](../design.md)") == []


def test_a_broken_link_and_an_unknown_command_are_noticed() -> None:
    assert broken_links(ROOT / "README.md", "see [this](docs/nowhere.md) and [that](docs/design.md)") == [
        "docs/nowhere.md"
    ]
    assert unknown_commands("type `abps learn pendulum` or `abps train pendulum`") == ["learn"]
