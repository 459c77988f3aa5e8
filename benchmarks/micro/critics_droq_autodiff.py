"""DroQ training step: `jax.grad` and optax (`abps.critics.training`) against derivatives by hand, measured in one run.

Run: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/micro/critics_droq_autodiff.py
Output: critics_droq_autodiff.txt. A ratio is processor time over that of the code by hand: above 1, the code by hand is
faster. Every round times all programs, in rotating order, because the speed of a shared machine changes.

The code by hand is the one that abps had up to commit db8d57b: backward pass, Adam and target update. All programs
share the batches, the dropout masks (slices of one precomputed pool), the XLA flags and the compiled loop over steps.
Drawing the batches is not timed. Gradients and losses are compared first; one comparison has wrong masks and must fail.

Shapes: c steps per chunk, k critics (2k networks), b batch, i inputs, h units, l hidden layers, m rows.
"""

import os
import platform
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from threadpoolctl import threadpool_limits

from abps.critics.droq import CHUNK, POOL, SLOPE_CHUNK
from abps.critics.droq_config import Droq
from abps.critics.networks import NORM_FLOOR, Layer, Network, draw_network
from abps.critics.training import (
    Chunk,
    Training,
    _masks,
    _targets,
    compiled_loop,
    input_gradients,
    td_loss,
    to_device,
)
from abps.settings import replace

STATES, ACTIONS = 17, 6
"""HalfCheetah."""
ROUNDS = 20
TOLERANCE = 1e-4
"""Largest relative difference of two gradients that counts as float32 rounding. The rounding of a sum is below 1e-6. It
can switch a ReLU near zero, and one unit of 256 at one row of 256 changes a gradient by about 1e-5."""
BY_HAND = "by hand"


class Cache(NamedTuple):
    """Results of the forward pass that the backward pass by hand needs."""

    activations: tuple[Any, ...]
    """Inputs and outputs of the hidden layers: (m, i), (m, h), …"""
    normed: tuple[Any, ...]
    """Standardised hidden layers, before gain and shift: (m, h), …"""
    inverse_deviations: tuple[Any, ...]
    """(m, 1), …"""
    values: Any
    """Q (m,)"""


def cached_forward(network: Network, inputs: Any, masks: Any, xp: ModuleType) -> Cache:
    """The same operations as `networks.forward`."""
    activations, normed, inverse_deviations = [inputs], [], []
    for place, layer in enumerate(network.hidden):
        linear = activations[-1] @ layer.weight + layer.bias
        if masks is not None:
            linear = linear * masks[place]
        mean = linear.mean(axis=1, keepdims=True)
        variance = xp.maximum((linear * linear).mean(axis=1, keepdims=True) - mean * mean, 0.0)
        inverse = 1.0 / xp.sqrt(variance + NORM_FLOOR)
        normed.append((linear - mean) * inverse)
        inverse_deviations.append(inverse)
        activations.append(xp.maximum(normed[-1] * layer.gain + layer.shift, 0.0))
    values = xp.tanh(activations[-1] @ network.weight + network.bias)
    return Cache(tuple(activations), tuple(normed), tuple(inverse_deviations), values)


def through_norm(layer: Layer, cache: Cache, place: int, cotangent: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Backward pass of a hidden layer's ReLU and layer norm: cotangents (m, h) after each of the two."""
    normed, inverse = cache.normed[place], cache.inverse_deviations[place]
    active = xp.where(cache.activations[place + 1] > 0, cotangent, xp.zeros_like(cotangent))
    share = layer.gain / np.float32(layer.gain.shape[0])
    along = ((active * normed) @ share)[:, None]
    return active, (active * layer.gain - (active @ share)[:, None] - normed * along) * inverse


def weight_gradients(network: Network, cache: Cache, cotangents: jax.Array, masks: Any) -> Network:
    """Gradient of Σ cotangent·Q, summed over the batch, with respect to all weights."""
    slope = cotangents * (1.0 - cache.values * cache.values)
    ones = jnp.ones_like(slope)  # Column sums are computed as products with ones.
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


def gradients_by_hand(network: Network, inputs: jax.Array, masks: Any, goals: jax.Array) -> Network:
    cache = cached_forward(network, inputs, masks, jnp)
    return weight_gradients(network, cache, (2.0 / len(goals)) * (cache.values - goals), masks)


def slopes_by_hand(network: Network, inputs: np.ndarray) -> np.ndarray:
    """∂Q/∂x at every row, without dropout: (m, i)."""
    cache = cached_forward(network, inputs, None, np)
    cotangent = (1.0 - cache.values * cache.values)[:, None] * network.weight
    for place in range(len(network.hidden) - 1, -1, -1):
        _, linear = through_norm(network.hidden[place], cache, place, cotangent, np)
        cotangent = linear @ network.hidden[place].weight.T
    return cotangent


def step(gradients: Any, config: Droq, training: Training, pool: jax.Array, data: Chunk) -> Training:
    """One step, one network after the other, with Adam and target update by hand."""
    steps = training.steps + 1
    rate = config.learning_rate * jnp.sqrt(1.0 - 0.999**steps) / (1.0 - 0.9**steps)
    blend = jnp.where(steps % config.polyak_every == 0, config.polyak, 0.0)
    columns = []
    for critic in range(config.members):
        goals = _targets(config, training, pool, data, critic)
        for number in (2 * critic, 2 * critic + 1):
            network = training.online[number]
            masks = _masks(config, pool, data.masks[0, number])
            gradient = gradients(network, data.inputs[critic], masks, goals)
            mean = jax.tree.map(lambda m, g: 0.9 * m + (1 - 0.9) * g, training.mean[number], gradient)
            square = jax.tree.map(lambda v, g: 0.999 * v + (1 - 0.999) * g * g, training.square[number], gradient)
            online = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), network, mean, square)
            target = jax.tree.map(lambda old, new: old + blend * (new - old), training.target[number], online)
            columns.append((online, target, mean, square))
    return Training._make([*(tuple(part) for part in zip(*columns, strict=True)), steps])


def loop(config: Droq, gradients: Any) -> Any:
    """The same compiled loop as `compiled_loop`, around `step`."""

    def run(training: Training, pool: jax.Array, chunk: Chunk, steps: jax.Array) -> Training:
        def body(number: jax.Array, carry: Training) -> Training:
            return step(gradients, config, carry, pool, jax.tree.map(lambda part: part[number], chunk))

        return jax.lax.fori_loop(0, steps, body, training)

    return jax.jit(run, donate_argnums=0)


def programs(config: Droq) -> dict[str, Any]:
    """Functions (training, pool, chunk, steps) → training."""
    return {
        BY_HAND: loop(config, gradients_by_hand),
        "jax.grad, Adam by hand": loop(config, jax.grad(td_loss)),
        "jax.grad + optax (abps)": compiled_loop(config),
    }


def start(networks: tuple[Network, ...]) -> Training:
    """State before the first step. The loops overwrite it, so it holds copies."""

    def zeros() -> Any:
        return jax.tree.map(jnp.zeros_like, networks)

    return Training(copied(networks), copied(networks), zeros(), zeros(), jnp.int32(0))


def draw(config: Droq) -> tuple[tuple[Network, ...], jax.Array, Chunk]:
    """Networks, pool of dropout bits and a chunk of batches, laid out as `DroqCritics` does."""
    rng, inputs = np.random.default_rng(0), STATES + ACTIONS
    shape = (CHUNK, config.members, config.batch)
    pool = (rng.random(max(POOL, 4 * config.batch * config.width)) >= config.dropout).astype(np.int8)
    ends = pool.size - config.batch * config.width
    chunk = Chunk(
        rng.standard_normal((*shape, inputs)).astype(np.float32),
        rng.standard_normal((*shape, inputs)).astype(np.float32),
        rng.uniform(-0.1, 0.1, shape).astype(np.float32),
        np.where(rng.random(shape) < 0.01, 0.0, 0.99).astype(np.float32),
        rng.integers(0, ends, (CHUNK, 2, 2 * config.members, config.depth), dtype=np.int32),
    )
    networks = tuple(draw_network(inputs, config.width, config.depth, rng) for _ in range(2 * config.members))
    return to_device((networks, pool, chunk))


def copied(networks: Any) -> Any:
    """The loops overwrite their first argument."""
    return jax.tree.map(jnp.copy, networks)


def difference(one: Any, other: Any) -> float:
    """Largest relative difference over the arrays of all networks: norm of the difference over norm of the array."""

    def relative(left: Any, right: Any) -> float:
        left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
        return float(np.linalg.norm(left - right) / np.linalg.norm(right))

    return max(jax.tree.leaves(jax.tree.map(relative, one, other)))


def check(config: Droq, candidates: dict[str, Any]) -> None:
    """Compare every program with the code by hand: gradients at equal weights, then losses after separate training.

    Gradients are compared at the initial weights and after a chunk of steps, and must agree up to rounding. Losses
    after a chunk of steps agree less well: Adam divides by the size of a gradient, so rounding in tiny gradients grows.
    """
    networks, pool, chunk = draw(config)

    def gradient(name: str, weights: Any, bits: jax.Array) -> Any:
        """From Adam's first moments after one step: 0.1 of the gradient."""
        return jax.tree.map(lambda part: 10 * part, candidates[name](start(weights), bits, chunk, np.int32(1)).mean)

    def trained(name: str) -> Training:
        return candidates[name](start(networks), pool, chunk, np.int32(CHUNK))

    @jax.jit
    def losses(training: Training) -> jax.Array:
        data = jax.tree.map(lambda part: part[0], chunk)
        goals = [_targets(config, training, pool, data, critic) for critic in range(config.members)]
        parts = [
            td_loss(network, data.inputs[number // 2], _masks(config, pool, data.masks[0, number]), goals[number // 2])
            for number, network in enumerate(training.online)
        ]
        return jnp.stack(parts)

    after = trained(BY_HAND)
    later, expected = copied(after.online), losses(after)
    learned = np.abs(losses(start(networks)) / expected - 1).min()
    print(f"  {BY_HAND}: the first loss is {learned:.0%} or more above the loss after {CHUNK} steps")
    for name in candidates:
        if name == BY_HAND:
            continue
        apart = [
            difference(gradient(name, weights, pool), gradient(BY_HAND, weights, pool)) for weights in (networks, later)
        ]
        control = difference(gradient(name, networks, jnp.ones_like(pool)), gradient(BY_HAND, networks, pool))
        off = float(np.abs(losses(trained(name)) / expected - 1).max())
        print(
            f"  {name}: gradients differ by {apart[0]:.1e} and {apart[1]:.1e} (control, no dropout: {control:.1e}), "
            f"losses after {CHUNK} steps by {off:.1e}"
        )
        assert max(apart) < TOLERANCE
        assert control > 100 * TOLERANCE
        assert off < 0.01 * learned


def report(seconds: dict[str, list[float]], unit: str) -> None:
    base = np.array(seconds[BY_HAND])
    for name, part in seconds.items():
        low, middle, high = np.quantile(np.array(part) / base, (0.25, 0.5, 0.75))
        print(
            f"  {name:24s} best {1e3 * min(part):6.2f}, median {1e3 * np.median(part):6.2f} CPU ms per {unit}; "
            f"ratio {min(part) / base.min():.2f} of bests, {middle:.2f} median of rounds ({low:.2f} to {high:.2f})"
        )


def in_turn(calls: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Processor seconds per call, one list entry per round."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(ROUNDS):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = time.process_time()
            for _ in range(repeats):
                calls[name]()
            seconds[name].append((time.process_time() - start) / repeats)
    return seconds


def time_steps(config: Droq, candidates: dict[str, Any]) -> None:
    networks, pool, chunk = draw(config)
    states = {name: start(networks) for name in candidates}

    def run(name: str) -> None:
        states[name] = jax.block_until_ready(candidates[name](states[name], pool, chunk, np.int32(CHUNK)))

    for name in candidates:
        run(name)
    seconds = in_turn({name: partial(run, name) for name in candidates}, 1 if config.width > 100 else 8)
    report({name: [part / CHUNK for part in parts] for name, parts in seconds.items()}, "step")


def time_slopes(config: Droq, rows: int) -> None:
    """∂Q/∂(s, a) of all networks: by hand in NumPy, and the compiled program of abps, both in chunks of rows."""
    rng = np.random.default_rng(0)
    networks = [draw_network(STATES + ACTIONS, config.width, config.depth, rng) for _ in range(2 * config.members)]
    inputs = rng.standard_normal((rows, STATES + ACTIONS)).astype(np.float32)
    starts = range(0, rows, SLOPE_CHUNK)

    def numpy_by_hand() -> np.ndarray:
        out = np.empty((len(networks), *inputs.shape))
        for number, network in enumerate(networks):
            for first in starts:
                part = slice(first, first + SLOPE_CHUNK)
                out[number, part] = slopes_by_hand(network, inputs[part])
        return out

    def by_autodiff() -> np.ndarray:
        out, device = np.empty((len(networks), *inputs.shape)), to_device(tuple(networks))
        for first in starts:
            part = inputs[first : first + SLOPE_CHUNK]
            padded = np.pad(part, ((0, SLOPE_CHUNK - len(part)), (0, 0)))
            out[:, first : first + len(part)] = np.asarray(input_gradients(device, padded))[:, : len(part)]
        return out

    expected = numpy_by_hand()
    apart = np.linalg.norm(by_autodiff() - expected) / np.linalg.norm(expected)
    print(f"{rows} rows, width {config.width}; the slopes differ by {apart:.1e}")
    assert apart < TOLERANCE
    assert np.linalg.norm(by_autodiff()[::-1] - expected) > 0.1 * np.linalg.norm(expected)  # Control: wrong networks.
    report(in_turn({BY_HAND: numpy_by_hand, "jax.grad (abps)": by_autodiff}, 4), "call")


def main() -> None:
    print(
        f"jax {jax.__version__}, optax {optax.__version__}, Python {platform.python_version()}, {os.cpu_count()} CPUs"
    )
    print(f"load average {os.getloadavg()[0]:.1f}, {ROUNDS} rounds")
    for config in (Droq(), replace(Droq(), width=64)):
        candidates = programs(config)
        print(f"training step, {config.members} pairs, {config.width} × {config.depth}, batch {config.batch}")
        check(config, candidates)
        time_steps(config, candidates)
    print("slopes of the values for predictions")
    for rows in (50, 256, 1000):
        time_slopes(Droq(), rows)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    to_device(np.zeros(1))  # Starts jax with the flags of the training loop.
    with threadpool_limits(1):
        main()
