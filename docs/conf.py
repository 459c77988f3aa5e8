"""Sphinx settings: `make docs` builds the pages into site/, and a warning is an error.

The source is the repository itself, so that links between docs/, benchmarks/ and the changelog lead somewhere on the
site, as they do in the repository. The pages are Markdown (myst-parser). The reference is made from the docstrings of
`src/abps`, which are written for a reader of the source: `code` between single backticks, |z| for a norm, indented
lines for formulas. The hooks below turn that into what Sphinx reads, and list the settings of a part with their help.
"""

import dataclasses
import re
import types
from pathlib import Path
from typing import Any

import numpy.typing

import abps
import abps.arrays


class Array:
    """In signatures an array is an `Array`, not what numpy spells it out as."""


class NDArray:
    """The same for arrays of another type: `NDArray[float32]`."""

    __class_getitem__ = classmethod(types.GenericAlias)


# Before any other module of abps takes them over.
abps.arrays.Array = Array  # type: ignore[misc]
numpy.typing.NDArray = NDArray  # type: ignore[misc]

project = "abps"
author = "the abps maintainers"
project_copyright = author
version = release = abps.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"abps {version}"
html_show_sphinx = False
html_extra_path = ["_root"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "benchmarks/**.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "**/.*", "runs", "site", "src", "tests", "build", "dist"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough"]

napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100

_SIGNS = re.compile(r"(\||_(?!\w)|\*(?![^\W_]+\*)(?<!\w\*))")
"""What only reStructuredText gives a meaning: bars, trailing underscores, stars that are no emphasis."""


def _inline(text: str) -> str:
    """Markdown's `code` as reStructuredText's, and signs that mean something to it only there escaped."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # An odd backtick: leave the line alone.
        return text
    for place, piece in enumerate(pieces):
        pieces[place] = f"``{piece}``" if place % 2 else _SIGNS.sub(r"\\\1", piece)
    return "".join(pieces)


def _readable(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: indented formulas become literal blocks."""
    result: list[str] = []
    literal = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        section = bool(result) and re.fullmatch(r"(Args|Returns|Raises|Yields|Example|Examples):", _last(result))
        if indented and not literal and number and not lines[number - 1].strip() and not section:
            result += ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        result.append(line if literal or line.lstrip().startswith((">>>", "...")) else _inline(line))
    return result


def _last(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")


def _document(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what == "class" and dataclasses.is_dataclass(obj):
        helps = [(item.name, item.metadata["help"]) for item in dataclasses.fields(obj) if "help" in item.metadata]
        settings = [line for field, text in helps for line in (f"- `{field}`: {text}", "")]
        lines[:] = [*lines, "", *(["Settings:", ""] if settings else []), *settings]
    lines[:] = _readable(lines)


_PLAIN: dict[str, list[str]] = {}
"""Docstrings of attributes, which napoleon would cut in two at the first colon."""


def _keep(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what in ("attribute", "data", "property"):
        _PLAIN[name] = list(lines)


def _give_back(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _PLAIN.pop(name, lines)


def _without_folders(app: Any, name: str, source: list[str]) -> None:
    """A link to a folder of the repository is plain text on the site, which has no page for it."""
    here = Path(app.srcdir, name).parent

    def plain(link: re.Match[str]) -> str:
        return link[1] if (here / link[2]).is_dir() else link[0]

    source[0] = re.sub(r"\[([^]]+)\]\(([^)#:\s]+)\)", plain, source[0])


def setup(app: Any) -> dict[str, bool]:
    """Docstrings are read before napoleon, which looks for their sections."""
    app.connect("source-read", _without_folders)
    app.connect("autodoc-process-docstring", _document, priority=100)
    app.connect("autodoc-process-docstring", _keep, priority=200)
    app.connect("autodoc-process-docstring", _give_back, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
