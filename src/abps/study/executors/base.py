"""The contract of an executor: it starts cells, says what became of them, and stops them all. It decides nothing."""

from typing import NamedTuple, Protocol

from abps.errors import ConfigError
from abps.study.grid import Cell

__all__ = ["EXECUTORS", "Executor", "Outcome", "make_executor"]

EXECUTORS = ("local", "ray")


class Outcome(NamedTuple):
    """What became of a started cell."""

    cell: Cell
    result: str
    """done; failed: a reason that would come back; died: the process was lost; busy: another process has the run;
    interrupted: it was stopped on request."""
    message: str = ""


class Executor(Protocol):
    """A place where cells run."""

    def describe(self) -> str:
        """One phrase for the reader: what runs where."""
        ...

    def room(self) -> int:
        """How many more cells may be started now."""
        ...

    def start(self, cell: Cell) -> None:
        """Start a cell; returns at once."""
        ...

    def poll(self) -> list[Outcome]:
        """Return what ended since the last call; never waits."""
        ...

    def stop(self) -> None:
        """Stop all cells cleanly, by force after a while; every finished episode is saved."""
        ...


def make_executor(name: str, *, jobs: int | None = None, address: str | None = None, workers: int = 1) -> Executor:
    """Make an executor by name.

    Args:
        name: one of `EXECUTORS`.
        jobs: cells at the same time; None: as many as there are cores (local), as many as Ray has room for (ray).
        address: a Ray cluster's address; None: the one in RAY_ADDRESS, or a new one on this machine.
        workers: processes that one cell uses for its episodes.

    Raises:
        ConfigError: unknown name, a number out of range, or Ray is not installed.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"the number of jobs must be at least 1, got {jobs}")
    if name == "local":
        if address is not None:
            raise ConfigError("an address is for --executor ray; the local executor has none")
        from abps.study.executors.local import LocalExecutor

        return LocalExecutor(jobs, workers)
    if name == "ray":
        from abps.study.executors.ray import RayExecutor

        return RayExecutor(address, jobs, workers)
    raise ConfigError(f"unknown executor {name!r}; known: {', '.join(EXECUTORS)}")
