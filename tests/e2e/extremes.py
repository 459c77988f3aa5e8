"""Random small problems at the edge of floating point: tiny and huge rewards, constant returns, coinciding
parameters, no noise.

Used by tests/e2e/test_extreme.py (a sample) and benchmarks/kill/extreme_problems.py (200 problems for every search). A
problem is named by its seed; `solve` runs a search on it to the end and raises when a number that leaves the search is
not finite.
"""

import dataclasses
from typing import Any

import killing
import numpy as np
from threadpoolctl import threadpool_limits

from abps.policies.linear import ClippedLinear, LinearTanh
from abps.policies.observations import RawObservations, RunningNormaliser
from abps.search.budget import BudgetConfig
from abps.search.registry import make_search
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

KINDS = ("quadratic", "constant", "zero", "cliff", "sparse", "noise only")


@dataclasses.dataclass(frozen=True)
class Problem:
    """A few steps of a linear system with a reward of some shape and size."""

    seed: int
    kind: str
    scale: float
    offset: float
    noise: float
    failing: float
    spec: TaskSpec
    design_std: float
    config: dict[str, Any]
    """Further settings of the search."""

    def episode(self, policy: Any, number: int) -> Trajectory | Failed:
        """Run one episode; the same number gives the same episode."""
        rng = np.random.default_rng([self.seed, number])
        if rng.random() < self.failing:
            return Failed("by chance")
        steps, size = self.spec.horizon, self.spec.observation_dim
        states, actions, rewards = [self._start(rng, size)], [], []
        for _ in range(steps):
            action = policy(states[-1])
            actions.append(action)
            rewards.append(
                self.scale * (self._reward(states[-1], action, rng) + self.noise * rng.normal()) + self.offset
            )
            states.append(0.5 * states[-1] + 0.5 * np.resize(action, size) + self.noise * rng.normal(size=size))
        ended = bool(rng.random() < 0.5)
        return Trajectory.build(states, actions, rewards, terminated=ended, truncated=not ended)

    def _start(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.ones(size) if self.noise == 0.0 else np.ones(size) + self.noise * rng.normal(size=size)

    def _reward(self, state: np.ndarray, action: np.ndarray, rng: np.random.Generator) -> float:
        value = float(np.mean(np.square(action - 0.3)))
        return {
            "quadratic": -value,
            "constant": 1.0,
            "zero": 0.0,
            "cliff": -1e6 if action[0] > 0.0 else 1.0 - value,
            "sparse": float(value < 0.01),
            "noise only": rng.normal(),
        }[self.kind]


def problem(seed: int) -> Problem:
    """Draw a problem."""
    rng = np.random.default_rng([2, seed])
    observations, actions = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    scale = float(10.0 ** rng.uniform(-8.0, 8.0))
    span = float(10.0 ** rng.uniform(-3.0, 3.0))
    spec = TaskSpec(
        "extreme",
        observations,
        actions,
        (-span,) * actions,
        (span,) * actions,
        gamma=float(rng.choice([0.9, 0.99, 1.0])),
        horizon=int(rng.choice([1, 3])),
        reward_scale=None if rng.random() < 0.7 else float(10.0 ** rng.uniform(-8.0, 8.0)),
    )
    shift, normalise = float(rng.choice([0.0, 1.0])), bool(rng.random() < 0.5)
    policy = ClippedLinear() if str(rng.choice(["linear-tanh", "direct"])) == "direct" else LinearTanh()
    return Problem(
        seed=seed,
        kind=str(rng.choice(KINDS)),
        scale=scale,
        offset=float(rng.choice([0.0, 1e8, -1e8, 1.0])),
        noise=float(rng.choice([0.0, 0.0, 1e-8, 0.1, 10.0])),
        failing=float(rng.choice([0.0, 0.0, 0.3])),
        spec=spec,
        design_std=float(rng.choice([0.025, 1e-12, 1e-300, 10.0])),
        config={
            "reward_shift": shift,
            "policy": policy,
            "observations": RunningNormaliser(remap=bool(rng.random() < 0.3)) if normalise else RawObservations(),
        },
    )


def config_for(search: str, task: Problem) -> Any:
    """Small settings; the parameters of probes coincide when `design_std` is nothing beside the centre."""
    tiny = task.design_std < 1e-6
    return killing.tiny_config(search, design_std=task.design_std, radius=1e-9 if tiny else 0.1, **task.config)


def solve(search: str, task: Problem, iterations: int = 3) -> dict[str, Any]:
    """Run a search for a few outer iterations; return its last metrics.

    Raises:
        ArithmeticError: a policy or a metric is not finite.
    """
    with threadpool_limits(1):  # As a run does it: threads only hinder on matrices of this size.
        return _solve(search, task, iterations)


def _solve(search: str, task: Problem, iterations: int) -> dict[str, Any]:
    solver = make_search(
        killing.registered(search),
        task.spec,
        config_for(search, task),
        seed=task.seed,
        budget=BudgetConfig(episodes=60),
    )
    number, last = 0, {}
    while solver.iteration < iterations and not solver.stop():
        query = solver.ask()
        if not np.all(np.isfinite(query.parameters)):
            raise ArithmeticError(f"{search} asks for {query.parameters}")
        outcomes = [task.episode(query.policy, number + k) for k in range(query.episodes)]
        number += query.episodes
        last = solver.tell(query, outcomes) or last
    for name, value in last.items():
        if not _is_finite(value):
            raise ArithmeticError(f"{search} reports {name} = {value}")
    if not np.all(np.isfinite(solver.centre)):
        raise ArithmeticError(f"{search} stands at {solver.centre}")
    return last


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or bool(np.isfinite(value))
