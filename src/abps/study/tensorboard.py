"""TensorBoard event files from runs that exist, finished or under way, without training anything again."""

import json
from pathlib import Path
from typing import Any

from abps.errors import ConfigError
from abps.run.files import replace_atomically
from abps.run.loggers import scalars
from abps.study.progress import read_jsonl_from

__all__ = ["TensorBoardExport"]

NOTE = "exported.json"
"""Says how far a run was exported, so that exporting again adds what is new and repeats nothing."""


class TensorBoardExport:
    """Writes `<folder>/<task>/<search>/seed-<n>`; call `update` once, or again and again while runs go on."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ConfigError("the TensorBoard export needs tensorboardX: pip install 'abps[tensorboard]'") from error
        self._folder, self._make = folder, SummaryWriter

    def update(self, run: Path, least: int = 1) -> int:
        """Export the outer iterations of `run` that were not exported before; return how many.

        Args:
            run: a run directory.
            least: do nothing for fewer new iterations: every call that does something makes a file.

        Raises:
            ConfigError: the folder holds the export of another run of the same name.
        """
        target = self._folder.joinpath(*run.resolve().parts[-3:])
        rows, _, _ = read_jsonl_from(run / "metrics.jsonl", 0)
        done = _exported(target, run)
        if len(rows) - done < least:
            return 0
        began = (run / "metrics.jsonl").stat().st_mtime - _seconds(rows[-1])
        # One file per call; the suffix keeps two calls within one second apart. Only `close` is sure to write
        # everything.
        writer = self._make(str(target), filename_suffix=f".{done}")
        try:
            for row in rows[done:]:
                step = int(row.get("episodes") or 0)
                for name, value in scalars(row).items():
                    writer.add_scalar(name, value, step, walltime=began + _seconds(row))
        finally:
            writer.close()
        note = {"run": str(run.resolve()), "iterations": len(rows)}
        replace_atomically(target / NOTE, (json.dumps(note) + "\n").encode())
        return len(rows) - done


def _exported(target: Path, run: Path) -> int:
    try:
        note = json.loads((target / NOTE).read_text())
        known, iterations = note["run"], int(note["iterations"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    if known != str(run.resolve()):
        raise ConfigError(f"{target} holds the export of {known}; take another folder for {run}")
    return iterations


def _seconds(row: dict[str, Any]) -> float:
    value = row.get("seconds")
    return float(value) if isinstance(value, int | float) else 0.0
