"""The guide "Constraints" in seconds: a cart whose motor must not push harder than 3, with and without saying so.

    python examples/constraints.py

The motor could push with 5. Strong pushes bring the cart to rest sooner, so that a search that is not told of the limit
breaks it nearly always.
"""

from typing import Any

import gymnasium
import numpy as np

import abps

LIMIT, EPISODES = 3.0, 40


class Cart(gymnasium.Env[np.ndarray, np.ndarray]):
    """Bring a cart from a random place and speed to rest at 0; every step reports the force as its cost."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-5.0, 5.0, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform([-2.0, -1.0], [2.0, 1.0])
        return self.state.copy(), {}

    def step(self, action: np.ndarray):
        force, (place, speed) = float(action[0]), self.state
        speed += 0.05 * force
        self.state = np.array([place + 0.05 * speed, speed])
        reward = 2.0 - self.state[0] ** 2 - 0.1 * speed**2 - 0.01 * force**2
        return self.state.copy(), reward, False, False, {"cost": abs(force)}


def train(constraint: list[str]) -> tuple[int, float]:
    """Train for a few episodes; how many of them pushed too hard, and the return of the current policy."""
    task = abps.make_task(Cart, horizon=100, constraint=constraint)
    search = abps.make_search("abs", task.spec, seed=1, budget=abps.BudgetConfig(episodes=EPISODES))
    env, broken = task.make_env(), 0
    while not search.stop():
        query = search.ask()
        episodes = [abps.run_episode(env, query.policy, seed) for seed in query.seeds]
        broken += sum(float(np.abs(episode.actions).max()) > LIMIT for episode in episodes)
        search.tell(query, episodes)
    fresh = [abps.run_episode(env, search.result().incumbent, seed=10_000 + number) for number in range(10)]
    return broken, float(np.mean([episode.total() for episode in fresh]))


def main() -> None:
    for words, constraint in (("without", []), ("with", [f"force<={LIMIT}"])):
        broken, value = train(constraint)
        print(f"{words} the constraint: {broken} of {EPISODES} episodes beyond {LIMIT:g}, current policy {value:.0f}")


if __name__ == "__main__":
    main()
