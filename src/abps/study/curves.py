"""Curves from elsewhere as runs: what `abps import` reads and writes.

A file of curves is CSV in long form with a header: one line per measurement, in the order of time within a run. A run
is what has one task, search and seed. An imported run is a directory like any other (docs/metrics.md), but its settings
say only where it came from: it can be compared, reported and drawn, and not resumed, because there are no episodes and
no policy behind it.

Everything is checked before anything is written; every run is written under a hidden name first and then renamed.
"""

import csv
import io
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from abps.errors import ConfigError, RunError
from abps.run.directory import FORMAT, move_aside, run_place
from abps.run.files import checked_json, read_bounded, replace_together, sync_directory

__all__ = ["COLUMNS", "Curve", "Imported", "import_curves", "read_curves"]

MAX_BYTES = 2**28
MAX_NAME = 200
VARIANT = "imported"
"""Imported runs have folders `<search>@imported`: never those of a run of ours."""


class Column(NamedTuple):
    """One column of a file of curves."""

    help: str
    metric: str = ""
    """What metrics.jsonl calls it; empty: it names the run."""
    whole: bool = False
    counts: bool = False
    """Whether it counts something: never negative, never falling within a run."""
    required: bool = False


COLUMNS: dict[str, Column] = {
    "task": Column("name of the task, as other runs have it", required=True),
    "search": Column("name of the method", required=True),
    "seed": Column("which repetition", whole=True, required=True),
    "episodes": Column("training episodes so far", "episodes", whole=True, counts=True),
    "steps": Column("training environment steps so far", "steps", whole=True, counts=True),
    "return": Column("mean undiscounted return of the policy at that time", "eval_return", required=True),
    "discounted": Column("its mean discounted return", "eval_discounted"),
    "seconds": Column("wall time so far", "seconds", counts=True),
}
"""What a file of curves may hold; `episodes`, `steps` or both must be there."""


@dataclass
class Curve:
    """One run of a file of curves."""

    task: str
    search: str
    seed: int
    values: dict[str, list[float]] = field(default_factory=dict)
    """Column → one number per measurement."""

    @property
    def name(self) -> str:
        return f"{self.task}/{self.search}/seed-{self.seed}"


class Imported(NamedTuple):
    """What an import did."""

    written: list[Path]
    unchanged: list[Path]
    """Runs that were there already with the same numbers."""
    ignored: list[str]
    """Columns that mean nothing here."""


def import_curves(
    file: Path, root: Path, *, versions: Mapping[str, str] | None = None, overwrite: bool = False
) -> Imported:
    """Write every curve of a file as a run below `root`.

    Args:
        file: the curves (CSV).
        root: the folder of all runs.
        versions: package → version that the curves were made with, as far as it is known.
        overwrite: move a run with other numbers aside instead of refusing.

    Raises:
        ConfigError: the file has another form.
        RunError: there is a run with other numbers already, or the disk refuses.
    """
    curves, ignored = read_curves(file)
    contents = {}
    for curve in curves:
        path = run_place(root, curve.task, curve.search, VARIANT, curve.seed)
        if path in contents:
            raise ConfigError(f"{file}: two runs have the path {path}; rename one of their tasks or searches")
        contents[path] = _contents(curve, file.name, versions or {})
    unchanged = [path for path, content in contents.items() if _same(path, content)]
    new = {path: content for path, content in contents.items() if path not in unchanged}
    conflicts = [path for path in new if path.exists()]
    if conflicts and not overwrite:
        raise RunError(
            f"there is a run with other numbers in {conflicts[0]}{_more(conflicts)}; start over with --overwrite (the "
            "old run is kept beside it), or import into another folder with --runs"
        )
    _write(new)
    return Imported(list(new), unchanged, ignored)


def read_curves(file: Path) -> tuple[list[Curve], list[str]]:
    """Read and check a file of curves; return them, and the columns that mean nothing here.

    Raises:
        ConfigError: a column is missing, or a line says something that a curve cannot say.
        RunError: the file cannot be read.
    """
    try:
        text = read_bounded(file, MAX_BYTES).decode("utf-8-sig")
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        return _read(file, lines)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{file} is not a CSV file in UTF-8: {error}") from error


def _read(file: Path, lines: Any) -> tuple[list[Curve], list[str]]:
    names = [name.strip() for name in next(lines, [])]
    _check_header(file, names)
    curves: dict[tuple[str, str, int], Curve] = {}
    for cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{file}, line {lines.line_num}"
        if len(cells) != len(names):
            raise ConfigError(f"{where} has {len(cells)} values; the header names {len(names)} columns")
        row = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if name in COLUMNS}
        _add(curves, row, where)
    if not curves:
        raise ConfigError(f"{file} has a header and no measurements; expected one line per measurement below it")
    return list(curves.values()), [name for name in names if name not in COLUMNS]


def _check_header(file: Path, names: Sequence[str]) -> None:
    missing = [name for name, column in COLUMNS.items() if column.required and name not in names]
    if not missing and not {"episodes", "steps"} & set(names):
        missing = ["episodes (or steps, or both)"]
    if missing:
        found = ", ".join(name for name in names if name)[:MAX_NAME] or "nothing"
        raise ConfigError(
            f"{file} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; its first line names "
            f"{found}, and must name {', '.join(COLUMNS)} (discounted and seconds may be left out), joined by commas"
        )
    twice = next((name for name in names if name in COLUMNS and names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"{file} has two columns {twice!r}; keep one")


def _add(curves: dict[tuple[str, str, int], Curve], row: Mapping[str, str], where: str) -> None:
    """Add one line to the run it belongs to."""
    for name in ("task", "search"):
        if not row[name] or len(row[name]) > MAX_NAME:
            raise ConfigError(f"{where}: {name} must be a name of 1 to {MAX_NAME} characters, got {row[name][:50]!r}")
    numbers = {name: _number(name, text, where) for name, text in row.items() if name not in ("task", "search")}
    seed = int(numbers.pop("seed"))
    curve = curves.setdefault((row["task"], row["search"], seed), Curve(row["task"], row["search"], seed))
    _check_order(curve, numbers, where)
    for name, number in numbers.items():
        curve.values.setdefault(name, []).append(number)


def _number(name: str, text: str, where: str) -> float:
    column, number = COLUMNS[name], _float(text)
    if not math.isfinite(number):
        raise ConfigError(f"{where}: {name} must be a number, got {text[:50]!r}; leave out lines without a measurement")
    if column.whole and (number < 0 or number != int(number)):
        raise ConfigError(f"{where}: {name} must be a whole number, 0 or more, got {text[:50]!r}")
    if column.counts and number < 0:
        raise ConfigError(f"{where}: {name} must not be negative, got {text[:50]!r}")
    return int(number) if column.whole else number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _check_order(curve: Curve, numbers: Mapping[str, float], where: str) -> None:
    """Counts never fall within a run, and one of episodes and steps rises from line to line."""
    if not curve.values:
        return
    before = {name: values[-1] for name, values in curve.values.items()}
    for name in (name for name in numbers if COLUMNS[name].counts):
        if numbers[name] < before[name]:
            raise ConfigError(
                f"{where}: {name} falls from {before[name]:g} to {numbers[name]:g} in {curve.name}; "
                "sort the lines of every run by time"
            )
    axes = [name for name in ("episodes", "steps") if name in numbers]
    if all(numbers[name] == before[name] for name in axes):
        stand = " and ".join(f"{name} {numbers[name]:g}" for name in axes)
        raise ConfigError(f"{where}: {curve.name} has a second measurement at {stand}; keep one, or their mean")


def _contents(curve: Curve, source: str, versions: Mapping[str, str]) -> dict[str, bytes]:
    """The files of an imported run."""
    from abps import __version__

    config = {
        "format": FORMAT,
        "imported": {"file": source, "abps": __version__},
        "seed": curve.seed,
        "task": {"name": curve.task},
        "search": {"name": curve.search},
    }
    return {
        "metrics.jsonl": b"".join(checked_json(row) for row in _metrics(curve)),
        "versions.json": (json.dumps(dict(versions), indent=1) + "\n").encode(),
        "DONE": f"imported from {source}\n".encode(),
        "config.yaml": yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode(),
    }


def _metrics(curve: Curve) -> Iterator[dict[str, Any]]:
    """One record per measurement, with the largest returns so far."""
    largest: dict[str, float] = {}
    for index in range(len(curve.values["return"])):
        record: dict[str, Any] = {"iteration": index}
        for name, values in curve.values.items():
            record[COLUMNS[name].metric] = values[index]
        for kind in ("return", "discounted"):
            if kind in curve.values:
                largest[kind] = max(largest.get(kind, -math.inf), curve.values[kind][index])
                record[f"max_{kind}"] = largest[kind]
        yield record


def _same(path: Path, content: Mapping[str, bytes]) -> bool:
    try:
        return (path / "metrics.jsonl").read_bytes() == content["metrics.jsonl"]
    except OSError:
        return False


def _write(contents: Mapping[Path, Mapping[str, bytes]]) -> None:
    """Write all runs under hidden names, then rename them; what cannot be written leaves nothing behind."""
    staged = {path: path.with_name(f".{path.name}.importing") for path in contents}
    try:
        for path, content in contents.items():
            shutil.rmtree(staged[path], ignore_errors=True)  # Left by a crash.
            staged[path].mkdir(parents=True)
            replace_together({staged[path] / name: data for name, data in content.items()})
        for path, temporary in staged.items():
            if path.exists():
                move_aside(path)
            temporary.rename(path)
            sync_directory(path.parent)
    except OSError as error:
        raise RunError(f"cannot write {error.filename or 'the runs'}: {error.strerror or error}") from error
    finally:
        _remove(staged.values())


def _remove(temporaries: Iterable[Path]) -> None:
    """Remove what is left of staging, and folders that were made in vain."""
    for temporary in temporaries:
        shutil.rmtree(temporary, ignore_errors=True)
        for folder in (temporary.parent, temporary.parent.parent):
            with suppress(OSError):  # Only an empty folder goes.
                folder.rmdir()


def _more(paths: Sequence[Path]) -> str:
    return f" and {len(paths) - 1} more" if len(paths) > 1 else ""
