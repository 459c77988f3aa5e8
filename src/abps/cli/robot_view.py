"""A robot's run in the terminal: what `abps watch` shows to its operator."""

import json
import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from abps.run.operator import EpisodeFacts, RobotFacts, robot_facts

__all__ = ["robot_view", "watch_robot"]

BARS = "▁▂▃▄▅▆▇█"
SHOWN = 60
"""Newest episodes of the line of returns."""
LISTED = 8
"""Newest episodes of the table."""

STATES = {
    "new": ("nothing told yet", "yellow"),
    "asked": ("waits for an episode", "cyan"),
    "told": ("waits for `abps ask`", "cyan"),
    "done": ("done", "green"),
    "failed": ("stopped by an error", "bold red"),
}


def watch_robot(path: Path, every: float, *, once: bool = False, as_json: bool = False) -> None:
    """Show a robot's run: once, or until Ctrl-C, because nobody knows when the next episode comes.

    Raises:
        RunError: there is no such run.
    """
    console = Console()
    if as_json:
        print(json.dumps(robot_facts(path)))
    elif once or not console.is_terminal:
        width = None if console.is_terminal else 160  # In a file there is no width to keep to.
        Console(width=width).print(robot_view(robot_facts(path)))
    else:
        with Live(robot_view(robot_facts(path)), console=console, auto_refresh=False) as live:
            while True:
                live.refresh()
                time.sleep(every)
                live.update(robot_view(robot_facts(path)))


def robot_view(facts: RobotFacts) -> RenderableType:
    """The state, the returns so far, the newest episodes, and what to do next."""
    lines: list[RenderableType] = [_headline(facts), _returns(facts)]
    if facts["episodes"]:
        lines.append(_table(facts["episodes"][-LISTED:]))
    for text in facts["notes"]:
        lines.append(Text(f"note: {text}", style="red"))
    lines.append(Text("What to do next", style="bold"))
    lines += [Text(f"  {sentence}") for sentence in facts["advice"]]
    lines += [Text(f"    {command}", style="cyan") for command in facts["commands"]]
    return Group(*lines)


def _headline(facts: RobotFacts) -> Text:
    words, style = STATES[facts["state"]]
    used = f"{facts['told']} of {facts['budget']} episodes" if facts["budget"] else f"{facts['told']} episodes"
    line = Text.assemble((facts["task"], "bold"), f" · {facts['search']} · {used} · ", (words, style))
    if facts["limits"]:
        line.append("\nlimits: " + ", ".join(f"{name} {_shown(value)}" for name, value in facts["limits"].items()))
    if facts["constraints"]:
        line.append("\nconstraints: " + ", ".join(facts["constraints"]))
    if facts["initial"]:
        line.append(f"\nstarted from {facts['initial']}")
    return line


def _returns(facts: RobotFacts) -> Text:
    best, recent, failures = facts["best"], facts["recent"], len(facts["failures"])
    if recent is None:
        return Text("no return yet", style="dim")
    text = Text(f"returns {spark(facts['episodes'][-SHOWN:])}\n")
    text.append(f"mean of the last 10: {recent:.4g}")
    if best is not None:
        text.append(f" · best: {best['value']:.4g} (episode {best['episode']}, once)")
    text.append(f" · failed: {failures}", style="red" if failures else "")
    if facts["constraints"]:
        text.append(f" · beyond a limit: {facts['violations']}", style="red" if facts["violations"] else "")
    text.append(f" · taken back: {len(facts['discarded'])}")
    return text


def spark(episodes: list[EpisodeFacts]) -> str:
    """Returns as a line of bars, from the smallest to the largest; × where an episode failed."""
    values = [item["value"] for item in episodes if item["value"] is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    step = (high - low) / (len(BARS) - 1)
    return "".join(
        "×" if item["value"] is None else BARS[round((item["value"] - low) / step) if step > 0 else 0]
        for item in episodes
    )


def _table(episodes: list[EpisodeFacts]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold")
    costs = list(dict.fromkeys(name for item in episodes for name in item["costs"]))
    for name in ("episode", "iteration", "role", "return", *costs, "steps", "end"):
        table.add_column(name, justify="left" if name in ("role", "end") else "right", no_wrap=name != "end")
    for item in episodes:
        end = Text(f"failed: {item['failed']}", style="red") if item["failed"] is not None else Text("")
        if item["failed"] is None:
            end = Text("by itself" if item["terminated"] else "full length")
        if item["violated"]:
            end.append(f", beyond the limit: {', '.join(item['violated'])}", style="red")
        value = "–" if item["value"] is None else f"{item['value']:.4g}"
        paid = [_cost(item, name) for name in costs]
        table.add_row(str(item["episode"]), str(item["iteration"]), item["role"], value, *paid, str(item["steps"]), end)
    return table


def _cost(item: EpisodeFacts, name: str) -> Text:
    if name not in item["costs"]:
        return Text("–")
    return Text(f"{item['costs'][name]:.4g}", style="red" if name in item["violated"] else "")


def _shown(value: object) -> str:
    if isinstance(value, list):
        numbers: list[object] = value
        return " ".join(str(item) for item in numbers)
    return str(value)
