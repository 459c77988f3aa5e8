"""CMA-ES against pycma itself: one object of pycma, told the same losses, asks for the same points bit for bit."""

import builtins
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from abps.arrays import Array
from abps.errors import ConfigError
from abps.run.checkpoint import reloaded
from abps.seeding import generator
from abps.state import restore, save
from abps.strategies.cma_es import CmaEs, CmaMemory

cma = pytest.importorskip("cma")

DEVIATIONS = {
    "AdaptSigma": cma.sigma_adaptation.CMAAdaptSigmaCSA,
    "CMA_mirrors": 0,
    "conditioncov_alleviate": False,
    "tolxstagnation": False,
}
"""The options that the module's docstring owns up to."""


class Numbers:
    """Standard normal numbers of the generation that is under way, for pycma."""

    def __init__(self, seed: int) -> None:
        self.seed, self.next_generation = seed, 0
        self.rng = generator(seed)

    def start_generation(self) -> None:
        self.rng = generator(self.seed, "generation", self.next_generation)
        self.next_generation += 1

    def __call__(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape)


def direct(numbers: Numbers, dimension: int, **options: Any) -> Any:
    return cma.CMAEvolutionStrategy(
        np.zeros(dimension), 0.5, {"verbose": -10, "seed": np.nan, "randn": numbers, **options}
    )


@pytest.mark.parametrize("dimension", [1, 2, 6, 90])
def test_generations_are_those_of_one_object_of_pycma(dimension: int, climb: Any, hill: Any) -> None:
    """With its default options where they matter: d from 2 to 299 and moderate condition numbers.

    At d = 90 pycma decomposes the covariance matrix in every second generation only: the axes are older than it.
    """
    noise = generator(3, "noise")
    _, asked, told = climb(
        CmaEs(), lambda points: hill(points) + noise.standard_normal(len(points)), np.zeros(dimension), 40
    )
    numbers = Numbers(0)
    optimiser = direct(numbers, dimension, **(DEVIATIONS if dimension == 1 else {}))
    for points, values in zip(asked, told, strict=True):
        numbers.start_generation()
        expected = optimiser.ask()
        assert np.array_equal(points, expected)
        optimiser.tell(expected, list(-values))


@pytest.mark.parametrize(
    ("dimension", "name"),
    [(3, name) for name in ("mean", "sigma", "covariance", "rank_one_path", "sigma_path")]
    + [(90, name) for name in ("axes", "scales", "decomposed")],
)
def test_the_comparison_notices_what_is_not_restored(
    dimension: int, name: str, climb: Any, hill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: everything that pycma computes with is needed, axes and scales where they are older."""
    _, expected, _ = climb(CmaEs(), hill, np.zeros(dimension), 6)
    tell = CmaEs.tell

    def forgetful(self: CmaEs, memory: CmaMemory, *told: Any) -> CmaMemory:
        first = self.start(np.zeros(dimension), generator(0))
        return replace(tell(self, memory, *told), **{name: getattr(first, name)})

    monkeypatch.setattr(CmaEs, "tell", forgetful)
    _, asked, _ = climb(CmaEs(), hill, np.zeros(dimension), 6)
    assert not np.array_equal(asked[-1], expected[-1])


def test_restarts_are_those_of_fmin(climb: Any) -> None:
    """The population doubles whenever pycma would stop, in the same generation, with the same points."""

    def rastrigin(points: Array) -> Array:
        return -np.sum(10.0 + points**2 - 10.0 * np.cos(2.0 * np.pi * points), axis=1) - 1e-3 * np.sum(points, axis=1)

    seen: list[Array] = []
    numbers = Numbers(0)

    def losses(candidates: list[Array]) -> list[float]:
        seen.append(np.array(candidates))
        return list(-rastrigin(np.array(candidates)))

    def per_sample(*shape: int) -> Array:  # fmin has one draw a generation, all of it at once.
        numbers.start_generation()
        return numbers(*shape)

    options = {
        "verbose": -10,
        "seed": np.nan,
        "randn": per_sample,
        "maxfevals": 1500,
        "eval_final_mean": False,
        **DEVIATIONS,
    }
    cma.fmin(None, np.zeros(2), 0.5, options, parallel_objective=losses, restarts=3, incpopsize=2)
    sizes = [len(points) for points in seen]
    assert {6, 12} <= set(sizes), "fmin has restarted"
    _, asked, _ = climb(CmaEs(restarts="ipop"), rastrigin, np.zeros(2), len(seen))
    assert [len(points) for points in asked] == sizes
    assert all(np.array_equal(one, other) for one, other in zip(asked, seen, strict=True))


def test_bipop_alternates_between_large_and_small(climb: Any) -> None:
    """The kind of run with fewer evaluations is next; large populations double, small ones lie between."""

    def flat_top(points: Array) -> Array:
        return -np.floor(np.sum(np.square(points), axis=1))

    memory, asked, _ = climb(CmaEs(restarts="bipop"), flat_top, np.ones(2), 160)
    sizes = [len(points) for points in asked]
    runs = [sizes[0], *(new for old, new in pairwise(sizes) if new != old)]
    assert runs[:2] == [6, 12]
    assert max(runs) >= 24
    assert all(6 <= size <= max(runs) for size in runs)
    assert any(size < max(runs[:place]) for place, size in enumerate(runs) if place > 1), "a small one came later"
    assert memory.restarts.small_evaluations > 0
    assert memory.restarts.large_evaluations > 0


def test_after_a_restart_the_best_finished_run_stays_current(climb: Any) -> None:
    def peak(points: Array) -> Array:
        return -np.sum(np.square(points - 2.0), axis=1)

    strategy = CmaEs(restarts="ipop")
    _, asked, _ = climb(strategy, peak, np.zeros(2), 110)
    turn = next(number for number, points in enumerate(asked) if len(points) == 12)
    memory, _, _ = climb(strategy, peak, np.zeros(2), turn)
    assert np.allclose(strategy.current(memory), 2.0, atol=1e-3)
    assert np.array_equal(memory.mean, np.zeros(2)), "the new run begins where the first did"
    memory, _, _ = climb(strategy, peak, np.zeros(2), turn + 3)
    assert np.allclose(strategy.current(memory), 2.0, atol=1e-3), "its first generations are worse"


def test_a_long_run_is_small_to_save_and_as_fast_to_resume() -> None:
    """The histories that pycma's stop conditions look at are all that grows: two numbers in five generations."""
    strategy = CmaEs()
    memory = strategy.start(np.zeros(5), generator(0))
    first = sum(np.size(value) for value in save(memory).values() if isinstance(value, np.ndarray))
    for number in range(100):
        points = strategy.ask(memory, generator(1, number))
        memory = strategy.tell(memory, points, generator(2, number).standard_normal(len(points)), generator(1, number))
    last = sum(np.size(value) for value in save(memory).values() if isinstance(value, np.ndarray))
    assert last - first <= 2 * 100 // 5 + 10 + 30 * 5 // 8 + 1


def test_a_run_resumed_from_a_checkpoint_restarts_as_the_uninterrupted_one(climb: Any) -> None:
    def peak(points: Array) -> Array:
        return -np.sum(np.square(points), axis=1)

    strategy = CmaEs(restarts="ipop")
    straight, asked, _ = climb(strategy, peak, np.ones(2), 110)
    assert len(asked[-1]) > len(asked[0]), "there is a restart among these generations"
    memory = strategy.start(np.ones(2), generator(0, "start"))
    for number in range(110):
        fresh = strategy.start(np.ones(2), generator(9))
        memory = restore(fresh, reloaded(save(memory))) if number % 20 == 7 else memory
        points = strategy.ask(memory, generator(0, "generation", number))
        assert np.array_equal(points, asked[number])
        memory = strategy.tell(memory, points, peak(points), generator(0, "generation", number))
    for item in fields(CmaMemory):
        one, other = getattr(memory, item.name), getattr(straight, item.name)
        assert item.name == "restarts" or np.array_equal(one, other), item.name


def test_the_population_is_a_setting_and_too_small_ones_are_refused() -> None:
    memory = CmaEs(population=9).start(np.zeros(2), generator(0))
    assert len(CmaEs(population=9).ask(memory, generator(1))) == 9
    wrong: list[dict[str, Any]] = [{"population": 2}, {"sigma": 0.0}]
    for settings in wrong:
        with pytest.raises(ConfigError):
            CmaEs(**settings)


def test_without_pycma_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "cma":
            raise ImportError("no module named cma")
        return import_module(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'abps\[peers\]'"):
        CmaEs(sigma=0.123).start(np.zeros(2), generator(0))  # Settings that no other test has made.
