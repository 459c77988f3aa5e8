"""TensorBoard and Weights & Biases (offline) as observers of a run; both are optional extras."""

from pathlib import Path
from typing import Any

from abps.errors import ConfigError
from abps.run.run import Run
from abps.search.base import Metrics
from abps.trajectory import Outcome

__all__ = ["LOGGERS", "TensorBoardLogger", "WandbLogger", "scalars"]


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


class _Logger:
    """Shared by both: only iterations are logged, against the number of training episodes."""

    def begin(self, run: Run) -> None: ...

    def episode(self, run: Run, outcome: Outcome) -> None: ...

    def end(self, run: Run, reasons: dict[str, str]) -> None: ...


class TensorBoardLogger(_Logger):
    """Writes event files to `<run>/tensorboard`."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ConfigError("TensorBoard logging needs tensorboardX: pip install 'abps[tensorboard]'") from error
        self._writer = SummaryWriter(str(path / "tensorboard"))
        del config

    def iteration(self, run: Run, metrics: Metrics) -> None:
        for name, value in scalars(metrics).items():
            self._writer.add_scalar(name, value, int(metrics["episodes"]))

    def end(self, run: Run, reasons: dict[str, str]) -> None:
        self._writer.close()


class WandbLogger(_Logger):
    """Writes an offline W&B run to `<run>/wandb`; `wandb sync` uploads it when there is a network."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigError("W&B logging needs wandb: pip install 'abps[wandb]'") from error
        self._run = wandb.init(project="abps", dir=str(path), mode="offline", config=config, name=path.name)

    def iteration(self, run: Run, metrics: Metrics) -> None:
        self._run.log(scalars(metrics), step=int(metrics["episodes"]))

    def end(self, run: Run, reasons: dict[str, str]) -> None:
        self._run.finish()


LOGGERS = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}
