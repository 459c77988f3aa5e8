"""Searches in a box: policies that meet optimisers of the unit cube (covers box.py and box_recipes.py)."""

from typing import Any

import numpy as np
import pytest

from abps.errors import ConfigError
from abps.optimisers.confidence import ConfidenceRegion
from abps.optimisers.distribution import SearchDistribution
from abps.optimisers.trees import RandomTrees
from abps.optimisers.turbo import Turbo
from abps.policies.linear import ClippedLinear
from abps.policies.observations import RunningNormaliser
from abps.search.box import BoxSearchConfig
from abps.search.registry import make_search, search_config
from abps.settings import replace
from abps.tasks.synthetic import SyntheticFunction
from abps.trajectory import Failed

NAMES = ("turbo", "crbo", "klbo", "rducb")
OPTIMISERS = (*NAMES, "turbo-m")
"""With TuRBO-m, which is `turbo` with several regions."""

FAST = {
    "klbo": {"candidates": 150, "functions": 60},
    "turbo": {"candidates": 200},
    "turbo-m": {"candidates": 200, "regions": 2, "first_points": 5},
}


def config(name: str, **changes: Any) -> Any:
    found: Any = search_config(name.removesuffix("-m"), "x")
    optimiser = replace(found.optimiser, **FAST.get(name, {}))
    return replace(found, policy=ClippedLinear(), optimiser=optimiser, **changes)


def search_for(lab: Any, name: str, task: Any, episodes: int, seed: int, **changes: Any) -> Any:
    search = make_search(name.removesuffix("-m"), task.spec, config(name, **changes), seed=seed)
    while search.episodes < episodes:
        lab.stage(search, task)
    return search


def test_the_recipes_differ_in_their_optimisers_only() -> None:
    found = {name: search_config(name, "hopper") for name in NAMES}
    parts = {name: type(getattr(part, "optimiser", None)) for name, part in found.items()}
    assert parts == {"turbo": Turbo, "crbo": ConfidenceRegion, "klbo": SearchDistribution, "rducb": RandomTrees}
    assert len({replace(part, optimiser=Turbo()) for part in found.values()}) == 1


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_optimum_of_a_random_function_is_found(lab: Any, name: str, effort: Any) -> None:
    """Noisy evaluations of a function with a known maximum: relative error 0 there, 1 where f is zero."""
    effort(starts=4, iterations=40)
    function = SyntheticFunction(4, 1, support=128)
    # Two regions share the episodes of TuRBO-m, so it has twice as many.
    episodes, allowed = {"rducb": (150, 0.25), "crbo": (100, 0.2), "turbo-m": (100, 0.1)}.get(name, (50, 0.1))
    search = search_for(lab, name, lab.synthetic(4, 1), episodes, 1, box=0.5)
    assert function.relative_error(np.clip(0.5 + search.incumbent.parameters, 0, 1)) < allowed
    assert function.relative_error(np.full(4, 0.5)) > 0.3  # Which the start is far from.


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_optimal_gain_of_a_linear_quadratic_task_is_approached(lab: Any, name: str) -> None:
    task = lab.lqr(2, 2, horizon=60)
    system = task.make_env().unwrapped.system
    best, start = system.finite_return(system.optimal_gain(), 60), system.finite_return(np.zeros((2, 2)), 60)
    search = search_for(lab, name, task, 60, 1, discount=None)
    found = system.finite_return(search.incumbent.parameters.reshape(2, 2), 60)
    assert (found - start) / (best - start) > 0.8
    assert best >= found


def test_parameters_stay_in_the_box_around_the_initial_ones(lab: Any) -> None:
    search = make_search("turbo", lab.lqr().spec, config("turbo", box=0.3), seed=0)
    points = np.array([query.parameters for query in search.open_queries()])
    assert np.abs(points).max() <= 0.3
    assert np.abs(points).max() > 0.2
    wide = make_search("turbo", lab.lqr().spec, config("turbo", box=0.6), seed=0)
    assert np.allclose([query.parameters for query in wide.open_queries()], 2.0 * points)


def test_a_batch_is_a_stage_and_an_outer_iteration_several(lab: Any) -> None:
    task = lab.lqr()
    few = replace(config("turbo"), optimiser=Turbo(first_points=4, batch=2, candidates=50))
    search = make_search("turbo", task.spec, few, seed=0)
    sizes = [len(lab.stage(search, task)[0]) for _ in range(4)]
    assert sizes == [4, 2, 2, 2]
    assert search.iteration == 1  # After six episodes; the tests' iterations are that short.


def test_the_objective_is_the_return_with_its_shift_and_discount(lab: Any) -> None:
    task = lab.lqr()
    search = make_search("crbo", task.spec, config("crbo", reward_shift=0.5, discount=0.9), seed=0)
    _, trajectories, _ = lab.stage(search, task)
    expected = [trajectory.total(0.9, 0.5) for trajectory in trajectories]
    assert np.allclose(search.memory.measured.values, expected)


def test_failed_episodes_leave_the_current_policy_where_it_is(lab: Any) -> None:
    search = make_search("crbo", lab.lqr().spec, config("crbo"), seed=0)
    for query in search.open_queries():
        search.tell(query, [Failed("no power")])
    assert np.array_equal(search.incumbent.parameters, np.zeros(search.policies.size))
    assert len(search.memory.measured) == 0
    assert search.open_queries()  # And the first points are asked for again.


def test_a_normaliser_is_updated_at_the_end_of_an_outer_iteration(lab: Any) -> None:
    task = lab.lqr(noise=0.1)
    search = make_search("turbo", task.spec, config("turbo", observations=RunningNormaliser()), seed=0)
    assert search.normaliser.count == 0
    lab.iterate(search, task, 1)
    assert search.normaliser.count == search.progress.steps


def test_settings_that_make_no_sense_are_refused_with_a_sentence() -> None:
    with pytest.raises(ConfigError, match="cannot re-map its points"):
        BoxSearchConfig(observations=RunningNormaliser(remap=True))
    with pytest.raises(ConfigError, match="box must be positive and finite, got 0"):
        BoxSearchConfig(box=0.0)
    with pytest.raises(ConfigError, match="need 0 < shortest < first_length <= longest"):
        Turbo(first_length=2.0)


def test_several_trust_regions_go_on_bit_for_bit(lab: Any) -> None:
    """TuRBO-m: regions, their counters and what was measured in each are all that is saved."""
    task = lab.lqr()
    several = replace(config("turbo"), optimiser=Turbo(regions=3, first_points=3, batch=2, candidates=30))
    search, copy = (make_search("turbo", task.spec, several, seed=2) for _ in range(2))
    for _ in range(4):
        lab.stage(search, task)
    copy.load(lab.saved(search))
    assert len(copy.memory.optimiser.regions) == 3
    for other in (search, copy):
        lab.stage(other, task)
        lab.stage(other, task)
    assert lab.difference(lab.saved(search), lab.saved(copy)) == ""
