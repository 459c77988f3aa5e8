"""How reliably the robot of examples/hardware_cartpole.py learns in sixty episodes, from nothing and from a controller.

    python benchmarks/hardware/cartpole.py [SEEDS] > benchmarks/hardware/cartpole.txt

The episodes, their seeds and the search are those of the example; only the files between them are left out.
"""

import sys
from pathlib import Path

import numpy as np

import abps
from abps.policies.imitation import from_gains

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from hardware_cartpole import HAND_TUNED, run_episode

SPEC = abps.TaskSpec("cartpole", 4, 1, (-10.0,), (10.0,), horizon=500)


def learn(seed: int, hand_tuned: bool) -> str:
    """One run: its returns in words."""
    search = abps.make_search("abs", SPEC, seed=seed, budget=abps.BudgetConfig(episodes=60))
    if hand_tuned:
        search.start_from(from_gains(search.policies, HAND_TUNED).parameters)
    first = episode(search.incumbent, 10**6).total()
    while not search.stop():
        query = search.ask()
        numbers = range(search.episodes, search.episodes + query.episodes)
        search.tell(query, [episode(query.policy, 1000 * seed + number) for number in numbers])
    fresh = [episode(search.incumbent, 10**6 + trial).total() for trial in range(10)]
    return f"{first:7.1f} {np.mean(fresh):7.1f} {np.min(fresh):7.1f}"


def episode(policy: abps.Policy, seed: int) -> abps.Trajectory:
    """As the robot runs it: from the policy's arrays, with numpy."""
    arrays = run_episode({**policy.arrays(), "horizon": SPEC.horizon}, seed)
    fell = arrays.pop("terminated")
    return abps.Trajectory.build(**arrays, terminated=fell, truncated=not fell)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for name, hand_tuned in (("from nothing", False), ("from the hand-tuned controller", True)):
        print(f"{name}: seed, return before, mean and worst of ten episodes after 60")
        for seed in range(seeds):
            print(f"{seed:4d} {learn(seed, hand_tuned)}", flush=True)


if __name__ == "__main__":
    main()
