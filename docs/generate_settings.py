"""Write docs/settings.md from the code: every setting, its type, its default and its meaning.

python docs/generate_settings.py            # `make docs` does it; a test fails while the page is out of date
"""

import dataclasses
import typing
from pathlib import Path
from typing import Any

from abps import config as settings
from abps.presets import PAPER_TASKS, PRESETS, search_config, task_config
from abps.search.registry import SEARCHES

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# Settings

Written by `docs/generate_settings.py` from `src/abps/config.py` and `src/abps/presets.py`; do not edit.

Every setting is an option of `abps train`: `--name`, or `--group.name` inside a group, with `-` for `_`; `--flag` and `--no-flag` for
booleans; `none` where nothing is allowed; commas in lists. `abps train TASK --search NAME --help` prints those of one search with the
defaults of the task's preset. A run's resolved settings are in its `config.yaml`.
"""

SECTIONS: tuple[tuple[str, type[Any]], ...] = (
    ("When to stop", settings.BudgetConfig),
    ("The task", settings.TaskConfig),
    ("The run", settings.RunConfig),
    *((f"Search `{name}`", entry.config) for name, entry in SEARCHES.items()),
    ("Group `gp`", settings.GpConfig),
    ("Group `acquisition`", settings.AcquisitionConfig),
    ("Group `critics`", settings.CriticsConfig),
    ("Real hardware (`abps ask`, `abps tell`)", settings.HardwareConfig),
)


def page() -> str:
    """Return the whole page."""
    parts = [HEAD, *(_section(title, cls) for title, cls in SECTIONS), _presets()]
    return "\n".join(parts)


def _section(title: str, cls: type[Any]) -> str:
    hints = typing.get_type_hints(cls)
    lines = [f"## {title}", "", (cls.__doc__ or "").strip(), "", "| setting | default | meaning |", "|---|---|---|"]
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            lines.append(f"| `{field.name}.…` | | the group `{field.name}` below |")
            continue
        choices = field.metadata.get("choices") or ()
        meaning = field.metadata["help"] + (f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else "")
        lines.append(f"| `{field.name}` | {_shown(field.default)} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join([*lines, ""])


def _shown(value: Any) -> str:
    if value == "" or value == ():
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"{item:g}" for item in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return f"`{str(value).lower() if not isinstance(value, str) else value}`"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _presets() -> str:
    """What the paper's tasks change, as one table of local searches and one of ARS."""
    lines = [
        "## The paper's tasks",
        "",
        "ABS's settings under the preset `cpu`; MPD, GIBO and the preset `paper` have the paper's N_c, N_acq and ℓ (docs/deviations.md 32). Other tasks get those of Hopper, "
        "which nobody has tuned for them.",
        "",
        "| task | environment | γ | reward scale | normaliser | N_c | N_acq | N_max | δ of ABS | ℓ | design std | episodes in the paper |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in PAPER_TASKS.items():
        task, search = task_config(name), search_config("abs", name)
        cells = [
            f"`{name}`",
            task.id,
            f"{task.gamma:g}",
            f"{task.reward_scale:g}",
            "yes" if task.normalise else "no",
            *(str(number) for number in (search.centre_episodes, search.probes, search.window)),
            f"{search.step:g}",
            f"{search.gp.lengthscale_low:g} to {search.gp.lengthscale_high:g}",
            f"{search.design_std:g}",
            str(row.episodes),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "ARS: `cpu` is the original algorithm, `paper` the variant that the ABS paper compares with.",
        "",
        "| task | preset | α | ν | N | b | survival shift | policy | returns |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in PAPER_TASKS:
        for preset in PRESETS:
            task, ars = task_config(name, "ars", preset), search_config("ars", name, preset)
            numbers = (ars.step, ars.noise, ars.directions, ars.top, task.reward_shift)
            kind = "discounted" if ars.discounted else "undiscounted"
            lines.append(
                f"| `{name}` | `{preset}` | " + " | ".join(f"{x:g}" for x in numbers) + f" | {task.policy} | {kind} |"
            )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
