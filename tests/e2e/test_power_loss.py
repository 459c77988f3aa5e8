"""A power loss while the last episode is synced: its line is there, its data are not; the run goes on as if it had
never run."""

import json

import killing
import numpy as np
import pytest

from abps.errors import RunError
from abps.run import journal
from abps.run.directory import read_settings
from abps.run.loop import train

STOP = 10
"""Episodes before the power goes; no outer iteration of a tiny search ends there, so no checkpoint knows the last."""

DAMAGE = {
    "missing": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "garbage": lambda data: np.random.default_rng(0).bytes(len(data)),
}


class Witness:
    """An observer that stops after some episodes, and remembers how many it saw and what the run said on opening."""

    def __init__(self, stop=None):
        self.stop, self.episodes, self.warnings = stop, 0, []

    def begin(self, run):
        self.warnings = list(run.warnings)

    def episode(self, run, outcome):
        self.episodes += 1
        if self.episodes == self.stop:
            raise KeyboardInterrupt

    def iteration(self, run, metrics): ...

    def end(self, run, reasons): ...


def interrupted(path, search, stop=STOP):
    killing.make_run(path, search)
    with pytest.raises(KeyboardInterrupt):
        train(path, read_settings(path), (Witness(stop),))
    return path


def resumed(path):
    witness = Witness()
    train(path, read_settings(path), (witness,))
    return witness


def damage(path, change, episode=-1):
    """Change the data of an episode; return its line and what is left of the data."""
    line = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)[episode]
    record, data = json.loads(line), (path / "episodes.bin").read_bytes()
    start, end = record["offset"], record["offset"] + record["bytes"]
    left = change(data[start:end])
    (path / "episodes.bin").write_bytes(data[:start] + left + data[end:])
    return line + left


@pytest.fixture(scope="module", params=["ars", "mpd", "abs", "abs@cpu"])
def reference(request, tmp_path_factory):
    path = killing.make_run(tmp_path_factory.mktemp("reference") / "run", request.param)
    train(path, read_settings(path))
    return request.param, killing.comparable(path)


@pytest.mark.parametrize("kind", DAMAGE)
def test_episode_without_its_data_is_run_again(kind, reference, tmp_path):
    search, expected = reference
    path = interrupted(tmp_path / "run", search)
    left = damage(path, DAMAGE[kind])
    witness = resumed(path)
    assert witness.episodes == len(expected["journal.jsonl"]) - STOP + 1
    assert ["as after a power loss" in warning for warning in witness.warnings] == [True]
    after = killing.comparable(path)
    assert after.pop(f"discarded/{STOP - 1:08d}-1.torn") == left
    assert killing.differences(expected, after) == []


def test_whole_episode_is_not_run_again(reference, tmp_path):
    """Negative control: without damage nothing is said, cut off or repeated."""
    search, expected = reference
    path = interrupted(tmp_path / "run", search)
    damage(path, lambda data: data)
    witness = resumed(path)
    assert (witness.episodes, witness.warnings) == (len(expected["journal.jsonl"]) - STOP, [])
    assert killing.differences(expected, killing.comparable(path)) == []


def test_comparison_notices_a_torn_episode_that_was_believed(reference, tmp_path, monkeypatch):
    """Negative control: a journal that does not look at checksums goes on with zeros, and the run is another one."""
    search, expected = reference
    path = interrupted(tmp_path / "run", search)
    damage(path, DAMAGE["zeros"])
    monkeypatch.setattr(journal._Mark, "fits", lambda mark, data: True)
    resumed(path)
    assert {"journal.jsonl", "episodes.bin"} <= set(killing.differences(expected, killing.comparable(path)))


def test_damage_further_up_is_an_error_that_touches_nothing(tmp_path):
    path = interrupted(tmp_path / "run", "ars")
    damage(path, DAMAGE["garbage"])
    damage(path, DAMAGE["garbage"], episode=-2)
    before = killing.comparable(path)
    with pytest.raises(RunError, match=rf"episode {STOP - 2} .* is damaged"):
        resumed(path)
    assert set(killing.differences(before, killing.comparable(path))) <= {"FAILED"}


def test_damage_to_an_episode_that_a_checkpoint_knows_is_an_error_that_touches_nothing(tmp_path):
    path = interrupted(tmp_path / "run", "ars", stop=8)  # The end of the second outer iteration.
    damage(path, DAMAGE["garbage"])
    before = killing.comparable(path)
    with pytest.raises(RunError, match=r"episode 7 .* a checkpoint knows it"):
        resumed(path)
    assert set(killing.differences(before, killing.comparable(path))) <= {"FAILED"}
