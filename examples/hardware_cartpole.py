"""A robot that learns within sixty episodes: a cart with a pole, simulated here, that talks through files only.

    python examples/hardware_cartpole.py [RUN] [EPISODES] [SEED] [hand-tuned]   # the whole loop, by the command line
    python examples/hardware_cartpole.py --episode POLICY.npz EPISODE.npz NUMBER

With `hand-tuned` the search starts from a controller that balances the pole and lets the cart drift. The second form
is the robot: it loads the policy that `abps ask` wrote, balances the pole for at most ten seconds, and writes what
happened. Sensors are noisy and every episode starts somewhere else. It knows numpy and no abps; in your laboratory
`Cart` is the driver of the machine. The first form is the operator: `abps ask`, the robot in a process of its own,
`abps tell`, until the run is done; then the current policy is run ten times more.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from hardware_robot import start

ROBOT = """name: cartpole
observations: 4           # position, velocity, angle, angular velocity
action_low: [-10.0]       # force in newtons
action_high: [10.0]
horizon: 500              # ten seconds at 50 Hz
"""

HAND_TUNED = [[0.0, 0.0, 25.0, 2.0]]
"""Force per metre, metre per second, radian, radian per second."""


class Cart:
    """A pole of half a metre on a cart of one kilogram (Barto, Sutton & Anderson 1983), with friction and noise."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.normal(0.0, 0.05, 4)

    def sense(self):
        return self.state + self.rng.normal(0.0, [0.002, 0.01, 0.002, 0.01])

    def push(self, force, seconds=0.02):
        """Apply a force for one step; return the reward (1 in the middle, 1/2 at the stops) and whether it fell."""
        place, speed, angle, turn = self.state
        thrust = (force - 0.1 * speed + 0.05 * turn**2 * np.sin(angle)) / 1.1
        bend = (9.81 * np.sin(angle) - np.cos(angle) * thrust) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        rates = np.array([speed, thrust - 0.05 * bend * np.cos(angle) / 1.1, turn, bend - 0.05 * turn])
        self.state = self.state + seconds * rates
        return 1.0 - 0.5 * min(1.0, (place / 2.4) ** 2), bool(abs(self.state[2]) > 0.3 or abs(self.state[0]) > 2.4)


def run_episode(policy, seed):
    """Balance until the pole falls or the time is up, and write everything down."""
    cart, act = Cart(seed), start(policy)
    observations, actions, rewards, fell = [cart.sense()], [], [], False
    while not fell and len(rewards) < int(policy["horizon"]):
        action = act(observations[-1])
        reward, fell = cart.push(float(action[0]))
        actions.append(action)
        rewards.append(reward)
        observations.append(cart.sense())
    return {"observations": observations, "actions": actions, "rewards": rewards, "terminated": fell}


def robot(policy_file, episode_file, number):
    """The robot's side."""
    policy = dict(np.load(policy_file, allow_pickle=False))
    np.savez(episode_file, policy_id=policy["policy_id"], **run_episode(policy, int(number)))


def abps(*words):
    """Call the command line; return what it answers."""
    command = [sys.executable, "-m", "abps", *map(str, words), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def create(run, episodes, seed, start_from):
    """Describe the robot, once."""
    run.mkdir(parents=True, exist_ok=True)
    (run / "robot.yaml").write_text(ROBOT)
    words = ["--search", "abs", "--episodes", episodes, "--seed", seed]
    if start_from == "hand-tuned":
        np.savez(run / "controller.npz", weights=HAND_TUNED)
        words += ["--initial", run / "controller.npz"]
    abps("ask", run, "--new", run / "robot.yaml", *words)


def main(run="runs/cartpole", episodes: int | str = 3, seed: int | str = 0, start_from=""):
    """The operator's side."""
    run = Path(run)
    if not (run / "config.yaml").exists():
        create(run, episodes, seed, start_from)
    while not (asked := abps("ask", run))["done"]:
        number = 1000 * int(seed) + asked["episode"]
        episode = run / "episode.npz"
        subprocess.run([sys.executable, __file__, "--episode", asked["policy"], episode, str(number)], check=True)
        told = abps("tell", run, "--trajectory", episode)
        print(f"episode {told['episode']} ({asked['role']}): return {told['return']:.1f}", flush=True)
    policy = {**np.load(run / "policy" / "current.npz", allow_pickle=False), "horizon": 500}
    returns = [sum(run_episode(policy, 10**6 + trial)["rewards"]) for trial in range(10)]
    print(f"current policy, ten more episodes: mean {np.mean(returns):.1f}, worst {np.min(returns):.1f} of 500")


if __name__ == "__main__":
    robot(*sys.argv[2:]) if sys.argv[1:2] == ["--episode"] else main(*sys.argv[1:])
