"""Saving and restoring: nested dataclasses come back equal, bit for bit, and share no memory with what was saved."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from abps.run.checkpoint import reloaded
from abps.state import NoMemory, restore, save


@dataclass(frozen=True, eq=False)
class Leaf:
    values: NDArray[np.float32]
    name: str


@dataclass
class Tree:
    number: int
    share: float
    flag: bool
    array: NDArray[np.float64]
    leaf: Leaf
    maybe: float | None = None
    other: Leaf | None = None
    leaves: list[Leaf] = field(default_factory=list)
    pair: tuple[float, ...] = ()
    mixed: tuple[int, Leaf] | None = None
    table: dict[str, Leaf] = field(default_factory=dict)
    memory: Any = field(default_factory=NoMemory)


@dataclass
class Momentum:
    velocity: NDArray[np.float64]
    steps: int = 0


ARRAYS = hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=3), elements=st.floats(width=64))
LEAVES = st.builds(Leaf, hnp.arrays(np.float32, st.integers(0, 3), elements=st.floats(width=32)), st.text(max_size=5))
NUMBERS = st.floats(allow_nan=False)
TREES = st.builds(
    Tree,
    st.integers(),
    NUMBERS,
    st.booleans(),
    ARRAYS,
    LEAVES,
    st.none() | NUMBERS,
    st.none() | LEAVES,
    st.lists(LEAVES, max_size=3),
    st.lists(NUMBERS, max_size=3).map(tuple),
    st.none() | st.tuples(st.integers(), LEAVES),
    st.dictionaries(st.text(max_size=3), LEAVES, max_size=2),
    st.builds(Momentum, ARRAYS, st.integers()),
)


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
        assert one is not other
    elif hasattr(one, "__dataclass_fields__"):
        for name in one.__dataclass_fields__:
            assert_same(getattr(one, name), getattr(other, name))
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert one == other


def fresh() -> Tree:
    """What a newly made object holds: only from it is the class of `memory` known."""
    return Tree(0, 0.0, False, np.zeros(1), Leaf(np.zeros(0, np.float32), ""), memory=Momentum(np.zeros(1)))


def plain(data) -> bool:
    """Whether a checkpoint can hold it."""
    if isinstance(data, dict):
        return all(isinstance(key, str) and plain(value) for key, value in data.items())
    if isinstance(data, list):
        return all(plain(item) for item in data)
    return data is None or isinstance(data, np.ndarray | int | float | bool | str)


@given(TREES)
def test_round_trip(tree):
    data = save(tree)
    assert plain(data)
    assert_same(restore(fresh(), data), tree)


def test_the_comparison_notices_a_lost_bit():
    tree = fresh()
    for change in ({"number": 1}, {"share": -0.0, "flag": True}, {"array": np.zeros(2)}, {"array": np.zeros(1, "f4")}):
        with pytest.raises(AssertionError):
            assert_same(restore(fresh(), {**save(tree), **change}), tree)


def test_nothing_is_shared_with_what_was_saved():
    tree = fresh()
    data = save(tree)
    tree.array[0] = 7.0
    assert data["array"][0] == 0.0
    restored = restore(fresh(), data)
    data["array"][0] = 9.0
    assert restored.array[0] == 0.0


def test_numbers_of_numpy_become_pythons():
    tree = fresh()
    tree.number, tree.share = np.int64(3), np.float64(0.5)  # type: ignore[assignment]
    data = save(tree)
    assert (type(data["number"]), type(data["share"])) == (int, float)
    again = restore(fresh(), {**data, "share": 2})
    assert type(again.share) is float


def test_a_class_known_only_at_run_time_is_that_of_the_fresh_object():
    tree = fresh()
    tree.memory = Momentum(np.arange(3.0), 5)
    assert_same(restore(fresh(), save(tree)).memory, tree.memory)
    blind = Tree(0, 0.0, False, np.zeros(1), Leaf(np.zeros(0, np.float32), ""), memory=None)
    assert isinstance(restore(blind, save(tree)).memory, dict)  # Nobody said what it is.
    assert save(NoMemory()) == {}
    assert restore(NoMemory(), {}) == NoMemory()


@dataclass
class Either:
    number: int | float = 0
    anything: Any = None


@pytest.mark.parametrize("number", [1, 0.5, 2.0])
def test_a_union_of_numbers_keeps_the_one_it_held(number):
    assert_same(restore(Either(), reloaded(save(Either(number)))), Either(number))


def test_fields_that_do_not_fit_are_refused():
    """Silently dropped, they would make a resumed run another one."""
    tree = fresh()
    with pytest.raises(ValueError, match="NoMemory has the fields ; saved were velocity, steps"):
        restore(Tree(0, 0.0, False, np.zeros(1), tree.leaf), save(tree))
    with pytest.raises(ValueError, match="Momentum has the fields velocity, steps; saved were velocity"):
        restore(Momentum(np.zeros(1)), {"velocity": np.zeros(1)})


def test_what_no_checkpoint_holds_is_named():
    with pytest.raises(TypeError, match="state/anything is a Generator, which a checkpoint cannot hold"):
        reloaded(save(Either(anything=np.random.default_rng(0))))
    with pytest.raises(TypeError, match="keys must be strings"):
        reloaded(save(Either(anything={1: 2})))
