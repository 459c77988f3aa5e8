"""A camera on a gimbal: pan and tilt with friction and an unbalanced mass, pointed at a target by two motors."""

import gymnasium
import numpy as np


class Gimbal(gymnasium.Env):
    """Both angles to zero; observed are angles, rates, and the sine of the tilt."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle = self.np_random.uniform(-0.6, 0.6, 2)
        self.rate = np.zeros(2)
        return self._seen(), {}

    def step(self, action):
        load = np.array([0.3 * self.rate[1], 0.8 * np.sin(self.angle[1] + 0.4)])  # gyroscopic, unbalanced mass
        self.rate = self.rate + 0.05 * (4.0 * np.asarray(action) - load - 0.5 * self.rate)
        self.angle = np.clip(self.angle + 0.05 * self.rate, -1.5, 1.5)  # mechanical stops
        reward = -float(self.angle @ self.angle) - 0.01 * float(np.square(action).sum())
        return self._seen(), reward, False, False, {}

    def _seen(self):
        return np.concatenate([self.angle, self.rate, [np.sin(self.angle[1])]])


def make_env():
    return Gimbal()
