"""Trials on disk: Optuna's journal in the study's folder, and which process works on which trial.

The journal is text, one line of JSON per event; nothing is pickled. Locks are the operating system's and end with the
process that holds them, however it dies: a trial that is under way and that nobody holds was interrupted, and is the
next one to be carried on.
"""

import fcntl
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from abps.errors import ConfigError, RunError
from abps.seeding import integer_seed
from abps.tuning.definition import Tuning

__all__ = ["exclusive", "load_optuna", "next_sampler", "open_study", "trial_folder"]

JOURNAL, LOCK, STUDY = "trials.log", "lock", "abps"

STARTUP_TRIALS = 5
"""Finished trials before any other is stopped early."""

BASE, FAILED, INVALID, RETURNS, SECONDS, STARTS = "base", "failed", "invalid", "returns", "seconds", "starts"
"""User attributes of a trial: whether it has the settings as they are, why it failed, why its settings exclude each
other, its returns per seed, its wall time, and how often it was started."""


def load_optuna() -> Any:
    """Import Optuna, without its messages.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("tuning needs Optuna: pip install 'abps[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def trial_folder(folder: Path, number: int) -> Path:
    """Where the runs of a trial are."""
    return folder / "trials" / f"{number:04d}"


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Be the only process that looks at which trials are free; others wait for the moment that it takes."""
    with _locked(folder / LOCK):
        yield


def open_study(folder: Path, tuning: Tuning) -> Any:
    """The Optuna study of a folder; a new one begins with the settings as they are.

    Raises:
        ConfigError: Optuna is not installed.
        RunError: the journal cannot be read.
    """
    optuna = load_optuna()
    file = folder / JOURNAL
    try:
        with exclusive(folder):
            backend = optuna.storages.journal.JournalFileBackend(str(file), lock_obj=FileLock(file))
            study = optuna.create_study(
                storage=optuna.storages.JournalStorage(backend),
                sampler=next_sampler(tuning, 0),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS),
                study_name=STUDY,
                direction="maximize",
                load_if_exists=True,
            )
            if not study.get_trials(deepcopy=False):
                study.enqueue_trial(tuning.space.defaults(tuning.base.search_config), user_attrs={BASE: True})
    except OSError as error:
        raise RunError(f"cannot open {file}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AssertionError, json.JSONDecodeError) as error:
        raise RunError(f"{file} is damaged: {error}; restore it from a copy, or take another folder") from error
    return study


def next_sampler(tuning: Tuning, number: int) -> Any:
    """The sampler of one trial; its random numbers have the trial's name, so that a resumed study draws the same."""
    return load_optuna().samplers.TPESampler(seed=integer_seed(tuning.base.seed, "tuning", number))


class FileLock:
    """The lock under which Optuna appends to its journal (its `BaseJournalFileLock`).

    Optuna's own locks are files that a killed process leaves behind; this one ends with its process. It also cuts off a
    line that a power loss left half written, which nobody could append to.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: list[ExitStack] = []

    def acquire(self) -> bool:
        """Wait until nobody else appends."""
        held = ExitStack()
        held.enter_context(_locked(self._file.with_name(self._file.name + ".lock")))
        self._held.append(held)
        cut_torn_line(self._file)
        return True

    def release(self) -> None:
        """Let others append."""
        self._held.pop().close()


def cut_torn_line(file: Path) -> None:
    """Cut off what follows the last whole line of a file: an event that was never reported to anybody."""
    with file.open("rb+") as content:
        end = content.seek(0, os.SEEK_END)
        keep = end
        while keep:
            start = max(0, keep - 4096)
            content.seek(start)
            newline = content.read(keep - start).rfind(b"\n")
            keep = start + newline + 1
            if newline >= 0:
                break
        if keep < end:
            content.truncate(keep)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
