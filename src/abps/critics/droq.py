"""The paper's critics: k DroQ pairs trained by gradient steps on the TD error of the centre (paper Section 5.1).

Every critic is a pair of networks with dropout and layer norm; the TD target uses the pair's minimum (or mean), predictions
the mean of its target networks without dropout. Batches are gathered on the host, a chunk of steps at a time, and trained on
in one compiled loop (`training.py`); values are predicted by a compiled program, too, and the few slopes that are needed by NumPy. Weights live in flat float32 vectors.
Shapes: k critics, 2k networks, p weights per network, m states.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abps.config import CriticsConfig
from abps.critics.base import Array, Centre, Critics, FitReport, InputScale
from abps.critics.networks import Network, draw_network, flatten, forward, input_gradients, unflatten
from abps.data.replay import Replay
from abps.errors import NumericsError, ShapeError
from abps.policies import PolicyClass
from abps.seeding import generator
from abps.tasks.spec import TaskSpec

__all__ = ["DroqCritics"]

CHUNK = 32
"""Gradient steps per call of the compiled loop: 8 MB of batches for HalfCheetah."""
POOL = 1 << 20
"""Dropout bits drawn once; a layer's mask is a stretch of them from a random place on."""
STATISTICS = 100_000
"""The newest states that the input statistics are measured on."""
HUGE = 1e3
"""Weights beyond this mean that training diverged: Adam moves a weight by a few units per fit at most."""
VALUE_CHUNK = 1024
"""Rows per call of the compiled predictions."""
SLOPE_CHUNK = 256
"""Rows per product of slopes, so that hidden layers stay in the processor's cache."""

PROGRAM = (
    *("members", "width", "depth", "batch", "target", "dropout", "dropout_target"),
    *("learning_rate", "polyak", "polyak_every"),
)
"""The settings that the compiled loop depends on."""

_LOOPS: dict[CriticsConfig, Any] = {}
"""Compiled training loops by those settings: a second ensemble of the same shape does not compile again."""


class DroqCritics(Critics):
    """An ensemble of DroQ pairs."""

    def __init__(self, config: CriticsConfig, spec: TaskSpec, policy_class: PolicyClass, seed: int) -> None:
        self.config, self.spec, self.members = config, spec, config.members
        self._policy_class, self._seed = policy_class, seed
        self._shape = (spec.observation_dim + spec.action_dim, config.width, config.depth)
        self._centre: Centre | None = None
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

    def start_centre(self, centre: Centre, replay: Replay, reward_scale: float, worst: int | None = None) -> FitReport:
        """See `Critics.start_centre`; the other members start from what they learned for the last centre."""
        if worst is not None:
            self._initialise(worst)
        self._mean[:], self._square[:], self._steps = 0.0, 0.0, 0
        self._centre, self._reward_scale = centre, float(reward_scale)
        self._scale = InputScale.measure(self.spec, replay.newest(STATISTICS).states, self.config.clip)
        return self._fit(replay, self.config.steps_centre if self._fits else self.config.steps_first)

    def update(self, replay: Replay) -> FitReport:
        return self._fit(replay, self.config.steps_probe)

    def q(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        from abps.critics.training import predict, to_device

        inputs = self._ready().inputs(states, actions, np.float32)
        values = np.empty((2 * self.members, len(inputs)))
        networks = to_device(tuple(self._networks))
        for start in range(0, len(inputs), VALUE_CHUNK):
            part = inputs[start : start + VALUE_CHUNK]
            padded = np.pad(part, ((0, VALUE_CHUNK - len(part)), (0, 0)))  # One shape, so that nothing compiles again.
            values[:, start : start + len(part)] = np.asarray(predict(networks, padded))[:, : len(part)]
        return (values[0::2] + values[1::2]) / 2.0

    def action_gradients(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
        inputs = self._ready().inputs(states, actions, np.float32)
        slopes = np.empty((2 * self.members, *actions.shape))
        for number, network in enumerate(self._networks):
            for start in range(0, len(inputs), SLOPE_CHUNK):
                part = slice(start, start + SLOPE_CHUNK)
                cache = forward(network, inputs[part], None, np)
                slopes[number, part] = input_gradients(network, cache, np)[:, self.spec.observation_dim :]
        return (slopes[0::2] + slopes[1::2]) / (2.0 * self._ready().action_half)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "reward_scale": self._reward_scale,
            "seen": self._seen,
            "fits": self._fits,
            "steps": self._steps,
            "draws": self._draws.copy(),
            "online": self._online.copy(),
            "target": self._target.copy(),
            "mean": self._mean.copy(),
            "square": self._square.copy(),
        }
        if self._centre is not None and self._scale is not None:
            state |= {"centre": self._centre.state(), "scale": self._scale.state()}
        return state

    def load(self, state: dict[str, Any]) -> None:
        if np.shape(state["online"]) != self._online.shape:
            raise ShapeError(
                f"saved critics have weights of shape {np.shape(state['online'])}, these {self._online.shape}; "
                "load them with the settings they were saved with"
            )
        self._reward_scale, self._seen = float(state["reward_scale"]), int(state["seen"])
        self._fits, self._steps = int(state["fits"]), int(state["steps"])
        self._draws = np.array(state["draws"], dtype=np.int64)
        for name in ("online", "target", "mean", "square"):
            getattr(self, f"_{name}")[:] = state[name]
        if "centre" in state:
            self._centre = Centre.from_state(self._policy_class, state["centre"])
            self._scale = InputScale.from_state(self.spec, state["scale"], self.config.clip)
        self._refresh()

    def _initialise(self, member: int) -> None:
        """Draw both networks of a critic anew and forget what its optimiser knew."""
        rng = generator(self._seed, "critics", "weights", member, int(self._draws[member]))
        self._draws[member] += 1
        for number in (2 * member, 2 * member + 1):
            self._online[number] = flatten(draw_network(*self._shape, rng))
            self._target[number] = self._online[number]
            self._mean[number], self._square[number] = 0.0, 0.0
        self._refresh()

    def _refresh(self) -> None:
        """The networks that serve predictions, as views of the target weights."""
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
                row[:] = flatten(network)  # In place: the networks that serve predictions are views of these rows.
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

        program = CriticsConfig(**{name: getattr(self.config, name) for name in PROGRAM})
        if program not in _LOOPS:
            _LOOPS[program] = compiled_loop(program)
        return _LOOPS[program]

    def _chunk(self, replay: Replay, rng: np.random.Generator) -> Any:
        """Gather the batches of a chunk; every critic draws its own."""
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
            ((data.rewards - self.spec.reward_shift) / self._reward_scale).astype(np.float32).reshape(shape),
            np.where(data.terminated, 0.0, self.spec.gamma).astype(np.float32).reshape(shape),
            starts,
        )

    def _ready(self) -> InputScale:
        if self._scale is None:
            raise NumericsError("these critics have learned nothing yet; call start_centre first")
        return self._scale
