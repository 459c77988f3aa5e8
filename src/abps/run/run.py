"""A run: a search whose told episodes are on disk before anything else happens.

The journal is the truth; a checkpoint only saves the time of thinking again. Opening a run loads the newest checkpoint
and tells the search, once more and from disk, the episodes recorded since. Everything a search does follows from what
it was told, so the continued run is the uninterrupted one, bit for bit. Metrics, policies and checkpoints follow from
the journal, too: when they are damaged they are computed again, from the previous checkpoint or from the first episode
on.

Where episodes come from (a simulator, a robot, a file) is not this module's business: `record` takes outcomes one by
one, in the order of `slots`. `loop.train` feeds it from an environment, `hardware.HardwareRun` from files.
"""

import io
import math
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from abps.errors import AbpsError, RunError
from abps.run.checkpoint import SchemaError, checkpoint_paths, drop_old_checkpoints, load_checkpoint, save_checkpoint
from abps.run.directory import RunSettings, claim, no_run, read_settings
from abps.run.files import replace_atomically, replace_together, sync_directory
from abps.run.journal import Journal
from abps.run.metrics import MetricsFile
from abps.run.scoreboard import Evaluator, Scoreboard
from abps.run.spool import Finished, Spool
from abps.run.start import start_search
from abps.search.base import Metrics, Query, Search
from abps.state import restore, save
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Outcome

__all__ = ["Run", "Slot", "clean_reason", "failures_noted", "open_run", "parameters_crc"]

MAX_REASON = 500
SAME_NORM = 1e-6
"""Parameters computed again on another machine may differ by rounding, not by more than this share."""


class Slot(NamedTuple):
    """One episode that the search waits for."""

    episode: int
    """Its number in the run, which its random seed derives from."""
    query: Query


def clean_reason(reason: str) -> str:
    """A failure's reason as one line of ordinary length and encoding, whatever the exception says."""
    line = " ".join(reason.encode("utf-8", "replace").decode().split()) or "no reason given"
    return line if len(line) <= MAX_REASON else line[:MAX_REASON] + "…"


class Run:
    """A search and its files. Made by `open_run`, which holds the directory's lock while it is in use."""

    def __init__(self, path: Path, settings: RunSettings, spec: TaskSpec, evaluator: Evaluator | None = None) -> None:
        self.path, self.settings, self.spec = path, settings, spec
        self.journal = Journal(path, spec)
        self.spool = Spool(path, spec)
        self.warnings: list[str] = []
        self.on_iteration: Callable[[Metrics], None] = lambda metrics: None
        self.failures_in_a_row = 0
        self.stop_requests: dict[str, str] = {}
        """Reasons to stop that came from outside, by name: a callback's."""
        self._evaluator = evaluator
        self._started = time.perf_counter()
        self._begin_anew()

    # ---- going on ---------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Bring the search up to date: the newest checkpoint that fits, then the journal's episodes since.

        Raises:
            SchemaError: a checkpoint was written by another version of abps.
            RunError: the journal is damaged, or does not belong to these settings.
        """
        newest = self._load_newest_checkpoint()
        self.spool.drop_before(len(self.journal))
        if not newest:
            self._begin_anew()
        self.metrics.cut()
        if self.metrics.records:
            self._seconds_before = float(self.metrics.records[-1].get("seconds") or 0.0)
        self.failures_in_a_row = 0 if (self.path / "FAILED").exists() else self.journal.failures_in_a_row
        for name in ("DONE", "FAILED"):
            (self.path / name).unlink(missing_ok=True)
        self._tell_journal()
        self.warnings += self.journal.repair()  # Last: a run that is refused keeps every byte of its journal.

    def slots(self) -> list[Slot]:
        """Return the episodes that can run now, in the order in which `record` wants them; none beyond the budget."""
        limit = self.settings.budget.episodes or math.inf
        wanted: list[Query] = []
        for query in self.search.open_queries():
            if wanted and self.search.episodes + len(wanted) >= limit:
                break
            wanted += [query] * query.episodes
        done = len(self._partial)
        return [Slot(self._told + number, query) for number, query in enumerate(wanted[done:])]

    def record(self, slot: Slot, outcome: Outcome, seconds: float, details: dict[str, Any]) -> Metrics | None:
        """Write a finished episode to the journal, then tell the search.

        Args:
            slot: the first of `slots()`.
            outcome: what came of it.
            seconds: how long it took.
            details: further journal fields: its seed, failed attempts.

        Returns:
            The metrics of the outer iteration that it completed, if it did.

        Raises:
            RunError: it is not this episode's turn, or the disk refuses; nothing is recorded then.
        """
        if slot.episode != len(self.journal):
            raise RunError(
                f"episode {slot.episode} was recorded out of turn; the journal waits for {len(self.journal)}"
            )
        if isinstance(outcome, Failed):
            outcome = Failed(clean_reason(outcome.reason))
        self.journal.append(outcome, {**_described(slot.query), **details, **self._returns(outcome)}, seconds)
        self._seconds_rollout += seconds
        self.failures_in_a_row = self.failures_in_a_row + 1 if isinstance(outcome, Failed) else 0
        return self._take(outcome, slot.query.id)

    def stop(self) -> dict[str, str]:
        """Return every reason to stop, by name; empty means go on."""
        reasons = {**self.search.stop(), **self.stop_requests}
        if self.settings.run.evaluate_every and self.scoreboard.best is not None:
            reasons.pop("target", None)  # Fresh episodes decide, not the few that a centre was trained with.
        minutes, target, best = self.settings.run.minutes, self.settings.budget.target, self.scoreboard.best
        if minutes and self.seconds >= 60.0 * minutes:
            reasons["minutes"] = f"{self.seconds / 60.0:.1f} of {minutes:g} minutes are used"
        if target is not None and best is not None and best.value >= target:
            reasons["target"] = f"an evaluated policy returned {best.value:.4g}, the target is {target:.4g}"
        plateau = self.settings.budget.plateau
        if plateau and self.search.progress.centre_return is None and self._iterations_without_gain() >= plateau:
            reasons["plateau"] = f"no better evaluated centre for {plateau} outer iterations"
        return reasons

    def _iterations_without_gain(self) -> int:
        """Outer iterations since the best evaluation of a centre, for searches that never run it themselves."""
        seen = [record for record in self.metrics.records if record["eval_return"] is not None]
        if not seen:
            return 0
        best = max(seen, key=lambda record: record["eval_return"])  # The first of equals: staying is no gain.
        return self.metrics.records[-1]["iteration"] - best["iteration"]

    def finish(self, reasons: dict[str, str]) -> None:
        """Mark the run as done, its policies written."""
        self.spool.drop_before(len(self.journal))
        self.save_policies()
        text = "".join(f"{name}: {reason}\n" for name, reason in reasons.items())
        replace_atomically(self.path / "DONE", text.encode())

    def take_back(self) -> int:
        """Undo the newest recorded episode, keeping a copy of it in `discarded/`; return its number.

        Raises:
            RunError: the disk refuses; the episode may still be recorded then.
        """
        episode = len(self.journal) - 1
        outcome, query = self.journal.outcome(episode), self.journal.query_of(episode)
        Spool(self.path, self.spec, "discarded").keep(episode, query, Finished(outcome, 0.0))
        for path in checkpoint_paths(self.path / "checkpoint"):
            if int(path.stem) > episode:
                path.unlink()
                sync_directory(path.parent)  # A checkpoint that comes back would say that the journal has lost a line.
        self.journal.drop_last()
        self.restore()
        self.save_policies()
        return episode

    def save_policies(self) -> None:
        """Write the best and the current policy, as they are now.

        Raises:
            RunError: the disk refuses; the files have their old content.
        """
        best = self.scoreboard.best.policy if self.scoreboard.best is not None else self.search.result().best
        contents: dict[Path, bytes] = {}
        for name, policy in (("best", best), ("current", self.search.incumbent)):
            buffer = io.BytesIO()
            policy.write(buffer)
            file = self.path / "policy" / f"{name}.npz"
            if not _holds(file, buffer.getvalue()):
                contents[file] = buffer.getvalue()
        if contents:
            replace_together(contents)

    @property
    def seconds(self) -> float:
        """Wall time of the run, over all its sessions."""
        return self._seconds_before + time.perf_counter() - self._started

    # ---- from disk --------------------------------------------------------------------------------------------------

    def _begin_anew(self) -> None:
        """A search that was told nothing, and the counts that go with it."""
        settings = self.settings
        try:
            self.search: Search[Any] = settings.search_config.make(
                self.spec, seed=settings.seed, budget=settings.budget, name=settings.search
            )
        except (MemoryError, ValueError, OverflowError) as error:
            raise RunError(f"the settings ask for arrays that cannot be had here: {error}") from error
        start_search(self.search, self.path, settings)
        self.metrics = MetricsFile(self.path)
        self.scoreboard = Scoreboard(self.search.policies, settings.run.evaluate_probes)
        self._told = 0
        self._partial: list[Outcome] = []
        self._seconds_before = self._seconds_rollout = 0.0

    def _load_newest_checkpoint(self) -> bool:
        """Load the newest checkpoint that is whole and fits the journal; say which ones were passed over."""
        for path in checkpoint_paths(self.path / "checkpoint"):
            try:
                episodes, state = load_checkpoint(path)
                if episodes <= len(self.journal):
                    self._load_state(path, episodes, state)
                    if not self.warnings:  # The newest: a kill may have come before the older ones were dropped.
                        drop_old_checkpoints(path.parent)
                    return True
            except SchemaError:
                raise
            except RunError as error:
                self.warnings.append(f"{error}; the state is computed again from an earlier one and the journal")
                continue
            self.journal.refuse_damage(known=episodes)
            raise RunError(
                f"{path} stands at {episodes} episodes, but the journal has {len(self.journal)}: it has lost lines. "
                f"Restore {self.path / 'journal.jsonl'} from a copy, or delete {path.parent} to go on without them"
            )
        return False

    def _load_state(self, path: Path, episodes: int, state: dict[str, Any]) -> None:
        self._begin_anew()
        try:
            if state["journal"] != self.journal.fingerprint(episodes):
                raise RunError(f"{path} belongs to another journal")
            self.metrics.keep(int(state["metrics"]))
            self.scoreboard.memory = restore(self.scoreboard.memory, state["scoreboard"])
            self.search.load(state["search"], self.journal.newest(self.search.replay_capacity, episodes))
            if self.search.episodes != episodes:
                raise RunError(f"{path} counts {self.search.episodes} episodes, its name says {episodes}")
            if not self.search.stop():
                self.search.open_queries()  # A state that cannot even ask is found out here, while there is another.
        except RunError:
            raise
        except Exception as error:
            raise RunError(f"{path} does not fit this run: {type(error).__name__}: {error}") from error
        self._told = episodes

    def _tell_journal(self) -> None:
        while self._told < len(self.journal):
            self._compare(self.search.ask(), self._told)
            self._take(self.journal.outcome(self._told), self.journal.query_of(self._told))

    def _compare(self, query: Query, episode: int) -> None:
        """Make sure that the journal's episode is of the policy that the search asks for now."""
        crc, norm = self.journal.parameters_of(episode)
        described = _described(query)
        close = abs(described["parameters_norm"] - norm) <= SAME_NORM * max(norm, 1.0)
        if query.id != self.journal.query_of(episode) or not close:
            raise RunError(
                f"the journal's episode {episode} ran another policy than the one the search asks for now; "
                f"were the settings in {self.path / 'config.yaml'} or the version of abps changed?"
            )
        if described["parameters_crc"] != crc and not any("by rounding" in text for text in self.warnings):
            self.warnings.append(
                f"the policy of episode {episode} is computed slightly differently here (by rounding: another machine "
                "or library); the run goes on, but not bit for bit as it would have there"
            )

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _returns(self, outcome: Outcome) -> dict[str, Any]:
        constraints = self.spec.constraints
        if isinstance(outcome, Failed):
            return {"return": None, "discounted": None, **({"costs": None, "violated": None} if constraints else {})}
        returns: dict[str, Any] = {"return": outcome.total(), "discounted": outcome.total(self.spec.gamma)}
        if constraints:
            costs = {item.name: item.episode_cost(outcome.costs[:, place]) for place, item in enumerate(constraints)}
            returns["costs"] = costs
            returns["violated"] = [item.name for item in constraints if costs[item.name] > item.limit]
        return returns

    def _take(self, outcome: Outcome, query_id: int) -> Metrics | None:
        """Hand one recorded outcome to the search; tell the query when it is complete."""
        query = self.search.ask()
        if query.id != query_id:
            raise RunError(f"an episode of query {query_id} came, the search asks for query {query.id}")
        self._partial.append(outcome)
        self._told += 1
        if len(self._partial) < query.episodes:
            return None
        outcomes, self._partial = self._partial, []
        self.scoreboard.note_probe(query, outcomes)
        metrics = self.search.tell(query, outcomes)
        if metrics is not None:
            return self._complete_iteration(metrics)
        if self.settings.run.checkpoint_stages and self.search.between_stages:
            self._save_checkpoint()
        return None

    def _complete_iteration(self, metrics: Metrics) -> Metrics:
        number, run = self.search.iteration, self.settings.run
        due = run.evaluate_every > 0 and number % run.evaluate_every == 0
        start = time.perf_counter()
        evaluated = self.scoreboard.end_iteration(self._evaluator if due else None, self.search.incumbent, number)
        metrics = {
            **metrics,
            **evaluated,
            "seconds_evaluation": time.perf_counter() - start,
            "seconds_rollout": self._seconds_rollout,
            "seconds": self.seconds,
        }
        self._seconds_rollout = 0.0
        self.metrics.append(metrics)
        self.save_policies()
        if number % run.checkpoint_every == 0 or run.checkpoint_stages:
            self._save_checkpoint()
        self.on_iteration(metrics)
        return metrics

    def _save_checkpoint(self) -> None:
        state = {
            "journal": self.journal.fingerprint(self._told),
            "metrics": len(self.metrics.records),
            "scoreboard": save(self.scoreboard.memory),
            "search": self.search.state(replay=False),
        }
        save_checkpoint(self.path / "checkpoint", self._told, state)


def _holds(file: Path, content: bytes) -> bool:
    """Whether a file has this content already; a link, or what cannot be read, has not."""
    with suppress(OSError):
        return not file.is_symlink() and file.stat().st_size == len(content) and file.read_bytes() == content
    return False


def _described(query: Query) -> dict[str, Any]:
    """The journal's fields about a query; its parameters by checksum and length, enough to recognise them."""
    return {
        "query": query.id,
        "role": query.role,
        "iteration": query.iteration,
        "parameters_crc": parameters_crc(query),
        "parameters_norm": float(np.linalg.norm(query.parameters)),
    }


def parameters_crc(query: Query) -> int:
    """A checksum of what a query runs: its parameters, and the knots of its path if there is one."""
    path = query.policy.path
    return zlib.crc32(query.parameters.tobytes() + (b"" if path is None else path.knots.tobytes()))


@contextmanager
def open_run(
    path: Path,
    spec: TaskSpec,
    evaluator: Evaluator | None = None,
    settings: RunSettings | None = None,
) -> Iterator[Run]:
    """Own the run in `path`, brought up to date with its journal, until the block ends.

    Args:
        path: a run directory.
        spec: the task's spec, from its environment or its file.
        evaluator: runs evaluation episodes; None switches evaluation off.
        settings: what `config.yaml` says, if it is known already.

    Raises:
        RunError: no run, damaged, or in use.
    """
    if not (path / "config.yaml").exists():
        raise no_run(path)
    with claim(path), threadpool_limits(1):
        settings = settings or read_settings(path)
        with failures_noted(path):
            run = Run(path, settings, spec, evaluator)
            run.restore()
        yield run


@contextmanager
def failures_noted(path: Path) -> Iterator[None]:
    """Leave the reason in FAILED when the block ends with an error; an error that nobody foresaw becomes a `RunError`.

    The run can be resumed all the same, once the cause is mended.
    """
    try:
        yield
    except AbpsError as error:
        _write_reason(path, str(error))
        raise
    except Exception as error:
        _write_reason(path, traceback.format_exc())
        place = _culprit(traceback.extract_tb(error.__traceback__))
        raise RunError(
            f"the run stopped with {type(error).__name__}: {clean_reason(str(error))} ({place.filename}, line "
            f"{place.lineno}). Every finished episode is saved; the details are in {path / 'FAILED'}. "
            "This is a bug of abps "
            f"or of a part of your own; once it is mended, go on with `abps resume {path}`"
        ) from error


def _culprit(frames: traceback.StackSummary) -> traceback.FrameSummary:
    """The deepest frame outside of abps and of installed packages (a part of one's own), or the deepest."""
    package = str(Path(__file__).parents[1])
    own = [frame for frame in frames if "lib/python" not in frame.filename and not frame.filename.startswith(package)]
    return (own or frames)[-1]


def _write_reason(path: Path, reason: str) -> None:
    with suppress(RunError):  # If the disk still takes it.
        replace_atomically(path / "FAILED", (reason + "\n").encode("utf-8", "replace"))
