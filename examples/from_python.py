"""The guide "From Python" in seconds: train, act, go on, compare; then the loop under it, which gives the same policy.

python examples/from_python.py [folder]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import abps

TASK = "pendulum"
SHORT: dict[str, Any] = {"horizon": 200, "directions": 4, "top": 2}


def one_line(folder: Path) -> abps.TrainedRun:
    """A run on disk, interrupted by a callback and gone on with by the same call."""
    out = folder / "runs" / "mine"

    def pause(event: abps.TrainingEvent) -> str | None:
        return "a pause" if event.episode == 19 else None

    abps.train(TASK, "ars", episodes=40, seed=0, out=out, callbacks=pause, **SHORT)
    abps.load(out)  # What is there can be read at any time.
    run = abps.train(TASK, "ars", episodes=48, seed=0, out=out, **SHORT)
    print(run)
    print("actions of a batch:", run.policy(np.zeros((3, 4))).shape, "report:", run.report())
    return run


def loop() -> abps.Policy:
    """The same search by hand."""
    task = abps.make_task(TASK, horizon=200)
    env = task.make_env()
    config = abps.ArsConfig(directions=4, top=2)
    budget = abps.BudgetConfig(episodes=48)
    search = abps.make_search(config, task.spec, seed=0, budget=budget)
    while not search.stop():
        query = search.ask()
        search.tell(query, [abps.run_episode(env, query.policy, seed) for seed in query.seeds])
    env.close()
    return search.result().incumbent


def main(folder: Path) -> None:
    run = one_line(folder)
    warm = abps.train(TASK, "ars", episodes=16, initial=run, **SHORT)
    print(f"started from {warm.settings.initial}: {warm.result.current_return:.0f}")
    print(abps.compare(abps.make_task(TASK).make_env(), "ars,mpd", seeds=2, episodes=64, settings={"task.horizon": 20}))
    by_hand = abps.train(TASK, abps.ArsConfig(directions=4, top=2), episodes=48, horizon=200)
    assert np.array_equal(by_hand.policy.parameters, loop().parameters)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
