"""The objective against a loop."""

import numpy as np
import pytest

from abps.data.objective import Objective
from abps.trajectory import Trajectory


@pytest.mark.parametrize(("gamma", "shift"), [(1.0, 0.0), (0.9, 0.0), (0.9, 1.5), (1.0, -2.0)])
def test_the_discounted_sum_of_shifted_rewards(gamma, shift):
    rewards = np.random.default_rng(0).normal(size=12)
    episode = Trajectory.build(np.zeros((13, 2)), np.zeros((12, 1)), rewards, terminated=False, truncated=True)
    expected = sum(gamma**t * (reward - shift) for t, reward in enumerate(rewards))
    assert Objective(gamma, shift).total(episode) == pytest.approx(expected, rel=1e-12)
    assert Objective(gamma, shift + 0.1).total(episode) != pytest.approx(expected, rel=1e-3)
