"""DroQ critics: the compiled loop against a plain twin with automatic derivatives, the recipe's details, and learning."""

import copy

import numpy as np
import pytest

from abps.config import CriticsConfig, replace
from abps.critics import droq, make_critics
from abps.critics.droq import DroqCritics
from abps.critics.networks import draw_network, flatten, forward, unflatten
from abps.critics.scores import scores
from abps.data.replay import Replay
from abps.errors import NumericsError, ShapeError
from abps.gp.mean import advantage_gradients, validation_advantages
from abps.trajectory import Trajectory

SMALL = CriticsConfig(
    kind="droq", members=2, width=32, batch=32, dropout=0.2, steps_first=0, steps_probe=5, steps_centre=0, polyak=0.3
)
"""Many effects per step, so that a wrong one is seen after five steps; one program for most tests."""
LEARNER = replace(
    SMALL, width=64, batch=128, dropout=0.01, target="mean", learning_rate=3e-3, polyak=0.2, steps_first=4000
)


def make(problem, config: CriticsConfig, seed: int = 0) -> DroqCritics:
    critics = make_critics(config, problem.spec, problem.centre.policy_class, seed)
    assert isinstance(critics, DroqCritics)
    return critics


def started(problem, config: CriticsConfig, seed: int = 0) -> DroqCritics:
    critics = make(problem, config, seed)
    critics.start_centre(problem.centre, problem.replay, problem.scale)
    return critics


def twin(critics: DroqCritics, replay: Replay, steps: int) -> dict[str, np.ndarray]:
    """The same gradient steps with automatic derivatives, one network at a time: the recipe, written down once more."""
    import jax
    import jax.numpy as jnp

    from abps.seeding import generator

    config, state = critics.config, critics.state()
    chunk = critics._chunk(replay, generator(0, "critics", "batches", state["fits"], 0))
    pool = critics._pool.astype(np.float32) / (1 - config.dropout)
    size = config.batch * config.width

    def mask(step, kind, number):
        starts = chunk.masks[step, kind, number]
        return [pool[start : start + size].reshape(config.batch, config.width) for start in starts]

    @jax.jit
    def value(vector, inputs, masks):
        return forward(unflatten(vector, *critics._shape), inputs, masks, jnp).values

    def loss(vector, inputs, masks, goals):
        return jnp.mean(jnp.square(value(vector, inputs, masks) - goals))

    gradient = jax.jit(jax.grad(loss))
    for step in range(steps):
        count = state["steps"] + step + 1
        for critic in range(config.members):
            pair = (2 * critic, 2 * critic + 1)
            values = [value(state["target"][n], chunk.next_inputs[step, critic], mask(step, 1, n)) for n in pair]
            future = np.minimum(*values) if config.target == "min" else (values[0] + values[1]) / 2
            goals = chunk.rewards[step, critic] + chunk.discounts[step, critic] * future
            for n in pair:
                slope = np.asarray(gradient(state["online"][n], chunk.inputs[step, critic], mask(step, 0, n), goals))
                state["mean"][n] = 0.9 * state["mean"][n] + 0.1 * slope
                state["square"][n] = 0.999 * state["square"][n] + 0.001 * slope**2
                mean, square = state["mean"][n] / (1 - 0.9**count), state["square"][n] / (1 - 0.999**count)
                state["online"][n] -= config.learning_rate * mean / (np.sqrt(square) + 1e-8)
        if count % config.polyak_every == 0:
            state["target"] += config.polyak * (state["online"] - state["target"])
    return state


@pytest.mark.parametrize("target", ["min", "mean"])
def test_the_compiled_loop_is_the_recipe(noisy, target):
    config = replace(SMALL, target=target)
    critics = started(noisy, config)
    expected, before = twin(critics, noisy.replay, 5), critics.state()
    report = critics.update(noisy.replay)
    assert report == (0, 5, ())
    after = critics.state()
    for name in ("online", "target", "mean"):
        change = np.abs(after[name] - before[name]).max()
        # Adam divides by tiny gradients where there are no others, so single weights feel float32's rounding.
        assert np.quantile(np.abs(after[name] - expected[name]), 0.999) < 0.02 * change
    wrong = started(noisy, replace(config, target="mean" if target == "min" else "min"))
    other = twin(wrong, noisy.replay, 5)
    assert np.quantile(np.abs(after["mean"] - other["mean"]), 0.999) > 0.02 * np.abs(after["mean"]).max()


def test_weight_gradients_are_those_of_automatic_differentiation():
    import jax
    import jax.numpy as jnp

    from abps.critics.training import weight_gradients

    rng = np.random.default_rng(0)
    network = draw_network(5, 16, 3, rng)
    vector = flatten(network) + 0.1 * rng.standard_normal(flatten(network).size).astype(np.float32)
    inputs, cotangents = rng.standard_normal((8, 5)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    masks = [(rng.random((8, 16)) > 0.3).astype(np.float32) for _ in range(3)]

    def total(weights):
        return jnp.sum(cotangents * forward(unflatten(weights, 5, 16, 3), inputs, masks, jnp).values)

    network = unflatten(vector, 5, 16, 3)
    cache = jax.jit(lambda inputs: forward(network, inputs, masks, jnp))(inputs)
    np.testing.assert_allclose(forward(network, inputs, masks, np).values, cache.values, atol=1e-5)
    gradients = jax.jit(weight_gradients)
    ours = flatten(gradients(network, cache, cotangents, masks))
    np.testing.assert_allclose(ours, jax.jit(jax.grad(total))(vector), atol=1e-5)
    unmasked = flatten(gradients(network, cache, cotangents, None))
    assert np.abs(unmasked - ours).max() > 1e-2


def test_predictions_are_the_mean_of_the_target_pair_without_dropout(noisy):
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    states, actions = noisy.visits[0].states, noisy.visits[0].actions
    weights, inputs = critics.state()["target"], critics._scale.inputs(states, actions, np.float32)
    pairs = [forward(unflatten(row, *critics._shape), inputs, None, np).values for row in weights]
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


@pytest.mark.parametrize("rows", [1, 300, droq.VALUE_CHUNK + 5])
def test_values_are_the_mean_of_the_pairs_target_networks(noisy, rows):
    """Compiled, in padded chunks, against one network after the other in NumPy."""
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    rng = np.random.default_rng(rows)
    states, actions = rng.standard_normal((rows, 3)), rng.uniform(-1, 1, (rows, 2))
    inputs = critics._ready().inputs(states, actions, np.float32)
    saved = critics.state()
    networks = [unflatten(vector, *critics._shape) for vector in saved["target"]]
    one_by_one = np.array([forward(network, inputs, None, np).values for network in networks])
    np.testing.assert_allclose(critics.q(states, actions), (one_by_one[0::2] + one_by_one[1::2]) / 2, atol=3e-6)
    assert (
        np.abs(critics.q(states, actions) - one_by_one[0::2]).max() > 1e-3
    )  # The control: one network of a pair is not it.


def test_nothing_recompiles_as_data_and_steps_change(noisy):
    from abps.critics.training import predict

    critics = started(noisy, SMALL)
    replay = Replay(50_000, 3, 2)
    replay.load(noisy.replay.state())
    critics.update(replay)
    compiled = critics._loop()._cache_size()
    critics.q(np.ones((5, 3)), np.ones((5, 2)))
    predictions = predict._cache_size()
    for rows in (1, droq.VALUE_CHUNK, droq.VALUE_CHUNK + 1):
        critics.q(np.ones((rows, 3)), np.ones((rows, 2)))
    assert predict._cache_size() == predictions
    for steps in (1, 7, droq.CHUNK + 3):
        replay.append(Trajectory.build(np.ones((4, 3)), np.ones((3, 2)), np.ones(3), terminated=True, truncated=False))
        critics.config = replace(SMALL, steps_probe=steps, steps_centre=steps)
        assert critics.update(replay).steps == steps
        critics.start_centre(noisy.centre, replay, noisy.scale, worst=0)
    assert critics._loop()._cache_size() == compiled == 1


def test_a_new_centre_resets_optimisers_and_only_the_worst_weights(noisy):
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    before = critics.state()
    assert before["steps"] == 5
    assert np.abs(before["mean"]).max() > 0
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale, worst=1)
    after = critics.state()
    assert after["steps"] == 0
    assert not after["mean"].any()
    assert not after["square"].any()
    for name in ("online", "target"):
        np.testing.assert_array_equal(after[name][:2], before[name][:2])
        assert (after[name][2:] != before[name][2:]).mean() > 0.5
    np.testing.assert_array_equal(after["online"][2:], after["target"][2:])
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale, worst=1)
    assert (critics.state()["online"][2:] != after["online"][2:]).mean() > 0.5
    critics.start_centre(noisy.centre, noisy.replay, noisy.scale)
    np.testing.assert_array_equal(critics.state()["online"][:2], before["online"][:2])


def test_members_start_apart_and_draw_their_own_batches(noisy):
    critics = started(noisy, SMALL)
    weights = critics.state()["online"]
    assert len({row.tobytes() for row in weights}) == 4
    from abps.seeding import generator

    chunk = critics._chunk(noisy.replay, generator(0, "test"))
    assert not np.array_equal(chunk.inputs[0, 0], chunk.inputs[0, 1])
    assert len({part.tobytes() for part in chunk.masks.reshape(-1, 2)}) > 0.9 * chunk.masks.size / 2


def test_state_loads_bit_for_bit_and_goes_on_alike(noisy):
    critics = started(noisy, SMALL)
    critics.update(noisy.replay)
    again = make(noisy, SMALL)
    again.load(copy.deepcopy(critics.state()))
    for _ in range(2):
        for one, other in zip(flat(critics.state()), flat(again.state()), strict=True):
            np.testing.assert_array_equal(one, other)
        assert critics.update(noisy.replay) == again.update(noisy.replay)
    np.testing.assert_array_equal(
        critics.q(np.ones((2, 3)), np.ones((2, 2))), again.q(np.ones((2, 3)), np.ones((2, 2)))
    )
    assert not np.array_equal(critics.state()["online"], started(noisy, SMALL, seed=1).state()["online"])
    with pytest.raises(ShapeError, match="settings they were saved with"):
        make(noisy, replace(SMALL, width=16)).load(critics.state())


def flat(state) -> list:
    return [leaf for value in state.values() for leaf in (flat(value) if isinstance(value, dict) else [value])]


def test_a_diverged_member_is_drawn_anew_and_reported(noisy):
    critics = started(noisy, SMALL)
    state = critics.state()
    state["online"][3, 0] = np.nan
    critics.load(state)
    report = critics.update(noisy.replay)
    assert report.diverged == (1,)
    assert np.isfinite(critics.state()["online"]).all()
    assert np.isfinite(critics.q(np.ones((2, 3)), np.ones((2, 2)))).all()
    assert critics.update(noisy.replay).diverged == ()


@pytest.mark.parametrize(("terminated", "value"), [(True, 0.05), (False, 0.5)])
def test_termination_ends_the_sum_and_truncation_does_not(noisy, terminated, value):
    """One state, reward 0.05, γ 0.9: Q is the reward if every step terminates, ten times that if none does."""
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
    """The stated budget: 2952 transitions, two pairs of 64 units, 4000 steps of 128, three seconds; exact values score 0.977."""
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
