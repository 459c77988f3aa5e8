"""`auto`: the search that suits a task and a budget, by a small table that was derived from measurements.

`RULE` is written by `python benchmarks/peers/which.py rule --write` from the committed results of all searches on 17
tasks (docs/guides/which_search.md); `tests/search/test_auto.py` derives it again and compares. A *weight* is one number
of a linear policy: observations × actions. A run never knows `auto`: what is saved is the search that it chose.
"""

import math
import sys
from typing import NamedTuple

from abps.search.budget import BudgetConfig
from abps.tasks.spec import TaskSpec
from abps.words import count

__all__ = ["AUTO", "RULE", "Choice", "Row", "choose_search"]

AUTO = "auto"
"""Where a search is named: choose one."""

PAGE = "docs/guides/which_search.md"


class Row(NamedTuple):
    """One line of the rule: what to take up to a number of weights and of episodes."""

    weights: float
    episodes: float
    search: str
    share: float
    """Mean share of the best search's improvement over the untrained policy, on measured tasks like this."""
    rival: str
    """The best other search there."""
    rival_share: float
    tasks: int
    """How many tasks those were; tasks of all sizes, where fewer than three of this size were measured."""


# which.py begins
RULE: tuple[Row, ...] = (
    Row(8, 40, "snes", 0.83, "abs", 0.67, 4),
    Row(8, 80, "abs", 0.81, "snes", 0.84, 4),
    Row(8, 170, "abs", 0.98, "cma", 1.0, 4),
    Row(8, math.inf, "abs", 0.97, "crbo", 0.81, 5),
    Row(40, 40, "abs", 0.93, "snes", 0.42, 5),
    Row(40, 80, "abs", 1.0, "crbo", 0.31, 6),
    Row(40, 170, "abs", 0.98, "snes", 0.44, 8),
    Row(40, math.inf, "abs", 0.97, "crbo", 0.81, 5),
    Row(math.inf, 40, "abs", 0.85, "snes", 0.49, 11),
    Row(math.inf, 80, "abs", 0.94, "crbo", 0.45, 12),
    Row(math.inf, 170, "abs", 1.0, "crbo", 0.48, 4),
    Row(math.inf, math.inf, "abs", 0.97, "crbo", 0.81, 5),
)
# which.py ends
"""The first row that a task and its budget fit into counts; the last one fits all."""


class Choice(NamedTuple):
    """A search, and one sentence about why it was chosen."""

    search: str
    reason: str

    def announce(self, before: str = "", *, quiet: bool = False) -> str:
        """Print the sentence on standard error, unless it is to be quiet, and return the search's name."""
        if not quiet:
            print(before + self.reason, file=sys.stderr)
        return self.search


def choose_search(spec: TaskSpec, budget: BudgetConfig | None = None) -> Choice:
    """Choose a search by the size of a task and the number of episodes.

    Args:
        spec: the task; its numbers of observations and actions count.
        budget: its episodes count; None or no limit of episodes: as many as it takes.

    Example:
        >>> import abps
        >>> choice = abps.choose_search(abps.make_task("walker").spec, abps.BudgetConfig(episodes=100))
        >>> choice.search
        'abs'
    """
    weights = spec.observation_dim * spec.action_dim
    episodes = (budget.episodes if budget is not None else 0) or math.inf
    row = next(row for row in RULE if weights <= row.weights and episodes <= row.episodes)
    length = "any number of episodes" if episodes == math.inf else count(int(episodes), "episode")
    measured = f"it had {100 * row.share:.0f} % of the best search's improvement on {count(row.tasks, 'task')}"
    beside = f"{row.rival} {100 * row.rival_share:.0f} %{', which is level' if row.rival_share > row.share else ''}"
    reason = f"auto chose {row.search} for {count(weights, 'weight')} and {length}: {measured}, {beside} ({PAGE})."
    return Choice(row.search, reason)
