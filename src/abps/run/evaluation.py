"""Evaluation: fresh episodes on their own environment and random stream, which training never sees."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from abps.policies import Policy
from abps.rollouts.pool import Job, Pool
from abps.seeding import integer_seed
from abps.trajectory import Trajectory

__all__ = ["Evaluation", "evaluate"]


class Evaluation(NamedTuple):
    """Returns of fresh episodes of one policy; failed episodes are left out and counted.

    Example:
        >>> import abps
        >>> evaluation = abps.train("pendulum", "ars", episodes=16, horizon=20).evaluate(episodes=3)
        >>> len(evaluation.returns), evaluation.mean, evaluation.failed
        (3, 20.0, 0)
    """

    returns: tuple[float, ...]
    """Undiscounted, one per episode that worked."""
    discounted: tuple[float, ...]
    steps: int
    failed: int

    @property
    def mean(self) -> float | None:
        """Mean undiscounted return; None when every episode failed."""
        return float(np.mean(self.returns)) if self.returns else None

    @property
    def std(self) -> float | None:
        """Standard deviation over episodes."""
        return float(np.std(self.returns)) if self.returns else None

    @property
    def mean_discounted(self) -> float | None:
        """Mean discounted return."""
        return float(np.mean(self.discounted)) if self.discounted else None


def evaluate(pool: Pool, policies: Sequence[Policy], episodes: int, seed: int, *path: Any) -> list[Evaluation]:
    """Run every policy `episodes` times; all policies meet the same initial states (common random numbers)."""
    seeds = [integer_seed(seed, "evaluation", *path, number) for number in range(episodes)]
    jobs = [Job(policy, job_seed) for policy in policies for job_seed in seeds]
    outcomes = dict(pool.run(jobs))
    return [_summarise([outcomes[k * episodes + n] for n in range(episodes)], p) for k, p in enumerate(policies)]


def _summarise(outcomes: Sequence[Any], policy: Policy) -> Evaluation:
    worked = [outcome for outcome in outcomes if isinstance(outcome, Trajectory)]
    return Evaluation(
        tuple(trajectory.total() for trajectory in worked),
        tuple(trajectory.total(policy.spec.gamma) for trajectory in worked),
        sum(len(trajectory) for trajectory in worked),
        len(outcomes) - len(worked),
    )
