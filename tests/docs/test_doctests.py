"""Every public name has an example in its docstring, and the examples are true."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import abps
from abps.registry import KINDS
from abps.search.registry import SEARCHES

NAMES = [name for name in abps.__all__ if name != "__version__"]


@pytest.fixture
def _own_registries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Examples register parts and write files; nothing of it stays."""
    monkeypatch.chdir(tmp_path)
    tables: list[dict[str, Any]] = [*KINDS.values(), SEARCHES]
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)


def examples(value: Any, name: str) -> list[doctest.DocTest]:
    """The examples in the docstrings of a function, or of a class and its own methods."""
    module = importlib.import_module(value.__module__)
    found = doctest.DocTestFinder().find(value, name, module=module, globs={**vars(module)})
    return [test for test in found if test.examples]


def failures(test: doctest.DocTest) -> list[str]:
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return said


@pytest.mark.usefixtures("_own_registries")
@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_public_name(name: str) -> None:
    tests = examples(getattr(abps, name), name)
    assert any(test.name == name for test in tests), f"abps.{name} has no example in its docstring"
    said = [line for test in tests for line in failures(test)]
    assert not said, "".join(said)


def test_a_wrong_example_is_noticed() -> None:
    parser = doctest.DocTestParser()
    assert failures(parser.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0))
    assert not failures(parser.get_doctest(">>> 1 + 1\n2\n", {}, "right", None, 0))


def test_public_functions_have_typed_signatures() -> None:
    for name in NAMES:
        value = getattr(abps, name)
        if inspect.isfunction(value):
            hints = inspect.signature(value)
            assert all(item.annotation is not item.empty for item in hints.parameters.values()), name
            assert hints.return_annotation is not hints.empty, name
