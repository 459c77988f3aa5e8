"""Critics: estimates of the centre's action values, and how good they are."""

from abps.config import CriticsConfig
from abps.critics.base import Centre as Centre
from abps.critics.base import Critics as Critics
from abps.critics.base import FitReport as FitReport
from abps.critics.base import InputScale as InputScale
from abps.policies import PolicyClass
from abps.tasks.spec import TaskSpec

__all__ = ["Centre", "Critics", "FitReport", "InputScale", "make_critics"]


def make_critics(config: CriticsConfig, spec: TaskSpec, policy_class: PolicyClass, seed: int) -> Critics:
    """Return untrained critics of the kind that `config.kind` names."""
    if config.kind == "droq":
        from abps.critics.droq import DroqCritics  # Only this kind needs jax, which takes seconds to import.

        return DroqCritics(config, spec, policy_class, seed)
    from abps.critics.closed_form import ClosedFormCritics

    return ClosedFormCritics(config, spec, policy_class, seed)
