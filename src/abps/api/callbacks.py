"""Callbacks: functions that see a run while it trains, and may stop it."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from abps.errors import ConfigError
from abps.run.run import Run
from abps.search.base import Metrics, Search
from abps.trajectory import Outcome

__all__ = ["Callback", "CallbackObserver", "TrainingEvent", "checked_callbacks"]


@dataclass(frozen=True, eq=False)
class TrainingEvent:
    """What a callback is given after every told episode. It looks; nothing of it is to be changed.

    Example:
        >>> import abps
        >>> def good_enough(event: abps.TrainingEvent) -> str | None:
        ...     if event.metrics is not None and (event.metrics["eval_return"] or 0.0) >= 20.0:
        ...         return "20 is enough"
        >>> run = abps.train("pendulum", "ars", episodes=48, horizon=30, callbacks=good_enough)
        >>> run.result.stopped
        {'callback': '20 is enough'}
        >>> run.result.episodes
        6
    """

    outcome: Outcome
    """The episode: a `Trajectory`, or `Failed`."""
    episode: int
    """Its number, from 0 on."""
    metrics: Metrics | None
    """Of the outer iteration, when this episode completed one (docs/metrics.md lists them); else None."""
    search: Search[Any]
    """`search.incumbent` is the current policy, `search.iteration` counts outer iterations."""


Callback = Callable[[TrainingEvent], object]
"""Called after every told episode. A text that it returns ends the run and says why, and so does True; anything else
lets it go on."""


def checked_callbacks(callbacks: Callback | Sequence[Callback]) -> list[Callback]:
    """The callbacks as a list.

    Raises:
        ConfigError: one cannot be called.
    """
    listed: list[Any] = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    for item in listed:
        if not callable(item) or not _takes_one(item):
            raise ConfigError(f"a callback is a function that takes one TrainingEvent, got {item!r:.80}")
    return listed


def _takes_one(function: Callback) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # Built in, without a signature.
        return True
    return True


class CallbackObserver:
    """Hands events to callbacks, and their wishes to the run."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks
        self._metrics: Metrics | None = None

    def begin(self, run: Run) -> None: ...

    def iteration(self, run: Run, metrics: Metrics) -> None:
        self._metrics = metrics

    def episode(self, run: Run, outcome: Outcome) -> None:
        event = TrainingEvent(outcome, len(run.journal) - 1, self._metrics, run.search)
        self._metrics = None
        for callback in self._callbacks:
            answer = callback(event)
            if isinstance(answer, str) and answer:
                run.stop_requests["callback"] = answer
            elif answer is True:
                run.stop_requests["callback"] = f"{getattr(callback, '__name__', 'a callback')} said so"

    def end(self, run: Run, reasons: dict[str, str]) -> None: ...
