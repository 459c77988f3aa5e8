"""Known optima for searches whose own tests have none: local ones, and ARS (`ars.py`, `local.py`, `recipes.py`).

Populations are in test_population.py, optimisers in a box in test_box.py, local searches on a random function in
test_local.py. The share that is left is (best − found) / (best − start): 1 at the start, which does nothing, 0 at the
optimal gain by the Riccati equation.
"""

from typing import Any

import numpy as np
import pytest

from abps.policies.linear import ClippedLinear
from abps.policies.observations import RawObservations
from abps.rollouts.episode import run_episode
from abps.search.registry import make_search, search_config
from abps.settings import replace
from abps.tasks.gym import Task, make_task
from abps.tasks.lqr import make_env

HORIZON = 60
LOCAL: dict[str, tuple[int, float, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "mpd": (10, 0.05, {"length": 0.05}, {"starts": 6, "radius": 0.2, "start_std": 0.1}, {}),
    "gibo": (20, 0.05, {"length": 0.2}, {"starts": 6, "radius": 0.2, "start_std": 0.1}, {}),
    "ddpgn": (20, 0.2, {"length": 0.05}, {"std": 0.1}, {}),
    # The upper bound of the lengthscales is also what caps the paper's step δ·Σ⁻¹μ.
    "abs": (10, 0.2, {"factor": 0.001}, {"radius": 0.1, "start_std": 0.05}, {"low": 0.05, "high": 0.1}),
}
"""Outer iterations, share that may be left, and settings of step, probing and lengthscales."""


def share_left(task: Task, search: Any) -> float:
    """By closed forms; the searches themselves only see returns."""
    env: Any = task.make_env().unwrapped
    system = env.system
    best, start = (system.finite_return(g, HORIZON) for g in (system.optimal_gain(), 0.0 * system.optimal_gain()))
    gain = search.incumbent.parameters.reshape(system.actions, system.states)
    return (best - system.finite_return(gain, HORIZON)) / (best - start)


@pytest.mark.parametrize("name", LOCAL)
def test_a_local_search_finds_the_optimal_gain(name: str, lab: Any, effort: Any) -> None:
    effort(starts=4, iterations=30)
    task = lab.lqr(2, 1, horizon=HORIZON)
    iterations, allowed, step, probing, lengths = LOCAL[name]
    config = lab.config(name, probes=5, window=12, design_std=0.1, lengthscale_high=lengths.get("high", 2.0))
    config = replace(config, gp=replace(config.gp, lengthscale_low=lengths.get("low", 0.2)))
    config = replace(config, step=replace(config.step, **step), probing=replace(config.probing, **probing))
    search = make_search(name, task.spec, config, seed=0)
    assert share_left(task, search) == pytest.approx(1.0)
    lab.iterate(search, task, iterations)
    assert share_left(task, search) < allowed


@pytest.mark.slow
def test_abs_as_it_ships_finds_the_optimal_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe, unchanged but for a class without bias and squashing, on four states and two actions.

    Its lengths are parts of the range of an action. The optimal actions are 0.66 at most and 0.03 on average: with a
    range of ±2 the shortest step is twice that, and the search stays away from the optimum, or leaves it again
    (docs/guides/which_search.md, what the numbers do not say).
    """
    monkeypatch.undo()  # Its optimisers as thorough as they are.
    system: Any = make_env(4, 2, 0, fixed_start=True, noise=0.0, horizon=HORIZON, action_bound=0.7)
    task = make_task(system, name="lqr", gamma=0.95, horizon=HORIZON)
    config: Any = replace(search_config("abs", "lqr"), policy=ClippedLinear(), discount=None)
    search, env = make_search("abs", task.spec, config, seed=0), task.make_env()
    bare: Any = env.unwrapped
    gains = (bare.system.optimal_gain().ravel(), np.zeros(8))
    best, start = (run_episode(env, search.policies.policy(gain, search.normaliser), 0).total(0.95) for gain in gains)
    while search.episodes < 100:
        query = search.ask()
        search.tell(query, [run_episode(env, query.policy, seed) for seed in query.seeds])
    found = run_episode(env, search.incumbent, 0).total(0.95)  # Not by closed forms: a larger gain would be clipped.
    assert best - found < 0.25 * (best - start)


@pytest.mark.parametrize("seed", [0, 1])
def test_ars_finds_the_optimal_gain_and_the_optimum_of_a_noisy_function(seed: int, lab: Any) -> None:
    config: Any = replace(search_config("ars"), policy=ClippedLinear(), observations=RawObservations())
    config = replace(config, step=0.05, noise=0.1, directions=4, top=4)
    task = lab.lqr(2, 1, horizon=HORIZON)
    search = make_search("ars", task.spec, replace(config, discounted=True), seed=seed)
    lab.iterate(search, task, 40)
    assert share_left(task, search) < 0.05
    task = lab.synthetic(3, seed=4)
    function: Any = task.make_env().unwrapped.function
    search = make_search("ars", task.spec, config, seed=seed)
    lab.iterate(search, task, 50)
    assert function.relative_error(np.full(3, 0.5)) > 1.0  # The control.
    assert function.relative_error(np.clip(0.5 + search.incumbent.parameters, 0.0, 1.0)) < 0.05
