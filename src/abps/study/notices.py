"""What a reader must know before believing a comparison: failed runs, mixed versions, too few seeds, damaged files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from abps.study.groups import Group
from abps.study.records import Run
from abps.study.robot import is_robot
from abps.words import count, first_line, listing, number

__all__ = ["Notice", "warnings"]

FEW_SEEDS, ENOUGH_SEEDS = 3, 5
LISTED = 5
"""Combinations that a warning names one by one."""


@dataclass(frozen=True)
class Notice:
    """Something a reader must know before believing the numbers."""

    level: str
    """"error", "warning" or "note"."""
    text: str


def warnings(runs: Sequence[Run], groups: Sequence[Group], *, under_way: bool = False) -> list[Notice]:
    """What a reader must know before believing the numbers, most serious first.

    Args:
        runs: all runs.
        groups: the same, in groups.
        under_way: the runs are being watched: that some are not finished, or few, is no news.
    """
    found: list[Notice] = []
    failed = [run for run in runs if run.status == "failed"]
    if failed:
        found.append(Notice("error", f"{count(len(failed), 'run')} failed: {_names(failed)}"))
    unfinished = [run for run in runs if run.status == "unfinished" and not is_robot(run)]  # Robots take their time.
    if unfinished and not under_way:
        found.append(Notice("warning", f"{count(len(unfinished), 'run')} not finished: {_names(unfinished)}"))
    found += _mixed(runs, "mujoco", "error", "the physics differ between MuJoCo versions, returns are not comparable")
    found += _mixed(runs, "gymnasium", "warning", "tasks may differ between Gymnasium versions")
    found += _mixed(runs, "abps", "warning", "runs were made by different versions of abps")
    found += _mixed(runs, "commit", "note", "runs were made by different commits")
    found += _imported(runs)
    found += [] if under_way or len(runs) == 1 else _seed_warnings(groups)  # One run is shown without statistics.
    found += [w for group in groups for w in _duplicate_warnings(group)]
    broken = [run for run in runs if run.failed_episodes]
    if broken:
        total = sum(run.failed_episodes for run in broken)
        where = listing([f"{run.name} ({number(run.failed_episodes)})" for run in broken])
        found.append(Notice("note", f"{count(total, 'episode')} failed and gave no return, in {where}"))
    found += [Notice("warning", f"{run.name}: {note}") for run in runs for note in run.notes]
    return sorted(found, key=lambda notice: ("error", "warning", "note").index(notice.level))


def _imported(runs: Sequence[Run]) -> list[Notice]:
    imported = [run for run in runs if run.imported]
    if not imported:
        return []
    named = listing(list(dict.fromkeys(f"{run.search} on {run.task}" for run in imported)))
    text = f"{count(len(imported), 'run')} imported and taken as the file says: {named}"
    unknown = sum("mujoco" not in run.versions for run in imported)
    return [Notice("note", text + (f"; the version of MuJoCo is not known for {unknown}" if unknown else ""))]


def _mixed(runs: Sequence[Run], key: str, level: str, meaning: str) -> list[Notice]:
    counts = Counter(str(run.versions[key]) for run in runs if run.versions.get(key) is not None)
    if len(counts) < 2:
        return []
    listed = ", ".join(f"{version} ({count(number, 'run')})" for version, number in sorted(counts.items()))
    return [Notice(level, f"mixed {key} versions: {listed}; {meaning}")]


def _seed_warnings(groups: Sequence[Group]) -> list[Notice]:
    few = [group for group in groups if len(group.runs) < FEW_SEEDS]
    some = [group for group in groups if FEW_SEEDS <= len(group.runs) < ENOUGH_SEEDS]
    found = []
    for level, members, least, meaning in (
        ("warning", few, FEW_SEEDS, "the intervals mean nothing"),
        ("note", some, ENOUGH_SEEDS, "bootstrap intervals are too narrow; the paper uses 5"),
    ):
        if members:
            listed = listing([f"{group.label} on {group.task} ({len(group.runs)})" for group in members])
            if len(members) == len(groups) > LISTED:
                listed = f"all {len(groups)} combinations of task and search"
            found.append(Notice(level, f"fewer than {least} seeds: {listed}; {meaning}"))
    return found


def _duplicate_warnings(group: Group) -> list[Notice]:
    counts = Counter(run.seed for run in (*group.runs, *group.left_out))
    twice = [str(seed) for seed, number in counts.items() if number > 1]
    if not twice:
        return []
    seeds = f"seed {twice[0]} was" if len(twice) == 1 else f"seeds {listing(twice)} were"
    text = f"{group.label} on {group.task}: {seeds} given more than once; only the longest run of a seed counts"
    return [Notice("warning", text)]


def _names(runs: Sequence[Run]) -> str:
    return listing([run.name + (f" ({first_line(run.reason, 160)})" if run.reason else "") for run in runs])
