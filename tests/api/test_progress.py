"""The line that a person sees while a run trains, in a terminal of 80 columns."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

LONG = "abps.tasks.lqr:s2_a1_seed0"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_long_name_is_not_broken_into_pieces(tmp_path: Path) -> None:
    """It stood in a column of eleven characters: `abs on`, `beam:BallBe`, `am`."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    words = ["train", LONG, "--search", "ars", "--episodes", "40", "--runs", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "abps", *words], stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    ) as child:
        os.close(theirs)
        shown = b""
        while child.poll() is None or select.select([ours], [], [], 0.2)[0]:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # The other end is closed.
                    break
    os.close(ours)
    assert child.returncode == 0
    lines = [
        line.strip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").split("\n")
    ]
    assert lines[0] == f"ars on {LONG}"
    assert any(re.search(r"40/40 episodes .*best", line) for line in lines)
