"""The ask/tell loop by hand: your environment, your loop; the library proposes policies and learns from episodes.

    python examples/ask_tell.py [search] [episodes]       # a minute at most; `ars` and 150 when nothing is given

This is what `abps train` does, without its files, processes and progress bar. An episode may come from anywhere (a
simulator, a robot, a log): `tell` wants a `Trajectory`, or `Failed(reason)` when there is none.
"""

import sys

import abps


def main(name: str = "ars", episodes: int = 150) -> float:
    """Learn to balance InvertedPendulum; return the undiscounted return of the search's current policy."""
    task = abps.make_task("pendulum")
    env = task.make_env()
    search = abps.make_search(name, task.spec, seed=2, budget=abps.BudgetConfig(episodes=episodes))
    while not search.stop():  # a dict of reasons; empty: go on
        query = search.ask()  # parameters, role, number of episodes, and a policy ready to run
        # The query's seeds make it the same run every time, and that of `abps train`.
        search.tell(query, [abps.run_episode(env, query.policy, seed) for seed in query.seeds])
    result = search.result()
    value = abps.run_episode(env, result.incumbent, seed=10_000).total()
    print(f"{name} used {result.episodes} episodes, {result.steps} steps: {', '.join(search.stop().values())}.")
    print(
        f"A fresh episode of its current policy returns {value:.0f}; the best one seen returned "
        f"{result.best_return:.0f}."
    )
    env.close()
    return value


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0] if words else "ars", int(words[1]) if len(words) > 1 else 150)
