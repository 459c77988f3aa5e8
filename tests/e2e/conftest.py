"""The end-to-end tests' own environments are tasks by `module:factory`: make their folder importable, here and in
subprocesses."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def zygote():
    import killing

    process = killing.Zygote()
    yield process
    process.close()


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """What a subprocess needs to find the tests' environments."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }


@pytest.fixture(scope="session")
def abps(environment):
    """Run the command line in a process of its own."""

    def call(*words: object, cwd: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "abps", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=300, check=False, **options
        )

    return call
