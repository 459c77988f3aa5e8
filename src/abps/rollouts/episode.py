"""One episode of a deterministic policy in plain numpy: no jax, no copies, no work inside the control loop.

Shapes: T steps, s observation size, a action size.
"""

import traceback
from typing import Any

import numpy as np

from abps.errors import AbpsError, TaskError
from abps.policies import Policy
from abps.tasks.constraints import cost_reader
from abps.trajectory import Failed, Outcome, Trajectory

__all__ = ["attempt_episode", "run_episode"]


def run_episode(env: Any, policy: Policy, seed: int | None = None) -> Trajectory:
    """Run `policy` in `env` for one episode of at most `policy.spec.horizon` steps.

    The reward of the terminating step is kept. An episode that reaches the horizon is truncated, not terminated.

    Args:
        env: a Gymnasium environment (anything with `reset` and `step`).
        policy: the deterministic policy to run.
        seed: given to `env.reset`, one of `query.seeds` for results that can be repeated; None leaves the environment's
            own random numbers alone.

    Raises:
        TaskError: the environment breaks its contract, or reports no cost for a constraint of the task.
        ShapeError: the episode contains numbers that are not finite.

    Example:
        >>> import abps
        >>> task = abps.make_task("pendulum", horizon=20)
        >>> policy = abps.make_search("mpd", task.spec).ask().policy
        >>> trajectory = abps.run_episode(task.make_env(), policy, seed=0)
        >>> len(trajectory), trajectory.truncated
        (20, True)
    """
    if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TaskError(f"an episode is run with an environment and a policy (`query.policy`), got {policy!r:.80}")
    if not hasattr(env, "reset") or not hasattr(env, "step"):
        raise TaskError(f"an environment has `reset` and `step`, got {env!r:.80}")
    if seed is not None and (not hasattr(seed, "__index__") or seed < 0):
        raise TaskError(f"the seed of an episode is a whole number that is not negative, or None; got {seed!r:.80}")
    spec = policy.spec
    horizon = spec.horizon
    observations = np.empty((horizon + 1, spec.observation_dim))
    actions = np.empty((horizon, spec.action_dim))
    rewards = np.empty(horizon)
    costs = np.empty((horizon, len(spec.constraints)))
    read_costs = cost_reader(spec.constraints)
    step = env.step
    act = policy.start()
    observation, _ = env.reset(seed=seed)
    shape = (spec.observation_dim,)
    _check_observation(observation, spec.observation_dim)
    observations[0] = observation
    terminated = truncated = False
    time = 0
    while time < horizon:
        action = act(observation)
        actions[time] = action
        observation, reward, terminated, truncated, info = step(action)
        if np.shape(observation) != shape:
            _check_observation(observation, spec.observation_dim)
        rewards[time] = reward
        if read_costs is not None:
            costs[time] = read_costs(observation, action, reward, info)
        time += 1
        observations[time] = observation
        if terminated or truncated:
            break
    return Trajectory.build(
        observations[: time + 1],
        actions[:time],
        rewards[:time],
        terminated=bool(terminated),
        truncated=not terminated,
        costs=costs[:time],
    )


def attempt_episode(env: Any, policy: Policy, seed: int | None = None) -> Outcome:
    """`run_episode`, with everything an environment can do wrong turned into `Failed(reason)`.

    Example:
        >>> import abps
        >>> task = abps.make_task("pendulum", horizon=20)
        >>> env = task.make_env()
        >>> env.step = lambda action: 1 / 0
        >>> abps.attempt_episode(env, abps.make_search("mpd", task.spec).ask().policy, seed=0)
        Failed(reason='ZeroDivisionError: division by zero')
    """
    try:
        with np.errstate(all="ignore"):  # Numbers that are not finite are found when the episode is built.
            return run_episode(env, policy, seed)
    except AbpsError as error:
        return Failed(str(error))
    except (Exception, SystemExit) as error:  # An environment that calls sys.exit() must not end the run.
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())


def _check_observation(observation: Any, size: int) -> None:
    shape = np.shape(observation)
    if shape != (size,):
        raise TaskError(f"the environment returned an observation of shape {shape}; its space says ({size},)")
