"""A folder for runs that are only in memory: it goes with the object that holds it, or at the end of the process."""

import shutil
import tempfile
import weakref
from pathlib import Path

__all__ = ["TemporaryFolder"]


class TemporaryFolder:
    """Removed when nothing refers to it any more; `keep` leaves it where it is, after an error."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="abps-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep(self) -> None:
        """Leave the folder on disk, unless nothing of worth is in it."""
        if any(self.path.rglob("journal.jsonl")):
            self._remove.detach()
        else:
            self._remove()
