"""What the operator of a robot wants to know: where a run stands, what came of every episode, and what to do next.

`robot_facts` reads a run's files and nothing else: it takes no lock, changes nothing, computes nothing of the search,
and answers whatever state the files are in. `abps watch`, the report and the live page show what it returns.
"""

import contextlib
from pathlib import Path
from typing import Any, TypedDict

from abps.errors import AbpsError, RunError
from abps.npz import read_npz
from abps.run.directory import MAX_CONFIG_BYTES, no_run, parse_yaml
from abps.run.files import parse_checked_json, read_bounded

__all__ = ["MOVING", "EpisodeFacts", "NextQuery", "RobotFacts", "is_robot", "robot_facts"]

MAX_JOURNAL_BYTES = 2**28
MAX_POLICY_NUMBERS = 10_000_000
RECENT = 10
"""Episodes whose mean return is shown as the present one."""
MANY_FAILURES = 3
"""Failures in a row, or among the last ten, that are worth a sentence."""
MORE = 20
MOVING = ("path", "scout")
"""Roles of episodes along a path, whose return is of no single policy."""


class EpisodeFacts(TypedDict):
    """One told episode."""

    episode: int
    role: str
    iteration: int
    value: float | None
    """Undiscounted return; None: it failed."""
    steps: int
    terminated: bool
    failed: str | None
    """Why it failed."""
    costs: dict[str, float]
    """Its cost of every constraint by name; empty: it failed, or the task has no constraints."""
    violated: list[str]
    """Names of the constraints whose limit it broke."""


class NextQuery(TypedDict):
    """The policy that was asked for and not told yet."""

    episode: int
    policy_id: str
    role: str
    iteration: int
    left: int
    """Episodes of this policy that are still wanted."""
    file: str


class RobotFacts(TypedDict):
    """Everything at a glance; plain values, ready for JSON."""

    path: str
    task: str
    search: str
    state: str
    """"new", "asked" (an episode is to be run and told), "told" (ask for the next), "done" or "failed"."""
    reason: str
    """What DONE or FAILED says."""
    told: int
    budget: int
    """Episodes that the run will use in all; 0: no limit."""
    episodes: list[EpisodeFacts]
    failures: list[EpisodeFacts]
    discarded: list[int]
    """Numbers of the episodes that were taken back, one entry each time."""
    best: EpisodeFacts | None
    """The episode with the highest return of a policy at rest that broke no constraint."""
    recent: float | None
    """Mean return of the last ten episodes that worked."""
    iterations: int
    next: NextQuery | None
    limits: dict[str, Any]
    """Those that are set."""
    constraints: list[str]
    violations: int
    """Episodes that broke a constraint; failed ones are not among them."""
    initial: str
    """What the run started from; "": the start of its class of policies."""
    policies: dict[str, str]
    """Files of the best and the current policy, as far as they are written."""
    advice: list[str]
    """What to do next, in sentences, the most urgent first."""
    commands: list[str]
    """The same as commands to type."""
    notes: list[str]
    """What could not be read."""


def is_robot(path: Path) -> bool:
    """Whether a directory holds a run on real hardware."""
    return "hardware" in _config(path, [])


def robot_facts(path: Path) -> RobotFacts:
    """Look at a run on real hardware.

    Raises:
        RunError: there is no such run.
    """
    if not (path / "config.yaml").exists():
        raise no_run(path)
    notes: list[str] = []
    config, episodes = _config(path, notes), _episodes(path, notes)
    worked = [item for item in episodes if item["value"] is not None]
    values = [item["value"] or 0.0 for item in worked]
    following = _next_query(path, len(episodes))
    state, reason = _state(path, len(episodes), following)
    facts: RobotFacts = {
        "path": str(path),
        "task": _text(config, "task", "name"),
        "search": _text(config, "search", "name"),
        "state": state,
        "reason": reason,
        "told": len(episodes),
        "budget": _whole(_group(config, "budget").get("episodes")),
        "episodes": episodes,
        "failures": [item for item in episodes if item["failed"] is not None],
        "discarded": _discarded(path),
        "best": max(filter(_may_be_best, worked), key=lambda e: e["value"] or 0.0, default=None),
        "recent": sum(values[-RECENT:]) / len(values[-RECENT:]) if values else None,
        "iterations": max((item["iteration"] for item in episodes), default=0),
        "next": following,
        "limits": {k: v for k, v in _group(_group(config, "task"), "limits").items() if v not in (None, [], "action")},
        "constraints": _texts(_group(config, "task").get("constraint")),
        "violations": sum(bool(item["violated"]) for item in episodes),
        "initial": str(config.get("initial", "")),
        "policies": {
            name: str(path / "policy" / f"{name}.npz")
            for name in ("best", "current")
            if (path / "policy" / f"{name}.npz").is_file()
        },
        "advice": [],
        "commands": [],
        "notes": notes,
    }
    _advise(facts)
    return facts


# ---- what to do next -------------------------------------------------------------------------------------------------


def _advise(facts: RobotFacts) -> None:
    """Fill in advice and commands."""
    advice, run, following = facts["advice"], facts["path"], facts["next"]
    _advise_on_failures(facts)
    if facts["state"] == "failed":
        advice.append(f"The last session stopped: {facts['reason']}. Ask again once the cause is mended.")
        facts["commands"] = [f"abps ask {run}"]
    elif facts["state"] == "done":
        advice.append(
            f"The run is done ({facts['reason']}). Run the current policy a few times to see how reliable it is, then "
            "export it, or go on with more episodes."
        )
        facts["commands"] = [
            f"abps export {run} --which current --format c",
            f"abps ask {run} --episodes {facts['told'] + MORE}",
            f"abps report {run}",
        ]
    elif following is not None:
        advice.append(
            f"Run one episode of {following['file']} ({following['role']}, policy {following['policy_id']}) and tell "
            "what happened. If it could not be run to its end because of the policy, say why."
        )
        facts["commands"] = [f"abps tell {run} --trajectory FILE", f'abps tell {run} --failed "REASON"']
    else:
        advice.append("Ask for the next policy." if facts["told"] else "Ask for the first policy.")
        facts["commands"] = [f"abps ask {run}"]


def _advise_on_failures(facts: RobotFacts) -> None:
    newest = facts["episodes"][-RECENT:]
    failed = [item for item in newest if item["failed"] is not None]
    row = 0
    while row < len(newest) and newest[-1 - row]["failed"] is not None:
        row += 1
    if row >= MANY_FAILURES:
        facts["advice"].append(
            f"The last {row} episodes failed (newest: {newest[-1]['failed']}). Check the robot before the next one; an "
            f"episode that failed for a reason of its own is taken back by `abps tell {facts['path']} --discard`."
        )
    elif len(failed) >= MANY_FAILURES:
        facts["advice"].append(
            f"{len(failed)} of the last {len(newest)} episodes failed. A new run with a smaller limits.action_change, "
            f"started from this one (--initial {facts['path']}), takes smaller steps."
        )


# ---- reading ---------------------------------------------------------------------------------------------------------


def _config(path: Path, notes: list[str]) -> dict[str, Any]:
    try:
        document = parse_yaml(read_bounded(path / "config.yaml", MAX_CONFIG_BYTES))
    except AbpsError as error:
        notes.append(str(error))
        return {}
    return document if isinstance(document, dict) else {}


def _episodes(path: Path, notes: list[str]) -> list[EpisodeFacts]:
    """The journal's lines, up to one that is not whole."""
    if not (path / "journal.jsonl").exists():
        return []
    try:
        lines = read_bounded(path / "journal.jsonl", MAX_JOURNAL_BYTES).splitlines(keepends=True)
    except RunError as error:
        notes.append(str(error))
        return []
    episodes: list[EpisodeFacts] = []
    for number, line in enumerate(lines):
        facts = _episode(parse_checked_json(line), number)
        if facts is None:
            if number + 1 < len(lines):
                notes.append(f"the journal is damaged at line {number + 1}")
            break
        episodes.append(facts)
    return episodes


def _episode(record: dict[str, Any] | None, number: int) -> EpisodeFacts | None:
    try:
        if record is None or record["episode"] != number:
            return None
        value, failed = record["return"], record["failed"]
        return {
            "episode": number,
            "role": str(record["role"]),
            "iteration": int(record["iteration"]),
            "value": None if value is None else float(value),
            "steps": int(record["steps"]),
            "terminated": bool(record["terminated"]),
            "failed": None if failed is None else str(failed),
            "costs": _numbers(record.get("costs")),
            "violated": _texts(record.get("violated")),
        }
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _may_be_best(item: EpisodeFacts) -> bool:
    return item["role"] not in MOVING and not item["violated"]


def _next_query(path: Path, told: int) -> NextQuery | None:
    """What `abps ask` wrote into query.npz, when it is of the episode that comes next."""
    file = path / "query.npz"
    if not file.is_file():
        return None
    with contextlib.suppress(AbpsError, KeyError, TypeError, ValueError, OverflowError):
        arrays = read_npz(file, MAX_POLICY_NUMBERS, required=("policy_id", "episode", "role", "iteration", "left"))
        if int(arrays["episode"]) == told:
            return {
                "episode": told,
                "policy_id": str(arrays["policy_id"]),
                "role": str(arrays["role"]),
                "iteration": int(arrays["iteration"]),
                "left": int(arrays["left"]),
                "file": str(file),
            }
    return None


def _discarded(path: Path) -> list[int]:
    folder = path / "discarded"
    if not folder.is_dir():
        return []
    numbers = [file.name.partition("-")[0] for file in sorted(folder.iterdir()) if file.suffix == ".episode"]
    return [int(number) for number in numbers if number.isascii() and number.isdecimal()]


def _state(path: Path, told: int, following: NextQuery | None) -> tuple[str, str]:
    for name, state in (("FAILED", "failed"), ("DONE", "done")):
        with contextlib.suppress(RunError):
            text = read_bounded(path / name, MAX_CONFIG_BYTES).decode(errors="replace").strip()
            return state, _reason(text, state)
    if following is not None:
        return "asked", ""
    return ("told" if told else "new"), ""


def _reason(text: str, state: str) -> str:
    """DONE has lines `name: reason`; of a traceback the last line says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return lines[-1] if state == "failed" else "; ".join(line.partition(": ")[2] or line for line in lines)


def _group(config: dict[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _text(config: dict[str, Any], group: str, name: str) -> str:
    return str(_group(config, group).get(name, "?"))


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _numbers(value: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, number in value.items() if isinstance(value, dict) else ():
        if isinstance(number, int | float) and not isinstance(number, bool):
            with contextlib.suppress(OverflowError):  # A whole number of JSON may be larger than any float.
                found[str(name)] = float(number)
    return found


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
