"""The page around the data: one HTML text with styles and scripts inside, the same for reports and the live view.

Nothing from a run reaches the page as markup: text goes through JSON with "<" escaped, the scripts only make text
nodes, and a content security policy allows the page's own script by its hash and nothing else.
"""

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from abps import __version__
from abps.study.jsontypes import embedded
from abps.words import count, listing

__all__ = ["render", "security_policy", "titles"]

SCRIPTS = (
    "dom.js",
    "state.js",
    "series.js",
    "charts.js",
    "pictures.js",
    "tables.js",
    "curves.js",
    "sections.js",
    "run.js",
    "live.js",
    "page.js",
)
"""Our own scripts, in the order in which they build on each other."""


def render(content: Mapping[str, Any], *, title: str = "") -> str:
    """The page as text, complete and self-contained.

    Args:
        content: what `report.payload` gives; with `live` set, the page asks the server it came from for news.
        title: heading; the searches and tasks by default.
    """
    heading, subtitle = titles(content)
    title = title or heading
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    complete = "This file is complete: it loads nothing."
    origin = "Live from this computer." if content.get("live") else f"Made on {made}. {complete}"
    values = {
        "policy": security_policy(live=bool(content.get("live"))),
        "title": html.escape(title),
        "subtitle": html.escape(subtitle),
        "footer": html.escape(f"abps {__version__}. {origin} Charts: uPlot, MIT licence."),
        "style": _style(),
        "script": _script(),
        "data": embedded(content),
    }
    # One pass: what is inserted is not searched for further names.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _asset("report.html"))


def titles(content: Mapping[str, Any]) -> tuple[str, str]:
    """Heading and subtitle: what ran on what, and how much of it."""
    tasks, runs = content["tasks"], content["runs"]
    heading = f"{listing(content['searches'], 6)} on {listing(tasks, 6)}" if runs else "No runs yet"
    episodes = sum(run["last"]["episodes"] or 0 for run in runs)
    steps = sum(run["last"]["steps"] or 0 for run in runs)
    parts = [count(len(runs), "run")]
    if len(runs) > 1:
        parts += [count(len(tasks), "task"), count(len(content["labels"]), "search", "searches")]
    return heading, " · ".join([*parts, f"training: {count(episodes, 'episode')}, {count(steps, 'step')}"])


def security_policy(*, live: bool) -> str:
    """What the page may do: run its own script and show films that stand in it; a live page may ask its server."""
    return (
        f"default-src 'none'; style-src '{_digest(_style())}'; script-src '{_digest(_script())}'; "
        f"img-src data:; media-src data:; connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _style() -> str:
    return _asset("vendor/uPlot.min.css") + "\n" + _asset("report.css")


def _script() -> str:
    """uPlot, with its licence in place of its banner (a link: a page without a network should have none), and ours."""
    licence = _asset("vendor/uPlot.LICENSE").replace("*/", "")
    library = _asset("vendor/uPlot.iife.min.js").partition("\n")[2]
    own = "".join(_asset(name) for name in SCRIPTS)
    return f'/* uPlot 1.6.32\n{licence}\n*/\n{library}\n"use strict";\n(() => {{\n{own}}})();\n'


def _asset(name: str) -> str:
    return resources.files("abps.study").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
