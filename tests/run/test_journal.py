"""The journal and the spool: what is appended comes back, what a crash leaves is cut off, anything else is an error."""

import errno
import itertools
import os
import threading

import numpy as np
import pytest

from abps.errors import RunError
from abps.run.files import (
    Piece,
    append_synced,
    append_together,
    checked_json,
    parse_checked_json,
    replace_atomically,
    replace_together,
)
from abps.run.journal import Journal, encode_trajectory, encoded_size
from abps.run.spool import Finished, Spool
from abps.settings import replace
from abps.tasks.constraints import Constraint
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


def test_costs_come_back_bit_for_bit(tmp_path):
    """A journal with constraints holds a column for each; without, its bytes are those of old."""
    spec = replace(SPEC, constraints=(Constraint("torque", 1.0), Constraint("wall", 2.0)))
    plain, rng = episode(1), np.random.default_rng(3)
    told = replace(plain, costs=rng.normal(size=(5, 2)))
    journal = Journal(tmp_path, spec)
    journal.append(told, {"query": 0, **RECORD}, 0.0)
    found = Journal(tmp_path, spec).outcome(0)
    assert same(found, told)
    assert isinstance(found, Trajectory)
    assert found.costs.tobytes() == told.costs.tobytes()
    assert encode_trajectory(told)[: len(encode_trajectory(plain))] == encode_trajectory(plain)
    spool = Spool(tmp_path, spec)
    spool.save(0, 0, Finished(told, 0.0))
    finished = spool.load(0, 0)
    assert finished is not None
    assert isinstance(finished.outcome, Trajectory)
    assert finished.outcome.costs.tobytes() == told.costs.tobytes()
    with pytest.raises(RunError, match="damaged"):
        Journal(tmp_path, SPEC)


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


def test_data_too_short_for_more_than_the_last_episode_is_an_error(tmp_path):
    filled(tmp_path)
    path = tmp_path / "episodes.bin"
    content = path.read_bytes()
    last = encoded_size(8, SPEC)  # Of the last episode, which has 8 steps.
    path.write_bytes(content[: -last - 1])
    with pytest.raises(RunError, match=r"episode 4 .* is damaged"):
        Journal(tmp_path, SPEC)
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"episode": 6')  # Its writing began when episode 5 was synced: no crash took episode 5's data.
    path.write_bytes(content[:-1])
    with pytest.raises(RunError, match="too few for episode 5"):
        Journal(tmp_path, SPEC)


SUBSETS = {
    "nothing": lambda piece: b"",
    "half": lambda piece: piece[: len(piece) // 2],
    "half, then zeros": lambda piece: piece[: len(piece) // 2] + bytes(len(piece) - len(piece) // 2),
    "zeros": lambda piece: bytes(len(piece)),
    "all": lambda piece: piece,
}


@pytest.mark.parametrize(("line", "data"), list(itertools.product(SUBSETS, [*SUBSETS, "garbage"])))
def test_whatever_a_power_loss_leaves_of_the_last_episode_is_all_of_it_or_none(tmp_path, line, data):
    filled(tmp_path, 5)
    lines, episodes = tmp_path / "journal.jsonl", tmp_path / "episodes.bin"
    before = len(lines.read_bytes()), len(episodes.read_bytes())
    Journal(tmp_path, SPEC).append(episode(5, 8), {"query": 2, **RECORD}, 0.25)
    whole = lines.read_bytes(), episodes.read_bytes()
    subsets = {**SUBSETS, "garbage": lambda piece: np.random.default_rng(0).bytes(len(piece))}
    left = subsets[line](whole[0][before[0] :]), subsets[data](whole[1][before[1] :])
    lines.write_bytes(whole[0][: before[0]] + left[0])
    episodes.write_bytes(whole[1][: before[1]] + left[1])
    journal = Journal(tmp_path, SPEC)
    survived, torn = (line, data) == ("all", "all"), line == "all" and data != "all"
    assert len(journal) == (6 if survived else 5)
    warnings = journal.repair()
    assert len(warnings) == torn
    kept = tmp_path / "discarded" / "00000005-1.torn"
    assert kept.exists() == torn
    if torn:
        assert "episode, 5," in warnings[0]
        assert str(kept) in warnings[0]
        assert kept.read_bytes() == left[0] + left[1]
    assert journal.repair() == []
    if not survived:
        assert (len(lines.read_bytes()), len(episodes.read_bytes())) == before
        journal.append(episode(5, 8), {"query": 2, **RECORD}, 0.25)
    assert (lines.read_bytes(), episodes.read_bytes()) == whole


def test_a_second_torn_episode_does_not_replace_the_first(tmp_path):
    filled(tmp_path)
    episodes = tmp_path / "episodes.bin"
    for blank in (b"\0", b"\1"):
        content = episodes.read_bytes()
        episodes.write_bytes(content[:-9] + 9 * blank)
        journal = Journal(tmp_path, SPEC)
        assert len(journal.repair()) == 1
        journal.append(episode(5, 8), {"query": 2, **RECORD}, 0.25)
    kept = sorted((tmp_path / "discarded").iterdir())
    assert [file.name for file in kept] == ["00000005-1.torn", "00000005-2.torn"]
    assert [file.read_bytes()[-9:] for file in kept] == [bytes(9), 9 * b"\1"]


def test_torn_episode_among_other_damage_is_no_crash_and_nothing_is_touched(tmp_path):
    filled(tmp_path)
    path = tmp_path / "episodes.bin"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(RunError, match=r"episode 0 .* is damaged"):
        Journal(tmp_path, SPEC)
    assert path.read_bytes() == content
    assert not (tmp_path / "discarded").exists()


def test_damage_that_a_checkpoint_rules_out_is_refused(tmp_path):
    filled(tmp_path).refuse_damage(known=7)  # Nothing is damaged.
    path = tmp_path / "episodes.bin"
    path.write_bytes(path.read_bytes()[:-1])
    journal = Journal(tmp_path, SPEC)
    journal.refuse_damage(known=5)
    with pytest.raises(RunError, match=r"episode 5 .* not by a crash"):
        journal.refuse_damage(known=6)


def test_both_files_are_synced_at_the_same_time(tmp_path, monkeypatch):
    """Each sync waits for the other to begin: one after the other would break the barrier."""
    journal, barrier, synced = filled(tmp_path), threading.Barrier(2, timeout=30.0), []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(barrier.wait()))
    journal.append(episode(6), {"query": 3, **RECORD}, 0.25)
    assert len(synced) == 2
    assert threading.active_count() == 1


@pytest.mark.parametrize("failing", [0, 1])
def test_sync_that_fails_leaves_both_files_as_they_were(tmp_path, monkeypatch, failing):
    journal = filled(tmp_path)
    names = ("episodes.bin", "journal.jsonl")
    before = [(tmp_path / name).read_bytes() for name in names]
    inode = (tmp_path / names[failing]).stat().st_ino

    def refuse(descriptor):
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(RunError, match=r"cannot append to .*: Input/output error"):
        journal.append(episode(6), {"query": 3, **RECORD}, 0.25)
    assert [(tmp_path / name).read_bytes() for name in names] == before
    monkeypatch.undo()
    journal.append(episode(6), {"query": 3, **RECORD}, 0.25)
    assert same(Journal(tmp_path, SPEC).outcome(6), episode(6))


def test_pieces_are_written_in_order(tmp_path):
    """What a full disk refuses leaves no later piece without an earlier one."""
    with pytest.raises(RunError, match="cannot append"):
        append_together(Piece(tmp_path / "missing" / "data", b"data", 0), Piece(tmp_path / "line", b"line", 0))
    assert not (tmp_path / "line").exists()


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


def test_replace_together_writes_all_before_it_renames_any(tmp_path):
    paths = [tmp_path / name for name in ("one", "two")]
    replace_together(dict.fromkeys(paths, b"old"))
    (tmp_path / "two.tmp").mkdir()  # In the way of the second temporary file.
    with pytest.raises(RunError, match=r"cannot write .*one and .*two"):
        replace_together(dict.fromkeys(paths, b"new"))
    assert [path.read_bytes() for path in paths] == [b"old", b"old"]
    assert not (tmp_path / "one.tmp").exists()
    (tmp_path / "two.tmp").rmdir()
    replace_together(dict.fromkeys(paths, b"new"))
    assert [path.read_bytes() for path in paths] == [b"new", b"new"]


def test_spool_keeps_outcomes_and_attempts(tmp_path):
    spool = Spool(tmp_path, SPEC)
    cases = [Finished(episode(1), 0.5, ("it fell",)), Finished(Failed("no"), 0.1), Finished(None, 0.0, ("a", "b"))]
    for number, finished in enumerate(cases):
        spool.save(number, 7, finished)
        found = Spool(tmp_path, SPEC).load(number, 7)
        assert found is not None
        assert found.attempts == finished.attempts
        assert found.outcome is None if finished.outcome is None else same(finished.outcome, found.outcome)
        assert spool.load(number, 8) is None  # Another query's episode is not this one.
    spool.drop_before(2)
    assert spool.load(1, 7) is None
    assert spool.load(2, 7) is not None
    spool.drop_before(3)
    assert not (tmp_path / "spool").exists()
