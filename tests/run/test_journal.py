"""The journal and the spool: what is appended comes back, what a crash leaves is cut off, anything else is an error."""

import numpy as np
import pytest

from abps.errors import RunError
from abps.run.files import append_synced, checked_json, parse_checked_json, replace_atomically
from abps.run.journal import Journal
from abps.run.spool import Finished, Spool
from abps.tasks.spec import TaskSpec
from abps.trajectory import Failed, Trajectory

SPEC = TaskSpec("test", 3, 2, (-1.0, -1.0), (1.0, 1.0), horizon=20)
RECORD = {"parameters_crc": 1, "parameters_norm": 0.5}


def episode(seed, steps=5):
    rng = np.random.default_rng(seed)
    return Trajectory.build(
        rng.normal(size=(steps + 1, 3)),
        rng.normal(size=(steps, 2)),
        rng.normal(size=steps),
        terminated=bool(seed % 2),
        truncated=not seed % 2,
    )


def filled(folder, count=6):
    journal = Journal(folder, SPEC)
    for number in range(count):
        outcome = Failed(f"reason {number}") if number == 2 else episode(number, steps=3 + number)
        journal.append(outcome, {"query": number // 2, **RECORD}, 0.25)
    return journal


def same(one, other):
    if isinstance(one, Failed):
        return one == other
    return all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes()
        for name in ("observations", "actions", "rewards")
    ) and (one.terminated, one.truncated) == (other.terminated, other.truncated)


def test_episodes_come_back_bit_for_bit(tmp_path):
    filled(tmp_path)
    journal = Journal(tmp_path, SPEC)
    assert len(journal) == 6
    for number in range(6):
        assert same(Failed("reason 2") if number == 2 else episode(number, 3 + number), journal.outcome(number))
        assert journal.query_of(number) == number // 2
    assert not same(episode(0), episode(1))


def test_newest_covers_the_transitions_asked_for(tmp_path):
    journal = filled(tmp_path)
    lengths = [3, 4, 0, 6, 7, 8]
    assert [len(t) for t in journal.newest(9, before=6)] == lengths[4:]
    assert [len(t) for t in journal.newest(8, before=6)] == lengths[5:]
    assert [len(t) for t in journal.newest(1000, before=4)] == [3, 4, 6]
    assert list(journal.newest(0, before=6)) == []


@pytest.mark.parametrize("cut", range(1, 120, 7))
def test_half_written_line_is_cut_off(tmp_path, cut):
    filled(tmp_path)
    path = tmp_path / "journal.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    journal = Journal(tmp_path, SPEC)
    assert len(journal) == 5
    journal.repair()
    journal.append(episode(5, 8), {"query": 2, **RECORD}, 0.25)
    assert path.read_bytes() == content


def test_pages_of_zeros_left_by_a_power_loss_are_cut_off(tmp_path):
    filled(tmp_path)
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(bytes(4096) + b"}\n")
    assert len(Journal(tmp_path, SPEC)) == 6


def test_whole_but_wrong_last_line_is_damage_not_a_crash(tmp_path):
    filled(tmp_path)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"episode": 5', b'"episode": 6'))
    with pytest.raises(RunError, match="damaged at line 6"):
        Journal(tmp_path, SPEC)


def test_data_without_its_line_is_cut_off_but_many_episodes_are_not(tmp_path):
    journal = filled(tmp_path)
    path = tmp_path / "episodes.bin"
    content = path.read_bytes()
    append_synced(path, bytes(200), len(content))
    Journal(tmp_path, SPEC).repair()
    assert path.read_bytes() == content
    path.write_bytes(content + bytes(100_000))
    with pytest.raises(RunError, match="does not know of"):
        Journal(tmp_path, SPEC)
    assert len(journal) == 6


def test_damaged_episode_is_named(tmp_path):
    journal = filled(tmp_path)
    path = tmp_path / "episodes.bin"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(RunError, match="episode 0"):
        journal.outcome(0)
    assert same(journal.outcome(1), episode(1, 4))


def test_short_data_is_an_error(tmp_path):
    filled(tmp_path)
    path = tmp_path / "episodes.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunError, match="too few"):
        Journal(tmp_path, SPEC)


def test_fingerprint_depends_on_every_episode(tmp_path):
    journal = filled(tmp_path)
    prints = [journal.fingerprint(count) for count in range(7)]
    assert len(set(prints)) == 7
    assert Journal(tmp_path, SPEC).fingerprint(4) == prints[4]


def test_checked_json_notices_every_changed_byte():
    line = checked_json({"a": 1, "text": "é\ud800", "list": [1.5, None]})
    assert parse_checked_json(line) == {"a": 1, "text": "é\ud800", "list": [1.5, None]}
    for place in range(len(line)):
        changed = bytearray(line)
        changed[place] ^= 4
        assert parse_checked_json(bytes(changed)) is None


def test_replace_atomically_keeps_the_old_content_when_it_fails(tmp_path):
    path = tmp_path / "file"
    replace_atomically(path, b"old")
    with pytest.raises(RunError, match="cannot write"):
        replace_atomically(tmp_path / "missing" / "file", b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_spool_keeps_outcomes_and_attempts(tmp_path):
    spool = Spool(tmp_path, SPEC)
    cases = [Finished(episode(1), 0.5, ("it fell",)), Finished(Failed("no"), 0.1), Finished(None, 0.0, ("a", "b"))]
    for number, finished in enumerate(cases):
        spool.save(number, 7, finished)
        found = Spool(tmp_path, SPEC).load(number, 7)
        assert found.attempts == finished.attempts
        assert found.outcome is None if finished.outcome is None else same(finished.outcome, found.outcome)
        assert spool.load(number, 8) is None  # Another query's episode is not this one.
    spool.drop_before(2)
    assert spool.load(1, 7) is None
    assert spool.load(2, 7) is not None
    spool.drop_before(3)
    assert not (tmp_path / "spool").exists()
