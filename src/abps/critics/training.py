"""Compiled programs of the DroQ critics (paper Section 5.1): a chunk of gradient steps, values, input gradients.

Importing this module imports jax, so `droq.py` imports it when it first trains or predicts. The program is unrolled
over the 2k networks (two per critic), so that every product is one of two matrices. Derivatives are those of
`jax.grad`, Adam is optax's: a step takes 1.07 to 1.08 times as long as with derivatives by hand at the paper's size,
too little to keep them (benchmarks/micro/critics_droq_autodiff.py and .txt).
Shapes: c steps per chunk, k critics, b batch, i inputs, h units, l hidden layers.
"""

import os
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from abps.critics.droq_config import Droq
from abps.critics.networks import Network, forward

__all__ = ["Chunk", "Training", "compiled_loop", "input_gradients", "predict", "td_loss", "to_device"]

FLAGS = {"xla_cpu_multi_thread_eigen": "false", "xla_cpu_enable_concurrency_optimized_scheduler": "false"}
"""XLA flags. Products of this size are slower with several threads. The default scheduler interleaves the networks
layer by layer to use such threads. Without it, XLA computes one network after the other, and a network stays in the
cache: 0.55 instead of 0.48 of the sgemm rate in two runs. As an option of `jax.jit`, the flag had no effect."""


class Training(NamedTuple):
    """State of the training: weights, target weights and Adam's moments of all 2k networks."""

    online: tuple[Network, ...]
    target: tuple[Network, ...]
    mean: tuple[Network, ...]
    square: tuple[Network, ...]
    steps: Any
    """Gradient steps since the optimisers were reset (int32)."""


class Chunk(NamedTuple):
    """Data of up to c gradient steps, drawn on the host."""

    inputs: Any
    """(c, k, b, i): scaled (s, a)."""
    next_inputs: Any
    """(c, k, b, i): scaled (s', π_θ(s'))."""
    rewards: Any
    """(c, k, b): scaled rewards."""
    discounts: Any
    """(c, k, b): γ, or 0 after termination."""
    masks: Any
    """(c, 2, 2k, l) int32: start of each dropout mask in the pool, for online (0) and target (1) networks."""


def to_device(arrays: Any) -> Any:
    """Move a pytree of NumPy arrays to jax. Sets the XLA flags first, in case jax has not been initialised yet."""
    _set_flags()
    return jax.device_put(arrays)


def compiled_loop(config: Droq) -> Any:
    """Return the jitted function (training, pool of dropout bits (int8), chunk, steps) → training.

    The number of steps is an argument and all shapes are fixed, so the function compiles once.
    """

    def run(training: Training, pool: jax.Array, chunk: Chunk, steps: jax.Array) -> Training:
        def body(step: jax.Array, carry: Training) -> Training:
            return _gradient_step(config, carry, pool, jax.tree.map(lambda part: part[step], chunk))

        return jax.lax.fori_loop(0, steps, body, training)

    return jax.jit(run, donate_argnums=0)


@partial(jax.jit, static_argnums=2)
def predict(networks: tuple[Network, ...], inputs: jax.Array, squash: bool) -> jax.Array:
    """Q of every network at (m, i) inputs, without dropout: (2k, m)."""
    return jnp.stack([forward(network, inputs, None, jnp, squash) for network in networks])


@partial(jax.jit, static_argnums=2)
def input_gradients(networks: tuple[Network, ...], inputs: jax.Array, squash: bool) -> jax.Array:
    """∂Q/∂x of every network at (m, i) inputs, without dropout: (2k, m, i)."""

    def total(inputs: jax.Array, network: Network) -> jax.Array:
        return forward(network, inputs, None, jnp, squash).sum()  # A row's value depends on that row only.

    return jnp.stack([jax.grad(total)(inputs, network) for network in networks])


def _set_flags() -> None:
    """Set the environment that jax reads when it is initialised. Later it has no effect, and training is slower."""
    os.environ.setdefault("PJRT_NPROC", "1")
    for name, value in FLAGS.items():
        if name not in os.environ.get("XLA_FLAGS", ""):
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --{name}={value}".strip()


def td_loss(network: Network, inputs: jax.Array, masks: Any, targets: jax.Array, squash: bool = True) -> jax.Array:
    """Mean squared TD error of one network over a batch. The targets are constants."""
    return jnp.mean(jnp.square(forward(network, inputs, masks, jnp, squash) - targets))


def _gradient_step(config: Droq, training: Training, pool: jax.Array, data: Chunk) -> Training:
    """One Adam step of every network. Every `polyak_every` steps, the target networks are updated too."""
    networks = range(2 * config.members)
    targets = [_targets(config, training, pool, data, critic) for critic in range(config.members)]
    masks = [_masks(config, pool, data.masks[0, number]) for number in networks]

    def total(online: tuple[Network, ...]) -> jax.Array:
        parts = [
            td_loss(online[n], data.inputs[n // 2], masks[n], targets[n // 2], config.output == "tanh")
            for n in networks
        ]
        return jnp.sum(jnp.stack(parts))

    moments: Any = optax.ScaleByAdamState(training.steps, training.mean, training.square)
    gradients: Any = jax.grad(total)(training.online)
    direction, moments = optax.scale_by_adam().update(gradients, moments)
    online: Any = jax.tree.map(lambda weight, part: weight - config.learning_rate * part, training.online, direction)
    blend = jnp.where(moments.count % config.polyak_every == 0, config.polyak, 0.0)
    target: Any = optax.incremental_update(online, training.target, blend)
    return Training(online, target, moments.mu, moments.nu, moments.count)


def _targets(config: Droq, training: Training, pool: jax.Array, data: Chunk, critic: int) -> jax.Array:
    """TD targets r + γ(1 − terminated)·Q'(s', π_θ(s')), Q' the minimum or mean of the pair's target networks: (b,)."""
    values = []
    for number in (2 * critic, 2 * critic + 1):
        masks = _masks(config, pool, data.masks[1, number]) if config.dropout_target else None
        values.append(forward(training.target[number], data.next_inputs[critic], masks, jnp, config.output == "tanh"))
    future = jnp.minimum(*values) if config.target == "min" else 0.5 * (values[0] + values[1])
    return data.rewards[critic] + data.discounts[critic] * future


def _masks(config: Droq, pool: jax.Array, starts: jax.Array) -> list[jax.Array] | None:
    """Dropout factors (b, h) of every hidden layer, slices of the pool. Drawing new bits would double the time."""
    if config.dropout == 0:
        return None
    shape, scale = (config.batch, config.width), 1.0 / (1.0 - config.dropout)
    bits = [jax.lax.dynamic_slice(pool, (starts[layer],), (shape[0] * shape[1],)) for layer in range(config.depth)]
    return [part.reshape(shape).astype(jnp.float32) * scale for part in bits]
