"""The compiled programs of the DroQ critics: all gradient steps of a chunk in one, and predictions.

Importing this module imports jax; only `droq.py` does so, when it first trains or predicts. The networks of all k critics are
unrolled in the program (2k networks, two per critic), so that every product is a plain one of two matrices; the backward
pass is written by hand, with row and column sums as products.
Shapes: c steps per chunk, k critics, b batch, i inputs, h units, l hidden layers.
"""

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from abps.config import CriticsConfig
from abps.critics.networks import Cache, Layer, Network, forward, through_norm

__all__ = ["Chunk", "Training", "compiled_loop", "predict", "to_device", "weight_gradients"]

FLAGS = {"xla_cpu_multi_thread_eigen": "false", "xla_cpu_enable_concurrency_optimized_scheduler": "false"}
"""For XLA. Threads on products of this size cost more than they bring, and the default scheduler works on all networks at
once, layer by layer, for the sake of such threads; without it one network is finished before the next is begun and stays in
the cache: 0.55 against 0.48 of the sgemm rate in two runs. (Given as an option of `jax.jit`, the order did not change.)"""
DECAY_MEAN, DECAY_SQUARE, EPSILON = 0.9, 0.999, 1e-8
"""Adam's usual constants."""


class Training(NamedTuple):
    """What the gradient steps change: per network (2k of them) weights, target weights and Adam's moments."""

    online: tuple[Network, ...]
    target: tuple[Network, ...]
    mean: tuple[Network, ...]
    square: tuple[Network, ...]
    steps: Any
    """Gradient steps since the optimisers were reset, int32."""


class Chunk(NamedTuple):
    """The data of up to c gradient steps, drawn on the host."""

    inputs: Any
    """(c, k, b, i) at (s, a)."""
    next_inputs: Any
    """(c, k, b, i) at (s', π_θ(s'))."""
    rewards: Any
    """(c, k, b), scaled."""
    discounts: Any
    """(c, k, b): γ, or 0 after termination."""
    masks: Any
    """(c, 2, 2k, l) int32: where in the pool the dropout masks of online and target networks begin."""


def to_device(arrays: Any) -> Any:
    """Hand NumPy arrays in any nesting over to jax, which starts with the right flags then if it has not been started yet."""
    _set_flags()
    return jax.device_put(arrays)


def compiled_loop(config: CriticsConfig) -> Any:
    """Return the jitted function (training, pool of dropout bits (int8), chunk, steps) → training.

    The number of steps is an argument of the program and everything else has a fixed shape: it compiles once.
    """

    def run(training: Training, pool: jax.Array, chunk: Chunk, steps: jax.Array) -> Training:
        def body(step: jax.Array, carry: Training) -> Training:
            return _gradient_step(config, carry, pool, jax.tree.map(lambda part: part[step], chunk))

        return jax.lax.fori_loop(0, steps, body, training)

    return jax.jit(run, donate_argnums=0)


@jax.jit
def predict(networks: tuple[Network, ...], inputs: jax.Array) -> jax.Array:
    """Q of every network at (m, i) inputs, without dropout: (2k, m)."""
    return jnp.stack([forward(network, inputs, None, jnp).values for network in networks])


def _set_flags() -> None:
    """Prepare the environment that jax reads when it starts; if it was started elsewhere, training is only slower."""
    os.environ.setdefault("PJRT_NPROC", "1")
    for name, value in FLAGS.items():
        if name not in os.environ.get("XLA_FLAGS", ""):
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --{name}={value}".strip()


def weight_gradients(network: Network, cache: Cache, cotangents: jax.Array, masks: Any) -> Network:
    """Gradients of Σ cotangent·Q over the batch with respect to every weight."""
    slope = cotangents * (1.0 - cache.values * cache.values)
    ones = jnp.ones_like(slope)  # Column sums as products with ones.
    output_weight, output_bias = slope @ cache.activations[-1], slope.sum()
    cotangent, layers = slope[:, None] * network.weight, []
    for place in range(len(network.hidden) - 1, -1, -1):
        layer = network.hidden[place]
        active, linear = through_norm(layer, cache, place, cotangent, jnp)
        if masks is not None:
            linear = linear * masks[place]
        weight = cache.activations[place].T @ linear
        layers.append(Layer(weight, ones @ linear, ones @ (active * cache.normed[place]), ones @ active))
        if place > 0:
            cotangent = linear @ layer.weight.T
    return Network(tuple(reversed(layers)), output_weight, output_bias)


def _gradient_step(config: CriticsConfig, training: Training, pool: jax.Array, data: Chunk) -> Training:
    """One step of Adam for every network and, every `polyak_every` steps, one of the target networks."""
    steps = training.steps + 1
    correction = jnp.sqrt(1.0 - DECAY_SQUARE**steps) / (1.0 - DECAY_MEAN**steps)
    rate = config.learning_rate * correction
    blend = jnp.where(steps % config.polyak_every == 0, config.polyak, 0.0)
    columns: list[tuple[Network, Network, Network, Network]] = []
    for critic in range(config.members):
        pair = (2 * critic, 2 * critic + 1)
        goals = _targets(config, training, pool, data, critic)
        for number in pair:
            masks = _masks(config, pool, data.masks[0, number])
            network = training.online[number]
            cache = forward(network, data.inputs[critic], masks, jnp)
            cotangents = (2.0 / config.batch) * (cache.values - goals)
            gradient = weight_gradients(network, cache, cotangents, masks)
            mean = jax.tree.map(lambda m, g: DECAY_MEAN * m + (1 - DECAY_MEAN) * g, training.mean[number], gradient)
            square = jax.tree.map(
                lambda v, g: DECAY_SQUARE * v + (1 - DECAY_SQUARE) * g * g, training.square[number], gradient
            )
            online = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), network, mean, square)
            target = jax.tree.map(lambda old, new: old + blend * (new - old), training.target[number], online)
            columns.append((online, target, mean, square))
    return Training._make([*(tuple(part) for part in zip(*columns, strict=True)), steps])


def _targets(config: CriticsConfig, training: Training, pool: jax.Array, data: Chunk, critic: int) -> jax.Array:
    """r + γ(1 − terminated)·Q'(s', π_θ(s')) with the minimum or the mean of the pair: (b,)."""
    values = []
    for number in (2 * critic, 2 * critic + 1):
        masks = _masks(config, pool, data.masks[1, number]) if config.dropout_target else None
        values.append(forward(training.target[number], data.next_inputs[critic], masks, jnp).values)
    future = jnp.minimum(*values) if config.target == "min" else 0.5 * (values[0] + values[1])
    return data.rewards[critic] + data.discounts[critic] * future


def _masks(config: CriticsConfig, pool: jax.Array, starts: jax.Array) -> list[jax.Array] | None:
    """Dropout factors (b, h) of every hidden layer, cut from the pool of bits: drawing fresh ones would double the time."""
    if config.dropout == 0:
        return None
    shape, scale = (config.batch, config.width), 1.0 / (1.0 - config.dropout)
    bits = [jax.lax.dynamic_slice(pool, (starts[layer],), (shape[0] * shape[1],)) for layer in range(config.depth)]
    return [part.reshape(shape).astype(jnp.float32) * scale for part in bits]
