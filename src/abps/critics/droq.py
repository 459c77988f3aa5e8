"""The paper's critics: k DroQ pairs trained by gradient steps on the TD error of the centre (paper Section 5.1).

A critic is a pair of networks with dropout and layer norm. The TD target uses the minimum (or mean) of the pair's
target networks. Predictions are the mean of the target networks, without dropout.
The host gathers the batches of a chunk of steps. A compiled loop (`training.py`) trains on them. Values and action
gradients are computed by compiled programs, too. Weights are stored as flat float32 vectors.
Shapes: k critics, 2k networks, p weights per network, m states.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import Critics, FitReport, InputScale
from abps.critics.droq_config import Droq
from abps.critics.networks import Network, draw_network, flatten, unflatten
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.errors import NumericsError, ShapeError
from abps.normaliser import Normaliser
from abps.policies.policy import Policy, PolicySpace
from abps.seeding import generator

__all__ = ["DroqCritics"]

CHUNK = 32
"""Gradient steps per call of the compiled loop. A chunk for HalfCheetah takes 8 MB."""
POOL = 1 << 20
"""Number of dropout bits, drawn once. A layer's mask is a slice of them with a random start."""
STATISTICS = 100_000
"""Number of newest states from which the input statistics are computed."""
HUGE = 1e3
"""A weight above this means that training diverged. Adam changes a weight by a few units per fit at most."""
VALUE_CHUNK = 1024
"""Rows per call of the compiled prediction."""
SLOPE_CHUNK = 256
"""Rows per call of the compiled action gradients."""

PROGRAM = (
    *("members", "width", "depth", "batch", "target", "dropout", "dropout_target"),
    *("learning_rate", "polyak", "polyak_every", "output"),
)
"""Settings that the compiled loop depends on."""

_LOOPS: dict[Droq, Any] = {}
"""Compiled training loops, by these settings. A second ensemble of the same shape does not compile again."""


@dataclass
class DroqMemory:
    """Everything that DroQ critics need to go on."""

    reward_scale: float
    seen: int
    fits: int
    steps: int
    draws: NDArray[np.int64]
    online: NDArray[np.float32]
    target: NDArray[np.float32]
    mean: NDArray[np.float32]
    square: NDArray[np.float32]
    parameters: Array | None = None
    """θ of the centre."""
    normaliser: Normaliser | None = None
    input_mean: Array | None = None
    input_std: Array | None = None


class DroqCritics(Critics):
    """An ensemble of DroQ pairs."""

    def __init__(self, config: Droq, space: PolicySpace, objective: Objective, seed: int) -> None:
        self.config, self.members = config, config.members
        self.space, self.spec, self.objective, self._seed = space, space.spec, objective, seed
        spec = space.spec
        self._shape = (spec.observation_dim + spec.action_dim, config.width, config.depth)
        self._centre: Policy | None = None
        self._scale: InputScale | None = None
        self._reward_scale, self._seen = 1.0, 0
        self._fits, self._steps = 0, 0
        self._draws = np.zeros(self.members, dtype=np.int64)
        size = flatten(draw_network(*self._shape, generator(seed, "critics", "size"))).size
        self._online, self._target, self._mean, self._square = (
            np.zeros((2 * self.members, size), dtype=np.float32) for _ in range(4)
        )
        self._networks: list[Network] = []
        for member in range(self.members):
            self._initialise(member)
        rng = generator(seed, "critics", "dropout")
        size = max(POOL, 4 * config.batch * config.width)
        self._pool = (rng.random(size, dtype=np.float32) >= config.dropout).astype(np.int8)

    def start_centre(self, centre: Policy, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        """See `Critics.start_centre`. All members but the worst keep the weights learned for the last centre."""
        if worst is not None:
            self._initialise(worst)
        self._mean[:], self._square[:], self._steps = 0.0, 0.0, 0
        self._centre, self._reward_scale = centre, float(reward_scale)
        self._scale = InputScale.measure(self.spec, replay.newest(STATISTICS).states, self.config.clip)
        return self._fit(replay, self.config.steps_centre if self._fits else self.config.steps_first)

    def update(self, replay: Replay) -> FitReport:
        return self._fit(replay, self.config.steps_probe)

    def follow(self, centre: Policy, replay: Replay, steps: int) -> FitReport:
        """Learn on for a few steps about another policy; optimisers and the scale of the inputs stay as they are."""
        self._centre = centre
        return self._fit(replay, steps)

    def q(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        from abps.critics.training import predict

        values = self._in_chunks(predict, self._ready().inputs(states, actions, np.float32), VALUE_CHUNK)
        return (values[0::2] + values[1::2]) / 2.0

    def action_gradients(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        from abps.critics.training import input_gradients

        inputs = self._ready().inputs(states, actions, np.float32)
        slopes = self._in_chunks(input_gradients, inputs, SLOPE_CHUNK)[..., self.spec.observation_dim :]
        return (slopes[0::2] + slopes[1::2]) / (2.0 * self._ready().action_half)

    @property
    def memory(self) -> DroqMemory:  # type: ignore[override]
        """Weights, optimiser moments, counters, and the centre they belong to."""
        centre, scale = self._centre, self._scale
        return DroqMemory(
            self._reward_scale,
            self._seen,
            self._fits,
            self._steps,
            self._draws,
            self._online,
            self._target,
            self._mean,
            self._square,
            None if centre is None else centre.parameters,
            None if centre is None else centre.normaliser,
            None if scale is None else scale.mean,
            None if scale is None else scale.std,
        )

    @memory.setter
    def memory(self, memory: DroqMemory) -> None:
        if memory.online.shape != self._online.shape:
            raise ShapeError(
                f"saved critics have weights of shape {memory.online.shape}, these {self._online.shape}; "
                "load them with the settings they were saved with"
            )
        self._reward_scale, self._seen = memory.reward_scale, memory.seen
        self._fits, self._steps, self._draws = memory.fits, memory.steps, memory.draws
        self._online, self._target = memory.online, memory.target
        self._mean, self._square = memory.mean, memory.square
        if memory.parameters is not None and memory.normaliser is not None:
            self._centre = self.space.policy(memory.parameters, memory.normaliser)
        if memory.input_mean is not None and memory.input_std is not None:
            self._scale = InputScale.known(self.spec, memory.input_mean, memory.input_std, self.config.clip)
        self._refresh()

    def _in_chunks(self, program: Any, inputs: NDArray[np.float32], size: int) -> Array:
        """Apply a compiled program to the target networks, `size` rows at a time: (2k, m, …) in float64."""
        from abps.critics.training import to_device

        networks, parts = to_device(tuple(self._networks)), []
        for start in range(0, max(len(inputs), 1), size):
            part = inputs[start : start + size]
            padded = np.pad(part, ((0, size - len(part)), (0, 0)))  # A fixed shape compiles once.
            parts.append(
                np.asarray(program(networks, padded, self.config.output == "tanh"), dtype=np.float64)[:, : len(part)]
            )
        return np.concatenate(parts, axis=1)

    def _initialise(self, member: int) -> None:
        """Draw new weights for both networks of a critic and reset their optimiser."""
        rng = generator(self._seed, "critics", "weights", member, int(self._draws[member]))
        self._draws[member] += 1
        for number in (2 * member, 2 * member + 1):
            self._online[number] = flatten(draw_network(*self._shape, rng))
            self._target[number] = self._online[number]
            self._mean[number], self._square[number] = 0.0, 0.0
        self._refresh()

    def _refresh(self) -> None:
        """Rebuild the networks used for predictions: views of the target weights."""
        self._networks = [unflatten(vector, *self._shape) for vector in self._target]

    def _fit(self, replay: Replay, steps: int) -> FitReport:
        from abps.critics.training import Training, to_device

        loop, fresh = self._loop(), replay.total - self._seen
        vectors = (self._online, self._target, self._mean, self._square)
        parts = [tuple(unflatten(row, *self._shape) for row in vector) for vector in vectors]
        training = Training._make([*parts, np.int32(self._steps)])
        training, pool = to_device((training, self._pool))
        for start in range(0, steps, CHUNK):
            rng = generator(self._seed, "critics", "batches", self._fits, start)
            training = loop(training, pool, self._chunk(replay, rng), np.int32(min(CHUNK, steps - start)))
        for vector, part in zip(vectors, training[:4], strict=True):
            for row, network in zip(vector, part, strict=True):
                row[:] = flatten(network)  # In place: the networks used for predictions are views of these rows.
        self._steps += steps
        self._fits += 1
        self._seen = replay.total
        diverged = tuple(member for member in range(self.members) if not self._sound(member))
        for member in diverged:
            self._initialise(member)
        return FitReport(fresh, steps, diverged)

    def _sound(self, member: int) -> bool:
        pair = slice(2 * member, 2 * member + 2)
        return bool(np.all(np.abs(self._online[pair]) < HUGE) and np.all(np.abs(self._target[pair]) < HUGE))

    def _loop(self) -> Any:
        from abps.critics.training import compiled_loop

        program = Droq(**{name: getattr(self.config, name) for name in PROGRAM})
        if program not in _LOOPS:
            _LOOPS[program] = compiled_loop(program)
        return _LOOPS[program]

    def _chunk(self, replay: Replay, rng: np.random.Generator) -> Any:
        """Gather the batches of a chunk. Every critic has its own batches."""
        from abps.critics.training import Chunk

        config, scale, centre = self.config, self._ready(), self._centre
        if centre is None:
            raise NumericsError("these critics have no centre yet; call start_centre first")
        shape = (CHUNK, self.members, config.batch)
        data = replay.gather(replay.indices(rng, int(np.prod(shape))))
        size = self._pool.size - config.batch * config.width
        starts = rng.integers(0, size, (CHUNK, 2, 2 * self.members, config.depth), dtype=np.int32)
        return Chunk(
            scale.inputs(data.states, data.actions, np.float32).reshape(*shape, -1),
            scale.inputs(data.next_states, centre.actions(data.next_states), np.float32).reshape(*shape, -1),
            ((data.rewards - self.objective.shift) / self._reward_scale).astype(np.float32).reshape(shape),
            np.where(data.terminated, 0.0, self.objective.gamma).astype(np.float32).reshape(shape),
            starts,
        )

    def _ready(self) -> InputScale:
        if self._scale is None:
            raise NumericsError("these critics have learned nothing yet; call start_centre first")
        return self._scale
