"""One version: in the package, the changelog and CITATION.cff, which is valid; what is packed, and what it needs."""

import datetime
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import abps
from abps.search.registry import SEARCHES

ROOT = Path(__file__).parents[1]
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)

REQUIRED = {"cff-version", "message", "title", "authors"}
KNOWN = REQUIRED | {
    "abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords", "license", "license-url",
    "preferred-citation", "references", "repository", "repository-artifact", "repository-code", "type", "url",
    "version",
}  # fmt: skip
"""The keys of the Citation File Format 1.2.0."""
PERSON = {
    "family-names",
    "given-names",
    "name-particle",
    "name-suffix",
    "alias",
    "affiliation",
    "email",
    "orcid",
    "website",
}
ENTITY = {"name", "address", "alias", "city", "country", "date-end", "date-start", "email", "orcid", "website"}
REFERENCES = {"article", "book", "conference-paper", "generic", "proceedings", "software", "thesis", "report"}

INSTALLED = {
    "gymnasium", "imageio", "jax", "matplotlib", "msgspec", "mujoco", "numpy", "optax", "pyyaml", "rich", "safetensors",
    "scipy", "threadpoolctl", "tyro",
}  # fmt: skip
"""What `make run` installs by name. Searches from elsewhere bring their packages as extras: this does not grow."""
NAME = re.compile(r"[A-Za-z0-9_.-]+")


def package(requirement: str) -> str:
    """The name in a requirement like `cma>=4.0,<5`."""
    found = NAME.match(requirement)
    assert found, requirement
    return found.group().lower()


def wrong(document: Any) -> list[str]:
    """What the Citation File Format 1.2.0 would refuse."""
    found = [f"{key} is missing" for key in sorted(REQUIRED - set(document))]
    found += [f"{key} is unknown" for key in sorted(set(document) - KNOWN)]
    if document.get("cff-version") != "1.2.0":
        found.append("cff-version must be the text 1.2.0")
    if document.get("type", "software") not in ("software", "dataset"):
        found.append("type must be software or dataset")
    if not isinstance(document.get("date-released"), datetime.date):
        found.append("date-released is no date")
    found += [f"{key} is no text" for key in ("message", "title", "version") if not isinstance(document.get(key), str)]
    paper = document.get("preferred-citation")
    if paper is not None and (paper.get("type") not in REFERENCES or not {"title", "authors"} <= set(paper)):
        found.append("preferred-citation needs a type, a title and authors")
    authors = [*document.get("authors", []), *(paper or {}).get("authors", [])]
    found += [f"{author} is no author" for author in authors if not (set(author) <= PERSON or "name" in author)]
    found += [f"{author} is no entity" for author in authors if "name" in author and not set(author) <= ENTITY]
    return found


def test_the_citation_file_is_valid() -> None:
    assert wrong(yaml.safe_load((ROOT / "CITATION.cff").read_text())) == []


@pytest.mark.parametrize(
    "change",
    [
        {"authors": [{"names": "x"}]}, {"version": 0.2}, {"date-released": "soon"}, {"cff-version": "1.1.0"},
        {"titel": "x"}, {"type": "paper"}, {"preferred-citation": {"type": "conference-paper"}},
    ],
)  # fmt: skip
def test_a_wrong_citation_file_is_noticed(change: dict[str, Any]) -> None:
    assert wrong({**yaml.safe_load((ROOT / "CITATION.cff").read_text()), **change})


def test_version_changelog_and_citation_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    releases = RELEASE.findall((ROOT / "CHANGELOG.md").read_text())
    assert releases[0] == (abps.__version__, str(citation["date-released"]))
    assert citation["version"] == abps.__version__
    assert len({version for version, _ in releases}) == len(releases)


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/abps/__init__.py"


def test_every_extra_that_a_sentence_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for file in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r"pip install 'abps\[(\w+)\]'", file.read_text())
    }
    assert "tune" in named
    assert named <= set(extras)


def test_the_install_of_make_run_does_not_grow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {package(line) for line in project["dependencies"]} == INSTALLED
    assert package("Ray[default]>=2.40 ; python_version < '4'") == "ray"


def test_a_search_that_needs_a_package_has_an_extra_that_brings_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {entry.needs: entry.extra for entry in SEARCHES.values() if entry.needs}
    assert "cma" in needed
    for name, extra in needed.items():
        assert name not in INSTALLED
        assert name in {package(line) for line in extras[extra]}


def test_the_references_from_deep_rl_are_in_no_extra() -> None:
    """They have an environment of their own, with a torch of hundreds of megabytes."""
    lines = (ROOT / "benchmarks" / "peers" / "requirements-deep-rl.txt").read_text().splitlines()
    theirs = {package(line) for line in lines if line and not line.startswith("#")}
    assert {"torch", "stable-baselines3"} <= theirs
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert not {"torch", "stable-baselines3"} & {package(line) for lines in extras.values() for line in lines}
