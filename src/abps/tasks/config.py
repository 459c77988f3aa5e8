"""Settings of a task: which environment, how its episodes are scored, or which real system it is."""

from dataclasses import dataclass

from abps.settings import require, setting
from abps.tasks.limits import Limits

__all__ = ["HardwareConfig", "TaskConfig"]


@dataclass(frozen=True)
class TaskConfig:
    """What is to be controlled, and how its episodes are scored.

    Example:
        >>> import abps
        >>> abps.make_task(abps.TaskConfig(id="Pendulum-v1", name="swing", gamma=0.98)).spec.horizon
        200
    """

    id: str = setting("", "Gymnasium id or module:factory that makes the environment")
    name: str = setting("", "short name used in paths and reports")
    gamma: float = setting(
        0.99, "γ: discount factor of the return the search maximises; 1 for undiscounted", common=True
    )
    horizon: int = setting(0, "longest episode in steps; 0: the environment's own limit, or 1000", common=True)
    reward_scale: float | None = setting(
        None, "rewards are divided by this; none: found automatically, so that |J| stays near 1"
    )
    limits: Limits = setting(Limits(), "limits that every search keeps")


@dataclass(frozen=True)
class HardwareConfig:
    """A real system in place of an environment: the sizes and bounds that a simulator would have told us."""

    observations: int = setting(0, "numbers in one observation")
    action_low: tuple[float, ...] = setting((), "smallest value of every action")
    action_high: tuple[float, ...] = setting((), "largest value of every action")

    def __post_init__(self) -> None:
        require(self.observations >= 1, "observations must be at least 1: how many numbers does the robot observe?")
        require(len(self.action_low) >= 1, "action_low must list the smallest value of every action")
        require(
            len(self.action_low) == len(self.action_high), "action_low and action_high must list equally many numbers"
        )
