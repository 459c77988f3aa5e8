"""The robot's side of a run on real hardware: numpy and the robot's own driver, no abps.

    python examples/hardware_robot.py POLICY.npz EPISODE.npz
    python examples/hardware_robot.py                               # no policy: rest for ten steps, to see that the robot answers

Loads the policy that `abps ask` wrote, runs one episode, and writes what happened. Here the robot is simulated (Gymnasium's Pendulum);
in your laboratory `reset`, `step` and `reward` talk to the machine. Exit code 3 means that the episode could not be run to its end.
"""

import sys

import gymnasium
import numpy as np


def load_policy(path):
    """Return a function from an observation to an action, and the arrays it was made from."""
    policy = dict(np.load(path, allow_pickle=False))
    middle = (policy["action_high"] + policy["action_low"]) / 2
    half = (policy["action_high"] - policy["action_low"]) / 2

    def act(observation):
        seen = (observation - policy["observation_mean"]) / policy["observation_std"]
        wanted = policy["weights"] @ seen
        if str(policy["kind"]) == "direct":  # linear, cut off at the bounds
            return np.clip(middle + wanted, policy["action_low"], policy["action_high"])
        return middle + half * np.tanh(wanted)

    return act, policy


def run_episode(act, horizon):
    """Drive the robot for at most `horizon` steps and write everything down."""
    robot = gymnasium.make("Pendulum-v1", max_episode_steps=horizon)
    observation, _ = robot.reset()
    observations, actions, rewards, terminated = [observation], [], [], False
    for _ in range(horizon):
        action = act(observation)
        observation, reward, terminated, truncated, _ = robot.step(action)
        observations.append(observation)
        actions.append(action)
        rewards.append(reward)
        if terminated or truncated:
            break
    return {"observations": observations, "actions": actions, "rewards": rewards, "terminated": terminated}


def check():
    """Rest for ten steps and say what was seen."""
    episode = run_episode(lambda observation: np.zeros(1), 10)
    print(f"{len(episode['actions'])} steps, last observation {episode['observations'][-1]}")
    return 0


def main():
    if len(sys.argv) == 1:
        return check()
    policy_file, episode_file = sys.argv[1:]
    act, policy = load_policy(policy_file)
    try:
        episode = run_episode(act, int(policy["horizon"]))
    except Exception as error:
        print(f"the robot stopped: {error}", file=sys.stderr)
        return 3
    np.savez(episode_file, policy_id=policy["policy_id"], **episode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
