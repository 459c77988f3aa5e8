"""Constraints: costs that an episode reports, their limits, and how surely a search is to keep them.

They belong to the task, as its limits do: an environment or a robot reports one cost per step and constraint, an
episode's cost is the largest or the sum of its steps, and every search keeps P(cost ≤ limit) ≥ probability for the
policies it asks for (`search/constraints.py`). As text a constraint is `wall<=2.4`, or with further settings
`wall<=2.4(probability=0.9, reduce=sum)`. Shapes: T steps, c constraints.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError, TaskError
from abps.keywords import call_parts, read_keywords
from abps.registry import import_object, nearest
from abps.settings import check_types, require, setting

__all__ = ["Constraint", "CostReader", "cost_reader", "read_constraints"]

CostReader = Callable[[Any, Any, float, Any], list[float]]
"""(observation, action, reward, info) of one step → its costs, one per constraint."""

EXAMPLE = "write it as 'wall<=2.4' or 'wall<=2.4(probability=0.9, reduce=sum)'"


@dataclass(frozen=True)
class Constraint:
    """A cost of every episode that is to stay at or below a limit.

    Example:
        >>> import abps
        >>> constraint = abps.Constraint("torque", limit=5.0, probability=0.9)
        >>> str(constraint)
        'torque<=5.0(probability=0.9)'
        >>> constraint.episode_cost([1.0, 4.5, 2.0])
        4.5
    """

    name: str = setting("", "name of the cost: letters, digits and _; of its array or column in a robot's file, too")
    limit: float = setting(0.0, "largest allowed cost of an episode")
    probability: float = setting(0.95, "wanted probability that an episode's cost is within the limit, in (0.5, 1)")
    reduce: Literal["max", "sum"] = setting("max", "an episode's cost: the largest of its steps' costs, or their sum")
    source: str = setting(
        "cost",
        "where a simulated step's cost is found: a key of Gymnasium's info (a number, or numbers by name), or "
        "module:function of (observation, action, reward, info)",
    )

    def __post_init__(self) -> None:
        check_types(self)
        plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name)
        require(plain is not None, f"a constraint's name must be letters, digits and _, got {self.name!r}")
        where = f"constraint {self.name}"
        require(bool(np.isfinite(self.limit)), f"{where}: limit must be a finite number, got {self.limit}")
        inside = 0.5 < self.probability < 1.0
        require(inside, f"{where}: probability must be above 0.5 and below 1, got {self.probability}")
        require(bool(self.source), f"{where}: source must be a key of info, or module:function")
        plain = self.source.isprintable() and not set(self.source) & set('"\\')
        require(plain, f"{where}: source must be printable, without double quotes and backslashes, got {self.source!r}")

    @classmethod
    def parse(cls, text: str) -> "Constraint":
        """Read a constraint from text.

        Raises:
            ConfigError: it is none.
        """
        if not text.isprintable():
            raise ConfigError(f"a constraint is one line of printable text, got {text!r}; {EXAMPLE}")
        head, given = call_parts(text)
        name, within, limit = (part.strip() for part in head.partition("<="))
        if not within:
            raise ConfigError(f"a constraint needs a limit, got {text!r}; {EXAMPLE}")
        known = [item.name for item in fields(cls) if item.name not in ("name", "limit")]
        for key in given:
            if key not in known:
                raise ConfigError(f"constraint {name} has no setting {key!r}{nearest(key, known)}")
        try:
            return cls(name, float(limit), **given)
        except ValueError as error:
            raise ConfigError(f"constraint {name}: limit must be a number, got {limit!r}; {EXAMPLE}") from error

    def __str__(self) -> str:
        changed = [item for item in fields(self)[2:] if getattr(self, item.name) != item.default]
        inside = ", ".join(f"{item.name}={_as_text(getattr(self, item.name))}" for item in changed)
        return f"{self.name}<={self.limit!r}" + (f"({inside})" if inside else "")

    def episode_cost(self, costs: Sequence[float] | Array) -> float:
        """The cost of an episode from its steps' costs (T,)."""
        steps = np.asarray(costs, dtype=np.float64)
        return float(steps.max() if self.reduce == "max" else steps.sum())

    def of_episode(self, cost: float, steps: int) -> Array:
        """Steps' costs (T,) of an episode for which only one number is known: they have that number as its cost."""
        if self.reduce == "max":
            return np.full(steps, cost)
        costs = np.zeros(steps)
        costs[-1] = cost
        return costs


def read_constraints(texts: Iterable[str]) -> tuple[Constraint, ...]:
    """The constraints of texts.

    Raises:
        ConfigError: one of them is none, or two have the same name.
    """
    found = tuple(Constraint.parse(text) for text in texts)
    names = [constraint.name for constraint in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    require(twice is None, f"two constraints are called {twice!r}; every one needs a name of its own")
    return found


def cost_reader(constraints: Sequence[Constraint]) -> CostReader | None:
    """What reads all costs of a step; None where there are no constraints.

    Raises:
        ConfigError: a function cannot be imported.
    """
    if not constraints:
        return None
    readers = [_reader(constraint) for constraint in constraints]

    def read(observation: Any, action: Any, reward: float, info: Any) -> list[float]:
        return [reader(observation, action, reward, info) for reader in readers]

    return read


def _reader(constraint: Constraint) -> Callable[[Any, Any, float, Any], float]:
    name, source = constraint.name, constraint.source
    if ":" in source:
        function = import_object(source)
        if not callable(function):
            raise ConfigError(f"constraint {name}: {source!r} is a {type(function).__name__}, not a function")
        return lambda *step: _number(function(*step), f"{source} returned")

    def read(observation: Any, action: Any, reward: float, info: Any) -> float:
        if source not in info:
            keys = ", ".join(map(str, info)) or "nothing"
            raise TaskError(
                f"constraint {name}: the environment's info has no {source!r} (it has {keys}); report it in `step`, "
                "or name a key or module:function as the constraint's source"
            )
        value = info[source]
        if isinstance(value, dict):
            if name not in value:
                raise TaskError(f"constraint {name}: info[{source!r}] has no {name!r}; it has {', '.join(value)}")
            value = value[name]
        return _number(value, f"info[{source!r}] is")

    return read


def _as_text(value: float | str) -> str:
    """A setting as `Constraint.parse` reads it; a text that would be read as something else is quoted."""
    text = str(value)
    simple = re.fullmatch(r"[\w.:/-]+", text) and read_keywords([f"value={text}"]) == {"value": value}
    return text if simple else f'"{text}"'


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TaskError(f"a cost must be one number per step; {what} {value!r:.80}") from error
