"""TensorBoard and Weights & Biases (offline) as observers of a run; both are optional extras.

A logger that cannot begin is an error, before the first episode; one that fails later is left out, with a note: what it
would have written is in metrics.jsonl all the same.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from abps.errors import ConfigError
from abps.run.run import Run
from abps.search.base import Metrics
from abps.trajectory import Outcome

__all__ = ["LOGGERS", "LogWriter", "Logger", "TensorBoardWriter", "WandbWriter", "open_loggers", "scalars"]


def scalars(metrics: Metrics) -> dict[str, float]:
    """The numbers of a metrics record, lists spread out as name/0, name/1, …"""
    flat: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float):
            flat[name] = float(value)
        elif isinstance(value, list):
            flat.update({f"{name}/{k}": float(part) for k, part in enumerate(value) if isinstance(part, int | float)})
    return flat


class LogWriter(ABC):
    """Where the numbers of outer iterations go, against the number of training episodes."""

    @abstractmethod
    def write(self, numbers: dict[str, float], episodes: int) -> None:
        """Log one outer iteration."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left."""


class TensorBoardWriter(LogWriter):
    """Writes event files to `<run>/tensorboard`."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ConfigError("TensorBoard logging needs tensorboardX: pip install 'abps[tensorboard]'") from error
        self._writer = SummaryWriter(str(path / "tensorboard"))
        del config

    def write(self, numbers: dict[str, float], episodes: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, episodes)

    def close(self) -> None:
        self._writer.close()


class WandbWriter(LogWriter):
    """Writes an offline W&B run to `<run>/wandb`; `wandb sync` uploads it when there is a network."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigError("W&B logging needs wandb: pip install 'abps[wandb]'") from error
        self._run = wandb.init(project="abps", dir=str(path), mode="offline", config=config, name=path.name)

    def write(self, numbers: dict[str, float], episodes: int) -> None:
        self._run.log(numbers, step=episodes)

    def close(self) -> None:
        self._run.finish()


LOGGERS: dict[str, Callable[[Path, dict[str, Any]], LogWriter]] = {
    "tensorboard": TensorBoardWriter,
    "wandb": WandbWriter,
}


class Logger:
    """An observer that hands every outer iteration to a writer, until the writer fails."""

    def __init__(self, name: str, writer: LogWriter) -> None:
        self._name, self._writer = name, writer
        self._failed = False

    def begin(self, run: Run) -> None: ...

    def episode(self, run: Run, outcome: Outcome) -> None: ...

    def iteration(self, run: Run, metrics: Metrics) -> None:
        self._guarded(lambda: self._writer.write(scalars(metrics), int(metrics["episodes"])))

    def end(self, run: Run, reasons: dict[str, str]) -> None:
        self._guarded(self._writer.close)

    def _guarded(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # Whatever a logger does, the run is worth more.
            self._failed = True
            print(
                f"note: logging to {self._name} failed ({type(error).__name__}: {error}); the run goes on without it",
                file=sys.stderr,
            )


def open_loggers(names: Iterable[str], path: Path, config: dict[str, Any]) -> list[Logger]:
    """Begin to log a run, each name once.

    Args:
        names: of `LOGGERS`.
        path: the run's directory.
        config: its settings, for loggers that show them.

    Raises:
        ConfigError: a logger is not installed, or cannot begin.
    """
    found: list[Logger] = []
    for name in dict.fromkeys(names):
        try:
            found.append(Logger(name, LOGGERS[name](path, config)))
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"cannot log to {name}: {type(error).__name__}: {error}; leave out --log {name}"
            ) from error
    return found
