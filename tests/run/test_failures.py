"""Tests of `run/failures.py`: notes of failed attempts, also after crashes in the middle of writing one."""

from pathlib import Path

import pytest

from abps.run.failures import FAILURES_FILE, note_failure, read_failures
from abps.trajectory import Failed

NOTES = [(0, 0, Failed("one", "Traceback:\n\n  a line\nOne: one")), (0, 1, Failed("two")), (7, 0, Failed("three", "T"))]


def write(run: Path, count: int = len(NOTES)) -> bytes:
    for note in NOTES[:count]:
        note_failure(run, *note)
    return (run / FAILURES_FILE).read_bytes()


def test_every_attempt_has_its_note(tmp_path: Path) -> None:
    write(tmp_path)
    assert [note.partition(":")[0] for note in read_failures(tmp_path)] == [
        "episode 0",
        "episode 0, attempt 2",
        "episode 7",
    ]
    assert "a line" in read_failures(tmp_path)[0]


def test_an_attempt_made_again_is_noted_once(tmp_path: Path) -> None:
    whole = write(tmp_path)
    assert write(tmp_path) == whole
    note_failure(tmp_path, *NOTES[2])
    assert (tmp_path / FAILURES_FILE).read_bytes() == whole


@pytest.mark.parametrize("told", [1, 2, 3])
def test_a_note_cut_off_anywhere_is_replaced(tmp_path: Path, told: int) -> None:
    """The process dies while note number `told` is written; the attempt is made again."""
    before = len(write(tmp_path, told - 1)) if told > 1 else 0
    whole = write(tmp_path, told)
    for cut in range(before, len(whole)):
        (tmp_path / FAILURES_FILE).write_bytes(whole[:cut])
        note_failure(tmp_path, *NOTES[told - 1])
        assert (tmp_path / FAILURES_FILE).read_bytes() == whole, whole[:cut]
