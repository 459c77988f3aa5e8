"""The robot's side of a run on real hardware: numpy and the robot's own driver, no abps.

    python examples/hardware_robot.py POLICY.npz EPISODE.npz
    python examples/hardware_robot.py                            # no policy: rest for ten steps, to see that it answers

Loads the policy that `abps ask` wrote, runs one episode, and writes what happened. Here the robot is simulated
(Gymnasium's Pendulum); in your laboratory `reset`, `step` and `reward` talk to the machine. Exit code 3 means that the
episode could not be run to its end.
"""

import sys

import gymnasium
import numpy as np


def start(policy):
    """Return the controller of one episode: a function from an observation to an action, called once per step."""
    low, high = policy["action_low"], policy["action_high"]
    middle, half = (high + low) / 2, (high - low) / 2
    matrix = policy["weights"]  # one row per action, one column per observation
    if "bias" in policy:
        matrix = np.column_stack([matrix, policy["bias"]])
    knots, interval = matrix[None], 1
    if "path_knots" in policy:  # the matrix moves from knot to knot during the episode, and rests at the last
        knots, interval = policy["path_knots"].reshape(-1, *matrix.shape), int(policy["path_interval"])
    step, last, action = 0, len(knots) - 1, policy.get("action_start")

    def act(observation):
        nonlocal step, action
        before, share = min(step // interval, last), step % interval / interval
        now = (1 - share) * knots[before] + share * knots[min(before + 1, last)]
        step += 1
        seen = (observation - policy["observation_mean"]) / policy["observation_std"]
        wanted = now @ (np.append(seen, 1.0) if "bias" in policy else seen)
        if str(policy["kind"]) == "clipped-linear":
            wanted = np.clip(middle + wanted, low, high)
        else:
            wanted = middle + half * np.tanh(wanted)
        if "action_rate" in policy:  # a limit of how fast actions may change
            wanted = np.clip(wanted, action - policy["action_rate"], action + policy["action_rate"])
        action = wanted
        return action

    return act


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
    policy = dict(np.load(policy_file, allow_pickle=False))
    try:
        episode = run_episode(start(policy), int(policy["horizon"]))
    except Exception as error:
        print(f"the robot stopped: {error}", file=sys.stderr)
        return 3
    np.savez(episode_file, policy_id=policy["policy_id"], **episode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
