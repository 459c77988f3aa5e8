"""The guide "Your own environment" in seconds: a cart, trained by name and from Python, and two searches compared on
it.

    python examples/your_own_environment.py [folder]

`make_env` is what `module:factory` names: `abps train your_own_environment:make_env --search ars`.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import abps
from abps.cli import main


class Cart(gymnasium.Env[np.ndarray, np.ndarray]):
    """Push a cart to the origin."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)  # All randomness comes from self.np_random, so that episodes can be repeated.
        self.state = np.array([self.np_random.uniform(0.5, 1.0), 0.0])
        return self.state.copy(), {}

    def step(self, action: np.ndarray):
        position, speed = self.state
        speed += 0.1 * float(action[0])
        self.state = np.array([position + 0.1 * speed, speed])
        reward = -(position**2) - 0.01 * float(action[0]) ** 2
        left_the_track = bool(abs(position) > 5.0)  # The task is over; running out of time is not for us to say.
        return self.state.copy(), reward, left_the_track, False, {}


def make_env() -> Cart:
    return Cart()


def by_name(folder: Path) -> None:
    """Compare two searches on it; workers import this file and make their own carts."""
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path.insert(0, here)
    task = "your_own_environment:make_env"
    small = ["--set", "mpd.plan.window=9", "--set", "mpd.plan.probes=4", "--set", "task.horizon=100"]
    study = ["compare", task, "--searches", "mpd,ars", "--seeds", "0-1", "--episodes", "40", *small]
    assert main([*study, "--runs", str(folder / "runs"), "--report", str(folder / "report.html")]) == 0


def from_python() -> None:
    """The loop of ask and tell on an environment object."""
    task = abps.make_task(make_env(), name="cart", horizon=100)
    env = task.make_env()
    search = abps.make_search("ars", task.spec, seed=0, budget=abps.BudgetConfig(episodes=200))
    while not search.stop():
        query = search.ask()
        search.tell(query, [abps.run_episode(env, query.policy, seed) for seed in query.seeds])
    returns = [abps.run_episode(env, search.incumbent, seed=seed).total() for seed in range(5)]
    print(f"mean return after 200 episodes: {np.mean(returns):.2f}")


if __name__ == "__main__":
    from_python()
    if len(sys.argv) > 1:
        by_name(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            by_name(Path(temporary))
