"""Damaged, swapped and hostile files: a clear error or a recorded fallback, never a traceback, never a lost episode."""

import json
import os
import pickle

import fuzzing
import killing
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abps.cli import main
from abps.errors import AbpsError, ConfigError, RunError, ShapeError
from abps.policies import load_policy
from abps.run.directory import read_settings
from abps.run.loop import train
from abps.run.run import open_run
from abps.run.trajectory_files import read_trajectory

RELAXED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture(scope="module")
def fixture(tmp_path_factory):
    return fuzzing.Fixture(tmp_path_factory.mktemp("fuzz"))


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=RELAXED)
@given(target=st.sampled_from(fuzzing.TARGETS), seed=st.integers(0, 2**32 - 1))
def test_damaged_files_are_refused_or_worked_around(fixture, tmp_path, target, seed):
    assert fuzzing.check_case(fixture, target, seed, tmp_path) in ("read", "refused", "fallback", "last again")


def test_check_notices_a_lost_episode(fixture, tmp_path, monkeypatch):
    """Negative control: a journal that quietly drops its last line is caught by the check above."""
    from abps.run import journal

    read = journal.Journal._read

    def forgetful(self):
        read(self)
        self._marks.pop()

    monkeypatch.setattr(journal.Journal, "_read", forgetful)
    with pytest.raises(AssertionError, match="1 finished episodes are lost"):
        fuzzing.check_case(fixture, "versions.json", 0, tmp_path)


def finished_run(path, search="ars", **changes):
    killing.make_run(path, search, episodes=14, evaluate_every=0, **changes)
    train(path, read_settings(path))
    return path


def test_checkpoint_of_another_run_is_not_believed(tmp_path):
    """Same search, same seed, same task, same number of episodes: only the journals differ."""
    one = finished_run(tmp_path / "one")
    other = finished_run(tmp_path / "other", config=killing.tiny_config("ars", noise=0.5))
    before = killing.comparable(one)
    for file in (other / "checkpoint").iterdir():
        (one / "checkpoint" / file.name).write_bytes(file.read_bytes())
    with open_run(one, fuzzing.SPEC, None) as run:
        assert any("belongs to another journal" in warning for warning in run.warnings)
        assert run.search.episodes == len(killing.journal_of(one))
        run.finish(run.stop())
    assert killing.differences(before, killing.comparable(one)) == []


def test_changed_settings_are_noticed(tmp_path):
    path = finished_run(tmp_path / "run", checkpoint_every=100)
    text = (path / "config.yaml").read_text()
    (path / "config.yaml").write_text(text.replace("noise: 0.02", "noise: 0.05"))
    with pytest.raises(RunError, match="ran another policy"), open_run(path, fuzzing.SPEC, None):
        pass


def test_lost_journal_is_an_error_that_destroys_nothing(tmp_path):
    path = finished_run(tmp_path / "run")
    (path / "journal.jsonl").unlink()
    size = (path / "episodes.bin").stat().st_size
    with pytest.raises(RunError, match="restore the journal"), open_run(path, fuzzing.SPEC, None):
        pass
    assert (path / "episodes.bin").stat().st_size == size
    (path / "episodes.bin").unlink()
    with pytest.raises(RunError, match="it has lost lines"), open_run(path, fuzzing.SPEC, None):
        pass


class Bomb:
    """What a pickle would run."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(
        tmp_path / "bomb.npz", observations=np.array([Bomb()], dtype=object), weights=np.array([Bomb()], dtype=object)
    )
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("bomb.npz", "pickle.npz"):
        with pytest.raises(ConfigError):
            load_policy(tmp_path / name)
        with pytest.raises(ShapeError):
            read_trajectory(tmp_path / name, fuzzing.SPEC)
    path = killing.make_run(tmp_path / "run", "ars")
    text = (path / "config.yaml").read_text()
    for attack in ("!!python/object/apply:os.mkdir [exploded]", "!!python/name:os.system", "&a [*a]"):
        (path / "config.yaml").write_text(text.replace("seed: 3", f"seed: {attack}"))
        with pytest.raises(RunError, match=r"config\.yaml is damaged"):
            read_settings(path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("size", [10**12, 10**17, 10**30])
def test_settings_that_ask_for_enormous_arrays_are_refused(size, tmp_path):
    path = killing.make_run(tmp_path / "run", "abs")
    text = (path / "config.yaml").read_text()
    assert "replay: 50\n" in text
    (path / "config.yaml").write_text(text.replace("replay: 50\n", f"replay: {size}\n"))
    with pytest.raises(RunError, match="cannot be had"), open_run(path, fuzzing.SPEC, None):
        pass


def test_yaml_bomb_is_refused_at_once(tmp_path):
    path = killing.make_run(tmp_path / "run", "ars")
    layers = "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 12))
    (path / "config.yaml").write_text("a0: &a0 [1]\n" + layers + (path / "config.yaml").read_text())
    with pytest.raises(RunError, match="aliases"):
        read_settings(path)


@pytest.mark.parametrize("name", ["journal.jsonl", "policy/current.npz.tmp", "metrics.jsonl"])
def test_links_do_not_lead_out_of_the_run(name, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    path = killing.make_run(tmp_path / "run", "ars", evaluate_every=0)
    (path / name).symlink_to(victim)
    try:
        train(path, read_settings(path))
    except AbpsError as error:
        assert "cannot append" in str(error)  # noqa: PT017 (both endings are fine)
    assert victim.read_bytes() == b""


def test_command_line_prints_one_sentence(fixture, tmp_path, capsys):
    (tmp_path / "config.yaml").write_bytes(os.urandom(100))
    for words in (["resume", tmp_path], ["evaluate", tmp_path], ["ask", tmp_path], ["tell", tmp_path, "--failed", "x"]):
        assert main([str(word) for word in words]) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith(f"abps {words[0]}: ")
        assert "Traceback" not in captured.err


def test_header_that_claims_a_trillion_numbers_reserves_no_memory(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        for name in ("observations", "actions", "rewards", "terminated"):
            archive.writestr(f"{name}.npy", fuzzing._header("(1000000000000,)", "<f8"))
    with pytest.raises(ShapeError, match=r"claims the shape \(1000000000000,\)"):
        read_trajectory(tmp_path / "t.npz", fuzzing.SPEC)


def test_journal_line_of_another_checksum_is_named(tmp_path):
    path = finished_run(tmp_path / "run")
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    record = json.loads(lines[4])
    record["return"] = 1e9
    lines[4] = json.dumps(record).encode() + b"\n"
    (path / "journal.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(RunError, match="damaged at line 5"), open_run(path, fuzzing.SPEC, None):
        pass
