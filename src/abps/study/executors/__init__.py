"""Where cells run: in local processes or on a Ray cluster. Contract: `base`; `schedule` decides what runs."""

from abps.study.executors.base import Executor as Executor
from abps.study.executors.base import Outcome as Outcome
from abps.study.executors.base import make_executor as make_executor

__all__ = ["Executor", "Outcome", "make_executor"]
