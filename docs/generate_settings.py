"""Write docs/settings.md from the code: every part with its settings, and what every search is made of.

python docs/generate_settings.py            # `make docs` does it; a test fails while the page is out of date
"""

import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from abps.cli.helptext import shown_value as shown
from abps.cli.train import DEFAULT_EPISODES
from abps.model.gp import GP
from abps.registry import KINDS, find, kind_of
from abps.run.config import RunConfig
from abps.search.budget import BudgetConfig
from abps.search.registry import PRESETS, SEARCHES, search_config
from abps.settings import Part
from abps.tasks.catalogue import PAPER_TASKS, task_config
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.tasks.limits import Limits

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# Settings

Written by `docs/generate_settings.py` from `src/abps/search/recipes.py` and the settings classes; do not edit.

A search is made of parts. Every part has a kind, and every kind has settings of its own. On the command line:

- `--plan.probes 8` changes a setting (`-` for `_`; commas in lists; `none` where nothing is allowed);
- `--step.cap` and `--step.no-cap` switch a setting on and off;
- `--step walk` takes another kind of part with that kind's defaults, and `--step.length 0.02` then belongs to it;
- `--step my_steps:Momentum` takes a class of your own from the module `my_steps` in the current folder.

`abps train TASK --search NAME --help-all` prints all options of a search with their defaults on a task. A run's
settings are in its `config.yaml`, with the same names.
"""

GROUPS: tuple[tuple[str, type[Any], str], ...] = (
    (
        "When to stop",
        BudgetConfig,
        f"`abps train` and `abps compare` take {DEFAULT_EPISODES} episodes when none are given, so that a first run "
        "ends soon; `abps ask` goes on without end then.",
    ),
    (
        "How a run is carried out",
        RunConfig,
        "Runs on real hardware evaluate nothing (`evaluate_every` 0) and save every stage (`checkpoint_stages` on).",
    ),
    ("The task", TaskConfig, ""),
    ("Limits", Limits, "Options `--limits.…`, or the group `limits` in `robot.yaml` (docs/hardware.md)."),
    ("Real hardware (`robot.yaml` of `abps ask --new`)", HardwareConfig, ""),
)

ITSELF = "the search itself"
ANY_TASK = ""
TASKS = (*PAPER_TASKS, ANY_TASK)


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for title, cls, note in GROUPS:
        lines += [f"## {title}", "", _summary(cls), "", *_table(cls), "", *([wrapped(note), ""] if note else [])]
    lines += _tasks()
    for search in searches():
        for preset in PRESETS:
            lines += _search(search, preset)
    lines += ["## Parts", "", "The defaults here are a kind's own; a search's recipe may change them (above).", ""]
    for family in KINDS:
        for kind in kinds_of(family):
            cls = find(family, kind)
            lines += [f"### {family} `{kind}`", "", _summary(cls), "", *_table(cls), ""]
    lines += ["### group `gp`", "", _summary(GP), "", *_table(GP)]
    return "\n".join(lines) + "\n"


def searches() -> list[str]:
    """The package's own searches, without what somebody registered in this process."""
    return [name for name, entry in SEARCHES.items() if isinstance(entry.recipe, str)]


def kinds_of(family: str) -> list[str]:
    """The package's own kinds of a family."""
    return [kind for kind, place in KINDS[family].items() if isinstance(place, str)]


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All settings of a composition by dotted name; a part stands for its kind."""
    for item in fields(config):
        path, value = f"{prefix}{item.name}", getattr(config, item.name)
        if isinstance(value, Part):
            yield path, kind_of(type(value))
        if is_dataclass(value):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def _summary(cls: type[Any]) -> str:
    """What a class is, without its example."""
    return wrapped((inspect.getdoc(cls) or "").partition("\n\nExample:")[0])


def wrapped(text: str) -> str:
    """Prose in lines of at most 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _table(cls: type[Any]) -> list[str]:
    """The settings of one class."""
    own = fields(cls)
    if not own:
        return ["It has no settings."]
    hints = typing.get_type_hints(cls)
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for item in own:
        meaning = str(item.metadata.get("help", "")).replace("|", r"\|")
        default, hint = item.default, hints[item.name]
        if isinstance(default, Part):
            kinds = ", ".join(f"`{kind}`" for kind in kinds_of(default.family))
            lines.append(f"| `{item.name}` | `{kind_of(type(default))}` | {meaning}: {kinds} |")
        elif is_dataclass(default):
            lines.append(f"| `{item.name}.…` | | {meaning}: the group `{item.name}` below |")
        else:
            choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
            ending = f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else ""
            lines.append(f"| `{item.name}` | {_default(default)} | {meaning}{ending} |")
    return lines


def _default(value: Any) -> str:
    if value is dataclasses.MISSING or value in ("", ()):
        return ""
    return f"`{shown(value)}`"


def _tasks() -> list[str]:
    lines = [
        "## The paper's tasks",
        "",
        "| task | environment | γ | reward scale | episodes in the paper |",
        "|---|---|---|---|---|",
    ]
    for name, row in PAPER_TASKS.items():
        task = task_config(name)
        scale = shown(task.reward_scale)
        lines.append(f"| `{name}` | {task.id} | {shown(task.gamma)} | {scale} | {row.episodes} |")
    return [*lines, ""]


def _search(search: str, preset: str) -> list[str]:
    """What a search is made of: its parts on a task that abps does not know, and what depends on the task."""
    config = search_config(search, ANY_TASK, preset)
    lines = [
        f"## Search `{search}`, preset `{preset}`",
        "",
        f"{SEARCHES[search].summary[0].upper()}{SEARCHES[search].summary[1:]}.",
        "",
        "| part | kind | values that differ from the kind's own |",
        "|---|---|---|",
    ]
    for path, part in _parts(config):
        kind = f"`{kind_of(type(part))}`" if isinstance(part, Part) else ""
        lines.append(f"| {f'`{path}`' if path else ITSELF} | {kind} | {_differences(part)} |")
    varying = _varying(search, preset)
    if varying:
        names = [f"`{task}`" if task else "other tasks" for task in TASKS]
        lines += ["", f"| depends on the task | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        lines += [f"| `{name}` | {' | '.join(shown(value) for value in values)} |" for name, values in varying.items()]
    return [*lines, ""]


def _parts(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """A search and all its parts and groups, by dotted name."""
    yield path, config
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from _parts(value, f"{path}.{item.name}".lstrip("."))


def _differences(part: Any) -> str:
    """The plain settings of a part that its recipe gave another value than the class does."""
    changed = [
        f"`{item.name}` {shown(getattr(part, item.name))}"
        for item in fields(part)
        if not is_dataclass(getattr(part, item.name)) and getattr(part, item.name) != item.default
    ]
    return ", ".join(changed)


def _varying(search: str, preset: str) -> dict[str, list[Any]]:
    """The settings that are not the same on all tasks that have them, with their values in the order of `TASKS`."""
    found = [dict(leaves(search_config(search, task, preset))) for task in TASKS]
    rows: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for values in found for name in values):
        present = [values[name] for values in found if name in values]
        if any(value != present[0] for value in present):
            rows[name] = [values.get(name, "") for values in found]
    return rows


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
