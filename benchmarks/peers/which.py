"""Which search suits what: the tables of docs/guides/which_search.md and the rule of `--search auto`, from results.

    python benchmarks/peers/which.py run --write      # every run that is missing, then the tables and the rule anew
    python benchmarks/peers/which.py table --write    # the page's tables anew, between their markers
    python benchmarks/peers/which.py rule --write     # RULE in src/abps/search/auto.py anew, and the page's lines on it
    python benchmarks/peers/which.py                  # print both, write nothing
    python benchmarks/peers/which.py forget --searches abs      # drop a search's rows, so that `run` makes them anew

`run` takes one task and seed after another, in this process's one thread, and appends a row after each: stopped at any
time, the same command goes on. `--searches` makes only those; `--dry-run` says what is missing.

Results are the rows that `benchmarks/learning/own_tasks.py run` appended to `benchmarks/peers/own_tasks.jsonl` and
`benchmarks/learning/own_tasks.jsonl`. Of several rows with the same search, task, seed and last mark the newest counts:
the later line of a file, and the second file before the first. `cma` there is CMA-ES on the policy of ABS; the search
as it is, which the tables are about, is `cma-nobias`.

A search's *share* at a task and mark is (median − untrained) / (best median − untrained), between 0 and 1: how much of
the best search's improvement it has. Where no search is above the untrained policy there is no share.
"""

import argparse
import itertools
import json
import math
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FILES = (HERE / "own_tasks.jsonl", ROOT / "benchmarks" / "learning" / "own_tasks.jsonl")
PAGE = ROOT / "docs" / "guides" / "which_search.md"
RULE_FILE = ROOT / "src" / "abps" / "search" / "auto.py"

WEIGHTS = {
    "cart": 2, "pump": 3, "cartpole": 4, "pendulum": 4, "doublependulum": 9, "quadrotor": 12, "arm": 16, "swimmer": 16,
    "reacher": 20, "rooms": 32, "hopper": 33, "chain": 36, "cheetah": 102, "walker": 102, "pusher": 161,
    "longchain": 200, "ant": 216,
}  # fmt: skip
"""Observations × actions of every task of benchmarks/learning/tasks.py."""
MUJOCO = ("pendulum", "swimmer", "hopper", "walker", "cheetah", "ant")
OWN = tuple(task for task in WEIGHTS if task not in MUJOCO or task == "pendulum")
SEARCHES = ("abs", "klbo", "turbo", "crbo", "rducb", "snes", "cma", "pso", "es", "mpd", "gibo", "ars")
UNTRAINED = "untrained"
EVERY = (*SEARCHES, UNTRAINED)
SEEDS = 5
"""A median counts when it is over so many seeds."""
FIRST_SEED = 300
"""No setting was chosen on seeds from here on."""
COMMANDS = ("run", "forget", "table", "rule")
BENCH = ROOT / "benchmarks" / "learning" / "own_tasks.py"

SIZES = (8, 40, math.inf)
"""Groups of tasks: up to so many weights."""
BANDS = ((30, 40), (60, 80), (100, 170), (300, math.inf))
"""Marks, and up to how many episodes a budget is judged by them: about half-way, as factors go, to the next."""
EXTRAS = ("cma",)
"""Searches that not every installation has: the rule does not choose them."""
DEFAULT = "abs"
MARGIN = 0.1
"""The rule leaves the default search only for one that is ahead by so much: means of so few medians of five seeds have
a noise of about ±0.07 (benchmarks/learning/own_tasks.md)."""
FEWEST = 3
"""Tasks that a line of the rule must come from."""


Key = tuple[str, str, int, int]
"""Search, task, seed and last mark."""


class Job(NamedTuple):
    """A run that the tables need, in the words of `own_tasks.py`."""

    search: str
    task: str
    marks: str
    seed: int

    @property
    def all_marks(self) -> list[int]:
        """Episodes after which the current policy is judged."""
        return [int(word) for word in self.marks.split(",")]

    def carry_out(self) -> None:
        """In a process of its own."""
        words = {"--results": FILES[self.search == DEFAULT], "--searches": self.search, "--tasks": self.task}
        words |= {"--marks": self.marks, "--seeds": self.seed}
        options = [str(word) for pair in words.items() for word in pair]
        subprocess.run([sys.executable, str(BENCH), "run", *options], check=True)


class Cell(NamedTuple):
    """Returns of a search at a task and mark, over seeds."""

    median: float
    lowest: float
    highest: float
    seeds: int


class Line(NamedTuple):
    """A row of the rule."""

    weights: float
    episodes: float
    search: str
    share: float
    rival: str
    """The best of the others."""
    rival_share: float
    tasks: int


Cells = dict[tuple[str, str, int], Cell]
"""By search, task and mark."""


def key_of(row: dict[str, Any]) -> Key:
    """What makes a row take the place of another."""
    return row["search"], row["task"], row["seed"], max(map(int, row["returns"]))


def read_rows(files: Iterable[Path] = FILES) -> list[dict[str, Any]]:
    """One row per search, task, seed and last mark: the newest."""
    newest: dict[Key, dict[str, Any]] = {}
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            key = key_of(row)
            newest.pop(key, None)
            newest[key] = row  # At the end: later ones are newer.
    return list(newest.values())


def jobs(searches: Iterable[str]) -> list[Job]:
    """Everything that the tables need of the searches, `untrained` among them."""
    found: list[Job] = []
    for tasks, marks in ((OWN, "30,60,100"), (MUJOCO, "100,300")):
        for search in searches:
            name = "cma-nobias" if search == "cma" else search
            places = set(tasks) - set(OWN) if search == UNTRAINED and tasks == MUJOCO else set(tasks)  # Once is enough.
            numbers = range(FIRST_SEED, FIRST_SEED + SEEDS)
            found += [Job(name, task, marks, seed) for task in tasks if task in places for seed in numbers]
    return found


def missing_jobs(searches: Iterable[str], rows: Iterable[dict[str, Any]]) -> list[Job]:
    """What is not run yet: a search's task is done with all marks on any `SEEDS` seeds from `FIRST_SEED` on."""
    done: dict[tuple[str, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        if row["seed"] >= FIRST_SEED:
            done[row["search"], row["task"]][row["seed"]] |= set(map(int, row["returns"]))
    missing: list[Job] = []
    for (search, task), found in itertools.groupby(jobs(searches), key=lambda job: (job.search, job.task)):
        wanted = list(found)
        have = {seed for seed, marks in done[search, task].items() if marks >= set(wanted[0].all_marks)}
        missing += [job for job in wanted if job.seed not in have][: max(SEEDS - len(have), 0)]
    return missing


def run_missing(searches: Iterable[str], *, dry_run: bool) -> None:
    """Carry out what is missing, or only say what that is."""
    missing = missing_jobs(searches, read_rows(FILES))
    print(f"{len(missing)} runs are missing", flush=True)
    for job in missing:
        if dry_run:
            print(job.search, job.task, job.seed, f"at {job.marks} episodes")
        else:
            job.carry_out()


def forget(searches: Iterable[str]) -> None:
    """Drop the rows that the tables are made of; other searches, and seeds that settings were chosen on, stay."""
    dropped = {(job.search, job.task) for job in jobs(searches)}
    for file in FILES:
        lines = file.read_text().splitlines(keepends=True)
        rows = [json.loads(line) for line in lines]
        gone = [(row["search"], row["task"]) in dropped and row["seed"] >= FIRST_SEED for row in rows]
        kept = [line for line, dropped_too in zip(lines, gone, strict=True) if not dropped_too]
        file.write_text("".join(kept))
        print(f"{len(lines) - len(kept)} rows less in {file}")


def make_cells(rows: Iterable[dict[str, Any]]) -> Cells:
    """Medians and ranges over seeds. A seed that was run to several last marks counts once, by its newest row."""
    returns: dict[tuple[str, str, int], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row["search"] == "cma":
            continue
        for mark, (total, _) in row["returns"].items():
            returns[row["search"].partition("-")[0], row["task"], int(mark)][row["seed"]] = total
    return {
        key: Cell(float(np.median(values)), min(values), max(values), len(values))
        for key, values in ((key, list(seeds.values())) for key, seeds in returns.items())
    }


def untrained(cells: Cells, task: str) -> float | None:
    """The return of the policy that searches start from; the mark does not matter."""
    found = [cell.median for (search, name, _), cell in cells.items() if search == UNTRAINED and name == task]
    return found[0] if found else None


def shares_of(cells: Cells, task: str, mark: int) -> dict[str, float]:
    """The share of every search that was measured there with all seeds; empty where nothing was learned."""
    start = untrained(cells, task)
    medians = {
        search: cells[search, task, mark].median
        for search in SEARCHES
        if (search, task, mark) in cells and cells[search, task, mark].seeds >= SEEDS
    }
    if start is None or not medians or max(medians.values()) <= start:
        return {}
    best = max(medians.values())
    return {search: min(max((value - start) / (best - start), 0.0), 1.0) for search, value in medians.items()}


def tasks_of(size: float) -> list[str]:
    """The tasks of a group."""
    below = max((other for other in SIZES if other < size), default=0)
    return [task for task, weights in WEIGHTS.items() if below < weights <= size]


def mean_shares(cells: Cells, tasks: Iterable[str], mark: int) -> tuple[dict[str, float], int]:
    """The mean share of every search over the tasks where all of them were measured; and how many those are."""
    found = [shares for task in tasks if len(shares := shares_of(cells, task, mark)) == len(SEARCHES)]
    means = {search: float(np.mean([shares[search] for shares in found])) for search in SEARCHES if found}
    return means, len(found)


def choose(shares: dict[str, float]) -> str:
    """The best search of a group, or the default one where it is not clearly behind."""
    allowed = {search: share for search, share in shares.items() if search not in EXTRAS}
    best = max(allowed, key=lambda search: allowed[search])
    return DEFAULT if allowed.get(DEFAULT, 0.0) >= allowed[best] - MARGIN else best


def derive(cells: Cells, without: str = "") -> list[Line]:
    """The rule: for every group of tasks and every mark the search with the largest mean share.

    A group with fewer than three tasks at a mark takes what tasks of all sizes say there; if those are too few as well,
    what it took at the mark before.
    """
    lines: list[Line] = []
    for size in SIZES:
        for mark, episodes in BANDS:
            shares, count = mean_shares(cells, [task for task in tasks_of(size) if task != without], mark)
            if count < FEWEST:
                shares, count = mean_shares(cells, [task for task in WEIGHTS if task != without], mark)
            if count >= FEWEST:
                lines.append(_line(size, episodes, shares, count))
            elif lines and lines[-1].weights == size:
                lines[-1] = lines[-1]._replace(episodes=episodes)
            else:
                lines.append(Line(size, episodes, DEFAULT, 0.0, DEFAULT, 0.0, 0))
    return lines


def _line(size: float, episodes: float, shares: dict[str, float], count: int) -> Line:
    search = choose(shares)
    rival = max((name for name in shares if name != search), key=lambda name: shares[name])
    return Line(size, episodes, search, round(shares[search], 2), rival, round(shares[rival], 2), count)


def search_by(rule: Iterable[Line], weights: int, episodes: float) -> str:
    """What a rule chooses."""
    return next(line.search for line in rule if weights <= line.weights and episodes <= line.episodes)


def rule_source(rule: Iterable[Line]) -> str:
    """The rule as Python."""

    def number(value: float) -> str:
        return "math.inf" if value == math.inf else f"{value:g}"

    rows = (
        f'    Row({number(line.weights)}, {number(line.episodes)}, "{line.search}", {line.share}, '
        f'"{line.rival}", {line.rival_share}, {line.tasks}),'
        for line in rule
    )
    return "RULE: tuple[Row, ...] = (\n" + "\n".join(rows) + "\n)\n"


# ---- the page ----------------------------------------


def shown(value: float) -> str:
    """Three digits or so, with a true minus sign."""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"
    return text.replace("-", "−").replace("−0.0", "0").replace("e+0", "e")


def mark_table(cells: Cells, tasks: Iterable[str], mark: int) -> list[str]:
    """A row per task, a column per search: medians, the best in bold; fewer seeds than five stand in brackets."""
    names = [search for search in SEARCHES if any((search, task, mark) in cells for task in tasks)]
    lines = ["| task (weights) | untrained | " + " | ".join(f"`{name}`" for name in names) + " |"]
    lines += ["|---|---:|" + "---:|" * len(names)]
    for task in tasks:
        found = {name: cells[name, task, mark] for name in names if (name, task, mark) in cells}
        if not found:
            continue
        best = max((shown_value(cell) for cell in found.values() if cell.seeds >= SEEDS), default=math.inf)
        start = untrained(cells, task)
        row = [f"{task} ({WEIGHTS[task]})", "–" if start is None else shown(start)]
        for name in names:
            cell = found.get(name)
            text = "–" if cell is None else shown(cell.median)
            if cell is not None and cell.seeds >= SEEDS and shown_value(cell) == best:
                text = f"**{text}**"
            row.append(text if cell is None or cell.seeds >= SEEDS else f"{text} ({cell.seeds})")
        lines.append("| " + " | ".join(row) + " |")
    return lines


def shown_value(cell: Cell) -> float:
    """A median as far as it is printed, so that equal numbers are equally bold."""
    return float(shown(cell.median).replace("−", "-"))


def share_table(cells: Cells) -> list[str]:
    """Mean shares, a row per group of tasks and mark."""
    lines = ["| weights | episodes | tasks | " + " | ".join(f"`{name}`" for name in SEARCHES) + " |"]
    lines += ["|---|---:|---:|" + "---:|" * len(SEARCHES)]
    for size in SIZES:
        for mark, _ in BANDS:
            shares, count = mean_shares(cells, tasks_of(size), mark)
            if not shares:
                continue
            best = max(round(value, 2) for value in shares.values())
            row = [
                "–"
                if name not in shares
                else f"**{shares[name]:.2f}**"
                if round(shares[name], 2) == best
                else f"{shares[name]:.2f}"
                for name in SEARCHES
            ]
            below = max((other for other in SIZES if other < size), default=1)
            span = f"more than {below:g}" if size == math.inf else f"up to {size:g}"
            lines.append(f"| {span} | {mark} | {count} | " + " | ".join(row) + " |")
    return lines


def not_run(cells: Cells) -> list[str]:
    """What the tables would hold and do not, as a paragraph."""
    wanted = [(task, mark) for task in OWN for mark in (30, 60, 100)]
    wanted += [(task, mark) for task in MUJOCO for mark in (100, 300) if (task, mark) not in wanted]
    missing: dict[str, list[str]] = defaultdict(list)
    for task, mark in wanted:
        seeds = {search: cells[search, task, mark].seeds if (search, task, mark) in cells else 0 for search in SEARCHES}
        lacking = {search: have for search, have in seeds.items() if have < SEEDS}
        names = [f"`{search}`" + (f" ({have} of {SEEDS} seeds)" if have else "") for search, have in lacking.items()]
        if names:
            missing[", ".join(names)].append(f"{task} at {mark}")
    text = "; ".join(f"{names} on {', '.join(places)}" for names, places in missing.items())
    return textwrap.wrap(f"Not run: {text or 'nothing'}.", 118)


def tables(cells: Cells) -> str:
    """Everything that stands between the page's first markers."""
    parts: list[str] = [*not_run(cells), ""]
    parts += ["### Mean share of the best search's improvement", "", *share_table(cells), ""]
    for mark in (30, 60, 100):
        parts += [f"### Own tasks, {mark} episodes", "", *mark_table(cells, OWN, mark), ""]
    for mark in (100, 300):
        parts += [f"### MuJoCo's locomotion, {mark} episodes", "", *mark_table(cells, MUJOCO, mark), ""]
    return "\n".join(parts)


def losses(cells: Cells, *, left_out: bool) -> list[tuple[str, int, str, float]]:
    """Task, mark, choice and its share, for all that was measured; by a rule that never saw the task, if left out."""
    whole, found = derive(cells), []
    for task in WEIGHTS:
        rule = derive(cells, without=task) if left_out else whole
        for mark, _ in BANDS:
            shares = shares_of(cells, task, mark)
            search = search_by(rule, WEIGHTS[task], mark)
            if search in shares:
                found.append((task, mark, search, shares[search]))
    return found


def rule_lines(cells: Cells) -> str:
    """The rule as a table, and how far it is behind the best search."""
    lines = ["| weights | episodes | search | its mean share | best other | tasks |", "|---|---|---|---:|---|---:|"]
    for line in derive(cells):
        weights = "any" if line.weights == math.inf else f"up to {line.weights:g}"
        episodes = "any" if line.episodes == math.inf else f"up to {line.episodes:g}"
        rival = f"`{line.rival}` {line.rival_share:.2f}"
        lines.append(f"| {weights} | {episodes} | `{line.search}` | {line.share:.2f} | {rival} | {line.tasks} |")
    lines.append("")
    for left_out, words in ((False, "on the tasks it comes from"), (True, "on tasks left out when it was derived")):
        found = losses(cells, left_out=left_out)
        alone = [shares_of(cells, task, mark).get(DEFAULT) for task, mark, _, _ in found]
        fair = [value for value in alone if value is not None]
        worst = min(found, key=lambda row: row[3])
        lines.append(
            f"- Mean share of the rule {words}: {np.mean([row[3] for row in found]):.2f} over {len(found)} tasks and "
            f"marks\n  (`{DEFAULT}` alone: {np.mean(fair):.2f}); lowest {worst[3]:.2f} ({worst[0]}, {worst[1]} "
            f"episodes, `{worst[2]}`)."
        )
    return "\n".join(lines) + "\n"


def replaced(text: str, name: str, new: str, comment: tuple[str, str]) -> str:
    """The text with what stands between two markers changed."""
    begin, end = (f"{comment[0]} {name} {word}{comment[1]}" for word in ("begins", "ends"))
    pattern = re.compile(rf"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"there are no markers {begin!r} and {end!r}")
    return pattern.sub(lambda match: match[1] + new + match[2], text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=COMMANDS, help="none: table and rule")
    parser.add_argument("--write", action="store_true", help="into the page and the code, instead of printing it")
    parser.add_argument("--searches", default=",".join(EVERY), help="of `run` (default: all) and `forget`")
    parser.add_argument("--dry-run", action="store_true", help="of `run`: say what is missing")
    arguments = parser.parse_args()
    searches = arguments.searches.split(",")
    if unknown := set(searches) - set(EVERY):
        parser.error(f"unknown searches: {', '.join(sorted(unknown))}; known: {', '.join(EVERY)}")
    if arguments.command == "forget":
        forget(searches)
        return
    if arguments.command == "run":
        run_missing(searches, dry_run=arguments.dry_run)
    if arguments.command != "run" or (arguments.write and not arguments.dry_run):
        tell(arguments.command, write=arguments.write)


def tell(command: str | None, *, write: bool) -> None:
    """Print the tables and the rule, or write them where they belong."""
    cells, markdown = make_cells(read_rows()), ("<!--", " -->")
    if command != "rule":
        if write:
            PAGE.write_text(replaced(PAGE.read_text(), "which.py table", tables(cells), markdown))
        else:
            print(tables(cells))
    if command != "table":
        if write:
            PAGE.write_text(replaced(PAGE.read_text(), "which.py rule", rule_lines(cells), markdown))
            RULE_FILE.write_text(replaced(RULE_FILE.read_text(), "which.py", rule_source(derive(cells)), ("#", "")))
        else:
            print(rule_lines(cells))
            print(rule_source(derive(cells)))


if __name__ == "__main__":
    main()
