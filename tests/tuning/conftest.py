"""A folder for studies."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is also where studies go that are only in memory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path
