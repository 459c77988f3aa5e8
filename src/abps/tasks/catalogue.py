"""The tasks known by a short name: the paper's six (its Table 1, and what FACTS adds), and defaults for every other
task."""

from dataclasses import dataclass

from abps.errors import ConfigError
from abps.tasks.config import TaskConfig

__all__ = ["PAPER_TASKS", "PaperTask", "paper_task", "task_config"]


@dataclass(frozen=True)
class PaperTask:
    """One of the paper's tasks."""

    env: str
    """Gymnasium's name without the version."""
    gamma: float
    reward_scale: float
    normalise: bool
    """Whether the paper's policies see normalised observations."""
    episodes: int
    """Episodes on the paper's x-axis."""


PAPER_TASKS: dict[str, PaperTask] = {
    "pendulum": PaperTask("InvertedPendulum", 0.99, 100.0, False, 1000),
    "swimmer": PaperTask("Swimmer", 0.995, 65.0, False, 1000),
    "hopper": PaperTask("Hopper", 0.99, 270.0, True, 5000),
    "cheetah": PaperTask("HalfCheetah", 0.99, 400.0, True, 5000),
    "walker": PaperTask("Walker2d", 0.99, 300.0, True, 14000),
    "ant": PaperTask("Ant", 0.99, 400.0, True, 14000),
}


def paper_task(name: str) -> str:
    """The paper's short name behind `hopper`, `hopper-v4` or `hopper-v5`; "" for every other task."""
    short, _, version = name.partition("-")
    return short if short in PAPER_TASKS and version in ("", "v4", "v5") else ""


def task_config(name: str) -> TaskConfig:
    """Settings of a task by short name (`hopper`, `hopper-v5`), Gymnasium id, or `module:factory`.

    Raises:
        ConfigError: the name is empty.

    Example:
        >>> import abps
        >>> abps.task_config("hopper").id, abps.task_config("hopper-v5").id, abps.task_config("Pendulum-v1").id
        ('Hopper-v4', 'Hopper-v5', 'Pendulum-v1')
    """
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError("a task needs a name: one of `abps tasks`, a Gymnasium id, or module:factory")
    short = paper_task(name)
    if not short:
        return TaskConfig(id=name, name=name)
    row = PAPER_TASKS[short]
    version = name.partition("-")[2] or "v4"
    return TaskConfig(id=f"{row.env}-{version}", name=name, gamma=row.gamma, reward_scale=row.reward_scale)
