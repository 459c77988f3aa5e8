"""The pool: results depend on jobs alone; workers that die, hang or were killed while idle are replaced."""

import os
import signal
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
import pytest

from abps.errors import TaskError
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.rollouts.pool import Job, make_pool
from abps.tasks.config import TaskConfig
from abps.tasks.gym import make_task
from abps.trajectory import Failed, Trajectory

TASK = TaskConfig(id="Pendulum-v1", name="swing-up", horizon=20)


def jobs_for(task, count):
    rng = np.random.default_rng(0)
    normaliser = Normaliser.empty(task.spec.observation_dim)
    space = PolicySpace(LinearTanh(), task.spec)
    return [Job(space.policy(rng.normal(size=space.size), normaliser), seed) for seed in range(count)]


def run_all(pool, jobs):
    results = dict(pool.run(jobs))
    assert sorted(results) == list(range(len(jobs)))
    return [results[number] for number in range(len(jobs))]


def same(one, other):
    return (
        isinstance(one, Trajectory)
        and isinstance(other, Trajectory)
        and (
            one.rewards.tobytes() == other.rewards.tobytes()
            and one.observations.tobytes() == other.observations.tobytes()
        )
    )


def test_any_number_of_workers_gives_the_same_episodes_and_idle_deaths_do_no_harm():
    task = make_task(TASK)
    jobs = jobs_for(task, 6)
    alone = make_pool(task)
    expected = run_all(alone, jobs)
    alone.close()
    assert not same(expected[0], expected[1])
    pool = make_pool(task, workers=2)
    try:
        assert all(map(same, expected, run_all(pool, jobs)))
        for worker in cast("Any", pool)._idle:
            os.kill(worker.process.pid, signal.SIGKILL)
            worker.process.join()
        assert all(map(same, expected, run_all(pool, jobs)))
    finally:
        pool.close()


class Fragile(gymnasium.Env):
    """Counts how often it is made and closed; every second episode raises."""

    made = closed = 0

    def __init__(self):
        type(self).made += 1
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        assert seed is not None
        if seed % 2:
            raise RuntimeError("odd seed")
        return np.zeros(2), {}

    def step(self, action):
        return np.zeros(2), 0.0, True, False, {}

    def close(self):
        type(self).closed += 1


@dataclass
class FragileTask:
    shared: bool
    fail: bool = False

    def make_env(self):
        if self.fail:
            raise RuntimeError("no licence")
        return Fragile()


def fragile_jobs():
    env = Fragile()
    spec = make_task(env).spec
    return [Job(PolicySpace(LinearTanh(), spec).policy(np.zeros(2), Normaliser.empty(2)), seed) for seed in range(4)]


def test_failed_environment_is_made_anew_and_a_lent_one_is_never_closed():
    jobs = fragile_jobs()
    for shared, closed in ((False, 2), (True, 0)):
        Fragile.made = Fragile.closed = 0
        pool = make_pool(FragileTask(shared))
        outcomes = run_all(pool, jobs)
        pool.close()
        assert [isinstance(outcome, Failed) for outcome in outcomes] == [False, True, False, True]
        assert Fragile.made == 2
        assert Fragile.closed == closed


def test_environment_that_cannot_be_made_is_a_failed_episode():
    pool = make_pool(FragileTask(shared=False, fail=True))
    (outcome,) = run_all(pool, fragile_jobs()[:1])
    assert outcome == Failed("the environment cannot be made: no licence")


def test_environment_object_needs_one_process():
    with pytest.raises(TaskError, match="this process only"):
        make_pool(make_task(Fragile()), workers=2)
