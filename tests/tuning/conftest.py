"""Studies of these tests live in memory: they are of hundreds of short episodes, each synced to disk."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of its own is made in it)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is synced at once, which is also where studies go that are only in memory."""
    made = Path(tempfile.mkdtemp(prefix="abps-tuning-", dir=MEMORY if MEMORY.is_dir() else None))
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    yield made
    shutil.rmtree(made, ignore_errors=True)
