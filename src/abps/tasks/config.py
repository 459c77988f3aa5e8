"""Settings of a task: which environment, how its episodes are scored, or which real system it is."""

from dataclasses import dataclass

from abps.keywords import read_keywords
from abps.settings import check_types, require, setting
from abps.tasks.constraints import read_constraints
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
    gamma: float = setting(0.99, "γ: discount of the return that is maximised; 1: none", common=True)
    horizon: int = setting(0, "longest episode in steps; 0: the environment's own limit, or 1000", common=True)
    reward_scale: float | None = setting(
        None, "rewards are divided by this; none: found automatically, so that |J| stays near 1"
    )
    limits: Limits = setting(Limits(), "limits that every search keeps")
    constraint: tuple[str, ...] = setting(
        (), "cost that episodes keep below a limit: name<=limit, name<=limit(probability=0.95,reduce=max); repeatable"
    )
    env_kwargs: tuple[str, ...] = setting(
        (), "keyword arguments that the environment is made with: key=value, or a JSON object; may be repeated"
    )
    wrapper: tuple[str, ...] = setting(
        (), "wrappers around it, the innermost first: Name of gymnasium.wrappers, module:Name, module:Name(key=value)"
    )

    def __post_init__(self) -> None:
        check_types(self)
        read_keywords(self.env_kwargs, "env_kwargs")
        read_constraints(self.constraint)


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
