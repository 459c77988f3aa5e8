"""DroQ critics (covers critics/droq.py, networks.py, training.py): gradients, training, predictions, state."""

from typing import Any, cast

import numpy as np
import pytest

from abps.critics import droq
from abps.critics.droq import DroqCritics
from abps.critics.droq_config import Droq
from abps.critics.networks import NORM_FLOOR, draw_network, flatten, forward, unflatten
from abps.critics.scores import scores
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.errors import NumericsError, ShapeError
from abps.model.advantage import advantage_gradients, validation_advantages
from abps.settings import replace
from abps.state import restore, save
from abps.trajectory import Trajectory

SMALL = Droq(members=2, width=32, batch=32, dropout=0.2, steps_first=0, steps_probe=5, steps_centre=0, polyak=0.3)
"""Large dropout and polyak rates, so that five steps show an error. Most tests share this compiled program."""
LEARNER = replace(
    SMALL, width=64, batch=128, dropout=0.01, target="mean", learning_rate=3e-3, polyak=0.2, steps_first=4000
)


def make(problem, config: Droq, seed: int = 0) -> DroqCritics:
    critics = config.make(problem.centre.space, Objective(problem.spec.gamma), seed)
    assert isinstance(critics, DroqCritics)
    return critics


def started(problem, config: Droq, seed: int = 0) -> DroqCritics:
    critics = make(problem, config, seed)
    critics.start_centre(problem.centre, problem.replay, problem.scale)
    return critics


def loss_and_gradient(vector, shape, inputs, masks, targets) -> tuple[float, np.ndarray]:
    """Mean squared TD error of one network and its gradient: NumPy in float64, backward pass by hand."""
    network = unflatten(cast("Any", np.asarray(vector, dtype=np.float64)), *shape)
    outputs, saved = [np.asarray(inputs, dtype=np.float64)], []
    for layer, mask in zip(network.hidden, masks, strict=True):
        linear = (outputs[-1] @ layer.weight + layer.bias) * mask
        deviation = np.sqrt(linear.var(axis=1, keepdims=True) + NORM_FLOOR)
        normed = (linear - linear.mean(axis=1, keepdims=True)) / deviation
        saved.append((normed, deviation))
        outputs.append(np.maximum(normed * layer.gain + layer.shift, 0.0))
    values = np.tanh(outputs[-1] @ network.weight + network.bias)
    error = values - np.asarray(targets, dtype=np.float64)
    slope = 2.0 * error / len(error) * (1.0 - values**2)
    parts = [slope @ outputs[-1], np.array([slope.sum()])]
    cotangent = slope[:, None] * network.weight
    for place in reversed(range(len(network.hidden))):
        layer, (normed, deviation) = network.hidden[place], saved[place]
        active = cotangent * (outputs[place + 1] > 0)
        scaled = active * layer.gain
        centred = scaled - scaled.mean(axis=1, keepdims=True)
        linear = (centred - normed * (scaled * normed).mean(axis=1, keepdims=True)) / deviation * masks[place]
        weight = outputs[place].T @ linear
        parts = [weight.ravel(), linear.sum(axis=0), (active * normed).sum(axis=0), active.sum(axis=0), *parts]
        cotangent = linear @ layer.weight.T
    return float(np.mean(error**2)), np.concatenate(parts)


def twin(critics: DroqCritics, replay: Replay, steps: int) -> dict[str, np.ndarray]:
    """The same gradient steps in NumPy, one network at a time, with gradients by hand."""
    from abps.seeding import generator

    config, state = critics.config, save(critics.memory)
    chunk = critics._chunk(replay, generator(0, "critics", "batches", state["fits"], 0))
    pool = critics._pool.astype(np.float32) / (1 - config.dropout)
    size = config.batch * config.width

    def mask(step, kind, number):
        starts = chunk.masks[step, kind, number]
        return [pool[start : start + size].reshape(config.batch, config.width) for start in starts]

    def value(vector, inputs, masks):
        return forward(unflatten(vector, *critics._shape), inputs, masks, np)

    for step in range(steps):
        count = state["steps"] + step + 1
        for critic in range(config.members):
            pair = (2 * critic, 2 * critic + 1)
            values = [value(state["target"][n], chunk.next_inputs[step, critic], mask(step, 1, n)) for n in pair]
            future = np.minimum(*values) if config.target == "min" else (values[0] + values[1]) / 2
            targets = chunk.rewards[step, critic] + chunk.discounts[step, critic] * future
            for n in pair:
                inputs, masks = chunk.inputs[step, critic], mask(step, 0, n)
                slope = loss_and_gradient(state["online"][n], critics._shape, inputs, masks, targets)[1]
                state["mean"][n] = 0.9 * state["mean"][n] + 0.1 * slope
                state["square"][n] = 0.999 * state["square"][n] + 0.001 * slope**2
                mean, square = state["mean"][n] / (1 - 0.9**count), state["square"][n] / (1 - 0.999**count)
                state["online"][n] -= config.learning_rate * mean / (np.sqrt(square) + 1e-8)
        if count % config.polyak_every == 0:
            state["target"] += config.polyak * (state["online"] - state["target"])
    return state


@pytest.mark.parametrize("target", ["min", "mean"])
def test_compiled_loop_equals_plain_training_steps(noisy, target):
    config = replace(SMALL, target=target)
    critics = started(noisy, config)
    expected, before = twin(critics, noisy.replay, 5), save(critics.memory)
    report = critics.update(noisy.replay)
    assert report == (0, 5, ())
    after = save(critics.memory)
    for name in ("online", "target", "mean"):
        change = np.abs(after[name] - before[name]).max()
        # Adam divides by the size of the gradient. Where it is tiny, rounding changes single weights visibly.
        assert np.quantile(np.abs(after[name] - expected[name]), 0.999) < 0.02 * change
    wrong = started(noisy, replace(config, target="mean" if target == "min" else "min"))
    other = twin(wrong, noisy.replay, 5)
    assert np.quantile(np.abs(after["mean"] - other["mean"]), 0.999) > 0.02 * np.abs(after["mean"]).max()


def test_gradients_of_the_loss_equal_those_by_hand():
    import jax

    from abps.critics.training import td_loss

    rng, shape = np.random.default_rng(0), (5, 16, 3)
    vector = flatten(draw_network(*shape, rng))
    vector += 0.1 * rng.standard_normal(vector.size).astype(np.float32)
    inputs, targets = rng.standard_normal((8, 5)).astype(np.float32), rng.uniform(-1, 1, 8).astype(np.float32)
    masks = [(rng.random((8, 16)) > 0.3).astype(np.float32) for _ in range(3)]
    network = unflatten(vector, *shape)
    loss, gradient = jax.jit(jax.value_and_grad(td_loss))(network, inputs, masks, targets)
    expected_loss, expected = loss_and_gradient(vector, shape, inputs, masks, targets)
    assert float(loss) == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(flatten(gradient), expected, atol=1e-5 * np.abs(expected).max())
    # Negative control: without the masks the gradient differs.
    without = loss_and_gradient(vector, shape, inputs, [np.ones((8, 16))] * 3, targets)[1]
    assert np.abs(flatten(gradient) - without).max() > 0.1 * np.abs(expected).max()


def test_gradients_by_hand_equal_finite_differences():
    """Checks the oracle of the other tests."""
    rng, shape = np.random.default_rng(1), (3, 8, 2)
    vector = flatten(draw_network(*shape, rng)).astype(np.float64)
    vector += 0.1 * rng.standard_normal(vector.size)
    inputs, targets = rng.standard_normal((6, 3)), rng.uniform(-1, 1, 6)
    masks = [(rng.random((6, 8)) > 0.3) / 0.7 for _ in range(2)]
    gradient = loss_and_gradient(vector, shape, inputs, masks, targets)[1]
    for place in rng.choice(vector.size, 40, replace=False):
        step = 1e-6 * (np.arange(vector.size) == place)
        above, below = (loss_and_gradient(vector + sign * step, shape, inputs, masks, targets)[0] for sign in (1, -1))
        assert (above - below) / 2e-6 == pytest.approx(gradient[place], abs=1e-6)


def test_predictions_are_the_mean_of_the_target_pair_without_dropout(noisy):
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    states, actions = noisy.visits[0].states, noisy.visits[0].actions
    assert critics._scale is not None
    weights, inputs = save(critics.memory)["target"], critics._scale.inputs(states, actions, np.float32)
    pairs = [forward(unflatten(row, *critics._shape), inputs, None, np) for row in weights]
    expected = np.array([(pairs[0] + pairs[1]) / 2, (pairs[2] + pairs[3]) / 2])
    np.testing.assert_allclose(critics.q(states, actions), expected, atol=1e-6)
    np.testing.assert_array_equal(critics.q(states, actions), critics.q(states, actions))


def test_action_gradients_are_derivatives(noisy):
    critics = started(noisy, SMALL)
    rng = np.random.default_rng(0)
    states, actions, step = rng.standard_normal((300, 3)), rng.uniform(-1, 1, (300, 2)), 1e-2
    slopes = critics.action_gradients(states, actions)
    for place in range(2):
        shift = step * np.eye(2)[place]
        numeric = (critics.q(states, actions + shift) - critics.q(states, actions - shift)) / (2 * step)
        assert np.median(np.abs(numeric - slopes[..., place])) < 0.01 * np.abs(slopes).max()
        # Negative control: the derivative with respect to the other action.
        assert np.median(np.abs(numeric - slopes[..., 1 - place])) > 0.05 * np.abs(slopes).max()


@pytest.mark.parametrize("rows", [1, 300, droq.VALUE_CHUNK + 5])
def test_values_are_the_mean_of_the_pairs_target_networks(noisy, rows):
    """Compiled prediction in padded chunks against NumPy, one network at a time."""
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    rng = np.random.default_rng(rows)
    states, actions = rng.standard_normal((rows, 3)), rng.uniform(-1, 1, (rows, 2))
    inputs = critics._ready().inputs(states, actions, np.float32)
    saved = save(critics.memory)
    networks = [unflatten(vector, *critics._shape) for vector in saved["target"]]
    one_by_one = np.array([forward(network, inputs, None, np) for network in networks])
    np.testing.assert_allclose(critics.q(states, actions), (one_by_one[0::2] + one_by_one[1::2]) / 2, atol=3e-6)
    # Negative control: one network of the pair gives other values.
    assert np.abs(critics.q(states, actions) - one_by_one[0::2]).max() > 1e-3


def test_nothing_recompiles_as_data_and_steps_change(noisy):
    from abps.critics.training import predict

    sizes = cast("Any", predict)._cache_size
    critics = started(noisy, SMALL)
    replay = Replay(50_000, 3, 2)
    replay.fill(noisy.replay.contents())
    critics.update(replay)
    compiled = critics._loop()._cache_size()
    critics.q(np.ones((5, 3)), np.ones((5, 2)))
    predictions = sizes()
    for rows in (1, droq.VALUE_CHUNK, droq.VALUE_CHUNK + 1):
        critics.q(np.ones((rows, 3)), np.ones((rows, 2)))
    assert sizes() == predictions
    for steps in (1, 7, droq.CHUNK + 3):
        replay.append(Trajectory.build(np.ones((4, 3)), np.ones((3, 2)), np.ones(3), terminated=True, truncated=False))
        critics.config = replace(SMALL, steps_probe=steps, steps_centre=steps)
        assert critics.update(replay).steps == steps
        critics.start_centre(noisy.centre, replay, noisy.scale, worst=0)
    assert critics._loop()._cache_size() == compiled == 1


def test_a_new_centre_resets_optimisers_and_only_the_worst_weights(noisy):
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    before = save(critics.memory)
    assert before["steps"] == 5
    assert np.abs(before["mean"]).max() > 0
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale, worst=1)
    after = save(critics.memory)
    assert after["steps"] == 0
    assert not after["mean"].any()
    assert not after["square"].any()
    for name in ("online", "target"):
        np.testing.assert_array_equal(after[name][:2], before[name][:2])
        assert (after[name][2:] != before[name][2:]).mean() > 0.5
    np.testing.assert_array_equal(after["online"][2:], after["target"][2:])
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale, worst=1)
    assert (save(critics.memory)["online"][2:] != after["online"][2:]).mean() > 0.5
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale)
    np.testing.assert_array_equal(save(critics.memory)["online"][:2], before["online"][:2])


def test_members_start_apart_and_draw_their_own_batches(noisy):
    critics = started(noisy, SMALL)
    weights = save(critics.memory)["online"]
    assert len({row.tobytes() for row in weights}) == 4
    from abps.seeding import generator

    chunk = critics._chunk(noisy.replay, generator(0, "test"))
    assert not np.array_equal(chunk.inputs[0, 0], chunk.inputs[0, 1])
    assert len({part.tobytes() for part in chunk.masks.reshape(-1, 2)}) > 0.9 * chunk.masks.size / 2


def test_loaded_state_continues_bit_for_bit(noisy):
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    again = make(noisy, SMALL)
    again.memory = restore(again.memory, save(critics.memory))
    for _ in range(2):
        for one, other in zip(flat(save(critics.memory)), flat(save(again.memory)), strict=True):
            np.testing.assert_array_equal(one, other)
        assert critics.update(noisy.replay) == again.update(noisy.replay)
    np.testing.assert_array_equal(
        critics.q(np.ones((2, 3)), np.ones((2, 2))), again.q(np.ones((2, 3)), np.ones((2, 2)))
    )
    assert not np.array_equal(save(critics.memory)["online"], save(started(noisy, SMALL, seed=1).memory)["online"])
    with pytest.raises(ShapeError, match="settings they were saved with"):
        make(noisy, replace(SMALL, width=16)).memory = critics.memory


def flat(state) -> list:
    return [leaf for value in state.values() for leaf in (flat(value) if isinstance(value, dict) else [value])]


def test_a_diverged_member_is_reinitialised_and_reported(noisy):
    critics = started(noisy, SMALL)
    state = save(critics.memory)
    state["online"][3, 0] = np.nan
    critics.memory = restore(critics.memory, state)
    report = critics.update(noisy.replay)
    assert report.diverged == (1,)
    assert np.isfinite(save(critics.memory)["online"]).all()
    assert np.isfinite(critics.q(np.ones((2, 3)), np.ones((2, 2)))).all()
    assert critics.update(noisy.replay).diverged == ()


@pytest.mark.parametrize(("terminated", "value"), [(True, 0.05), (False, 0.5)])
def test_termination_ends_the_sum_and_truncation_does_not(noisy, terminated, value):
    """One state, reward 0.05, γ 0.9: Q = 0.05 if every step terminates, and 0.05/(1 − γ) = 0.5 if none does."""
    replay = Replay(100, 3, 2)
    for _ in range(20):
        actions = np.zeros((1, 2))
        replay.append(
            Trajectory.build(np.zeros((2, 3)), actions, [0.05], terminated=terminated, truncated=not terminated)
        )
    critics = make(noisy, replace(LEARNER, steps_first=600))
    critics.start_centre(noisy.centre, replay, 1.0)
    np.testing.assert_allclose(critics.q(np.zeros((1, 3)), np.zeros((1, 2)))[:, 0], value, atol=0.05)


def test_learns_values_and_gradients_of_a_linear_quadratic_task(noisy):
    """2952 transitions, two pairs of 64 units, 4000 steps of batch 128, about 3 s. Exact values would score 0.977."""
    critics = started(noisy, LEARNER)
    advantages = validation_advantages(critics, noisy.centre, noisy.visits)
    assert scores(noisy.returns[:3].mean(), advantages, noisy.returns).max() >= 0.9
    gradients = advantage_gradients(critics, noisy.centre, noisy.visits[0])
    truth = noisy.system.gradient(noisy.gain).ravel()
    assert (truth @ gradients / np.linalg.norm(truth) / np.linalg.norm(gradients, axis=0)).max() >= 0.9


def test_use_before_learning_is_refused(noisy):
    with pytest.raises(NumericsError, match="start_centre"):
        make(noisy, SMALL).q(np.zeros((1, 3)), np.zeros((1, 2)))
    with pytest.raises(NumericsError, match="start_centre"):
        make(noisy, SMALL).update(noisy.replay)
