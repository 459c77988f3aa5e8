"""Environments that break in every way we could think of, as tasks by `module:factory`."""

import os
import sys
import time
from pathlib import Path

import numpy as np
from killing import TinyEnv

MARKER = "ABPS_TEST_MARKER"
"""Name of the variable that holds the path of the file by which the environments below are told to behave."""


class Raises(TinyEnv):
    def step(self, action):
        raise RuntimeError("the simulator broke")


class RaisesInReset(TinyEnv):
    def reset(self, *, seed=None, options=None):
        raise ValueError("no initial state")


class RaisesStrangeText(TinyEnv):
    """Text that is long, has lone surrogates, newlines, and what a terminal library takes for markup."""

    def step(self, action):
        raise RuntimeError("[/red] \ud800 broke\n" + "x" * 1_000_000)


class NanReward(TinyEnv):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class InfiniteObservation(TinyEnv):
    def step(self, action):
        _, *rest = super().step(action)
        return np.full(3, np.inf), *rest


class HugeObservation(TinyEnv):
    """Finite as float64, infinite as float32."""

    def step(self, action):
        _, *rest = super().step(action)
        return np.full(3, 1e300), *rest


class HugeReward(TinyEnv):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, 1e308, *rest


class WrongShape(TinyEnv):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return observation[:2], info


class ShrinkingShape(TinyEnv):
    """The observation after the last step has one number, which numpy would spread over all three."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return (observation[:1] if truncated else observation), reward, terminated, truncated, info


class ScalarObservation(TinyEnv):
    def step(self, action):
        observation, *rest = super().step(action)
        return float(observation[0]), *rest


class ShortTuple(TinyEnv):
    def step(self, action):
        return super().step(action)[:4]


class VectorReward(TinyEnv):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward, reward]), *rest


class CallsExit(TinyEnv):
    def step(self, action):
        sys.exit(7)


class RaisesInClose(Raises):
    def close(self):
        raise RuntimeError("cannot even close")


class Hangs(TinyEnv):
    """Every second seed hangs."""

    def reset(self, *, seed=None, options=None):
        if seed is not None and seed % 2 == 0:
            time.sleep(3600)
        return super().reset(seed=seed)


class Dies(TinyEnv):
    """Every second seed takes the process with it."""

    def reset(self, *, seed=None, options=None):
        if seed is not None and seed % 2 == 0:
            os._exit(3)
        return super().reset(seed=seed)


class UntilMended(TinyEnv):
    """Raises until a file appears, like a robot until someone mends it."""

    def reset(self, *, seed=None, options=None):
        if not Path(os.environ[MARKER]).exists():
            raise RuntimeError("a cable is loose")
        return super().reset(seed=seed)


class Slow(TinyEnv):
    """Slow enough to be interrupted, and to be found at work by a second process."""

    def step(self, action):
        time.sleep(0.05)
        return super().step(action)
