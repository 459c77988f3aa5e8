"""failures.log: tracebacks of a run's failed episodes, for people; the journal has the reasons and is the truth."""

from contextlib import suppress
from pathlib import Path

from abps.run.files import read_bounded
from abps.trajectory import Failed

__all__ = ["FAILURES_FILE", "note_failure", "read_failures"]

FAILURES_FILE = "failures.log"
MAX_BYTES = 1024 * 1024
"""Nothing is added to a larger file: an environment that always fails says the same again and again."""
MAX_TRACEBACK = 16 * 1024
END = "\n\n"
"""Behind every note."""
FIRST = b"episode "
"""Every note begins with it."""


def note_failure(run: Path, episode: int, attempt: int, failed: Failed) -> None:
    """Add a failed attempt at an episode; a disk that refuses costs the note, not the run.

    An attempt that is made again, after a crash, is noted once: what was written from it on is replaced.
    """
    head = f"episode {episode}" + (f", attempt {attempt + 1}" if attempt else "")
    text = f"{head}: {failed.reason}\n{failed.traceback[-MAX_TRACEBACK:].rstrip()}".rstrip() + END
    path = run / FAILURES_FILE
    with suppress(OSError):
        known = path.read_bytes() if path.exists() else b""
        whole = _before(known, f"{head}:".encode())
        if len(whole) < MAX_BYTES:
            with path.open("r+b" if known else "wb") as file:
                file.truncate(len(whole))
                file.seek(len(whole))
                file.write(text.encode("utf-8", "replace"))


def _before(notes: bytes, head: bytes) -> bytes:
    """The whole notes before the one with this head; all whole ones if there is none."""
    end = END.encode()
    if notes.startswith(head):
        return b""
    same = notes.find(end + head)
    if same < 0 and notes.endswith(end):
        return notes
    if same < 0:  # The last note was cut off: inside its first word, or somewhere behind it.
        last = notes.rfind(end)
        cut_early = last >= 0 and FIRST.startswith(notes[last + len(end) :])
        same = last if cut_early else notes.rfind(end + FIRST)
    return notes[: same + len(end)] if same >= 0 else b""


def read_failures(run: Path) -> list[str]:
    """The notes of failed attempts, oldest first; each begins with its episode.

    Raises:
        RunError: the file cannot be read.
    """
    if not (run / FAILURES_FILE).exists():
        return []
    text = read_bounded(run / FAILURES_FILE, 4 * MAX_BYTES).decode("utf-8", "replace")
    notes: list[str] = []
    for line in text.splitlines():
        if line.startswith("episode ") or not notes:
            notes.append(line)
        else:
            notes[-1] += f"\n{line}"
    return [note.rstrip() for note in notes]
