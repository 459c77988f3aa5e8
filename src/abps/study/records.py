"""Run directories as data: what `abps report`, `abps figure` and the statistics read.

A run is a folder with `config.yaml` and `metrics.jsonl` (docs/design.md, Section 5). Runs are read while others write
them, come from strangers, and may be cut off anywhere: a damaged file becomes a note in `Run.notes`, never an
exception, and nothing that is read is executed.

Shapes: i outer iterations; every column is a float64 vector (i,) with NaN where a value is missing.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from abps.arrays import Array
from abps.errors import AbpsError, RunError
from abps.run.directory import parse_yaml
from abps.run.files import read_bounded
from abps.words import count, first_line

__all__ = ["Episodes", "Run", "find_runs", "finite_number", "is_imported", "load_run", "load_runs", "reason_text"]


MOVED_ASIDE = re.compile(r"\.old-\d+$")
"""What `--overwrite` calls the run it replaces."""

MAX_BYTES = {".yaml": 2**20, ".json": 2**20, ".jsonl": 2**29}
"""Files larger than this are damaged or hostile."""

MAX_TEXT = 2000
"""Characters kept of DONE, FAILED and other free text."""

MAX_MARKER_BYTES = 1024 * 1024

MOST_COSTS = 100
"""Costs of an episode that are read: a task has a handful of constraints."""

RENAMED = {"evidence": "log_likelihood", "evidence_constant": "log_likelihood_constant"}
"""Metrics of runs of abps 0.1.0 → what they are called now."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """The training episodes of a run, one entry per line of its journal."""

    returns: Array = field(default_factory=lambda: np.zeros(0))
    """Undiscounted returns (n,); NaN where an episode failed."""
    roles: tuple[str, ...] = ()
    failures: tuple[tuple[int, str], ...] = ()
    """Number and reason of every failed episode."""
    steps: int = 0
    violated: tuple[int, ...] = ()
    """Numbers of the episodes that broke a constraint; failed ones are not among them."""
    costs: Mapping[str, Array] = field(default_factory=dict)
    """Costs of the episodes by the name of their constraint, (n,) each; NaN where an episode has none."""

    def __len__(self) -> int:
        return len(self.roles)

    @staticmethod
    def of(lines: Sequence[Mapping[str, Any]]) -> "Episodes":
        """What journal lines say, whoever wrote them."""
        values = [finite_number(line.get("return")) for line in lines]
        return Episodes(
            np.array([np.nan if value is None else value for value in values]),
            tuple(str(line.get("role", "")) for line in lines),
            tuple((i, str(line["failed"])[:MAX_TEXT]) for i, line in enumerate(lines) if line.get("failed")),
            int(sum(finite_number(line.get("steps")) or 0.0 for line in lines)),
            tuple(i for i, line in enumerate(lines) if isinstance(line.get("violated"), list) and line["violated"]),
            _costs(lines),
        )


@dataclass(frozen=True, eq=False)
class Run:
    """One run as far as its files could be read."""

    path: Path
    task: str
    search: str
    seed: int
    status: str
    """"done", "failed" or "unfinished"."""
    reason: str
    """What DONE or FAILED says."""
    config: Mapping[str, Any]
    versions: Mapping[str, Any]
    metrics: tuple[Mapping[str, Any], ...]
    """One mapping per outer iteration, in the order written."""
    failed_episodes: int = 0
    notes: tuple[str, ...] = field(default=())
    """What was wrong with the files, in words for the reader of a report."""
    episodes: Episodes = field(default_factory=Episodes)
    """What the journal says of the training episodes; empty where there is no journal."""
    _columns: dict[tuple[str, ...], Array] = field(default_factory=dict, repr=False)
    """Columns already extracted: a report asks for the same one dozens of times."""

    @property
    def episodes_run(self) -> int:
        """Training episodes that ran, those of an outer iteration under way included."""
        counted = self.column("episodes")
        return max(len(self.episodes), int(np.nan_to_num(counted).max(initial=0.0)))

    @property
    def constraints(self) -> tuple[str, ...]:
        """The constraints of its task, as text."""
        task = self.config.get("task")
        texts = task.get("constraint") if isinstance(task, Mapping) else None
        return tuple(str(text)[:MAX_TEXT] for text in texts) if isinstance(texts, list) else ()

    @property
    def budget(self) -> int:
        """Episodes that the run may use; 0: no limit of that kind."""
        budget = self.config.get("budget")
        episodes = budget.get("episodes") if isinstance(budget, Mapping) else None
        return episodes if isinstance(episodes, int) and not isinstance(episodes, bool) else 0

    @property
    def evaluation_episodes(self) -> int | None:
        """Episodes of one evaluation, if the settings say so."""
        settings = self.config.get("run")
        episodes = settings.get("evaluation_episodes") if isinstance(settings, Mapping) else None
        return episodes if isinstance(episodes, int) and not isinstance(episodes, bool) else None

    @property
    def steps_run(self) -> int:
        """Environment steps of those episodes."""
        return max(self.episodes.steps, int(np.nan_to_num(self.column("steps")).max(initial=0.0)))

    @property
    def name(self) -> str:
        """task/search/seed-n, the way a run is spoken of; an imported one says so."""
        return f"{self.task}/{self.search}/seed-{self.seed}{' (imported)' if self.imported else ''}"

    @property
    def imported(self) -> bool:
        """Whether it is a curve from elsewhere (`abps import`)."""
        return is_imported(self.config)

    def has(self, name: str) -> bool:
        """Whether at least one iteration has a number (or list of numbers) under `name`."""
        return any(finite_number(row.get(name)) is not None or _numbers(row.get(name)) for row in self.metrics)

    def column(self, *names: str) -> Array:
        """The values under the first of `names` that an iteration has; (i,), NaN where there is none."""
        if names not in self._columns:
            values = [
                next((v for n in names if (v := finite_number(row.get(n))) is not None), np.nan) for row in self.metrics
            ]
            column = np.array(values, dtype=np.float64)
            column.flags.writeable = False
            self._columns[names] = column
        return self._columns[names]

    def table(self, name: str) -> Array:
        """The lists under `name`, e.g. one score per critic, as (i, k); NaN where a row is shorter or missing."""
        rows = [_numbers(row.get(name)) for row in self.metrics]
        width = max((len(row) for row in rows), default=0)
        table = np.full((len(rows), width), np.nan)
        for index, row in enumerate(rows):
            table[index, : len(row)] = row
        return table

    @property
    def settings(self) -> dict[str, Any]:
        """The search's settings, flattened: {"gp.kernel.kind": "matern-52", …}."""
        search = self.config.get("search")
        return flatten(search.get("settings") or {}) if isinstance(search, Mapping) else {}

    def setting(self, *names: str) -> Any:
        """The search's setting under the first of `names` that the run has (older runs use older names), or None."""
        return next((self.settings[name] for name in names if name in self.settings), None)


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the run directories at or below `paths`, sorted, each once.

    Raises:
        RunError: a path does not exist, or there is no run below any of them.
    """
    found: dict[Path, Path] = {}
    paths = [Path(path) for path in paths]
    for path in paths:
        if not path.exists():
            raise RunError(f"{path} does not exist; expected a run directory or a folder with runs in it")
        for directory in _walk(path):
            found.setdefault(directory.resolve(), directory)
    if not found:
        listed = ", ".join(str(path) for path in paths) or "nothing"
        raise RunError(f"no run found in {listed}; a run is a folder with config.yaml, made by `abps train`")
    return [found[key] for key in sorted(found)]


def load_runs(paths: Iterable[Path]) -> list[Run]:
    """Read every run at or below `paths`; see `find_runs` for what is raised."""
    return [load_run(path) for path in find_runs(paths)]


def load_run(path: Path, config: Mapping[str, Any] | None = None) -> Run:
    """Read one run directory; whatever is damaged is left out and noted.

    Args:
        path: the directory.
        config: what its `config.yaml` says, if that was read already.
    """
    path, notes = Path(path), []
    config = config or _mapping(path / "config.yaml", parse_yaml, notes)
    versions = _mapping(path / "versions.json", json.loads, notes)
    journal = _lines(path / "journal.jsonl", notes, required=False)
    if journal and not (path / "metrics.jsonl").exists():  # It is written with the first outer iteration.
        notes.append("no outer iteration was finished, so that there is no curve")
    metrics = tuple(_renamed(row) for row in _lines(path / "metrics.jsonl", notes, required=not journal))
    episodes = Episodes.of(journal)
    failed = len(episodes.failures)
    status, reason = _status(path)
    task, search, seed = _identity(path, config, notes)
    return Run(path, task, search, seed, status, reason, config, versions, metrics, failed, tuple(notes), episodes)


def is_imported(config: Mapping[str, Any]) -> bool:
    """Whether a run's settings say that it came from a file of curves."""
    return bool(config.get("imported"))


def flatten(tree: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level of dotted names."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _costs(lines: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """The columns of the episodes' costs; a journal of a stranger may have anything in their place."""
    columns: dict[str, Array] = {}
    for place, line in enumerate(lines):
        costs = line.get("costs")
        for name, cost in costs.items() if isinstance(costs, dict) else ():
            if (value := finite_number(cost)) is not None and (name in columns or len(columns) < MOST_COSTS):
                columns.setdefault(name, np.full(len(lines), np.nan))[place] = value
    return columns


def _renamed(row: dict[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(name, name): value for name, value in row.items()}


def _walk(path: Path) -> Iterator[Path]:
    """Run directories at or below `path`; nothing is looked for inside a run or a hidden folder."""
    if (path / "config.yaml").is_file() or (path / "metrics.jsonl").is_file():
        yield path
        return
    if path.is_dir() and not path.is_symlink():
        try:
            children = sorted(path.iterdir())
        except OSError:
            return  # Deleted since, or somebody else's: what can be read is shown.
        for child in children:
            if child.is_dir() and not child.name.startswith(".") and not MOVED_ASIDE.search(child.name):
                yield from _walk(child)


def _content(path: Path) -> bytes:
    return read_bounded(path, MAX_BYTES[path.suffix])


def _mapping(path: Path, parse: Callable[[bytes], Any], notes: list[str]) -> dict[str, Any]:
    try:
        value = parse(_content(path))
    except (AbpsError, ValueError, RecursionError) as error:
        reason = f"cannot be read: {_first_line(error)}" if path.exists() else "is missing"
        notes.append(f"{path.name} {reason}")
        return {}
    if not isinstance(value, dict):
        notes.append(f"{path.name} is not a mapping")
        return {}
    return value


def _lines(path: Path, notes: list[str], *, required: bool = True) -> list[dict[str, Any]]:
    """The JSON objects of a .jsonl file; a cut-off last line of a run under way is normal and not noted."""
    if not path.exists():
        if required:
            notes.append(f"{path.name} is missing")
        return []
    try:
        text = _content(path).decode("utf-8", errors="replace")
    except AbpsError as error:
        notes.append(f"{path.name} cannot be read: {_first_line(error)}")
        return []
    rows, bad, raw = [], 0, text.split("\n")
    for number, line in enumerate(raw):
        if not line.strip():
            continue
        row = _json_object(line)
        if row is not None:
            rows.append(row)
        elif number < len(raw) - 1:
            bad += 1
    if bad:
        notes.append(f"{path.name}: {count(bad, 'damaged line', 'damaged lines')} left out")
    return rows


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def reason_text(marker: Path) -> str:
    """What DONE or FAILED says; a traceback's last line, which says what happened, comes first.

    Raises:
        OSError: it cannot be read.
    """
    with marker.open("rb") as file:
        text = file.read(MAX_MARKER_BYTES).decode(errors="replace").strip()
    if text.startswith("Traceback"):
        text = f"{text.splitlines()[-1]}\n{text}"
    return text[:MAX_TEXT].strip()


def _status(path: Path) -> tuple[str, str]:
    for name, status in (("FAILED", "failed"), ("DONE", "done")):
        marker = path / name
        if marker.exists():
            try:
                return status, reason_text(marker)
            except OSError:
                return status, ""
    return "unfinished", ""


def _identity(path: Path, config: Mapping[str, Any], notes: list[str]) -> tuple[str, str, int]:
    """Task, search and seed: from the config; the directory names serve where the config is damaged."""
    parts = path.resolve().parts
    task, search, seed = config.get("task"), config.get("search"), config.get("seed")
    task = task.get("name") if isinstance(task, Mapping) else task
    search = search.get("name") if isinstance(search, Mapping) else search
    if not isinstance(task, str):
        task = parts[-3] if len(parts) >= 3 else "unknown task"
        notes.append("config.yaml does not name the task; the folder's name is used")
    if not isinstance(search, str):
        search = parts[-2] if len(parts) >= 2 else "unknown search"
        notes.append("config.yaml does not name the search; the folder's name is used")
    if not isinstance(seed, int) or isinstance(seed, bool):
        digits = path.resolve().name.removeprefix("seed-")
        seed = int(digits) if digits.isascii() and digits.isdigit() else 0
        notes.append("config.yaml does not give the seed; the folder's name is used")
    return task, search, seed


def finite_number(value: Any) -> float | None:
    """A finite number or None; booleans, texts and lists are no numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if np.isfinite(number) else None
    return None


def _numbers(value: Any) -> list[float]:
    if not isinstance(value, list):
        return []
    return [number if (number := finite_number(part)) is not None else np.nan for part in value]


def _first_line(error: BaseException) -> str:
    return first_line(str(error), 200) or type(error).__name__
