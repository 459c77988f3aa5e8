"""What to type next about a run: commands with the reason for each, ready to be copied into a shell."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from abps.study.records import Run
from abps.study.robot import REPEATED, is_robot, robot_state
from abps.tasks.catalogue import PAPER_TASKS
from abps.words import count

__all__ = ["Step", "next_steps"]

LONGER = 2
"""A finished run is offered so many times its episodes."""


class Step(NamedTuple):
    """A command and what it is for."""

    why: str
    command: str


def next_steps(run: Run) -> list[Step]:
    """What a reader of a run's report may want to do next, most urgent first."""
    path = shlex.quote(str(run.path))
    if is_robot(run):
        return _robot(run, path)
    if run.config.get("imported"):
        return []  # A curve from elsewhere: there is no policy and nothing to go on with.
    steps = []
    if run.status == "failed":
        steps.append(Step("see why it failed", f"cat {shlex.quote(str(run.path / 'FAILED'))}"))
    if run.status != "done":
        steps.append(Step("go on where it stopped", f"abps resume {path}"))
        steps.append(Step("look at it while it runs", f"abps watch --web {path}"))
    if run.metrics:
        steps.append(Step("judge the current policy by fresh episodes", f"abps evaluate {path} --episodes 20"))
    if run.status == "done":
        longer = LONGER * (run.budget or run.episodes_run)
        steps.append(Step("train it longer", f"abps resume {path} --episodes {longer}"))
    if run.metrics:
        steps.append(Step("film an episode", f"abps video {path} --which current"))
        steps.append(
            Step("take the policy to other software, here C", f"abps export {path} --which current --format c")
        )
        steps.append(_compare(run))
    return steps


def _compare(run: Run) -> Step:
    others = [name for name in ("abs", "ars", "mpd") if name != run.search][:2]
    searches = shlex.quote(",".join([run.search, *others]))
    budget = run.budget or run.episodes_run
    command = f"abps compare {shlex.quote(_task(run))} --searches {searches} --seeds 0-4 --episodes {budget}"
    return Step("one run is no benchmark: compare over seeds", command)


def _robot(run: Run, path: str) -> list[Step]:
    state, steps = robot_state(run), []
    if run.status == "failed":
        steps.append(Step("see why it stopped", f"cat {shlex.quote(str(run.path / 'FAILED'))}"))
    if state.failed_in_a_row >= REPEATED:
        failed = count(state.failed_in_a_row, "episode")
        why = f"the last {failed} failed: if the robot is to blame, mend it and take one back"
        steps.append(Step(why, f"abps tell {path} --discard"))
    if run.status == "done":
        steps.append(Step("take the policy to the robot, here as C", f"abps export {path} --which current --format c"))
        steps.append(Step("go on with more episodes", f"abps ask {path} --episodes {LONGER * max(state.told, 1)}"))
        return steps
    steps.append(Step(f"have the policy of episode {state.told} written", f"abps ask {path}"))
    steps.append(Step("after it ran: hand its trajectory back", f"abps tell {path} --trajectory FILE"))
    steps.append(Step("or, if it could not be run to its end", f'abps tell {path} --failed "REASON"'))
    if state.told:
        steps.append(Step("or, if the newest told episode was worthless", f"abps tell {path} --discard"))
    steps.append(Step("see it while you work", f"abps watch --web {path}"))
    return steps


def _task(run: Run) -> str:
    """A word that `abps compare` understands: a name of the catalogue, or what the task was made from."""
    task = run.config.get("task")
    made_from = task.get("id") if isinstance(task, Mapping) else None
    return run.task if run.task in PAPER_TASKS or not isinstance(made_from, str) else made_from
