"""Checkpoints: exact round trips, golden files of every schema, refusals, and what a crash may leave behind."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from abps.errors import RunError
from abps.run.checkpoint import SCHEMA, SchemaError, checkpoint_paths, load_checkpoint, save_checkpoint

GOLDEN = Path(__file__).parent / "golden"


def same(one, other):
    """Equal in structure, type and bits."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        )  # fmt: skip
    return type(one) is type(other) and (one == other or (one != one and other != other))


def golden_state():
    import importlib.util

    spec = importlib.util.spec_from_file_location("make_golden", GOLDEN.parent / "make_golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.STATE


def test_golden_checkpoint_of_this_schema_still_loads():
    episodes, state = load_checkpoint(GOLDEN / f"schema-{SCHEMA}" / "00000042.json")
    assert episodes == 42
    assert same(golden_state(), state)


@pytest.mark.parametrize("schema", range(1, SCHEMA))
def test_golden_checkpoint_of_an_older_schema_is_refused_with_the_version_that_reads_it(schema):
    """Whole, so neither damage nor silently loaded: a state of schema 1 has other names than a search of today."""
    path = GOLDEN / f"schema-{schema}" / "00000042.json"
    written_by = json.loads(path.read_text())["abps"]
    with pytest.raises(
        SchemaError, match=rf"schema {schema}, written by abps {re.escape(written_by)}; .*schema {SCHEMA}"
    ):
        load_checkpoint(path)


def test_comparison_notices_a_changed_bit():
    """Negative control of `same`."""
    state = golden_state()
    changed = {**state, "search": {**state["search"], "centre": np.nextafter(state["search"]["centre"], 1.0)}}
    assert not same(state, changed)
    assert not same({"x": 1}, {"x": 1.0})


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
        hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
    ),
)
KEYS = st.text(max_size=4).filter(lambda key: not key.startswith("$"))
STATES = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(state=STATES)
def test_every_state_comes_back_bit_for_bit(state, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint(folder, 7, state)
    assert same(state, load_checkpoint(folder / "00000007.json")[1])


def test_last_two_are_kept_and_remains_of_a_crash_removed(tmp_path):
    (tmp_path / "00000001.safetensors").write_bytes(b"an orphan")
    (tmp_path / "00000009.json.tmp").write_bytes(b"half")
    for episodes in (2, 4, 6):
        save_checkpoint(tmp_path, episodes, {"x": np.arange(3)})
    assert [path.stem for path in checkpoint_paths(tmp_path)] == ["00000006", "00000004"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000004.json", "00000004.safetensors", "00000006.json", "00000006.safetensors",
    ]  # fmt: skip


def test_unknown_schema_is_refused_with_the_version_that_wrote_it(tmp_path):
    save_checkpoint(tmp_path, 5, {"x": 1})
    path = tmp_path / "00000005.json"
    document = json.loads(path.read_text())
    document.pop("sha256")
    document.update(schema=99, abps="7.8.9")
    body = json.dumps(document, sort_keys=True)
    path.write_text(json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), **document}))
    with pytest.raises(SchemaError, match=r"schema 99, written by abps 7\.8\.9"):
        load_checkpoint(path)


def test_flipped_schema_is_damage_not_another_version(tmp_path):
    save_checkpoint(tmp_path, 5, {"x": 1})
    path = tmp_path / "00000005.json"
    path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'))
    with pytest.raises(RunError, match="checksum") as caught:
        load_checkpoint(path)
    assert not isinstance(caught.value, SchemaError)


def test_arrays_of_another_checkpoint_are_refused(tmp_path):
    for episodes in (2, 4):
        save_checkpoint(tmp_path, episodes, {"x": np.full(3, float(episodes))})
    (tmp_path / "00000004.safetensors").write_bytes((tmp_path / "00000002.safetensors").read_bytes())
    with pytest.raises(RunError, match="does not fit"):
        load_checkpoint(tmp_path / "00000004.json")


def test_renamed_checkpoint_is_refused(tmp_path):
    save_checkpoint(tmp_path, 4, {"x": np.ones(1)})
    for suffix in (".json", ".safetensors"):
        (tmp_path / f"00000004{suffix}").rename(tmp_path / f"00000008{suffix}")
    with pytest.raises(RunError, match="another name"):
        load_checkpoint(tmp_path / "00000008.json")
