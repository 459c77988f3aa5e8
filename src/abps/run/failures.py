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


def note_failure(run: Path, episode: int, attempt: int, failed: Failed) -> None:
    """Add a failed attempt at an episode; a disk that refuses costs the note, not the run."""
    head = f"episode {episode}" + (f", attempt {attempt + 1}" if attempt else "")
    text = f"{head}: {failed.reason}\n{failed.traceback[-MAX_TRACEBACK:].rstrip()}".rstrip() + "\n\n"
    path = run / FAILURES_FILE
    with suppress(OSError):
        if not path.exists() or path.stat().st_size < MAX_BYTES:
            with path.open("ab") as file:
                file.write(text.encode("utf-8", "replace"))


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
