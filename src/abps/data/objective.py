"""What is maximised: the discounted return less a constant per step."""

from dataclasses import dataclass

from abps.trajectory import Trajectory

__all__ = ["Objective"]


@dataclass(frozen=True)
class Objective:
    """J = Σ γᵗ (r_t − shift), unscaled."""

    gamma: float
    shift: float = 0.0
    """Subtracted from every reward; the survival bonus that the original ARS removes."""

    def total(self, trajectory: Trajectory) -> float:
        """The objective of one episode."""
        return trajectory.total(self.gamma, self.shift)
