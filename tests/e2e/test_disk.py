"""A disk that fills: a clear error, nothing lost, and the run goes on when there is room again."""

import os
import subprocess

import killing
import pytest

from abps.errors import RunError
from abps.run.directory import read_settings
from abps.run.loop import train


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 200 kB; needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("room", range(0, 40_000, 5_000))
def test_full_disk(room, small_disk, tmp_path):
    reference = killing.make_run(tmp_path / "reference", "ars", env="FlakyEnv")
    train(reference, read_settings(reference))
    path = killing.make_run(small_disk / "run", "ars", env="FlakyEnv")
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        status = os.statvfs(small_disk)
        file.write(bytes(max(status.f_bavail * status.f_bsize - room, 0)))
    with pytest.raises(RunError, match="No space left on device"):
        train(path, read_settings(path))
    recorded = killing.journal_of(path)
    assert recorded == killing.journal_of(reference)[: len(recorded)]
    ballast.unlink()
    train(path, read_settings(path))
    assert killing.differences(killing.comparable(reference), killing.comparable(path)) == []
