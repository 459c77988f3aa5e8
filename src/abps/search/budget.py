"""When a search stops."""

from dataclasses import dataclass

from abps.settings import check_types, require, setting

__all__ = ["DEFAULT_EPISODES", "BudgetConfig"]

DEFAULT_EPISODES = 300
"""The paper's budgets are long; a first run should end soon."""


@dataclass(frozen=True)
class BudgetConfig:
    """When a search stops; 0 or none switches a condition off. The query under way is always finished.

    Example:
        >>> import abps
        >>> search = abps.make_search("mpd", abps.make_task("pendulum").spec, budget=abps.BudgetConfig(episodes=50))
        >>> search.stop()
        {}
    """

    episodes: int = setting(0, "training episodes, all of them counted", common=True)
    steps: int = setting(0, "training environment steps")
    target: float | None = setting(None, "stop when a centre's mean return (undiscounted) is this", common=True)
    plateau: int = setting(0, "stop after so many outer iterations without a better centre")

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("episodes", "steps", "plateau"):
            require(getattr(self, name) >= 0, f"{name} must not be negative")
