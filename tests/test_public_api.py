"""The public names: all there, documented, typed, and free of charge until they are used."""

import ast
import inspect
import subprocess
import sys

import pytest

import abps


@pytest.mark.parametrize("name", abps.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(abps, name)
    if name != "__version__":
        assert inspect.getdoc(value), f"abps.{name} has no docstring"


def test_all_is_sorted_and_listed_by_dir() -> None:
    assert sorted(abps.__all__) == sorted(set(abps.__all__))
    assert set(abps.__all__) <= set(dir(abps))


def test_the_typed_imports_are_the_lazy_ones() -> None:
    """What pyright sees under TYPE_CHECKING is what `__getattr__` hands out."""
    tree = ast.parse(inspect.getsource(abps))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == abps._HOME_OF
    assert set(typed) | {"__version__"} == set(abps.__all__)


def test_an_unknown_name_says_what_is_public() -> None:
    with pytest.raises(AttributeError, match=r"no public name 'make_serach'; public are .*make_search"):
        _ = abps.make_serach  # type: ignore[attr-defined]


def test_importing_abps_imports_nothing_heavy() -> None:
    code = "import sys, abps; sys.exit(any(name in sys.modules for name in ('numpy', 'jax', 'gymnasium', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_task_by_name_and_a_search_by_name_work_together() -> None:
    task = abps.make_task("pendulum", horizon=5)
    search = abps.make_search("ars", task.spec, abps.search_config("ars", "pendulum"), seed=0)
    env = task.make_env()
    query = search.ask()
    search.tell(query, [abps.run_episode(env, query.policy, seed=0)])
    env.close()
    assert search.result().episodes == 1
