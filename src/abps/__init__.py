"""abps: good deterministic policies in few episodes (Augmented Bayesian Policy Search and its peers).

The public names, nothing else. They are imported when they are first used, so that `import abps` and `abps --help` are
quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "AbpsError",
    "ArsConfig",
    "BudgetConfig",
    "Comparison",
    "ConfigError",
    "Constraint",
    "Evaluation",
    "Failed",
    "Limits",
    "LocalSearchConfig",
    "Normaliser",
    "NumericsError",
    "Policy",
    "PopulationConfig",
    "Query",
    "RunError",
    "RunResult",
    "SearchResult",
    "ShapeError",
    "Task",
    "TaskConfig",
    "TaskError",
    "TaskSpec",
    "TrainedRun",
    "TrainingEvent",
    "Trajectory",
    "TuningResult",
    "__version__",
    "attempt_episode",
    "choose_search",
    "compare",
    "load",
    "load_policy",
    "make_search",
    "make_task",
    "register",
    "register_search",
    "run_episode",
    "search_config",
    "task_config",
    "train",
    "tune",
]

if TYPE_CHECKING:
    from abps.api.callbacks import TrainingEvent
    from abps.api.compare import Comparison, compare
    from abps.api.train import train
    from abps.api.trained import RunResult, TrainedRun, load
    from abps.api.tune import tune
    from abps.errors import AbpsError, ConfigError, NumericsError, RunError, ShapeError, TaskError
    from abps.normaliser import Normaliser
    from abps.policies import Policy, load_policy
    from abps.registry import register
    from abps.rollouts.episode import attempt_episode, run_episode
    from abps.run.evaluation import Evaluation
    from abps.search.ars import ArsConfig
    from abps.search.auto import choose_search
    from abps.search.base import Query, SearchResult
    from abps.search.budget import BudgetConfig
    from abps.search.local import LocalSearchConfig
    from abps.search.population import PopulationConfig
    from abps.search.registry import make_search, register_search, search_config
    from abps.tasks.catalogue import task_config
    from abps.tasks.config import TaskConfig
    from abps.tasks.constraints import Constraint
    from abps.tasks.gym import Task, make_task
    from abps.tasks.limits import Limits
    from abps.tasks.spec import TaskSpec
    from abps.trajectory import Failed, Trajectory
    from abps.tuning.results import TuningResult

_HOMES = {
    "abps.api.callbacks": ("TrainingEvent",),
    "abps.api.compare": ("Comparison", "compare"),
    "abps.api.train": ("train",),
    "abps.api.trained": ("RunResult", "TrainedRun", "load"),
    "abps.api.tune": ("tune",),
    "abps.errors": ("AbpsError", "ConfigError", "NumericsError", "RunError", "ShapeError", "TaskError"),
    "abps.normaliser": ("Normaliser",),
    "abps.policies": ("Policy", "load_policy"),
    "abps.registry": ("register",),
    "abps.rollouts.episode": ("attempt_episode", "run_episode"),
    "abps.run.evaluation": ("Evaluation",),
    "abps.search.ars": ("ArsConfig",),
    "abps.search.auto": ("choose_search",),
    "abps.search.base": ("Query", "SearchResult"),
    "abps.search.budget": ("BudgetConfig",),
    "abps.search.local": ("LocalSearchConfig",),
    "abps.search.population": ("PopulationConfig",),
    "abps.search.registry": ("make_search", "register_search", "search_config"),
    "abps.tasks.catalogue": ("task_config",),
    "abps.tasks.config": ("TaskConfig",),
    "abps.tasks.gym": ("Task", "make_task"),
    "abps.tasks.constraints": ("Constraint",),
    "abps.tasks.limits": ("Limits",),
    "abps.tasks.spec": ("TaskSpec",),
    "abps.trajectory": ("Failed", "Trajectory"),
    "abps.tuning.results": ("TuningResult",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'abps' has no public name {name!r}; public are {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
