"""How a run is carried out; nothing here changes what is learned."""

from dataclasses import dataclass
from typing import Literal

from abps.settings import check_types, require, setting

__all__ = ["RunConfig"]


@dataclass(frozen=True)
class RunConfig:
    """How a run is carried out; nothing here changes what is learned."""

    workers: int = setting(1, "processes that run episodes; results do not change", common=True)
    minutes: float = setting(0.0, "stop after so much wall time; 0: no limit", common=True)
    evaluate_every: int = setting(1, "outer iterations between two evaluations; 0: never")
    evaluation_episodes: int = setting(5, "episodes of one evaluation, on their own environment and random stream")
    evaluate_probes: Literal["none", "best", "all"] = setting(
        "best", "which probes are evaluated beside the centre for the maximum so far"
    )
    timeout: float = setting(0.0, "seconds after which an episode counts as hung; 0: no limit")
    retries: int = setting(1, "times a failed episode is tried again with another seed")
    max_failures: int = setting(10, "failed episodes in a row after which the run stops")
    checkpoint_every: int = setting(1, "outer iterations between two checkpoints")
    checkpoint_stages: bool = setting(
        False, "also save a checkpoint after every stage inside an outer iteration (hardware runs do)"
    )

    def __post_init__(self) -> None:
        check_types(self)
        require(self.workers >= 1, "workers must be at least 1")
        for name in ("minutes", "evaluate_every", "evaluation_episodes", "timeout", "retries"):
            require(getattr(self, name) >= 0, f"{name} must not be negative")
        require(
            self.max_failures >= 1 and self.checkpoint_every >= 1,
            "max_failures and checkpoint_every must be at least 1",
        )
