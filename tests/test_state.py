"""What parts remember comes back as it was, and what does not fit is refused."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from abps.arrays import Array
from abps.run.checkpoint import reloaded
from abps.state import NoMemory, restore, save


@dataclass(frozen=True)
class Inner:
    array: Array
    name: str = ""


@dataclass
class Memory:
    scale: float
    """Saved as a float even when it is a whole number."""
    part: Any = field(default_factory=NoMemory)
    """Of a class that only the fresh object knows."""
    maybe: Array | None = None
    inner: Inner | None = None
    points: list[Inner] = field(default_factory=list)
    named: dict[str, Inner] = field(default_factory=dict)
    pair: tuple[str, int] = ("", 0)
    many: tuple[float, ...] = ()
    number: int | float = 0
    flag: bool = False
    anything: Any = None


def through(memory: Memory, fresh: Memory) -> Memory:
    return restore(fresh, reloaded(save(memory)))


def full() -> Memory:
    return Memory(
        scale=2,
        part=Inner(np.arange(3.0), "part"),
        maybe=np.array([np.nan, -0.0]),
        inner=Inner(np.zeros((2, 0))),
        points=[Inner(np.ones(1), "a"), Inner(np.ones(2), "b")],
        named={"x/y": Inner(np.array(3.0))},
        pair=("seven", 7),
        many=(1.0, np.inf),
        number=0.5,
        flag=True,
        anything=[1, None, {"a": np.arange(2)}],
    )


def test_everything_comes_back_with_its_type() -> None:
    memory = full()
    again = through(memory, Memory(1.0, part=Inner(np.zeros(3))))
    assert type(again.scale) is float
    assert isinstance(again.part, Inner)
    assert isinstance(again.inner, Inner)
    assert again.inner.array.shape == (2, 0)
    assert [point.name for point in again.points] == ["a", "b"]
    assert again.named["x/y"].array.shape == ()
    assert (again.pair, again.many, again.number, again.flag) == (("seven", 7), (1.0, np.inf), 0.5, True)
    assert again.maybe is not None
    assert memory.maybe is not None
    assert again.maybe.tobytes() == memory.maybe.tobytes()
    assert again.anything[:2] == [1, None]


def test_nothing_comes_back_as_nothing() -> None:
    again = through(Memory(1.0), Memory(2.0))
    assert (again.maybe, again.inner, again.points, again.anything) == (None, None, [], None)
    assert again.part == NoMemory()


def test_what_is_saved_does_not_change_with_the_memory() -> None:
    memory = full()
    saved = save(memory)
    assert memory.maybe is not None
    memory.maybe[:] = 5.0
    assert np.isnan(saved["maybe"][0])
    again = restore(Memory(1.0, part=Inner(np.zeros(1))), saved)
    assert again.maybe is not None
    again.maybe[:] = 6.0
    assert np.isnan(saved["maybe"][0])


def test_fields_that_do_not_fit_are_refused() -> None:
    """Silently dropped, they would make a resumed run another one."""
    with pytest.raises(ValueError, match="NoMemory has the fields ; saved were array, name"):
        through(full(), Memory(1.0))
    with pytest.raises(ValueError, match="Inner has the fields array, name; saved were array"):
        restore(Inner(np.zeros(1)), {"array": np.zeros(1)})


def test_what_no_checkpoint_holds_is_named() -> None:
    with pytest.raises(TypeError, match="state/anything is a Generator, which a checkpoint cannot hold"):
        reloaded(save(Memory(1.0, anything=np.random.default_rng(0))))
    with pytest.raises(TypeError, match="keys must be strings"):
        reloaded(save(Memory(1.0, anything={1: 2})))
