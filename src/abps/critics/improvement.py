"""Improvement on stored data: where the policy goes when it follows critics that are learned along the way.

A gradient at the centre is worth one short step. With thousands of stored transitions more can be had between two
episodes: a pair of networks is trained on the replay by temporal differences about the policy of the moment (targets
r + γ min Q(s', π(s'))), and every few gradient steps that policy moves a little along the deterministic policy gradient
of the pair,

    z ← z + stride · ĝ/|ĝ|,    g = E_s[(∂π/∂θ)ᵀ ∇_a Q(s, π(s))],    ĝ in the chart,

so that what is followed is the critics' view of the whole way, not of its beginning (as deep actor-critic methods do;
Fujimoto et al. 2018). The networks and their optimiser live on from centre to centre. Closed forms are better with few
transitions, networks with many: they join when the replay holds `transitions`. With a policy that is not linear they
join soon: the advantage of the closed forms is linear in the state, so that its natural gradient is a linear policy,
whatever the class could do.

Shapes: d parameters, c steps a chunk, b batch, s observation and a action size.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.critics.base import InputScale
from abps.critics.droq_config import Droq
from abps.critics.networks import draw_network, flatten, unflatten
from abps.data.objective import Objective
from abps.data.replay import Replay, Transitions
from abps.errors import NumericsError
from abps.policies.policy import Policy, PolicySpace
from abps.seeding import generator
from abps.settings import Part, require, setting
from abps.state import NoMemory

__all__ = ["Improvement", "Improver", "NoImprovement", "TwinNetworks"]

CHUNK = 32
"""Gradient steps about one policy; then it moves."""
STATES = 256
"""Stored states on which the policy gradient of one move is measured."""
REWARD_UNIT = 5.0
"""Rewards are divided by so many of their standard deviations, so that values are of the order of ten."""
CLIP = 10.0
"""Standardised observations are clipped at ± this."""
HUGE = 1e3
"""A weight above this means that training diverged; the networks are then drawn anew."""

Natural = Callable[[Array], Array | None]
"""From a gradient in the parameters (d,) to the move (d,) of length one in the chart along it; None: no direction."""


class Improver(ABC):
    """Finds better parameters on stored data; all of it is deterministic given the seed."""

    memory: Any
    """A dataclass of arrays and scalars: everything that is needed to go on."""

    @abstractmethod
    def improve(self, centre: Policy, replay: Replay, natural: Natural) -> Array | None:
        """Parameters (d,) that the stored data speak for, near the centre; None: they say nothing."""

    @abstractmethod
    def begin_anew(self, replay: Replay) -> None:
        """Forget what was learned, and everything stored so far: the search begins somewhere else."""


class Improvement(Part, ABC):
    """Settings of an improver, from which it is made."""

    family: ClassVar[str] = "improvement"

    @abstractmethod
    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Improver:
        """An improver that knows nothing yet."""


@dataclass(frozen=True)
class NoImprovement(Improvement):
    """None: steps follow the gradient at the centre."""

    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Improver:
        return _NoImprover()


class _NoImprover(Improver):
    def __init__(self) -> None:
        self.memory = NoMemory()

    def improve(self, centre: Policy, replay: Replay, natural: Natural) -> Array | None:
        return None

    def begin_anew(self, replay: Replay) -> None: ...


@dataclass(frozen=True)
class TwinNetworks(Improvement):
    """A pair of networks on all stored transitions, trained while the policy follows it."""

    few_parameters: int = setting(
        40, "linear policies with at most so many parameters do without: closed forms serve them"
    )
    transitions: int = setting(20_000, "stored transitions from which on the networks are used with a linear policy")
    transitions_nonlinear: int = setting(
        2000, "the same with any other policy: closed forms cannot tell how it should bend"
    )
    gamma: float = setting(0.99, "their discount γ")
    steps_first: int = setting(2000, "gradient steps before the policy moves for the first time")
    steps: int = setting(1000, "gradient steps at every centre")
    stride: float = setting(0.01, "change of the actions every 32 gradient steps, in halves of their ranges")
    width: int = setting(64, "units of the two hidden layers")
    batch: int = setting(64, "transitions a gradient step")
    learning_rate: float = setting(1e-3, "Adam's step size")

    def __post_init__(self) -> None:
        for name in ("transitions", "transitions_nonlinear", "steps_first", "steps", "width", "batch"):
            require(getattr(self, name) >= 1, f"improvement.{name} must be at least 1")
        require(self.few_parameters >= 0, "improvement.few_parameters must not be negative")
        require(0 < self.gamma <= 1, "improvement.gamma must be in (0, 1]")
        require(self.stride > 0 and self.learning_rate > 0, "stride and learning_rate must be positive")

    def make(self, space: PolicySpace, objective: Objective, seed: int) -> Improver:
        closed_forms_serve = space.policy_class.acts_linearly and space.size <= self.few_parameters
        return _NoImprover() if closed_forms_serve else TwinImprover(self, space, objective, seed)


@dataclass
class TwinMemory:
    """The networks, their optimiser, and the scales of what they see."""

    since: int = 0
    """Transitions ever stored when learning began; older ones are not looked at."""
    fits: int = 0
    """Calls of `improve` that trained, ever."""
    started: bool = False
    """Whether any of them was since then."""
    draws: int = 0
    steps: int = 0
    reward_unit: float = 1.0
    input_mean: Array | None = None
    input_std: Array | None = None
    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros((4, 2, 0), dtype=np.float32))
    """(4, 2, p): weights, target weights and Adam's two moments of both networks."""


class TwinImprover(Improver):
    """The improver of `TwinNetworks`."""

    def __init__(self, config: TwinNetworks, space: PolicySpace, objective: Objective, seed: int) -> None:
        self.config, self.space, self.objective, self._seed = config, space, objective, seed
        self.networks = Droq(
            members=1,
            width=config.width,
            batch=config.batch,
            dropout=0.0,
            dropout_target=False,
            learning_rate=config.learning_rate,
            polyak_every=1,
            output="linear",
        )
        self._shape = (space.spec.observation_dim + space.spec.action_dim, config.width, self.networks.depth)
        self.memory = TwinMemory()

    def improve(self, centre: Policy, replay: Replay, natural: Natural) -> Array | None:
        memory, config = self.memory, self.config
        count = min(replay.total - memory.since, len(replay))
        linear = self.space.policy_class.acts_linearly
        if count < (config.transitions if linear else config.transitions_nonlinear):
            return None
        rng, first = generator(self._seed, "improvement", memory.fits), not memory.started
        memory.fits, memory.started = memory.fits + 1, True
        if first:
            self._measure(replay.newest(count))
        if memory.weights.shape[2] == 0:
            self._draw()
        training, policy = self._on_device(), centre
        if first:
            for _ in range(config.steps_first // CHUNK):
                training, _ = self._learn(training, policy, replay, rng)
        for _ in range(max(config.steps // CHUNK, 1)):
            training, states = self._learn(training, policy, replay, rng)
            move = natural(self._gradient(training, policy, states))
            if move is not None and np.all(np.isfinite(move)):
                policy = self.space.policy(policy.parameters + config.stride * move, policy.normaliser)
        return policy.parameters if self._keep(training) else None

    def begin_anew(self, replay: Replay) -> None:
        memory = self.memory
        self.memory = TwinMemory(since=replay.total, fits=memory.fits, draws=memory.draws)

    def _measure(self, data: Transitions) -> None:
        """The scales of rewards and observations, once: the networks would have to learn every change of them."""
        memory = self.memory
        scale = InputScale.measure(self.space.spec, data.states, CLIP)
        memory.input_mean, memory.input_std = scale.mean, scale.std
        spread = float(np.std(data.rewards, dtype=np.float64))
        memory.reward_unit = REWARD_UNIT * (spread if spread > 0 else 1.0)

    def _draw(self) -> None:
        """New weights for both networks; Adam begins anew."""
        rng = generator(self._seed, "improvement", "weights", self.memory.draws)
        rows = np.stack([flatten(draw_network(*self._shape, rng)) for _ in range(2)])
        still = np.zeros_like(rows)
        self.memory.weights = np.stack([rows, rows, still, still])
        self.memory.draws, self.memory.steps = self.memory.draws + 1, 0

    def _on_device(self) -> Any:
        from abps.critics.training import Training, to_device

        parts = [tuple(unflatten(row, *self._shape) for row in rows) for rows in self.memory.weights]
        return to_device(Training._make([*parts, np.int32(self.memory.steps)]))

    def _keep(self, training: Any) -> bool:
        """Bring the networks back from the device; False when they diverged and are to be drawn anew."""
        rows = [[flatten(network) for network in part] for part in training[:4]]
        self.memory.weights, self.memory.steps = np.array(rows, dtype=np.float32), int(training.steps)
        sound = bool(np.all(np.abs(self.memory.weights[:2]) < HUGE))
        if not sound:
            self.memory.weights = self.memory.weights[:, :, :0]
        return sound

    def _learn(
        self, training: Any, policy: Policy, replay: Replay, rng: np.random.Generator
    ) -> tuple[Any, NDArray[np.float32]]:
        """Train a chunk of steps about a policy; also some of the states, for its gradient."""
        from abps.critics.training import Chunk

        config, (c, b) = self.config, (CHUNK, self.config.batch)
        count = min(replay.total - self.memory.since, len(replay))
        data = replay.gather((replay.total - 1 - rng.integers(0, count, c * b)) % replay.capacity)
        chunk = Chunk(
            self._inputs(data.states, data.actions).reshape(c, 1, b, -1),
            self._inputs(data.next_states, policy.actions(data.next_states)).reshape(c, 1, b, -1),
            ((data.rewards - self.objective.shift) / self.memory.reward_unit).astype(np.float32).reshape(c, 1, b),
            np.where(data.terminated, np.float32(0.0), np.float32(config.gamma)).astype(np.float32).reshape(c, 1, b),
            np.zeros((c, 2, 2, self.networks.depth), dtype=np.int32),
        )
        trained = compiled(self.networks)(training, np.zeros(1, dtype=np.int8), chunk, np.int32(c))
        return trained, data.states[:STATES]

    def _gradient(self, training: Any, policy: Policy, states: NDArray[np.float32]) -> Array:
        """The deterministic policy gradient (d,) of the pair's mean, on some states."""
        from abps.critics.training import input_gradients

        inputs = self._inputs(states, policy.actions(states))
        slopes = np.asarray(input_gradients(training.online, inputs, False), dtype=np.float64).mean(axis=0)
        cotangents = slopes[:, self.space.spec.observation_dim :] / (self.space.spec.action_half * len(states))
        return self.space.pullback(policy.parameters, states, policy.normaliser, cotangents)

    def _inputs(self, states: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float32]:
        memory = self.memory
        if memory.input_mean is None or memory.input_std is None:
            raise NumericsError("the networks have not seen any data yet")
        scale = InputScale.known(self.space.spec, memory.input_mean, memory.input_std, CLIP)
        return scale.inputs(states, actions, np.float32)


@lru_cache(maxsize=8)
def compiled(networks: Droq) -> Any:
    """The compiled training loop; a second pair of the same shape does not compile again."""
    from abps.critics.training import compiled_loop

    return compiled_loop(networks)
