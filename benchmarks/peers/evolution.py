"""Our evolution strategies beside their references, pycma 4 and evosax 0.3, in an environment of its own.

    python -m venv /tmp/evosax && /tmp/evosax/bin/pip install evosax==0.3.0 msgspec 'cma>=4,<5'
    PYTHONPATH=src JAX_ENABLE_X64=1 /tmp/evosax/bin/python benchmarks/peers/evolution.py steps      # the same numbers?
    PYTHONPATH=src JAX_ENABLE_X64=1 /tmp/evosax/bin/python benchmarks/peers/evolution.py functions  # the same results?
    PYTHONPATH=src /tmp/evosax/bin/python benchmarks/peers/evolution.py long                        # 10 000 generations

`steps` gives both sides the same points and values, and prints the largest difference of what they then compute.
`functions` lets each draw its own numbers, and prints f at the current point after 1000 evaluations, the median of ten
seeds. `long` shows how CMA-ES's memory and the time of a generation grow with the length of a run.
"""

import argparse
import time
from typing import Any

import numpy as np

from abps.arrays import Array
from abps.seeding import generator
from abps.settings import replace
from abps.state import save
from abps.strategies.base import Strategy
from abps.strategies.cma_es import CmaEs
from abps.strategies.openai_es import OpenAiEs
from abps.strategies.particle_swarm import ParticleSwarm
from abps.strategies.snes import Snes

DIMENSION, POPULATION, GENERATIONS, SEEDS = 10, 10, 100, 10
ES = OpenAiEs(population=POPULATION, weight_decay=0.0)  # evosax decays by the values, not by the gradient.
SNES = Snes(population=POPULATION)
PSO = ParticleSwarm(population=POPULATION, confirm=False)


def sphere(points: Array) -> Array:
    return np.sum(np.square(points - 1.0), axis=1)


def ellipsoid(points: Array) -> Array:
    return np.sum(np.geomspace(1.0, 1e3, points.shape[1]) * np.square(points - 1.0), axis=1)


def rosenbrock(points: Array) -> Array:
    first, second = points[:, :-1], points[:, 1:]
    return np.sum(100.0 * np.square(second - first**2) + np.square(1.0 - first), axis=1)


FUNCTIONS = {"sphere": sphere, "ellipsoid": ellipsoid, "Rosenbrock": rosenbrock}


class Evosax:
    """One algorithm of evosax with the settings of ours, minimising."""

    def __init__(self, name: str) -> None:
        import jax.numpy as jnp
        import optax
        from evosax.algorithms import PSO as SwarmOfEvosax
        from evosax.algorithms import SNES as SnesOfEvosax
        from evosax.algorithms import Open_ES

        point = jnp.zeros(DIMENSION)
        if name == "es":
            self.algorithm: Any = Open_ES(
                POPULATION, point, optimizer=optax.adam(ES.step), std_schedule=optax.constant_schedule(ES.std)
            )
        else:
            self.algorithm = {"snes": SnesOfEvosax, "pso": SwarmOfEvosax}[name](POPULATION, point)
        self.name, self.params = name, self.algorithm.default_params
        if name == "snes":
            self.params = self.params.replace(std_init=SNES.std)
        if name == "pso":
            self.params = self.params.replace(
                inertia_coeff=PSO.inertia, cognitive_coeff=PSO.own_pull, social_coeff=PSO.swarm_pull
            )

    def start(self, key: Any, points: Array, losses: Array) -> Any:
        if self.name == "pso":
            return self.algorithm.init(key, points, losses, self.params)
        return self.algorithm.init(key, np.zeros(DIMENSION), self.params)

    def ask(self, key: Any, state: Any) -> Any:
        return self.algorithm.ask(key, state, self.params)

    def tell(self, key: Any, points: Any, losses: Any, state: Any) -> Any:
        return self.algorithm.tell(key, points, losses, state, self.params)[0]


class EvosaxNumbers:
    """The numbers that evosax's swarm draws from a key: one pair for all coordinates of a particle."""

    def __init__(self, key: Any) -> None:
        import jax

        self.pairs = np.array([jax.random.uniform(one, (2,)) for one in jax.random.split(key, POPULATION)])

    def random(self, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(self.pairs.T[:, :, None], shape)


def gaussian_steps(name: str, strategy: Strategy) -> float:
    """Largest difference of the means (and spreads) over 50 generations that both are told."""
    import jax

    theirs, key = Evosax(name), jax.random.key(0)
    memory: Any = strategy.start(np.zeros(DIMENSION), generator(0))
    state, worst = theirs.start(key, np.zeros(0), np.zeros(0)), 0.0
    for number in range(50):
        points = strategy.ask(memory, generator(0, number))
        losses = ellipsoid(points)
        memory = strategy.tell(memory, points, -losses, generator(0, number))
        state = theirs.tell(key, points, losses, state)
        worst = max(worst, float(np.abs(np.asarray(state.mean) - memory.mean).max()))
        if hasattr(memory, "stds"):
            worst = max(worst, float(np.abs(np.asarray(state.std) - memory.stds).max()))
    return worst


def swarm_steps() -> float:
    """Largest difference of the positions over 50 generations, with evosax's numbers."""
    import jax

    theirs, memory = Evosax("pso"), PSO.start(np.zeros(DIMENSION), generator(0))
    points, worst = memory.positions, 0.0
    state = theirs.start(jax.random.key(0), points, ellipsoid(points))
    for number in range(50):
        key: Any = jax.random.key(number + 1)
        memory = PSO.tell(memory, points, -ellipsoid(points), EvosaxNumbers(key))  # type: ignore[arg-type]
        asked, state = theirs.ask(key, state)
        worst = max(worst, float(np.abs(np.asarray(asked) - memory.positions).max()))
        points = np.asarray(asked)
        state = theirs.tell(key, points, ellipsoid(points), state)
        memory = replace(memory, positions=points)
    return worst


def pycma_steps(dimension: int, generations: int) -> int:
    """Points that differ in any bit from those of one object of pycma with its default options."""
    import cma

    holder: dict[str, np.random.Generator] = {}
    options = {"verbose": -10, "seed": np.nan, "randn": lambda *shape: holder["rng"].standard_normal(shape)}
    optimiser, strategy = cma.CMAEvolutionStrategy(np.zeros(dimension), 0.5, options), CmaEs()
    memory, differing = strategy.start(np.zeros(dimension), generator(0)), 0
    for number in range(generations):
        holder["rng"] = generator(0, number)
        theirs, ours = optimiser.ask(), strategy.ask(memory, generator(0, number))
        differing += int(np.sum(np.any(np.array(theirs) != ours, axis=1)))
        losses = ellipsoid(ours) + 0.1 * generator(1, number).standard_normal(len(ours))
        optimiser.tell(theirs, list(losses))
        memory = strategy.tell(memory, ours, -losses, generator(0, number))
    return differing


def print_steps() -> None:
    print("| ours | reference | compared | largest difference |\n|---|---|---|---|")
    for dimension, generations in ((2, 300), (10, 300), (100, 150)):
        row = f"| `cma` | pycma, one object, d = {dimension} | points of {generations} generations, bit for bit "
        print(row + f"| {pycma_steps(dimension, generations)} points |")
    print(f"| `es` | evosax `Open_ES`, optax Adam | mean, 50 generations | {gaussian_steps('es', ES):.1e} |")
    print(f"| `snes` | evosax `SNES` | mean and spreads, 50 generations | {gaussian_steps('snes', SNES):.1e} |")
    print(f"| `pso` | evosax `PSO`, its numbers | positions, 50 generations | {swarm_steps():.1e} |")


def ours_on(function: Any, strategy: Strategy, seed: int) -> float:
    memory = strategy.start(np.zeros(DIMENSION), generator(seed, "start"))
    for number in range(GENERATIONS):
        points = strategy.ask(memory, generator(seed, "generation", number))
        memory = strategy.tell(memory, points, -function(points), generator(seed, "generation", number))
    return float(function(strategy.current(memory)[None])[0])


def evosax_on(function: Any, name: str, seed: int) -> float:
    import jax

    theirs, key = Evosax(name), jax.random.key(seed)
    first = PSO.std * np.asarray(jax.random.normal(key, (POPULATION, DIMENSION)))
    state = theirs.start(key, first, function(first))
    for number in range(GENERATIONS - (name == "pso")):
        now = jax.random.fold_in(key, number)
        points, state = theirs.ask(now, state)
        state = theirs.tell(now, points, function(np.asarray(points)), state)
    found = state.best_solution if name == "pso" else state.mean
    return float(function(np.asarray(found)[None])[0])


def pycma_on(function: Any, seed: int) -> float:
    import cma

    options = {"verbose": -10, "seed": seed + 1, "popsize": POPULATION}
    optimiser = cma.CMAEvolutionStrategy(np.zeros(DIMENSION), 0.5, options)
    for _ in range(GENERATIONS):
        points = optimiser.ask()
        optimiser.tell(points, list(function(np.array(points))))
    return float(function(optimiser.result.xfavorite[None])[0])


def print_functions() -> None:
    print(f"| d = {DIMENSION} | " + " | ".join(f"{name}: ours | reference" for name in FUNCTIONS) + " |")
    print("|---|" + "---:|" * (2 * len(FUNCTIONS)))
    for name, strategy in (("cma", CmaEs(population=POPULATION)), ("es", ES), ("snes", SNES), ("pso", PSO)):
        cells = []
        for function in FUNCTIONS.values():
            run = (lambda f, seed: pycma_on(f, seed)) if name == "cma" else (lambda f, s, n=name: evosax_on(f, n, s))
            ours = [ours_on(function, strategy, seed) for seed in range(SEEDS)]
            theirs = [run(function, seed) for seed in range(SEEDS)]
            cells += [f"{np.median(values):.2g} [{min(values):.2g}, {max(values):.2g}]" for values in (ours, theirs)]
        print(f"| `{name}` | " + " | ".join(cells) + " |", flush=True)


def print_long() -> None:
    print("| generations | numbers in the memory | ms of CPU per generation |\n|---:|---:|---:|")
    strategy, done = CmaEs(), 0
    memory = strategy.start(np.zeros(20), generator(0))
    for mark in (100, 1000, 10000):
        start, before = time.process_time(), done
        for number in range(done, mark):
            points = strategy.ask(memory, generator(0, number))
            values = generator(1, number).standard_normal(len(points))
            memory = strategy.tell(memory, points, values, generator(0, number))
        done, spent = mark, time.process_time() - start
        size = sum(np.size(value) for value in save(memory).values() if isinstance(value, np.ndarray))
        print(f"| {mark} | {size} | {1e3 * spent / (mark - before):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("steps", "functions", "long"))
    {"steps": print_steps, "functions": print_functions, "long": print_long}[parser.parse_args().command]()


if __name__ == "__main__":
    main()
