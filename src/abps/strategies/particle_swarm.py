"""Particle swarm optimisation with an inertia weight (Kennedy & Eberhart 1995; Shi & Eberhart 1998).

    v ← w v + c₁ r₁ (p − x) + c₂ r₂ (g − x),    x ← x + v,    r₁, r₂ ~ U(0, 1) for every coordinate,

with p the best place of a particle and g that of the swarm. Textbook swarms call the largest value ever seen the best;
with noisy returns that is the luckiest episode. So the swarm's best place is evaluated again in every generation, its
value is the mean of all its evaluations, and it counts as found only once a second one has confirmed it. Shapes: d
parameters, n particles.
"""

from dataclasses import dataclass

import numpy as np

from abps.arrays import Array
from abps.settings import require, setting
from abps.strategies.base import Strategy, default_population

__all__ = ["ParticleSwarm", "SwarmMemory"]


@dataclass
class SwarmMemory:
    """The particles, and the best places found."""

    positions: Array
    """x (n, d)"""
    velocities: Array
    """v (n, d)"""
    best_positions: Array
    """p (n, d): each particle's own best place."""
    best_values: Array
    """(n,): mean value there, −∞ before the first generation."""
    best_counts: Array
    """(n,): evaluations behind that mean."""
    found: Array
    """(d,): the best confirmed place of all."""
    found_value: float = -np.inf


@dataclass(frozen=True)
class ParticleSwarm(Strategy):
    """Particle swarm: particles fly on, drawn to their own best places and to the swarm's."""

    population: int = setting(0, "particles; 0: 4 + 3 ln d", common=True)
    std: float = setting(0.5, "standard deviation of the first positions", common=True)
    inertia: float = setting(0.7, "w: share of its velocity that a particle keeps")
    own_pull: float = setting(1.5, "c₁: pull towards a particle's own best place")
    swarm_pull: float = setting(1.5, "c₂: pull towards the swarm's best place")
    confirm: bool = setting(
        True, "evaluate the swarm's best place again in every generation; off: the textbook's swarm"
    )

    def __post_init__(self) -> None:
        require(self.population >= 0, "population must not be negative")
        require(self.std > 0, "std must be positive")
        require(0 <= self.inertia < 1, "inertia must be in [0, 1)")
        require(self.own_pull >= 0 and self.swarm_pull >= 0, "own_pull and swarm_pull must not be negative")

    def start(self, mean: Array, rng: np.random.Generator) -> SwarmMemory:
        count = self.population or default_population(len(mean))
        positions = mean + self.std * rng.standard_normal((count, len(mean)))
        nothing = np.full(count, -np.inf)
        return SwarmMemory(positions, np.zeros_like(positions), positions, nothing, np.zeros(count), mean)

    def ask(self, memory: SwarmMemory, rng: np.random.Generator) -> Array:
        if not self._confirms(memory):
            return memory.positions
        return np.vstack([memory.positions, memory.best_positions[_leader(memory)]])

    def tell(self, memory: SwarmMemory, points: Array, values: Array, rng: np.random.Generator) -> SwarmMemory:
        places, means = memory.best_positions.copy(), memory.best_values.copy()
        counts, found, found_value = memory.best_counts.copy(), memory.found, memory.found_value
        if self._confirms(memory):
            first = _leader(memory)
            counts[first] += 1.0
            means[first] += (values[-1] - means[first]) / counts[first]
            if means[first] > found_value or np.array_equal(places[first], found):
                found, found_value = places[first], float(means[first])
            values = values[:-1]
        better = values > means
        places[better], means[better], counts[better] = memory.positions[better], values[better], 1.0
        leader = int(np.argmax(means))
        if not self.confirm:
            found, found_value = places[leader], float(means[leader])
        own, swarm = rng.random((2, *memory.positions.shape))
        velocities = self.inertia * memory.velocities + self.own_pull * own * (places - memory.positions)
        velocities += self.swarm_pull * swarm * (places[leader] - memory.positions)
        return SwarmMemory(memory.positions + velocities, velocities, places, means, counts, found, found_value)

    def current(self, memory: SwarmMemory) -> Array:
        return memory.found

    def _confirms(self, memory: SwarmMemory) -> bool:
        """Whether the last point of a generation is the swarm's best place again."""
        return self.confirm and bool(np.isfinite(memory.best_values).any())


def _leader(memory: SwarmMemory) -> int:
    return int(np.argmax(memory.best_values))
