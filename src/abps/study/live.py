"""Runs as they are now, as the JSON of the live page: `abps watch --web` shows the report of work under way.

Every look reads only what was added since the last one, and computes again only what belongs to runs that have changed;
a thousand runs of which two are under way cost little more than the two. Runs may appear, be half-written, damaged or
deleted between two looks. Nothing is ever written.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import AbpsError, RunError
from abps.study.groups import QUANTITIES
from abps.study.page import render, titles
from abps.study.progress import Follower, Snapshot
from abps.study.records import Run, find_runs, load_run
from abps.study.report import FILM_BYTES, Detail, payload
from abps.study.run_view import points_per_run, run_details, run_id

__all__ = ["Answer", "LiveStudy"]

LIVE = Detail(
    quantities=("max_return", "centre_return"),
    band_repetitions=100,
    row_repetitions=200,
    pairs=False,
    details=False,
    under_way=True,
)

KEPT = {
    "iteration",
    "episodes",
    "steps",
    "seconds",
    "eval_return_std",
    *(n for names in QUANTITIES.values() for n in names),
}
"""Metrics that curves and tables of many runs need; those of the chosen run are read again when it is chosen."""

REST = 3.0
"""Between two looks, so many times as long is waited as a look takes: watching must not slow the work down."""


PATIENCE = 1.5
"""Seconds that an answer waits for a look that is under way; then it says what was known before."""

NOTHING_YET = "Reading the runs…"


class Answer(NamedTuple):
    """JSON and a tag that changes with it."""

    body: bytes
    tag: str


class Shown(NamedTuple):
    """One state of the page, as Python holds it and as it is sent."""

    content: dict[str, Any]
    answer: Answer


@dataclass
class Watched:
    """One run directory and what was last seen of it."""

    follower: Follower
    seen: Snapshot | None = None
    run: Run | None = None
    version: int = 0

    def read(self) -> Run | None:
        """The run as it is now; None where it cannot be read at the moment."""
        now = self.follower.read()
        if self.run is None or now != self.seen:
            try:
                self.run = _slim(load_run(self.follower.path, self.follower.config))
            except (AbpsError, OSError, ValueError):
                return None
            self.seen = now
            self.version += 1
        return self.run


class Memo:
    """Results that are kept from one look to the next, as long as they are asked for."""

    def __init__(self) -> None:
        self._before: dict[Any, Any] = {}
        self._now: dict[Any, Any] = {}

    def recall(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._now:
            self._now[key] = self._before[key] if key in self._before else make()
        return self._now[key]

    def turn(self) -> None:
        """Forget what was not asked for since the last turn."""
        self._before, self._now = self._now, {}


class LiveStudy:
    """What the live page shows. Safe to be asked from several threads.

    Args:
        paths: run directories, or folders with runs in them; new runs appear by themselves.
        every: seconds between two looks at the files, at least.
    """

    def __init__(self, paths: Sequence[Path], every: float = 2.0) -> None:
        self._paths, self._every = [Path(path) for path in paths], every
        self._watched: dict[Path, Watched] = {}
        self._memo, self._lock = Memo(), threading.Lock()
        self._looking: threading.Thread | None = None
        self._state: object = None
        self._shown = Shown({}, Answer(b"", ""))
        self._error: Exception | None = None
        self._looked, self._took = float("-inf"), 0.0
        self._show([], NOTHING_YET)

    def data(self) -> Answer:
        """Everything the page shows, without the details of single runs.

        Raises:
            Exception: whatever went wrong in the last look.
        """
        return self._refreshed().answer

    def page(self) -> str:
        """The page with what is known now inside."""
        return render(self._refreshed().content)

    def details(self, name: str) -> bytes | None:
        """The details of one run, by its id; None when there is no such run (any more)."""
        runs = self._refreshed().content["runs"]
        found = next((run for run in runs if run["id"] == name), None)
        if found is None:
            return None
        path = next((path for path in self._watched.copy() if str(path) == found["path"]), None)
        return None if path is None else _json(run_details(load_run(path), points_per_run(len(runs)), FILM_BYTES))

    def _refreshed(self) -> "Shown":
        """What is known, after a look at the files; a look that takes long goes on while others are answered."""
        with self._lock:
            due = time.monotonic() - self._looked >= max(self._every, REST * self._took)
            if self._looking is None and due:
                self._looking = threading.Thread(target=self._look, daemon=True, name="abps-look")
                self._looking.start()
            looking = self._looking
        if looking is not None:
            looking.join(PATIENCE)
        if self._error is not None:
            raise self._error
        return self._shown

    def _look(self) -> None:
        started = time.monotonic()
        try:
            runs = self._read()
            state = [(path, watched.version, watched.seen) for path, watched in self._watched.items()]
            if state != self._state:
                self._show(runs)
                self._state = state
            self._error = None
        except Exception as error:  # A look must not end the looking; the server says that it failed.
            self._error = error
        finally:
            self._looked = time.monotonic()
            self._took = self._looked - started
            self._looking = None

    def _read(self) -> list[Run]:
        try:
            paths = find_runs(self._paths)
        except (RunError, OSError):
            paths = []  # Not there yet, or not any more.
        self._watched = {path: self._watched.get(path) or Watched(Follower(path)) for path in paths}
        return [run for watched in self._watched.values() if (run := watched.read()) is not None]

    def _show(self, runs: Sequence[Run], headline: str = "") -> None:
        content = payload(runs, detail=LIVE, recall=self._memo.recall)
        self._memo.turn()
        seen = {run_id(w.run): w for w in self._watched.values() if w.run is not None}
        content["runs"] = [{**run, **_progress(seen[run["id"]])} for run in content["runs"]]
        title, subtitle = titles(content)
        content |= {"live": True, "every": max(self._every, REST * self._took), "title": title, "subtitle": subtitle}
        content["headlines"] = [headline] if headline else content["headlines"]
        body = _json(content)
        self._shown = Shown(content, Answer(body, f'"{hashlib.sha256(body).hexdigest()[:24]}"'))


def _progress(watched: Watched) -> dict[str, Any]:
    now = watched.seen
    if now is None:
        return {"version": watched.version}
    return {
        "version": watched.version,
        "status": now.state,
        "rate": now.rate if now.state == "running" else None,
        "left": now.left,
    }


def _slim(run: Run) -> Run:
    """The run with the metrics that many runs are shown by: a thousand whole ones would fill the memory."""
    rows = ({n: v for n, v in row.items() if n in KEPT or n.startswith("seconds_")} for row in run.metrics)
    return replace(run, metrics=tuple(rows), _columns={})


def _json(content: Any) -> bytes:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return text.encode("utf-8", "replace")
