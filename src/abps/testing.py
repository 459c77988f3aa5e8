"""Checks for parts that you wrote yourself: does a part keep its contract?

Each check takes one part and raises an `AssertionError` whose text says what is wrong. Derivatives are compared with
central differences, memories are saved and restored, and whatever must be deterministic is computed twice. A test of
your own is one line: `check_kernel(RationalQuadratic())`. Shapes: n points, m candidates or states, d parameters.
"""

import copy
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

from abps.acquisition.base import Criterion
from abps.arrays import Array
from abps.critics.base import CriticsPart
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.data.visits import Visits
from abps.data.window import Point
from abps.errors import AbpsError
from abps.model import kernel as kernels
from abps.model.gp import GP, Model, PriorMean
from abps.model.kernel import FastKernel, Hyper, Kernel
from abps.model.neighbourhood import Neighbourhood
from abps.model.posterior import Features, GradientPosterior, condition
from abps.normaliser import Normaliser
from abps.policies.base import FastControl, Layered, PolicyClass, PriorMetric, ScaledInputs
from abps.policies.layers import SQUASHES, forward
from abps.policies.linear import ClippedLinear
from abps.policies.path import ParameterPath
from abps.policies.policy import PolicySpace, is_reserved, load_policy
from abps.registry import check_part
from abps.rollouts.episode import attempt_episode
from abps.run.checkpoint import reloaded
from abps.search.base import Query, Search, SearchConfig
from abps.seeding import generator, integer_seed
from abps.settings import Part, from_dict, to_dict
from abps.state import restore, save
from abps.steps.base import Move, StepInput, StepRule
from abps.strategies.base import Strategy
from abps.tasks.gym import Task, make_task
from abps.tasks.lqr import make_env
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

__all__ = [
    "check_criterion",
    "check_critics",
    "check_kernel",
    "check_part_settings",
    "check_policy_class",
    "check_search",
    "check_step",
    "check_strategy",
]

SPEC = TaskSpec("check", observation_dim=3, action_dim=2, action_low=(-1.0, -0.5), action_high=(1.0, 2.5), horizon=20)
"""A small task whose actions have unlike bounds."""
ADVICE = "what it remembers must stand in `memory`, and random numbers must come from `generator(seed, …)`"
TOLERANCE = 1e-5
"""Of derivatives, relative to the largest entry."""


def check_part_settings(part: Part) -> None:
    """A part is a frozen dataclass that settings files can name, write and read back."""
    name = type(part).__qualname__
    try:
        check_part(type(part), type(part).family, name)
    except AbpsError as error:
        raise AssertionError(str(error)) from error
    _expect(type(part).__dataclass_params__.frozen, f"{name} must be frozen: @dataclass(frozen=True)")  # type: ignore[attr-defined]
    document = to_dict(part)
    try:
        again = from_dict(type(part), json.loads(json.dumps(document)))
    except Exception as error:
        raise AssertionError(f"the settings of {name} cannot be written and read back: {error}") from error
    _expect(again == part, f"the settings of {name} change when they are written and read back: {document}")


def check_kernel(kernel: Kernel) -> None:
    """κ(0) = 1, κ'(0) = −½, w = −2κ', w' by differences, and Gram matrices without negative eigenvalues."""
    check_part_settings(kernel)
    name = type(kernel).__qualname__
    at_zero = kernel.profile(np.zeros(1))
    _expect(abs(at_zero.value[0] - 1.0) < 1e-12, f"{name}: κ(0) must be 1, it is {at_zero.value[0]}")
    _expect(
        abs(at_zero.weight[0] - 1.0) < 1e-12,
        f"{name}: w(0) = −2κ'(0) must be 1, it is {at_zero.weight[0]}; divide u by a constant to have it so",
    )
    squared = np.geomspace(1e-2, 50.0, 60)
    profile = kernel.profile(squared)
    for part, slope, what in (
        ("value", -0.5 * profile.weight, "weight must be −2κ'(u)"),
        ("weight", profile.weight_slope, "weight_slope must be w'(u)"),
    ):
        numeric = _slopes(lambda u, part=part: getattr(kernel.profile(u), part), squared, 1e-5 * squared)
        _close(slope, numeric, f"{name}.profile: {what}")
    for shape in ((), (4,), (3, 4)):
        for part in kernel.profile(np.ones(shape)):
            _expect(
                np.shape(part) == shape, f"{name}.profile gave shape {np.shape(part)} for distances of shape {shape}"
            )
    for dimensions in (1, 3, 10):
        points = generator(0, "check-kernel", dimensions).standard_normal((25, dimensions))
        gram = kernel.profile(np.square(points[:, None] - points[None]).sum(-1)).value
        least = float(np.linalg.eigvalsh(gram)[0])
        _expect(
            least > -1e-9, f"{name} is no kernel: a Gram matrix in {dimensions} dimensions has eigenvalue {least:.2g}"
        )
    if isinstance(kernel, FastKernel):
        _check_fast_kernel(kernel, name)


def _check_fast_kernel(kernel: Kernel, name: str) -> None:
    """What a kernel computes in its own way agrees with what follows from its profile."""

    class Plain(Kernel):
        def profile(self, squared: Array) -> kernels.Profile:
            return kernel.profile(squared)

    plain, points = Plain(), generator(0, "check-fast-kernel").standard_normal((6, 3))
    half = 0.5 * np.square(points).sum(-1)
    squares = np.square(points[:, None] - points[None]).sum(-1)
    calls: dict[str, Callable[[Kernel], Iterable[Any]]] = {
        "scaled": lambda k: kernels.scaled(k, half, 0.3),
        "remainder": lambda k: kernels.remainder(k, points @ points.T, half[:, None], half, lambda: squares),
        "variance_left": lambda k: kernels.variance_left(k, 2.0 * half),
        "one_minus_weight": lambda k: (kernels.one_minus_weight(k, half),),
    }
    for kind, call in calls.items():
        for own, expected in zip(call(kernel), call(plain), strict=True):
            _close(np.asarray(own), np.asarray(expected), f"{name}.{kind} must agree with its profile", 1e-9)


def check_policy_class(policy_class: PolicyClass, spec: TaskSpec = SPEC) -> None:
    """Shapes, bounds, `pullback` and `metric` by differences, and files that give back the same policy bit for bit."""
    check_part_settings(policy_class)
    name, space = type(policy_class).__qualname__, PolicySpace(policy_class, spec)
    start = np.asarray(policy_class.initial(spec))
    _expect(start.ndim == 1 and bool(np.all(np.isfinite(start))), f"{name}.initial must give finite numbers (d,)")
    _expect(np.array_equal(start, policy_class.initial(spec)), f"{name}.initial must give the same numbers every time")
    rng = generator(0, "check-policy")
    d, m, a = start.size, 5, spec.action_dim
    theta, inputs = start + 0.3 * rng.standard_normal(d), rng.standard_normal((m, spec.observation_dim))
    actions = policy_class.actions(spec, theta, inputs)
    _expect(actions.shape == (m, a), f"{name}.actions gave shape {actions.shape}, expected (m, a) = {(m, a)}")
    _expect(np.array_equal(actions, policy_class.actions(spec, theta, inputs)), f"{name}.actions must be deterministic")
    far = policy_class.actions(spec, theta, 1e3 * inputs)
    inside = np.all(far >= np.array(spec.action_low) - 1e-9) and np.all(far <= np.array(spec.action_high) + 1e-9)
    _expect(bool(inside), f"{name}.actions leaves the action bounds")
    many = policy_class.actions(spec, np.stack([theta, start]), inputs)
    _expect(many.shape == (2, m, a), f"{name}.actions of parameters (n, d) gave shape {many.shape}, expected (n, m, a)")
    _close(many[0], actions, f"{name}.actions of many policies must agree with those of one", 1e-9)
    jacobian = np.stack(
        [_slopes(lambda t, e=e: policy_class.actions(spec, theta + t * e, inputs), 0.0, 1e-6) for e in np.eye(d)],
        axis=-1,
    )  # (m, a, d)
    cotangents = rng.standard_normal((2, m, a))
    for given, expected in (
        (cotangents[0], np.einsum("ma,mad->d", cotangents[0], jacobian)),
        (cotangents, np.einsum("kma,mad->kd", cotangents, jacobian)),
    ):
        pulled = policy_class.pullback(spec, theta, inputs, given)
        _expect(
            pulled.shape == expected.shape,
            f"{name}.pullback of cotangents {given.shape} gave shape {pulled.shape}, expected {expected.shape}",
        )
        _close(pulled, expected, f"{name}.pullback must be Σ cotangent · ∂π/∂parameters")
    weights = rng.uniform(0.5, 1.5, m)
    weights /= weights.sum()
    expected = np.einsum(
        "m,mai,maj->ij", weights, jacobian / spec.action_half[:, None], jacobian / spec.action_half[:, None]
    )
    _close(_dense(policy_class.metric(spec, theta, inputs, weights), d, name), expected / a, f"{name}.metric")
    _check_policy_files(space, theta, name)
    _check_policy_offers(space, theta, inputs, weights, name)


def _check_policy_offers(space: PolicySpace, theta: Array, inputs: Array, weights: Array, name: str) -> None:
    """What a policy class may offer beside the contract."""
    policy_class, spec, start = space.policy_class, space.spec, space.initial()
    if isinstance(policy_class, Layered):
        layers = policy_class.layers(spec, theta)
        own = SQUASHES[layers.squash].actions(spec, forward(layers.layers, inputs)[-1])
        _close(own, policy_class.actions(spec, theta, inputs), f"{name}.layers must act as `actions` does", 1e-9)
        ends = (policy_class.layers(spec, end).layers for end in (start, theta))
        for middle, *pair in zip(policy_class.layers(spec, 0.5 * (start + theta)).layers, *ends, strict=True):
            for part in ("weights", "bias"):
                between = 0.5 * (getattr(pair[0], part) + getattr(pair[1], part))
                _close(getattr(middle, part), between, f"{name}.layers must be affine in the parameters", 1e-9)
    if isinstance(policy_class, PriorMetric):
        prior = _dense(policy_class.prior_metric(spec, inputs, weights), theta.size, name)
        least = float(np.linalg.eigvalsh(prior)[0])
        _expect(least > 0.0, f"{name}.prior_metric must be positive definite; an eigenvalue is {least:.2g}")
        blocks = policy_class.metric(spec, theta, inputs, weights)
        same = policy_class.prior_metric(spec, inputs, weights).shape == blocks.shape
        _expect(same, f"{name}.prior_metric must have the blocks of `metric`")
    if isinstance(policy_class, ScaledInputs) and policy_class.standardise:
        first, other = (policy_class.actions(spec, start, given) for given in (inputs, 1.0 - 3.0 * inputs))
        _close(first, other, f"{name}: with `standardise` the initial policy must act alike under every normaliser")


def _dense(blocks: Array, d: int, name: str) -> Array:
    """The metric's blocks (b, p, p) as one matrix (d, d)."""
    right = blocks.ndim == 3 and blocks.shape[1] == blocks.shape[2] and blocks.shape[0] * blocks.shape[1] == d
    _expect(
        right, f"{name}.metric gave shape {blocks.shape}, expected (b, d/b, d/b) with d = {d}; one block is (1, d, d)"
    )
    matrix, size = np.zeros((d, d)), blocks.shape[1]
    for place, block in enumerate(blocks):
        matrix[place * size : (place + 1) * size, place * size : (place + 1) * size] = block
    return matrix


def _check_policy_files(space: PolicySpace, theta: Array, name: str) -> None:
    spec, policy_class = space.spec, space.policy_class
    arrays = policy_class.to_arrays(spec, theta)
    taken = [name for name in arrays if is_reserved(name)]
    _expect(not taken, f"{name}.to_arrays uses the reserved names {', '.join(sorted(taken))}")
    again = policy_class.from_arrays(spec, arrays)
    _expect(np.array_equal(again, theta), f"{name}.from_arrays must give back what to_arrays was given, bit for bit")
    rng = generator(0, "check-policy-file")
    normaliser = Normaliser.empty(spec.observation_dim).add(rng.normal(1.0, 2.0, (50, spec.observation_dim)))
    policy, observations = space.policy(theta, normaliser), rng.normal(1.0, 2.0, (4, spec.observation_dim))
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy.npz")
        loaded = load_policy(Path(folder) / "policy.npz", policy_class)
    same = np.array_equal(loaded.actions(observations), policy.actions(observations))
    _expect(
        same and loaded.space.policy_class == policy_class, f"a saved policy of {name} acts differently when loaded"
    )
    wider = normaliser.widen(Normaliser.empty(spec.observation_dim).add(5.0 * observations))
    if "weights" in arrays:
        moved = space.policy(space.remapped(theta, normaliser, wider), wider)
        what = f"{name}: the array `weights` must multiply the inputs, as re-mapping takes it; call it something else"
        _close(moved.actions(observations), policy.actions(observations), what, 1e-8)
    if isinstance(policy_class, FastControl | Layered):
        one = np.stack([policy.act(observation) for observation in observations])
        _close(one, policy.actions(observations), f"{name}: its controller must act as `actions` does", 1e-9)
    path = ParameterPath(np.stack([theta, space.initial(), 0.5 * theta]), 2)
    act = space.policy(theta, normaliser, path).start()
    for step in range(6):
        row = observations[step % 4]
        expected = space.actions(path.at(step), row[None], normaliser)[0]
        _close(act(row), expected, f"{name}: a policy that moves must act as its parameters at each step do", 1e-9)


def check_criterion(criterion: Criterion) -> None:
    """Shapes, and gradients by differences; fewer and more points than parameters, with and without critics."""
    check_part_settings(criterion)
    name = type(criterion).__qualname__
    for n, d, k in ((9, 3, 0), (4, 8, 0), (6, 4, 2)):
        posterior, rng = _posterior(n, d, k), generator(0, "check-criterion", n, d, k)
        candidates = posterior.theta + 0.5 * posterior.scale * rng.standard_normal((5, d))
        values, gradients = criterion.values_and_gradients(posterior, candidates)
        _expect(values.shape == (5,), f"{name} gave values of shape {values.shape} for 5 candidates, expected (5,)")
        _expect(gradients.shape == (5, d), f"{name} gave gradients of shape {gradients.shape}, expected {(5, d)}")
        _close(
            criterion.values(posterior, candidates), values, f"{name}.values and .values_and_gradients must agree", 1e-9
        )
        value, gradient = criterion.values_and_gradients(posterior, candidates[0])
        _expect(np.shape(value) == () and gradient.shape == (d,), f"{name} must take one candidate (d,), too")
        _close(np.asarray(value), values[0], f"{name} must judge each candidate as if it were alone", 1e-9)
        _close(gradient, gradients[0], f"{name} must judge each candidate as if it were alone", 1e-9)
        numeric = _gradients(partial(criterion.values, posterior), candidates, 1e-5 * posterior.scale)
        what = f"{name}: the gradient must be that of the values ({n} points, {d} parameters, {k} critics)"
        _close(gradients * posterior.scale, numeric * posterior.scale, what)


def _posterior(n: int, d: int, k: int) -> GradientPosterior:
    rng = generator(0, "check-posterior", n, d, k)
    points = 0.1 * rng.standard_normal((n, d))
    features = Features(rng.standard_normal((n, k)), rng.standard_normal((d, k)), 0.1) if k else None
    hyper = Hyper(np.linspace(0.1, 0.2, d), signal=1.3, noise=0.1, feature_scale=0.3 if k else 0.0)
    gradient = rng.standard_normal(d)
    return condition(points, rng.standard_normal(n), np.zeros(d), hyper, mean_gradient=gradient, features=features)


@threadpool_limits.wrap(limits=1)  # pyright: ignore[reportUnknownMemberType]
def check_step(step: StepRule, moves: int = 3) -> None:
    """Moves of the right shape that follow from the model and the memory alone, also after the memory was saved."""
    check_part_settings(step)
    name, memory = type(step).__qualname__, step.memory_type()
    _expect(is_dataclass(memory), f"{name}.memory_type must be a dataclass, made without arguments")
    for number in range(moves):
        model = _model(number)
        copied = _through_a_checkpoint(memory, f"the memory of {name}", like=step.memory_type())
        move = step(StepInput(model, None, memory))
        is_move = isinstance(move, Move)  # pyright: ignore[reportUnnecessaryIsInstance]
        _expect(is_move, f"{name} must return a Move, got {type(move).__name__}")
        shape = np.shape(move.centre)
        _expect(shape == model.neighbourhood.theta.shape, f"{name} moved to a centre of shape {shape}, expected (d,)")
        _expect(bool(np.all(np.isfinite(move.centre))), f"{name} moved to a centre that is not finite")
        if move.memory is not None:
            given, expected = (cast("type[Any]", type(item)) for item in (move.memory, step.memory_type()))
            _expect(given is expected, f"{name} returned a memory of type {given}, its memory_type is {expected}")
            _through_a_checkpoint(move.memory, f"the memory of {name}", like=step.memory_type())
        what = f"{name} must follow from the model and its memory alone, and leave the memory it was given as it was"
        _expect(_same(reloaded(save(memory)), reloaded(save(copied))), what)
        again = step(StepInput(_model(number), None, copied))
        _expect(np.array_equal(again.centre, move.centre), what)
        _expect(_same(save(again.memory), save(move.memory)), what)
        memory = memory if move.memory is None else move.memory


def check_strategy(strategy: Strategy, dimension: int = 3, generations: int = 4) -> None:
    """Generations that follow from memory, values and numbers alone, also after the memory was saved and restored."""
    check_part_settings(strategy)
    name, mean = type(strategy).__qualname__, np.full(dimension, 0.5)
    what = f"{name} must follow from its memory and what it is given alone, and leave the memory as it was"

    def started() -> Any:
        return strategy.start(mean.copy(), generator(0, "check-strategy-start"))

    memory = started()
    for number in range(generations):
        copied = _through_a_checkpoint(memory, f"the memory of {name}", like=started())
        asked = [strategy.ask(item, generator(0, "check-strategy", number)) for item in (memory, copied)]
        points, shape = asked[0], np.shape(asked[0])
        _expect(len(shape) == 2 and shape[0] > 0 and shape[1] == dimension, f"{name}.ask gave {shape}, expected (m, d)")
        _expect(bool(np.all(np.isfinite(points))), f"{name}.ask gave points that are not finite")
        _expect(np.array_equal(asked[0], asked[1]), what)
        values, before = -np.sum(np.square(points), axis=1), reloaded(save(memory))
        told = [
            strategy.tell(item, points.copy(), values.copy(), generator(0, "check-strategy", number))
            for item in (memory, copied)
        ]
        _expect(_same(save(told[0]), save(told[1])) and _same(reloaded(save(memory)), before), what)
        memory, centre = told[0], strategy.current(told[0])
        _expect(np.shape(centre) == (dimension,), f"{name}.current gave {np.shape(centre)}, expected (d,)")
        _expect(bool(np.all(np.isfinite(centre))), f"{name}.current gave a point that is not finite")


def _model(number: int) -> Model:
    """A process fitted to a few points around a centre."""
    space, rng = PolicySpace(ClippedLinear(), SPEC), generator(0, "check-model", number)
    normaliser, d = Normaliser.empty(SPEC.observation_dim), space.size
    centre, slope = 0.1 * rng.standard_normal(d), rng.standard_normal(d)
    entries = list[Point]()
    for role in ("centre", *["probe"] * 8):
        parameters = centre if role == "centre" else centre + 0.05 * rng.standard_normal(d)
        states = rng.standard_normal((4, SPEC.observation_dim))
        visits = Visits(states, space.actions(parameters, states, normaliser), np.ones(4))
        entries.append(Point(parameters, normaliser, np.array([parameters @ slope]), role, 0, visits))
    near = Neighbourhood(space.policy(centre, normaliser), tuple(entries))
    return GP().fit(near, PriorMean(np.zeros(len(entries)), 0.0, np.zeros(d), mean_bound=1.0), rng)


def check_critics(critics: CriticsPart) -> None:
    """Shapes, ∇_a Q by differences, and critics that go on bit for bit after their memory was saved and restored."""
    check_part_settings(critics)
    name, task = type(critics).__qualname__, _task()
    space = PolicySpace(ClippedLinear(), task.spec)
    normaliser, objective = Normaliser.empty(task.spec.observation_dim), Objective(task.spec.gamma)
    centre = space.policy(0.1 * generator(0, "check-critics").standard_normal(space.size), normaliser)
    replay = Replay(critics.replay, task.spec.observation_dim, task.spec.action_dim)
    first, second = critics.make(space, objective, 0), critics.make(space, objective, 0)
    episodes = [_episode(task, space, normaliser, number) for number in range(6)]
    for trajectory in episodes[:4]:
        replay.append(trajectory)
    first.start_centre(centre, replay, 10.0)
    states = episodes[0].observations[:5].astype(np.float64)
    actions = centre.actions(states) + 0.1
    values = first.q(states, actions)
    _expect(values.shape == (first.members, 5), f"{name}: q gave shape {values.shape}, expected {(first.members, 5)}")
    _expect(bool(np.all(np.isfinite(values))), f"{name}: q gave numbers that are not finite")
    gradients = first.action_gradients(states, actions)
    expected = (first.members, 5, task.spec.action_dim)
    _expect(gradients.shape == expected, f"{name}: action_gradients gave shape {gradients.shape}, expected {expected}")
    directions = np.eye(task.spec.action_dim)
    numeric = np.stack(
        [_slopes(lambda t, e=e: first.q(states, actions + t * e), 0.0, 1e-2) for e in directions], axis=-1
    )
    _close(gradients, numeric, f"{name}: action_gradients must be ∂q/∂action", 1e-2)
    second.memory = _through_a_checkpoint(first.memory, f"the memory of {name}", like=second.memory)
    _expect(
        np.array_equal(second.q(states, actions), values), f"{name}: q differs after the memory was saved and restored"
    )
    for trajectory in episodes[4:]:
        replay.append(trajectory)
    first.update(replay)
    second.update(replay)
    same = np.array_equal(first.q(states, actions), second.q(states, actions))
    _expect(same, f"{name}: critics that were saved and restored learn on differently")


def _task() -> Task:
    return make_task(make_env(2, 1, fixed_start=True, horizon=20, action_bound=2.0), horizon=20)


def _episode(task: Task, space: PolicySpace, normaliser: Normaliser, number: int) -> Trajectory:
    theta = 0.1 * generator(0, "check-episode", number).standard_normal(space.size)
    outcome = attempt_episode(task.make_env(), space.policy(theta, normaliser), number)
    assert isinstance(outcome, Trajectory)  # noqa: S101
    return outcome


@threadpool_limits.wrap(limits=1)  # pyright: ignore[reportUnknownMemberType]
def check_search(config: SearchConfig, task: Task | None = None, *, episodes: int = 30) -> None:
    """Ask and tell for a while, with failures among the episodes; save and load between any two stages, bit for bit.

    Args:
        config: the search's settings.
        task: what to search on; None: a small linear-quadratic task.
        episodes: how many episodes to run; enough for a few outer iterations.
    """
    check_part_settings(config)
    task = task or _task()
    search, name = config.make(task.spec, seed=3), type(config).__qualname__
    env, told, completed = task.make_env(), list[Trajectory](), 0
    other: Search[Any] | None = None
    while search.episodes < episodes:
        if search.between_stages:
            other = _loaded_copy(config, task.spec, search, other, told, name)
        assert other is not None  # noqa: S101 (a new search is between stages)
        query = search.ask()
        _expect(search.ask() is query, f"{name}: ask must give the same query until it is told")
        _expect_same_query(query, other.ask(), name)
        _check_refusals(search, query, name)
        outcomes = [_outcome(env, query, number) for number in range(query.episodes)]
        told += [outcome for outcome in outcomes if isinstance(outcome, Trajectory)]
        metrics = search.tell(query, outcomes)
        other.tell(other.ask(), outcomes)
        completed += metrics is not None
        _expect(bool(np.all(np.isfinite(search.centre))), f"{name}: the centre is not finite")
        try:
            json.dumps(metrics)
        except TypeError as error:
            raise AssertionError(f"{name}: metrics must be numbers, texts and lists: {error}") from error
    _expect(completed > 0, f"{name} finished no outer iteration in {episodes} episodes; pass more, or return metrics")


def _loaded_copy(
    config: SearchConfig,
    spec: TaskSpec,
    search: Search[Any],
    other: Search[Any] | None,
    told: list[Trajectory],
    name: str,
) -> Search[Any]:
    """A fresh search that loaded the state; the copy made before the last stage must have come to the same one."""
    try:
        state = reloaded(search.state(replay=False))
    except TypeError as error:
        raise AssertionError(f"the memory of {name} cannot be saved: {error}") from error
    if other is not None:
        _expect(
            _same(reloaded(other.state(replay=False)), state), f"{name}: a loaded search learns differently; {ADVICE}"
        )
    fresh = config.make(spec, seed=search.seed)
    try:
        fresh.load(state, told)
    except Exception as error:
        raise AssertionError(f"{name} cannot load what it saved: {type(error).__name__}: {error}") from error
    _expect(_same(reloaded(fresh.state(replay=False)), state), f"{name}: a loaded search saves another state; {ADVICE}")
    return fresh


def _expect_same_query(query: Query, other: Query, name: str) -> None:
    same = (query.id, query.role, query.episodes) == (other.id, other.role, other.episodes)
    same = same and np.array_equal(query.parameters, other.parameters)
    _expect(same, f"{name}: a loaded search asks for another query {query.id}; {ADVICE}")


def _check_refusals(search: Search[Any], query: Query, name: str) -> None:
    before = reloaded(search.state(replay=False)) if search.between_stages else None
    try:
        search.tell(query, [])
    except AbpsError:
        pass
    else:
        raise AssertionError(f"{name}: tell must refuse a wrong number of outcomes")
    if before is not None:
        _expect(_same(reloaded(search.state(replay=False)), before), f"{name}: a refused tell must change nothing")


def _outcome(env: Any, query: Query, number: int) -> Trajectory | Failed:
    if query.id % 7 == 5:
        return Failed("a failure, to see what the search makes of it")
    return attempt_episode(env, query.policy, integer_seed(3, "check-search", query.id, number))


def _through_a_checkpoint(memory: Any, what: str, like: Any) -> Any:
    """A memory as it comes back from a checkpoint, into an object that was just made."""
    _expect(is_dataclass(memory), f"{what} must be a dataclass, it is a {type(memory).__name__}")
    try:
        data = reloaded(save(memory))
    except TypeError as error:
        raise AssertionError(f"{what} cannot be saved: {error}") from error
    try:
        again = restore(like, data)
    except Exception as error:
        raise AssertionError(f"{what} cannot be restored: {type(error).__name__}: {error}") from error
    _expect(_same(reloaded(save(again)), data), f"{what} changes when it is saved and restored")
    for item in fields(memory):
        old, new = getattr(memory, item.name), getattr(again, item.name)
        _expect(
            type(old) is type(new),
            f"{what}: {item.name} was a {type(old).__name__}, comes back as a {type(new).__name__}",
        )
    return copy.deepcopy(again)


def _same(left: Any, right: Any) -> bool:
    """Whether two nested dictionaries of arrays and scalars are equal bit for bit."""
    if isinstance(left, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return isinstance(right, dict) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(left, list):
        one, other = cast("list[Any]", left), cast("list[Any]", right)
        return isinstance(right, list) and len(one) == len(other) and all(map(_same, one, other))
    if isinstance(left, np.ndarray):
        one, other = cast("Array", left), cast("Array", right)
        same = isinstance(right, np.ndarray) and (one.dtype, one.shape) == (other.dtype, other.shape)
        return same and one.tobytes() == other.tobytes()
    return type(left) is type(right) and repr(left) == repr(right)


def _gradients(function: Callable[[Array], Array], places: Array, steps: Array) -> Array:
    """Gradients (m, d) of a function of rows (m, d), by differences."""
    moves = np.diag(steps)
    slopes = [_slopes(lambda t, e=e: function(places + t * e), 0.0, 1.0) for e in moves]
    return np.stack(slopes, axis=-1) / steps


def _slopes(function: Callable[[Any], Array], place: Any, step: Any) -> Array:
    """Central differences, extrapolated once: exact to the fourth order in `step`."""
    near = (function(place + step) - function(place - step)) / (2.0 * step)
    far = (function(place + 2.0 * step) - function(place - 2.0 * step)) / (4.0 * step)
    return (4.0 * near - far) / 3.0


def _close(given: Array, expected: Array, what: str, tolerance: float = TOLERANCE) -> None:
    given, expected = np.asarray(given), np.asarray(expected)
    _expect(given.shape == expected.shape, f"{what}: shape {given.shape}, expected {expected.shape}")
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-8)
    error = float(np.abs(given - expected).max(initial=0.0))
    _expect(error <= tolerance * scale, f"{what}; it differs by {error / scale:.1e} of its largest entry")


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)
