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


def layers_of(policy):
    """The policy as layers: weights, bias, function, outputs at the end that the function leaves alone.

    Along a path, weights and bias that move have an axis of knots in front.
    """
    if "layer_count" in policy:  # features and networks
        names = ("weights", "bias", "function", "plain")
        return [[policy[f"layer_{k}_{name}"] for name in names] for k in range(int(policy["layer_count"]))]
    matrix = policy["weights"]  # one row per action, one column per observation
    columns, bias = matrix.shape[1], "bias" in policy
    matrix = np.column_stack([matrix, policy["bias"] if bias else np.zeros(len(matrix))])
    if "path_knots" in policy:
        knots = policy["path_knots"].reshape(-1, len(matrix), columns + bias)
        matrix = knots if bias else np.concatenate([knots, np.zeros((*knots.shape[:2], 1))], axis=2)
    return [[matrix[..., :-1], matrix[..., -1], "identity", 0]]


def start(policy):
    """Return the controller of one episode: a function from an observation to an action, called once per step."""
    low, high = policy["action_low"], policy["action_high"]
    middle, half = (high + low) / 2, (high - low) / 2
    clipped = str(policy.get("layer_squash", policy["kind"])) in ("clip", "clipped-linear")
    functions = {"identity": np.array, "tanh": np.tanh, "sin": np.sin, "exp": np.exp, "square": np.square}
    layers, interval, step = layers_of(policy), int(policy.get("path_interval", 1)), 0
    action, rate = policy.get("action_start"), policy.get("action_rate")

    def now(array, rank):
        """An array between two knots, and at rest at the last; one that does not move has no axis of knots."""
        if array.ndim == rank:
            return array
        last = len(array) - 1
        before, share = min(step // interval, last), step % interval / interval
        return (1 - share) * array[before] + share * array[min(before + 1, last)]

    def act(observation):
        nonlocal step, action
        values = (observation - policy["observation_mean"]) / policy["observation_std"]
        for weights, bias, function, plain in layers:
            values = now(weights, 2) @ values + now(bias, 1)
            active = len(values) - int(plain)
            values[:active] = functions[str(function)](values[:active])
        step += 1
        wanted = np.clip(middle + values, low, high) if clipped else middle + half * np.tanh(values)
        # A limit of how fast actions may change: none is farther from the last one than the rate.
        action = wanted if rate is None else np.clip(wanted, action - rate, action + rate)
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
