"""The trained policy in a loop of one's own, and ten of its actions for the exported C to repeat."""

import numpy as np
from gimbal import make_env

import abps

policy = abps.load_policy("runs/gimbal-make_env/abs/seed-0/policy/current.npz")
env, total = make_env(), 0.0
observation, _ = env.reset(seed=1)
for _ in range(150):
    observation, reward, *_ = env.step(policy(observation))
    total += reward
print(f"return in own code: {total:.2f}")
with open("actions.txt", "w") as file:
    for seen in np.random.default_rng(0).normal(size=(10, 5)):
        print(*map(repr, [*seen.tolist(), *policy(seen).tolist()]), file=file)
