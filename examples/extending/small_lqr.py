"""The task that the examples train on: a small linear-quadratic one, an episode takes a millisecond."""

from abps.tasks.lqr import LqrEnv
from abps.tasks.lqr import make_env as random_lqr


def make_env() -> LqrEnv:
    """Two states, one action in [−4, 4], 30 steps, always from the same state; as a task: `small_lqr:make_env`."""
    return random_lqr(2, 1, seed=3, fixed_start=True, horizon=30, action_bound=4.0)
